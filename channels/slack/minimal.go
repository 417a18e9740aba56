package slack

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	api "github.com/slack-go/slack"

	"github.com/approvalbot/approvalbot/channels"
)

// ours are the codes with which Slack says that a card itself is wrong: a limit
// that nobody knew, or that is new.
var ours = map[string]bool{
	"invalid_blocks": true, "invalid_blocks_format": true, "msg_blocks_too_long": true, "msg_too_long": true, "no_text": true,
	"invalid_arguments": true, "invalid_charset": true, "invalid_form_data": true, "too_many_attachments": true,
	"invalid_metadata_format": true, "invalid_metadata_schema": true, "metadata_too_large": true,
}

// deliver sends a card, and if Slack finds fault with it a minimal one: a question
// that says little is better than none.
func (s *Slack) deliver(ctx context.Context, c *channels.Card, send func(...api.MsgOption) error) error {
	text, blocks := render(c)
	first := send(append(message(text, blocks), marked(c))...)
	refused, ok := errors.AsType[api.SlackErrorResponse](first)
	if !ok || !ours[refused.Err] {
		return first
	}
	s.Log.ErrorContext(ctx, "slack refuses a card, so it is sent a minimal one",
		slog.String("approval", string(c.Approval)), slog.String("code", refused.Err), slog.String("at", pointers(refused)))
	text, blocks = minimal(c)
	options := message(text, blocks)
	if !strings.Contains(refused.Err, "metadata") {
		options = append(options, marked(c))
	}
	if err := send(options...); err != nil {
		return fmt.Errorf("%w; and before, a whole card: %s %s", err, refused.Err, pointers(refused))
	}
	return nil
}

// pointers are where in a card Slack finds fault. They hold no part of it.
func pointers(refused api.SlackErrorResponse) string {
	return cut(strings.Join(refused.ResponseMetadata.Messages, "; "), maxWarning)
}

// minimal has what one must know to look elsewhere, or to say no. It is approved
// beside what shows all of it.
func minimal(c *channels.Card) (text string, blocks []api.Block) {
	text = fallback(cut(c.Notification, maxHeader))
	blocks = append(blocks, api.NewHeaderBlock(plain(c.Title, maxHeader)))
	if goes, _ := c.Whither(maxFact); goes != "" {
		blocks = append(blocks, section(goes))
	}
	blocks = append(blocks,
		section("The call "+c.Digest.String()+" cannot be drawn here; Show all has it."),
		section(cut(c.Line, maxFact)),
	)
	few := *c
	few.Ask, few.Answer = false, false
	if row := buttons(&few, 0, nil, true); len(row) > 0 {
		blocks = append(blocks, api.NewActionBlock(fmt.Sprintf("%s:%d", c.Approval, c.Rev), row...))
	}
	return text, blocks
}
