package main

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/approvalbot/approvalbot/channels/slack"
	"github.com/approvalbot/approvalbot/channels/slack/slacktest"
	"github.com/approvalbot/approvalbot/gate/secret"
)

// wellSocket is a config file in which nothing is wrong, nor in the workspace of
// newClinic.
const wellSocket = `
channels: {slack: {bot_token_file: bot-token, app_token_file: app-token, api_url: "{slack}/api/"}}
review: {slack: C0REVIEW01}
operators: {slack: C0OPS00001}
people: [{name: ann, keys: [ann], slack: [T0AAAAAA1/U0ANN00001]}, {name: bo, keys: [bo], slack: [T0AAAAAA1/U0BO000001]}]
approvers: {default: [sre], groups: {sre: {slack_usergroups: [S0SRE00001], slack_users: [U0BO000001], keys: [ann]}}}
approvals: {tool_gate: {rules: [{name: first, match: {tool: x}}, {name: prod, match: {tool: y}, conversation: {slack: C0PROD0001}}]}}
`

var (
	overHTTP  = []string{"app_token_file: app-token", "signing_secret_file: signing"}
	withURL   = []string{"review:", "public_url: https://approvals.example.com/\nreview:"}
	allScopes = []string{
		"chat:write", "commands", "im:write", "users:read", "usergroups:read", "channels:read", "groups:read",
		"channels:history", "groups:history", "im:history",
	}
)

// clinic is an installation that somebody examines.
type clinic struct {
	*home
	slack *slacktest.Slack
}

func newClinic(t *testing.T, c slacktest.Config, changes ...string) *clinic {
	t.Helper()
	c.NoRateLimits = true
	if c.Scopes == nil {
		c.Scopes = allScopes
	}
	d := &clinic{home: newHome(t), slack: newWorkspace(t, c)}
	for id, name := range map[string]string{review: "approvals", prod: "prod", opsRoom: "ops"} {
		d.channel(slacktest.Channel{ID: id, Name: name})
	}
	d.write("bot-token", slacktest.BotToken)
	d.write("app-token", slacktest.AppToken)
	d.write("signing", slacktest.SigningSecret)
	d.config(changed(t, wellSocket, append(changes, "{slack}", d.slack.URL())...))
	return d
}

// channel changes a conversation that the bot is in.
func (d *clinic) channel(c slacktest.Channel) {
	c.Members = append(c.Members, slacktest.BotUser)
	d.slack.AddChannel(c)
}

func (d *clinic) examine(flags ...string) result {
	d.t.Helper()
	return shell{}.run(d.t, append([]string{"doctor", "slack", "--config", d.path("approvalbot.yaml")}, flags...)...)
}

// scopesBut are all scopes but these.
func scopesBut(these ...string) (some []string) {
	for _, s := range allScopes {
		if !slices.Contains(these, s) {
			some = append(some, s)
		}
	}
	return some
}

func TestDoctorSlackFindsNothingWhereAllIsWell(t *testing.T) {
	t.Parallel()
	r := newClinic(t, slacktest.Config{}).examine()
	wantCode(t, r, exitOK)
	const want = `ok    bot token       @approvalbot U0BOT00001 in Acme T0AAAAAA1, app A0AAAAAA1
ok    scopes          nothing is missing
ok    app token       connected over Socket Mode; nobody else is
ok    clock           as Slack's
ok    conversation    #approvals C0REVIEW01 (review)
ok    conversation    #ops C0OPS00001 (operators)
ok    conversation    #prod C0PROD0001 (rule prod)
ok    approvers       sre: U0BO000001 is Bo
ok    approvers       sre: user group S0SRE00001: 1 member
ok    people          2 accounts known to Slack
ok    rules           somebody on Slack can decide on the cards of 2 rules

All is well.
`
	if r.out != want || r.err != "" {
		t.Errorf("it says\n%s%s\nwant\n%s", r.out, r.err, want)
	}
}

// ailment is one thing that can be wrong, and what is said about it.
type ailment struct {
	name    string
	changes []string // of the config file: old, new, …
	slack   slacktest.Config
	before  func(*clinic)
	says    string // whole lines, without the spaces before the second; with … a beginning
	verdict string // "1 thing to mend", "1 warning"
}

const (
	oneFails, oneWarns = "1 thing to mend.", "All is well, 1 warning."
	restToo            = "1 thing to mend, 1 warning."
)

