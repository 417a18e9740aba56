package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/approvalbot/approvalbot/channels/slack"
	"github.com/approvalbot/approvalbot/cmd/approvalbot/config"
	"github.com/approvalbot/approvalbot/gate"
)

func newDoctorSlack(p process) *cobra.Command {
	var file string
	c := &cobra.Command{
		Use: "slack", Short: "tokens, scopes, conversations and approvers on Slack",
		Long: `Asks Slack about everything that a config file needs of it: whether the tokens are
good and of one app, what they may do, whether anything can be received, whether the
clock is right, whether cards can be posted in each conversation, and who of the
approvers could decide. Below each thing that is not well is how to mend it.

It fails (exit 2) if anything must be mended; warnings alone do not. Nothing is
posted, and no secret is printed. It may run beside a server: over Socket Mode it
connects for a moment, and who presses a button in just that moment has to press
again.`,
		Example: "  approvalbot doctor slack --config approvalbot.yaml\n  approvalbot doctor slack -o json", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return examination(cmd, p, file, func(ctx context.Context, f *findings, cfg *config.Loaded) {
				if cfg.Slack == nil {
					f.fail("config", "add channels.slack to "+file+", with the tokens of the app; docs/slack.md says how to make one", "%s has no Slack in it", file)
					return
				}
				newSlackDoctor(f, cfg).examine(ctx)
			})
		},
	}
	configFlag(c, &file)
	return c
}

// slackDoctor examines one Slack.
type slackDoctor struct {
	chatDoctor
	who   *slack.Account
	known map[string]person // people by id
}

func newSlackDoctor(f *findings, cfg *config.Loaded) *slackDoctor {
	return &slackDoctor{chatDoctor: newChatDoctor(f, cfg, gate.Slack, "Slack", "slack_users, slack_usergroups"), known: map[string]person{}}
}

// person is somebody who was looked up.
type person struct {
	slack.Person
	err error
}

func (d *slackDoctor) examine(ctx context.Context) {
	usable, reached := d.botToken(ctx)
	if usable {
		d.scopes()
	}
	if d.cfg.Channels.Slack.SigningSecret.Set() {
		d.signed()
	} else if reached {
		d.socket(ctx)
	}
	if d.who != nil {
		d.clock()
	}
	switch {
	case !reached:
		d.warn("the rest", "run this again when Slack can be reached", "not looked at")
		return
	case !usable:
		d.warn("the rest", "run this again with a good bot token", "not looked at")
		return
	}
	d.conversations(ctx)
	d.listed(ctx)
	d.userGroups(ctx)
	d.people(ctx)
	d.rules()
}

// failure is why Slack did not say something.
func failure(err error) *slack.Failure {
	if f, ok := errors.AsType[*slack.Failure](err); ok {
		return f
	}
	return &slack.Failure{Why: err.Error()}
}

const (
	installFix = "in the app's settings: Install App, Install to Workspace; then copy the Bot User OAuth Token"
	copyFix    = "in the app's settings: OAuth & Permissions; copy the Bot User OAuth Token (xoxb-…)"
	rotateFix  = "make an app of the manifest, which has token rotation off; it cannot be switched off again"
)

// tokenTroubles is what Slack's words about a bot token mean.
var tokenTroubles = map[string]struct{ text, fix string }{
	"invalid_auth":           {"Slack does not know this token", copyFix},
	"not_authed":             {"Slack sees no token", copyFix},
	"not_allowed_token_type": {"this is no bot token", copyFix},
	"token_revoked":          {"the token was revoked", installFix},
	"account_inactive":       {"the app was uninstalled, or its bot is deactivated", installFix},
	"token_expired":          {"the token has expired", rotateFix},
	"ratelimited":            {"Slack is asked too often", laterFix},
}

func (d *slackDoctor) botToken(ctx context.Context) (usable, reached bool) {
	const check = "bot token"
	who, err := d.cfg.Slack.Account(ctx)
	if err != nil {
		f := failure(err)
		if f.Code == "" {
			d.fail(check, outage(f, d.host()), "Slack could not be asked: %s", f.Why)
			return false, false
		}
		t, ok := tokenTroubles[f.Code]
		if !ok {
			t.text, t.fix = "Slack refuses this token", copyFix
		}
		d.fail(check, t.fix, "%s (%s)", t.text, f.Code)
		return false, true
	}
	d.who = who
	where := who.TeamName + " " + who.Team
	if !who.Suits() {
		d.fail(check, "take the token of an installation in "+d.cfg.Channels.Slack.Team+", or correct channels.slack.team", "it is of %s, and channels.slack.team wants %s", where, d.cfg.Channels.Slack.Team)
		return false, true
	}
	d.ok(check, "@%s %s in %s, app %s", who.Name, who.User, where, cmp.Or(who.App, "not known without users:read"))
	return true, true
}

