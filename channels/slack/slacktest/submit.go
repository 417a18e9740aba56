package slacktest

import (
	"context"
	"encoding/json"
	"slices"
)

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
	o, err := s.act(ctx, kindInteractive, payload, how{sub.To, sub.Forged, sub.Mangle})
	if err == nil && o.Warning == "" {
		o.Warning = s.answerView(sub.View, o.Answer)
	}
	return o, err
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
	payload["trigger_id"] = s.newTrigger(user.ID)
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
		option := optionOf(e, value)
		if value != "" && option == nil {
			return nil, cannot("%q is no option", value)
		}
		if value != "" {
			entry["selected_option"] = option
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
	return s.act(ctx, kindInteractive, payload, how{})
}
