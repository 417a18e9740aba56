package main

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/approvalbot/approvalbot/channels/mattermost/mattermosttest"
)

// wellMattermost is a config file in which nothing is wrong, nor on the Mattermost of
// newMattermostClinic.
const wellMattermost = `
channels: {mattermost: {url: "{mattermost}", token_file: mm-token, callback_url: "https://127.0.0.1:8443", callback_allow: [10.0.0.7], commands: [{team: acme, token_file: mm-command}]}}
review: {mattermost: acme/review}
operators: {mattermost: acme/ops}
people: [{name: ann, keys: [ann], mattermost: [ann]}, {name: bo, keys: [bo], mattermost: [u1bo0000000000000000000000]}]
approvers: {default: [sre], groups: {sre: {mattermost_channel_members: [acme/sre], mattermost_users: [bo], keys: [ann]}}}
approvals: {tool_gate: {rules: [{name: first, match: {tool: x}}, {name: prod, match: {tool: y}, conversation: {mattermost: acme/prod}}]}}
`

const mmCommandURL = "https://127.0.0.1:8443/mattermost/commands"

// mmClinic is an installation on Mattermost that somebody examines.
type mmClinic struct {
	*home
	mm *mattermosttest.Server
}

func newMattermostClinic(t *testing.T, c mattermosttest.Config, changes ...string) *mmClinic {
	t.Helper()
	d := &mmClinic{home: newHome(t), mm: newMattermost(t, c)}
	d.mm.AddChannel(mattermosttest.Channel{ID: "c1ops000000000000000000000", Name: "ops", Members: []string{annOnMM, mattermosttest.BotUser}})
	d.write("mm-token", mattermosttest.BotToken)
	d.write("mm-command", mmCommand)
	d.config(changed(t, wellMattermost, append(changes, "{mattermost}", d.mm.URL())...))
	return d
}

func (d *mmClinic) examine(flags ...string) result {
	d.t.Helper()
	return shell{}.run(d.t, append([]string{"doctor", "mattermost", "--config", d.path("approvalbot.yaml")}, flags...)...)
}

func TestDoctorMattermostFindsNothingWhereAllIsWell(t *testing.T) {
	t.Parallel()
	d := newMattermostClinic(t, mattermosttest.Config{})
	r := d.examine()
	wantCode(t, r, exitOK)
	want := strings.ReplaceAll(`ok    server          Mattermost 11.2.0 at {mattermost}
ok    bot token       @approvalbot u1bot000000000000000000000, in acme
ok    clock           as Mattermost's
ok    SiteURL         {mattermost}
ok    signing key     whose press it is can be checked
ok    callback        Mattermost calls https://127.0.0.1:8443
note  callback        127.0.0.1 is internal, and Mattermost calls there only if it is allowed to
      `+allowFix+`
      127.0.0.1
ok    settings        nothing is in the way
ok    conversation    acme/review (review)
ok    conversation    acme/ops (operators)
ok    conversation    acme/prod (rule prod)
ok    approvers       sre: @bo is u1bo0000000000000000000000
ok    approvers       sre: members of acme/sre: 1 member
ok    people          2 accounts known to Mattermost
ok    rules           somebody on Mattermost can decide on the cards of 2 rules
ok    command         /approvals in acme: its token is given; the bot may not see where it leads, which should be `+mmCommandURL+`
note  round trip      not tried; whether Mattermost can call shows only when somebody presses
      run this with --press, and press the button that it posts

All is well.
`, "{mattermost}", d.mm.URL())
	if r.out != want || r.err != "" {
		t.Errorf("it says\n%s%s\nwant\n%s", r.out, r.err, want)
	}
}

// mmAilment is one thing that can be wrong, and what is said about it.
type mmAilment struct {
	name    string
	changes []string // of the config file: old, new, …
	server  mattermosttest.Config
	before  func(*mmClinic)
	says    string // whole lines, without the spaces before fixes; with … a beginning
	verdict string // "1 thing to mend", "1 warning"
}

func TestDoctorMattermostSaysWhatIsWrongAndHowToMendIt(t *testing.T) {
	t.Parallel()
	for _, part := range [][]mmAilment{mmServerAilments, mmSettingAilments, mmCallbackAilments, mmPlaceAilments, mmApproverAilments, mmPeopleAilments, mmCommandAilments} {
		for _, row := range part {
			t.Run(row.name, func(t *testing.T) {
				t.Parallel()
				d := newMattermostClinic(t, row.server, row.changes...)
				if row.before != nil {
					row.before(d)
				}
				r := d.examine()
				want := strings.NewReplacer("\nok", "\nok", "\nnote", "\nnote", "\n", "\n      ", "{mattermost}", d.mm.URL()).Replace(row.says) + "\n"
				want, _ = strings.CutSuffix(want, "…\n")
				wantText(t, r.out, want, "\n"+row.verdict+"\n")
				code := exitOK
				if strings.Contains(row.verdict, "to mend") {
					code = exitBlock
				}
				wantCode(t, r, code)
				wantSameInJSON(t, d.examine("-o", "json"), row.verdict, code, mattermosttest.BotToken, mmCommand)
			})
		}
	}
}

