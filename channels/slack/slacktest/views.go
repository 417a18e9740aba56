package slacktest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Sizes of views, and how long a trigger works.
const (
	maxView     = 250 << 10
	maxStack    = 3
	triggerLife = 3 * time.Second
)

// View is a modal or a Home tab that somebody has before them.
type View struct {
	ID, User string
	Hash     string
	Previous string            // the view under this one
	Errors   map[string]string // by block id, as the last answer to Submit said

	Content map[string]any // as it was sent, with the ids that Slack adds
}

type view struct {
	View
	root string
	home bool
}

// trigger is the right to open one view.
type trigger struct {
	user   string
	issued time.Time
	used   bool
}

// Views returns the open modals of a user, the topmost last.
func (s *Slack) Views(user string) []View {
	s.mu.Lock()
	defer s.mu.Unlock()
	var open []View
	for _, v := range s.stack(user) {
		open = append(open, v.View)
	}
	return open
}

// Home returns the Home tab that a user has been given, if any.
func (s *Slack) Home(user string) (View, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.homeOf(user)
	if v == nil {
		return View{}, false
	}
	return v.View, true
}

func (s *Slack) homeOf(user string) *view {
	for _, v := range s.views {
		if v.home && v.User == user {
			return v
		}
	}
	return nil
}

