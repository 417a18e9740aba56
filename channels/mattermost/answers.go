package mattermost

import (
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/mattermost/mattermost/server/public/model"

	"github.com/approvalbot/approvalbot/channels"
	"github.com/approvalbot/approvalbot/gate"
)

// Limits of an answer to a command, in characters.
const (
	maxRows    = 10
	maxAnswer  = 12_000
	leastText  = 60
	maxRowText = 1500
)

// commandAnswer is what Mattermost shows to whoever typed a command. The library's own
// type has more, with meanings of its own.
type commandAnswer struct {
	Type             string                   `json:"response_type"`
	Text             string                   `json:"text"`
	Attachments      []*model.SlackAttachment `json:"attachments,omitempty"`
	SkipSlackParsing bool                     `json:"skip_slack_parsing"`
}

// answer draws an answer. Nothing in it can be pressed, because nothing could be
// checked that comes of it: a button is written as the command to type. What does not
// fit is cut ever shorter, and last left out.
func answer(a *channels.Answer) commandAnswer {
	out := commandAnswer{Type: model.CommandResponseTypeEphemeral, SkipSlackParsing: true}
	parts := textOf(a, maxRowText)
	for most := maxRowText / 2; most >= leastText && size(parts) > maxAnswer; most /= 2 {
		parts = textOf(a, most)
	}
	for n := len(parts); n > 0 && size(parts) > maxAnswer; n-- {
		parts = append(parts[:n-1], "The rest does not fit here.")
	}
	out.Text = strings.Join(parts, "\n")
	if a.Card != nil {
		shown := render(a.Card, frame{})
		out.Attachments, _ = shown.props["attachments"].([]*model.SlackAttachment)
	}
	return out
}

func size(parts []string) (n int) {
	for _, p := range parts {
		n += utf8.RuneCountInString(p) + 1
	}
	return n
}

func textOf(a *channels.Answer, most int) (parts []string) {
	for _, line := range a.Lines {
		parts = append(parts, lines(line, most))
	}
	for _, r := range a.Rows[:min(len(a.Rows), maxRows)] {
		parts = append(parts, rowOf(&r, most))
	}
	var more []string
	for _, b := range a.Buttons {
		more = append(more, inert(b.Label)+": "+typeThis(b))
	}
	if more != nil {
		parts = append(parts, "", strings.Join(more, " · ")) // a line of its own behind a list
	}
	return parts
}

func rowOf(r *channels.Row, most int) string {
	text := "- " + strings.ReplaceAll(lines(strings.Join(r.Lines, "\n"), most), "\n", "  \n  ")
	var ways []string
	if r.Link != "" {
		ways = append(ways, "[its card]("+r.Link+")")
	}
	if r.Button != nil {
		ways = append(ways, typeThis(*r.Button))
	}
	if ways != nil {
		text += "  \n  " + strings.Join(ways, " · ")
	}
	return text
}

// typeThis is the command that a button stands for, with ids as people type them.
func typeThis(b channels.Button) string {
	command := wholeID.ReplaceAllStringFunc(b.Command, gate.ShortID)
	return code("/" + Trigger + " " + command)
}

var wholeID = regexp.MustCompile(`\bapr_[0-9A-Z]{26}\b`)