func tokenBroken(code string) func(*clinic) {
	return func(d *clinic) { d.slack.BreakToken(code) }
}

func TestDoctorSlackSaysWhatIsWrongAndHowToMendIt(t *testing.T) {
	t.Parallel()
	rows := [][]ailment{tokenAilments, scopeAilments, receivingAilments, clockAilments, conversationAilments, approverAilments, peopleAilments}
	for _, part := range rows {
		for _, row := range part {
			t.Run(row.name, func(t *testing.T) {
				t.Parallel()
				d := newClinic(t, row.slack, row.changes...)
				if row.before != nil {
					row.before(d)
				}
				open := len(d.slack.Sockets())
				r := d.examine()
				want := strings.ReplaceAll(row.says, "\n", "\n      ") + "\n"
				want, _ = strings.CutSuffix(want, "…\n")
				wantText(t, r.out, want, "\n"+row.verdict+"\n")
				code := exitOK
				if strings.Contains(row.verdict, "to mend") {
					code = exitBlock
				}
				wantCode(t, r, code)
				if _, err := d.slack.Await(t.Context(), func(now []int) bool { return len(now) == open }); err != nil {
					t.Fatal(err)
				}
				wantSameInJSON(t, d.examine("-o", "json"), row.verdict, code, slacktest.BotToken, slacktest.AppToken, slacktest.SigningSecret)
			})
		}
	}
}

var tokenAilments = []ailment{
	{
		name: "a bot token that was revoked", before: tokenBroken("token_revoked"), verdict: restToo,
		says: "FAIL  bot token       the token was revoked (token_revoked)\n" + installFix,
	},
	{
		name: "an app that was uninstalled", before: tokenBroken("account_inactive"), verdict: restToo,
		says: "FAIL  bot token       the app was uninstalled, or its bot is deactivated (account_inactive)\n" + installFix,
	},
	{
		name: "a bot token that rotates", before: tokenBroken("token_expired"), verdict: restToo,
		says: "FAIL  bot token       the token has expired (token_expired)\n" + rotateFix,
	},
	{
		name: "a word of Slack's that nobody knows", before: tokenBroken("ekm_access_denied"), verdict: restToo,
		says: "FAIL  bot token       Slack refuses this token (ekm_access_denied)\n" + copyFix,
	},
	{
		name: "a bot token that is not the right one", before: func(d *clinic) { d.write("bot-token", "xoxb-other") }, verdict: restToo,
		says: "FAIL  bot token       Slack does not know this token (invalid_auth)\n" + copyFix,
	},
	{
		name: "a user's token in its place", before: func(d *clinic) { d.write("bot-token", "xoxp-other") }, verdict: oneFails,
		says: "channels.slack.bot_token_file: this is no bot token but a user's: one begins with xoxb-, and is under OAuth & Permissions, Bot User OAuth Token\n" +
			"`approvalbot config example` shows every key, and what it takes",
	},
	{
		name: "the app token in its place", before: func(d *clinic) { d.write("bot-token", slacktest.AppToken) }, verdict: oneFails,
		says: "channels.slack.bot_token_file: this is no bot token but an app-level one: one begins with xoxb-, and is under OAuth & Permissions, Bot User OAuth Token\n" +
			"`approvalbot config example` shows every key, and what it takes",
	},
	{
		name: "a token of another workspace", changes: []string{"{slack: {bot", "{slack: {team: T0ELSE, bot"}, verdict: restToo,
		says: "FAIL  bot token       it is of Acme T0AAAAAA1, and channels.slack.team wants T0ELSE\n" +
			"take the token of an installation in T0ELSE, or correct channels.slack.team",
	},
	{
		name: "a Slack that cannot be reached", changes: []string{"{slack}/api", "http://127.0.0.1:1/api", "people:", "# {slack}\npeople:"}, verdict: restToo,
		says: "FAIL  bot token       Slack could not be asked: dial tcp 127.0.0.1:1: connect: connection refused\n" +
			"it is the network and not the token: let this machine reach 127.0.0.1:1, or set HTTPS_PROXY",
	},
	{
		name: "a Slack that is broken", before: func(d *clinic) { d.slack.Fail("auth.test", 0, slacktest.ServerError) }, verdict: restToo,
		says: "FAIL  bot token       Slack could not be asked: it answers HTTP 500\nit is Slack and not the token: see status.slack.com, and run this again",
	},
	{
		name: "no Slack in the config file", verdict: oneFails,
		changes: []string{"channels: {", "# {slack}\n# channels: {", "review:", "# review:", "operators:", "# operators:", ", slack: [T0AAAAAA1/U0ANN00001]", "", ", slack: [T0AAAAAA1/U0BO000001]", "", "slack_usergroups: [S0SRE00001], slack_users: [U0BO000001], ", "", ", conversation: {slack: C0PROD0001}", ""},
		says:    "has no Slack in it\nadd channels.slack to …",
	},
}

