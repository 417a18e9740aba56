package mattermost

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/mattermost/mattermost/server/public/model"

	"github.com/approvalbot/approvalbot/channels"
	"github.com/approvalbot/approvalbot/gate"
)

// Mattermost's limits and ours, in characters, below where it refuses. A long text
// is folded behind "Show more", so that what matters comes first.
const (
	maxArgs     = 1200 // on a card; the full view has the rest
	maxDiff     = 1200
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
	actRan      = "ran"
	actNotRun   = "didnotrun"
	actAgain    = "runagain"
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
	a := &model.SlackAttachment{Fallback: fallback(c), Color: colorOf(c), Text: body(c), Fields: append(parts(c), facts(c)...), Footer: string(c.Approval)}
	if f.seal != nil {
		a.Actions = buttons(c, f)
	}
	return drawing{
		message: strings.TrimSpace(f.calls + "\n" + inert(cut(c.Notification, maxStatus))),
		props:   model.StringInterface{"attachments": []*model.SlackAttachment{a}, marker: string(c.Approval)},
	}
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

func fallback(c *channels.Card) string { return inert(cut(c.Title, maxTitle)) }

// body is what to know first: what it is or what became of it, where it goes, and what
// to beware of. Clients fold a text after a few lines.
func body(c *channels.Card) string {
	first := cut(c.Title, maxTitle)
	if c.Settled {
		first = cut(c.Line, maxStatus)
	}
	goes, _ := c.Whither(maxName)
	all := []string{bold(first) + "\n" + lines(goes, 4*maxName)}
	if c.Warning != "" {
		all = append(all, "⚠ **Careful:** "+inert(cut(c.Warning, maxWarning)))
	}
	if c.Refused != "" {
		all = append(all, inert(cut(c.Refused, maxStatus)))
	}
	if c.Settled {
		all = append(all, link(c))
	}
	return strings.TrimSpace(strings.Join(all, "\n\n"))
}

// link leads to the page that shows all of it.
func link(c *channels.Card) string {
	if c.Link == "" {
		return ""
	}
	return "[Open in the console](" + c.Link + ")"
}

// parts are all the rest, in fields: no client folds them.
func parts(c *channels.Card) (all []*model.SlackAttachmentField) {
	add := func(title string, values ...string) {
		values = slices.DeleteFunc(values, func(s string) bool { return s == "" })
		if len(values) > 0 {
			all = append(all, &model.SlackAttachmentField{Title: title, Value: strings.Join(values, "\n")})
		}
	}
	args, cutArgs := c.Body(maxArgs)
	diff, cutDiff := gate.Cut(c.Diff, maxDiff)
	_, cutGoes := c.Whither(maxName)
	if diff != "" {
		add("What it changes", fence(changes(diff)))
	}
	add("Arguments", inert(c.Hidden(cutGoes || cutArgs, cutDiff)), codeLines(orEmpty(args)))
	add("In the agent's own words", codeLines(cut(c.Intent, maxIntent)))
	add(fieldQuestions, lines(c.Dialogue, maxDialogue))
	if !c.Settled {
		add(fieldStands, bold(cut(c.Line, maxStatus)), inert(cut(c.Silence, maxStatus)), link(c))
	}
	return all
}

// changes is a diff without its head if there is only one of that: phones show four
// lines.
func changes(diff string) string {
	head := strings.SplitN(diff, "\n", 3)
	if len(head) < 3 || !strings.HasPrefix(head[0], "--- ") || !strings.HasPrefix(head[1], "+++ ") || strings.Contains(head[2], "\n--- ") {
		return diff
	}
	diff = head[2]
	if where, rest, more := strings.Cut(diff, "\n"); more && strings.HasPrefix(where, "@@ ") && !strings.Contains(rest, "\n@@ ") {
		return rest
	}
	return diff
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

// buttons are what can be pressed. Where a card does not show all, the full view comes
// first: phones put one below the other.
func buttons(c *channels.Card, f frame) (all []*model.PostAction) {
	add := func(action, label, style string) *model.PostAction {
		b := &model.PostAction{
			Id: action, Type: model.PostActionTypeButton, Name: label, Style: style,
			Integration: &model.PostActionIntegration{URL: f.callback + ActionsPath, Context: f.seal(action)},
		}
		all = append(all, b)
		return b
	}
	if hides(c) {
		add(actFull, "Show all", "default")
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
	if c.TakeBack {
		add(actTakeBack, "Take back", "danger")
	}
	if c.Unsettled {
		add(actRan, "It ran", "default")
		add(actNotRun, "It did not run", "default")
	}
	if c.Again {
		add(actAgain, "Run it again", "default")
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
		Fallback: "Approval needed", Color: colorOf(c), Footer: string(c.Approval),
		Text: "The call " + c.Digest.Short() + " cannot be drawn here; Show all has it.\n\n" + inert(cut(c.Line, maxFact)),
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

// reads reports whether a post says of a call what its card does. How it stands may
// have changed since that was drawn.
func reads(p *model.Post, c *channels.Card) bool {
	if p == nil {
		return false
	}
	d := render(c, frame{})
	drawn, _ := d.props["attachments"].([]*model.SlackAttachment)
	there := p.Attachments()
	calls, ends := strings.CutSuffix(votes.ReplaceAllString(p.Message, ""), votes.ReplaceAllString(d.message, ""))
	return ends && onlyCalls.MatchString(calls) && slices.EqualFunc(there, drawn, func(a, b *model.SlackAttachment) bool {
		return a != nil && a.Pretext+a.AuthorName+a.Title+a.ImageURL+a.ThumbURL == "" && a.Text == b.Text && a.Footer == b.Footer &&
			slices.Equal(lasting(a.Fields), lasting(b.Fields))
	})
}

// What of a card changes while it waits: fields, and the votes behind its headline.
const (
	fieldStands    = "How it stands"
	fieldQuestions = "Questions"
)

var (
	onlyCalls = regexp.MustCompile(`^(@[a-z0-9._-]+\s)*$`)
	votes     = regexp.MustCompile(` \(\d+/\d+\)` + "(`?)$")
)

func lasting(fields []*model.SlackAttachmentField) (all []channels.Fact) {
	for _, f := range fields {
		if f != nil && f.Title != fieldStands && f.Title != fieldQuestions {
			all = append(all, channels.Fact{Name: f.Title, Value: fmt.Sprint(f.Value)})
		}
	}
	return all
}