// stack returns a user's modals from the bottom up. Ids grow, so they sort.
func (s *Slack) stack(user string) (all []*view) {
	for _, v := range s.views {
		if !v.home && v.User == user {
			all = append(all, v)
		}
	}
	slices.SortFunc(all, func(a, b *view) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

func (s *Slack) newTrigger(user string) string {
	id := s.id("601.") + ".slacktest"
	s.triggers[id] = &trigger{user: user, issued: s.config.Now()}
	return id
}

// redeem uses a trigger up, whatever becomes of the view: Slack does not say that
// a client may try again.
func (s *Slack) redeem(c *call) (*trigger, error) {
	t := s.triggers[c.args["trigger_id"]]
	switch {
	case t == nil:
		return nil, refuse("invalid_trigger_id")
	case t.used:
		return nil, refuse("exchanged_trigger_id")
	case c.now.Sub(t.issued) > triggerLife:
		return nil, refuse("expired_trigger_id")
	}
	t.used = true
	return t, nil
}

func (s *Slack) openView(c *call) (object, error) {
	t, err := s.redeem(c)
	if err != nil {
		return nil, err
	}
	content, err := s.checkView(c.args["view"], "modal", "")
	if err != nil {
		return nil, err
	}
	s.closeAll(t.user)
	return object{"view": s.show(t.user, content, nil).wire()}, nil
}

// pushView shows a view on top of the one that somebody has before them.
func (s *Slack) pushView(c *call) (object, error) {
	t, err := s.redeem(c)
	if err != nil {
		return nil, err
	}
	content, err := s.checkView(c.args["view"], "modal", "")
	if err != nil {
		return nil, err
	}
	stack := s.stack(t.user)
	if len(stack) == 0 || len(stack) >= maxStack {
		return nil, refuse("push_limit_reached")
	}
	return object{"view": s.show(t.user, content, stack[len(stack)-1]).wire()}, nil
}

func (s *Slack) updateView(c *call) (object, error) {
	v := s.views[c.args["view_id"]]
	if id := c.args["external_id"]; v == nil && id != "" {
		v = s.external(id)
	}
	switch hash := c.args["hash"]; {
	case v == nil:
		return nil, refuse("not_found")
	case hash != "" && hash != v.Hash:
		return nil, refuse("hash_conflict")
	}
	kind := "modal"
	if v.home {
		kind = "home"
	}
	content, err := s.checkView(c.args["view"], kind, v.ID)
	if err != nil {
		return nil, err
	}
	s.redraw(v, content)
	return object{"view": v.wire()}, nil
}

func (s *Slack) publishView(c *call) (object, error) {
	user, ok := s.users[c.args["user_id"]]
	if !ok {
		return nil, refuse("user_not_found")
	}
	v := s.homeOf(user.ID)
	id := ""
	if v != nil {
		if hash := c.args["hash"]; hash != "" && hash != v.Hash {
			return nil, refuse("hash_conflict")
		}
		id = v.ID
	}
	content, err := s.checkView(c.args["view"], "home", id)
	if err != nil {
		return nil, err
	}
	if v == nil {
		v = s.show(user.ID, content, nil)
		v.home = true
	}
	s.redraw(v, content)
	return object{"view": v.wire()}, nil
}

func (s *Slack) external(id string) *view {
	for _, v := range s.views {
		if str(v.Content, "external_id") == id {
			return v
		}
	}
	return nil
}

// checkView reads a view of a kind that is to be shown, in the place of an
// earlier one if that is named.
func (s *Slack) checkView(raw, kind, inPlaceOf string) (object, error) {
	var v object
	if json.Unmarshal([]byte(raw), &v) != nil || v == nil {
		return nil, refuse("invalid_arguments", "missing required field: view")
	}
	if len(raw) > maxView {
		return nil, refuse("view_too_large")
	}
	c := &checker{}
	if v["type"] != kind {
		c.fail("/view/type", "must be %s", kind)
	}
	c.view("/view", v, kind)
	if len(c.problems) > 0 {
		return nil, refuse("invalid_arguments", c.problems...)
	}
	if id := str(v, "external_id"); id != "" {
		if other := s.external(id); other != nil && other.ID != inPlaceOf {
			return nil, refuse("duplicate_external_id")
		}
	}
	s.nameBlocks(blocksOf(v))
	return v, nil
}

var (
	viewRules  = []rule{chars("callback_id", 0, 255), chars("external_id", 0, 255), chars("private_metadata", 0, 3000)}
	modalRules = []rule{
		text("title", 24, plain), maybe("submit", text("submit", 24, plain)), maybe("close", text("close", 24, plain)),
	}
)

func (c *checker) view(at string, v object, kind string) {
	items, ok := v["blocks"].([]any)
	if !ok {
		c.fail(at, "missing required field: blocks")
	}
	c.blocks(at+"/blocks", items, maxViewBlocks)
	c.all(at, v, viewRules)
	if kind != "modal" {
		return
	}
	c.all(at, v, modalRules)
	if v["submit"] == nil && slices.ContainsFunc(blocksOf(v), isInput) {
		c.fail(at, "missing required field: submit")
	}
}

func isInput(b object) bool { return b["type"] == "input" }

func blocksOf(v object) (blocks []object) {
	items, _ := v["blocks"].([]any)
	for _, item := range items {
		if b, ok := item.(object); ok {
			blocks = append(blocks, b)
		}
	}
	return blocks
}

// show puts a view before a user, on top of another one if there is one.
func (s *Slack) show(user string, content object, on *view) *view {
	v := &view{View: View{ID: s.id("V"), User: user, Content: content}}
	v.root = v.ID
	if on != nil {
		v.Previous, v.root = on.ID, on.root
	}
	s.redraw(v, content)
	s.views[v.ID] = v
	return v
}

func (s *Slack) redraw(v *view, content object) {
	v.Content, v.Errors = content, nil
	v.Hash = fmt.Sprintf("%d.%s", s.config.Now().Unix(), s.id("h"))
}

func (s *Slack) closeAll(user string) {
	for _, v := range s.stack(user) {
		delete(s.views, v.ID)
	}
}

// wire is how the Web API and payloads show a view.
func (v *view) wire() object {
	o := maps.Clone(v.Content)
	o["id"], o["hash"], o["root_view_id"], o["previous_view_id"] = v.ID, v.Hash, v.root, nil
	if v.Previous != "" {
		o["previous_view_id"] = v.Previous
	}
	o["team_id"], o["app_id"], o["app_installed_team_id"], o["bot_id"] = Team, App, Team, Bot
	for _, key := range []string{"callback_id", "private_metadata", "external_id"} {
		o[key] = str(o, key)
	}
	o["state"] = object{"values": object{}}
	return o
}
