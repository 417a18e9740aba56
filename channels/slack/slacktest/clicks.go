package slacktest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
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
		o := &outcomes[i]
		o.TriggerID, o.ResponseURL = str(payload, "trigger_id"), str(payload, "response_url")
		if c.Mangle != nil {
			c.Mangle(payload)
		}
		if o.sent, err = s.newRequest(kindInteractive, c.To, payload, c.Forged); err != nil {
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
	payload["trigger_id"] = s.newTrigger(user.ID, c.View)
	blocks, err := s.pressed(c, payload)
	if err != nil {
		return nil, err
	}
	b, e := findButton(blocks, c.Block, c.Action)
	if e == nil {
		return nil, cannot("there is no button %q", c.Action)
	}
	action := object{"block_id": b["block_id"], "action_ts": stamp(s.config.Now())}
	for _, key := range []string{"action_id", "type", "text", "value", "style"} {
		if e[key] != nil {
			action[key] = e[key]
		}
	}
	payload["actions"] = []any{action}
	// Round trip, so that Mangle cannot reach what is stored.
	raw, err := json.Marshal(payload)
	if err != nil {
		return nil, err
	}
	payload = object{}
	return payload, json.Unmarshal(raw, &payload)
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
	for _, b := range blocks {
		if block != "" && b["block_id"] != block {
			continue
		}
		for _, e := range elementsOf(b) {
			if e["type"] == "button" && e["action_id"] == action {
				return b, e
			}
		}
	}
	return nil, nil
}

// payload has what all interactions have.
func (s *Slack) payload(kind string, u User) object {
	return object{
		"type": kind, "user": object{"id": u.ID, "username": u.Name, "name": u.Name, "team_id": u.Team},
		"api_app_id": App, "token": "deprecated", "team": object{"id": Team, "domain": "acme"},
		"enterprise": nil, "is_enterprise_install": false,
	}
}

// Submission is a press of a view's own button.
type Submission struct {
	View   string
	Values map[string]string // by block id: what is typed, or the value of what is chosen

	To     string
	Forged Forgery
	Mangle func(payload map[string]any)
}

// Submit fills a modal in and sends it off. What the answer says is done: the
// view closes, changes, or shows errors.
func (s *Slack) Submit(ctx context.Context, sub Submission) (Outcome, error) {
	payload, err := s.submission(sub)
	if err != nil {
		return Outcome{}, err
	}
	if sub.Mangle != nil {
		sub.Mangle(payload)
	}
	trigger := str(payload, "trigger_id")
	r, err := s.newRequest(kindInteractive, sub.To, payload, sub.Forged)
	if err != nil {
		return Outcome{}, err
	}
	o := s.deliver(ctx, r)
	o.TriggerID = trigger
	if o.Warning == "" {
		o.Warning = s.answerView(sub.View, o.Answer)
	}
	return o, nil
}

func (s *Slack) submission(sub Submission) (object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.views[sub.View]
	if v == nil || v.home {
		return nil, cannot("modal %s is not open", sub.View)
	}
	if v.Content["submit"] == nil {
		return nil, cannot("modal %s has no button of its own", sub.View)
	}
	user, err := s.present(v.User)
	if err != nil {
		return nil, err
	}
	values, err := fillIn(blocksOf(v.Content), sub.Values)
	if err != nil {
		return nil, err
	}
	payload, wire := s.payload("view_submission", user), v.wire()
	wire["state"] = object{"values": values}
	payload["view"], payload["response_urls"] = wire, []any{}
	payload["trigger_id"] = s.newTrigger(user.ID, v.ID)
	return payload, nil
}

// fillIn makes the state of a view, or says what a client would not let pass.
func fillIn(blocks []object, values map[string]string) (object, error) {
	state, fields := object{}, 0
	for _, b := range blocks {
		if !isInput(b) {
			continue
		}
		value, given := values[str(b, "block_id")]
		if given {
			fields++
		}
		e, _ := b["element"].(object)
		if value == "" && b["optional"] != true {
			return nil, cannot("%s must be filled in", b["block_id"])
		}
		entry, err := fillField(e, value)
		if err != nil {
			return nil, err
		}
		state[str(b, "block_id")] = object{str(e, "action_id"): entry}
	}
	if fields != len(values) {
		return nil, cannot("there is no field for each of %d values", len(values))
	}
	return state, nil
}

func fillField(e object, value string) (object, error) {
	kind := str(e, "type")
	entry := object{"type": kind}
	switch kind {
	case "plain_text_input":
		entry["value"] = nil
		if value != "" {
			entry["value"] = value
		}
		least, _ := e["min_length"].(float64)
		most, limited := e["max_length"].(float64)
		if n := float64(len([]rune(value))); value != "" && n < least || limited && n > most {
			return nil, cannot("%.0f characters do not fit the field", n)
		}
	case "static_select", "radio_buttons":
		entry["selected_option"] = nil
		options, _ := e["options"].([]any)
		i := slices.IndexFunc(options, func(v any) bool { o, _ := v.(object); return str(o, "value") == value })
		if value != "" && i < 0 {
			return nil, cannot("%q is no option", value)
		}
		if value != "" {
			entry["selected_option"] = options[i]
		}
	default:
		return nil, cannot("the double cannot fill in a %s", kind)
	}
	return entry, nil
}

