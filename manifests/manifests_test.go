// Package manifests_test reads what is installed elsewhere by hand, and checks
// what a typing error there would cost.
package manifests_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"

	api "github.com/slack-go/slack"
)

// manifest is what Slack takes to make an app of, as far as ours says something.
type manifest struct {
	Display struct {
		Name        string `yaml:"name"`
		Description string `yaml:"description"`
		Background  string `yaml:"background_color"`
	} `yaml:"display_information"`
	Features struct {
		Home struct {
			Home     bool `yaml:"home_tab_enabled"`
			Messages bool `yaml:"messages_tab_enabled"`
			ReadOnly bool `yaml:"messages_tab_read_only_enabled"`
		} `yaml:"app_home"`
		Bot struct {
			Name   string `yaml:"display_name"`
			Online bool   `yaml:"always_online"`
		} `yaml:"bot_user"`
		Commands []command `yaml:"slash_commands"`
	} `yaml:"features"`
	OAuth struct {
		Scopes struct {
			Bot      []string `yaml:"bot"`
			Optional []string `yaml:"bot_optional"`
		} `yaml:"scopes"`
	} `yaml:"oauth_config"`
	Settings struct {
		Socket        bool `yaml:"socket_mode_enabled"`
		Interactivity struct {
			Enabled bool   `yaml:"is_enabled"`
			URL     string `yaml:"request_url"`
		} `yaml:"interactivity"`
		Events struct {
			URL string   `yaml:"request_url"`
			Bot []string `yaml:"bot_events"`
		} `yaml:"event_subscriptions"`
		Org      bool `yaml:"org_deploy_enabled"`
		Rotation bool `yaml:"token_rotation_enabled"`
	} `yaml:"settings"`
}

type command struct {
	Command     string `yaml:"command"`
	URL         string `yaml:"url"`
	Description string `yaml:"description"`
	Hint        string `yaml:"usage_hint"`
	Escape      bool   `yaml:"should_escape"`
}

const socketMode, overHTTP = "slack/socket-mode.yaml", "slack/http.yaml"

func load(t *testing.T, file string) *manifest {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	m := &manifest{}
	if err := yaml.UnmarshalWithOptions(raw, m, yaml.Strict()); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return m
}

// urls are the addresses at which Slack would call, and what serves each.
func (m *manifest) urls() map[string]*string {
	return map[string]*string{
		"/slack/commands":     &m.Features.Commands[0].URL,
		"/slack/interactions": &m.Settings.Interactivity.URL,
		"/slack/events":       &m.Settings.Events.URL,
	}
}

var (
	botName = regexp.MustCompile(`^[a-z0-9._-]{1,80}$`)
	slash   = regexp.MustCompile(`^/[a-z0-9_-]+$`)
	colour  = regexp.MustCompile(`^#[0-9a-f]{6}$`)
)

// eventNeeds says without which scopes an event does not come, or not from every
// channel.
var eventNeeds = map[string][]string{
	"app_home_opened": nil, "app_uninstalled": nil, "tokens_revoked": nil,
	"channel_archive": {"channels:read"}, "channel_id_changed": {"channels:read", "groups:read"},
	"member_left_channel": {"channels:read", "groups:read"},
}

// wrong returns what Slack would refuse of a manifest, or what would not work.
func wrong(m *manifest) (all []string) {
	bad := func(format string, with ...any) { all = append(all, fmt.Sprintf(format, with...)) }
	within := func(what, text string, most int) {
		if n := utf8.RuneCountInString(text); n == 0 || n > most {
			bad("%s: %d characters, want 1 to %d", what, n, most)
		}
	}
	within("name", m.Display.Name, 35)
	within("description", m.Display.Description, 140)
	if !colour.MatchString(m.Display.Background) {
		bad("background_color: %q", m.Display.Background)
	}
	if !botName.MatchString(m.Features.Bot.Name) {
		bad("display_name: %q", m.Features.Bot.Name)
	}
	if len(m.Features.Commands) != 1 {
		return append(all, "want one slash command")
	}
	c := m.Features.Commands[0]
	within("command", c.Command, 32)
	within("the command's description", c.Description, 2000)
	within("usage_hint", c.Hint, 1000)
	if !slash.MatchString(c.Command) || !c.Escape {
		bad("command %q: want a slash, small letters, and its mentions escaped", c.Command)
	}
	if h := m.Features.Home; !h.Home || !h.Messages || !h.ReadOnly {
		bad("app_home: want the home tab, and messages that are read only")
	}
	if !m.Settings.Interactivity.Enabled {
		bad("interactivity: buttons do nothing")
	}
	if m.Settings.Rotation || m.Settings.Org {
		bad("tokens that rotate, and installs for an organisation, are not supported")
	}
	return slices.Concat(all, wrongURLs(m), wrongScopes(m))
}

