package mattermost

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/mattermost/mattermost/server/public/model"

	"github.com/approvalbot/approvalbot/channels"
	"github.com/approvalbot/approvalbot/gate"
)

// The full view shows all that a card says of a call: to the presser alone where that
// is short enough, else below the card.
const (
	maxPrivate = 12_000 // characters
	maxPiece   = 40_000
	maxRequest = 250_000 // bytes of one post; more than 300,000 are refused
)

// full shows the whole call.
func (p *Presses) full(ctx context.Context, k channels.Click) string {
	c, err := p.Card(ctx, k.Approval)
	if err != nil {
		p.Log.WarnContext(ctx, "a card could not be read", "approval", string(k.Approval), "err", err)
		return unread
	}
	if text := whole(c); utf8.RuneCountInString(text) <= maxPrivate {
		return text
	}
	for i, post := range pages(c) {
		post.ChannelId, post.RootId = strings.TrimPrefix(k.Ref.Place, name+":"), k.Ref.Below().Thread
		post.PendingPostId = pending(c, fmt.Sprintf("%s %d", post.ChannelId, i), false)
		if _, resp, err := p.Mattermost.api().CreatePost(ctx, post); err != nil {
			p.Log.WarnContext(ctx, "a whole call could not be shown", "approval", string(k.Approval), "err", failed("mattermost.full", resp, err))
			return "The whole call could not be shown. Nothing was decided; press again, or look at it in the console."
		}
	}
	return "The whole call is below the card."
}

// whole is all of a call in one text.
func whole(c *channels.Card) string {
	parts := []string{head(c), "Call " + c.Digest.Short()}
	if c.Redacted {
		parts = append(parts, "Some values are covered.")
	}
	for _, part := range c.Parts() {
		parts = append(parts, part.Head+":\n"+shown(part))
	}
	return strings.Join(parts, "\n\n")
}

// shown is a part of a call. A change keeps the blanks at the begin of its lines.
func shown(part channels.Part) string {
	if part.Name == "diff" {
		return "On a phone, tap it to see all of it.\n" + fence(part.Text)
	}
	return codeLines(orEmpty(part.Text))
}

// pages is all of a call as posts, each of which Mattermost takes. Whoever reads the
// pieces of a part one after the other has read all of it.
func pages(c *channels.Card) (posts []*model.Post) {
	var (
		all  [][]*model.SlackAttachment
		size = maxRequest // nothing has room on no page
	)
	for _, part := range c.Parts() {
		for i, text := range gate.Pieces(orEmpty(part.Text), maxPiece) {
			title := part.Head
			if i > 0 {
				title += ", continued"
			}
			text = shown(channels.Part{Name: part.Name, Text: text})
			raw, _ := json.Marshal(text) // strings always can be
			if size += len(raw) + len(title); size > maxRequest {
				all, size = append(all, nil), len(raw)
			}
			last := &all[len(all)-1]
			*last = append(*last, &model.SlackAttachment{Fallback: title, Color: done, Fields: []*model.SlackAttachmentField{{Title: title, Value: text}}})
		}
	}
	for i, attachments := range all {
		p := &model.Post{Message: fmt.Sprintf("The whole call %s, page %d of %d", c.Digest.Short(), i+1, len(all))}
		p.SetProps(model.StringInterface{"attachments": attachments})
		posts = append(posts, p)
	}
	return posts
}
