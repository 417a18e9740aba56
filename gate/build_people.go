package gate

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// The platforms, as ids and places of theirs begin.
const (
	Slack      = "slack"
	Mattermost = "mattermost"
)

// readPeople joins accounts and people; whoever is joined twice must be the same.
func (b *builder) readPeople(people []PersonConfig, keys []Principal) {
	for _, k := range keys {
		b.keys[k.Key] = k
		if k.Person != "" {
			b.people.own(keyVoter+":"+k.Key, k.Person)
		}
	}
	known := map[string]bool{}
	b.people.listed = len(people) > 0
	for i, p := range people {
		path := fmt.Sprintf("people[%d]", i)
		if p.Name == "" || known[p.Name] {
			b.problem(path+".name", "%q is no name, or is taken; give every person one of their own", p.Name)
		}
		known[p.Name], b.people.persons[p.Name] = true, true
		b.readPerson(path, p)
	}
	for _, k := range keys {
		if len(people) > 0 && k.Person != "" && !known[k.Person] {
			b.problem("people", "key %q belongs to %q, who is not listed; add them, or one human could vote twice", k.Key, k.Person)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(b.people.persons)) {
		if isMail(name) { // whoever is called by an address has it
			b.joinMail("people", name, name)
		}
	}
}

func (b *builder) readPerson(path string, p PersonConfig) {
	for i, key := range p.Keys {
		path := fmt.Sprintf("%s.keys[%d]", path, i)
		if _, ok := b.keys[key]; !ok {
			b.problem(path, "no key is named %q; add it under keys, or correct the name", key)
		}
		b.join(path, keyVoter+":"+key, p.Name)
	}
	for i, id := range p.Slack {
		path := fmt.Sprintf("%s.slack[%d]", path, i)
		if b.onPlatform(path, Slack, KindUser, id) && !strings.Contains(id, "/") {
			b.problem(path, "%q: want the workspace too, like T0ACME/U0ANN", id)
		}
		b.join(path, Slack+":"+id, p.Name)
	}
	for i, id := range p.Mattermost {
		path := fmt.Sprintf("%s.mattermost[%d]", path, i)
		b.onPlatform(path, Mattermost, KindUser, id)
		b.join(path, Mattermost+":"+id, p.Name)
	}
	for i, address := range p.Emails {
		path := fmt.Sprintf("%s.emails[%d]", path, i)
		if b.address(path, address) {
			b.joinMail(path, address, p.Name)
		}
	}
}

// join says whose an account is.
func (b *builder) join(path, account, person string) {
	if other := b.people.configured(account); other != "" && other != person {
		b.problem(path, "%s belongs to %q already; it belongs to one person", account, other)
	}
	b.people.own(account, person)
}

// joinMail says whose a mailbox is.
func (b *builder) joinMail(path, address, person string) {
	box := mailbox(address)
	if other := b.people.mails[box]; other != "" && other != person {
		b.problem(path, "%s belongs to %q already; it belongs to one person", box, other)
	}
	b.people.mails[box] = person
}

// mailForm is how an e-mail address looks: enough to tell it from a name and from
// an account, and to refuse a typing mistake.
var mailForm = regexp.MustCompile(`^[^\s@:<>(),;"]+@[^\s@:<>(),;"]+$`)

func isMail(text string) bool { return mailForm.MatchString(text) }

func (b *builder) address(path, text string) bool {
	if !isMail(text) {
		b.problem(path, "%q is no e-mail address; want one like ann@example.com", text)
		return false
	}
	return true
}

// onPlatform checks an id of a platform.
func (b *builder) onPlatform(path, name string, kind IDKind, id string) bool {
	chat, ok := b.people.chats[name]
	if !ok {
		b.problem(path, "no channel named %q is configured; add channels.%s, or take it out", name, name)
		return false
	}
	if err := chat.Check(kind, id); err != nil {
		b.problem(path, "%v", err)
		return false
	}
	return true
}

func (b *builder) readGroups(cfg ApproversConfig) {
	for _, name := range slices.Sorted(maps.Keys(cfg.Groups)) {
		path := "approvers.groups." + name
		if name == "" || name == RequesterWord {
			b.problem(path, "%q is no name for a group; choose another", name)
		}
		g, c := &Group{Name: name}, cfg.Groups[name]
		if len(c.Keys) > 0 {
			g.Members = append(g.Members, b.members(path+".keys", c.Keys))
			g.configured = append(g.configured, c.Keys...)
		}
		for _, list := range ofPlatforms {
			b.onList(path, list, list.of(&c), g)
		}
		b.byMail(path, c.Emails, g)
		slices.Sort(g.configured)
		g.configured = slices.Compact(g.configured)
		b.groups[name] = g
	}
	switch {
	case len(cfg.Default) > 0:
		b.fallback = cfg.Default
		b.askable("approvers.default", cfg.Default)
	case len(cfg.Groups) == 0:
		b.fallback = b.everyApprover()
	case !b.disabled:
		b.problem("approvers.default", "names no group, but rules without approvers, and questions that agents ask by themselves, go to it; list one")
	}
}

// listed is one list of a group: ids that a platform keeps.
type listed struct {
	key      string
	platform string
	kind     IDKind
	mark     string // what its entries begin with in the version of a rule
	of       func(*GroupConfig) []string
}

// ofPlatforms are those lists. Ids of Mattermost do not tell what they are of, so
// that the version of a rule must.
var ofPlatforms = []listed{
	{"slack_users", Slack, KindUser, "slack:", func(c *GroupConfig) []string { return c.SlackUsers }},
	{"slack_usergroups", Slack, KindUserGroup, "slack:", func(c *GroupConfig) []string { return c.SlackUserGroups }},
	{"mattermost_users", Mattermost, KindUser, "mattermost:", func(c *GroupConfig) []string { return c.MattermostUsers }},
	{"mattermost_groups", Mattermost, KindUserGroup, "mattermost group:", func(c *GroupConfig) []string { return c.MattermostGroups }},
	{"mattermost_channel_members", Mattermost, KindConversation, "mattermost members:", func(c *GroupConfig) []string { return c.MattermostChannelMembers }},
}

// onList adds the members of a group that one list has.
func (b *builder) onList(path string, l listed, ids []string, g *Group) {
	if len(ids) == 0 {
		return
	}
	for i, id := range ids {
		b.onPlatform(fmt.Sprintf("%s.%s[%d]", path, l.key, i), l.platform, l.kind, id)
		g.configured = append(g.configured, l.mark+id)
		if l.kind != KindUser {
			g.Members = append(g.Members, rosterMembers{l.platform, Roster{l.kind, id}, b.people.chats[l.platform]})
		}
	}
	if l.kind == KindUser {
		g.Members = append(g.Members, newUserMembers(l.platform, ids, b.people))
	}
}

// byMail adds the members of a group that are listed by their address.
func (b *builder) byMail(path string, addresses []string, g *Group) {
	members := mailMembers{people: b.people}
	for i, text := range addresses {
		if b.address(fmt.Sprintf("%s.emails[%d]", path, i), text) {
			members.addresses = append(members.addresses, strings.ToLower(text))
			g.configured = append(g.configured, "email:"+strings.ToLower(text))
		}
	}
	if len(members.addresses) > 0 {
		g.Members = append(g.Members, members)
	}
}

// everyApprover is the default without an approvers section.
func (b *builder) everyApprover() []string {
	members := keyMembers{}
	for name, k := range b.keys {
		if slices.Contains(k.Roles, RoleApprover) {
			members["key:"+name] = b.identity(name)
		}
	}
	if len(members) == 0 {
		if !b.disabled {
			b.problem("approvers", "nobody could approve anything; make an approver key (approvalbot keys new) and list it under keys, or list groups here")
		}
		return nil
	}
	// Configured is the role, not its holders: a new colleague voids nothing.
	b.groups["approvers"] = &Group{Name: "approvers", Members: []Members{members}, configured: []string{"role:approver"}}
	return []string{"approvers"}
}

func (b *builder) members(path string, keys []string) keyMembers {
	members := keyMembers{}
	for i, key := range keys {
		k, ok := b.keys[key]
		switch {
		case !ok:
			b.problem(fmt.Sprintf("%s[%d]", path, i), "no key is named %q; add it under keys, or correct the name", key)
		case !slices.Contains(k.Roles, RoleApprover):
			b.problem(fmt.Sprintf("%s[%d]", path, i), "key %q has not the role approver and could never decide; list an approver's key", key)
		default:
			members["key:"+key] = b.identity(key)
		}
	}
	return members
}

func (b *builder) identity(key string) string {
	return Voter{ID: "key:" + key, Person: b.PersonOf(keyVoter + ":" + key)}.Identity()
}
