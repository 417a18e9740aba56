package mattermosttest

import (
	"net/http"
	"slices"
	"strings"
)

// What an admin does before a bot can work, and to it later.

func onlyAdmins(c *call) error {
	if c.user.Admin {
		return nil
	}
	return forbidden()
}

// botJSON is a bot as the endpoints of bots know it.
func (u *user) botJSON() object {
	o := object{
		"user_id": u.ID, "username": u.Username, "display_name": u.FirstName, "owner_id": Admin,
		"create_at": u.createdAt, "update_at": u.updatedAt, "delete_at": u.deletedAt,
	}
	if u.Description != "" {
		o["description"] = u.Description
	}
	return o
}

func (s *Server) createBot(c *call) (answer, error) {
	var in struct {
		Username    string `json:"username"`
		Display     string `json:"display_name"`
		Description string `json:"description"`
	}
	if c.read("bot", &in) != nil || in.Username == "" {
		return answer{}, invalidBody("bot")
	}
	if err := onlyAdmins(c); err != nil {
		return answer{}, err
	}
	if s.config.NoBotAccounts {
		return answer{}, refuse(http.StatusForbidden, "api.bot.create_disabled", "Bot creation has been disabled.")
	}
	now := s.millis()
	u := &user{
		User: User{
			ID: NewID(), Username: in.Username, FirstName: in.Display, Description: in.Description, Bot: true,
			Email: in.Username + "@localhost", NoTeam: true,
		}, createdAt: now, updatedAt: now,
	}
	s.users[u.ID] = u
	return created(u.botJSON()), nil
}

// switchBot disables or enables a bot.
func (s *Server) switchBot(off bool) func(*call) (answer, error) {
	return func(c *call) (answer, error) {
		u, err := s.userNamed(c)
		if err != nil {
			return answer{}, err
		}
		if err := onlyAdmins(c); err != nil {
			return answer{}, err
		}
		s.activate(u, !off)
		return ok(u.botJSON()), nil
	}
}

func (s *Server) activate(u *user, active bool) {
	u.Deactivated, u.updatedAt = !active, s.millis()
	u.settle(u.updatedAt)
	if !active {
		s.endSessions(u.ID)
	}
}

func (s *Server) setActive(c *call) (answer, error) {
	var in struct {
		Active *bool `json:"active"`
	}
	if c.read("active", &in) != nil || in.Active == nil {
		return answer{}, invalidBody("active")
	}
	u, err := s.userNamed(c)
	if err != nil {
		return answer{}, err
	}
	if err := onlyAdmins(c); err != nil {
		return answer{}, err
	}
	s.activate(u, *in.Active)
	return done, nil
}

func (s *Server) setRoles(c *call) (answer, error) {
	var in struct {
		Roles string `json:"roles"`
	}
	u, err := s.userNamed(c)
	if err != nil {
		return answer{}, err
	}
	if c.read("roles", &in) != nil {
		return answer{}, invalidBody("roles")
	}
	if err := onlyAdmins(c); err != nil {
		return answer{}, err
	}
	all := strings.Fields(in.Roles)
	u.Admin, u.Guest = slices.Contains(all, "system_admin"), slices.Contains(all, "system_guest")
	u.User.Roles = strings.Join(slices.DeleteFunc(all, func(r string) bool {
		return r == "system_admin" || r == "system_user" || r == "system_guest"
	}), " ")
	return done, nil
}

// patchUser changes a name: one's own, or anybody's for admins.
func (s *Server) patchUser(c *call) (answer, error) {
	var in struct {
		Username *string `json:"username"`
		Nickname *string `json:"nickname"`
	}
	if err := c.read("user", &in); err != nil {
		return answer{}, err
	}
	u, err := s.userNamed(c)
	if err != nil {
		return answer{}, err
	}
	if u != c.user && !c.user.Admin {
		return answer{}, forbidden()
	}
	if in.Username != nil {
		u.Username = *in.Username
	}
	if in.Nickname != nil {
		u.Nickname = *in.Nickname
	}
	u.updatedAt = s.millis()
	return ok(s.wire(u, c.user)), nil
}