func mmFails(op string, f mattermosttest.Fault) func(*mmClinic) {
	return func(d *mmClinic) { d.mm.Fail(op, 0, f) }
}

var mmServerAilments = []mmAilment{
	{
		name: "a server that cannot be reached", changes: []string{"{mattermost}", "http://127.0.0.1:1", "people:", "# {mattermost}\npeople:"}, verdict: restToo,
		says: "FAIL  server          http://127.0.0.1:1 could not be asked: dial tcp 127.0.0.1:1: connect: connection refused\n" +
			"it is the network and not the token: let this machine reach 127.0.0.1:1, or set HTTPS_PROXY",
	},
	{
		name: "a login page before it", before: mmFails("config", mattermosttest.HTMLPage(200)), verdict: restToo,
		says: "FAIL  server          {mattermost} could not be asked: what answers is not Mattermost\n" +
			"correct channels.mattermost.url; or, if a login page or a proxy is in front of Mattermost, let requests to /api/v4 through without it",
	},
	{
		name: "one that leads to a login page", before: mmFails("config", mattermosttest.HTMLPage(302)), verdict: restToo,
		says: "FAIL  server          {mattermost} could not be asked: HTTP 302, and not in Mattermost's words; a proxy may be in between\n" +
			"correct channels.mattermost.url; or, …",
	},
	{
		name: "an address below the server's", changes: []string{"{mattermost}", "{mattermost}/chat"}, verdict: restToo,
		says: "FAIL  server          {mattermost}/chat could not be asked: Sorry, we could not find the page. (api.context.404.app_error)\n" +
			"correct channels.mattermost.url: the address that people have in their browser, up to the name of the team",
	},
	{
		name: "one that is down, behind a proxy", before: mmFails("config", mattermosttest.HTMLPage(502)), verdict: restToo,
		says: "FAIL  server          {mattermost} could not be asked: it answers HTTP 502\n" +
			"it is Mattermost, or a proxy in front of it, and not the token: see its log, and run this again",
	},
	{
		name: "one that is asked too often", before: mmFails("config", mattermosttest.TooMany(0)), verdict: restToo,
		says: "FAIL  server          {mattermost} could not be asked: it is asked too often\nrun this again in a minute",
	},
	{
		name: "an old one", server: mattermosttest.Config{Version: "10.4.5"}, verdict: oneWarns,
		says: "warn  server          {mattermost} is Mattermost 10.4.5, which this was never tried with; want 10.5 or later\nupdate Mattermost",
	},
	{name: "a new one", server: mattermosttest.Config{Version: "12.0.1"}, verdict: "All is well.", says: "ok    server          Mattermost 12.0.1 at {mattermost}"},
	{
		name: "one that says no version", before: func(d *mmClinic) { d.settings("Version", "") }, verdict: oneWarns,
		says: "warn  server          {mattermost} does not say which version it is\nmake sure that it is 10.5 or later: the menu at the top left, About",
	},
	{
		name: "a token that was revoked", before: func(d *mmClinic) { d.mm.Revoke() }, verdict: restToo,
		says: "FAIL  bot token       Mattermost refuses it: it was revoked, or the bot is disabled\n" + tokenFix,
	},
	{
		name: "a bot whose maker has left", before: func(d *mmClinic) { d.mm.DisableBot() }, verdict: restToo,
		says: "FAIL  bot token       Mattermost refuses it: it was revoked, or the bot is disabled\n" + tokenFix,
	},
	{
		name: "a token that may not log in for another reason", before: mmFails("me", mattermosttest.Refused(403, "api.context.mfa_required.app_error")), verdict: restToo,
		says: "FAIL  bot token       Mattermost refuses it: This was scripted. (api.context.mfa_required.app_error)\n" + tokenFix,
	},
	{
		name: "a server that does not say whose the token is", before: mmFails("me", mattermosttest.HTMLPage(503)), verdict: restToo,
		says: "FAIL  bot token       Mattermost could not be asked whose it is: it answers HTTP 503\nit is Mattermost, or a proxy in front of it…",
	},
	{
		name: "the token of a person", before: func(d *mmClinic) { d.write("mm-token", d.mm.Session(annOnMM)) }, verdict: oneWarns,
		says: "warn  bot token       it is a person's, @ann: cards would be theirs, and the token can do what they can\n" + botFix,
	},
	{
		name: "a bot that is a system admin", before: botIs(func(u *mattermosttest.User) { u.Admin = true }), changes: []string{withCommand, ""}, verdict: oneWarns,
		says: "warn  bot token       @approvalbot is a system admin, which it need not be: whoever gets the token can do anything\n" +
			"System Console > User Management > Users: make it a member",
	},
	{
		name: "a bot that is in no team", before: func(d *mmClinic) { d.mm.LeaveTeam(mattermosttest.BotUser) }, verdict: "6 things to mend.",
		says: "FAIL  bot token       @approvalbot is in no team, and sees no conversation\n" +
			"add @approvalbot to the team with your conversations: the team's menu, Invite People",
	},
	{
		name: "no Mattermost in the config file", verdict: oneFails,
		changes: []string{"channels: {", "# {mattermost}\n# channels: {", "review:", "# review:", "operators:", "# operators:", ", mattermost: [ann]", "", ", mattermost: [u1bo0000000000000000000000]", "", "mattermost_channel_members: [acme/sre], mattermost_users: [bo], ", "", ", conversation: {mattermost: acme/prod}", ""},
		says:    "has no Mattermost in it\nadd channels.mattermost to …",
	},
	{
		name: "what is wrong with the config file", changes: []string{"acme/review", "Approvals"}, verdict: oneFails,
		says: "review.mattermost: \"Approvals\" is no channel…",
	},
}

