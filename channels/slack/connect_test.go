package slack_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/approvalbot/approvalbot/channels/slack"
	"github.com/approvalbot/approvalbot/channels/slack/slacktest"
	"github.com/approvalbot/approvalbot/gate"
	"github.com/approvalbot/approvalbot/gate/secret"
)

func TestConnectSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	all := []string{"chat:write", "users:read"}
	for name, tt := range map[string]struct {
		double slacktest.Config
		before func(*slacktest.Slack)
		token  string
		team   string
		kind   gate.Kind
		want   string // in the error
	}{
		"a good token":                         {double: slacktest.Config{Scopes: all}},
		"a token of the workspace it wants":    {double: slacktest.Config{Scopes: all}, team: slacktest.Team},
		"a token of the organisation it wants": {double: slacktest.Config{Scopes: all}, before: func(s *slacktest.Slack) { s.Organise("E0ORG00001") }, team: "E0ORG00001"},
		"a token of another workspace":         {double: slacktest.Config{Scopes: all}, team: "T0ELSE", kind: gate.Invalid, want: "wants T0ELSE"},
		"a token that may not post":            {double: slacktest.Config{Scopes: all[1:]}, kind: gate.Invalid, want: "has not the scope chat:write: cards cannot be posted"},
		"a token that may not look people up":  {double: slacktest.Config{Scopes: all[:1]}, kind: gate.Invalid, want: "has not the scope users:read"},
		"a token that nobody knows":            {token: "xoxb-none", kind: gate.Invalid, want: "refused: invalid_auth"},
		"a Slack that is broken":               {before: func(s *slacktest.Slack) { s.FailNext("auth.test", slacktest.ServerError) }, kind: gate.Unavailable, want: "does not answer"},
		"a Slack that has enough of us":        {before: func(s *slacktest.Slack) { s.FailNext("auth.test", slacktest.Refused("ratelimited")) }, kind: gate.Unavailable, want: "does not answer"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			double := slacktest.New(t, tt.double)
			if tt.before != nil {
				tt.before(double)
			}
			token := slacktest.BotToken
			if tt.token != "" {
				token = tt.token
			}
			s := slack.New(slack.Config{BotToken: secret.New(token), Team: tt.team, APIURL: double.URL() + "/api/"})
			self, err := s.Connect(t.Context())
			if tt.want == "" {
				want := slack.Self{Team: slacktest.Team, TeamName: "Acme", User: slacktest.BotUser, App: slacktest.App, Scopes: all}
				if diff := cmp.Diff(want, self); diff != "" || err != nil {
					t.Errorf("Connect: %v (-want +got):\n%s", err, diff)
				}
				return
			}
			if gate.KindOf(err) != tt.kind || !strings.Contains(gate.PublicText(err), tt.want) {
				t.Errorf("Connect = %v %q, want %v %q", gate.KindOf(err), gate.PublicText(err), tt.kind, tt.want)
			}
		})
	}
}

func TestMembersOfAUserGroup(t *testing.T) {
	t.Parallel()
	double := slacktest.New(t, slacktest.Config{})
	double.AddGroup(slacktest.Group{ID: "S0SRE00001", Members: []string{"U0AAAAAA1", "U0AAAAAA2"}})
	s := slack.New(slack.Config{BotToken: secret.New(slacktest.BotToken), APIURL: double.URL() + "/api/"})
	double.FailNext("usergroups.users.list", slacktest.ServerError)
	if ids, err := s.Members(t.Context(), gate.Roster{Kind: gate.KindUserGroup, ID: "S0SRE00001"}); err == nil {
		t.Errorf("while Slack fails: %v, want an error", ids)
	}
	want := []string{"slack:" + slacktest.Team + "/U0AAAAAA1", "slack:" + slacktest.Team + "/U0AAAAAA2"}
	for range 3 {
		got, err := s.Members(t.Context(), gate.Roster{Kind: gate.KindUserGroup, ID: "S0SRE00001"})
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Fatalf("Members: %v (-want +got):\n%s", err, diff)
		}
	}
	if n := len(double.Calls("usergroups.users.list")); n != 2 {
		t.Errorf("%d look-ups, want the failed one and one more", n)
	}
	sre := gate.Roster{Kind: gate.KindUserGroup, ID: "S0SRE00001"}
	for voter, want := range map[string]bool{"slack:" + slacktest.Team + "/U0AAAAAA2": true, "slack:" + slacktest.Team + "/U0AAAAAA3": false, "slack:T0OTHER001/U0AAAAAA2": false} {
		if has, err := s.Has(t.Context(), sre, voter); has != want || err != nil {
			t.Errorf("%s is in it: %t, %v; want %t", voter, has, err, want)
		}
	}
	if has, err := s.Has(t.Context(), gate.Roster{Kind: gate.KindUserGroup, ID: "S0NONE"}, "slack:"+slacktest.Team+"/U0AAAAAA1"); has || err == nil {
		t.Errorf("somebody is in a group that is none: %t, %v", has, err)
	}
	if ids, err := s.Members(t.Context(), gate.Roster{Kind: gate.KindConversation, ID: "S0SRE00001"}); err == nil {
		t.Errorf("of a conversation: %v, want an error", ids)
	}
	if ids, err := s.Members(t.Context(), gate.Roster{Kind: gate.KindUserGroup, ID: "S0NONE"}); err == nil {
		t.Errorf("of a group that is none: %v, want an error", ids)
	}
}

