package mattermost_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/approvalbot/approvalbot/channels/mattermost"
	"github.com/approvalbot/approvalbot/channels/mattermost/mattermosttest"
	"github.com/approvalbot/approvalbot/gate"
)

// inspected looks at the token of a double.
func inspected(t *testing.T, s *mattermosttest.Server) *mattermost.Account {
	t.Helper()
	a, err := channel(t, s).Account(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestTheServerIsToldOfAlsoToABadToken(t *testing.T) {
	t.Parallel()
	s := server(t, mattermosttest.Config{MaxPostSize: 5000})
	m := channel(t, s)
	for _, logged := range []bool{true, false} {
		got, err := m.Server(t.Context())
		if err != nil || got.Key != nil || got.Settings["Version"] != "11.2.0" || got.Settings["SiteURL"] != s.URL() || (got.Settings["MaxPostSize"] == "5000") != logged {
			t.Errorf("logged in %v: %+v, %v", logged, got, err)
		}
		s.Revoke()
	}
	s.Fail("config", 0, mattermosttest.Garbled(`{"Version":"11.2.0","AsymmetricSigningPublicKey":"bm8="}`))
	if got, err := m.Server(t.Context()); err != nil || got.Key == nil {
		t.Errorf("without a key: %+v, %v", got, err)
	}
}

func TestTheClockIsComparedWithMattermosts(t *testing.T) {
	t.Parallel()
	for _, ahead := range []time.Duration{0, 7 * time.Minute, -7 * time.Minute} {
		s := server(t, mattermosttest.Config{Now: func() time.Time { return time.Now().Add(-ahead) }})
		got, err := channel(t, s).Server(t.Context())
		if err != nil || (got.Ahead-ahead).Abs() > 2*time.Second {
			t.Errorf("ahead by %v, %v; want %v", got, err, ahead)
		}
	}
}

func TestAnAccountIsToldAlsoOfATokenThatIsOfNoUse(t *testing.T) {
	t.Parallel()
	bot := mattermost.Account{ID: mattermosttest.BotUser, Username: mattermosttest.BotName, Bot: true, Teams: []string{"acme"}}
	for name, tt := range map[string]struct {
		change func(*mattermosttest.User)
		team   bool
		want   func(*mattermost.Account)
	}{
		"a bot":                        {func(*mattermosttest.User) {}, true, func(*mattermost.Account) {}},
		"an admin":                     {func(u *mattermosttest.User) { u.Admin = true }, true, func(a *mattermost.Account) { a.Admin = true }},
		"a person":                     {func(u *mattermosttest.User) { u.Bot = false }, true, func(a *mattermost.Account) { a.Bot = false }},
		"one that may post everywhere": {func(u *mattermosttest.User) { u.Roles = "system_post_all" }, true, func(a *mattermost.Account) { a.Anywhere = true }},
		"one that is in no team":       {func(*mattermosttest.User) {}, false, func(a *mattermost.Account) { a.Teams = nil }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := server(t, mattermosttest.Config{})
			s.Change(mattermosttest.BotUser, tt.change)
			if !tt.team {
				s.LeaveTeam(mattermosttest.BotUser)
			}
			want := bot
			tt.want(&want)
			if diff := cmp.Diff(&want, inspected(t, s), cmpopts.IgnoreUnexported(want)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestPlacesAreLookedAtForOperators(t *testing.T) {
	t.Parallel()
	s := server(t, mattermosttest.Config{})
	s.AddChannel(mattermosttest.Channel{ID: "c1open00000000000000000000", Name: "open"})
	a := inspected(t, s)
	for called, want := range map[string]mattermost.Conversation{
		"acme/ops":                   {ID: ops, Name: "ops", Member: true},
		ops:                          {ID: ops, Name: "ops", Member: true},
		"acme/old":                   {ID: old, Name: "old", Member: true, Archived: true},
		"acme/open":                  {ID: "c1open00000000000000000000", Name: "open"},
		"c1open00000000000000000000": {ID: "c1open00000000000000000000", Name: "open"},
	} {
		got, err := a.Conversation(t.Context(), called)
		if err != nil || got != want {
			t.Errorf("%s is %+v, %v; want %+v", called, got, err, want)
		}
	}
	for called, status := range map[string]int{"acme/secrets": 404, secrets: 403, "acme/none": 404, "acne/ops": 404} {
		if _, err := a.Conversation(t.Context(), called); why(err).Status != status || !why(err).Refused() {
			t.Errorf("%s: %+v, want %d", called, why(err), status)
		}
	}
}

// why is what a look-up failed of.
func why(err error) *mattermost.Failure {
	f, ok := errors.AsType[*mattermost.Failure](err)
	if !ok {
		return &mattermost.Failure{}
	}
	return f
}

func TestPeopleAreLookedAtForOperators(t *testing.T) {
	t.Parallel()
	s := server(t, mattermosttest.Config{Licensed: true})
	s.Change(bo, func(u *mattermosttest.User) { u.Deactivated = true })
	s.Change(carol, func(u *mattermosttest.User) { u.Remote = true })
	a := inspected(t, s)
	for called, want := range map[string]mattermost.Person{
		"ann": {ID: ann, Username: "ann"}, ann: {ID: ann, Username: "ann"},
		"guest": {ID: guest, Username: "guest", Account: gate.Guest}, "bo": {ID: bo, Username: "bo", Account: gate.Deactivated},
		"carol": {ID: carol, Username: "carol", Account: gate.Outsider}, "approvalbot": {ID: mattermosttest.BotUser, Username: "approvalbot", Account: gate.Bot},
	} {
		got, err := a.Person(t.Context(), called)
		if err != nil || got != want {
			t.Errorf("%s is %+v, %v; want %+v", called, got, err, want)
		}
	}
	for r, want := range map[gate.Roster]int{{Kind: gate.KindConversation, ID: "acme/ops"}: 5, {Kind: gate.KindUserGroup, ID: group}: 1} {
		if got, err := a.Crowd(t.Context(), r); err != nil || len(got) != want {
			t.Errorf("%v: %+v, %v; want %d", r, got, err, want)
		}
	}
}

func TestFailuresSayWhoseTheyAre(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		fault   mattermosttest.Fault
		want    mattermost.Failure
		refused bool
	}{
		"a refusal":            {mattermosttest.Refused(403, "api.context.permissions.app_error"), mattermost.Failure{Status: 403, Code: "api.context.permissions.app_error", Why: "This was scripted. (api.context.permissions.app_error)"}, true},
		"what is not licensed": {mattermosttest.Refused(501, "api.license_error"), mattermost.Failure{Status: 501, Code: "api.license_error", Why: "This was scripted. (api.license_error)"}, true},
		"an error of its own":  {mattermosttest.Refused(500, "app.user.get.app_error"), mattermost.Failure{Status: 500, Code: "app.user.get.app_error", Why: "This was scripted. (app.user.get.app_error)"}, false},
		"a proxy without it":   {mattermosttest.HTMLPage(502), mattermost.Failure{Status: 502, Why: "it answers HTTP 502"}, false},
		"a login page":         {mattermosttest.HTMLPage(200), mattermost.Failure{Why: "what answers is not Mattermost", Other: true}, false},
		"the way to one":       {mattermosttest.HTMLPage(302), mattermost.Failure{Status: 302, Why: "HTTP 302, and not in Mattermost's words; a proxy may be in between", Other: true}, false},
		"another server":       {mattermosttest.HTMLPage(404), mattermost.Failure{Status: 404, Why: "HTTP 404, and not in Mattermost's words; a proxy may be in between", Other: true}, false},
		"nothing":              {mattermosttest.Garbled("null"), mattermost.Failure{Status: 200, Why: "what answers is not Mattermost", Other: true}, false},
		"a limit, twice":       {mattermosttest.TooMany(time.Second), mattermost.Failure{Status: 429, Why: "it is asked too often"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := server(t, mattermosttest.Config{})
			a := inspected(t, s)
			s.Fail("user", 0, tt.fault)
			_, err := a.Person(t.Context(), ann)
			if diff := cmp.Diff(&tt.want, why(err)); diff != "" || why(err).Refused() != tt.refused {
				t.Errorf("refused: %v; -want +got:\n%s", why(err).Refused(), diff)
			}
		})
	}
}

func TestWhatWantsToBeAskedLaterIsAskedLater(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := inBubble(t)
		a, err := d.m.Account(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		d.s.FailNext("user", mattermosttest.TooMany(9*time.Second))
		before := time.Now()
		if p, err := a.Person(t.Context(), ann); err != nil || p.Username != "ann" || time.Since(before) != 9*time.Second {
			t.Errorf("%+v, %v after %v", p, err, time.Since(before))
		}
		answer := make(chan struct{})
		d.s.Fail("user", 0, mattermosttest.Held(answer))
		if _, err := a.Person(t.Context(), ann); why(err).Why != "no answer in time" {
			t.Errorf("no answer: %+v", why(err))
		}
		d.s.Fail("user", 0, mattermosttest.TooMany(time.Hour))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := a.Person(ctx, ann); why(err).Why != "no answer in time" {
			t.Errorf("who does not wait for an hour: %+v", why(err))
		}
		close(answer)
	})
}

func TestCommandsAreLookedAtAndNotMade(t *testing.T) {
	t.Parallel()
	s := server(t, mattermosttest.Config{})
	a := inspected(t, s)
	look := func(want mattermost.SlashCommand) {
		t.Helper()
		if got, err := a.Command(t.Context(), mattermost.CommandConfig{Team: "acme"}); err != nil || got != want {
			t.Errorf("%+v, %v; want %+v", got, err, want)
		}
	}
	look(mattermost.SlashCommand{})
	s.SetCommandRight(mattermosttest.BotUser)
	look(mattermost.SlashCommand{Listed: true})
	s.AddCommand(mattermosttest.Command{Trigger: "other", URL: a.CommandURL()})
	look(mattermost.SlashCommand{Listed: true})
	s.AddCommand(mattermosttest.Command{Trigger: "approvals", URL: a.CommandURL()})
	look(mattermost.SlashCommand{Listed: true, Found: true, Post: true, URL: "https://approvals.example.com/mattermost/commands"})
	if n := len(s.Calls("create_command")); n > 0 {
		t.Errorf("%d were made", n)
	}
}
