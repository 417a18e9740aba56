package mattermost

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/mattermost/mattermost/server/public/model"

	"github.com/approvalbot/approvalbot/channels"
	"github.com/approvalbot/approvalbot/gate"
)

// forms are what dialogs ask for, by the action that opens them. An approval asks
// for nothing but to be sure.
var forms = map[string]*channels.Form{actDeny: &channels.DenyForm, actAsk: &channels.AskForm, actAnswer: &channels.AnswerForm}

// The elements of a dialog, and Mattermost's limits for them, in characters.
const (
	elementChosen, elementWords = "chosen", "words"

	maxDialogTitle = 24
	maxQuestion    = 2000
)

// openWithin bounds what is done before a dialog is there. The trigger that opens it
// may live for three seconds only, if an admin has set that.
const openWithin = 2500 * time.Millisecond

// ask opens the dialog of a button. An approval for once that needs no second look is
// decided at once. Where there is nothing to do any more the person is told how it
// stands.
func (p *Presses) ask(ctx context.Context, in *pressed, b button, k channels.Click) string {
	c, err := p.Card(ctx, b.approval)
	if err != nil {
		p.Log.WarnContext(ctx, "a card could not be read", "approval", string(b.approval), "err", err)
		return gate.PressText(gate.Press{Reason: gate.ReasonOf(err)})
	}
	form := forms[b.action]
	if form == nil {
		if k.Choice = gate.Approve; !c.Approve || p.sure(in, b, c) {
			return p.decide(ctx, k) // which knows why not
		}
	} else if !form.Live(c) {
		return lines(c.Line, maxSaid)
	}
	if err := p.open(ctx, in, b, k, c); err != nil {
		p.Log.WarnContext(ctx, "a dialog could not be opened", "approval", string(b.approval), "err", err)
		return "The dialog could not be opened, and nothing was decided; press again."
	}
	return ""
}

// sure reports whether an approval needs no second look: it is for once, nothing is to
// be confirmed, and only Mattermost itself can have sent the press. Without that,
// somebody could have sent one that this person has given to another integration. And
// what the person has read must be what we draw: admins can edit what a bot has posted.
func (p *Presses) sure(in *pressed, b button, c *channels.Card) bool {
	return b.action == actApprove && c.Confirm == "" && len(p.Mattermost.allow) > 0 && reads(in.post, c)
}

// open opens a dialog. Only the person whose trigger it is sees it.
func (p *Presses) open(ctx context.Context, in *pressed, b button, k channels.Click, c *channels.Card) error {
	now := time.Now()
	state, err := pass{
		Approval: b.approval, Digest: b.digest.Hex(), Action: b.action, Scope: string(k.Scope), User: in.User,
		Channel: in.Channel, Post: in.Post, Thread: k.Ref.Thread, Ours: k.Ours, Required: b.action == actDeny && c.ReasonRequired,
		Nonce: rand.Text(), Until: now.Add(passLife).Unix(),
	}.seal(p.Mattermost.Keys)
	if err != nil {
		return err
	}
	d := dialog(b, c)
	d.State = state
	ctx, cancel := context.WithTimeout(ctx, openWithin)
	defer cancel()
	resp, err := p.Mattermost.api().OpenInteractiveDialog(ctx, model.OpenDialogRequest{
		TriggerId: in.Trigger, URL: p.Mattermost.callback + DialogsPath, Dialog: d,
	})
	if err != nil {
		return failed("mattermost.dialog", resp, err)
	}
	return nil
}

// dialog draws the dialog of a button.
func dialog(b button, c *channels.Card) model.Dialog {
	d := model.Dialog{CallbackId: b.action, IntroductionText: head(c), Elements: []model.DialogElement{}}
	form := forms[b.action]
	if form == nil {
		d.Title, d.SubmitLabel = "Approve?", "Approve"
		d.IntroductionText += "\n\n" + question(b, c)
		return d
	}
	d.Title, d.SubmitLabel = cut(form.Title, maxDialogTitle), form.Submit
	if form.Choice == channels.Reply {
		d.IntroductionText += "\n\n" + lines(c.Dialogue+"\n"+c.Line, maxDialogue)
	}
	words := model.DialogElement{
		DisplayName: "In words", Name: elementWords, Type: "textarea", HelpText: form.Label, MaxLength: form.Most, Optional: form.Reasons != nil,
	}
	if form.Reasons != nil {
		d.Elements = append(d.Elements, reasons(form, c.ReasonRequired))
	}
	d.Elements = append(d.Elements, words)
	return d
}

// head says which call a dialog is about.
func head(c *channels.Card) string {
	goes, _ := c.Whither(maxFact)
	return strings.TrimSpace(bold(cut(c.Title, maxTitle)) + "\n" + lines(goes, 4*maxFact))
}

// notYou is for whoever did not press, and is asked all the same.
const notYou = "If you did not press Approve, cancel: somebody else did."

// question is what an approver is asked once more.
func question(b button, c *channels.Card) string {
	i := slices.IndexFunc(c.Scopes, func(s channels.Choice) bool { return string(s.Scope) == b.chosen })
	switch {
	case b.action == actScope && i >= 0:
		s := c.Scopes[i]
		return inert(s.Name+": "+s.Lasts) + "\n\n" + lines(c.Question([]channels.Choice{s}), maxQuestion) + "\n\n" + notYou
	case c.Confirm != "":
		return inert(c.Confirm) + "\n\nCall " + c.Digest.Short() + ", for this time. " + notYou
	}
	return "Call " + c.Digest.Short() + ", for this time. " + notYou
}

