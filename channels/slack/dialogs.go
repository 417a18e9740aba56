package slack

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	api "github.com/slack-go/slack"

	"github.com/approvalbot/approvalbot/channels"
	"github.com/approvalbot/approvalbot/gate"
)

// dialog is what a modal asks for before something is done.
type dialog struct {
	choice               gate.Choice
	title, label, submit string
	reasons              []string // to choose from, instead of words or before them
	most                 int      // characters
	live                 func(*channels.Card) bool
}

// other is the reason that says nothing without words.
const other = "Other"

var dialogs = map[string]dialog{
	actDeny: {
		choice: gate.Deny, title: "Deny", label: "In your own words. The agent is told.", submit: "Deny this call",
		reasons: []string{"Wrong target", "Not now", "Needs a change ticket", "I cannot tell what this does", "Should not be done by an agent", other},
		most:    gate.MaxWords - 40, live: func(c *channels.Card) bool { return c.Deny },
	},
	actAsk: {
		choice: gate.NeedContext, title: "Ask the agent", label: "What should it answer?", submit: "Ask",
		most: gate.MaxWords, live: func(c *channels.Card) bool { return c.Ask },
	},
	actAnswer: {
		choice: channels.Reply, title: "Answer", label: "Your answer", submit: "Answer",
		most: min(gate.MaxAnswer, maxInput), live: func(c *channels.Card) bool { return c.Answer },
	},
}

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

	maxInput = 3000
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
		if c != nil && !d.live(c) {
			p.tell(ctx, in, k.Ref, c.Line)
			return
		}
		w.Required = c != nil && c.ReasonRequired && d.choice == gate.Deny
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
		if d.choice == channels.Reply {
			blocks = append(blocks, section(strings.TrimSpace(c.Dialogue+"\n"+c.Line)))
		}
	}
	if d.reasons != nil {
		blocks = append(blocks, reasons(d, w.Required))
	}
	words := api.NewPlainTextInputBlockElement(nil, inputAction)
	words.Multiline, words.MaxLength = true, d.most
	input := api.NewInputBlock(inputBlock, plain(d.label, maxOption), nil, words)
	input.Optional = d.reasons != nil
	return api.ModalViewRequest{
		Type: api.VTModal, CallbackID: action, PrivateMetadata: string(metadata),
		Title: plain(d.title, maxOption), Submit: plain(d.submit, maxOption), Close: plain("Cancel", maxOption),
		Blocks: api.Blocks{BlockSet: append(blocks, input)},
	}, err
}

// head says which call a modal is about.
func head(c *channels.Card) string {
	goes, _ := whither(c, maxName)
	return strings.TrimSpace(cut(c.Title, maxWarning) + "\n" + goes)
}

func reasons(d dialog, required bool) api.Block {
	var options []*api.OptionBlockObject
	for _, r := range d.reasons {
		options = append(options, api.NewOptionBlockObject(r, plain(r, maxOption), nil))
	}
	label := "Why?"
	if required {
		label = "Why? This rule wants a reason: choose one, write one, or both."
	}
	menu := api.NewOptionsSelectBlockElement(api.OptTypeStatic, plain("Choose a reason", maxOption), choiceAction, options...)
	input := api.NewInputBlock(choiceBlock, plain(label, maxOption), nil, menu)
	input.Optional = true
	return input
}

// reason is what was chosen and typed, and which field lacks something, if one does.
func (d dialog) reason(in *interaction, required bool) (text string, lacks map[string]string) {
	chosen := in.View.State.Values[choiceBlock][choiceAction].Chosen.Value
	words := strings.TrimSpace(in.View.State.Values[inputBlock][inputAction].Value)
	if !slices.Contains(d.reasons, chosen) {
		chosen = ""
	}
	switch {
	case required && words == "" && chosen == "":
		return "", map[string]string{choiceBlock: "Choose a reason, or write one below."}
	case required && words == "" && chosen == other:
		return "", map[string]string{inputBlock: "Write which."}
	case words == "" || chosen == "":
		return chosen + words, nil
	}
	return chosen + ": " + words, nil
}

// submitted takes what was typed. If something lacks, the modal stays and says so;
// else it closes, and what came of it the person is told below the card.
func (p *Presses) submitted(ctx context.Context, in *interaction) (answer []byte, err error) {
	d, known := dialogs[in.View.Callback]
	w, err := in.where()
	if err != nil || !known {
		return nil, errors.New("payload: a dialog that is not ours")
	}
	text, lacks := d.reason(in, w.Required)
	if lacks != nil {
		return json.Marshal(api.NewErrorsViewSubmissionResponse(lacks))
	}
	in.at = spot{user: in.User.ID, reply: w.Reply, channel: conversation(w.Ref.Place), view: w.View, home: w.Home}
	p.decide(ctx, in, channels.Click{
		Approval: w.Approval, Ref: w.Ref, Ours: w.Proof == "", Proof: w.Proof, Choice: d.choice, Reason: text,
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
