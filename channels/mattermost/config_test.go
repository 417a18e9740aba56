package mattermost_test

import (
	"strings"
	"testing"

	"github.com/approvalbot/approvalbot/channels/mattermost"
	"github.com/approvalbot/approvalbot/gate"
	"github.com/approvalbot/approvalbot/gate/secret"
)

// token has the shape of Mattermost's.
const token = "abcdefghijklmnopqrstuvwxyz"

func configured(change func(*mattermost.Config)) mattermost.Config {
	c := mattermost.Config{
		URL: "https://mm.example.com", Token: secret.New(token), CallbackURL: "https://approvals.example.com",
	}
	if change != nil {
		change(&c)
	}
	return c
}

func TestProblems(t *testing.T) {
	t.Parallel()
	off := false
	for name, tt := range map[string]struct {
		change func(*mattermost.Config)
		want   string // "path: text", or nothing
	}{
		"nothing is wrong":              {nil, ""},
		"no address of the server":      {func(c *mattermost.Config) { c.URL = "mm.example.com" }, "url: \"mm.example.com\": want the address"},
		"the address of the API":        {func(c *mattermost.Config) { c.URL += "/api/v4" }, "url: \"https://mm.example.com/api/v4\": leave out /api/v4"},
		"no token":                      {func(c *mattermost.Config) { c.Token = secret.String{} }, "token_file: the bot's token is missing"},
		"a token of something else":     {func(c *mattermost.Config) { c.Token = secret.New("xoxb-1") }, "token_file: this is no token of Mattermost"},
		"nowhere to be called":          {func(c *mattermost.Config) { c.CallbackURL = "" }, "callback_url: Mattermost cannot reach this server"},
		"a callback that is no address": {func(c *mattermost.Config) { c.CallbackURL = "x" }, "callback_url: \"x\""},
		"a range that is none":          {func(c *mattermost.Config) { c.CallbackAllow = []string{"10.0.0.0/8", "10.0.0.0/99"} }, "callback_allow[1]: \"10.0.0.0/99\""},
		"one address":                   {func(c *mattermost.Config) { c.CallbackAllow = []string{"10.0.0.7", "::1"} }, ""},
		"nothing at all is checked":     {func(c *mattermost.Config) { c.VerifyTriggers = &off }, "verify_triggers: then whoever reaches this server"},
		"unchecked behind a known network": {func(c *mattermost.Config) {
			c.VerifyTriggers, c.CallbackAllow = &off, []string{"10.0.0.7"}
		}, ""},
		"a command of no team": {func(c *mattermost.Config) { c.Commands = []mattermost.CommandConfig{{Team: "Acme Inc"}} }, "commands[0].team: \"Acme Inc\""},
		"a command's token that is none": {func(c *mattermost.Config) {
			c.Commands = []mattermost.CommandConfig{{Team: "acme"}, {Team: "ops", Token: secret.New("x")}}
		}, "commands[1].token_file: this is no token of a slash command"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := configured(tt.change)
			var got []string
			for _, p := range c.Problems() {
				got = append(got, p.String())
			}
			text := strings.Join(got, "\n")
			if tt.want == "" && text != "" || !strings.HasPrefix(text, tt.want) || len(got) > 1 {
				t.Errorf("problems are %q, want %q", text, tt.want)
			}
			if strings.Contains(text, token) {
				t.Error("the token is among them")
			}
		})
	}
}

func TestWarnings(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]bool{"http://mm.example.com": true, "https://mm.example.com": false, "http://127.0.0.1:8065": false, "http://localhost": false} {
		c := configured(func(c *mattermost.Config) { c.URL = url })
		if got := len(c.Warnings()) > 0; got != want {
			t.Errorf("%s: warned is %v", url, got)
		}
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	m := mattermost.New(configured(nil))
	for _, tt := range []struct {
		kind gate.IDKind
		id   string
		good bool
	}{
		{gate.KindUser, token, true},
		{gate.KindUser, "ann.smith-2", true},
		{gate.KindUser, "@ann", false},
		{gate.KindUser, "Ann", false},
		{gate.KindUser, "", false},
		{gate.KindUser, "ann bo", false},
		{gate.KindUserGroup, token, true},
		{gate.KindUserGroup, "sre", false},
		{gate.KindConversation, token, true},
		{gate.KindConversation, "acme/approvals", true},
		{gate.KindConversation, "approvals", false},
		{gate.KindConversation, "acme/approvals/x", false},
		{gate.KindConversation, "@" + token, false},
		{gate.KindConversation, "acme/../x", false},
	} {
		if err := m.Check(tt.kind, tt.id); (err == nil) != tt.good {
			t.Errorf("%s %q: %v", tt.kind, tt.id, err)
		}
	}
	if m.Named(token) || !m.Named("ann") {
		t.Error("a name is taken for an id, or an id for a name")
	}
}