// outage is what to do where Slack gave no answer.
func outage(f *slack.Failure, reach string) string {
	if f.Down {
		return "it is Slack and not the token: see status.slack.com, and run this again"
	}
	return "it is the network and not the token: let this machine reach " + reach + ", or set HTTPS_PROXY"
}

// host is where Slack is asked.
func (d *slackDoctor) host() string {
	if u, err := url.Parse(d.cfg.Channels.Slack.APIURL); err == nil && u.Host != "" {
		return u.Host
	}
	return "slack.com"
}

// scopeNeeds is what each scope is for, by what does not work without it.
var scopeNeeds = []struct {
	scopes  []string
	level   level
	without string
}{
	{[]string{"chat:write"}, fails, "no card can be posted"},
	{[]string{"users:read"}, fails, "nobody can be recognised who presses a button"},
	{[]string{userGroupScope}, fails, "nobody decides by a user group, and slack_usergroups lists some"},
	{[]string{"im:write"}, warns, "approvers cannot be written to directly where no conversation takes a card"},
	{[]string{"channels:read", "groups:read"}, warns, "nobody can see whether another company reads a conversation"},
	{[]string{"commands"}, warns, "there is no /approvals"},
	{[]string{"channels:history", "groups:history", "im:history"}, warns, "a card whose post was never answered is posted again instead of looked for"},
}

const userGroupScope = "usergroups:read"

func (d *slackDoctor) scopes() {
	const check = "scopes"
	if d.who.Scopes == nil {
		d.warn(check, "OAuth & Permissions lists them; compare with docs/slack.md", "Slack did not say what the token may do")
		return
	}
	lacks := false
	for _, need := range scopeNeeds {
		var missing []string
		for _, scope := range need.scopes {
			if !d.has(scope) && (scope != userGroupScope || d.usesUserGroups()) {
				missing = append(missing, scope)
			}
		}
		if len(missing) == 0 {
			continue
		}
		lacks = true
		d.add(finding{
			Check: check, Level: need.level, Text: fmt.Sprintf("no %s: %s", strings.Join(missing, ", "), need.without),
			Fix: "add it under OAuth & Permissions, Bot Token Scopes, and install the app again",
		})
	}
	if !lacks {
		d.ok(check, "nothing is missing")
	}
}

func (d *slackDoctor) has(scope string) bool { return slices.Contains(d.who.Scopes, scope) }

func (d *slackDoctor) usesUserGroups() bool {
	for _, g := range d.cfg.Approvers.Groups {
		if len(g.SlackUserGroups) > 0 {
			return true
		}
	}
	return false
}

const appTokenFix = "in the app's settings: Basic Information, App-Level Tokens; make one with connections:write (xapp-…)"

// socketTroubles is what Slack's words about an app token or a connection mean.
var socketTroubles = map[string]struct{ text, fix string }{
	"invalid_auth":           {"Slack does not know this token", appTokenFix},
	"not_authed":             {"Slack sees no token", appTokenFix},
	"not_allowed_token_type": {"this is no app-level token", appTokenFix},
	"token_revoked":          {"the token was revoked", appTokenFix},
	"account_inactive":       {"the app is no more", appTokenFix},
	"missing_scope":          {"the token may not connect", appTokenFix},
	"no_permission":          {"the token may not connect", appTokenFix},
	"link_disabled":          {"Socket Mode is switched off for the app", "in the app's settings: Socket Mode, Enable Socket Mode"},
	"too_many_websockets":    {"the app has ten connections, and Slack allows no more", "stop what else is connected; each replica takes two. For more than five replicas use HTTP"},
	"ratelimited":            {"Slack is asked too often", laterFix},
}

