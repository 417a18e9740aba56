package mattermosttest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
)

// Press is a click on a button or a choice from a menu.
type Press struct {
	User, Post, Action string
	Selected           string // the value of what is chosen
	Cookie             string // of a button of an ephemeral post: [Ephemeral.Cookie]
}

// Outcome is what became of a press or a command.
type Outcome struct {
	Status  int
	Error   string // the id of the app error; empty if there was none
	Trigger string // the long signed one that the integration got
	Body    []byte // what was sent to the integration; nil if nothing was

	Answer       []byte // of the integration
	AnswerStatus int    // zero without an answer

	Ephemerals []string // what only this user was shown
	Updated    bool     // the post was changed by the answer
	GotoURL    string   // where a command sends the browser
}

// Press presses a button as a click through the API does and waits for what
// becomes of it. The error says that no click could be sent.
func (s *Server) Press(ctx context.Context, p Press) (Outcome, error) {
	body := object{}
	if p.Selected != "" {
		body["selected_option"] = p.Selected
	}
	if p.Cookie != "" {
		body["cookie"] = p.Cookie
	}
	var o Outcome
	_, err := s.as(watching(ctx, &o), p.User, http.MethodPost, "/posts/"+p.Post+"/actions/"+url.PathEscape(p.Action), body, &o)
	return o, err
}