// settings answers for the server with one of its settings otherwise.
func (d *mmClinic) settings(key, value string) {
	d.t.Helper()
	_, raw, err := d.mm.Do(d.t.Context(), mattermosttest.BotUser, http.MethodGet, "/config/client?format=old", nil)
	if err != nil {
		d.t.Fatal(err)
	}
	all := fromJSON[map[string]string](d.t, string(raw))
	all[key] = value
	if raw, err = json.Marshal(all); err != nil {
		d.t.Fatal(err)
	}
	d.mm.Fail("config", 0, mattermosttest.Garbled(string(raw)))
}

func botIs(change func(*mattermosttest.User)) func(*mmClinic) {
	return func(d *mmClinic) { d.mm.Change(mattermosttest.BotUser, change) }
}

func mmAhead(by time.Duration) mattermosttest.Config {
	return mattermosttest.Config{Now: func() time.Time { return time.Now().Add(by) }}
}

const unverified = "verify_triggers: false, callback_allow"

var mmSettingAilments = []mmAilment{
	{
		name: "a clock that is behind", server: mmAhead(20 * time.Second), verdict: oneWarns,
		says: " s behind Mattermost's; from 30 s on, every press is refused\n" + clockFix,
	},
	{
		name: "a clock that is far ahead", server: mmAhead(-3 * time.Minute), verdict: oneFails,
		says: "FAIL  clock           3 min ahead of Mattermost's: every press is refused, because it looks as if it were not of now\n" + clockFix,
	},
	{
		name: "a clock that is far ahead, where nobody minds", server: mmAhead(-3 * time.Minute), changes: []string{"callback_allow", unverified}, verdict: "All is well, 2 warnings.",
		says: "warn  clock           3 min ahead of Mattermost's; times in the log are wrong\n" + clockFix,
	},
	{
		name: "a clock that is a little off", server: mmAhead(-5 * time.Second), verdict: "All is well.", says: "ok    clock           as Mattermost's",
	},
	{
		name: "a server that does not know its address", server: mattermosttest.Config{SiteURL: "-"}, verdict: oneFails,
		says: "FAIL  SiteURL         Mattermost does not know its own address: links are broken, and newer servers run no slash command\n" +
			"set it: System Console > Environment > Web Server > Site URL",
	},
	{
		name: "a server that takes itself for another", server: mattermosttest.Config{SiteURL: "https://chat.example.com"}, verdict: oneWarns,
		says: "warn  SiteURL         it is https://chat.example.com, and channels.mattermost.url is {mattermost}\n" +
			"write it as channels.mattermost.url, if this machine reaches Mattermost there; else links to cards work only for people who reach {mattermost}",
	},
	{
		name: "an address that ends with a slash", changes: []string{"{mattermost}", "{mattermost}/"}, verdict: "All is well.",
		says: "ok    SiteURL         {mattermost}",
	},
	{
		name: "a server that shows no key", before: func(d *mmClinic) { d.settings("AsymmetricSigningPublicKey", "") }, verdict: oneFails,
		says: "FAIL  signing key     whose press it is cannot be checked: of the key with which Mattermost signs, none is published\n" +
			"update Mattermost; or set verify_triggers: false, and list its addresses in callback_allow",
	},
	{
		name: "presses that are not checked", changes: []string{"callback_allow", unverified}, verdict: oneWarns,
		says: "warn  signing key     not looked at, with verify_triggers: false; whose press it is rests on callback_allow alone\n" +
			"take verify_triggers out of channels.mattermost",
	},
	{
		name: "little room in a post", server: mattermosttest.Config{MaxPostSize: 3999}, verdict: oneWarns,
		says: "warn  settings        a post has room for 3999 characters; cards that need more are sent with less on them\nlet an admin of the database make posts longer",
	},
	{name: "room enough in a post", server: mattermosttest.Config{MaxPostSize: 4000}, verdict: "All is well.", says: "ok    settings        nothing is in the way"},
	{
		name: "posts that cannot be changed for long", server: mattermosttest.Config{EditLimit: 5 * time.Minute}, verdict: oneWarns,
		says: "warn  settings        posts can be changed for 300 s only: a card that is older keeps its buttons, and how it ended is said below it\n" +
			"System Console > User Management > Permissions, Edit Posts: any time",
	},
	{
		name: "addresses that Mattermost does not check", changes: []string{"keys: [ann]}}}", "keys: [ann], emails: [bo@example.com]}}}"}, verdict: oneWarns,
		says: "warn  emails          nobody is recognised by an address here: Mattermost takes any without checking it\n" +
			"System Console > Authentication > Email > Require Email Verification: true; or list accounts instead (mattermost_users in groups, mattermost in people)",
	},
	{
		name: "addresses that Mattermost does not show", changes: []string{"{name: bo,", "{name: bo, emails: [bo@example.com],"}, verdict: oneWarns,
		server: mattermosttest.Config{RequireEmailVerification: true, HideEmails: true},
		says: "warn  emails          nobody is recognised by an address here: Mattermost does not show the bot any\n" +
			"System Console > Site Configuration > Users and Teams > Show Email Address: true; or …",
	},
	{
		name: "addresses that Mattermost checks and shows", changes: []string{"{name: bo,", "{name: bo, emails: [bo@example.com],"}, verdict: "All is well.",
		server: mattermosttest.Config{RequireEmailVerification: true}, says: "ok    emails          people can be recognised by their addresses",
	},
}

