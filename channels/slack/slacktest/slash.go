package slacktest

import (
	"context"
	"strings"
)

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
	o, err := s.act(ctx, kindCommand, payload, how{c.To, c.Forged, c.Mangle})
	if err == nil && o.Warning == "" {
		o.Shown, o.Warning = s.answerCommand(c, o.Answer)
	}
	return o, err
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
		"command": c.Command, "text": c.Text, "api_app_id": App, "trigger_id": s.newTrigger(user.ID),
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
