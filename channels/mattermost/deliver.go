package mattermost

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/mattermost/mattermost/server/public/model"

	"github.com/approvalbot/approvalbot/channels"
	"github.com/approvalbot/approvalbot/gate"
)

// deliver sends a card for a conversation, and if Mattermost finds fault with it a
// minimal one: a question that says little is better than none.
func (m *Mattermost) deliver(ctx context.Context, op, where string, c *channels.Card, send func(drawing) (*model.Response, error)) error {
	f := frame{callback: m.callback, calls: m.calls(ctx, c), seal: func(action string) map[string]any { return sealed(m.Keys, c, action, where) }}
	resp, err := send(render(c, f))
	if err == nil {
		return nil
	}
	first := failed(op, resp, err)
	if !ours[codeOf(err)] {
		return first
	}
	m.Log.ErrorContext(ctx, "mattermost refuses a card, so it is sent a minimal one", slog.String("approval", string(c.Approval)), slog.String("code", codeOf(err)))
	if resp, err = send(minimal(c, f)); err != nil {
		again := failed(op, resp, err)
		again.Err = fmt.Errorf("%w; and before, a whole card: %w", again.Err, first.Err)
		return again
	}
	return nil
}

// calls is how those are called whom the rule wants to be called, while there is
// something to decide. Mattermost calls people when a post is made, not when it is
// changed. Who cannot be looked up is not called: the card comes first.
func (m *Mattermost) calls(ctx context.Context, c *channels.Card) string {
	var all []string
	for _, who := range c.Mention {
		if c.Settled || c.Proof != "" || who.Platform != name || len(all) == maxMentions {
			continue
		}
		if n := m.calledBy(ctx, who); n != "" && !slices.Contains(all, "@"+n) {
			all = append(all, "@"+n)
		}
	}
	return strings.Join(all, " ")
}

// calledBy is the name by which somebody is called; empty if nobody knows it.
func (m *Mattermost) calledBy(ctx context.Context, who gate.Mention) string {
	switch {
	case who.Kind == gate.KindUserGroup:
		n, _ := m.groups.Get(ctx, who.ID, func(ctx context.Context) (string, error) {
			g, resp, err := m.api().GetGroup(ctx, who.ID, "")
			if err != nil || g == nil || g.Name == nil || !g.AllowReference || !username.MatchString(*g.Name) {
				return "", failed("mattermost.group", resp, err)
			}
			return *g.Name, nil
		})
		return n
	case !id.MatchString(who.ID):
		if username.MatchString(who.ID) {
			return who.ID
		}
		return ""
	}
	u, err := m.user(ctx, who.ID)
	if err != nil || u.DeleteAt != 0 || !username.MatchString(u.Username) {
		return ""
	}
	return u.Username
}