// wrongURLs holds that Slack calls, or is called, and never both.
func wrongURLs(m *manifest) (all []string) {
	hosts := map[string]bool{}
	for path, url := range m.urls() {
		host, ours := strings.CutSuffix(*url, path)
		switch {
		case m.Settings.Socket && *url != "":
			all = append(all, "socket mode: nobody calls "+*url)
		case !m.Settings.Socket && (!ours || !strings.HasPrefix(host, "https://")):
			all = append(all, fmt.Sprintf("%q: want https://HOST%s", *url, path))
		}
		hosts[host] = true
	}
	if !m.Settings.Socket && len(hosts) != 1 {
		all = append(all, "the request URLs are of several hosts")
	}
	return all
}

func wrongScopes(m *manifest) (all []string) {
	s := m.OAuth.Scopes
	for what, list := range map[string][]string{"bot": s.Bot, "bot_optional": s.Optional, "bot_events": m.Settings.Events.Bot} {
		if len(slices.Compact(slices.Sorted(slices.Values(list)))) != len(list) {
			all = append(all, what+": something is there twice")
		}
	}
	for _, scope := range s.Optional {
		if !slices.Contains(s.Bot, scope) {
			all = append(all, scope+" is optional, but not among the scopes")
		}
		if !strings.HasSuffix(scope, ":history") {
			all = append(all, scope+" may not be optional")
		}
	}
	for _, event := range m.Settings.Events.Bot {
		needs, known := eventNeeds[event]
		if !known {
			all = append(all, event+": which scope does it come with?")
		}
		for _, scope := range needs {
			if !slices.Contains(s.Bot, scope) {
				all = append(all, event+" does not come without "+scope)
			}
		}
	}
	return all
}

func TestSlackTakesTheManifests(t *testing.T) {
	t.Parallel()
	for file, socket := range map[string]bool{socketMode: true, overHTTP: false} {
		m := load(t, file)
		for _, w := range wrong(m) {
			t.Errorf("%s: %s", file, w)
		}
		if m.Settings.Socket != socket {
			t.Errorf("%s: socket_mode_enabled is %v", file, m.Settings.Socket)
		}
	}
}

func TestWhatSlackWouldNotTakeIsFound(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, want string
		change     func(*manifest)
	}{
		{"a name that is too long", "name: 36", func(m *manifest) { m.Display.Name = strings.Repeat("x", 36) }},
		{"no description", "description: 0", func(m *manifest) { m.Display.Description = "" }},
		{"a description that is too long", "description: 141", func(m *manifest) { m.Display.Description = strings.Repeat("é", 141) }},
		{"a colour by name", "background_color", func(m *manifest) { m.Display.Background = "blue" }},
		{"a bot with a space in its name", "display_name", func(m *manifest) { m.Features.Bot.Name = "approval bot" }},
		{"a bot with a capital", "display_name", func(m *manifest) { m.Features.Bot.Name = "Approvalbot" }},
		{"a command without a slash", "want a slash", func(m *manifest) { m.Features.Commands[0].Command = "approvals" }},
		{"a command that is too long", "command: 33", func(m *manifest) { m.Features.Commands[0].Command = "/" + strings.Repeat("x", 32) }},
		{"a hint that is too long", "usage_hint: 1001", func(m *manifest) { m.Features.Commands[0].Hint = strings.Repeat("x", 1001) }},
		{"mentions that are not escaped", "mentions escaped", func(m *manifest) { m.Features.Commands[0].Escape = false }},
		{"no command", "one slash command", func(m *manifest) { m.Features.Commands = nil }},
		{"no messages tab", "app_home", func(m *manifest) { m.Features.Home.Messages = false }},
		{"messages that people can write", "app_home", func(m *manifest) { m.Features.Home.ReadOnly = false }},
		{"no interactivity", "buttons do nothing", func(m *manifest) { m.Settings.Interactivity.Enabled = false }},
		{"tokens that rotate", "rotate", func(m *manifest) { m.Settings.Rotation = true }},
		{"a request URL beside Socket Mode", "nobody calls", func(m *manifest) { m.Settings.Socket = true }},
		{"no request URL for buttons", "HOST/slack/interactions", func(m *manifest) { m.Settings.Interactivity.URL = "" }},
		{"a request URL without TLS", "HOST/slack/events", func(m *manifest) { m.Settings.Events.URL = "http://approvals.example.com/slack/events" }},
		{"a request URL of another host", "several hosts", func(m *manifest) { m.Settings.Events.URL = "https://other.example.com/slack/events" }},
		{"a request URL of another path", "HOST/slack/commands", func(m *manifest) { m.Features.Commands[0].URL = "https://approvals.example.com/slack/events" }},
		{"a scope twice", "twice", func(m *manifest) { m.OAuth.Scopes.Bot = append(m.OAuth.Scopes.Bot, "commands") }},
		{"an optional scope that is not asked for", "not among the scopes", func(m *manifest) { m.OAuth.Scopes.Optional = append(m.OAuth.Scopes.Optional, "mpim:history") }},
		{"a needed scope that is optional", "may not be optional", func(m *manifest) { m.OAuth.Scopes.Optional = append(m.OAuth.Scopes.Optional, "users:read") }},
		{"an event without its scope", "does not come without", func(m *manifest) { m.OAuth.Scopes.Bot = []string{"channels:history", "groups:history", "im:history"} }},
		{"an event that nobody knows", "which scope", func(m *manifest) { m.Settings.Events.Bot = append(m.Settings.Events.Bot, "channel_archived") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			m := load(t, overHTTP)
			c.change(m)
			if found := strings.Join(wrong(m), "\n"); !strings.Contains(found, c.want) {
				t.Errorf("found %q, want %q in it", found, c.want)
			}
		})
	}
}

