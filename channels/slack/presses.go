package slack

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	api "github.com/slack-go/slack"

	"github.com/approvalbot/approvalbot/channels"
	"github.com/approvalbot/approvalbot/gate"
	"github.com/approvalbot/approvalbot/gate/secret"
)

// Presses receives what people press on cards and type into their dialogs. Slack
// wants an answer within three seconds, so a decision is made after it, and the
// presser is told privately.
type Presses struct {
	Slack         *Slack
	Press         channels.ClickFunc
	Private       channels.PrivateFunc // for cards in answers; nil: Press refuses them
	Commands      *Commands            // whose answers have buttons; nil: there are none
	SigningSecret secret.String
	Kept          gate.Presses // what is not decided yet; nil keeps nothing
	Log           *slog.Logger
	// Card reads an approval as it is now, for dialogs and the full view. Without it
	// dialogs say less, and there is no full view.
	Card func(context.Context, gate.ID) (*channels.Card, error)

	work sync.WaitGroup
}

// Limits of one request, and of what is done after it was answered.
const (
	maxRequest   = 1 << 20
	modalWithin  = 2 * time.Second // a trigger lives for three
	decideWithin = 10 * time.Second
)

// ServeHTTP is the interactivity request URL of an app that does not use Socket
// Mode. Nothing of a request is looked at before its signature.
func (p *Presses) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := signed(w, r, p.SigningSecret)
	if err != nil {
		p.Log.WarnContext(r.Context(), "a request that Slack did not sign", "err", err)
		http.Error(w, "not signed by Slack", http.StatusUnauthorized)
		return
	}
	form, err := url.ParseQuery(string(body))
	if err == nil && form.Get("ssl_check") == "1" {
		return // it only looks at our certificate
	}
	if err != nil || len(form["payload"]) != 1 {
		http.Error(w, "want one payload", http.StatusBadRequest)
		return
	}
	answer, err := p.Receive(r.Context(), []byte(form.Get("payload")))
	if err != nil {
		p.Log.WarnContext(r.Context(), "a press that is not understood", "err", err)
		http.Error(w, "not for this app", http.StatusForbidden)
		return
	}
	if answer != nil {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(answer) // who has hung up is shown an error anyway
	}
}

var errNotOurs = errors.New("payload: of another app, or of nobody")

// interaction is the little of a payload that a decision needs. slack-go's own
// type reads every block of the message, and loses the press with one it does not
// know.
type interaction struct {
	Type    string `json:"type"`
	App     string `json:"api_app_id"`
	Trigger string `json:"trigger_id"`
	Reply   string `json:"response_url"`
	User    struct {
		ID string `json:"id"`
	} `json:"user"`
	Container struct {
		Channel string `json:"channel_id"`
		Message string `json:"message_ts"`
		Thread  string `json:"thread_ts"`
		Private bool   `json:"is_ephemeral"`
	} `json:"container"`
	Actions []struct {
		Action string `json:"action_id"`
		Block  string `json:"block_id"`
		Value  string `json:"value"`
		At     string `json:"action_ts"`
		Chosen struct {
			Value string `json:"value"`
		} `json:"selected_option"`
	} `json:"actions"`
	View struct {
		ID       string `json:"id"`
		Type     string `json:"type"`
		Hash     string `json:"hash"`
		Callback string `json:"callback_id"`
		Metadata string `json:"private_metadata"`
		State    struct {
			Values map[string]map[string]struct {
				Value  string `json:"value"`
				Chosen struct {
					Value string `json:"value"`
				} `json:"selected_option"`
			} `json:"values"`
		} `json:"state"`
	} `json:"view"`

	kept []byte // as it was, if it was taken over from a replica that died over it
	at   spot   // where what comes of it is shown
}

// Receive takes one interaction, from HTTP or from a socket. It returns soon, and
// what Slack is to be answered, if anything; an error is about a payload that is
// none of ours.
func (p *Presses) Receive(ctx context.Context, payload []byte) (answer []byte, err error) {
	var in interaction
	if err := json.Unmarshal(payload, &in); err != nil {
		return nil, errors.New("payload: not JSON as Slack writes it")
	}
	if !p.Slack.ours(in.User.ID, in.App) {
		return nil, errNotOurs
	}
	return p.take(ctx, &in)
}

func (p *Presses) take(ctx context.Context, in *interaction) (answer []byte, err error) {
	switch in.Type {
	case "block_actions":
		return nil, p.pressed(ctx, in)
	case "view_submission":
		return p.submitted(ctx, in)
	}
	return nil, nil // closing a dialog decides nothing
}

