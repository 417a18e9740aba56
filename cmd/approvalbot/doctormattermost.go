package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/approvalbot/approvalbot/channels/mattermost"
	"github.com/approvalbot/approvalbot/cmd/approvalbot/config"
	"github.com/approvalbot/approvalbot/gate"
)

func newDoctorMattermost(p process) *cobra.Command {
	var file string
	var try roundTrip
	c := &cobra.Command{
		Use: "mattermost [team/channel]", Short: "token, settings, conversations, approvers and callbacks on Mattermost",
		Long: `Asks Mattermost about everything that a config file needs of it: whether the server
is one and the token is good, how it is set up, whether the clock is right, whether
cards can be posted in each conversation, who of the approvers could decide, and
where the slash command leads. Below each thing that is not well is how to mend it.

Whether Mattermost can call back shows only when somebody presses a button: --press
posts one, in the review channel or the one that is named, waits until you have
pressed it, and says what arrived. It may run beside a server, which then answers;
without one it answers itself, on the address that the server would listen on.

It fails (exit 2) if anything must be mended; warnings and notes alone do not. Without
--press nothing is posted. Nothing is made, and no secret is printed.`,
		Example: "  approvalbot doctor mattermost --config approvalbot.yaml\n  approvalbot doctor mattermost --press --wait 5m\n  approvalbot doctor mattermost --press acme/approvals -o json",
		Args:    try.args,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return examination(cmd, p, file, func(ctx context.Context, f *findings, cfg *config.Loaded) {
				if cfg.Mattermost == nil {
					f.fail("config", "add channels.mattermost to "+file+", with the token of a bot account; docs/mattermost.md says how to make one", "%s has no Mattermost in it", file)
					return
				}
				d := newMattermostDoctor(f, cfg)
				d.try, d.prompt = try, p.err
				d.examine(ctx)
			})
		},
	}
	configFlag(c, &file)
	c.Flags().BoolVar(&try.press, "press", false, "post a button, and wait until somebody presses it")
	c.Flags().DurationVar(&try.wait, "wait", 2*time.Minute, "how long to wait for the press")
	return c
}

// mattermostDoctor examines one Mattermost.
type mattermostDoctor struct {
	chatDoctor
	section *mattermost.Config
	server  *mattermost.Server
	who     *mattermost.Account

	try    roundTrip
	prompt io.Writer // of who is to press
}

func newMattermostDoctor(f *findings, cfg *config.Loaded) *mattermostDoctor {
	return &mattermostDoctor{
		chatDoctor: newChatDoctor(f, cfg, gate.Mattermost, "Mattermost", "mattermost_users, mattermost_channel_members"),
		section:    cfg.Channels.Mattermost,
	}
}

func (d *mattermostDoctor) examine(ctx context.Context) {
	if !d.reached(ctx) {
		d.warn("the rest", "run this again when Mattermost can be reached", "not looked at")
		return
	}
	usable := d.token(ctx)
	d.clock()
	d.siteURL()
	d.signingKey()
	d.callback(ctx)
	if !usable {
		d.warn("the rest", "run this again with a good token", "not looked at")
		return
	}
	d.settings()
	d.emails()
	for _, r := range d.rooms() {
		d.conversation(ctx, r)
	}
	for _, group := range d.groups() {
		d.approvers(ctx, group)
	}
	d.people(ctx)
	d.rules()
	for _, c := range d.section.Commands {
		d.command(ctx, c)
	}
	d.roundTrip(ctx)
}

// refusal is why Mattermost did not say something.
func refusal(err error) *mattermost.Failure {
	if err == nil {
		return &mattermost.Failure{}
	}
	if f, ok := errors.AsType[*mattermost.Failure](err); ok {
		return f
	}
	return &mattermost.Failure{Why: err.Error()}
}

// oldest is the first version that was tried.
const oldest = "10.5"

// reached looks whether there is a Mattermost.
func (d *mattermostDoctor) reached(ctx context.Context) bool {
	const check = "server"
	s, err := d.cfg.Mattermost.Server(ctx)
	if err != nil {
		f := refusal(err)
		d.fail(check, d.unreached(f), "%s could not be asked: %s", d.section.URL, f.Why)
		return false
	}
	d.server = s
	switch version := s.Settings["Version"]; {
	case version == "":
		d.warn(check, "make sure that it is "+oldest+" or later: the menu at the top left, About", "%s does not say which version it is", d.section.URL)
	case older(version, oldest):
		d.warn(check, "update Mattermost", "%s is Mattermost %s, which this was never tried with; want %s or later", d.section.URL, version, oldest)
	default:
		d.ok(check, "Mattermost %s at %s", version, d.section.URL)
	}
	return true
}

