package mattermosttest

import (
	"cmp"
	"crypto/sha1"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"
)

// team is a team. Whoever has left it stays in members, with the time.
type team struct {
	id, name  string
	invite    string
	members   map[string]int64 // when they left; zero: they are in it
	createdAt int64
}

// AddTeam adds a team.
func (s *Server) AddTeam(id, name string, members ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := &team{id: id, name: name, invite: NewID(), members: map[string]int64{}, createdAt: s.millis()}
	for _, m := range members {
		t.members[m] = 0
	}
	s.teams[id] = t
}

// JoinTeam makes somebody a member of a team.
func (s *Server) JoinTeam(team, user string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.teams[team].members[user] = 0
}

// LeaveTeam takes somebody out of the team and of its channels. The row of their
// membership stays, with the time in delete_at.
func (s *Server) LeaveTeam(user string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.teams[Team].members[user] = s.millis()
	for _, c := range s.channels {
		if c.Team == Team {
			c.leave(user)
		}
	}
}

func (s *Server) member(user, team string) bool {
	t := s.teams[team]
	if t == nil {
		return false
	}
	left, ok := t.members[user]
	return ok && left == 0
}

// inTeam reports whether somebody can look into a team.
func (s *Server) inTeam(u *user, team string) bool {
	return s.member(u.ID, team) || u.Admin && s.teams[team] != nil
}

// Channel is a place for posts: of a team, or between people.
type Channel struct {
	ID, Name, Team string // no team means [Team], but for direct and group messages
	Type           string // "O" public, "P" private, "D" direct, "G" group message; "" means "O"
	Members        []string
	Archived       bool
	Moderated      bool // only admins may post
	Display        string
	Admins         []string
}

type channel struct {
	Channel
	createdAt, updatedAt, deletedAt, lastPost int64
	total, totalRoot                          int
	creator                                   string
	joined                                    map[string]int64
}