const reinstall = "\nadd it under OAuth & Permissions, Bot Token Scopes, and install the app again"

var scopeAilments = []ailment{
	{name: "no scope to post", slack: slacktest.Config{Scopes: scopesBut("chat:write")}, verdict: oneFails, says: "FAIL  scopes          no chat:write: no card can be posted" + reinstall},
	{name: "no scope to write to people", slack: slacktest.Config{Scopes: scopesBut("im:write")}, verdict: oneWarns, says: "warn  scopes          no im:write: approvers cannot be written to directly where no conversation takes a card" + reinstall},
	{name: "no scope for the command", slack: slacktest.Config{Scopes: scopesBut("commands")}, verdict: oneWarns, says: "warn  scopes          no commands: there is no /approvals" + reinstall},
	{
		name: "no scope to look for cards", slack: slacktest.Config{Scopes: scopesBut("channels:history", "groups:history", "im:history")}, verdict: oneWarns,
		says: "warn  scopes          no channels:history, groups:history, im:history: a card whose post was never answered is posted again instead of looked for" + reinstall,
	},
	{
		name: "no scope to look at private conversations", slack: slacktest.Config{Scopes: scopesBut("groups:read")}, verdict: oneWarns,
		says: "warn  scopes          no groups:read: nobody can see whether another company reads a conversation" + reinstall,
	},
	{
		name: "no scope for user groups, where groups have some", slack: slacktest.Config{Scopes: scopesBut("usergroups:read")}, verdict: "2 things to mend.",
		says: "FAIL  scopes          no usergroups:read: nobody decides by a user group, and slack_usergroups lists some" + reinstall,
	},
	{
		name: "no scope for user groups, where nobody needs it", slack: slacktest.Config{Scopes: scopesBut("usergroups:read")}, verdict: "All is well.",
		changes: []string{"slack_usergroups: [S0SRE00001], ", ""}, says: "ok    scopes          nothing is missing",
	},
	{
		name: "a private conversation without the scope to look at it", slack: slacktest.Config{Scopes: scopesBut("groups:read")}, verdict: "All is well, 2 warnings.",
		before: func(d *clinic) { d.channel(slacktest.Channel{ID: prod, Private: true}) },
		says:   "warn  conversation    C0PROD0001 (rule prod): not looked at, without groups:read\nadd groups:read under OAuth & Permissions, and install the app again",
	},
}

// others has another program connect to the app.
func others(d *clinic) {
	ctx, cancel := context.WithCancel(d.t.Context())
	s := &slack.Socket{
		Slack: slack.New(slack.Config{AppToken: secret.New(slacktest.AppToken), APIURL: d.slack.URL() + "/api/"}),
		Log:   slog.New(slog.DiscardHandler),
	}
	done := make(chan struct{})
	go func() { defer close(done); s.Run(ctx) }()
	d.t.Cleanup(func() { cancel(); <-done })
	if _, err := d.slack.Await(ctx, func(open []int) bool { return len(open) == 2 }); err != nil {
		d.t.Fatal(err)
	}
}