func reasons(form *channels.Form, required bool) model.DialogElement {
	e := model.DialogElement{
		DisplayName: "Why?", Name: elementChosen, Type: "select", Placeholder: "Choose a reason", Optional: true,
	}
	if required {
		e.HelpText = "This rule wants a reason: choose one, write one, or both."
	}
	for _, r := range form.Reasons {
		e.Options = append(e.Options, &model.PostActionOptions{Text: r, Value: r})
	}
	return e
}

// submission is what comes of a dialog. All of it but the user is as the sender
// wants, and where Mattermost is not asked to send it, the user too.
type submission struct {
	Type      string         `json:"type"`
	User      string         `json:"user_id"`
	State     string         `json:"state"`
	Cancelled bool           `json:"cancelled"`
	Values    map[string]any `json:"submission"`
}

// Dialogs receives what people type into dialogs.
type Dialogs struct{ *Presses }

// ServeHTTP takes what somebody sends. Whoever holds a pass of ours is told what is
// wrong in the dialog; anybody else gets no such answer.
func (d Dialogs) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var in submission
	if !d.Mattermost.read(w, r, &in) {
		return
	}
	if in.Type != "dialog_submission" {
		http.Error(w, "want what was typed into a dialog", http.StatusBadRequest)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), decideWithin)
	defer cancel()
	p, err := admit(d.Mattermost.Keys, in.State, in.User, time.Now())
	switch {
	case errors.Is(err, errNoPass):
		d.Log.WarnContext(ctx, "a dialog that we did not open for this person", "user", in.User, "from", r.RemoteAddr)
		http.Error(w, "no dialog of this person", http.StatusForbidden)
	case in.Cancelled:
		reply(w, model.SubmitDialogResponse{})
	case err != nil:
		reply(w, model.SubmitDialogResponse{Error: "This was open for more than 30 minutes. Nothing was decided; press the button again."})
	default:
		reply(w, d.submitted(ctx, &in, p))
	}
}

func reply(w http.ResponseWriter, answer model.SubmitDialogResponse) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer) // who has hung up is shown an error anyway
}

// submitted decides what a dialog was for. If something lacks, it stays open and says
// so; a dialog that closes has done what it says.
func (d Dialogs) submitted(ctx context.Context, in *submission, p pass) model.SubmitDialogResponse {
	k := channels.Click{
		Approval: p.Approval, Ours: p.Ours, Scope: gate.Scope(p.Scope), Nonce: name + " " + p.Nonce,
		Ref: channels.Ref{Place: name + ":" + p.Channel, Message: p.Post, Thread: p.Thread},
	}
	var err error
	if k.Digest, err = gate.ParseDigest(p.Digest); err != nil { // the seal is ours
		return model.SubmitDialogResponse{Error: notValid}
	}
	if form := forms[p.Action]; form == nil {
		k.Choice = gate.Approve
	} else {
		var lacks map[string]string
		if k.Reason, lacks = typed(form, in.Values, p.Required); lacks != nil {
			return model.SubmitDialogResponse{Errors: lacks}
		}
		k.Choice = form.Choice
	}
	return d.once(ctx, p, k)
}

// once decides, if this dialog was not sent before.
func (d Dialogs) once(ctx context.Context, p pass, k channels.Click) model.SubmitDialogResponse {
	looking, cancel := context.WithTimeout(ctx, lookWithin)
	voter, err := d.Mattermost.voter(looking, p.User)
	cancel()
	if err != nil {
		d.Log.WarnContext(ctx, "a presser could not be looked up", "user", p.User, "err", err)
		return model.SubmitDialogResponse{Error: gate.PressText(gate.Press{Reason: gate.ReasonIdentityUnavailable})}
	}
	k.Voter = voter
	first, err := fresh(ctx, d.Kept, "dialog "+p.Nonce, passLife+time.Minute)
	switch {
	case err != nil:
		return model.SubmitDialogResponse{Error: gate.PressText(gate.Press{Reason: gate.ReasonOf(err)})}
	case !first:
		return model.SubmitDialogResponse{Error: "This was sent before. Nothing more was done."}
	}
	if text, err := d.Press(ctx, k); err != nil {
		return model.SubmitDialogResponse{Error: text}
	}
	return model.SubmitDialogResponse{}
}

// typed is what somebody chose and wrote, or which element lacks something.
func typed(form *channels.Form, values map[string]any, required bool) (text string, lacks map[string]string) {
	chosen, isText := values[elementChosen].(string)
	if values[elementChosen] != nil && !isText {
		return "", map[string]string{elementChosen: "Choose a reason from the list."}
	}
	words, isText := values[elementWords].(string)
	if values[elementWords] != nil && !isText {
		return "", map[string]string{elementWords: "Want text."}
	}
	if n := utf8.RuneCountInString(words); n > form.Most {
		return "", map[string]string{elementWords: fmt.Sprintf("At most %d characters; these are %d.", form.Most, n)}
	}
	if form.Reasons == nil && strings.TrimSpace(words) == "" {
		return "", map[string]string{elementWords: "Write something."}
	}
	text, l := form.Reason(chosen, words, required)
	switch {
	case l.Chosen != "":
		return "", map[string]string{elementChosen: l.Chosen}
	case l.Words != "":
		return "", map[string]string{elementWords: l.Words}
	}
	return text, nil
}
