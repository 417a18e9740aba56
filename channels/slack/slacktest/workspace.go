package slacktest

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// User is a person or a bot. Without flags it is a full member of the team.
type User struct {
	ID, Name, Email string

	Team            string   // empty: the one of the double; any other makes a stranger
	Enterprise      string   // the organisation, if there is one,
	Teams           []string // and the workspaces of it that the user is in; nil means Team
	Deleted         bool
	Bot             bool
	Restricted      bool // a guest of several channels
	UltraRestricted bool // a guest of one channel
	Hidden          bool // whom the bot may not see
	Unconfirmed     bool // has not shown that the e-mail address is theirs
}

// Channel is a conversation. Without flags it is a public channel that the bot
// can see and, unless it is a member, not post in.
type Channel struct {
	ID, Name string
	Members  []string // user ids; BotUser makes the bot one

	Private    bool
	Archived   bool
	Shared     bool     // with another company,
	Invited    bool     // which has been asked to share it
	OrgShared  bool     // inside the organisation
	Restricted string   // the error that posting gets, such as restricted_action_read_only_channel,
	Posters    []string // except by these
}

// Group is a user group.
type Group struct {
	ID       string
	Members  []string
	Disabled bool
}

// conversation is a channel or, if it has a user, the bot's direct messages
// with that one.
type conversation struct {
	Channel
	user     string
	last     int64 // the ts given last, in microseconds
	messages []*Message
}

// Organise makes the workspace one of an organisation, E….
func (s *Slack) Organise(enterprise string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.enterprise = enterprise
}

// AddUser adds a user or changes one.
func (s *Slack) AddUser(u User) {
	s.mu.Lock()
	defer s.mu.Unlock()
	u.Team = cmp.Or(u.Team, Team)
	s.users[u.ID] = u
}

// AddGroup adds a user group or changes one.
func (s *Slack) AddGroup(g Group) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g.Members = slices.Clone(g.Members)
	s.groups[g.ID] = g
}

// AddChannel adds a conversation or changes one, which keeps its messages.
func (s *Slack) AddChannel(ch Channel) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ch.Members, ch.Posters = slices.Clone(ch.Members), slices.Clone(ch.Posters)
	if s.channels[ch.ID] == nil {
		s.channels[ch.ID] = &conversation{}
	}
	s.channels[ch.ID].Channel = ch
}

func (c *conversation) has(user string) bool { return slices.Contains(c.Members, user) }

// kind is the beginning of the scopes for such conversations.
func (c *conversation) kind() string {
	switch {
	case c.user != "":
		return "im"
	case c.Private:
		return "groups"
	}
	return "channels"
}

// scopesOf lists the scopes to do something with each kind of conversation.
func scopesOf(what string) []string {
	return []string{"channels:" + what, "groups:" + what, "im:" + what, "mpim:" + what}
}

// readable finds a conversation that the bot may see and has the scope for.
func (s *Slack) readable(c *call, what string) (*conversation, error) {
	conv := s.channels[c.args["channel"]]
	switch {
	case conv == nil:
		return nil, refuse("channel_not_found")
	case !s.granted(conv.kind() + ":" + what):
		return nil, s.missing(conv.kind() + ":" + what)
	case conv.Private && !conv.has(BotUser):
		return nil, refuse("channel_not_found")
	}
	return conv, nil
}

func (s *Slack) conversationInfo(c *call) (object, error) {
	conv, err := s.readable(c, "read")
	if err != nil {
		return nil, err
	}
	return object{"channel": conv.wire()}, nil
}

func (c *conversation) wire() object {
	o := object{
		"id": c.ID, "is_archived": c.Archived, "is_im": c.user != "",
		"is_ext_shared": c.Shared, "is_org_shared": c.OrgShared, "is_shared": c.Shared || c.OrgShared,
	}
	if c.user != "" {
		o["user"] = c.user
		return o
	}
	o["name"], o["is_channel"], o["is_group"] = c.Name, !c.Private, false
	o["is_private"], o["is_member"], o["is_pending_ext_shared"] = c.Private, c.has(BotUser), c.Invited
	o["is_read_only"] = c.Restricted == "restricted_action_read_only_channel"
	if c.Restricted != "" { // the kinds of members who may are not told apart here
		o["properties"] = object{"posting_restricted_to": object{"type": []string{"admin"}, "user": append([]string{}, c.Posters...)}}
	}
	return o
}

