package mattermost

import (
	"fmt"
	"strings"

	"github.com/mattermost/mattermost/server/public/model"

	"github.com/approvalbot/approvalbot/channels"
	"github.com/approvalbot/approvalbot/gate"
)

// Mattermost's limits and ours, in characters, below where it refuses. A long text
// is folded behind "Show more", so that what matters comes first.
const (
	maxArgs     = 3000 // on a card; the full view has the rest
	maxDiff     = 3000
	maxIntent   = 800
	maxDialogue = 1500
	maxStatus   = 900
	maxTitle    = 150
	maxName     = 520 // of a tool, target or server: as long as they get
	maxFact     = 120
	maxRisk     = 40
	maxWarning  = 400
	maxMentions = 20
	maxSaid     = 3000
)

// The actions of a card, as they come back in a press. Mattermost routes only those of
// letters and digits.
const (
	actApprove  = "approve"
	actScope    = "scope"
	actDeny     = "deny"
	actAsk      = "ask"
	actAnswer   = "answer"
	actFull     = "full"
	actTakeBack = "takeback"
)

// frame is what a card is drawn for: a conversation, and with buttons or without.
type frame struct {
	callback string
	seal     func(action string) map[string]any // nil: there is nothing to press
	calls    string                             // who is called, as they are written
}

// drawing is a post.
type drawing struct {
	message string
	props   model.StringInterface
	minimal bool
}

// render draws a card. It is pure: the same card gives the same post.
func render(c *channels.Card, f frame) drawing {
	color := colorOf(c)
	a := &model.SlackAttachment{Fallback: fallback(c), Color: color, Text: body(c), Fields: facts(c), Footer: footer(c)}
	if f.seal != nil {
		a.Actions = buttons(c, f)
	}
	d := drawing{message: headline(c, f.calls), props: model.StringInterface{
		"attachments": []*model.SlackAttachment{a}, marker: string(c.Approval),
	}}
	return d
}

// Colours say at a glance how it stands; the words say it too.
const (
	waiting = "#FFBC1F"
	risky   = "#D24B4E"
	done    = "#8A8F98"
)

func colorOf(c *channels.Card) string {
	switch {
	case c.Settled:
		return done
	case c.Risk == "high", c.Warning != "":
		return risky
	}
	return waiting
}

// headline is what a phone shows of a post, and who is called by it.
func headline(c *channels.Card, calls string) string {
	text := c.Notification
	if c.Settled {
		text = c.Title
	}
	return strings.TrimSpace(calls + "\n" + inert(cut(text, maxStatus)))
}

func fallback(c *channels.Card) string { return inert(cut(c.Title, maxTitle)) }

// body is the text of a card: what it is, how it stands, and then all the rest.
func body(c *channels.Card) string {
	var parts []string
	add := func(s string) {
		if s != "" {
			parts = append(parts, s)
		}
	}
	if c.Settled {
		add(bold(cut(c.Line, maxStatus)))
	} else {
		add(bold(cut(c.Title, maxTitle)))
	}
	if c.Warning != "" {
		add("⚠ **Careful:** " + inert(cut(c.Warning, maxWarning)))
	}
	goes, cutGoes := c.Whither(maxName)
	add(lines(goes, 4*maxName))
	add(inert(cut(c.Refused, maxStatus)))
	args, cutArgs := c.Body(maxArgs)
	diff, cutDiff := gate.Cut(c.Diff, maxDiff)
	if diff != "" {
		add("What it changes:\n" + fence(diff))
	}
	if note := c.Hidden(cutGoes || cutArgs, cutDiff); note != "" {
		add(inert(note))
	} else if diff != "" {
		add("All of the arguments:")
	}
	add(fence(orEmpty(args)))
	if intent := cut(c.Intent, maxIntent); intent != "" {
		add("In the agent's own words:\n" + fence(intent))
	}
	add(lines(c.Dialogue, maxDialogue))
	if !c.Settled {
		add(bold(cut(c.Line, maxStatus)))
	}
	add(inert(cut(c.Silence, maxStatus)))
	if c.Link != "" {
		add("[Open in the console](" + c.Link + ")")
	}
	return strings.Join(parts, "\n\n")
}

// hides reports whether there is more of a call than its card shows.
func hides(c *channels.Card) bool {
	_, args := c.Body(maxArgs)
	_, diff := gate.Cut(c.Diff, maxDiff)
	_, intent := gate.Cut(c.Intent, maxIntent)
	_, said := gate.Cut(c.Dialogue, maxDialogue)
	_, goes := c.Whither(maxName)
	return args || diff || intent || said || goes
}

func facts(c *channels.Card) (all []*model.SlackAttachmentField) {
	for _, f := range c.Facts {
		all = append(all, &model.SlackAttachmentField{Title: f.Name, Value: inert(cut(f.Value, maxFact)), Short: true})
	}
	return all
}

// footer is what `/approvals show` confirms.
func footer(c *channels.Card) string {
	return fmt.Sprintf("%s · %s", c.Approval, c.Digest.Short())
}

func orEmpty(s string) string {
	if s == "" {
		return "(empty)"
	}
	return s
}

func cut(s string, n int) string {
	s, _ = gate.Cut(s, n)
	return s
}

// buttons are what can be pressed. Where a card does not show all, the full view is
// beside Approve.
func buttons(c *channels.Card, f frame) (all []*model.PostAction) {
	add := func(action, label, style string) *model.PostAction {
		b := &model.PostAction{
			Id: action, Type: model.PostActionTypeButton, Name: label, Style: style,
			Integration: &model.PostActionIntegration{URL: f.callback + ActionsPath, Context: f.seal(action)},
		}
		all = append(all, b)
		return b
	}
	if c.Approve {
		add(actApprove, "Approve", "success")
	}
	if c.Deny {
		add(actDeny, "Deny", "danger")
	}
	if c.Ask {
		add(actAsk, "Ask", "default")
	}
	if c.Answer {
		add(actAnswer, "Answer", "default")
	}
	if hides(c) {
		add(actFull, "Show all", "default")
	}
	if c.TakeBack {
		add(actTakeBack, "Take back", "danger")
	}
	if options := longer(c); c.Approve && options != nil {
		menu := add(actScope, "Approve for longer …", "")
		menu.Type, menu.Options = model.PostActionTypeSelect, options
	}
	return all
}

// longer are the scopes that reach further than once.
func longer(c *channels.Card) (all []*model.PostActionOptions) {
	for _, s := range c.Scopes {
		if s.Scope != gate.Once {
			all = append(all, &model.PostActionOptions{Text: s.Name, Value: string(s.Scope)})
		}
	}
	return all
}

// minimal has what one must know to look elsewhere, or to say no. It is approved
// beside what shows all of it.
func minimal(c *channels.Card, f frame) drawing {
	a := &model.SlackAttachment{
		Fallback: "Approval needed", Color: colorOf(c), Footer: footer(c),
		Text: "The call cannot be drawn here; Show all has it.\n\n" + inert(cut(c.Line, maxFact)),
	}
	few := *c
	few.Ask, few.Answer, few.Scopes = false, false, nil
	few.Args = strings.Repeat(" ", maxArgs+1) // so that Show all is there
	if f.seal != nil {
		a.Actions = buttons(&few, f)
	}
	return drawing{
		message: strings.TrimSpace(f.calls + "\n" + inert(cut(c.Title, maxTitle))), minimal: true,
		props: model.StringInterface{"attachments": []*model.SlackAttachment{a}, marker: string(c.Approval)},
	}
}
