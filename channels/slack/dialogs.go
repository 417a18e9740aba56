package slack

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	api "github.com/slack-go/slack"

	"github.com/approvalbot/approvalbot/channels"
	"github.com/approvalbot/approvalbot/gate"
)

// dialogs are what modals ask for, by the action that opens them.
var dialogs = map[string]*channels.Form{actDeny: &channels.DenyForm, actAsk: &channels.AskForm, actAnswer: &channels.AnswerForm}

// where is the card that a modal belongs to; it travels with the modal. Nothing in
// it is believed: what is decided there is decided as if it were pressed on the card.
type where struct {
	Approval gate.ID      `json:"id"`
	Ref      channels.Ref `json:"ref"`
	Proof    string       `json:"proof,omitempty"`    // of a private card, and
	Reply    string       `json:"reply,omitempty"`    // the address at which it can be replaced, or
	View     string       `json:"view,omitempty"`     // the modal that it is in, or
	Home     bool         `json:"home,omitempty"`     // it is on their Home tab
	Required bool         `json:"required,omitempty"` // a reason; the gate wants it too
	Page     int          `json:"page,omitempty"`     // of the full view
}

// The inputs of a modal.
const (
	choiceBlock, choiceAction = "choice", "chosen"
	inputBlock, inputAction   = "words", "text"
)

// readWithin bounds the reading of a card before a modal, so that what is left of
// the life of its trigger is enough to open it.
const readWithin = time.Second

// read returns the card as it is now, nil if that is not known soon.
func (p *Presses) read(ctx context.Context, id gate.ID) *channels.Card {
	if p.Card == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	c, err := p.Card(ctx, id)
	if err != nil {
		p.Log.WarnContext(ctx, "a card could not be read", "approval", string(id), "err", err)
		return nil
	}
	return c
}

// open shows the modal of an action, behind the answer to Slack. Where there is
// nothing to do any more the person is told how it stands. A trigger lives for three
// seconds; who was too late is asked to press again.
func (p *Presses) open(ctx context.Context, in *interaction, k channels.Click, action string) {
	p.behind(ctx, in, func(ctx context.Context) {
		d, c, w := dialogs[action], p.read(ctx, k.Approval), in.place(k)
		if c != nil && !d.Live(c) {
			p.tell(ctx, in, k.Ref, c.Line)
			return
		}
		w.Required = c != nil && c.ReasonRequired && d.Choice == gate.Deny
		p.show(ctx, in, k, func() (api.ModalViewRequest, error) { return modal(action, c, w) })
	})
}

// place is the card that was pressed, for a modal that is opened from it.
func (in *interaction) place(k channels.Click) where {
	w := where{Approval: k.Approval, Ref: k.Ref, Proof: k.Proof}
	if k.Proof != "" {
		w.Reply, w.View, w.Home = in.Reply, in.at.view, in.at.home
	}
	return w
}

// show opens a modal.
func (p *Presses) show(ctx context.Context, in *interaction, k channels.Click, draw func() (api.ModalViewRequest, error)) {
	view, err := draw()
	if in.kept != nil {
		err = errors.New("its trigger is no more")
	}
	if err == nil {
		opening, cancel := context.WithTimeout(ctx, modalWithin)
		defer cancel()
		open := p.Slack.client().OpenViewContext
		if in.at.view != "" {
			open = p.Slack.client().PushViewContext // on top of the card
		}
		_, err = open(opening, in.Trigger, view)
	}
	if err != nil {
		p.Log.WarnContext(ctx, "a dialog could not be opened", "approval", string(k.Approval), "err", err)
		p.tell(ctx, in, k.Ref, "That took too long, and nothing was decided; press again.")
	}
}

// modal draws a dialog. Of a card that could not be read it says nothing.
func modal(action string, c *channels.Card, w where) (api.ModalViewRequest, error) {
	metadata, err := json.Marshal(w)
	d := dialogs[action]
	var blocks []api.Block
	if c != nil {
		blocks = append(blocks, section(head(c)))
		if d.Choice == channels.Reply {
			blocks = append(blocks, section(strings.TrimSpace(c.Dialogue+"\n"+c.Line)))
		}
	}
	if d.Reasons != nil {
		blocks = append(blocks, reasons(d, w.Required))
	}
	words := api.NewPlainTextInputBlockElement(nil, inputAction)
	words.Multiline, words.MaxLength = true, d.Most
	input := api.NewInputBlock(inputBlock, plain(d.Label, maxOption), nil, words)
	input.Optional = d.Reasons != nil
	return api.ModalViewRequest{
		Type: api.VTModal, CallbackID: action, PrivateMetadata: string(metadata),
		Title: plain(d.Title, maxOption), Submit: plain(d.Submit, maxOption), Close: plain("Cancel", maxOption),
		Blocks: api.Blocks{BlockSet: append(blocks, input)},
	}, err
}

// head says which call a modal is about.
func head(c *channels.Card) string {
	goes, _ := c.Whither(maxName)
	return strings.TrimSpace(cut(c.Title, maxWarning) + "\n" + goes)
}

func reasons(d *channels.Form, required bool) api.Block {
	var options []*api.OptionBlockObject
	for _, r := range d.Reasons {
		options = append(options, api.NewOptionBlockObject(r, plain(r, maxOption), nil))
	}
	menu := api.NewOptionsSelectBlockElement(api.OptTypeStatic, plain("Choose a reason", maxOption), choiceAction, options...)
	input := api.NewInputBlock(choiceBlock, plain(channels.Why(required), maxOption), nil, menu)
	input.Optional = true
	return input
}

// reason is what was chosen and typed, and which field lacks something, if one does.
func (in *interaction) reason(d *channels.Form, required bool) (text string, lacks map[string]string) {
	values := in.View.State.Values
	text, l := d.Reason(values[choiceBlock][choiceAction].Chosen.Value, values[inputBlock][inputAction].Value, required)
	switch {
	case l.Chosen != "":
		return "", map[string]string{choiceBlock: l.Chosen}
	case l.Words != "":
		return "", map[string]string{inputBlock: l.Words}
	}
	return text, nil
}

// submitted takes what was typed. If something lacks, the modal stays and says so;
// else it closes, and what came of it the person is told below the card.
func (p *Presses) submitted(ctx context.Context, in *interaction) (answer []byte, err error) {
	d, known := dialogs[in.View.Callback]
	w, err := in.where()
	if err != nil || !known {
		return nil, errors.New("payload: a dialog that is not ours")
	}
	text, lacks := in.reason(d, w.Required)
	if lacks != nil {
		return json.Marshal(api.NewErrorsViewSubmissionResponse(lacks))
	}
	in.at = spot{user: in.User.ID, reply: w.Reply, channel: conversation(w.Ref.Place), view: w.View, home: w.Home}
	p.decide(ctx, in, channels.Click{
		Approval: w.Approval, Ref: w.Ref, Ours: w.Proof == "", Proof: w.Proof, Choice: d.Choice, Reason: text,
		Nonce: name + " " + in.View.ID,
	})
	return nil, nil
}

// where is the card that a modal was opened from.
func (in *interaction) where() (w where, err error) {
	if err := json.Unmarshal([]byte(in.View.Metadata), &w); err != nil {
		return w, err
	}
	w.Approval, err = gate.ParseID(string(w.Approval))
	return w, err
}
