package mattermosttest_test

import (
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/approvalbot/approvalbot/channels/mattermost/mattermosttest"
)

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

func TestWhoIsWho(t *testing.T) {
	t.Parallel()
	w := newWorld(t, mattermosttest.Config{})
	w.AddUser(mattermosttest.User{ID: "u1far000000000000000000000", Username: "far", Remote: true})
	type who struct {
		roles, remote    any
		bot, deactivated bool
	}
	for user, want := range map[string]who{
		ada: {"system_user", "", false, false}, guest: {"system_guest", "", false, false},
		gone: {"system_user", "", false, true}, robot: {"system_user", nil, true, false},
		mattermosttest.Admin:         {"system_admin system_user", "", false, false},
		"me":                         {"system_user", nil, true, false},
		"u1far000000000000000000000": {"system_user", mattermosttest.Remote, false, false},
	} {
		r := w.asBot(t, http.MethodGet, "/users/"+user, nil)
		bot, _ := r.body["is_bot"].(bool)
		got := who{r.body["roles"], r.body["remote_id"], bot, r.body["delete_at"] != float64(0)}
		if got != want {
			t.Errorf("%s: %+v, want %+v", user, got, want)
		}
	}
}

func TestEmailsAreHiddenAndVerifiedOnesKnownToAdmins(t *testing.T) {
	t.Parallel()
	for hide, want := range map[bool]string{false: "ada@example.test", true: ""} {
		w := newWorld(t, mattermosttest.Config{HideEmails: hide})
		if r := w.asBot(t, http.MethodGet, "/users/"+ada, nil); r.body["email"] != want || r.body["email_verified"] != nil {
			t.Errorf("the bot sees %v", r.body)
		}
		r := w.call(t, w.Session(mattermosttest.Admin), http.MethodGet, "/users/"+ada, nil)
		if r.body["email"] != "ada@example.test" || r.body["email_verified"] != true {
			t.Errorf("an admin sees %v", r.body)
		}
	}
}

func TestMembers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, mattermosttest.Config{})
	w.Leave(secret, ada)
	w.LeaveTeam(bob)
	ofTeam := "/teams/" + mattermosttest.Team + "/members/"
	for path, want := range map[string]string{
		"/channels/" + ops + "/members/" + ada:    "200",
		"/channels/" + ops + "/members/" + gone:   "200",
		"/channels/" + ops + "/members/" + bob:    "404 app.channel.get_member.missing.app_error",
		"/channels/" + secret + "/members/" + ada: "404 app.channel.get_member.missing.app_error",
		"/channels/" + hidden + "/members/" + ada: "403 api.context.permissions.app_error",
		ofTeam + ada:                            "200",
		ofTeam + bob:                            "200 left",
		ofTeam + eve:                            "404 app.team.get_member.missing.app_error",
		"/channels/" + hidden:                   "403 api.context.permissions.app_error",
		"/channels/" + open:                     "200",
		"/channels/" + mattermosttest.NewID():   "404 app.channel.get.existing.app_error",
		"/teams/name/acme/channels/name/hidden": "404 app.channel.get_by_name.missing.app_error",
		"/teams/name/acme/channels/name/secret": "200",
		"/teams/name/acme":                      "200",
		"/teams/name/other":                     "404 app.team.get_by_name.missing.app_error",
	} {
		r := w.asBot(t, http.MethodGet, path, nil)
		got := strconv.Itoa(r.status)
		if r.status != 200 {
			got += " " + r.id()
		} else if n, isNumber := r.body["delete_at"].(float64); isNumber && n > 0 {
			got += " left"
		}
		if got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}

func TestPublicChannelsAreKnownToMembersOfTheTeamAndNotToGuests(t *testing.T) {
	t.Parallel()
	w := newWorld(t, mattermosttest.Config{})
	for user, want := range map[string]int{bob: 200, eve: 403, guest: 403, mattermosttest.Admin: 200} {
		if r := w.call(t, w.Session(user), http.MethodGet, "/channels/"+open, nil); r.status != want {
			t.Errorf("%s: %d %s", user, r.status, r.raw)
		}
	}
}

func TestListsOfMembersHavePages(t *testing.T) {
	t.Parallel()
	w := newWorld(t, mattermosttest.Config{})
	const crowd = "c1crowd0000000000000000000"
	members := []string{mattermosttest.BotUser}
	for i := range 205 {
		id := fmt.Sprintf("u2%024d", i)
		w.AddUser(mattermosttest.User{ID: id, Username: id})
		members = append(members, id)
	}
	w.AddChannel(mattermosttest.Channel{ID: crowd, Name: "crowd", Members: members})
	for path, want := range map[string]int{
		"/channels/" + crowd + "/members?per_page=1000":       200,
		"/channels/" + crowd + "/members?per_page=200&page=1": 6,
		"/users?in_channel=" + crowd + "&per_page=200&page=1": 6,
		"/users?in_channel=" + crowd:                          60,
		"/channels/" + crowd + "/members?per_page=200&page=2": 0,
	} {
		if r := w.asBot(t, http.MethodGet, path, nil); r.status != 200 || len(r.list) != want {
			t.Errorf("%s: %d, %d of them", path, r.status, len(r.list))
		}
	}
}

