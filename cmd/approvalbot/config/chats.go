package config

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/approvalbot/approvalbot/channels/mattermost"
	"github.com/approvalbot/approvalbot/channels/slack"
	"github.com/approvalbot/approvalbot/gate"
	"github.com/approvalbot/approvalbot/gate/secret"
)

// chats makes the channels, and checks the conversations that go with them.
func (c *checker) chats() map[string]gate.Platform {
	chats := map[string]gate.Platform{}
	if c.loaded.Channels.Slack != nil {
		c.loaded.Slack = c.slack(c.loaded.Channels.Slack)
		chats[c.loaded.Slack.Name()] = c.loaded.Slack
	}
	if c.loaded.Channels.Mattermost != nil {
		c.loaded.Mattermost = c.mattermost(c.loaded.Channels.Mattermost)
		chats[c.loaded.Mattermost.Name()] = c.loaded.Mattermost
	}
	for section, places := range map[string]map[string]string{"review": c.loaded.Review, "operators": c.loaded.Operators} {
		for name, id := range places {
			if chat, ok := chats[name]; !ok {
				c.problem(section+"."+name, "no channel named %q is configured; add channels.%s, or take it out", name, name)
			} else if err := chat.Check(gate.KindConversation, id); err != nil {
				c.problem(section+"."+name, "%v", err)
			}
		}
	}
	return chats
}

func (c *checker) slack(s *slack.Config) *slack.Slack {
	const path = "channels.slack."
	s.BotToken = c.oneSecret(path+"bot_token", s.BotToken, s.BotTokenFile)
	s.AppToken = c.oneSecret(path+"app_token", s.AppToken, s.AppTokenFile)
	s.SigningSecret = c.oneSecret(path+"signing_secret", s.SigningSecret, s.SigningSecretFile)
	c.add(false, below(path, s.Problems()))
	return slack.New(*s)
}

// mattermost makes the channel. Without an address of its own for callbacks it is
// called where people reach the server.
func (c *checker) mattermost(m *mattermost.Config) *mattermost.Mattermost {
	const path = "channels.mattermost."
	m.Token = c.oneSecret(path+"token", m.Token, m.TokenFile)
	for i := range m.Commands {
		k := &m.Commands[i]
		k.Token = c.oneSecret(fmt.Sprintf("%scommands[%d].token", path, i), k.Token, k.TokenFile)
	}
	m.CallbackURL = cmp.Or(m.CallbackURL, c.loaded.PublicURL)
	c.add(false, below(path, m.Problems()))
	c.add(true, below(path, m.Warnings()))
	return mattermost.New(*m)
}

// below puts problems of a section into the file.
func below(path string, all []gate.Problem) []gate.Problem {
	for i := range all {
		all[i].Path = path + all[i].Path
	}
	return all
}

// sample is a conversation of each chat, as a config file names it.
var sample = map[string]string{gate.Slack: "C0REVIEW", gate.Mattermost: "acme/approvals"}

// homeless warns of the first rule whose approvers are on chats, and whose cards have
// no conversation in any of these.
func (c *checker) homeless(policy *gate.Policy) {
	if policy.Disabled() {
		return
	}
	for _, rule := range policy.Rules() {
		on := platforms(rule)
		if rule.Action != gate.ActionAsk || len(on) == 0 || slices.ContainsFunc(on, func(chat string) bool { return c.homes(rule, chat) }) {
			continue
		}
		c.add(true, []gate.Problem{{Path: "channels." + on[0], Text: fmt.Sprintf(
			"cards of rule %q have no conversation here, unless the call came from one; set review: {%s: %s}", rule.Name, on[0], sample[on[0]])}})
		return
	}
}

// homes reports whether cards of a rule have a conversation in a chat.
func (c *checker) homes(rule *gate.Rule, chat string) bool {
	return c.loaded.Review[chat] != "" ||
		slices.ContainsFunc(rule.Conversations, func(to gate.Conversation) bool { return strings.HasPrefix(to.Place, chat+":") })
}

// platforms are the chats that the approvers of a rule are on.
func platforms(rule *gate.Rule) []string {
	all := map[string]bool{}
	for _, g := range rule.Groups {
		for _, name := range g.Platforms() {
			all[name] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// oneSecret is a secret that is given by itself or as a file.
func (c *checker) oneSecret(path string, given secret.String, file string) secret.String {
	if file == "" {
		return given
	}
	if given.Set() {
		c.problem(path, "given here and as %s_file; keep one", path)
	}
	b, err := os.ReadFile(file) //nolint:gosec // the operator names it
	if err != nil {
		return secret.String{} // reported when the path was read
	}
	return secret.New(strings.TrimSpace(string(b)))
}
