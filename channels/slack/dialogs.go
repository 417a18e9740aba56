package slack

import (
	"context"
	"encoding/json"
	"errors"

	api "github.com/slack-go/slack"

	"github.com/approvalbot/approvalbot/channels"
	"github.com/approvalbot/approvalbot/gate"
)

// dialog is what a modal asks for before it decides.
type dialog struct {
	choice               gate.Choice
	title, label, submit string
	optional             bool
}

var dialogs = map[string]dialog{
	actDeny: {gate.Deny, "Deny", "Why? The agent is told.", "Deny", true},
	actAsk:  {gate.NeedContext, "Ask the agent", "What should it answer?", "Ask", false},
}

// where is the card that a modal belongs to; it travels with the modal.
type where struct {
	Approval gate.ID      `json:"id"`
	Ref      channels.Ref `json:"ref"`
	Proof    string       `json:"proof,omitempty"` // of a private card, and
	Reply    string       `json:"reply,omitempty"` // the address at which it can be replaced, or
	View     string       `json:"view,omitempty"`  // the modal that it is in, or
	Home     bool         `json:"home,omitempty"`  // it is on their Home tab
}

// The input of a modal.
const (
	inputBlock  = "words"
	inputAction = "text"
)

// open shows the modal of an action, behind the answer to Slack. A trigger lives
// for three seconds; who was too late is asked to press again.
func (p *Presses) open(ctx context.Context, in *interaction, k channels.Click, action string) {
	p.behind(ctx, in, func(ctx context.Context) {
		w := where{Approval: k.Approval, Ref: k.Ref, Proof: k.Proof}
		if k.Proof != "" {
			w.Reply, w.View, w.Home = in.Reply, in.at.view, in.at.home
		}
		metadata, err := json.Marshal(w)
		if in.kept != nil {
			err = errors.New("its trigger is no more")
		}
		if err == nil {
			opening, cancel := context.WithTimeout(ctx, modalWithin)
			defer cancel()
			show := p.Slack.client().OpenViewContext
			if w.View != "" {
				show = p.Slack.client().PushViewContext // on top of the card
			}
			_, err = show(opening, in.Trigger, modal(action, dialogs[action], string(metadata)))
		}
		if err != nil {
			p.Log.WarnContext(ctx, "a dialog could not be opened", "approval", string(k.Approval), "err", err)
			p.tell(ctx, in, k.Ref, "That took too long, and nothing was decided; press again.")
		}
	})
}

func modal(action string, d dialog, metadata string) api.ModalViewRequest {
	input := api.NewPlainTextInputBlockElement(nil, inputAction)
	input.Multiline, input.MaxLength = true, gate.MaxWords
	block := api.NewInputBlock(inputBlock, plain(d.label, maxOption), nil, input)
	block.Optional = d.optional
	return api.ModalViewRequest{
		Type: api.VTModal, CallbackID: action, PrivateMetadata: metadata,
		Title: plain(d.title, maxOption), Submit: plain(d.submit, maxOption), Close: plain("Cancel", maxOption),
		Blocks: api.Blocks{BlockSet: []api.Block{block}},
	}
}

// submitted takes what was typed. The modal closes; what came of it the person is
// told below the card.
func (p *Presses) submitted(ctx context.Context, in *interaction) error {
	d, known := dialogs[in.View.Callback]
	var w where
	if err := json.Unmarshal([]byte(in.View.Metadata), &w); err != nil || !known {
		return errors.New("payload: a dialog that is not ours")
	}
	id, err := gate.ParseID(string(w.Approval))
	if err != nil {
		return err
	}
	in.at = spot{user: in.User.ID, reply: w.Reply, channel: conversation(w.Ref.Place), view: w.View, home: w.Home}
	p.decide(ctx, in, channels.Click{
		Approval: id, Ref: w.Ref, Ours: w.Proof == "", Proof: w.Proof, Choice: d.choice, Reason: in.View.State.Values[inputBlock][inputAction].Value,
		Nonce: name + " " + in.View.ID,
	})
	return nil
}
