package slack_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/approvalbot/approvalbot/channels/slack"
	"github.com/approvalbot/approvalbot/channels/slack/slacktest"
	"github.com/approvalbot/approvalbot/gate"
	"github.com/approvalbot/approvalbot/gate/secret"
)

// account looks at the token of a double.
func account(t *testing.T, s *slacktest.Slack) *slack.Account {
	t.Helper()
	a, err := channel(s).Account(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestAnAccountIsToldAlsoOfATokenThatIsOfNoUse(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		scopes []string
		team   string
		app    string
		suits  bool
	}{
		"a good token":                {scopes: []string{"chat:write", "users:read"}, app: slacktest.App, suits: true},
		"one that may not post":       {scopes: []string{"users:read"}, app: slacktest.App, suits: true},
		"one that may not look":       {scopes: []string{"chat:write"}, suits: true},
		"one of another workspace":    {scopes: []string{"users:read"}, team: "T0ELSE", app: slacktest.App},
		"one of the one it wants":     {scopes: []string{"users:read"}, team: slacktest.Team, app: slacktest.App, suits: true},
		"one of the organisation":     {scopes: []string{"users:read"}, team: "E0ACME", app: slacktest.App, suits: true},
		"one of another organisation": {scopes: []string{"users:read"}, team: "E0ELSE", app: slacktest.App},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			double := workspace(t, slacktest.Config{Scopes: tt.scopes})
			double.Organise("E0ACME")
			s := slack.New(slack.Config{BotToken: secret.New(slacktest.BotToken), Team: tt.team, APIURL: double.URL() + "/api/"})
			got, err := s.Account(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			want := &slack.Account{
				Self: slack.Self{Team: slacktest.Team, TeamName: "Acme", User: slacktest.BotUser, App: tt.app, Scopes: tt.scopes},
				Name: "approvalbot", Enterprise: "E0ACME",
			}
			if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(slack.Account{}), cmpopts.IgnoreFields(slack.Account{}, "Ahead")); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if got.Suits() != tt.suits {
				t.Errorf("suits: %v, want %v", got.Suits(), tt.suits)
			}
		})
	}
}

func TestTheClockIsComparedWithSlacks(t *testing.T) {
	t.Parallel()
	for _, ahead := range []time.Duration{0, 7 * time.Minute, -7 * time.Minute} {
		inOffice(t, slacktest.Config{Now: func() time.Time { return time.Now().Add(-ahead) }}, func(o *office) {
			a, err := o.channel(slacktest.AppToken).Account(o.Context())
			if err != nil || a.Ahead != ahead {
				o.Errorf("ahead by %v, %v; want %v", a.Ahead, err, ahead)
			}
		})
	}
}

func TestPeopleAreLookedAtForOperators(t *testing.T) {
	t.Parallel()
	double := workspace(t, slacktest.Config{})
	double.Organise("E0ACME")
	for _, u := range []slacktest.User{
		{ID: "U0GUEST001", Name: "gil", Restricted: true},
		{ID: "U0GUEST002", Name: "una", UltraRestricted: true},
		{ID: "U0OTHER001", Name: "eve", Team: "T0PARTNER"},
		{ID: "U0GONE0001", Name: "gone", Deleted: true},
		{ID: "U0ROBOT001", Name: "robot", Bot: true},
		{ID: "W0ORG00001", Name: "wil", Team: "T0SISTER", Enterprise: "E0ACME", Teams: []string{"T0SISTER", slacktest.Team}},
	} {
		double.AddUser(u)
	}
	a := account(t, double)
	for id, want := range map[string]slack.Person{
		"U0AAAAAA1":  {Name: "ada", Team: slacktest.Team},
		"U0GUEST001": {Name: "gil", Team: slacktest.Team, Account: gate.Guest},
		"U0GUEST002": {Name: "una", Team: slacktest.Team, Account: gate.Guest},
		"U0OTHER001": {Name: "eve", Team: "T0PARTNER", Account: gate.Outsider},
		"U0GONE0001": {Name: "gone", Team: slacktest.Team, Account: gate.Deactivated},
		"U0ROBOT001": {Name: "robot", Team: slacktest.Team, Account: gate.Bot},
		"W0ORG00001": {Name: "wil", Team: slacktest.Team},
	} {
		want.ID = id
		got, err := a.Person(t.Context(), id)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", id, err, diff)
		}
	}
	if _, err := a.Person(t.Context(), "U0NONE"); code(err) != "user_not_found" {
		t.Errorf("nobody: %v", err)
	}
}