func (d *slackDoctor) socket(ctx context.Context) {
	const check = "app token"
	hello, err := (&slack.Socket{Slack: d.cfg.Slack, Log: slog.New(slog.DiscardHandler)}).Try(ctx)
	if err != nil {
		f := failure(err)
		if f.Code == "" {
			d.fail(check, outage(f, "Slack's sockets (wss://*.slack.com)"), "no connection over Socket Mode: %s", f.Why)
			return
		}
		t, ok := socketTroubles[f.Code]
		if !ok {
			t.text, t.fix = "Slack gives no connection", appTokenFix
		}
		d.fail(check, t.fix, "%s (%s)", t.text, f.Code)
		return
	}
	if d.who != nil && d.who.App != "" && hello.App != "" && hello.App != d.who.App {
		d.fail(check, "take both tokens from one app's settings", "it is of app %s, and the bot token of %s: no press would arrive", hello.App, d.who.App)
		return
	}
	others := hello.Connections - 1
	if others <= 0 {
		d.ok(check, "connected over Socket Mode; nobody else is")
		return
	}
	d.warn(check, "fine if they are servers of this installation on the same Redis, which have two each. Else give each installation an app of its own",
		"connected over Socket Mode; %s to this app: another approvalbot, or another program. A press goes to only one of them", plural(others, "other connection"))
}

// signed looks at what it takes to be called over HTTP.
func (d *slackDoctor) signed() {
	d.ok("signing secret", "set; whether it is the right one shows only when Slack calls")
	const check = "public_url"
	u, err := url.Parse(d.cfg.PublicURL)
	switch {
	case d.cfg.PublicURL == "" || err != nil:
		d.fail(check, "set public_url, like https://approvals.example.com; or use Socket Mode, which needs none", "not set: Slack has no address to call")
	case u.Scheme != "https":
		d.fail(check, "put a proxy with a certificate in front, and set public_url to https://…; or use Socket Mode", "%s is not https: Slack does not call it, and what it sends could be read", d.cfg.PublicURL)
	default:
		base := strings.TrimSuffix(d.cfg.PublicURL, "/")
		d.add(finding{Check: check, Level: fine, Text: base + "; the app's settings need these three:", Lines: []string{
			"Interactivity & Shortcuts  " + base + "/slack/interactions",
			"Slash Commands             " + base + "/slack/commands",
			"Event Subscriptions        " + base + "/slack/events",
		}})
	}
}

// How far the clock may be off before it is worth a word, and before what Slack
// signs is taken for old.
const (
	clockOff  = time.Minute
	clockLost = 5 * time.Minute
)

func (d *slackDoctor) clock() {
	const check, fix = "clock", clockFix
	off, side := apart(d.who.Ahead)
	http := d.cfg.Channels.Slack.SigningSecret.Set()
	switch {
	case off > clockLost && http:
		d.fail(check, fix, "%s %s Slack's: all that Slack sends is refused, because its signatures look false", gate.Span(off), side)
	case off > clockOff && http:
		d.warn(check, fix, "%s %s Slack's; from 5 min on, all that Slack sends is refused", gate.Span(off), side)
	case off > clockOff:
		d.warn(check, fix, "%s %s Slack's; times in the log are wrong, and HTTP would not work", gate.Span(off), side)
	default:
		d.ok(check, "as Slack's")
	}
}

// conversations looks at each place that cards or words go to, once.
func (d *slackDoctor) conversations(ctx context.Context) {
	for _, r := range d.rooms() {
		d.conversation(ctx, r.id, r.what(), r.onlyOperators())
	}
}

// conversation looks at one. To operators nothing is shown that is not for others.
func (d *slackDoctor) conversation(ctx context.Context, id, uses string, operators bool) {
	const check = "conversation"
	if strings.HasPrefix(id, "D") { // the bot may write there, and not look
		d.ok(check, "%s (%s): direct messages, which are not looked at", id, uses)
		return
	}
	invite := "/invite @" + d.who.Name
	c, err := d.who.Conversation(ctx, id)
	if err != nil {
		switch f := failure(err); f.Code {
		case "channel_not_found":
			d.fail(check, "correct the id; or, if it is private, write "+invite+" in it", "%s (%s): there is none, or it is private and the bot is not in it", id, uses)
		case "missing_scope":
			d.warn(check, "add "+cmp.Or(f.Needed, "the scope")+" under OAuth & Permissions, and install the app again", "%s (%s): not looked at, without %s", id, uses, cmp.Or(f.Needed, "a scope"))
		default:
			d.warn(check, laterFix, "%s (%s): could not be looked up: %s", id, uses, f)
		}
		return
	}
	what := fmt.Sprintf("%s (%s)", id, uses)
	place := "it"
	if c.Name != "" {
		what, place = fmt.Sprintf("#%s %s (%s)", c.Name, id, uses), "#"+c.Name
	}
	before := len(d.all)
	d.reads(c, what, place, operators)
	switch {
	case c.Archived:
		d.fail(check, "unarchive "+place+", or choose another conversation", "%s: it is archived", what)
	case !c.Member && !c.Private && d.has("chat:write.public"):
		d.warn(check, "write "+invite+" in "+place, "%s: the bot is not in it, and posts by chat:write.public alone", what)
	case !c.Member:
		d.fail(check, "write "+invite+" in "+place, "%s: the bot is not in it", what)
	case c.Restricted:
		d.warn(check, "in "+place+"'s settings, under posting permissions: let the app post", "%s: not everybody may post in it, and Slack does not say that the bot may", what)
	}
	if len(d.all) == before {
		d.ok(check, "%s", what)
	}
}