func (p *Presses) pressed(ctx context.Context, in *interaction) error {
	if len(in.Actions) != 1 {
		return errors.New("payload: want one action")
	}
	a := in.Actions[0]
	in.at = spot{user: in.User.ID, reply: in.Reply, channel: in.Container.Channel}
	switch in.View.Type {
	case viewHome:
		in.at.home, in.at.trigger = true, in.Trigger
	case viewModal:
		in.at.view = in.View.ID
	}
	switch a.Action {
	case actOpen:
		return nil // a link
	case actBack, actOn:
		return p.turn(ctx, in, a.Action)
	}
	if strings.HasPrefix(a.Action, actCommand) && p.Commands != nil {
		p.Commands.pressed(ctx, in, a.Value)
		return nil
	}
	block, rest, _ := strings.Cut(a.Block, ":")
	_, proof, _ := strings.Cut(rest, ":")
	id, err := gate.ParseID(cmp.Or(a.Value, block))
	if err != nil {
		return err
	}
	k := channels.Click{
		Approval: id, Ref: channels.Ref{Place: name + ":" + in.Container.Channel, Message: in.Container.Message, Thread: in.Container.Thread},
		Ours:  !in.Container.Private && in.View.ID == "", // Slack brings this app only the presses of its own messages
		Proof: proof,
		Nonce: strings.Join([]string{name, in.User.ID, in.Container.Message, a.At}, " "),
	}
	switch a.Action {
	case actApprove:
		k.Choice = gate.Approve
	case actScope:
		k.Choice, k.Scope = gate.Approve, gate.Scope(a.Chosen.Value)
	case actTakeBack:
		k.Choice = gate.Deny
	case actRan:
		k.Choice = channels.Ran
	case actNotRun:
		k.Choice = channels.NotRun
	case actAgain:
		k.Choice = channels.RunAgain
	case actDeny, actAsk, actAnswer:
		p.open(ctx, in, k, a.Action)
		return nil
	case actFull:
		p.openFull(ctx, in, k)
		return nil
	default:
		return errors.New("payload: an action of no card")
	}
	p.decide(ctx, in, k)
	return nil
}

// decide makes the decision behind the answer to Slack, and tells the presser.
func (p *Presses) decide(ctx context.Context, in *interaction, k channels.Click) {
	p.behind(ctx, in, func(ctx context.Context) {
		text := gate.PressText(gate.Press{Reason: gate.ReasonIdentityUnavailable})
		voter, err := p.Slack.known(ctx, in.User.ID, in.App)
		switch {
		case err != nil:
			p.Log.WarnContext(ctx, "a presser could not be looked up", "user", in.User.ID, "err", err)
		case k.Proof != "" && p.Private != nil:
			k.Voter = voter
			p.answer(ctx, in, k.Approval, p.Private(ctx, k))
			return
		default:
			k.Voter = voter
			text = p.Press(ctx, k)
		}
		p.tell(ctx, in, k.Ref, text)
	})
}

// answer shows what came of a press on a private card, in its place.
func (p *Presses) answer(ctx context.Context, in *interaction, id gate.ID, a channels.Answer) {
	if a.Beside && in.at.in() {
		a.Buttons = append(a.Buttons, channels.Button{Label: "Show again", Command: "show " + string(id)})
	}
	at := in.at
	if at.home {
		at.trigger = "" // it stays on the tab
		a.Buttons = append(a.Buttons, channels.Button{Label: "Pending", Command: "pending"})
	}
	if err := p.Slack.show(ctx, at, a, !a.Beside); err != nil {
		p.Log.WarnContext(ctx, "a presser could not be told", "user", in.User.ID, "err", err)
	}
	if in.at.view != "" && p.Commands != nil && p.Commands.Home {
		p.Commands.publish(ctx, in.App, in.User.ID)
	}
}

// behind does what a press asks for when Slack has its answer. Until it is done,
// the press is kept.
func (p *Presses) behind(ctx context.Context, in *interaction, do func(context.Context)) {
	ctx = context.WithoutCancel(ctx)
	kept := p.keep(ctx, in)
	ctx, cancel := context.WithTimeout(ctx, decideWithin)
	p.work.Go(func() {
		defer cancel()
		do(ctx)
		p.forget(ctx, kept)
	})
}

// tell shows a text to the presser alone.
func (p *Presses) tell(ctx context.Context, in *interaction, card channels.Ref, text string) {
	if in.at.in() {
		p.answer(ctx, in, "", channels.Answer{Lines: []string{text}})
		return
	}
	err := p.Slack.answer(ctx, in.at.reply, text)
	if err != nil {
		_, err = p.Slack.client().PostEphemeralContext(ctx, conversation(card.Place), in.User.ID, api.MsgOptionText(fallback(text), false), api.MsgOptionParse(false))
	}
	if err != nil {
		p.Log.WarnContext(ctx, "a presser could not be told", "user", in.User.ID, "err", err)
	}
}

// Wait returns when all that was pressed has been decided and answered.
func (p *Presses) Wait() { p.work.Wait() }

// answer says something to who pressed, at the address that came with the press.
func (s *Slack) answer(ctx context.Context, to, text string) error {
	return s.respond(ctx, to, map[string]any{"response_type": "ephemeral", "replace_original": false, "text": fallback(text)})
}

// respond uses the address that came with a press or a command. It is a secret, so
// errors do not show it; and it must lead to Slack, whoever wrote it.
func (s *Slack) respond(ctx context.Context, to string, message map[string]any) error {
	if u, err := url.Parse(to); to == "" || err != nil || !s.isSlack(u) {
		return errors.New("no address to answer to")
	}
	body, err := marshal(message)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return errors.New("the address to answer to is none")
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := s.http.Do(req)
	if err != nil {
		return errors.New("the answer was not taken")
	}
	defer func() { _ = resp.Body.Close() }()
	said, err := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
	if err != nil || resp.StatusCode != http.StatusOK || strings.Contains(string(said), `"ok":false`) {
		return errors.New("the answer was refused")
	}
	return nil
}

// isSlack reports whether an address is one of Slack's, or of what stands in for
// it.
func (s *Slack) isSlack(u *url.URL) bool {
	if own, err := url.Parse(s.url); err == nil && s.url != "" && u.Scheme == own.Scheme && u.Host == own.Host {
		return true
	}
	return u.Scheme == "https" && (u.Host == "hooks.slack.com" || u.Host == "hooks.slack-gov.com")
}