// code is Slack's own word for a failure.
func code(err error) string {
	f, ok := errors.AsType[*slack.Failure](err)
	if !ok {
		return "no failure"
	}
	return f.Code
}

func TestGroupsAreLookedAtForOperators(t *testing.T) {
	t.Parallel()
	double := workspace(t, slacktest.Config{})
	double.AddGroup(slacktest.Group{ID: "S0SRE00001", Members: []string{"U0AAAAAA1"}})
	double.AddGroup(slacktest.Group{ID: "S0DISABLED", Members: []string{"U0AAAAAA1"}, Disabled: true})
	double.Organise("E0ACME")
	a := account(t, double)
	for id, want := range map[string][]string{"S0SRE00001": {"U0AAAAAA1"}, "S0DISABLED": {}} {
		got, err := a.Group(t.Context(), id)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", id, err, diff)
		}
	}
	if _, err := a.Group(t.Context(), "S0NONE"); code(err) != "no_such_subteam" {
		t.Errorf("none: %v", err)
	}
	for _, c := range double.Calls("usergroups.users.list") {
		if c.Args["team_id"] != slacktest.Team {
			t.Errorf("an organisation was not told of which workspace: %v", c.Args)
		}
	}
}

func TestConversationsAreLookedAtForOperators(t *testing.T) {
	t.Parallel()
	double := workspace(t, slacktest.Config{Scopes: []string{"channels:read", "groups:read"}})
	in := []string{slacktest.BotUser}
	for _, c := range []slacktest.Channel{
		{ID: "C0PRIVATE1", Name: "private", Private: true, Members: in},
		{ID: "C0INVITED1", Invited: true, Members: in},
		{ID: "C0READONLY", Restricted: "restricted_action_read_only_channel", Members: in},
		{ID: "C0SOMEONLY", Restricted: "restricted_action", Members: in},
		{ID: "C0BOTTOO01", Restricted: "restricted_action", Posters: in, Members: in},
	} {
		double.AddChannel(c)
	}
	a := account(t, double)
	for id, want := range map[string]slack.Conversation{
		ops:          {Member: true},
		"C0ARCHIVE1": {Member: true, Archived: true},
		"C0SHARED01": {Member: true, Shared: true},
		"C0OUTSIDE1": {},
		"C0PRIVATE1": {Name: "private", Private: true, Member: true},
		"C0INVITED1": {Member: true, Invited: true},
		"C0READONLY": {Member: true, Restricted: true},
		"C0SOMEONLY": {Member: true, Restricted: true},
		"C0BOTTOO01": {Member: true},
	} {
		want.ID = id
		got, err := a.Conversation(t.Context(), id)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", id, err, diff)
		}
	}
	if _, err := a.Conversation(t.Context(), "C0NONE"); code(err) != "channel_not_found" {
		t.Errorf("none: %v", err)
	}
	double.SetScopes("channels:read")
	_, err := a.Conversation(t.Context(), "C0PRIVATE1")
	if f, _ := errors.AsType[*slack.Failure](err); f == nil || f.Code != "missing_scope" || f.Needed != "groups:read" {
		t.Errorf("without the scope: %#v", err)
	}
}

func TestTryingAConnection(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		before func(o *office)
		token  string
		want   slack.Greeting
		err    string // Slack's word
	}{
		"nobody else is connected":    {want: slack.Greeting{App: slacktest.App, Connections: 1}},
		"a replica is":                {before: func(o *office) { o.run(o.socket()); o.open(2) }, want: slack.Greeting{App: slacktest.App, Connections: 3}},
		"a bot token":                 {token: slacktest.BotToken, err: "not_allowed_token_type"},
		"a token that nobody knows":   {token: "xapp-none", err: "invalid_auth"},
		"Socket Mode is switched off": {before: func(o *office) { o.slack.Disconnect(0, "link_disabled") }, err: "link_disabled"},
		"ten are connected": {before: func(o *office) {
			for range 5 {
				o.run(o.socket())
			}
			o.open(10)
		}, err: "too_many_websockets"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inOffice(t, slacktest.Config{}, func(o *office) {
				if tt.before != nil {
					tt.before(o)
				}
				was := len(o.slack.Sockets())
				token := slacktest.AppToken
				if tt.token != "" {
					token = tt.token
				}
				s := &slack.Socket{Slack: o.channel(token)}
				s.DialWith(o.pipes.Dial)
				got, err := s.Try(o.Context())
				if tt.err != "" {
					if code(err) != tt.err {
						o.Errorf("it is %v, want %s", err, tt.err)
					}
					return
				}
				if diff := cmp.Diff(tt.want, got); diff != "" || err != nil {
					o.Errorf("%v (-want +got):\n%s", err, diff)
				}
				o.open(was) // it is closed again,
				if said := o.slack.Goodbyes(); len(said) != 1 {
					o.Errorf("of the connections, %v said goodbye", said)
				}
			})
		})
	}
}