var receivingAilments = []ailment{
	{
		name: "an app token that is not the right one", before: func(d *clinic) { d.write("app-token", "xapp-other") }, verdict: oneFails,
		says: "FAIL  app token       Slack does not know this token (invalid_auth)\n" + appTokenFix,
	},
	{
		name: "the bot token in the app token's place", before: func(d *clinic) { d.write("app-token", slacktest.BotToken) }, verdict: oneFails,
		says: "channels.slack.app_token_file: this is no app-level token but a bot's: one begins with xapp-, and is under Basic Information, App-Level Tokens",
	},
	{
		name: "an app token without its scope", before: func(d *clinic) { d.slack.Fail("apps.connections.open", 0, slacktest.Refused("missing_scope")) }, verdict: oneFails,
		says: "FAIL  app token       the token may not connect (missing_scope)\n" + appTokenFix,
	},
	{
		name: "Socket Mode that is switched off", before: func(d *clinic) { d.slack.Disconnect(0, "link_disabled") }, verdict: oneFails,
		says: "FAIL  app token       Socket Mode is switched off for the app (link_disabled)\nin the app's settings: Socket Mode, Enable Socket Mode",
	},
	{
		name: "sockets that cannot be reached", verdict: oneFails,
		before: func(d *clinic) {
			d.slack.Fail("apps.connections.open", 0, slacktest.Page(`{"ok":true,"url":"ws://127.0.0.1:1/link/?ticket=t0p"}`))
		},
		says: "FAIL  app token       no connection over Socket Mode: dial tcp 127.0.0.1:1: connect: connection refused\n" +
			"it is the network and not the token: let this machine reach Slack's sockets (wss://*.slack.com), or set HTTPS_PROXY",
	},
	{
		name: "sockets while Slack is broken", before: func(d *clinic) { d.slack.Fail("apps.connections.open", 0, slacktest.ServerError) }, verdict: oneFails,
		says: "FAIL  app token       no connection over Socket Mode: it answers HTTP 500\nit is Slack and not the token: see status.slack.com, and run this again",
	},
	{
		name: "an app token of another app", slack: slacktest.Config{SocketApp: "A0OTHER001"}, verdict: oneFails,
		says: "FAIL  app token       it is of app A0OTHER001, and the bot token of A0AAAAAA1: no press would arrive\ntake both tokens from one app's settings",
	},
	{
		name: "somebody else who is connected", before: others, verdict: oneWarns,
		says: "warn  app token       connected over Socket Mode; 2 other connections to this app: another approvalbot, or another program. A press goes to only one of them\n" +
			"fine if they are servers of this installation on the same Redis, which have two each. Else give each installation an app of its own",
	},
	{
		name: "HTTP, and all is well", changes: append(overHTTP, withURL...), verdict: "All is well.",
		says: "ok    public_url      https://approvals.example.com; the app's settings need these three:\n" +
			"Interactivity & Shortcuts  https://approvals.example.com/slack/interactions\n" +
			"Slash Commands             https://approvals.example.com/slack/commands\n" +
			"Event Subscriptions        https://approvals.example.com/slack/events",
	},
	{
		name: "HTTP without an address", changes: overHTTP, verdict: oneFails,
		says: "FAIL  public_url      not set: Slack has no address to call\nset public_url, like https://approvals.example.com; or use Socket Mode, which needs none",
	},
	{
		name: "HTTP in the clear", changes: append(overHTTP, "review:", "public_url: http://localhost:8080\nreview:"), verdict: oneFails,
		says: "FAIL  public_url      http://localhost:8080 is not https: Slack does not call it, and what it sends could be read\nput a proxy…",
	},
}

// slackClock is a Slack whose clock is behind this machine's.
func slackClock(by time.Duration) slacktest.Config {
	return slacktest.Config{Now: func() time.Time { return time.Now().Add(-by) }}
}

const setClock = "\nset this machine's clock, and keep it right: NTP, chrony, or `timedatectl set-ntp true`"

var clockAilments = []ailment{
	{
		name: "a clock that is ahead, over HTTP", changes: append(overHTTP, withURL...), slack: slackClock(7*time.Minute + 20*time.Second), verdict: oneFails,
		says: "FAIL  clock           7 min ahead of Slack's: all that Slack sends is refused, because its signatures look false" + setClock,
	},
	{
		name: "a clock that is behind, over HTTP", changes: append(overHTTP, withURL...), slack: slackClock(-7*time.Minute - 20*time.Second), verdict: oneFails,
		says: "FAIL  clock           7 min behind Slack's: all that Slack sends is refused, because its signatures look false" + setClock,
	},
	{
		name: "a clock that is not so far off, over HTTP", changes: append(overHTTP, withURL...), slack: slackClock(3*time.Minute + 20*time.Second), verdict: oneWarns,
		says: "warn  clock           3 min ahead of Slack's; from 5 min on, all that Slack sends is refused" + setClock,
	},
	{
		name: "a clock that is far off, over Socket Mode", slack: slackClock(7*time.Minute + 20*time.Second), verdict: oneWarns,
		says: "warn  clock           7 min ahead of Slack's; times in the log are wrong, and HTTP would not work" + setClock,
	},
	{name: "a clock that is a little off", slack: slackClock(20 * time.Second), verdict: "All is well.", says: "ok    clock           as Slack's"},
}

