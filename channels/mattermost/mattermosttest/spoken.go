package mattermosttest

import (
	"encoding/json"
	"maps"
	"net/http"
	"strings"
	"time"
)

// say posts or shows what a command answered, and what comes with it.
func (s *Server) say(o *Outcome, cmd *Command, u *user, channel, root string, said *spoken) error {
	err := s.sayOne(o, cmd, u, channel, root, said)
	for _, more := range said.Extra {
		if e := s.sayOne(o, cmd, u, channel, root, more); e != nil {
			err = e
		}
	}
	if err != nil {
		return refuse(http.StatusInternalServerError, "api.command.execute_command.create_post_failed.app_error",
			"Command '"+cmd.Trigger+"' failed to post response. Please contact your System Administrator.").because("%v", err)
	}
	return nil
}

func (s *Server) sayOne(o *Outcome, cmd *Command, u *user, channel, root string, said *spoken) error {
	text := said.Text
	if !said.Raw {
		text = s.slackText(text)
	}
	if strings.TrimSpace(text) == "" && len(said.Attachments) == 0 {
		return nil
	}
	props := s.spokenProps(cmd, said)
	if said.Channel != "" {
		channel, root = said.Channel, ""
	}
	if said.Type != "in_channel" {
		e := s.show(o, u.ID, Ephemeral{Channel: channel, Root: root, Text: text, Props: props})
		if len(said.Attachments) > 0 { // the answer to the client has the cookies, too
			said.Attachments, _ = e.Props["attachments"].([]*attachment)
		}
		return nil
	}
	ch, err := s.postAllowed(u, channel)
	if err != nil {
		return err
	}
	_, err = s.add(u, ch, draft{Channel: channel, Root: root, Message: &text, Props: props})
	return err
}

// spokenProps are the props of an answer. What marks its author cannot be set.
func (s *Server) spokenProps(cmd *Command, said *spoken) object {
	props := maps.Clone(said.Props)
	if props == nil {
		props = object{}
	}
	for _, key := range append([]string{"from_bot", "from_plugin", "from_oauth_app"}, kept...) {
		delete(props, key)
	}
	props["from_webhook"] = "true"
	if s.config.AllowOverrides {
		for key, name := range map[string]string{"override_username": first(cmd.Username, said.Username), "override_icon_url": first(cmd.Icon, said.Icon)} {
			if name != "" {
				props[key] = name
			}
		}
	}
	if len(said.Attachments) > 0 {
		props["attachments"] = said.Attachments
	}
	return props
}

func first(names ...string) string {
	for _, n := range names {
		if n != "" {
			return n
		}
	}
	return ""
}

// How often, and for how long, a command can be answered late.
const (
	lateUses = 5
	lateFor  = 30 * time.Minute
)

// lateAnswer is what a response_url leads to. It needs no login.
func (s *Server) lateAnswer(c *call) (answer, error) {
	id := c.path("hook")
	broken := func(status int) *appError {
		return refuse(status, "web.command_webhook.general.app_error", "Failed to handle command webhook "+id+".")
	}
	said := &spoken{Text: string(c.body)}
	if kind, _, _ := strings.Cut(c.Header.Get("Content-Type"), ";"); kind == "application/json" {
		said = &spoken{}
		if json.Unmarshal(c.body, said) != nil {
			return answer{}, refuse(http.StatusBadRequest, "web.command_webhook.parse.app_error", "Unable to parse incoming data for webhook "+id+".")
		}
	}
	h := s.hooks[id]
	switch {
	case h == nil:
		return answer{}, broken(http.StatusNotFound)
	case h.uses >= lateUses, s.millis()-h.at > lateFor.Milliseconds():
		return answer{}, broken(http.StatusBadRequest)
	}
	h.uses++
	if err := s.say(nil, &Command{}, s.users[h.user], h.channel, h.root, said); err != nil {
		return answer{}, broken(http.StatusBadRequest)
	}
	return answer{http.StatusOK, "ok"}, nil
}
