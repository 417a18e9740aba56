package slack

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	api "github.com/slack-go/slack"
	"github.com/slack-go/slack/slackutilsx"

	"github.com/approvalbot/approvalbot/channels"
	"github.com/approvalbot/approvalbot/gate"
)

// Slack's limits and ours, in characters, a little below where it refuses.
const (
	maxFallback = 3900   // chat.update refuses more than 4,000
	maxCard     = 11_500 // of JSON; where Slack refuses is not documented, about 13,000 were seen
	maxHeader   = 150
	maxSection  = 2900
	maxArgs     = 1200 // on a card; the full view has the rest
	maxDiff     = 1200
	maxIntent   = 600
	maxDialogue = 900
	maxStatus   = 900
	maxName     = 520 // of a tool, target or server: as long as they get
	maxFact     = 120
	maxFacts    = 900 // of all of them
	maxWarning  = 400
	maxConfirm  = 300
	maxOption   = 75
	maxMentions = 20
)

// The actions of a card, as they come back in a press.
const (
	actApprove  = "approve"
	actScope    = "approve_for"
	actDeny     = "deny"
	actAsk      = "ask"
	actAnswer   = "answer"
	actFull     = "full"
	actTakeBack = "take_back"
	actRan      = "ran"
	actNotRun   = "did_not_run"
	actAgain    = "run_again"
	actOpen     = "open" // a link; a press of it says nothing
)

// render draws a card as Block Kit, and as the text that phones and screen
// readers take. It is pure: the same card gives the same bytes. What the blocks may
// measure together is less than what each may: characters that are sent as six take
// the room of others.
func render(c *channels.Card) (text string, blocks []api.Block) {
	for _, percent := range []room{100, 70, 50, 35, 25, 15, 8} {
		if blocks = draw(c, percent); fits(blocks) {
			break
		}
	}
	return fallback(c.Notification), blocks
}

// fits reports whether blocks are small enough for one message.
func fits(blocks []api.Block) bool {
	b, err := json.Marshal(blocks)
	return err == nil && utf8.RuneCount(b) <= maxCard
}

// room is how much of its most a part of a card may take, in percent.
type room int

func (r room) of(most int) int { return most * int(r) / 100 }

func draw(c *channels.Card, r room) (blocks []api.Block) {
	add := func(more ...api.Block) { blocks = append(blocks, more...) }
	if who := callsTo(c); who != "" {
		add(api.NewSectionBlock(api.NewTextBlockObject(api.MarkdownType, who, false, false), nil, nil))
	}
	add(api.NewHeaderBlock(plain(c.Title, maxHeader)))
	if c.Settled {
		add(section(cut(c.Line, r.of(maxStatus))))
	}
	if c.Warning != "" {
		add(section("⚠ Careful: " + cut(c.Warning, r.of(maxWarning))))
	}
	goes, cutGoes := c.Whither(r.of(maxName))
	if goes != "" {
		add(section(goes))
	}
	if c.Refused != "" {
		add(section(cut(c.Refused, r.of(maxStatus))))
	}
	args, cutArgs := c.Body(r.of(maxArgs))
	diff, cutDiff := gate.Cut(c.Diff, r.of(maxDiff))
	if diff != "" {
		add(small("What it changes:"), preformatted("diff", diff))
	}
	if note := c.Hidden(cutGoes || cutArgs, cutDiff); note != "" {
		add(section(note))
	} else if diff != "" {
		add(small("All of the arguments:"))
	}
	add(preformatted("args", args))
	intent, cutIntent := gate.Cut(c.Intent, r.of(maxIntent))
	if intent != "" {
		add(quote("In the agent's own words:", intent))
	}
	said, cutSaid := gate.Cut(c.Dialogue, r.of(maxDialogue))
	if said != "" {
		add(section(said))
	}
	if status := status(c); status != "" {
		add(section(cut(status, r.of(maxStatus))))
	}
	if rest := facts(c.Facts, r); rest != "" {
		add(small(rest))
	}
	menu, missing := scopes(c)
	if missing != "" {
		add(small(missing))
	}
	hides := cutGoes || cutArgs || cutDiff || cutIntent || cutSaid
	if row := buttons(c, r, menu, hides); len(row) > 0 {
		// A menu has no room for the approval's id, so the block's own id tells it; a
		// new one for each revision, because clients remember by it what was chosen. A
		// card that is stored nowhere has its proof there.
		id := fmt.Sprintf("%s:%d", c.Approval, c.Rev)
		if c.Proof != "" {
			id += ":" + c.Proof
		}
		add(api.NewActionBlock(id, row...))
	}
	return blocks
}

// callsTo calls those whom the rule wants to be called, while there is something to
// decide; a private card calls nobody. It is the one text on a card that Slack parses, so there is nothing in it
// but ids. Slack calls people when a message is posted, not when it is changed.
func callsTo(c *channels.Card) string {
	var calls []string
	for _, m := range c.Mention {
		shape := ids[m.Kind]
		if c.Settled || c.Proof != "" || m.Platform != name || shape == nil || !shape.MatchString(m.ID) {
			continue
		}
		call := "<@" + m.ID[strings.LastIndexByte(m.ID, '/')+1:] + ">"
		if m.Kind == gate.KindUserGroup {
			call = "<!subteam^" + m.ID + ">"
		}
		if !slices.Contains(calls, call) && len(calls) < maxMentions {
			calls = append(calls, call)
		}
	}
	return strings.Join(calls, " ")
}

// status is how it stands and what silence means. Of a settled call that is said
// above.
func status(c *channels.Card) string {
	lines := []string{c.Line, c.Silence}
	if c.Settled {
		lines = lines[1:]
	}
	return strings.TrimSpace(strings.Join(lines, "\n"))
}