// older compares versions by their first two numbers.
func older(version, than string) bool {
	number := func(s string) (n [2]int) {
		for i, part := range strings.SplitN(s, ".", 3)[:min(2, strings.Count(s, ".")+1)] {
			n[i], _ = strconv.Atoi(part)
		}
		return n
	}
	a, b := number(version), number(than)
	return slices.Compare(a[:], b[:]) < 0
}

// unreached is what to do where no Mattermost gave an answer.
func (d *mattermostDoctor) unreached(f *mattermost.Failure) string {
	host := d.section.URL
	if u, err := url.Parse(host); err == nil {
		host = u.Host
	}
	switch {
	case f.Status == http.StatusTooManyRequests:
		return laterFix
	case f.Other:
		return "correct channels.mattermost.url; or, if a login page or a proxy is in front of Mattermost, let requests to /api/v4 through without it"
	case f.Refused():
		return "correct channels.mattermost.url: the address that people have in their browser, up to the name of the team"
	case f.Status >= http.StatusInternalServerError:
		return "it is Mattermost, or a proxy in front of it, and not the token: see its log, and run this again"
	case strings.Contains(f.Why, "certificate"):
		return "let this machine trust the certificate of " + host + " (SSL_CERT_FILE names a file with more authorities), or give Mattermost one that it trusts"
	}
	return "it is the network and not the token: let this machine reach " + host + ", or set HTTPS_PROXY"
}

const (
	tokenFix = "under Integrations, Bot Accounts: enable the bot, or make it a new token. Bots are disabled when whoever made them is deactivated, " +
		"unless System Console > Integrations > Bot Accounts says otherwise"
	botFix = "make a bot under Integrations, Bot Accounts, and take its token"
)

// token looks whose it is.
func (d *mattermostDoctor) token(ctx context.Context) bool {
	const check = "bot token"
	who, err := d.cfg.Mattermost.Account(ctx)
	if err != nil {
		f := refusal(err)
		switch {
		case f.Status == http.StatusUnauthorized:
			d.fail(check, tokenFix, "Mattermost refuses it: it was revoked, or the bot is disabled")
		case f.Refused():
			d.fail(check, tokenFix, "Mattermost refuses it: %s", f.Why)
		default:
			d.fail(check, d.unreached(f), "Mattermost could not be asked whose it is: %s", f.Why)
		}
		return false
	}
	d.who = who
	if !who.Bot {
		d.warn(check, botFix, "it is a person's, @%s: cards would be theirs, and the token can do what they can", who.Username)
	}
	if who.Admin {
		d.warn(check, "System Console > User Management > Users: make it a member", "@%s is a system admin, which it need not be: whoever gets the token can do anything", who.Username)
	}
	if len(who.Teams) == 0 {
		d.fail(check, "add @"+who.Username+" to the team with your conversations: the team's menu, Invite People", "@%s is in no team, and sees no conversation", who.Username)
		return true
	}
	if who.Bot && !who.Admin {
		d.ok(check, "@%s %s, in %s", who.Username, who.ID, strings.Join(who.Teams, ", "))
	}
	return true
}

func (d *mattermostDoctor) verifies() bool {
	return d.section.VerifyTriggers == nil || *d.section.VerifyTriggers
}

// How far the clock may be off from Mattermost's before it is worth a word, and
// before every press is taken for old.
const (
	triggerOff  = 10 * time.Second
	triggerLost = 30 * time.Second
)

func (d *mattermostDoctor) clock() {
	const check = "clock"
	off, side := apart(d.server.Ahead)
	switch {
	case off > triggerLost && d.verifies():
		d.fail(check, clockFix, "%s %s Mattermost's: every press is refused, because it looks as if it were not of now", gate.Span(off), side)
	case off > triggerOff && d.verifies():
		d.warn(check, clockFix, "%s %s Mattermost's; from 30 s on, every press is refused", gate.Span(off), side)
	case off > triggerOff:
		d.warn(check, clockFix, "%s %s Mattermost's; times in the log are wrong", gate.Span(off), side)
	default:
		d.ok(check, "as Mattermost's")
	}
}

// siteURL looks at what Mattermost takes for its own address.
func (d *mattermostDoctor) siteURL() {
	const check, where = "SiteURL", "System Console > Environment > Web Server > Site URL"
	is := d.server.Settings["SiteURL"]
	switch {
	case is == "":
		d.fail(check, "set it: "+where, "Mattermost does not know its own address: links are broken, and newer servers run no slash command")
	case !sameURL(is, d.section.URL):
		d.warn(check, "write it as channels.mattermost.url, if this machine reaches Mattermost there; else links to cards work only for people who reach "+d.section.URL,
			"it is %s, and channels.mattermost.url is %s", is, d.section.URL)
	default:
		d.ok(check, "%s", is)
	}
}