func TestConfigProblems(t *testing.T) {
	t.Parallel()
	bot, app, signing := secret.New("xoxb-1"), secret.New("xapp-1"), secret.New("s")
	for name, tt := range map[string]struct {
		cfg  slack.Config
		want string // path of the one problem
		says string
	}{
		"Socket Mode":                    {cfg: slack.Config{BotToken: bot, AppToken: app}},
		"HTTP":                           {cfg: slack.Config{BotToken: bot, SigningSecret: signing}},
		"a token that rotates":           {cfg: slack.Config{BotToken: secret.New("xoxe.xoxb-1"), AppToken: app}},
		"no bot token":                   {cfg: slack.Config{AppToken: app}, want: "bot_token_file"},
		"a user's token":                 {cfg: slack.Config{BotToken: secret.New("xoxp-1"), AppToken: app}, want: "bot_token_file", says: "but a user's: one begins with xoxb-"},
		"no way in":                      {cfg: slack.Config{BotToken: bot}, want: "app_token_file"},
		"two ways in":                    {cfg: slack.Config{BotToken: bot, AppToken: app, SigningSecret: signing}, want: "signing_secret_file"},
		"a bot token for the app's":      {cfg: slack.Config{BotToken: bot, AppToken: bot}, want: "app_token_file", says: "but a bot's: one begins with xapp-"},
		"a name for the workspace":       {cfg: slack.Config{BotToken: bot, AppToken: app, Team: "acme"}, want: "team"},
		"an address without its slash":   {cfg: slack.Config{BotToken: bot, AppToken: app, APIURL: "https://slack-gov.com/api"}, want: "api_url"},
		"an address that is none":        {cfg: slack.Config{BotToken: bot, AppToken: app, APIURL: "slack/"}, want: "api_url"},
		"an address that has both: fine": {cfg: slack.Config{BotToken: bot, AppToken: app, APIURL: "https://slack-gov.com/api/"}},
		"the app's token for the bot's":  {cfg: slack.Config{BotToken: app, AppToken: app}, want: "bot_token_file", says: "but an app-level one: one begins with xoxb-"},
		"a token of no kind":             {cfg: slack.Config{BotToken: secret.New("hunter2"), AppToken: app}, want: "bot_token_file", says: "no bot token: one begins with xoxb-"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var paths []string
			for _, p := range tt.cfg.Problems() {
				paths = append(paths, p.Path)
				if !strings.Contains(p.Text, tt.says) {
					t.Errorf("it says %q, want %q", p.Text, tt.says)
				}
				if strings.Contains(p.Text, "xo") && strings.Contains(p.Text, "-1") {
					t.Errorf("a token is in %q", p.Text)
				}
			}
			if got := strings.Join(paths, " "); got != tt.want {
				t.Errorf("problems at %q, want %q", got, tt.want)
			}
		})
	}
	s := slack.New(slack.Config{BotToken: bot})
	for id, kind := range map[string]gate.IDKind{
		"U0ANN": gate.KindUser, "W0ANN": gate.KindUser, "T2/U0ANN": gate.KindUser, "T0ACME/U0ANN": gate.KindUser,
		"S0SRE": gate.KindUserGroup, "C0PROD": gate.KindConversation, "G0PROD": gate.KindConversation, "D0ANN": gate.KindConversation,
	} {
		if err := s.Check(kind, id); err != nil {
			t.Errorf("%s as a %s: %v", id, kind, err)
		}
	}
	for id, kind := range map[string]gate.IDKind{"@ann": gate.KindUser, "#prod": gate.KindConversation, "C0PROD>": gate.KindConversation, "sre": gate.KindUserGroup, "": gate.KindUser} {
		if s.Check(kind, id) == nil {
			t.Errorf("%q passed as a %s", id, kind)
		}
	}
}

// TestWhatSlackSaidHoldsForAMinute: who leaves a group is soon refused.
func TestWhatSlackSaidHoldsForAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pipes := slacktest.NewPipes()
		double := workspace(t, slacktest.Config{Listener: pipes})
		transport := &http.Transport{DialContext: pipes.Dial}
		t.Cleanup(transport.CloseIdleConnections)
		s := slack.New(slack.Config{BotToken: secret.New(slacktest.BotToken), APIURL: double.URL() + "/api/", HTTP: &http.Client{Transport: transport}})
		double.AddGroup(slacktest.Group{ID: "S0SRE00001", Members: []string{"U0AAAAAA1"}})
		members := func() int {
			ids, err := s.Members(t.Context(), gate.Roster{Kind: gate.KindUserGroup, ID: "S0SRE00001"})
			if err != nil {
				t.Fatal(err)
			}
			return len(ids)
		}
		if n := members(); n != 1 {
			t.Fatalf("%d members", n)
		}
		double.AddGroup(slacktest.Group{ID: "S0SRE00001"})
		<-time.After(50 * time.Second)
		if n := members(); n != 1 {
			t.Errorf("%d members after 50 s, want the one that was there", n)
		}
		<-time.After(11 * time.Second)
		if n := members(); n != 0 {
			t.Errorf("%d members after a minute, want none", n)
		}
	})
}
