package mattermosttest

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
)

// User is an account.
type User struct {
	ID, Username, Nickname, FirstName, LastName, Email string

	EmailVerified, Bot, Guest, Admin, Deactivated bool
	Remote                                        bool // of another server that shares a channel
	NoTeam                                        bool
	Position, Description                         string
	Roles                                         string // more of them, such as "system_post_all"
}

type user struct {
	User
	createdAt, updatedAt, deletedAt int64
}

// AddUser adds an account, as a member of the team unless it has none.
func (s *Server) AddUser(u User) {
	s.t.Helper()
	if !validID(u.ID) {
		s.t.Errorf("mattermosttest: %q cannot be the id of a user", u.ID)
	}
	if u.Username == "" {
		u.Username = u.ID
	}
	if u.Email == "" && u.Bot {
		u.Email = u.Username + "@localhost"
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.millis()
	s.users[u.ID] = &user{User: u, createdAt: now, updatedAt: now}
	s.users[u.ID].settle(now)
	if !u.NoTeam {
		s.teams[Team].members[u.ID] = 0
	}
}

// Change changes an account: its name, that it is deactivated and so on.
func (s *Server) Change(id string, change func(*User)) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.users[id]
	if u == nil {
		s.t.Errorf("mattermosttest: there is no user %s", id)
		return
	}
	change(&u.User)
	u.updatedAt = s.millis()
	u.settle(u.updatedAt)
	if u.Deactivated {
		s.endSessions(id)
	}
}

// settle dates a deactivation.
func (u *user) settle(now int64) {
	switch {
	case !u.Deactivated:
		u.deletedAt = 0
	case u.deletedAt == 0:
		u.deletedAt = now
	}
}

// endSessions logs a user out; personal access tokens work again when the account
// does.
func (s *Server) endSessions(id string) {
	for secret, t := range s.tokens {
		if t.user == id && t.session {
			delete(s.tokens, secret)
		}
	}
}

func (u *user) roles() string {
	first := "system_user"
	if u.Guest {
		first = "system_guest"
	}
	admin := ""
	if u.Admin {
		admin = "system_admin"
	}
	return words(admin, first, u.User.Roles)
}

func (u *user) has(role string) bool { return slices.Contains(strings.Fields(u.roles()), role) }

// wire is a user as another one, or they themselves, get to see them.
func (s *Server) wire(u, reader *user) object {
	o := object{
		"id": u.ID, "create_at": u.createdAt, "update_at": u.updatedAt, "delete_at": u.deletedAt,
		"username": u.Username, "auth_service": "", "email": u.Email, "nickname": u.Nickname,
		"first_name": u.FirstName, "last_name": u.LastName, "position": u.Position, "roles": u.roles(),
		"locale": "en", "disable_welcome_email": false,
		"timezone": object{"automaticTimezone": "", "manualTimezone": "", "useAutomaticTimezone": "true"},
	}
	self, admin := u.ID == reader.ID, reader.Admin
	if self {
		o["notify_props"], o["last_password_update"] = notifyProps(), u.createdAt
	} else {
		o["auth_data"] = ""
	}
	if (self || admin) && u.EmailVerified {
		o["email_verified"] = true
	}
	if s.config.HideEmails && !self && !admin {
		o["email"] = ""
	}
	switch {
	case u.Bot:
		o["is_bot"] = true
		if u.Description != "" {
			o["bot_description"] = u.Description
		}
	case u.Remote:
		o["remote_id"] = Remote
	default:
		o["remote_id"] = ""
	}
	return o
}

// Remote is the server that remote users are of.
const Remote = "r1other0000000000000000000"

func notifyProps() object {
	return object{
		"channel": "true", "comments": "never", "desktop": "mention", "desktop_sound": "true",
		"desktop_threads": "all", "email": "true", "email_threads": "all", "first_name": "false",
		"mention_keys": "", "push": "mention", "push_status": "online", "push_threads": "all",
	}
}