const plainCallback = "https://127.0.0.1:8443"

var mmCallbackAilments = []mmAilment{
	{
		name: "a callback over plain HTTP", changes: []string{plainCallback, "http://10.0.0.9:8080"}, verdict: oneWarns,
		says: "warn  callback        http://10.0.0.9:8080 is not https: what Mattermost sends can be read on the way, and changed\n" +
			"put a proxy in front with a certificate that Mattermost trusts, and make it https://…",
	},
	{
		name: "a callback whose name nobody knows", changes: []string{plainCallback, "https://approvals.invalid"}, verdict: oneWarns,
		says: "warn  callback        approvals.invalid is not known on this machine; it must be where Mattermost runs\n" +
			"correct channels.mattermost.callback_url (by default public_url), or make the name known where Mattermost runs",
	},
	{
		name: "a callback by a name that leads into the own network", changes: []string{plainCallback, "https://localhost:8443/bot"}, verdict: "All is well.",
		says: "note  callback        localhost is internal, and Mattermost calls there only if it is allowed to\n" + allowFix + "\nlocalhost\nok…",
	},
	{
		name: "a callback that is not internal", changes: []string{plainCallback, "https://192.0.2.7"}, verdict: "All is well.",
		says: "ok    callback        Mattermost calls https://192.0.2.7\nok    settings…",
	},
	{
		name: "no address from which Mattermost calls", changes: []string{", callback_allow: [10.0.0.7]", ""}, verdict: "All is well.",
		says: "note  callback        Approve asks once more, in a dialog: without callback_allow anybody could have sent the press who reaches this server\n" +
			"list the addresses that Mattermost calls from in channels.mattermost.callback_allow; --press finds out which they are",
	},
}

func mmProdIs(c mattermosttest.Channel) func(*mmClinic) {
	c.ID, c.Name = prodOnMM, "prod"
	return func(d *mmClinic) { d.mm.AddChannel(c) }
}

var mmBot = []string{mattermosttest.BotUser}

