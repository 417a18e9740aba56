package mattermosttest

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

// Typed is a slash command as somebody types it.
type Typed struct {
	User, Channel, Root string
	Team                string // which their client is in; empty means [Team]
	Trigger, Text       string
}

// Type sends a slash command and waits for what becomes of it.
func (s *Server) Type(ctx context.Context, t Typed) (Outcome, error) {
	team := t.Team
	if team == "" {
		team = Team
	}
	body := object{
		"channel_id": t.Channel, "team_id": team, "root_id": t.Root,
		"command": strings.TrimSuffix("/"+strings.TrimPrefix(t.Trigger, "/")+" "+t.Text, " "),
	}
	var o Outcome
	_, err := s.as(watching(ctx, &o), t.User, http.MethodPost, "/commands/execute", body, &o)
	return o, err
}

// hook is where late answers to one command go.
type hook struct {
	user, channel, root string
	uses                int
	at                  int64
}

// run is a slash command under way.
type run struct {
	Channel string `json:"channel_id"`
	Team    string `json:"team_id"`
	Root    string `json:"root_id"`
	Command string `json:"command"`
}

func (s *Server) execute(c *call) (answer, error) {
	var in run
	if err := c.read("command_args", &in); err != nil {
		return answer{}, err
	}
	if len(in.Command) <= 1 || in.Command[0] != '/' || !validID(in.Channel) {
		return answer{}, refuse(http.StatusBadRequest, "api.command.execute_command.start.app_error", "No command trigger found.")
	}
	ch := s.channels[in.Channel]
	switch {
	case ch == nil, !s.reads(c.user, ch):
		return answer{}, forbidden()
	case ch.deletedAt != 0:
		return answer{}, refuse(http.StatusBadRequest, "api.command.execute_command.deleted.error", "Cannot run command in deleted channel.")
	case ch.Team != "" && !s.inTeam(c.user, ch.Team), ch.Team == "" && !s.inTeam(c.user, in.Team):
		return answer{}, forbidden()
	}
	if ch.Team != "" {
		in.Team = ch.Team
	}
	if err := s.commandsOn(); err != nil {
		return answer{}, err
	}
	return s.run(c, in, ch)
}

func (s *Server) run(c *call, in run, ch *channel) (answer, error) {
	word, text, _ := cutBlank(in.Command[1:])
	var cmd *Command
	for _, k := range s.commands {
		if k.Team == in.Team && k.Trigger == strings.ToLower(word) {
			cmd = k
		}
	}
	if cmd == nil {
		return answer{}, refuse(http.StatusNotFound, "api.command.execute_command.not_found.app_error", "Command with a trigger of '"+strings.ToLower(word)+
			"' not found. To send a message beginning with \"/\", try adding an empty space at the beginning of the message.")
	}
	short, long := s.trigger(c.user.ID, s.config.Now())
	form := s.form(c.user, in, ch, cmd, text)
	form.Set("trigger_id", long)
	c.seen.Trigger, c.seen.Body = long, []byte(form.Encode())
	cmdCopy := *cmd
	var r reply
	var err error
	s.released(func() { r, err = s.askCommand(c, cmdCopy, form) })
	if err == nil {
		c.seen.Answer, c.seen.AnswerStatus = r.body, r.status
	}
	said, err := cmdCopy.understand(r, err)
	if err != nil {
		return answer{}, err
	}
	said.Trigger = short
	c.seen.GotoURL = said.Goto
	if err := s.say(c.seen, &cmdCopy, c.user, ch.ID, in.Root, said); err != nil {
		return answer{}, err
	}
	return ok(said), nil
}

func cutBlank(s string) (word, rest string, found bool) {
	i := strings.IndexAny(s, " \t\n")
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+1:], true
}

