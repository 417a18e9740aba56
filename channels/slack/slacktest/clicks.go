package slacktest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// ErrCannot means that a person cannot do this in any client: the button is
// gone, the conversation is not theirs, the field is required.
var ErrCannot = errors.New("slacktest: a person cannot do that")

func cannot(format string, with ...any) error {
	return fmt.Errorf("%w: %s", ErrCannot, fmt.Sprintf(format, with...))
}

// Click is a press of a button, on a message or, with View, in a view.
type Click struct {
	User, Channel, TS string
	View              string
	Action            string // the action id
	Option            string // the value of what is chosen, if the action is that of a menu
	Block             string // the block id, where several have the action

	To     string // the URL of a replica; empty: where SendTo says
	Forged Forgery
	Mangle func(payload map[string]any) // makes payloads that this double does not
}

// Click presses a button as the message is now, and waits for the answer.
func (s *Slack) Click(ctx context.Context, c Click) (Outcome, error) {
	all, err := s.ClickAll(ctx, c)
	if err != nil {
		return Outcome{}, err
	}
	return all[0], nil
}

// ClickAll presses all of them at the same moment: what one press changes the
// others do not see. The same click twice is a double click.
func (s *Slack) ClickAll(ctx context.Context, clicks ...Click) ([]Outcome, error) {
	outcomes := make([]Outcome, len(clicks))
	for i, c := range clicks {
		payload, err := s.press(c)
		if err != nil {
			return nil, err
		}
		if outcomes[i], err = s.prepare(kindInteractive, payload, how{c.To, c.Forged, c.Mangle}); err != nil {
			return nil, err
		}
	}
	var done sync.WaitGroup
	for i := range outcomes {
		done.Go(func() { outcomes[i] = s.Replay(ctx, outcomes[i], "") })
	}
	done.Wait()
	return outcomes, nil
}

// press makes the payload of a click.
func (s *Slack) press(c Click) (object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	user, err := s.present(c.User)
	if err != nil {
		return nil, err
	}
	payload := s.payload("block_actions", user)
	payload["trigger_id"] = s.newTrigger(user.ID)
	blocks, err := s.pressed(c, payload)
	if err != nil {
		return nil, err
	}
	b, e := findButton(blocks, c.Block, c.Action)
	if c.Option != "" {
		b, e = findElement(blocks, c.Block, c.Action, "static_select")
	}
	if e == nil {
		return nil, cannot("there is no button %q", c.Action)
	}
	action := object{"block_id": b["block_id"], "action_ts": stamp(s.config.Now())}
	if c.Option != "" {
		if action["selected_option"] = optionOf(e, c.Option); action["selected_option"] == nil {
			return nil, cannot("%q is no option", c.Option)
		}
	}
	for _, key := range []string{"action_id", "type", "text", "value", "style"} {
		if e[key] != nil {
			action[key] = e[key]
		}
	}
	payload["actions"] = []any{action}
	return payload, nil
}

func stamp(t time.Time) string { return fmt.Sprintf("%d.%06d", t.Unix(), t.Nanosecond()/1000) }

// pressed returns the blocks that a click is on and adds to the payload where
// that is.
func (s *Slack) pressed(c Click, payload object) ([]object, error) {
	if c.View != "" {
		v := s.views[c.View]
		if v == nil || v.User != c.User {
			return nil, cannot("view %s is not open", c.View)
		}
		payload["container"], payload["view"] = object{"type": "view", "view_id": v.ID}, v.wire()
		return blocksOf(v.Content), nil
	}
	conv, m, err := s.seen(c.User, c.Channel, c.TS)
	if err != nil {
		return nil, err
	}
	container := object{"type": "message", "message_ts": m.TS, "channel_id": conv.ID, "is_ephemeral": m.Only != ""}
	if m.ThreadTS != "" {
		container["thread_ts"] = m.ThreadTS
	}
	payload["container"], payload["channel"] = container, conv.named()
	payload["state"] = object{"values": object{}}
	if m.Only == "" {
		payload["message"] = s.wire(m, true)
	}
	payload["response_url"] = s.newHook(&hook{user: c.User, channel: conv.ID, ts: m.TS})
	return m.Blocks, nil
}

// present returns a user who can use a client.
func (s *Slack) present(id string) (User, error) {
	user, ok := s.users[id]
	if !ok || user.Deleted || user.Bot {
		return User{}, cannot("%s uses no client", id)
	}
	return user, nil
}

// seen returns a message that a user has before them. Whoever is in the team,
// and no guest, can look into public channels.
func (s *Slack) seen(user, channel, ts string) (*conversation, *Message, error) {
	conv := s.channels[channel]
	if conv == nil {
		return nil, nil, cannot("there is no conversation %s", channel)
	}
	u := s.users[user]
	member := u.Team == Team && !u.Restricted && !u.UltraRestricted
	if !conv.has(user) && (conv.Private || !member) {
		return nil, nil, cannot("%s does not see %s", user, channel)
	}
	m := conv.message(ts)
	if m == nil || m.Only != "" && m.Only != user {
		return nil, nil, cannot("%s has no message %s before them", user, ts)
	}
	return conv, m, nil
}

func (c *conversation) named() object {
	switch {
	case c.user != "":
		return object{"id": c.ID, "name": "directmessage"}
	case c.Private:
		return object{"id": c.ID, "name": "privategroup"} // not the name, which people may rely on
	}
	return object{"id": c.ID, "name": c.Name}
}

func findButton(blocks []object, block, action string) (b, e object) {
	return findElement(blocks, block, action, "button")
}

func findElement(blocks []object, block, action, kind string) (b, e object) {
	for _, b := range blocks {
		if block != "" && b["block_id"] != block {
			continue
		}
		for _, e := range elementsOf(b) {
			if e["type"] == kind && e["action_id"] == action {
				return b, e
			}
		}
	}
	return nil, nil
}

// optionOf returns what can be chosen by its value, nil if there is none.
func optionOf(e object, value string) any {
	options, _ := e["options"].([]any)
	i := slices.IndexFunc(options, func(v any) bool { o, _ := v.(object); return str(o, "value") == value })
	if i < 0 {
		return nil
	}
	return options[i]
}

// payload has what all interactions have.
func (s *Slack) payload(kind string, u User) object {
	return object{
		"type": kind, "user": object{"id": u.ID, "username": u.Name, "name": u.Name, "team_id": u.Team},
		"api_app_id": App, "token": "deprecated", "team": object{"id": Team, "domain": "acme"},
		"enterprise": nil, "is_enterprise_install": false,
	}
}