var mmPlaceAilments = []mmAilment{
	{
		name: "a conversation that there is not", changes: []string{"acme/prod", "acme/nowhere"}, verdict: oneFails,
		says: "FAIL  conversation    acme/nowhere (rule prod): there is none, or it is private and the bot is not in it\n" +
			"correct it, as it is in addresses; or, if it is private, write /invite @approvalbot in it",
	},
	{
		name: "a private one without the bot", before: mmProdIs(mattermosttest.Channel{Type: "P"}), verdict: oneFails,
		says: "FAIL  conversation    acme/prod (rule prod): there is none, or it is private and the bot is not in it\n…",
	},
	{
		name: "a private one without the bot, by its id", changes: []string{"acme/prod", prodOnMM}, before: mmProdIs(mattermosttest.Channel{Type: "P"}), verdict: oneFails,
		says: "FAIL  conversation    " + prodOnMM + " (rule prod): the bot may not look at it, because it is not in it or in its team\n" +
			"add @approvalbot to its team (the team's menu, Invite People), and write /invite @approvalbot in it",
	},
	{
		name: "a team that there is not", changes: []string{"acme/prod", "acne/prod"}, verdict: oneFails,
		says: "FAIL  conversation    acne/prod (rule prod): there is no such team\n" +
			"correct the name of the team: it is what comes after the server in addresses",
	},
	{
		name: "a public one without the bot", before: mmProdIs(mattermosttest.Channel{}), verdict: oneFails,
		says: "FAIL  conversation    acme/prod (rule prod): the bot is not in it\nwrite /invite @approvalbot in ~prod",
	},
	{
		name: "a public one without the bot, which may post everywhere", verdict: oneWarns,
		before: func(d *mmClinic) {
			mmProdIs(mattermosttest.Channel{})(d)
			botIs(func(u *mattermosttest.User) { u.Roles = "system_post_all_public" })(d)
		},
		says: "warn  conversation    acme/prod (rule prod): the bot is not in it, and posts by its role alone\nwrite /invite @approvalbot in ~prod",
	},
	{
		name: "one that is archived", before: mmProdIs(mattermosttest.Channel{Members: mmBot, Archived: true}), verdict: oneFails,
		says: "FAIL  conversation    acme/prod (rule prod): it is archived\nunarchive ~prod, or choose another conversation",
	},
	{
		name: "one that is named by its id", changes: []string{"acme/prod", prodOnMM}, verdict: "All is well.",
		says: "ok    conversation    ~prod " + prodOnMM + " (rule prod)",
	},
	{
		name: "one of several uses, which is looked at once", changes: []string{"acme/ops", "acme/review", "acme/prod", "acme/review"}, verdict: "All is well.",
		says: "ok    conversation    acme/review (review, operators, rule prod)\nok    approvers…",
	},
	{
		name: "one that Mattermost does not answer about", before: mmFails("channel_by_name", mattermosttest.HTMLPage(503)), verdict: "All is well, 4 warnings.",
		says: "warn  conversation    acme/prod (rule prod) could not be looked up: it answers HTTP 503\nrun this again in a minute",
	},
	{
		name: "one of which Mattermost does not say whether the bot is in it", before: mmFails("channel_member", mattermosttest.Reset), verdict: "All is well, 4 warnings.",
		says: "warn  conversation    acme/prod (rule prod) could not be looked up: …",
	},
}

// mmBoIs changes Bo, whom sre lists; without Ann the group has nobody else.
func mmBoIs(change func(*mattermosttest.User)) func(*mmClinic) {
	return func(d *mmClinic) { d.mm.Change(boOnMM, change) }
}

func deactivated(u *mattermosttest.User) { u.Deactivated = true }

func mmSreIs(members ...string) func(*mmClinic) {
	return func(d *mmClinic) {
		d.mm.AddUser(mattermosttest.User{ID: mmGuest, Username: "gil", Guest: true})
		d.mm.AddUser(mattermosttest.User{ID: mmRobot, Username: "robot", Bot: true})
		d.mm.AddUser(mattermosttest.User{ID: mmGone, Username: "gone", Deactivated: true})
		d.mm.AddChannel(mattermosttest.Channel{ID: sreOnMM, Name: "sre", Type: "P", Members: append(members, mattermosttest.BotUser)})
	}
}

const (
	mmGuest = "u1gil000000000000000000000"
	mmRobot = "u1robot0000000000000000000"
	mmGone  = "u1gone00000000000000000000"

	listsBo    = "mattermost_users: [bo]"
	byGroup    = "mattermost_groups: [" + mmGroup + "]"
	byChannel  = "mattermost_channel_members: [acme/sre]"
	fullOnly   = "\nonly full members decide by being in something: list guests and outsiders by id in mattermost_users, or take them out"
	mmInstead  = "\nname a channel instead, whose members decide (mattermost_channel_members)"
	usersOfSre = "approvers.groups.sre.mattermost_users"
)