func TestGroupsNeedALicence(t *testing.T) {
	t.Parallel()
	const sre, fromLDAP = "g1sre000000000000000000000", "g1ldap00000000000000000000"
	for licensed, want := range map[bool]map[string]string{
		false: {
			"/groups": "501", "/groups/" + sre + "/members": "501", "/users?in_group=" + sre: "501", "/users/me/groups": "501",
		},
		true: {
			"/groups": "200", "/groups/" + sre + "/members": "200", "/groups/" + fromLDAP + "/members": "403",
			"/users?in_group=" + sre: "200", "/users?in_group=" + fromLDAP: "403", "/users/" + ada + "/groups": "403",
			"/users/me/groups": "200", "/groups/" + mattermosttest.NewID(): "404",
		},
	} {
		w := newWorld(t, mattermosttest.Config{Licensed: licensed})
		w.AddGroup(mattermosttest.Group{ID: sre, Name: "sre", Members: []string{ada, gone}})
		w.AddGroup(mattermosttest.Group{ID: fromLDAP, Name: "all", Source: "ldap", Members: []string{ada}})
		for path, status := range want {
			if r := w.asBot(t, http.MethodGet, path, nil); strconv.Itoa(r.status) != status {
				t.Errorf("%s, licensed %t: %d %s", path, licensed, r.status, r.raw)
			}
		}
		if r := w.asBot(t, http.MethodGet, "/groups/"+sre+"/members", nil); licensed && r.body["total_member_count"] != float64(1) {
			t.Errorf("members who are not deactivated: %s", r.raw)
		}
		if r := w.asBot(t, http.MethodGet, "/groups?filter_has_member="+ada, nil); licensed && len(r.list) != 2 {
			t.Errorf("groups of ada: %s", r.raw)
		}
	}
}

func TestADirectConversationIsTheSameOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t, mattermosttest.Config{DMsWithinTeam: true})
	open := func(ids ...string) result { return w.asBot(t, http.MethodPost, "/channels/direct", ids) }
	first, again := open(mattermosttest.BotUser, ada), open(ada, mattermosttest.BotUser)
	if first.status != 201 || first.id() != again.id() || first.body["type"] != "D" || first.body["team_id"] != "" {
		t.Errorf("%s, then %s", first.raw, again.raw)
	}
	for name, row := range map[string]struct {
		ids    []string
		status int
		id     string
	}{
		"of others":          {[]string{ada, bob}, 403, "api.context.permissions.app_error"},
		"with nobody":        {[]string{mattermosttest.BotUser, mattermosttest.NewID()}, 400, "api.channel.create_direct_channel.invalid_user.app_error"},
		"with one from afar": {[]string{mattermosttest.BotUser, eve}, 403, "api.channel.create_channel.direct_channel.team_restricted_error"},
	} {
		if r := open(row.ids...); r.status != row.status || r.id() != row.id {
			t.Errorf("%s: %d %s", name, r.status, r.raw)
		}
	}
}

func TestTokens(t *testing.T) {
	t.Parallel()
	w := newWorld(t, mattermosttest.Config{})
	me := func(token string) int { return w.call(t, token, http.MethodGet, "/users/me", nil).status }
	var got []int
	step := func(token string) { got = append(got, me(token)) }
	step(mattermosttest.BotToken)
	step("k1other00000000000000000000")
	step("")
	w.DisableBot()
	step(mattermosttest.BotToken)
	w.EnableBot()
	step(mattermosttest.BotToken)
	w.Revoke()
	step(mattermosttest.BotToken)
	w.Renew("k1new000000000000000000000")
	step("k1new000000000000000000000")
	step(mattermosttest.BotToken)
	if d := cmp.Diff([]int{200, 401, 401, 401, 200, 401, 200, 401}, got); d != "" {
		t.Error(d)
	}
	r := w.asBot(t, http.MethodGet, "/users/me", nil)
	if r.id() != "api.context.session_expired.app_error" || r.header.Get("X-Version-Id") == "" {
		t.Errorf("%s, %v", r.raw, r.header)
	}
	if at, err := http.ParseTime(r.header.Get("Date")); err != nil || !at.Equal(w.clock.Now().UTC().Truncate(time.Second)) {
		t.Errorf("the date is %v, %v", at, err)
	}
}

func TestTheConfigurationTellsStrangersLess(t *testing.T) {
	t.Parallel()
	w := newWorld(t, mattermosttest.Config{
		Version: "10.5.0", SiteURL: "-", NoCommands: true, NoBotAccounts: true, HideEmails: true, RequireEmailVerification: true, DMsWithinTeam: true,
		EditLimit: time.Minute, MaxPostSize: 4000,
	})
	const path = "/config/client?format=old"
	known, stranger := w.asBot(t, http.MethodGet, path, nil), w.call(t, "", http.MethodGet, path, nil)
	for key, want := range map[string]string{
		"Version": "10.5.0", "SiteURL": "", "EnableCommands": "false", "EnableBotAccountCreation": "false", "MaxPostSize": "4000",
		"ShowEmailAddress": "false", "RequireEmailVerification": "true", "RestrictDirectMessage": "team", "PostEditTimeLimit": "60",
	} {
		if known.body[key] != want {
			t.Errorf("%s is %v, want %q", key, known.body[key], want)
		}
	}
	if stranger.body["MaxPostSize"] != nil || stranger.body["AsymmetricSigningPublicKey"] != known.body["AsymmetricSigningPublicKey"] {
		t.Errorf("strangers see %v", stranger.body)
	}
}
