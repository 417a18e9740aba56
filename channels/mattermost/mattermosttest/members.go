package mattermosttest

import (
	"net/http"
	"slices"
)

func noTeam(id string) *appError {
	return refuse(http.StatusNotFound, id, "Unable to find the existing team.")
}

func (s *Server) teamCalled(name string) *team {
	for _, t := range s.teams {
		if t.name == name {
			return t
		}
	}
	return nil
}

func (t *team) wire() object {
	return object{
		"id": t.id, "create_at": t.createdAt, "update_at": t.createdAt, "delete_at": 0, "display_name": t.name,
		"name": t.name, "description": "", "email": "", "type": "O", "company_name": "", "allowed_domains": "",
		"invite_id": t.invite, "allow_open_invite": false, "scheme_id": nil, "group_constrained": nil, "policy_id": nil,
		"cloud_limits_archived": false,
	}
}

func (s *Server) getTeam(c *call) (answer, error) {
	return s.teamFor(c, s.teams[c.path("team")], "app.team.get.find.app_error")
}

func (s *Server) teamByName(c *call) (answer, error) {
	return s.teamFor(c, s.teamCalled(c.path("teamname")), "app.team.get_by_name.missing.app_error")
}

func (s *Server) teamFor(c *call, t *team, missing string) (answer, error) {
	switch {
	case t == nil:
		return answer{}, noTeam(missing)
	case !s.inTeam(c.user, t.id):
		return answer{}, forbidden()
	}
	return ok(t.wire()), nil
}

func (s *Server) teamsOfUser(c *call) (answer, error) {
	u, err := s.userNamed(c)
	if err != nil {
		return answer{}, err
	}
	if u != c.user && !c.user.Admin {
		return answer{}, forbidden()
	}
	list := []object{}
	for _, id := range sortedKeys(s.teams) {
		if s.member(u.ID, id) {
			list = append(list, s.teams[id].wire())
		}
	}
	return ok(list), nil
}

func (s *Server) teamMember(c *call) (answer, error) {
	t := s.teams[c.path("team")]
	if t == nil || !s.inTeam(c.user, t.id) {
		return answer{}, forbidden()
	}
	u, err := s.userNamed(c)
	if err != nil {
		return answer{}, err
	}
	left, ever := t.members[u.ID]
	if !ever {
		return answer{}, refuse(http.StatusNotFound, "app.team.get_member.missing.app_error", "No team member found for that user ID and team ID.")
	}
	return ok(membership(t.id, u, left)), nil
}

func membership(team string, u *user, left int64) object {
	role := "team_user"
	if u.Guest {
		role = "team_guest"
	}
	return object{
		"team_id": team, "user_id": u.ID, "roles": role, "delete_at": left,
		"scheme_guest": u.Guest, "scheme_user": !u.Guest, "scheme_admin": false, "explicit_roles": "",
	}
}

func (c *channel) member(u *user) object {
	admin := slices.Contains(c.Admins, u.ID)
	role := "channel_user"
	if u.Guest {
		role = "channel_guest"
	}
	if admin {
		role += " channel_admin"
	}
	joined, ok := c.joined[u.ID]
	if !ok {
		joined = -1
	}
	return object{
		"channel_id": c.ID, "user_id": u.ID, "roles": role, "last_viewed_at": 0, "msg_count": 0,
		"mention_count": 0, "mention_count_root": 0, "urgent_mention_count": 0, "msg_count_root": 0,
		"notify_props": object{
			"channel_auto_follow_threads": "off", "desktop": "default", "email": "default",
			"ignore_channel_mentions": "default", "mark_unread": "all", "push": "default",
		},
		"last_update_at": joined, "scheme_guest": u.Guest, "scheme_user": !u.Guest, "scheme_admin": admin,
		"explicit_roles": "",
	}
}

func (s *Server) channelMember(c *call) (answer, error) {
	ch, err := s.channelNamed(c)
	if err != nil {
		return answer{}, err
	}
	u, err := s.userNamed(c)
	switch {
	case !s.reads(c.user, ch):
		return answer{}, forbidden()
	case err != nil || !ch.has(u.ID):
		return answer{}, refuse(http.StatusNotFound, "app.channel.get_member.missing.app_error", "No channel member found for that user ID and channel ID.")
	}
	return ok(ch.member(u)), nil
}

