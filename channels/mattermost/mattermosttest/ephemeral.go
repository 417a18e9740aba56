package mattermosttest

import (
	"encoding/base64"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

const ephemeralKind = "system_ephemeral"

// Ephemeral is something that only one user was shown. It is nowhere stored.
type Ephemeral struct {
	ID, Channel, Root, Text string
	Props                   map[string]any // with cookies and without integrations
}

// Read returns what the user reads, as [Post.Read] does.
func (e Ephemeral) Read() string { return Post{Message: e.Text, Props: e.Props}.Read() }

// Cookie returns the cookie of a button, for [Press].
func (e Ephemeral) Cookie(action string) string {
	for _, a := range attachmentsOf(e.Props["attachments"]) {
		for _, b := range a.Actions {
			if b.ID == action {
				return b.Cookie
			}
		}
	}
	return ""
}

// Ephemerals returns what a user was shown so far, the oldest first.
func (s *Server) Ephemerals(user string) []Ephemeral {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := slices.Clone(s.shown[user])
	for i := range all {
		all[i].Props = plain(all[i].Props)
	}
	return all
}

// show shows somebody something.
func (s *Server) show(o *Outcome, user string, e Ephemeral) Ephemeral {
	if e.ID == "" {
		e.ID = NewID()
	}
	e.Props = stripped(settled(e.Props), func(b *action) string { return s.cookie(e, b) })
	s.shown[user] = append(s.shown[user], e)
	if o != nil {
		o.Ephemerals = append(o.Ephemerals, e.Text)
	}
	return e
}

// cookie keeps what an action does. The real one is that, encrypted.
func (s *Server) cookie(e Ephemeral, b *action) string {
	if b.Integration == nil {
		return ""
	}
	secret := base64.StdEncoding.EncodeToString([]byte(strings.Repeat(NewID(), 6)))
	s.cookies[secret] = cookie{post: e.ID, channel: e.Channel, root: e.Root, kept: keptOf(e.Props), action: b}
	return secret
}

// createEphemeral is what bots may not do.
func (s *Server) createEphemeral(c *call) (answer, error) {
	var in struct {
		User string `json:"user_id"`
		Post draft  `json:"post"`
	}
	if err := c.read("body", &in); err != nil {
		return answer{}, err
	}
	if !c.user.Admin && !c.user.has("system_post_ephemeral") {
		return answer{}, forbidden()
	}
	ch := s.channels[in.Post.Channel]
	if ch == nil || s.users[in.User] == nil {
		return answer{}, refuse(http.StatusBadRequest, "api.context.invalid_body_param.app_error", "Invalid or missing channel_id in request body.")
	}
	e := s.show(nil, in.User, Ephemeral{Channel: ch.ID, Root: in.Post.Root, Text: in.Post.text(), Props: in.Post.Props})
	p := &post{
		id: e.ID, user: c.user.ID, channel: ch.ID, root: e.Root, message: e.Text, kind: ephemeralKind, props: e.Props, createdAt: s.millis(),
	}
	o := s.wirePost(p)
	o["props"] = e.Props
	delete(o, "remote_id")
	if m, isMap := o["metadata"].(object); isMap && m["embeds"] != nil { // they are added twice
		m["embeds"] = []object{{"type": "message_attachment"}, {"type": "message_attachment"}}
	}
	return created(o), nil
}

var slackLink = regexp.MustCompile(`<([^<>|]+)\|([^<>|]+)>`)

// slackText rewrites markup of Slack. It does so in code, too.
func (s *Server) slackText(text string) string {
	text = strings.NewReplacer("<!channel>", "@channel", "<!here>", "@here", "<!all>", "@all", "<!everyone>", "@all").Replace(text)
	for id, u := range s.users {
		text = strings.ReplaceAll(text, "<@"+id+">", "@"+u.Username)
	}
	return slackLink.ReplaceAllString(text, "[$2]($1)")
}