var mmApproverAilments = []mmAilment{
	{
		name: "an approver whom nobody knows", changes: []string{listsBo, "mattermost_users: [bob]"}, verdict: oneFails,
		says: "FAIL  approvers       sre: there is no bob that the bot can see\ncorrect it in " + usersOfSre + ": a username without @, or an id",
	},
	{
		name: "an approver who was deactivated", before: mmBoIs(deactivated), verdict: "1 thing to mend, 1 warning.",
		says: "FAIL  approvers       sre: @bo is " + boOnMM + ", whose account is deactivated\ntake it out of " + usersOfSre,
	},
	{
		name: "an approver who is a bot", before: mmBoIs(func(u *mattermosttest.User) { u.Bot = true }), verdict: oneFails,
		says: "FAIL  approvers       sre: @bo is " + boOnMM + ", a bot, and bots never decide\ntake it out of " + usersOfSre,
	},
	{
		name: "a guest who is listed by name", before: mmBoIs(func(u *mattermosttest.User) { u.Guest = true }), verdict: oneFails,
		says: "FAIL  approvers       sre: @bo is " + boOnMM + ", a guest, who can decide only where listed by id\nwrite " + boOnMM + " in " + usersOfSre,
	},
	{
		name: "a guest who is listed by id", changes: []string{listsBo, "mattermost_users: [" + boOnMM + "]"}, before: mmBoIs(func(u *mattermosttest.User) { u.Guest = true }), verdict: "All is well.",
		says: "ok    approvers       sre: " + boOnMM + " is @bo, a guest who decides because listed by id",
	},
	{
		name: "somebody of another server who is listed by name", before: mmBoIs(func(u *mattermosttest.User) { u.Remote = true }), verdict: oneFails,
		says: "FAIL  approvers       sre: @bo is " + boOnMM + ", an outsider, who can decide only where listed by id\nwrite " + boOnMM + " in " + usersOfSre,
	},
	{
		name: "a full member who is listed by id", changes: []string{listsBo, "mattermost_users: [" + boOnMM + "]"}, verdict: "All is well.",
		says: "ok    approvers       sre: " + boOnMM + " is @bo",
	},
	{
		name: "an approver whom Mattermost does not answer about: nothing is said of rules", before: mmFails("user_by_name", mattermosttest.HTMLPage(500)), verdict: "All is well, 2 warnings.",
		changes: []string{byChannel + ", ", ""},
		says:    "warn  approvers       sre: bo could not be looked up: it answers HTTP 500\nrun this again in a minute",
	},
	{
		name: "a channel with guests, bots and people who have left", before: mmSreIs(annOnMM, boOnMM, mmGuest, mmRobot, mmGone), verdict: oneWarns,
		says: "warn  approvers       sre: members of acme/sre: 3 members, 1 of them a guest who cannot decide" + fullOnly,
	},
	{
		name: "a channel with bots and people who have left, which says nothing", before: mmSreIs(annOnMM, mmRobot, mmGone), verdict: "All is well.",
		says: "ok    approvers       sre: members of acme/sre: 1 member",
	},
	{
		name: "a guest in a channel who is listed by id too", before: mmSreIs(mmGuest), changes: []string{listsBo, "mattermost_users: [" + mmGuest + "]"}, verdict: "All is well.",
		says: "ok    approvers       sre: members of acme/sre: 1 member",
	},
	{
		name: "a channel of guests alone", before: mmSreIs(mmGuest), verdict: oneFails,
		says: "FAIL  approvers       sre: members of acme/sre: 1 member, none of whom can decide (a guest)" + fullOnly,
	},
	{
		name: "a channel with nobody but bots", before: mmSreIs(mmRobot), verdict: oneFails,
		says: "FAIL  approvers       sre: members of acme/sre: nobody is in it\nadd people to it",
	},
	{
		name: "a channel that the bot is not in", verdict: oneFails,
		before: func(d *mmClinic) {
			d.mm.AddChannel(mattermosttest.Channel{ID: sreOnMM, Name: "sre", Members: []string{annOnMM}})
		},
		says: "FAIL  approvers       sre: members of acme/sre: the bot is not in it, and cannot see who is\nwrite /invite @approvalbot in ~sre",
	},
	{
		name: "a channel that is archived", before: func(d *mmClinic) { d.mm.Archive(sreOnMM) }, verdict: oneFails,
		says: "FAIL  approvers       sre: members of acme/sre: it is archived\nunarchive ~sre, or name another",
	},
	{
		name: "a channel of approvers that there is not", changes: []string{"[acme/sre]", "[acme/sra]"}, verdict: oneFails,
		says: "FAIL  approvers       sre: members of acme/sra: there is none, or it is private and the bot is not in it\n…",
	},
	{
		name: "members whom Mattermost does not answer about", before: mmFails("users_by_id", mattermosttest.HTMLPage(500)), verdict: oneWarns,
		says: "warn  approvers       sre: members of acme/sre could not be looked up: it answers HTTP 500\nrun this again in a minute",
	},
	{
		name: "a list of members that Mattermost does not give", before: mmFails("users", mattermosttest.HTMLPage(500)), verdict: oneWarns,
		says: "warn  approvers       sre: members of acme/sre could not be looked up: HTTP 500, and not in Mattermost's words…",
	},
	{
		name: "a group", server: mattermosttest.Config{Licensed: true}, changes: []string{byChannel, byGroup}, verdict: "All is well.",
		says: "ok    approvers       sre: group sre " + mmGroup + ": 1 member",
	},
	{
		name: "a group without a licence", changes: []string{byChannel, byGroup}, verdict: oneFails,
		says: "FAIL  approvers       sre: group " + mmGroup + ": groups take a licence that this Mattermost does not have" + mmInstead,
	},
	{
		name: "a group of LDAP", server: mattermosttest.Config{Licensed: true}, changes: []string{byChannel, "mattermost_groups: [" + mmLDAP + "]"}, verdict: oneFails,
		before: func(d *mmClinic) {
			d.mm.AddGroup(mattermosttest.Group{ID: mmLDAP, Name: "staff", Source: "ldap", Members: []string{annOnMM}})
		},
		says: "FAIL  approvers       sre: group " + mmLDAP + ": the bot may not read it, as no bot may read groups of LDAP" + mmInstead,
	},
	{
		name: "a group that was deleted", server: mattermosttest.Config{Licensed: true}, changes: []string{byChannel, "mattermost_groups: [" + mmLDAP + "]"}, verdict: oneFails,
		before: func(d *mmClinic) {
			d.mm.AddGroup(mattermosttest.Group{ID: mmLDAP, Name: "staff", Deleted: true, Members: []string{annOnMM}})
		},
		says: "FAIL  approvers       sre: group " + mmLDAP + " was deleted, and nobody decides by it\ntake it out of approvers.groups.sre.mattermost_groups, or restore it",
	},
	{
		name: "a group that there is not", server: mattermosttest.Config{Licensed: true}, changes: []string{byChannel, "mattermost_groups: [" + mmLDAP + "]"}, verdict: oneFails,
		says: "FAIL  approvers       sre: group " + mmLDAP + ": there is none\ncorrect the id in approvers.groups.sre.mattermost_groups: the product menu, User Groups; its address ends with it",
	},
	{
		name: "a group that Mattermost does not answer about", server: mattermosttest.Config{Licensed: true}, changes: []string{byChannel, byGroup}, before: mmFails("group", mattermosttest.HTMLPage(500)), verdict: oneWarns,
		says: "warn  approvers       sre: group " + mmGroup + " could not be looked up: it answers HTTP 500\nrun this again in a minute",
	},
}