func prodIs(c slacktest.Channel) func(*clinic) {
	c.ID = prod
	return func(d *clinic) { d.channel(c) }
}

var conversationAilments = []ailment{
	{
		name: "a conversation that there is not", changes: []string{"C0PROD0001", "C0NOWHERE1"}, verdict: oneFails,
		says: "FAIL  conversation    C0NOWHERE1 (rule prod): there is none, or it is private and the bot is not in it\ncorrect the id; or, if it is private, write /invite @approvalbot in it",
	},
	{
		name: "an archived one", before: prodIs(slacktest.Channel{Name: "prod", Archived: true}), verdict: oneFails,
		says: "FAIL  conversation    #prod C0PROD0001 (rule prod): it is archived\nunarchive #prod, or choose another conversation",
	},
	{
		name: "one that the bot is not in", before: func(d *clinic) { d.slack.AddChannel(slacktest.Channel{ID: prod, Name: "prod"}) }, verdict: oneFails,
		says: "FAIL  conversation    #prod C0PROD0001 (rule prod): the bot is not in it\nwrite /invite @approvalbot in #prod",
	},
	{
		name: "one that the bot is not in and may post in", slack: slacktest.Config{Scopes: append([]string{"chat:write.public"}, allScopes...)},
		before: func(d *clinic) { d.slack.AddChannel(slacktest.Channel{ID: prod, Name: "prod"}) }, verdict: oneWarns,
		says: "warn  conversation    #prod C0PROD0001 (rule prod): the bot is not in it, and posts by chat:write.public alone\nwrite /invite @approvalbot in #prod",
	},
	{
		name: "one that another company reads", before: prodIs(slacktest.Channel{Name: "prod", Shared: true}), verdict: oneFails,
		says: "FAIL  conversation    #prod C0PROD0001 (rule prod): another company reads it, so no card is posted there\nchoose a conversation that is not shared, or stop sharing #prod",
	},
	{
		name: "one of the operators that another company reads", before: func(d *clinic) { d.channel(slacktest.Channel{ID: opsRoom, Shared: true}) }, verdict: oneWarns,
		says: "warn  conversation    C0OPS00001 (operators): another company reads it\nchoose a conversation that is not shared, or stop sharing it",
	},
	{
		name: "one that another company is asked to share", before: prodIs(slacktest.Channel{Name: "prod", Invited: true}), verdict: oneWarns,
		says: "warn  conversation    #prod C0PROD0001 (rule prod): another company is invited to it; once it is there, no card is posted\ntake the invitation back, or choose another conversation",
	},
	{
		name: "one in which not everybody may post", before: prodIs(slacktest.Channel{Name: "prod", Restricted: "restricted_action"}), verdict: oneWarns,
		says: "warn  conversation    #prod C0PROD0001 (rule prod): not everybody may post in it, and Slack does not say that the bot may\nin #prod's settings, under posting permissions: let the app post",
	},
	{
		name: "one in which the bot may post, and not everybody", before: prodIs(slacktest.Channel{Name: "prod", Restricted: "restricted_action", Posters: []string{slacktest.BotUser}}),
		verdict: "All is well.", says: "ok    conversation    #prod C0PROD0001 (rule prod)",
	},
	{
		name: "one of several uses, which is looked at once", changes: []string{"C0OPS00001", "C0REVIEW01", "C0PROD0001", "C0REVIEW01"}, verdict: "All is well.",
		says: "ok    conversation    #approvals C0REVIEW01 (review, operators, rule prod)",
	},
	{
		name: "one that Slack does not answer about", before: func(d *clinic) { d.slack.Fail("conversations.info", 0, slacktest.ServerError) }, verdict: "All is well, 3 warnings.",
		says: "warn  conversation    C0PROD0001 (rule prod): could not be looked up: it answers HTTP 500\nrun this again in a minute",
	},
	{
		name: "direct messages", changes: []string{"C0PROD0001", "D0ANN00001"}, verdict: "All is well.",
		says: "ok    conversation    D0ANN00001 (rule prod): direct messages, which are not looked at",
	},
	{
		name: "a name that would write on the terminal", before: prodIs(slacktest.Channel{Name: "p\x1b[31mrod\u202e", Archived: true}), verdict: oneFails,
		says: "FAIL  conversation    #p[31mrod C0PROD0001 (rule prod): it is archived",
	},
}