func TestAnAppTokenOfAnotherAppIsSeen(t *testing.T) {
	t.Parallel()
	double := workspace(t, slacktest.Config{SocketApp: "A0OTHER001"})
	s := slack.New(slack.Config{AppToken: secret.New(slacktest.AppToken), APIURL: double.URL() + "/api/"})
	if g, err := (&slack.Socket{Slack: s}).Try(t.Context()); err != nil || g.App != "A0OTHER001" {
		t.Errorf("greeted as %+v, %v", g, err)
	}
}

func TestWhySlackCouldNotBeAsked(t *testing.T) {
	t.Parallel()
	const page = "<!doctype html><title>Log in to this network</title>"
	for name, tt := range map[string]struct {
		fault slacktest.Fault
		want  slack.Failure
	}{
		"a refusal":                {slacktest.Refused("token_revoked"), slack.Failure{Code: "token_revoked"}},
		"a refusal without reason": {slacktest.NoReason, slack.Failure{Why: "it says neither yes nor no", Down: true}},
		"a page for people":        {slacktest.Page(page), slack.Failure{Why: "what answers is not Slack; a proxy may be in between"}},
		"a Slack that is broken":   {slacktest.ServerError, slack.Failure{Why: "it answers HTTP 500", Down: true}},
		"a limit without a time":   {slacktest.RateLimitedBare, slack.Failure{Why: "it answers HTTP 429", Down: true}},
		"a limit that says 200":    {slacktest.Refused("ratelimited"), slack.Failure{Code: "ratelimited"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			double := workspace(t, slacktest.Config{})
			double.FailNext("auth.test", tt.fault)
			_, err := channel(double).Account(t.Context())
			got, _ := errors.AsType[*slack.Failure](err)
			if diff := cmp.Diff(&tt.want, got); diff != "" {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
	s := slack.New(slack.Config{BotToken: secret.New("xoxb-1"), AppToken: secret.New("xapp-1"), APIURL: "http://127.0.0.1:1/api/"})
	if _, err := s.Account(t.Context()); code(err) != "" || !strings.Contains(err.Error(), "connection refused") || strings.Contains(err.Error(), "/api/") {
		t.Errorf("nobody listens: %v", err)
	}
}

func TestALimitIsWaitedForOnce(t *testing.T) {
	t.Parallel()
	inOffice(t, slacktest.Config{}, func(o *office) {
		limit := slacktest.RateLimited(20 * time.Second)
		o.slack.FailNext("auth.test", limit)
		began := time.Now()
		if _, err := o.channel(slacktest.AppToken).Account(o.Context()); err != nil || time.Since(began) != 20*time.Second {
			o.Errorf("after %v: %v", time.Since(began), err)
		}
		o.slack.FailNext("auth.test", limit, limit)
		if _, err := o.channel(slacktest.AppToken).Account(o.Context()); code(err) != "ratelimited" {
			o.Errorf("twice: %v", err)
		}
		o.slack.FailNext("auth.test", limit)
		ctx, cancel := context.WithTimeout(o.Context(), time.Second)
		defer cancel()
		began = time.Now()
		if _, err := o.channel(slacktest.AppToken).Account(ctx); err == nil || time.Since(began) != time.Second {
			o.Errorf("who leaves is held for %v: %v", time.Since(began), err)
		}
		if n := len(o.slack.Calls("auth.test")); n != 5 {
			o.Errorf("it was asked %d times, want 5", n)
		}
	})
}