// reads looks at whether others read along.
func (d *slackDoctor) reads(c slack.Conversation, what, place string, operators bool) {
	const check, other = "conversation", "choose a conversation that is not shared, or stop sharing "
	switch {
	case c.Shared && operators:
		d.warn(check, other+place, "%s: another company reads it", what)
	case c.Shared:
		d.fail(check, other+place, "%s: another company reads it, so no card is posted there", what)
	case c.Invited:
		d.warn(check, "take the invitation back, or choose another conversation", "%s: another company is invited to it; once it is there, no card is posted", what)
	}
}

// maxLookups bounds how many people are looked up. Slack allows an app a hundred
// in a minute, and a server that runs needs some of them.
const maxLookups = 60

var errEnough = errors.New("enough were looked up")

// person looks somebody up, once.
func (d *slackDoctor) person(ctx context.Context, id string) (slack.Person, error) {
	if p, ok := d.known[id]; ok {
		return p.Person, p.err
	}
	if len(d.known) >= maxLookups {
		return slack.Person{}, errEnough
	}
	p, err := d.who.Person(ctx, id)
	d.known[id] = person{p, err}
	return p, err
}

// unseen are Slack's words for somebody whom the bot will never see.
func unseen(err error) bool {
	code := failure(err).Code
	return code == "user_not_found" || code == "user_not_visible"
}

// bare is the user's id of one that may name the workspace: "U1" of "T2/U1".
func bare(id string) string { return id[strings.LastIndexByte(id, '/')+1:] }

// misnamed says how an id is to be written for decisions to know who it is; empty
// if it is right.
func misnamed(id string, p slack.Person) string {
	team, _, whole := strings.Cut(id, "/")
	if whole && team != p.Team || !whole && p.Account == gate.Outsider {
		return p.Team + "/" + p.ID
	}
	return ""
}

// listed looks at the accounts that groups list by id.
func (d *slackDoctor) listed(ctx context.Context) {
	for _, name := range d.groups() {
		for _, id := range d.cfg.Approvers.Groups[name].SlackUsers {
			d.account(ctx, name, id)
		}
	}
}

func (d *slackDoctor) account(ctx context.Context, group, id string) {
	const check = "approvers"
	where := "approvers.groups." + group + ".slack_users"
	p, err := d.person(ctx, bare(id))
	switch {
	case errors.Is(err, errEnough):
		d.unsure[group] = true
		d.warn(check, "look at it in Slack", "%s: %s was not looked at, because Slack limits how often", group, id)
		return
	case err != nil && unseen(err):
		d.fail(check, "correct the id in "+where+": their profile in Slack, ⋮, Copy member ID", "%s: there is no %s that the bot can see", group, id)
		return
	case err != nil:
		d.unsure[group] = true
		d.warn(check, laterFix, "%s: %s could not be looked up: %s", group, id, failure(err))
		return
	}
	who := fmt.Sprintf("%s: %s is %s", group, id, p.Name)
	switch right := misnamed(id, p); {
	case p.Account == gate.Deactivated:
		d.fail(check, "take it out of "+where, "%s, whose account is deactivated", who)
		return
	case p.Account == gate.Bot:
		d.fail(check, "take it out of "+where, "%s, a bot, and bots never decide", who)
		return
	case right != "":
		d.fail(check, "write "+right+" in "+where, "%s of %s, who cannot decide under this id", who, p.Team)
		return
	case p.Account == gate.Outsider:
		d.ok(check, "%s of %s, an outsider who decides because listed by id", who, p.Team)
	case p.Account == gate.Guest:
		d.ok(check, "%s, a guest who decides because listed by id", who)
	default:
		d.ok(check, "%s", who)
	}
	d.able[group] = true
}

// userGroups looks at the user groups.
func (d *slackDoctor) userGroups(ctx context.Context) {
	for _, name := range d.groups() {
		for _, id := range d.cfg.Approvers.Groups[name].SlackUserGroups {
			d.userGroup(ctx, name, id)
		}
	}
}

