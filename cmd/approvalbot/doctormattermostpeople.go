package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/approvalbot/approvalbot/gate"
)

// approvers looks at who is in a group by what is on Mattermost.
func (d *mattermostDoctor) approvers(ctx context.Context, group string) {
	g := d.cfg.Approvers.Groups[group]
	for _, called := range g.MattermostUsers {
		d.account(ctx, group, called)
	}
	for _, id := range g.MattermostGroups {
		d.group(ctx, group, id)
	}
	for _, called := range g.MattermostChannelMembers {
		d.membersOf(ctx, group, called)
	}
}

// account looks at somebody who is listed.
func (d *mattermostDoctor) account(ctx context.Context, group, called string) {
	const check = "approvers"
	where := "approvers.groups." + group + ".mattermost_users"
	p, err := d.who.Person(ctx, called)
	if err != nil {
		if f := refusal(err); f.Refused() {
			d.fail(check, "correct it in "+where+": a username without @, or an id", "%s: there is no %s that the bot can see", group, called)
		} else {
			d.unsure[group] = true
			d.warn(check, laterFix, "%s: %s could not be looked up: %s", group, called, f.Why)
		}
		return
	}
	who, byName := fmt.Sprintf("%s: %s is @%s", group, called, p.Username), d.cfg.Mattermost.Named(called)
	if byName {
		who = fmt.Sprintf("%s: @%s is %s", group, p.Username, p.ID)
	}
	switch a := accountWords[p.Account][0]; {
	case p.Account == gate.Deactivated:
		d.fail(check, "take it out of "+where, "%s, whose account is deactivated", who)
		return
	case p.Account == gate.Bot:
		d.fail(check, "take it out of "+where, "%s, a bot, and bots never decide", who)
		return
	case p.Account != gate.Member && byName:
		d.fail(check, "write "+p.ID+" in "+where, "%s, %s, who can decide only where listed by id", who, a)
		return
	case p.Account != gate.Member:
		d.ok(check, "%s, %s who decides because listed by id", who, a)
	default:
		d.ok(check, "%s", who)
	}
	d.able[group] = true
}

// group looks at a group that Mattermost keeps.
func (d *mattermostDoctor) group(ctx context.Context, group, id string) {
	const check = "approvers"
	what := fmt.Sprintf("%s: group %s", group, id)
	where := "approvers.groups." + group + ".mattermost_groups"
	const instead = "name a channel instead, whose members decide (mattermost_channel_members)"
	g, err := d.who.Group(ctx, id)
	switch f := refusal(err); {
	case err == nil && g.Deleted:
		d.fail(check, "take it out of "+where+", or restore it", "%s was deleted, and nobody decides by it", what)
	case err == nil:
		d.crowd(ctx, group, fmt.Sprintf("%s: group %s %s", group, g.Name, id), gate.Roster{Kind: gate.KindUserGroup, ID: id})
	case f.Status == http.StatusNotImplemented:
		d.fail(check, instead, "%s: groups take a licence that this Mattermost does not have", what)
	case f.Status == http.StatusForbidden:
		d.fail(check, instead, "%s: the bot may not read it, as no bot may read groups of LDAP", what)
	case f.Refused():
		d.fail(check, "correct the id in "+where+": the product menu, User Groups; its address ends with it", "%s: there is none", what)
	default:
		d.unsure[group] = true
		d.warn(check, laterFix, "%s could not be looked up: %s", what, f.Why)
	}
}

// membersOf looks at a conversation whose members decide.
func (d *mattermostDoctor) membersOf(ctx context.Context, group, called string) {
	const check = "approvers"
	what := fmt.Sprintf("%s: members of %s", group, called)
	c, err := d.who.Conversation(ctx, called)
	switch {
	case err != nil:
		if !d.noConversation(check, what, refusal(err)) {
			d.unsure[group] = true
		}
	case c.Archived:
		d.fail(check, "unarchive ~"+c.Name+", or name another", "%s: it is archived", what)
	case !c.Member:
		d.fail(check, d.invite()+" in ~"+c.Name, "%s: the bot is not in it, and cannot see who is", what)
	default:
		d.crowd(ctx, group, what, gate.Roster{Kind: gate.KindConversation, ID: called})
	}
}

// crowd looks at people who decide because they are in something. Bots and those who
// have left are in many conversations, and nothing to wonder about.
func (d *mattermostDoctor) crowd(ctx context.Context, group, what string, r gate.Roster) {
	const check = "approvers"
	all, err := d.who.Crowd(ctx, r)
	if err != nil {
		d.unsure[group] = true
		d.warn(check, laterFix, "%s could not be looked up: %s", what, refusal(err).Why)
		return
	}
	m := members{unable: map[gate.Account]int{}}
	listed := d.cfg.Approvers.Groups[group].MattermostUsers
	for _, p := range all {
		switch {
		case p.Account == gate.Bot || p.Account == gate.Deactivated:
		case p.Account == gate.Member || slices.Contains(listed, p.ID):
			m.able++
		default:
			m.unable[p.Account]++
		}
	}
	d.able[group] = d.able[group] || m.able > 0
	const fix = "only full members decide by being in something: list guests and outsiders by id in mattermost_users, or take them out"
	people := plural(m.able+m.others(), "member")
	switch {
	case m.able == 0 && m.others() == 0:
		d.fail(check, "add people to it", "%s: nobody is in it", what)
	case m.able == 0:
		d.fail(check, fix, "%s: %s, none of whom can decide (%s)", what, people, m.crowd())
	case m.others() > 0:
		d.warn(check, fix, "%s: %s, %s", what, people, m.losers())
	default:
		d.ok(check, "%s: %s", what, people)
	}
}

// people looks at the accounts that belong to one human each.
func (d *mattermostDoctor) people(ctx context.Context) {
	const check = "people"
	good := 0
	for _, human := range d.cfg.People {
		for _, called := range human.Mattermost {
			p, err := d.who.Person(ctx, called)
			who := fmt.Sprintf("%s: %s", human.Name, called)
			switch {
			case err != nil && refusal(err).Refused():
				d.fail(check, "correct it: a username without @, or an id", "%s: there is no such account that the bot can see", who)
			case err != nil:
				d.warn(check, laterFix, "%s could not be looked up: %s", who, refusal(err).Why)
			case p.Account == gate.Deactivated:
				d.warn(check, "take it out, if they have left", "%s (@%s) is deactivated", who, p.Username)
			default:
				good++
			}
		}
	}
	if good > 0 {
		d.ok(check, "%s known to Mattermost", plural(good, "account"))
	}
}