// as makes a call of the API as this user's client does, and notes its status and
// error in o.
func (s *Server) as(ctx context.Context, user, method, path string, body any, o *Outcome) ([]byte, error) {
	raw, err := marshal(body)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	if s.users[user] == nil {
		s.mu.Unlock()
		return nil, fmt.Errorf("mattermosttest: there is no user %s", user)
	}
	secret := ""
	if s.users[user].deletedAt == 0 { // nobody else is logged in
		secret = s.session(user)
	}
	s.mu.Unlock()
	req, err := http.NewRequestWithContext(ctx, method, "/api/v4"+path, bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	req.RequestURI, req.RemoteAddr = req.URL.RequestURI(), "of "+user
	req.Header.Set("Authorization", "Bearer "+secret)
	w := httptest.NewRecorder()
	s.routes.ServeHTTP(w, req)
	var e appError
	if w.Code >= http.StatusBadRequest && json.Unmarshal(w.Body.Bytes(), &e) != nil {
		e.ID = w.Body.String()
	}
	o.Status, o.Error = w.Code, e.ID
	return w.Body.Bytes(), nil
}

func marshal(v any) ([]byte, error) { return json.Marshal(v) }

// cookie is what the server keeps in the cookie of a button of a post that is not
// in its database.
type cookie struct {
	post, channel, root string
	kept                object
	action              *action
}

// target is what a press is on.
type target struct {
	post    *post // nil for one with a cookie
	id      string
	channel *channel
	root    string // where an ephemeral answer goes
	kept    object // props that stay whatever is answered
	action  *action
}

// act is the endpoint of a press.
func (s *Server) act(c *call) (answer, error) {
	if !validID(c.path("post")) {
		return answer{}, invalidURL("post_id")
	}
	var in struct {
		Selected string `json:"selected_option"`
		Cookie   string `json:"cookie"`
	}
	_ = json.Unmarshal(c.body, &in) // one that cannot be read is a press all the same
	to, err := s.pressed(c, in.Cookie)
	if err != nil {
		return answer{}, err
	}
	short, long := s.trigger(c.user.ID, s.config.Now())
	raw, err := marshal(s.callback(c.user, to, long, in.Selected))
	if err != nil {
		return answer{}, err
	}
	said, err := s.call(c, to.action.Integration.URL, raw, long)
	if err == nil {
		err = s.apply(c, to, said)
	}
	if err != nil {
		return answer{}, err
	}
	return ok(object{"status": "OK", "trigger_id": short}), nil
}

// pressed finds what is pressed: in the stored post, else in the cookie. Whoever
// may read the channel may press.
func (s *Server) pressed(c *call, sent string) (target, error) {
	id := c.path("post")
	if sent != "" {
		k, known := s.cookies[sent]
		switch {
		case !known, k.post != id:
			return target{}, badIntegration().because("cookie")
		case !s.reads(c.user, s.channels[k.channel]):
			return target{}, forbidden()
		}
		root := k.root
		if root == "" {
			root = k.post
		}
		return target{id: id, channel: s.channels[k.channel], root: root, kept: k.kept, action: k.action}, nil
	}
	p := s.posts[id]
	switch {
	case p == nil, !s.reads(c.user, s.channels[p.channel]):
		return target{}, forbidden()
	case p.deletedAt != 0:
		return target{}, noPost()
	}
	b := p.action(c.path("action"))
	if b == nil || b.Integration == nil {
		return target{}, noAction()
	}
	root := p.root
	if root == "" {
		root = p.id
	}
	return target{post: p, id: id, channel: s.channels[p.channel], root: root, kept: keptOf(p.props), action: b}, nil
}

// upstream is what an integration is sent. The id of the action is not in it.
type upstream struct {
	User       string `json:"user_id"`
	UserName   string `json:"user_name"`
	Channel    string `json:"channel_id"`
	ChannelNam string `json:"channel_name"`
	Team       string `json:"team_id"`
	TeamDomain string `json:"team_domain"`
	Post       string `json:"post_id"`
	Trigger    string `json:"trigger_id"`
	Type       string `json:"type"`
	DataSource string `json:"data_source"`
	Context    object `json:"context,omitempty"`
}

func (s *Server) callback(u *user, to target, trigger, selected string) upstream {
	context := maps.Clone(to.action.Integration.Context)
	if selected != "" {
		if context == nil {
			context = object{}
		}
		context["selected_option"] = selected
	}
	up := upstream{
		User: u.ID, UserName: u.Username, Channel: to.channel.ID, ChannelNam: to.channel.Name,
		Post: to.id, Trigger: trigger, Type: to.action.Type, DataSource: to.action.DataSource, Context: context,
	}
	if t := s.teams[to.channel.Team]; t != nil {
		up.Team, up.TeamDomain = t.id, t.name
	}
	return up
}

// call calls the integration of a press or dialog. Nothing but 200 counts.
func (s *Server) call(c *call, to string, raw []byte, trigger string) (said reply, err error) {
	if isPlugin(to) {
		return reply{status: http.StatusOK}, nil // as if there were one that says nothing
	}
	c.seen.Trigger = trigger
	s.released(func() { said, err = s.postJSON(c, to, raw) })
	c.seen.Body, c.seen.Answer, c.seen.AnswerStatus = raw, said.body, said.status
	switch {
	case err != nil:
		c.seen.Answer, c.seen.AnswerStatus = nil, 0
		return reply{}, badIntegration().because("%v", err)
	case said.status == http.StatusOK:
		return said, nil
	}
	refusal := badIntegration().because("status=%d", said.status)
	if s.since11(10) {
		refusal.Status = passedOn(said.status)
	}
	return reply{}, refusal
}

// passedOn is the status that later versions give the client for one of an
// integration.
func passedOn(status int) int {
	switch {
	case status == http.StatusTooManyRequests, status == http.StatusServiceUnavailable:
		return status
	case status >= http.StatusInternalServerError:
		return http.StatusBadGateway
	}
	return http.StatusBadRequest
}

// said is the answer of an integration to a press.
type said struct {
	Update    *update `json:"update"`
	Ephemeral string  `json:"ephemeral_text"`
	Raw       bool    `json:"skip_slack_parsing"`
}

// update is a post of which only two fields count.
type update struct {
	Message string `json:"message"`
	Props   object `json:"props"`
}

// apply does what an integration answered.
func (s *Server) apply(c *call, to target, r reply) error {
	if len(r.body) == 0 {
		return nil
	}
	var a said
	if err := json.Unmarshal(r.body, &a); err != nil {
		return badIntegration().because("%v", err)
	}
	if a.Update != nil {
		if err := s.update(to, a.Update); err != nil {
			return err
		}
		c.seen.Updated = true
	}
	if a.Ephemeral == "" {
		return nil
	}
	text := a.Ephemeral
	if !a.Raw {
		text = s.slackText(text)
	}
	s.show(c.seen, c.user.ID, Ephemeral{Channel: to.channel.ID, Root: to.root, Text: text, Props: maps.Clone(to.kept)})
	return nil
}

// kept are the props that an update cannot change.
var kept = []string{"from_webhook", "override_username", "override_icon_url", "override_icon_emoji"}

func keptOf(props object) object {
	some := object{}
	for _, key := range kept {
		if v, has := props[key]; has {
			some[key] = v
		}
	}
	return some
}

// update changes the post of a press, without anybody's rights. The text is always
// replaced; props are if there are any.
func (s *Server) update(to target, u *update) error {
	p := to.post
	if p == nil || p.deletedAt != 0 {
		return noPost()
	}
	next := *p
	next.message = u.Message
	if u.Props != nil {
		next.props = maps.Clone(u.Props)
		for _, key := range kept {
			delete(next.props, key)
		}
		maps.Copy(next.props, to.kept)
	}
	err := s.replace(p, next)
	if errors.As(err, new(*appError)) {
		return err
	}
	return nil
}
