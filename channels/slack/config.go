package slack

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"github.com/approvalbot/approvalbot/gate"
)

// Problems says what is wrong with a configuration, with paths from its section.
func (c *Config) Problems() (all []gate.Problem) {
	bad := func(path, format string, args ...any) {
		all = append(all, gate.Problem{Path: path, Text: fmt.Sprintf(format, args...)})
	}
	if token := c.BotToken.Reveal(); token == "" {
		bad("bot_token_file", "the bot token is missing: Slack app, OAuth & Permissions, Bot User OAuth Token")
	} else if !strings.HasPrefix(token, "xoxb-") && !strings.HasPrefix(token, "xoxe.xoxb-") {
		bad("bot_token_file", "this is no bot token%s: one begins with xoxb-, and is under OAuth & Permissions, Bot User OAuth Token", insteadOf(token))
	}
	switch app := c.AppToken.Reveal(); {
	case app == "" && !c.SigningSecret.Set():
		bad("app_token_file", "nothing can be received: give app_token_file (Socket Mode, no public URL) or signing_secret_file (HTTP)")
	case app != "" && c.SigningSecret.Set():
		bad("signing_secret_file", "an app receives over Socket Mode or over HTTP, never both; take one out")
	case app != "" && !strings.HasPrefix(app, "xapp-"):
		bad("app_token_file", "this is no app-level token%s: one begins with xapp-, and is under Basic Information, App-Level Tokens", insteadOf(app))
	}
	if c.Team != "" && !teamID.MatchString(c.Team) {
		bad("team", "%q is no workspace's id; want one like T0ACME", c.Team)
	}
	if u, err := url.Parse(c.APIURL); c.APIURL != "" && (err != nil || u.Host == "" || !strings.HasSuffix(c.APIURL, "/")) {
		bad("api_url", "%q: want an address that ends in a slash, like https://slack-gov.com/api/", c.APIURL)
	}
	return all
}

// insteadOf says what a token is that is in the place of another one.
func insteadOf(token string) string {
	for begin, kind := range map[string]string{"xoxb-": "a bot's", "xoxp-": "a user's", "xapp-": "an app-level one", "xoxe-": "one to refresh others"} {
		if strings.HasPrefix(token, begin) {
			return " but " + kind
		}
	}
	return ""
}

// What Slack's ids look like. They are written into cards and requests, so that
// nothing else may be in them.
var (
	teamID = regexp.MustCompile(`^[TE][A-Z0-9]+$`)
	ids    = map[gate.IDKind]*regexp.Regexp{
		gate.KindUser:         regexp.MustCompile(`^([TE][A-Z0-9]+/)?[UW][A-Z0-9]+$`),
		gate.KindUserGroup:    regexp.MustCompile(`^S[A-Z0-9]+$`),
		gate.KindConversation: regexp.MustCompile(`^[CGD][A-Z0-9]+$`),
	}
	examples = map[gate.IDKind]string{
		gate.KindUser: "U0ANN", gate.KindUserGroup: "S0SRE", gate.KindConversation: "C0PROD",
	}
)

// Check implements gate.Platform.
func (*Slack) Check(kind gate.IDKind, id string) error {
	if !ids[kind].MatchString(id) {
		return fmt.Errorf("%q is no id of a %s; want Slack's own, like %s, which never changes", id, kind, examples[kind])
	}
	return nil
}

// Named implements gate.Platform: Slack's accounts are configured by id alone.
func (*Slack) Named(string) bool { return false }