// AddChannel adds a channel.
func (s *Server) AddChannel(c Channel) {
	s.t.Helper()
	if !validID(c.ID) {
		s.t.Errorf("mattermosttest: %q cannot be the id of a channel", c.ID)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addChannel(c, Admin)
}

func (s *Server) addChannel(c Channel, creator string) *channel {
	if c.Type == "" {
		c.Type = "O"
	}
	between := c.Type == "D" || c.Type == "G"
	switch {
	case between && c.Name == "":
		c.Name = nameOf(c.Type, c.Members)
	case !between && c.Team == "":
		c.Team = Team
	}
	if c.Name == "" {
		c.Name = c.ID
	}
	if c.Display == "" && !between {
		c.Display = strings.ToUpper(c.Name[:1]) + c.Name[1:]
	}
	c.Members = slices.Clone(c.Members)
	now := s.millis()
	if c.Type == "G" {
		creator = ""
	}
	ch := &channel{Channel: c, createdAt: now, updatedAt: now, creator: creator, joined: map[string]int64{}}
	if c.Archived {
		ch.deletedAt = now
	}
	s.channels[c.ID] = ch
	return ch
}

// nameOf names a conversation by those who are in it. The hash protects nothing.
func nameOf(kind string, members []string) string {
	ids := slices.Sorted(slices.Values(members))
	if kind == "D" {
		if len(ids) == 1 {
			ids = append(ids, ids[0])
		}
		return strings.Join(ids, "__")
	}
	sum := sha1.Sum([]byte(strings.Join(ids, "")))
	return hex.EncodeToString(sum[:])
}

// Join makes somebody a member of a channel.
func (s *Server) Join(channel, user string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.channels[channel].join(user, s.millis())
}

// Leave takes somebody out of a channel.
func (s *Server) Leave(channel, user string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.channels[channel].leave(user)
}

// Archive archives a channel.
func (s *Server) Archive(channel string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.channels[channel].archive(s.millis())
}

func (c *channel) archive(now int64) { c.Archived, c.deletedAt, c.updatedAt = true, now, now }

func (c *channel) has(user string) bool { return slices.Contains(c.Members, user) }

func (c *channel) join(user string, now int64) {
	if !c.has(user) {
		c.Members = append(c.Members, user)
		c.joined[user] = now
	}
}

func (c *channel) leave(user string) {
	c.Members = slices.DeleteFunc(c.Members, func(m string) bool { return m == user })
}

// reads reports whether somebody may read what is posted in a channel. A public
// channel of one's own team has to be joined for that; admins read everything.
func (s *Server) reads(u *user, c *channel) bool { return u.Admin || c != nil && c.has(u.ID) }

// knows reports whether somebody may know that a channel exists and how it is.
func (s *Server) knows(u *user, c *channel) bool {
	return s.reads(u, c) || c.Type == "O" && s.member(u.ID, c.Team) && !u.Guest
}

func (c *channel) wire() object {
	var shared any
	if c.Type == "D" || c.Type == "G" {
		shared = false
	}
	return object{
		"id": c.ID, "create_at": c.createdAt, "update_at": c.updatedAt, "delete_at": c.deletedAt,
		"team_id": c.Team, "type": c.Type, "display_name": c.Display, "name": c.Name, "header": "", "purpose": "",
		"last_post_at": c.lastPost, "total_msg_count": c.total, "extra_update_at": 0, "creator_id": c.creator,
		"scheme_id": nil, "props": nil, "group_constrained": nil, "autotranslation": false, "shared": shared,
		"total_msg_count_root": c.totalRoot, "policy_id": nil, "last_root_post_at": c.lastPost, "banner_info": nil,
		"policy_enforced": false, "policy_is_active": false, "default_category_name": "",
	}
}

// channelNamed returns the channel in a path.
func (s *Server) channelNamed(c *call) (*channel, error) {
	id := c.path("channel")
	if !validID(id) {
		return nil, invalidURL("channel_id")
	}
	ch := s.channels[id]
	if ch == nil {
		return nil, noChannel(id)
	}
	return ch, nil
}

func (s *Server) getChannel(c *call) (answer, error) {
	ch, err := s.channelNamed(c)
	if err != nil {
		return answer{}, err
	}
	if !s.knows(c.user, ch) {
		return answer{}, forbidden()
	}
	return ok(ch.wire()), nil
}

func (s *Server) channelIn(c *call, team *team) (answer, error) {
	name := strings.ToLower(c.path("name"))
	missing := refuse(http.StatusNotFound, "app.channel.get_by_name.missing.app_error", "Channel does not exist.")
	for _, ch := range s.channels {
		if ch.Team != team.id || ch.Name != name || ch.deletedAt != 0 && c.query("include_deleted") != "true" {
			continue
		}
		switch {
		case s.knows(c.user, ch):
			return ok(ch.wire()), nil
		case ch.Type == "O":
			return answer{}, forbidden()
		}
		return answer{}, missing // a private one is not told of
	}
	return answer{}, missing
}

func (s *Server) channelByName(c *call) (answer, error) {
	t := s.teams[c.path("team")]
	if t == nil {
		return answer{}, noTeam("app.team.get.find.app_error")
	}
	return s.channelIn(c, t)
}

func (s *Server) channelByNames(c *call) (answer, error) {
	t := s.teamCalled(c.path("teamname"))
	if t == nil {
		return answer{}, noTeam("app.team.get_by_name.missing.app_error")
	}
	return s.channelIn(c, t)
}

func (s *Server) channelsOfUser(c *call) (answer, error) {
	if _, err := s.userNamed(c); err != nil {
		return answer{}, err
	}
	list := []object{}
	for _, id := range sortedKeys(s.channels) {
		ch := s.channels[id]
		if ch.has(c.user.ID) && ch.deletedAt == 0 && (ch.Team == "" || ch.Team == c.path("team")) {
			list = append(list, ch.wire())
		}
	}
	return ok(list), nil
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, cmp.Compare[string])
	return keys
}
