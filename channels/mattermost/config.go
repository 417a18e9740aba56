package mattermost

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"strings"

	"github.com/approvalbot/approvalbot/gate"
	"github.com/approvalbot/approvalbot/gate/secret"
)

// Config is `channels.mattermost`. Secrets are given by themselves, from the
// environment, or in a file; who makes a Mattermost has read the files.
type Config struct {
	URL            string          `yaml:"url"` // of the server, without /api/v4
	Token          secret.String   `yaml:"token"`
	TokenFile      string          `yaml:"token_file"`
	CallbackURL    string          `yaml:"callback_url"`    // where Mattermost reaches this server; empty is public_url
	CallbackAllow  []string        `yaml:"callback_allow"`  // addresses or CIDRs of Mattermost; empty: presses are confirmed in a dialog
	VerifyTriggers *bool           `yaml:"verify_triggers"` // absent means true
	Commands       []CommandConfig `yaml:"commands"`

	HTTP *http.Client `yaml:"-"` // nil is one with a timeout
}

// CommandConfig is the slash command of one team. Without a token the bot looks it
// up, or makes the command, which takes a right that bots do not have by default.
type CommandConfig struct {
	Team      string        `yaml:"team"` // its name in addresses, like acme
	Token     secret.String `yaml:"token"`
	TokenFile string        `yaml:"token_file"`
}

// Problems says what is wrong with a configuration, with paths from its section.
func (c *Config) Problems() (all []gate.Problem) {
	bad := func(path, format string, args ...any) {
		all = append(all, gate.Problem{Path: path, Text: fmt.Sprintf(format, args...)})
	}
	if !address(c.URL) {
		bad("url", "%q: want the address of the Mattermost server, like https://mattermost.example.com", c.URL)
	} else if strings.Contains(c.URL, "/api/") {
		bad("url", "%q: leave out /api/v4", c.URL)
	}
	if token := c.Token.Reveal(); token == "" {
		bad("token_file", "the bot's token is missing: Integrations, Bot Accounts, Create New Token")
	} else if !id.MatchString(token) {
		bad("token_file", "this is no token of Mattermost; one has 26 letters and digits, and is shown once when it is made")
	}
	switch {
	case c.CallbackURL == "":
		bad("callback_url", "Mattermost cannot reach this server: set public_url, or callback_url if Mattermost reaches it elsewhere")
	case !address(c.CallbackURL):
		bad("callback_url", "%q: want a scheme and a host, like https://approvals.example.com", c.CallbackURL)
	}
	for i, s := range c.CallbackAllow {
		if _, err := prefix(s); err != nil {
			bad(fmt.Sprintf("callback_allow[%d]", i), "%q: want an address or a CIDR, like 10.0.0.7 or 10.0.0.0/8", s)
		}
	}
	if !c.verifies() && len(c.CallbackAllow) == 0 {
		bad("verify_triggers", "then whoever reaches this server could press in anybody's name; give callback_allow, or leave this on")
	}
	for i, cmd := range c.Commands {
		if !teamName.MatchString(cmd.Team) {
			bad(fmt.Sprintf("commands[%d].team", i), "%q: want the team's name as it is in addresses, like acme", cmd.Team)
		}
		if t := cmd.Token.Reveal(); t != "" && !id.MatchString(t) {
			bad(fmt.Sprintf("commands[%d].token_file", i), "this is no token of a slash command; one has 26 letters and digits, and is under Integrations, Slash Commands")
		}
	}
	return all
}

// Warnings says what may not be meant.
func (c *Config) Warnings() (all []gate.Problem) {
	if u, err := url.Parse(c.URL); err == nil && u.Scheme == "http" && !loopback(u.Hostname()) {
		all = append(all, gate.Problem{Path: "url", Text: "http: the bot's token can be read on the way, and whose press it was be forged; use https"})
	}
	return all
}

func (c *Config) verifies() bool { return c.VerifyTriggers == nil || *c.VerifyTriggers }

func address(s string) bool {
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != "" && u.User == nil && u.RawQuery == "" && u.Fragment == ""
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// prefix reads an address or a range of them.
func prefix(s string) (netip.Prefix, error) {
	if ip, err := netip.ParseAddr(s); err == nil {
		return netip.PrefixFrom(ip.Unmap(), ip.Unmap().BitLen()), nil
	}
	p, err := netip.ParsePrefix(s)
	return p.Masked(), err
}

// What Mattermost's ids and names look like. They are written into cards and
// requests, so that nothing else may be in them.
var (
	id          = regexp.MustCompile(`^[a-z0-9]{26}$`)
	username    = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`)
	teamName    = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,63}$`)
	channelName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,63}/[a-z0-9][a-z0-9._-]{0,63}$`)
)

// Check implements gate.Platform.
func (*Mattermost) Check(kind gate.IDKind, what string) error {
	switch {
	case id.MatchString(what):
		return nil
	case kind == gate.KindUserGroup:
		return fmt.Errorf("%q is no id of a group; want Mattermost's own of 26 letters and digits, which never changes", what)
	case kind == gate.KindUser && !username.MatchString(what):
		return fmt.Errorf("%q is no user; want an id of 26 letters and digits, or a username in lower case and without @", what)
	case kind == gate.KindConversation && !channelName.MatchString(what):
		return fmt.Errorf("%q is no channel; want team/channel as they are in addresses, like acme/approvals, or a channel's id", what)
	}
	return nil
}

// Named implements gate.Platform: people can change their usernames.
func (*Mattermost) Named(account string) bool { return !id.MatchString(account) }