func sameURL(a, b string) bool {
	one, err1 := url.Parse(strings.TrimRight(a, "/"))
	two, err2 := url.Parse(strings.TrimRight(b, "/"))
	return err1 == nil && err2 == nil && one.Scheme == two.Scheme && strings.EqualFold(one.Host, two.Host) && one.Path == two.Path
}

func (d *mattermostDoctor) signingKey() {
	const check = "signing key"
	switch {
	case !d.verifies():
		d.warn(check, "take verify_triggers out of channels.mattermost", "not looked at, with verify_triggers: false; whose press it is rests on callback_allow alone")
	case d.server.Key != nil:
		d.fail(check, "update Mattermost; or set verify_triggers: false, and list its addresses in callback_allow",
			"whose press it is cannot be checked: of the key with which Mattermost signs, %v", d.server.Key)
	default:
		d.ok(check, "whose press it is can be checked")
	}
}

// settings looks at what clients are told of the configuration.
func (d *mattermostDoctor) settings() {
	const check, least = "settings", 4000
	before := len(d.all)
	if n, err := strconv.Atoi(d.server.Settings["MaxPostSize"]); err == nil && n < least {
		d.warn(check, "let an admin of the database make posts longer", "a post has room for %d characters; cards that need more are sent with less on them", n)
	}
	if limit := d.server.Settings["PostEditTimeLimit"]; limit != "" && limit != "-1" {
		d.warn(check, "System Console > User Management > Permissions, Edit Posts: any time",
			"posts can be changed for %s s only: a card that is older keeps its buttons, and how it ended is said below it", limit)
	}
	if len(d.all) == before {
		d.ok(check, "nothing is in the way")
	}
}

// emails looks whether people can be recognised by their addresses.
func (d *mattermostDoctor) emails() {
	const check = "emails"
	used := slices.ContainsFunc(d.cfg.People, func(p gate.PersonConfig) bool { return len(p.Emails) > 0 })
	for _, g := range d.cfg.Approvers.Groups {
		used = used || len(g.Emails) > 0
	}
	if !used {
		return
	}
	const instead = "; or list accounts instead (mattermost_users in groups, mattermost in people)"
	switch {
	case d.server.Settings["RequireEmailVerification"] != "true":
		d.warn(check, "System Console > Authentication > Email > Require Email Verification: true"+instead,
			"nobody is recognised by an address here: Mattermost takes any without checking it")
	case d.server.Settings["ShowEmailAddress"] == "false":
		d.warn(check, "System Console > Site Configuration > Users and Teams > Show Email Address: true"+instead,
			"nobody is recognised by an address here: Mattermost does not show the bot any")
	default:
		d.ok(check, "people can be recognised by their addresses")
	}
}

// allowFix is where Mattermost is let call into its own network.
const allowFix = "System Console > Environment > Developer > Allow untrusted internal connections to; what is there is separated by spaces. Add:"

// callback looks at where Mattermost calls.
func (d *mattermostDoctor) callback(ctx context.Context) {
	const check = "callback"
	to := d.section.CallbackURL
	u, err := url.Parse(to)
	if err != nil {
		return // the config file would have been refused
	}
	addresses, err := addressesOf(ctx, u.Hostname())
	switch {
	case err != nil:
		d.warn(check, "correct channels.mattermost.callback_url (by default public_url), or make the name known where Mattermost runs", "%s is not known on this machine; it must be where Mattermost runs", u.Hostname())
	case u.Scheme != "https" && !slices.ContainsFunc(addresses, netip.Addr.IsLoopback):
		d.warn(check, "put a proxy in front with a certificate that Mattermost trusts, and make it https://…", "%s is not https: what Mattermost sends can be read on the way, and changed", to)
	default:
		d.ok(check, "Mattermost calls %s", to)
	}
	if slices.ContainsFunc(addresses, internal) {
		d.add(finding{
			Check: check, Level: notes, Text: u.Hostname() + " is internal, and Mattermost calls there only if it is allowed to",
			Fix: allowFix, Lines: []string{u.Hostname()},
		})
	}
	if len(d.section.CallbackAllow) == 0 {
		d.note(check, "list the addresses that Mattermost calls from in channels.mattermost.callback_allow; --press finds out which they are",
			"Approve asks once more, in a dialog: without callback_allow anybody could have sent the press who reaches this server")
	}
}

// resolveWithin bounds a question to the DNS.
const resolveWithin = 5 * time.Second

func addressesOf(ctx context.Context, host string) ([]netip.Addr, error) {
	ctx, cancel := context.WithTimeout(ctx, resolveWithin)
	defer cancel()
	return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
}

// shared are the addresses of carriers and of networks laid over others.
var shared = netip.MustParsePrefix("100.64.0.0/10")