func boIs(u slacktest.User) func(*clinic) {
	u.ID = boOnSlack
	return func(d *clinic) { d.slack.AddUser(u) }
}

// inSRE are further members of the user group.
func inSRE(users ...slacktest.User) func(*clinic) {
	return func(d *clinic) {
		members := []string{annOnSlack}
		for _, u := range users {
			d.slack.AddUser(u)
			members = append(members, u.ID)
		}
		d.slack.AddGroup(slacktest.Group{ID: sreGroup, Members: members})
	}
}

const (
	fullMembers = "\nonly full members decide by a user group: list guests and outsiders by id in slack_users, or take them out of the group"
	boAlone     = "slack_usergroups: [S0SRE00001], "
	noPeople    = ", slack: [T0AAAAAA1/U0BO000001]"
)

var approverAilments = []ailment{
	{
		name: "a guest in a user group", before: inSRE(slacktest.User{ID: "U0GIL00001", Name: "Gil", Restricted: true}, slacktest.User{ID: boss}), verdict: oneWarns,
		says: "warn  approvers       sre: user group S0SRE00001: 3 members, 1 of them a guest who cannot decide" + fullMembers,
	},
	{
		name: "many who cannot decide in a user group", verdict: oneWarns,
		before: inSRE(
			slacktest.User{ID: "U0GIL00001", Restricted: true}, slacktest.User{ID: "U0UNA00001", UltraRestricted: true}, slacktest.User{ID: "U0EVE00001", Team: "T0PARTNER"},
			slacktest.User{ID: "U0GONE0001", Deleted: true}, slacktest.User{ID: "U0ROBOT001", Bot: true}, slacktest.User{ID: "U0HIDDEN01", Hidden: true},
		),
		says: "warn  approvers       sre: user group S0SRE00001: 7 members, 6 of them (a bot, a deactivated account, 2 guests, somebody the bot cannot see, an outsider) cannot decide" + fullMembers,
	},
	{
		name: "a guest in a user group who is listed by id too", before: inSRE(slacktest.User{ID: boOnSlack, Name: "Bo", Restricted: true}), verdict: "All is well.",
		says: "ok    approvers       sre: user group S0SRE00001: 2 members",
	},
	{
		name: "a user group of guests alone", before: func(d *clinic) {
			d.slack.AddUser(slacktest.User{ID: annOnSlack, Name: "Ann", Restricted: true})
		}, verdict: oneFails,
		says: "FAIL  approvers       sre: user group S0SRE00001: 1 member, none of whom can decide (a guest)" + fullMembers,
	},
	{
		name: "a user group that is empty", before: func(d *clinic) { d.slack.AddGroup(slacktest.Group{ID: sreGroup}) }, verdict: oneFails,
		says: "FAIL  approvers       sre: user group S0SRE00001: nobody is in it, or it is disabled\nput its members in with Slack's group editor; if it is disabled, enable it",
	},
	{
		name: "a user group that is disabled", before: func(d *clinic) {
			d.slack.AddGroup(slacktest.Group{ID: sreGroup, Members: []string{annOnSlack}, Disabled: true})
		}, verdict: oneFails,
		says: "FAIL  approvers       sre: user group S0SRE00001: nobody is in it, or it is disabled",
	},
	{
		name: "a user group that there is not", changes: []string{"S0SRE00001", "S0NONE0001"}, verdict: oneFails,
		says: "FAIL  approvers       sre: there is no user group S0NONE0001\ncorrect the id in approvers.groups.sre.slack_usergroups: the group's page in Slack, ⋮, Copy group ID",
	},
	{
		name: "a workspace whose plan has no user groups", before: func(d *clinic) { d.slack.Fail("usergroups.users.list", 0, slacktest.Refused("plan_upgrade_required")) }, verdict: oneFails,
		says: "FAIL  approvers       sre: user group S0SRE00001: the workspace's plan has no user groups (plan_upgrade_required)\nlist people in slack_users instead of approvers.groups.sre.slack_usergroups",
	},
	{
		name: "a user group that Slack does not answer about", before: func(d *clinic) { d.slack.Fail("usergroups.users.list", 0, slacktest.ServerError) }, verdict: oneWarns,
		says: "warn  approvers       sre: user group S0SRE00001 could not be looked up: it answers HTTP 500\nrun this again in a minute",
	},
	{
		name: "more members than are looked up", before: func(d *clinic) {
			var many []slacktest.User
			for n := range 2 * maxLookups {
				many = append(many, slacktest.User{ID: fmt.Sprintf("U0MANY%04d", n)})
			}
			inSRE(many...)(d)
		}, verdict: "All is well.",
		says: "ok    approvers       sre: user group S0SRE00001: 121 members; 62 of them not looked at, because Slack limits how often",
	},
	{
		name: "an approver who was deactivated", before: boIs(slacktest.User{Name: "Bo", Deleted: true}), changes: []string{noPeople, ""}, verdict: oneFails,
		says: "FAIL  approvers       sre: U0BO000001 is Bo, whose account is deactivated\ntake it out of approvers.groups.sre.slack_users",
	},
	{
		name: "an approver who is a bot", before: boIs(slacktest.User{Name: "Bo", Bot: true}), changes: []string{noPeople, ""}, verdict: oneFails,
		says: "FAIL  approvers       sre: U0BO000001 is Bo, a bot, and bots never decide\ntake it out of approvers.groups.sre.slack_users",
	},
	{
		name: "an approver whom nobody knows", changes: []string{"U0BO000001]", "U0NONE0001]", noPeople[:9], noPeople[:9]}, verdict: "2 things to mend.",
		says: "FAIL  approvers       sre: there is no U0NONE0001 that the bot can see\ncorrect the id in approvers.groups.sre.slack_users: their profile in Slack, ⋮, Copy member ID",
	},
	{
		name: "an approver who is a guest", before: boIs(slacktest.User{Name: "Bo", UltraRestricted: true}), verdict: "All is well.",
		says: "ok    approvers       sre: U0BO000001 is Bo, a guest who decides because listed by id",
	},
	{
		name: "an approver who is an outsider", before: boIs(slacktest.User{Name: "Bo", Team: "T0PARTNER"}), changes: []string{noPeople, "", "[U0BO000001]", "[T0PARTNER/U0BO000001]"}, verdict: "All is well.",
		says: "ok    approvers       sre: T0PARTNER/U0BO000001 is Bo of T0PARTNER, an outsider who decides because listed by id",
	},
	{
		name: "an outsider who is listed as if of the workspace", before: boIs(slacktest.User{Name: "Bo", Team: "T0PARTNER"}), changes: []string{noPeople, ""}, verdict: oneFails,
		says: "FAIL  approvers       sre: U0BO000001 is Bo of T0PARTNER, who cannot decide under this id\nwrite T0PARTNER/U0BO000001 in approvers.groups.sre.slack_users",
	},
	{
		name: "members whom Slack does not answer about: nothing is said of rules", changes: []string{", slack_users: [U0BO000001]", ""},
		before: func(d *clinic) { d.slack.Fail("users.info", 0, slacktest.ServerError) }, verdict: "All is well, 3 warnings.",
		says: "warn  approvers       sre: user group S0SRE00001: 1 member, of whom 1 could not be looked up: it answers HTTP 500\nrun this again in a minute",
	},
	{
		name: "an approver whom Slack does not answer about", before: func(d *clinic) { d.slack.Fail("users.info", 0, slacktest.ServerError) }, verdict: "All is well, 4 warnings.",
		says: "warn  approvers       sre: U0BO000001 could not be looked up: it answers HTTP 500\nrun this again in a minute",
	},
}