func (d *slackDoctor) userGroup(ctx context.Context, group, id string) {
	const check = "approvers"
	users, err := d.who.Group(ctx, id)
	if err != nil {
		d.noUserGroup(group, id, failure(err))
		return
	}
	m := d.members(ctx, users, d.cfg.Approvers.Groups[group].SlackUsers)
	d.able[group] = d.able[group] || m.able > 0
	d.unsure[group] = d.unsure[group] || m.unknown > 0
	what := fmt.Sprintf("%s: user group %s: ", group, id)
	const fix = "only full members decide by a user group: list guests and outsiders by id in slack_users, or take them out of the group"
	switch {
	case len(users) == 0:
		d.fail(check, "put its members in with Slack's group editor; if it is disabled, enable it", "%snobody is in it, or it is disabled", what)
	case m.failed != nil:
		d.warn(check, laterFix, "%s%s, of whom %d could not be looked up: %s", what, plural(len(users), "member"), m.unknown, failure(m.failed))
	case m.able == 0 && m.unknown == 0:
		d.fail(check, fix, "%s%s, none of whom can decide (%s)", what, plural(len(users), "member"), m.crowd())
	case len(m.unable) == 0:
		d.ok(check, "%s%s%s", what, plural(len(users), "member"), m.rest("Slack"))
	default:
		d.warn(check, fix, "%s%s, %s%s", what, plural(len(users), "member"), m.losers(), m.rest("Slack"))
	}
}

func (d *slackDoctor) noUserGroup(group, id string, f *slack.Failure) {
	const check = "approvers"
	where := "approvers.groups." + group + ".slack_usergroups"
	switch f.Code {
	case "no_such_subteam":
		d.fail(check, "correct the id in "+where+": the group's page in Slack, ⋮, Copy group ID", "%s: there is no user group %s", group, id)
	case "missing_scope":
		d.fail(check, "add "+userGroupScope+" under OAuth & Permissions, and install the app again", "%s: user group %s cannot be read without %s, so nobody decides by it", group, id, userGroupScope)
	case "plan_upgrade_required", "paid_teams_only":
		d.fail(check, "list people in slack_users instead of "+where, "%s: user group %s: the workspace's plan has no user groups (%s)", group, id, f.Code)
	case "permission_denied":
		d.fail(check, "let apps read user groups in the workspace's settings, or list people in slack_users", "%s: user group %s: the bot may not read it", group, id)
	default:
		d.unsure[group] = true
		d.warn(check, laterFix, "%s: user group %s could not be looked up: %s", group, id, f)
	}
}

func (d *slackDoctor) members(ctx context.Context, users, listed []string) members {
	m := members{unable: map[gate.Account]int{}}
	for _, id := range users {
		p, err := d.person(ctx, id)
		byID := slices.ContainsFunc(listed, func(l string) bool { return bare(l) == id && misnamed(l, p) == "" })
		switch {
		case err != nil && unseen(err):
			m.unable[invisible]++
		case err != nil:
			m.unknown++
			if !errors.Is(err, errEnough) {
				m.failed = err
			}
		case p.Account == gate.Member, byID && (p.Account == gate.Guest || p.Account == gate.Outsider):
			m.able++
		default:
			m.unable[p.Account]++
		}
	}
	return m
}

// people looks at the accounts that belong to one human each.
func (d *slackDoctor) people(ctx context.Context) {
	const check = "people"
	good := 0
	for _, human := range d.cfg.People {
		for _, id := range human.Slack {
			p, err := d.person(ctx, bare(id))
			who := fmt.Sprintf("%s: %s", human.Name, id)
			switch {
			case errors.Is(err, errEnough):
				d.warn(check, "look at it in Slack", "%s was not looked at, because Slack limits how often", who)
			case err != nil && unseen(err):
				d.fail(check, "correct the id: their profile in Slack, ⋮, Copy member ID", "%s: there is no such account that the bot can see", who)
			case err != nil:
				d.warn(check, laterFix, "%s could not be looked up: %s", who, failure(err))
			case p.Account == gate.Deactivated:
				d.warn(check, "take it out, if they have left", "%s (%s) is deactivated", who, p.Name)
			case misnamed(id, p) != "":
				d.fail(check, "write "+misnamed(id, p), "%s (%s) is of %s, and would not be recognised", who, p.Name, p.Team)
			default:
				good++
			}
		}
	}
	if good > 0 {
		d.ok(check, "%s known to Slack", plural(good, "account"))
	}
}