// internal reports whether Mattermost calls there only if an admin has allowed it.
func internal(a netip.Addr) bool {
	a = a.Unmap()
	return a.IsPrivate() || a.IsLoopback() || a.IsLinkLocalUnicast() || a.IsUnspecified() || shared.Contains(a)
}

func (d *mattermostDoctor) invite() string { return "write /invite @" + d.who.Username }

// conversation looks at one that cards or words go to.
func (d *mattermostDoctor) conversation(ctx context.Context, r room) {
	const check = "conversation"
	what := fmt.Sprintf("%s (%s)", r.id, r.what())
	c, err := d.who.Conversation(ctx, r.id)
	if err != nil {
		d.noConversation(check, what, refusal(err))
		return
	}
	if c.ID == r.id {
		what = fmt.Sprintf("~%s %s (%s)", c.Name, c.ID, r.what())
	}
	switch {
	case c.Archived:
		d.fail(check, "unarchive ~"+c.Name+", or choose another conversation", "%s: it is archived", what)
	case !c.Member && d.who.Anywhere:
		d.warn(check, d.invite()+" in ~"+c.Name, "%s: the bot is not in it, and posts by its role alone", what)
	case !c.Member:
		d.fail(check, d.invite()+" in ~"+c.Name, "%s: the bot is not in it", what)
	default:
		d.ok(check, "%s", what)
	}
}

// noConversation says why there is none to look at, and reports whether that is sure.
func (d *mattermostDoctor) noConversation(check, what string, f *mattermost.Failure) (sure bool) {
	switch {
	case !f.Refused():
		d.warn(check, laterFix, "%s could not be looked up: %s", what, f.Why)
		return false
	case strings.HasPrefix(f.Code, "app.team."):
		d.fail(check, "correct the name of the team: it is what comes after the server in addresses", "%s: there is no such team", what)
	case f.Status == http.StatusForbidden:
		d.fail(check, "add @"+d.who.Username+" to its team (the team's menu, Invite People), and "+d.invite()+" in it", "%s: the bot may not look at it, because it is not in it or in its team", what)
	default:
		d.fail(check, "correct it, as it is in addresses; or, if it is private, "+d.invite()+" in it", "%s: there is none, or it is private and the bot is not in it", what)
	}
	return true
}

// command looks at the slash command of a team.
func (d *mattermostDoctor) command(ctx context.Context, c mattermost.CommandConfig) {
	const check = "command"
	what := fmt.Sprintf("/%s in %s", mattermost.Trigger, c.Team)
	if d.server.Settings["EnableCommands"] == "false" {
		d.fail(check, "System Console > Integrations > Integration Management > Enable Custom Slash Commands: true; or take channels.mattermost.commands out", "%s: slash commands are switched off", what)
		return
	}
	s, err := d.who.Command(ctx, c)
	to := d.who.CommandURL()
	byHand := "under Integrations, Slash Commands of that team: make /" + mattermost.Trigger + " (POST, " + to + "), and give its token as token_file beside the team"
	switch {
	case err != nil:
		d.noTeam(what, refusal(err))
	case s.Found && s.URL != to:
		d.fail(check, "correct its request URL there to "+to+", or remove it: Integrations, Slash Commands", "%s leads to %s", what, s.URL)
	case s.Found && !s.Post:
		d.fail(check, "set its request method to POST: Integrations, Slash Commands", "%s is called by GET", what)
	case s.Given && s.Listed && !s.Found:
		d.fail(check, byHand+"; or take the token out, and the bot makes it", "%s: its token is given, and there is no such command", what)
	case s.Given && s.Found && !s.Same:
		d.fail(check, "copy its token from Integrations, Slash Commands", "%s has another token than the one that is given: every command is refused", what)
	case s.Given && !s.Found:
		d.ok(check, "%s: its token is given; the bot may not see where it leads, which should be %s", what, to)
	case s.Found:
		d.ok(check, "%s leads to %s", what, to)
	case s.Listed:
		d.ok(check, "%s: there is none yet; the server makes it when it starts", what)
	default:
		d.fail(check, byHand, "%s: no token is given, and the bot may not make one", what)
	}
}

func (d *mattermostDoctor) noTeam(what string, f *mattermost.Failure) {
	const check = "command"
	switch {
	case f.Status == http.StatusNotFound && f.Refused():
		d.fail(check, "correct it in channels.mattermost.commands: it is what comes after the server in addresses", "%s: there is no such team", what)
	case f.Refused():
		d.fail(check, "add @"+d.who.Username+" to the team: the team's menu, Invite People", "%s: the bot may not look at the team, because it is not in it", what)
	default:
		d.warn(check, laterFix, "%s could not be looked up: %s", what, f.Why)
	}
}