// userNamed returns the user in a path, of which "me" is who asks.
func (s *Server) userNamed(c *call) (*user, error) {
	id := c.path("user")
	if id == "me" || id == "" {
		return c.user, nil
	}
	if !validID(id) {
		return nil, invalidURL("user_id")
	}
	if u := s.users[id]; u != nil {
		return u, nil
	}
	return nil, noUser()
}

func (s *Server) getUser(c *call) (answer, error) {
	u, err := s.userNamed(c)
	if err != nil {
		return answer{}, err
	}
	return ok(s.wire(u, c.user)), nil
}

func (s *Server) find(has func(*user) bool) *user {
	for _, u := range s.users {
		if has(u) {
			return u
		}
	}
	return nil
}

func (s *Server) userByName(c *call) (answer, error) {
	name := strings.ToLower(c.path("name"))
	u := s.find(func(u *user) bool { return u.Username == name })
	if u == nil {
		return answer{}, refuse(http.StatusNotFound, "app.user.get_by_username.app_error",
			"Unable to find an existing account matching your username for this team. This team may require an invite from the team owner to join.")
	}
	return ok(s.wire(u, c.user)), nil
}

func (s *Server) userByEmail(c *call) (answer, error) {
	if s.config.HideEmails && !c.user.Admin {
		return answer{}, forbidden()
	}
	u := s.find(func(u *user) bool { return u.Email == c.path("email") })
	if u == nil {
		return answer{}, refuse(http.StatusNotFound, "app.user.missing_account.const", "Unable to find the user.")
	}
	return ok(s.wire(u, c.user)), nil
}

// usersOf returns those of which is true, by name.
func (s *Server) usersOf(c *call, is func(*user) bool) []object {
	var all []*user
	for _, u := range s.users {
		if is(u) {
			all = append(all, u)
		}
	}
	slices.SortFunc(all, func(a, b *user) int { return cmp.Compare(a.Username, b.Username) })
	list := make([]object, 0, len(all))
	for _, u := range all {
		list = append(list, s.wire(u, c.user))
	}
	return list
}

func (s *Server) usersByNames(c *call) (answer, error) {
	var names []string
	if c.read("usernames", &names) != nil || len(names) == 0 {
		return answer{}, invalidBody("usernames")
	}
	for i := range names {
		names[i] = strings.ToLower(names[i])
	}
	return ok(s.usersOf(c, func(u *user) bool { return slices.Contains(names, u.Username) })), nil
}

func (s *Server) usersByIDs(c *call) (answer, error) {
	var ids []string
	if c.read("user_ids", &ids) != nil || len(ids) == 0 {
		return answer{}, invalidBody("user_ids")
	}
	return ok(s.usersOf(c, func(u *user) bool { return slices.Contains(ids, u.ID) })), nil
}

// listUsers lists people, of a channel, team or group if one is named.
func (s *Server) listUsers(c *call) (answer, error) {
	in := func(*user) bool { return true }
	switch {
	case c.query("in_channel") != "":
		ch := s.channels[c.query("in_channel")]
		if ch == nil || !s.reads(c.user, ch) {
			return answer{}, forbidden()
		}
		in = func(u *user) bool { return ch.has(u.ID) }
	case c.query("in_team") != "":
		if !s.inTeam(c.user, c.query("in_team")) {
			return answer{}, forbidden()
		}
		in = func(u *user) bool { return s.member(u.ID, c.query("in_team")) }
	case c.query("in_group") != "":
		g, err := s.readable(c.user, c.query("in_group"))
		if err != nil {
			return answer{}, err
		}
		in = func(u *user) bool { return slices.Contains(g.Members, u.ID) }
	}
	if c.query("active") == "true" {
		all := in
		in = func(u *user) bool { return all(u) && u.deletedAt == 0 }
	}
	return ok(page(c, s.usersOf(c, in), 60)), nil
}