const mmLDAP = "g1ldap00000000000000000000"

var mmPeopleAilments = []mmAilment{
	{
		name: "a person whose account there is not", changes: []string{"mattermost: [ann]", "mattermost: [anna]"}, verdict: oneFails,
		says: "FAIL  people          ann: anna: there is no such account that the bot can see\ncorrect it: a username without @, or an id",
	},
	{
		name: "a person who has left", before: func(d *mmClinic) { d.mm.Change(bossOnMM, deactivated) }, changes: []string{"mattermost: [ann]", "mattermost: [ann, boss]"}, verdict: oneWarns,
		says: "warn  people          ann: boss (@boss) is deactivated\ntake it out, if they have left",
	},
	{
		name: "a person whom Mattermost does not answer about", before: mmFails("user", mattermosttest.HTMLPage(500)), verdict: oneWarns,
		says: "warn  people          bo: " + boOnMM + " could not be looked up: it answers HTTP 500\nrun this again in a minute",
	},
	{
		name: "rules that nobody on Mattermost could decide", changes: []string{"mattermost_channel_members: [acme/sre], mattermost_users: [bo], ", ""}, verdict: oneWarns,
		says: "warn  rules           first, prod: cards go to Mattermost, and nobody of sre can decide there; at the console only\n" +
			"list people on Mattermost in the group (mattermost_users, mattermost_channel_members), or send the cards elsewhere",
	},
	{
		name: "rules whose approvers are known by their addresses: nothing is said", changes: []string{byChannel + ", mattermost_users: [bo]", "emails: [bo@example.com]"}, verdict: "All is well.",
		server: mattermosttest.Config{RequireEmailVerification: true}, says: "ok    people          2 accounts known to Mattermost\nok    command…",
	},
}

// mmHasCommand has a command of the name in the team, and lets the bot look.
func mmHasCommand(c mattermosttest.Command) func(*mmClinic) {
	return func(d *mmClinic) {
		c.Trigger, c.Team = "approvals", mattermosttest.Team
		if c.URL == "" {
			c.URL = mmCommandURL
		}
		d.mm.AddCommand(c)
		d.mm.SetCommandRight(mattermosttest.BotUser)
	}
}

const (
	withCommand = ", commands: [{team: acme, token_file: mm-command}]"
	noToken     = ", token_file: mm-command"
	mmByHand    = "under Integrations, Slash Commands of that team: make /approvals (POST, " + mmCommandURL + "), and give its token as token_file beside the team"
	commandIs   = "command         /approvals in acme"
)

