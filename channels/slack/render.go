package slack

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	api "github.com/slack-go/slack"
	"github.com/slack-go/slack/slackutilsx"

	"github.com/approvalbot/approvalbot/channels"
	"github.com/approvalbot/approvalbot/gate"
)

// Slack's limits, in characters, a little below where it refuses.
const (
	maxFallback = 3000 // chat.update refuses more than 4,000
	maxHeader   = 150
	maxFact     = 300
	maxFacts    = 10
	maxIntent   = 600
	maxArgs     = 2900
	maxContext  = 600
	maxConfirm  = 300
	maxOption   = 75

	maxBlocks = 12_000 // of JSON; where Slack refuses is not documented
	leastArgs = 100
)

// The actions of a card, as they come back in a press.
const (
	actApprove  = "approve"
	actScope    = "approve_for"
	actDeny     = "deny"
	actAsk      = "ask"
	actTakeBack = "take_back"
	actOpen     = "open" // a link; a press of it says nothing
)

// render draws a card as Block Kit, and as the text that phones and screen
// readers take. It is pure: the same card gives the same bytes.
func render(c *channels.Card) (text string, blocks []api.Block) {
	for most := maxArgs; ; most /= 2 {
		if blocks = draw(c, most); fits(blocks) || most < leastArgs {
			return fallback(c.Notification), blocks
		}
	}
}

// draw is render with at most so many characters of the arguments.
func draw(c *channels.Card, most int) (blocks []api.Block) {
	blocks = append(blocks, api.NewHeaderBlock(plain(c.Title, maxHeader)))
	if c.Warning != "" {
		blocks = append(blocks, section("Careful: "+c.Warning))
	}
	if len(c.Facts) > 0 {
		blocks = append(blocks, facts(c.Facts))
	}
	if c.Intent != "" {
		blocks = append(blocks, section("In the agent's own words: “"+cut(c.Intent, maxIntent)+"”"))
	}
	body, hides := c.Body(most)
	blocks = append(blocks, preformatted(body))
	if note := hidden(c, hides); note != "" {
		blocks = append(blocks, small(note))
	}
	status := c.Line
	if c.Silence != "" {
		status += "\n" + c.Silence
	}
	blocks = append(blocks, section(cut(status, maxContext)))
	if buttons := buttons(c, hides); len(buttons) > 0 {
		// A menu has no room for the approval's id, so the block's own id tells it; a
		// new one for each revision, because clients remember by it what was chosen. A
		// card that is stored nowhere has its proof there.
		id := fmt.Sprintf("%s:%d", c.Approval, c.Rev)
		if c.Proof != "" {
			id += ":" + c.Proof
		}
		blocks = append(blocks, api.NewActionBlock(id, buttons...))
	}
	return blocks
}

// fits reports whether blocks are small enough for one message.
func fits(blocks []api.Block) bool {
	b, err := json.Marshal(blocks)
	return err == nil && utf8.RuneCount(b) <= maxBlocks
}

func buttons(c *channels.Card, hides bool) (all []api.BlockElement) {
	if c.Approve && (!hides || c.Link != "") { // what nobody can see whole nobody can approve
		all = append(all, approve(c))
		if menu := scopes(c); menu != nil {
			all = append(all, menu)
		}
	}
	if c.Deny {
		all = append(all, button(c, actDeny, "Deny").WithStyle(api.StyleDanger))
	}
	if c.Ask {
		all = append(all, button(c, actAsk, "Ask"))
	}
	if c.TakeBack {
		all = append(all, button(c, actTakeBack, "Take back").WithStyle(api.StyleDanger))
	}
	if c.Link != "" {
		open := button(c, actOpen, "Open")
		open.URL = c.Link
		all = append(all, open)
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

// scopes is the menu of how far an approval may reach, nil if there is no choice.
// What each would cover is its description, so that nobody grants what they did
// not read: one that does not fit is not offered here.
func scopes(c *channels.Card) api.BlockElement {
	var options []*api.OptionBlockObject
	for _, s := range c.Scopes {
		if utf8.RuneCountInString(s.Covers) <= maxOption {
			options = append(options, api.NewOptionBlockObject(string(s.Scope), plain(s.Name, maxOption), plain(s.Covers, maxOption)))
		}
	}
	if len(options) < 2 {
		return nil
	}
	menu := api.NewOptionsSelectBlockElement(api.OptTypeStatic, plain("Approve for …", maxOption), actScope, options...)
	question := "This lets later calls pass without asking."
	if c.Confirm != "" {
		question = c.Confirm
	}
	menu.Confirm = confirm(question)
	return menu
}

func confirm(text string) *api.ConfirmationBlockObject {
	return api.NewConfirmationBlockObject(plain("Approve?", maxOption), plain(text, maxConfirm), plain("Approve", maxOption), plain("Cancel", maxOption))
}

// button carries the approval's id and nothing that anybody would have to
// believe.
func button(c *channels.Card, action, label string) *api.ButtonBlockElement {
	b := api.NewButtonBlockElement(action, string(c.Approval), plain(label, maxOption))
	b.AccessibilityLabel = cut(label+": "+c.Title, maxOption)
	return b
}

func hidden(c *channels.Card, hides bool) string {
	var notes []string
	if c.Redacted {
		notes = append(notes, "Some values are covered.")
	}
	switch {
	case hides && c.Link != "":
		notes = append(notes, "Not all of it fits here: open the full view before you approve.")
	case hides:
		notes = append(notes, "Not all of it fits here, so it cannot be approved here.")
	}
	return strings.Join(notes, " ")
}

func facts(all []channels.Fact) api.Block {
	var fields []*api.TextBlockObject
	for _, f := range all[:min(len(all), maxFacts)] {
		fields = append(fields, plain(f.Name+": "+f.Value, maxFact))
	}
	return api.NewSectionBlock(nil, fields, nil)
}

func section(text string) api.Block {
	return api.NewSectionBlock(plain(text, maxArgs), nil, nil)
}

func small(text string) api.Block { return api.NewContextBlock("", plain(text, maxContext)) }

// preformatted is the one block for arguments: Slack parses nothing in it.
func preformatted(text string) api.Block {
	return api.NewRichTextBlock("args", &api.RichTextPreformatted{
		Type:     api.RTEPreformatted,
		Elements: []api.RichTextSectionElement{api.NewRichTextSectionTextElement(orEmpty(text), nil)},
	})
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
// characters for that are escaped.
func fallback(text string) string { return slackutilsx.EscapeMessage(orEmpty(cut(text, maxFallback))) }