func (s *Slack) conversationMembers(c *call) (object, error) {
	conv, err := s.readable(c, "read")
	if err != nil {
		return nil, err
	}
	members, next := page(c, conv.Members)
	return object{"members": members, "response_metadata": object{"next_cursor": next}}, nil
}

// page cuts what a call asks for out of a list. The cursor is a place in it.
func page[T any](c *call, all []T) (part []T, next string) {
	from, _ := strconv.Atoi(c.args["cursor"])
	limit, _ := strconv.Atoi(c.args["limit"])
	if limit <= 0 || limit > 1000 {
		limit = 100
	}
	from = min(max(from, 0), len(all))
	to := min(from+limit, len(all))
	if to < len(all) {
		next = strconv.Itoa(to)
	}
	return append([]T{}, all[from:to]...), next
}

func (s *Slack) openConversation(c *call) (object, error) {
	ids := strings.FieldsFunc(c.args["users"], func(r rune) bool { return r == ',' })
	switch {
	case c.args["channel"] != "":
		return nil, refuse("method_not_supported_for_channel_type") // channels cannot be resumed here
	case len(ids) == 0:
		return nil, refuse("users_list_not_supplied")
	case len(ids) > 8:
		return nil, refuse("too_many_users")
	case len(ids) > 1:
		return nil, refuse("invalid_user_combination") // groups are not needed
	}
	if err := s.addressable(ids[0]); err != nil {
		return nil, err
	}
	conv, open := s.direct(ids[0])
	return object{"channel": conv.wire(), "no_op": open, "already_open": open}, nil
}

// addressable says why nobody can write to a user.
func (s *Slack) addressable(id string) error {
	u, ok := s.users[id]
	switch {
	case !ok:
		return refuse("user_not_found")
	case u.Hidden:
		return refuse("user_not_visible")
	case u.Deleted:
		return refuse("user_disabled")
	case u.Bot:
		return refuse("invalid_user_combination")
	}
	return nil
}

// direct returns the direct messages with a user, and whether there were any.
func (s *Slack) direct(user string) (conv *conversation, open bool) {
	for _, conv := range s.channels {
		if conv.user == user {
			return conv, true
		}
	}
	conv = &conversation{user: user, Channel: Channel{ID: s.id("D"), Private: true, Members: []string{user, BotUser}}}
	s.channels[conv.ID] = conv
	return conv, false
}

func (s *Slack) userInfo(c *call) (object, error) {
	u, ok := s.users[c.args["user"]]
	switch {
	case !ok:
		return nil, refuse("user_not_found")
	case u.Hidden:
		return nil, refuse("user_not_visible")
	}
	profile := object{"display_name": u.Name}
	if u.Email != "" && s.granted("users:read.email") {
		profile["email"] = u.Email
	}
	o := object{
		"id": u.ID, "team_id": u.Team, "name": u.Name, "real_name": u.Name, "deleted": u.Deleted, "profile": profile,
		"is_bot": u.Bot, "is_app_user": false, "is_stranger": !s.ours(u), "updated": c.now.Unix(),
	}
	if s.ours(u) && !u.Deleted { // of others these are not told
		o["is_restricted"], o["is_ultra_restricted"] = u.Restricted || u.UltraRestricted, u.UltraRestricted
		o["is_admin"], o["is_owner"], o["is_primary_owner"] = false, false, false
	}
	if !u.Bot && !u.Deleted {
		o["is_email_confirmed"] = !u.Unconfirmed
	}
	if u.Enterprise != "" {
		o["enterprise_user"] = object{"id": u.ID, "enterprise_id": u.Enterprise, "teams": u.teams()}
	}
	return object{"user": o}, nil
}

func (u User) teams() []string {
	if u.Teams == nil {
		return []string{u.Team}
	}
	return u.Teams
}

// ours reports whether somebody is of the workspace: by its id, or because the
// organisation that it belongs to says so.
func (s *Slack) ours(u User) bool {
	return u.Team == Team || s.enterprise != "" && u.Enterprise == s.enterprise && slices.Contains(u.teams(), Team)
}

// groupMembers lists nobody for a disabled group, unless asked to.
func (s *Slack) groupMembers(c *call) (object, error) {
	g, ok := s.groups[c.args["usergroup"]]
	switch {
	case !ok:
		return nil, refuse("no_such_subteam")
	case g.Disabled && !c.args.truth("include_disabled"):
		return object{"users": []string{}}, nil
	}
	return object{"users": append([]string{}, g.Members...)}, nil
}