func facts(all []channels.Fact, r room) string {
	var out []string
	for _, f := range all {
		out = append(out, f.Name+": "+cut(f.Value, maxFact))
	}
	return cut(strings.Join(out, " · "), r.of(maxFacts))
}

// buttons are what can be pressed, with labels for screen readers where there is
// room. Where a card does not show all, the full view is beside Approve: what nobody
// can see whole nobody can approve.
func buttons(c *channels.Card, r room, menu api.BlockElement, hides bool) (all []api.BlockElement) {
	if r < 50 {
		unnamed := *c
		unnamed.Title = ""
		c = &unnamed
	}
	if c.Approve {
		all = append(all, approve(c))
	}
	if c.Deny {
		all = append(all, button(c, actDeny, "Deny").WithStyle(api.StyleDanger))
	}
	if c.Ask {
		all = append(all, button(c, actAsk, "Ask"))
	}
	if c.Answer {
		all = append(all, button(c, actAnswer, "Answer"))
	}
	if hides {
		all = append(all, button(c, actFull, "Show all"))
	}
	if c.Link != "" {
		open := button(c, actOpen, "Open")
		open.URL = c.Link
		all = append(all, open)
	}
	if c.TakeBack {
		all = append(all, button(c, actTakeBack, "Take back").WithStyle(api.StyleDanger))
	}
	if c.Unsettled {
		all = append(all, button(c, actRan, "It ran"), button(c, actNotRun, "It did not run"))
	}
	if c.Again {
		all = append(all, button(c, actAgain, "Run it again"))
	}
	if c.Approve && menu != nil {
		all = append(all, menu)
	}
	return all
}

func approve(c *channels.Card) api.BlockElement {
	b := button(c, actApprove, "Approve").WithStyle(api.StylePrimary)
	if c.Confirm != "" {
		b = b.WithConfirm(confirm(c.Confirm))
	}
	return b
}

// scopes is the menu of how much longer an approval may reach than once, nil if
// there is no choice. For how long is in it; what it would cover is in the question
// that follows, so that nobody grants what they did not read. A scope for which there
// is no room in either is missing, and the card says so.
func scopes(c *channels.Card) (menu api.BlockElement, missing string) {
	var (
		offered []channels.Choice
		options []*api.OptionBlockObject
		lacks   []string
	)
	for _, s := range c.Scopes {
		wider := append(slices.Clip(offered), s)
		switch {
		case s.Scope == gate.Once: // that is Approve
		case utf8.RuneCountInString(s.Lasts) > maxOption || utf8.RuneCountInString(c.Question(wider)) > maxConfirm:
			lacks = append(lacks, s.Name)
		default:
			offered = wider
			options = append(options, api.NewOptionBlockObject(string(s.Scope), plain(s.Name, maxOption), plain(s.Lasts, maxOption)))
		}
	}
	if lacks != nil {
		missing = "What it would cover is too long for Slack to ask about, so this cannot be chosen here: " + strings.Join(lacks, ", ") + "."
	}
	if options == nil {
		return nil, missing
	}
	list := api.NewOptionsSelectBlockElement(api.OptTypeStatic, plain("Approve for longer …", maxOption), actScope, options...)
	list.Confirm = confirm(c.Question(offered))
	return list, missing
}

func confirm(text string) *api.ConfirmationBlockObject {
	return api.NewConfirmationBlockObject(plain("Approve?", maxOption), plain(text, maxConfirm), plain("Approve", maxOption), plain("Cancel", maxOption))
}

// button carries the approval's id and nothing that anybody would have to
// believe.
func button(c *channels.Card, action, label string) *api.ButtonBlockElement {
	b := api.NewButtonBlockElement(action, string(c.Approval), plain(label, maxOption))
	if c.Title != "" {
		b.AccessibilityLabel = cut(label+": "+c.Title, maxOption)
	}
	return b
}

func section(text string) api.Block {
	return api.NewSectionBlock(plain(text, maxSection), nil, nil)
}

func small(text string) api.Block { return api.NewContextBlock("", plain(text, maxSection)) }

// preformatted is for arguments: Slack parses nothing in it.
func preformatted(id, text string) api.Block {
	return api.NewRichTextBlock(id, &api.RichTextPreformatted{Type: api.RTEPreformatted, Elements: verbatim(orEmpty(text))})
}

// quote is for the words of somebody whom nobody vouches for.
func quote(whose, text string) api.Block {
	return api.NewRichTextBlock("quote",
		&api.RichTextSection{Type: api.RTESection, Elements: verbatim(whose)},
		&api.RichTextQuote{Type: api.RTEQuote, Elements: verbatim(orEmpty(text))},
	)
}

// verbatim is text in which Slack parses nothing.
func verbatim(text string) []api.RichTextSectionElement {
	return []api.RichTextSectionElement{api.NewRichTextSectionTextElement(text, nil)}
}

// plain is text in which nothing is parsed, emoji included.
func plain(text string, n int) *api.TextBlockObject {
	return api.NewTextBlockObject(api.PlainTextType, orEmpty(cut(text, n)), false, false)
}

// orEmpty is what stands for no text, which Slack refuses.
func orEmpty(text string) string {
	if text == "" {
		return "(empty)"
	}
	return text
}

func cut(text string, n int) string {
	text, _ = gate.Cut(text, n)
	return text
}

// fallback is text for phones. Slack looks for mentions in it, so its three
// characters for that are escaped, and then count as more.
func fallback(text string) string {
	n := maxFallback
	for {
		escaped := slackutilsx.EscapeMessage(orEmpty(cut(text, n)))
		if utf8.RuneCountInString(escaped) <= maxFallback {
			return escaped
		}
		n /= 2
	}
}