var peopleAilments = []ailment{
	{
		name: "a person whose account there is not", changes: []string{"T0AAAAAA1/U0ANN00001", "T0AAAAAA1/U0NONE0001"}, verdict: oneFails,
		says: "FAIL  people          ann: T0AAAAAA1/U0NONE0001: there is no such account that the bot can see\ncorrect the id: their profile in Slack, ⋮, Copy member ID",
	},
	{
		name: "a person of another workspace than the file says", changes: []string{"T0AAAAAA1/U0ANN00001", "T0ELSE/U0ANN00001"}, verdict: oneFails,
		says: "FAIL  people          ann: T0ELSE/U0ANN00001 (Ann) is of T0AAAAAA1, and would not be recognised\nwrite T0AAAAAA1/U0ANN00001",
	},
	{
		name: "a person who has left", before: func(d *clinic) { d.slack.AddUser(slacktest.User{ID: boss, Name: "Boss", Deleted: true}) },
		changes: []string{"[T0AAAAAA1/U0ANN00001]", "[T0AAAAAA1/U0ANN00001, T0AAAAAA1/U0BOSS0001]"}, verdict: oneWarns,
		says: "warn  people          ann: T0AAAAAA1/U0BOSS0001 (Boss) is deactivated\ntake it out, if they have left",
	},
	{
		name: "rules that nobody on Slack could decide", changes: []string{"slack_usergroups: [S0SRE00001], slack_users: [U0BO000001], ", ""}, verdict: oneWarns,
		says: "warn  rules           first, prod: cards go to Slack, and nobody of sre can decide there; at the console only\n" +
			"list people on Slack in the group (slack_users, slack_usergroups), or send the cards elsewhere",
	},
	{
		name: "a rule whose cards go to the console, like its approvers", verdict: "All is well.",
		changes: []string{"slack_usergroups: [S0SRE00001], slack_users: [U0BO000001], ", "", "review:", "# review:", ", conversation: {slack: C0PROD0001}", ""},
		says:    "ok    people          2 accounts known to Slack",
	},
	{
		name: "rules whose approvers are known by their addresses: nothing is said", verdict: "All is well.",
		changes: []string{"slack_usergroups: [S0SRE00001], slack_users: [U0BO000001], ", "emails: [bo@example.com], "}, says: "ok    people          2 accounts known to Slack",
	},
	{
		name: "a rule that admits who asks", changes: []string{"slack_usergroups: [S0SRE00001], slack_users: [U0BO000001], ", "", "{tool: x}", "{tool: x}, approvers: [requester]"}, verdict: oneWarns,
		says: "ok    rules           somebody on Slack can decide on the cards of 1 rule",
	},
}