// form is what an integration is sent.
func (s *Server) form(u *user, in run, ch *channel, cmd *Command, text string) url.Values {
	id := NewID()
	s.hooks[id] = &hook{user: u.ID, channel: ch.ID, root: in.Root, at: s.millis()}
	form := url.Values{
		"token": {cmd.Token}, "team_id": {in.Team}, "team_domain": {s.teams[in.Team].name}, "channel_id": {ch.ID},
		"channel_name": {ch.Name}, "user_id": {u.ID}, "user_name": {u.Username}, "command": {"/" + cmd.Trigger},
		"text": {strings.TrimLeft(text, " ")}, "root_id": {in.Root}, "response_url": {s.siteURL() + "/hooks/commands/" + id},
	}
	s.mentions(form, in.Team, text)
	return form
}

var (
	atName      = regexp.MustCompile(`@([a-z0-9._-]+)`)
	channelName = regexp.MustCompile(`~([a-z0-9_-]+)`)
)

// mentions adds whom and which public channels of the team a text names.
func (s *Server) mentions(form url.Values, team, text string) {
	for _, m := range atName.FindAllStringSubmatch(text, -1) {
		if u := s.find(func(u *user) bool { return u.Username == m[1] }); u != nil {
			form.Add("user_mentions", u.Username)
			form.Add("user_mentions_ids", u.ID)
		}
	}
	for _, m := range channelName.FindAllStringSubmatch(text, -1) {
		for _, id := range sortedKeys(s.channels) {
			if ch := s.channels[id]; ch.Team == team && ch.Name == m[1] && ch.Type == "O" {
				form.Add("channel_mentions", ch.Name)
				form.Add("channel_mentions_ids", ch.ID)
			}
		}
	}
}

func (s *Server) askCommand(c *call, cmd Command, form url.Values) (reply, error) {
	header := http.Header{"Authorization": {"Token " + cmd.Token}}
	if cmd.Method == "G" {
		target, err := url.Parse(cmd.URL)
		if err != nil {
			return reply{}, err
		}
		query := target.Query()
		maps.Copy(query, form)
		target.RawQuery = query.Encode()
		return s.ask(c, http.MethodGet, target.String(), header, nil)
	}
	header.Set("Content-Type", "application/x-www-form-urlencoded")
	return s.ask(c, http.MethodPost, cmd.URL, header, []byte(form.Encode()))
}

// spoken is the answer of an integration to a command, and of the server to the
// client.
type spoken struct {
	Type        string        `json:"response_type"`
	Text        string        `json:"text"`
	Username    string        `json:"username"`
	Channel     string        `json:"channel_id"`
	Icon        string        `json:"icon_url"`
	Kind        string        `json:"type"`
	Props       object        `json:"props"`
	Goto        string        `json:"goto_location"`
	Trigger     string        `json:"trigger_id"`
	Raw         bool          `json:"skip_slack_parsing"`
	Attachments []*attachment `json:"attachments"`
	Extra       []*spoken     `json:"extra_responses"`
}

// understand reads an answer: JSON if it says so, text if not. Nothing but 200
// counts, and the person who typed is told of a 500.
func (cmd *Command) understand(r reply, err error) (*spoken, error) {
	failed := refuse(http.StatusInternalServerError, "api.command.execute_command.failed.app_error", "Command with a trigger of '"+cmd.Trigger+"' failed.")
	if err != nil {
		return nil, failed.because("%v", err)
	}
	if r.status != http.StatusOK {
		return nil, refuse(http.StatusInternalServerError, "api.command.execute_command.failed_resp.app_error",
			"Command with a trigger of '"+cmd.Trigger+"' returned response "+strconv.Itoa(r.status)+" "+http.StatusText(r.status)+".")
	}
	said := &spoken{}
	kind, _, _ := strings.Cut(r.kind, ";")
	if strings.TrimSpace(kind) != "application/json" {
		said.Text = string(r.body)
		return said, nil
	}
	if err := json.Unmarshal(r.body, said); err != nil {
		return nil, failed.because("%v", err)
	}
	return said, nil
}