// TestTheManifestsDifferOnlyInHowSlackIsHeard makes one of the other.
func TestTheManifestsDifferOnlyInHowSlackIsHeard(t *testing.T) {
	t.Parallel()
	socket, http := load(t, socketMode), load(t, overHTTP)
	for _, url := range http.urls() {
		*url = ""
	}
	http.Settings.Socket = true
	if diff := cmp.Diff(socket, http); diff != "" {
		t.Errorf("-socket-mode +http:\n%s", diff)
	}
}

// TestTheDocsSayWhatTheManifestAsksFor looks for each scope in the table of
// scopes, and for each word of the command.
func TestTheDocsSayWhatTheManifestAsksFor(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../docs/slack.md")
	if err != nil {
		t.Fatal(err)
	}
	_, doc, _ := strings.Cut(string(raw), "\n## Scopes\n")
	table, rest, _ := strings.Cut(doc, "\n## /approvals\n")
	said, _, _ := strings.Cut(rest, "\n## ")
	m := load(t, socketMode)
	for _, scope := range m.OAuth.Scopes.Bot {
		if !strings.Contains(table, "`"+scope+"`") {
			t.Errorf("docs/slack.md does not say what %s is for", scope)
		}
	}
	for form := range strings.SplitSeq(m.Features.Commands[0].Hint, " | ") {
		if !strings.Contains(said, form+"`") {
			t.Errorf("docs/slack.md has no /approvals %s", form)
		}
	}
}

// calls are slack-go's methods: what Slack calls each, and the scopes that it asks
// for, of which some do for some conversations only.
var calls = map[string]struct {
	method string
	scopes []string
}{
	"AuthTestContext":                {"auth.test", nil},
	"GetBotInfoContext":              {"bots.info", []string{"users:read"}},
	"StartSocketModeContext":         {"apps.connections.open", nil}, // the app-level token has connections:write
	"PostMessageContext":             {"chat.postMessage", []string{"chat:write"}},
	"PostMessageWithResponseContext": {"chat.postMessage", []string{"chat:write"}},
	"UpdateMessageContext":           {"chat.update", []string{"chat:write"}},
	"PostEphemeralContext":           {"chat.postEphemeral", []string{"chat:write"}},
	"DeleteMessageContext":           {"chat.delete", []string{"chat:write"}},
	"OpenConversationContext":        {"conversations.open", []string{"im:write"}},
	"GetConversationInfoContext":     {"conversations.info", []string{"channels:read", "groups:read"}},
	"GetUsersInConversationContext":  {"conversations.members", []string{"channels:read", "groups:read"}},
	"GetConversationHistoryContext":  {"conversations.history", []string{"channels:history", "groups:history", "im:history"}},
	"GetConversationRepliesContext":  {"conversations.replies", []string{"channels:history", "groups:history", "im:history"}},
	"OpenViewContext":                {"views.open", nil},
	"PushViewContext":                {"views.push", nil},
	"UpdateViewContext":              {"views.update", nil},
	"PublishViewContext":             {"views.publish", nil},
	"GetUserInfoContext":             {"users.info", []string{"users:read"}},
	"GetUserGroupMembersContext":     {"usergroups.users.list", []string{"usergroups:read"}},
}

// TestTheScopesCoverWhatIsCalled reads the code for methods of Slack's client.
func TestTheScopesCoverWhatIsCalled(t *testing.T) {
	t.Parallel()
	var files []string
	for _, dir := range []string{"../channels/slack", "../cmd/approvalbot"} {
		found, err := filepath.Glob(dir + "/*.go")
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	client, called := reflect.TypeFor[*api.Client](), map[string]bool{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok && strings.HasSuffix(s.Sel.Name, "Context") {
				if _, theirs := client.MethodByName(s.Sel.Name); theirs {
					called[s.Sel.Name] = true
				}
			}
			return true
		})
	}
	if len(called) == 0 {
		t.Fatal("nothing is called")
	}
	scopes := load(t, socketMode).OAuth.Scopes.Bot
	for name := range called {
		c, known := calls[name]
		if !known {
			t.Errorf("%s: which scope does it need?", name)
		}
		for _, scope := range c.scopes {
			if !slices.Contains(scopes, scope) {
				t.Errorf("%s is called, and %s is not asked for", c.method, scope)
			}
		}
	}
}
