package mattermosttest

import (
	"net/http"
	"slices"
	"strings"
)

// Group is a group of people, which licensed servers have.
type Group struct {
	ID, Name string
	Source   string // "custom" or "ldap"; "" means "custom"
	Members  []string
	Deleted  bool
}

// AddGroup adds a group.
func (s *Server) AddGroup(g Group) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if g.Source == "" {
		g.Source = "custom"
	}
	s.groups = append(s.groups, &g)
}

func (s *Server) groupWire(g *Group) object {
	deleted := int64(0)
	if g.Deleted {
		deleted = s.millis()
	}
	return object{
		"id": g.ID, "name": g.Name, "display_name": g.Name, "description": "", "source": g.Source, "remote_id": nil,
		"create_at": 1, "update_at": 1, "delete_at": deleted, "has_syncables": false, "allow_reference": true,
		"member_count": len(g.Members),
	}
}

func (s *Server) licensed() error {
	if s.config.Licensed {
		return nil
	}
	return refuse(http.StatusNotImplemented, "api.license_error", "Your license does not support this feature.")
}

// readable returns a group whose members somebody may see. Those of LDAP groups
// are for admins.
func (s *Server) readable(u *user, id string) (*Group, error) {
	if err := s.licensed(); err != nil {
		return nil, err
	}
	i := slices.IndexFunc(s.groups, func(g *Group) bool { return g.ID == id })
	switch {
	case i < 0:
		return nil, refuse(http.StatusNotFound, "app.group.no_rows", "No matching group found.")
	case s.groups[i].Source == "ldap" && !u.Admin:
		return nil, forbidden()
	}
	return s.groups[i], nil
}

func (s *Server) getGroup(c *call) (answer, error) {
	g, err := s.readable(c.user, c.path("group"))
	if err != nil {
		return answer{}, err
	}
	return ok(s.groupWire(g)), nil
}

func (s *Server) groupMembers(c *call) (answer, error) {
	g, err := s.readable(c.user, c.path("group"))
	if err != nil {
		return answer{}, err
	}
	all := s.usersOf(c, func(u *user) bool { return u.deletedAt == 0 && slices.Contains(g.Members, u.ID) })
	return ok(object{"members": page(c, all, 60), "total_member_count": len(all)}), nil
}

func (s *Server) listGroups(c *call) (answer, error) {
	if err := s.licensed(); err != nil {
		return answer{}, err
	}
	return ok(page(c, s.groupsWith(func(g *Group) bool {
		member := c.query("filter_has_member")
		source := c.query("group_source")
		return !g.Deleted && strings.Contains(g.Name, c.query("q")) &&
			(member == "" || slices.Contains(g.Members, member)) && (source == "" || source == g.Source)
	}), 60)), nil
}

func (s *Server) groupsWith(is func(*Group) bool) []object {
	list := []object{}
	for _, g := range s.groups {
		if is(g) {
			list = append(list, s.groupWire(g))
		}
	}
	return list
}

// groupsOfUser tells people of their own groups, and only admins of others'.
func (s *Server) groupsOfUser(c *call) (answer, error) {
	if err := s.licensed(); err != nil {
		return answer{}, err
	}
	u, err := s.userNamed(c)
	if err != nil {
		return answer{}, err
	}
	if u != c.user && !c.user.Admin {
		return answer{}, forbidden()
	}
	return ok(s.groupsWith(func(g *Group) bool { return slices.Contains(g.Members, u.ID) })), nil
}