// TestDoctorSlackLooksAtTheRestToo: what is wrong in one place hides nothing in
// another.
func TestDoctorSlackLooksAtTheRestToo(t *testing.T) {
	t.Parallel()
	d := newClinic(t, slacktest.Config{Scopes: scopesBut("chat:write", "commands")}, "S0SRE00001", "S0NONE0001")
	d.slack.AddChannel(slacktest.Channel{ID: prod, Name: "prod", Shared: true})
	d.slack.Disconnect(0, "link_disabled")
	r := d.examine()
	wantCode(t, r, exitBlock)
	wantText(t, r.out, "no chat:write", "no commands", "link_disabled", "another company reads it", "the bot is not in it", "no user group S0NONE0001", "5 things to mend, 1 warning.")
}

func TestDoctorSlackReadsWellOnATerminal(t *testing.T) {
	t.Parallel()
	d := newClinic(t, slacktest.Config{Scopes: scopesBut("im:write")})
	prodIs(slacktest.Channel{Name: "prod", Shared: true})(d)
	r := shell{tty: true}.run(t, "doctor", "slack", "--config", d.path("approvalbot.yaml"))
	wantText(t, r.out, "\x1b[32mok\x1b[0m    clock", "\x1b[33mwarn\x1b[0m  scopes", "\x1b[31mFAIL\x1b[0m  conversation", "\x1b[31m1 thing to mend, 1 warning.\x1b[0m")
	out := inEightyColumns(t, d.examine("-o", "json").out)
	wantText(t, out, "\n                      no conversation takes a card\n")
}

// TestDoctorSlackSaysEachThingWhenItIsKnown: what is slow keeps nothing back.
func TestDoctorSlackSaysEachThingWhenItIsKnown(t *testing.T) {
	t.Parallel()
	d := newClinic(t, slacktest.Config{})
	answer := make(chan struct{})
	d.slack.Fail("conversations.info", 0, slacktest.Held(answer))
	saysAtOnce(t, d.home, "slack", "clock", answer)
}

func TestDoctorSlackPostsNothing(t *testing.T) {
	t.Parallel()
	d := newClinic(t, slacktest.Config{})
	d.examine()
	for _, method := range []string{"chat.postMessage", "chat.postEphemeral", "chat.update", "conversations.open"} {
		if n := len(d.slack.Calls(method)); n > 0 {
			t.Errorf("%s was called %d times", method, n)
		}
	}
	for method, most := range map[string]int{"auth.test": 1, "apps.connections.open": 1, "conversations.info": 3, "users.info": 2, "usergroups.users.list": 1} {
		if n := len(d.slack.Calls(method)); n != most {
			t.Errorf("%s was called %d times, want %d", method, n, most)
		}
	}
	if open, err := d.slack.Await(t.Context(), func(open []int) bool { return len(open) == 0 }); err != nil {
		t.Errorf("connections %v stay: %v", open, err)
	}
}