// answerView does what the answer to a submission says, and returns what the
// person is told if it cannot be done.
func (s *Slack) answerView(id string, answer []byte) (warning string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.views[id]
	if v == nil {
		return ""
	}
	if len(answer) == 0 {
		delete(s.views, id)
		return ""
	}
	var a struct {
		Action string            `json:"response_action"`
		Errors map[string]string `json:"errors"`
		View   json.RawMessage   `json:"view"`
	}
	if json.Unmarshal(answer, &a) != nil {
		return warnTrouble
	}
	switch a.Action {
	case "clear":
		s.closeAll(v.User)
	case "errors":
		return v.mark(a.Errors)
	case "update", "push":
		return s.replaceView(v, a.Action, string(a.View))
	default:
		return warnTrouble
	}
	return ""
}

// mark shows errors at fields. Keys that are no fields show none of them.
func (v *view) mark(errs map[string]string) (warning string) {
	for id := range errs {
		if !slices.ContainsFunc(blocksOf(v.Content), func(b object) bool { return isInput(b) && b["block_id"] == id }) {
			return warnTrouble
		}
	}
	if len(errs) == 0 {
		return warnTrouble
	}
	v.Errors = errs
	return ""
}

func (s *Slack) replaceView(v *view, action, raw string) (warning string) {
	place := ""
	if action == "update" {
		place = v.ID
	}
	content, err := s.checkView(raw, "modal", place)
	switch {
	case err != nil:
		return warnTrouble
	case action == "update":
		s.redraw(v, content)
	case len(s.stack(v.User)) >= maxStack:
		return warnTrouble
	default:
		s.show(v.User, content, v)
	}
	return ""
}

// Dismiss closes a modal: with the ×, which closes all of them, or with Cancel.
// The bot hears of it if the view asked for that.
func (s *Slack) Dismiss(ctx context.Context, viewID string, cross bool) (Outcome, error) {
	s.mu.Lock()
	v := s.views[viewID]
	if v == nil || v.home {
		s.mu.Unlock()
		return Outcome{}, cannot("modal %s is not open", viewID)
	}
	payload := s.payload("view_closed", s.users[v.User])
	payload["view"], payload["is_cleared"] = v.wire(), cross
	delete(s.views, viewID)
	if cross {
		s.closeAll(v.User)
	}
	s.mu.Unlock()
	if v.Content["notify_on_close"] != true {
		return Outcome{}, nil
	}
	r, err := s.newRequest(kindInteractive, "", payload, Genuine)
	if err != nil {
		return Outcome{}, err
	}
	return s.deliver(ctx, r), nil
}

// Slash is a slash command as typed in a conversation.
type Slash struct {
	User, Channel string
	Command, Text string // "/approvals", "list"; Text as should_escape makes it

	To     string
	Forged Forgery
	Mangle func(payload map[string]any)
}

// Slash sends a command. What it is answered at once is in [Outcome.Shown], and
// among the messages.
func (s *Slack) Slash(ctx context.Context, c Slash) (Outcome, error) {
	payload, err := s.command(c)
	if err != nil {
		return Outcome{}, err
	}
	trigger, responseURL := str(payload, "trigger_id"), str(payload, "response_url")
	if c.Mangle != nil {
		c.Mangle(payload)
	}
	r, err := s.newRequest(kindCommand, c.To, payload, c.Forged)
	if err != nil {
		return Outcome{}, err
	}
	o := s.deliver(ctx, r)
	o.TriggerID, o.ResponseURL = trigger, responseURL
	if o.Warning == "" {
		o.Shown, o.Warning = s.answerCommand(c, o.Answer)
	}
	return o, nil
}

func (s *Slack) command(c Slash) (object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	user, err := s.present(c.User)
	if err != nil {
		return nil, err
	}
	conv := s.channels[c.Channel]
	switch {
	case user.Team != Team:
		return nil, cannot("strangers have no commands")
	case conv == nil || !conv.has(user.ID):
		return nil, cannot("%s is not in %s", user.ID, c.Channel)
	case !s.granted("commands"):
		return nil, cannot("the command is not offered without its scope")
	}
	return object{
		"token": "deprecated", "team_id": Team, "team_domain": "acme", "is_enterprise_install": "false",
		"channel_id": conv.ID, "channel_name": conv.named()["name"], "user_id": user.ID, "user_name": user.Name,
		"command": c.Command, "text": c.Text, "api_app_id": App, "trigger_id": s.newTrigger(user.ID, ""),
		"response_url": s.newHook(&hook{user: user.ID, channel: conv.ID, command: true}),
	}, nil
}

// answerCommand shows an answer, which is text or a message as JSON.
func (s *Slack) answerCommand(c Slash, answer []byte) (shown, warning string) {
	if len(strings.TrimSpace(string(answer))) == 0 {
		return "", ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	a, err := jsonArgs(answer)
	if err != nil {
		a = args{"text": string(answer)}
	}
	m, err := s.respond(a, &hook{user: c.User, channel: c.Channel, command: true})
	if err != nil || m == nil {
		return "", warnTrouble
	}
	return m.Read(), ""
}
