package slack

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	api "github.com/slack-go/slack"

	"github.com/approvalbot/approvalbot/channels"
)

// actCommand begins the actions of an answer's buttons; the value is the command.
const actCommand = "command:"

// Limits of an answer, below those of a message.
const (
	maxRows       = 10
	maxButtons    = 5
	maxLines      = 2900
	maxLinesAbove = 600 // a card
	maxRowText    = 1500
	leastText     = 45
	maxCommand    = 500 // of a button's value
)

// renderAnswer draws an answer as Block Kit, and as the text for screen readers.
// What does not fit is cut ever shorter, and last the buttons go.
func renderAnswer(a *channels.Answer) (text string, blocks []api.Block) {
	top, most := strings.Join(a.Lines, "\n"), maxLines
	if a.Card != nil {
		most = maxLinesAbove
	}
	text = top
	if a.Card != nil {
		text = strings.TrimSpace(text + "\n" + a.Card.Notification)
	}
	for row, rest := maxRowText, room(100); row >= leastText; most, row, rest = most/2, row/2, rest/2 {
		if blocks = drawAnswer(a, cut(top, most), row, rest); fits(blocks) {
			return fallback(text), blocks
		}
	}
	return fallback(text), []api.Block{section(cut(top, maxLinesAbove)), section("The rest does not fit here; open it in the console.")}
}

func drawAnswer(a *channels.Answer, top string, row int, rest room) (blocks []api.Block) {
	if top != "" {
		blocks = append(blocks, section(top))
	}
	for i, r := range a.Rows[:min(len(a.Rows), maxRows)] {
		text := plain(strings.Join(r.Lines, "\n"), row)
		block := api.NewSectionBlock(text, nil, nil)
		if r.Button != nil && len(r.Button.Command) <= maxCommand {
			b := command(*r.Button, i)
			b.AccessibilityLabel = cut(r.Button.Label+": "+text.Text, leastText)
			block.Accessory = api.NewAccessory(b)
		}
		blocks = append(blocks, block)
	}
	if a.Card != nil {
		blocks = append(blocks, draw(a.Card, rest)...)
	}
	var buttons []api.BlockElement
	for i, b := range a.Buttons[:min(len(a.Buttons), maxButtons)] {
		if len(b.Command) <= maxCommand {
			buttons = append(buttons, command(b, maxRows+i))
		}
	}
	if len(buttons) > 0 {
		blocks = append(blocks, api.NewActionBlock("", buttons...))
	}
	return blocks
}

func command(b channels.Button, n int) *api.ButtonBlockElement {
	return api.NewButtonBlockElement(fmt.Sprintf("%s%d", actCommand, n), b.Command, plain(b.Label, maxOption))
}

// spot is where one person is shown an answer.
type spot struct {
	user    string
	reply   string // the address that came with what they did
	channel string // where they did it, for when that is spent
	view    string // the modal that the answer takes the place of
	home    bool   // their Home tab
	trigger string // with home: opens a modal for a card
}

// in reports whether it is in a view, where nothing can be shown beside.
func (p spot) in() bool { return p.view != "" || p.home }

// show shows an answer to one person alone: in the view that they have before
// them; or at the address that came with what they did, where it can take the place
// of what they pressed; or else below it.
func (s *Slack) show(ctx context.Context, at spot, a channels.Answer, replace bool) error {
	text, blocks := renderAnswer(&a)
	if at.in() {
		return s.showInView(ctx, at, blocks, a.Card != nil)
	}
	err := s.respond(ctx, at.reply, map[string]any{"response_type": "ephemeral", "replace_original": replace, "text": text, "blocks": blocks})
	if err == nil {
		return nil
	}
	_, err = s.client().PostEphemeralContext(ctx, at.channel, at.user,
		api.MsgOptionText(text, false), api.MsgOptionBlocks(blocks...), api.MsgOptionParse(false), api.MsgOptionLinkNames(false))
	if err != nil {
		return failed("slack.show", err)
	}
	return nil
}

// marshal leaves < and > as they are: escaped they are six characters each, of
// which a message has few.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return b.Bytes(), err
}