func (s *Server) joinTeam(c *call) (answer, error) {
	var in struct {
		User string `json:"user_id"`
	}
	t := s.teams[c.path("team")]
	if c.read("user_id", &in) != nil || t == nil || s.users[in.User] == nil {
		return answer{}, invalidBody("user_id")
	}
	if err := onlyAdmins(c); err != nil {
		return answer{}, err
	}
	t.members[in.User] = 0
	return created(membership(t.id, s.users[in.User], 0)), nil
}

// createToken makes a personal access token: for oneself, or for anybody by an
// admin. Bots may neither make nor list them.
func (s *Server) createToken(c *call) (answer, error) {
	var in struct {
		Description string `json:"description"`
	}
	if c.read("user_access_token", &in) != nil || in.Description == "" {
		return answer{}, invalidBody("description")
	}
	u, err := s.userNamed(c)
	if err != nil {
		return answer{}, err
	}
	if err := onlyAdmins(c); err != nil {
		return answer{}, err
	}
	secret := NewID()
	t := &token{id: NewID(), user: u.ID, description: in.Description, created: s.millis()}
	s.tokens[secret] = t
	return ok(object{"id": t.id, "token": secret, "user_id": u.ID, "description": t.description, "is_active": true}), nil
}

func (s *Server) listTokens(c *call) (answer, error) {
	u, err := s.userNamed(c)
	if err != nil {
		return answer{}, err
	}
	if err := onlyAdmins(c); err != nil {
		return answer{}, err
	}
	list := []object{}
	for _, secret := range sortedKeys(s.tokens) {
		if t := s.tokens[secret]; t.user == u.ID && !t.session {
			list = append(list, object{"id": t.id, "user_id": u.ID, "description": t.description, "is_active": !t.disabled})
		}
	}
	return ok(list), nil
}

// onToken does something with a token that a client names by its id.
func (s *Server) onToken(do func(secret string, t *token)) func(*call) (answer, error) {
	return func(c *call) (answer, error) {
		var in struct {
			ID string `json:"token_id"`
		}
		if c.read("token_id", &in) != nil {
			return answer{}, invalidBody("token_id")
		}
		if err := onlyAdmins(c); err != nil {
			return answer{}, err
		}
		for secret, t := range s.tokens {
			if t.id == in.ID {
				do(secret, t)
				return done, nil
			}
		}
		return answer{}, refuse(http.StatusNotFound, "app.user_access_token.get_by_user.app_error", "Unable to get the personal access token.")
	}
}

// logIn lets nobody in: the double's people have their tokens from [Server.Session].
func (s *Server) logIn(c *call) (answer, error) {
	var in struct {
		Login string `json:"login_id"`
	}
	_ = c.read("login_id", &in)
	if u := s.find(func(u *user) bool { return u.Username == in.Login }); u != nil && u.deletedAt != 0 {
		return answer{}, refuse(http.StatusUnauthorized, "api.user.login.inactive.app_error",
			"Login failed because your account has been deactivated.  Please contact an administrator.")
	}
	return answer{}, refuse(http.StatusUnauthorized, "api.user.login.invalid_credentials_email_username", "Enter a valid email or username and/or password.")
}

// suggest is what the web app shows while a command is typed.
func (s *Server) suggest(c *call) (answer, error) {
	if !s.inTeam(c.user, c.path("team")) {
		return answer{}, forbidden()
	}
	list := []object{}
	for _, cmd := range s.commands {
		if cmd.Team == c.path("team") && cmd.AutoComplete && strings.HasPrefix(cmd.Trigger, strings.TrimPrefix(c.query("user_input"), "/")) {
			list = append(list, object{
				"Complete": cmd.Trigger, "Suggestion": cmd.Trigger, "Hint": cmd.Hint, "Description": cmd.AutoDescription, "IconData": cmd.Icon,
			})
		}
	}
	return ok(list), nil
}