func (s *Server) channelMembers(c *call) (answer, error) {
	ch, err := s.channelNamed(c)
	if err != nil {
		return answer{}, err
	}
	if !s.reads(c.user, ch) {
		return answer{}, forbidden()
	}
	list := []object{}
	for _, id := range page(c, slices.Sorted(slices.Values(ch.Members)), 60) {
		list = append(list, ch.member(s.users[id]))
	}
	return ok(list), nil
}

// join lets somebody into a channel: themselves into a public one of their team,
// others if they are in it or an admin.
func (s *Server) join(c *call) (answer, error) {
	ch, err := s.channelNamed(c)
	if err != nil {
		return answer{}, err
	}
	var who struct {
		User string `json:"user_id"`
	}
	if c.read("user_id", &who) != nil || s.users[who.User] == nil {
		return answer{}, invalidBody("user_id")
	}
	if !s.reads(c.user, ch) && (ch.Type != "O" || who.User != c.user.ID || !s.knows(c.user, ch)) {
		return answer{}, forbidden()
	}
	ch.join(who.User, s.millis())
	return created(ch.member(s.users[who.User])), nil
}

func (s *Server) leaveChannel(c *call) (answer, error) {
	ch, err := s.channelNamed(c)
	if err != nil {
		return answer{}, err
	}
	u, err := s.userNamed(c)
	if err != nil {
		return answer{}, err
	}
	if !s.reads(c.user, ch) {
		return answer{}, forbidden()
	}
	ch.leave(u.ID)
	return done, nil
}

func (s *Server) archiveChannel(c *call) (answer, error) {
	ch, err := s.channelNamed(c)
	if err != nil {
		return answer{}, err
	}
	if !c.user.Admin {
		return answer{}, forbidden()
	}
	ch.archive(s.millis())
	return done, nil
}

// direct opens a conversation of two, which is the same one every time.
func (s *Server) direct(c *call) (answer, error) {
	var ids []string
	if c.read("user_ids", &ids) != nil || len(ids) != 2 || !validID(ids[0]) || !validID(ids[1]) {
		return answer{}, invalidBody("user_ids")
	}
	if !slices.Contains(ids, c.user.ID) && !c.user.Admin {
		return answer{}, forbidden()
	}
	if s.users[ids[0]] == nil || s.users[ids[1]] == nil {
		return answer{}, refuse(http.StatusBadRequest, "api.channel.create_direct_channel.invalid_user.app_error", "Invalid user ID for direct channel creation.")
	}
	if s.apart(c.user, ids) {
		return answer{}, refuse(http.StatusForbidden, "api.channel.create_channel.direct_channel.team_restricted_error",
			"A direct channel cannot be created between these users because they do not share a team in common.")
	}
	return created(s.between("D", ids, c.user.ID).wire()), nil
}

func (s *Server) groupMessage(c *call) (answer, error) {
	var ids []string
	if c.read("user_ids", &ids) != nil {
		return answer{}, invalidBody("user_ids")
	}
	if !slices.Contains(ids, c.user.ID) {
		ids = append(ids, c.user.ID)
	}
	if len(ids) < 3 || len(ids) > 8 {
		return answer{}, refuse(http.StatusBadRequest, "api.channel.create_group.bad_size.app_error", "Group message channels must contain at least 3 and no more than 8 users.")
	}
	for _, id := range ids {
		if s.users[id] == nil {
			return answer{}, refuse(http.StatusBadRequest, "api.channel.create_group.bad_user.app_error", "One of the provided users does not exist.")
		}
	}
	return created(s.between("G", ids, c.user.ID).wire()), nil
}

// apart reports whether people may not write to each other because no team has
// both.
func (s *Server) apart(asks *user, ids []string) bool {
	if !s.config.DMsWithinTeam || asks.Admin {
		return false
	}
	for id := range s.teams {
		if !slices.ContainsFunc(ids, func(u string) bool { return !s.member(u, id) }) {
			return false
		}
	}
	return true
}

func (s *Server) between(kind string, ids []string, creator string) *channel {
	name := nameOf(kind, ids)
	for _, ch := range s.channels {
		if ch.Type == kind && ch.Name == name {
			return ch
		}
	}
	display := ""
	if kind == "G" {
		var names []string
		for _, id := range ids {
			names = append(names, s.users[id].Username)
		}
		slices.Sort(names)
		display, creator = joined(names), ""
	}
	return s.addChannel(Channel{ID: NewID(), Name: name, Type: kind, Members: unique(ids), Display: display}, creator)
}
