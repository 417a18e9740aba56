package mattermosttest

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// Command is a slash command.
type Command struct {
	ID      string // empty: the double makes one
	Team    string // empty means [Team]
	Trigger string
	URL     string
	Method  string // "P" post or "G" get; empty means "P"
	Creator string // empty means [Admin]
	Token   string // empty: the double makes one

	Username, Icon, Display, Description string
	AutoComplete                         bool
	Hint, AutoDescription                string

	createdAt, updatedAt int64
}

// AddCommand adds a slash command and returns its token.
func (s *Server) AddCommand(c Command) (token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.addCommand(c).Token
}

func (s *Server) addCommand(c Command) *Command {
	set := func(field *string, otherwise string) {
		if *field == "" {
			*field = otherwise
		}
	}
	set(&c.ID, NewID())
	set(&c.Team, Team)
	set(&c.Method, "P")
	c.Method = c.Method[:1] // "POST" is "P"
	set(&c.Creator, Admin)
	set(&c.Token, NewID())
	c.createdAt = s.millis()
	c.updatedAt = c.createdAt
	s.commands = append(s.commands, &c)
	return &c
}

// Commands returns the slash commands that there are.
func (s *Server) Commands() []Command {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []Command
	for _, c := range s.commands {
		all = append(all, *c)
	}
	return all
}

// SetCommandRight lets somebody manage slash commands, which only admins may from
// the start.
func (s *Server) SetCommandRight(user string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.makers[user] = true
}

// commandJSON is a command as clients read and write it.
type commandJSON struct {
	ID          string `json:"id"`
	Token       string `json:"token"`
	CreatedAt   int64  `json:"create_at"`
	UpdatedAt   int64  `json:"update_at"`
	DeletedAt   int64  `json:"delete_at"`
	Creator     string `json:"creator_id"`
	Team        string `json:"team_id"`
	Trigger     string `json:"trigger"`
	Method      string `json:"method"`
	Username    string `json:"username"`
	Icon        string `json:"icon_url"`
	Auto        bool   `json:"auto_complete"`
	AutoDesc    string `json:"auto_complete_desc"`
	AutoHint    string `json:"auto_complete_hint"`
	Display     string `json:"display_name"`
	Description string `json:"description"`
	URL         string `json:"url"`
	Plugin      string `json:"plugin_id"`
}

func (c *Command) wire(withToken bool) commandJSON {
	j := commandJSON{
		ID: c.ID, Token: c.Token, CreatedAt: c.createdAt, UpdatedAt: c.updatedAt, Creator: c.Creator, Team: c.Team,
		Trigger: c.Trigger, Method: c.Method, Username: c.Username, Icon: c.Icon, Auto: c.AutoComplete,
		AutoDesc: c.AutoDescription, AutoHint: c.Hint, Display: c.Display, Description: c.Description, URL: c.URL,
	}
	if !withToken {
		j.Token = ""
	}
	return j
}

func (c *Command) take(j commandJSON) {
	c.Trigger, c.Method, c.URL = strings.ToLower(j.Trigger), j.Method, j.URL
	c.Username, c.Icon, c.Display, c.Description = j.Username, j.Icon, j.Display, j.Description
	c.AutoComplete, c.Hint, c.AutoDescription = j.Auto, j.AutoHint, j.AutoDesc
}

// managesCommands reports whether somebody may make and read slash commands.
func (s *Server) managesCommands(u *user, team string) bool {
	return u.Admin || s.makers[u.ID] && s.member(u.ID, team)
}

func (s *Server) commandsOn() error {
	if !s.config.NoCommands {
		return nil
	}
	return refuse(http.StatusNotImplemented, "api.command.disabled.app_error", "Commands have been disabled by the system admin.")
}

var triggers = regexp.MustCompile(`^[^/\s][^\s]{0,127}$`)

// commandProblem says what is wrong with a command.
func (s *Server) commandProblem(j commandJSON, self string) error {
	bad := func(id, message string) error { return refuse(http.StatusBadRequest, id, message) }
	switch {
	case !triggers.MatchString(j.Trigger):
		return bad("model.command.is_valid.trigger.app_error", "Invalid trigger.")
	case !slices.Contains([]string{"P", "G"}, j.Method):
		return bad("model.command.is_valid.method.app_error", "Invalid Method.")
	case len(j.URL) > 1024 || !strings.HasPrefix(j.URL, "http://") && !strings.HasPrefix(j.URL, "https://"):
		return bad("model.command.is_valid.url_http.app_error", "Invalid URL. Must be a valid URL and start with http:// or https://.")
	}
	for _, c := range s.commands {
		if c.Team == j.Team && c.Trigger == strings.ToLower(j.Trigger) && c.ID != self {
			return bad("api.command.duplicate_trigger.app_error", "This trigger word is already in use. Please choose another word.")
		}
	}
	return nil
}

func (s *Server) createCommand(c *call) (answer, error) {
	var j commandJSON
	if err := c.read("command", &j); err != nil {
		return answer{}, err
	}
	if !s.managesCommands(c.user, j.Team) {
		return answer{}, forbidden()
	}
	if err := s.commandsOn(); err != nil {
		return answer{}, err
	}
	if err := s.commandProblem(j, ""); err != nil {
		return answer{}, err
	}
	made := Command{Team: j.Team, Creator: c.user.ID}
	made.take(j)
	return created(s.addCommand(made).wire(true)), nil
}

func (s *Server) listCommands(c *call) (answer, error) {
	team := c.query("team_id")
	if !s.inTeam(c.user, team) {
		return answer{}, forbidden()
	}
	custom := c.query("custom_only") == "true"
	if custom && !s.managesCommands(c.user, team) {
		return answer{}, forbidden()
	}
	list := []commandJSON{}
	for _, cmd := range s.commands {
		if cmd.Team == team && (custom || cmd.AutoComplete) {
			list = append(list, cmd.wire(s.managesCommands(c.user, team)))
		}
	}
	return ok(list), nil
}

// commandNamed returns the command in a path to those who may manage it.
func (s *Server) commandNamed(c *call) (*Command, error) {
	missing := refuse(http.StatusNotFound, "store.sql_command.get.missing.app_error", "Command does not exist.")
	for _, cmd := range s.commands {
		if cmd.ID != c.path("command") {
			continue
		}
		switch {
		case s.managesCommands(c.user, cmd.Team):
			return cmd, nil
		case s.inTeam(c.user, cmd.Team):
			return nil, forbidden()
		}
	}
	return nil, missing
}

func (s *Server) updateCommand(c *call) (answer, error) {
	var j commandJSON
	if err := c.read("command", &j); err != nil {
		return answer{}, err
	}
	if j.ID != c.path("command") {
		return answer{}, invalidBody("command_id")
	}
	cmd, err := s.commandNamed(c)
	if err != nil {
		return answer{}, err
	}
	if j.Team != cmd.Team {
		return answer{}, refuse(http.StatusBadRequest, "api.command.team_mismatch.app_error", "Unable to update commands across teams.")
	}
	if err := s.commandProblem(j, cmd.ID); err != nil {
		return answer{}, err
	}
	cmd.take(j)
	cmd.updatedAt = s.millis()
	return ok(cmd.wire(true)), nil
}

func (s *Server) regenCommand(c *call) (answer, error) {
	cmd, err := s.commandNamed(c)
	if err != nil {
		return answer{}, err
	}
	cmd.Token, cmd.updatedAt = NewID(), s.millis()
	return ok(object{"token": cmd.Token}), nil
}