var mmCommandAilments = []mmAilment{
	{
		name: "slash commands that are switched off", server: mattermosttest.Config{NoCommands: true}, verdict: oneFails,
		says: "FAIL  " + commandIs + ": slash commands are switched off\n" +
			"System Console > Integrations > Integration Management > Enable Custom Slash Commands: true; or take channels.mattermost.commands out",
	},
	{
		name: "no slash command, where they are switched off", server: mattermosttest.Config{NoCommands: true}, verdict: "All is well.",
		changes: []string{withCommand, ""}, says: "cards of 2 rules\nnote…",
	},
	{
		name: "a command whose team there is not", changes: []string{"{team: acme,", "{team: acne,"}, verdict: oneFails,
		says: "FAIL  command         /approvals in acne: there is no such team\ncorrect it in channels.mattermost.commands: it is what comes after the server in addresses",
	},
	{
		name: "a command whose team the bot is not in", changes: []string{"{team: acme,", "{team: other,"}, verdict: oneFails,
		before: func(d *mmClinic) { d.mm.AddTeam("t1other0000000000000000000", "other") },
		says:   "FAIL  command         /approvals in other: the bot may not look at the team, because it is not in it\nadd @approvalbot to the team: the team's menu, Invite People",
	},
	{
		name: "a command that Mattermost does not answer about", before: mmFails("commands", mattermosttest.HTMLPage(500)), verdict: oneWarns,
		says: "warn  " + commandIs + " could not be looked up: it answers HTTP 500\nrun this again in a minute",
	},
	{name: "a command that is as it should be", before: mmHasCommand(mattermosttest.Command{Token: mmCommand}), verdict: "All is well.", says: "ok    " + commandIs + " leads to " + mmCommandURL},
	{
		name: "a command that leads elsewhere", before: mmHasCommand(mattermosttest.Command{Token: mmCommand, URL: "https://old.example.com/x"}), verdict: oneFails,
		says: "FAIL  " + commandIs + " leads to https://old.example.com/x\ncorrect its request URL there to " + mmCommandURL + ", or remove it: Integrations, Slash Commands",
	},
	{
		name: "a command that is called by GET", before: mmHasCommand(mattermosttest.Command{Token: mmCommand, Method: "G"}), verdict: oneFails,
		says: "FAIL  " + commandIs + " is called by GET\nset its request method to POST: Integrations, Slash Commands",
	},
	{
		name: "a command with another token", before: mmHasCommand(mattermosttest.Command{}), verdict: oneFails,
		says: "FAIL  " + commandIs + " has another token than the one that is given: every command is refused\ncopy its token from Integrations, Slash Commands",
	},
	{
		name: "a token without a command", before: func(d *mmClinic) { d.mm.SetCommandRight(mattermosttest.BotUser) }, verdict: oneFails,
		says: "FAIL  " + commandIs + ": its token is given, and there is no such command\n" + mmByHand + "; or take the token out, and the bot makes it",
	},
	{
		name: "no token, and a bot that may make one", before: func(d *mmClinic) { d.mm.SetCommandRight(mattermosttest.BotUser) }, changes: []string{noToken, ""}, verdict: "All is well.",
		says: "ok    " + commandIs + ": there is none yet; the server makes it when it starts",
	},
	{name: "no token, and a command that the bot finds", before: mmHasCommand(mattermosttest.Command{}), changes: []string{noToken, ""}, verdict: "All is well.", says: "ok    " + commandIs + " leads to " + mmCommandURL},
	{
		name: "no token, and a bot that may not make one", changes: []string{noToken, ""}, verdict: oneFails,
		says: "FAIL  " + commandIs + ": no token is given, and the bot may not make one\n" + mmByHand,
	},
}

// TestDoctorMattermostLooksAtTheRestToo: what is wrong in one place hides nothing in
// another.
func TestDoctorMattermostLooksAtTheRestToo(t *testing.T) {
	t.Parallel()
	d := newMattermostClinic(t, mattermosttest.Config{SiteURL: "-", NoCommands: true, MaxPostSize: 1000}, listsBo, "mattermost_users: [bob]")
	mmProdIs(mattermosttest.Channel{Members: mmBot, Archived: true})(d)
	r := d.examine()
	wantCode(t, r, exitBlock)
	wantText(t, r.out, "does not know its own address", "1000 characters", "it is archived", "there is no bob", "switched off", "4 things to mend, 1 warning.")
}

func TestDoctorMattermostReadsWellOnATerminal(t *testing.T) {
	t.Parallel()
	d := newMattermostClinic(t, mattermosttest.Config{SiteURL: "-", EditLimit: time.Minute}, ", callback_allow: [10.0.0.7]", "")
	r := shell{tty: true}.run(t, "doctor", "mattermost", "--config", d.path("approvalbot.yaml"))
	wantText(t, r.out, "\x1b[32mok\x1b[0m    clock", "\x1b[36mnote\x1b[0m  callback", "\x1b[33mwarn\x1b[0m  settings", "\x1b[31mFAIL\x1b[0m  SiteURL", "\x1b[31m1 thing to mend, 1 warning.\x1b[0m")
	inEightyColumns(t, d.examine("-o", "json").out)
}

// TestDoctorMattermostSaysEachThingWhenItIsKnown: what is slow keeps nothing back.
func TestDoctorMattermostSaysEachThingWhenItIsKnown(t *testing.T) {
	t.Parallel()
	d := newMattermostClinic(t, mattermosttest.Config{})
	answer := make(chan struct{})
	d.mm.Fail("channel_by_name", 0, mattermosttest.Held(answer))
	saysAtOnce(t, d.home, "mattermost", "settings", answer)
}

func TestDoctorMattermostPostsAndMakesNothing(t *testing.T) {
	t.Parallel()
	d := newMattermostClinic(t, mattermosttest.Config{}, noToken, "")
	d.mm.SetCommandRight(mattermosttest.BotUser)
	d.examine()
	for _, op := range []string{"create_post", "create_ephemeral", "patch_post", "direct", "create_command", "join_channel"} {
		if n := len(d.mm.Calls(op)); n > 0 {
			t.Errorf("%s was called %d times", op, n)
		}
	}
	for op, times := range map[string]int{"config": 1, "me": 1, "teams_of_user": 1, "commands": 1} {
		if n := len(d.mm.Calls(op)); n != times {
			t.Errorf("%s was called %d times, want %d", op, n, times)
		}
	}
}
