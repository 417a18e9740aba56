package gate

import "slices"

// Platforms are the chats that some of a group are on, by name. Who is listed by an
// e-mail address may be on any.
func (g *Group) Platforms() (names []string) {
	for _, m := range g.Members {
		switch m := m.(type) {
		case userMembers:
			names = append(names, m.platform)
		case rosterMembers:
			names = append(names, m.platform)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Rosters are the lists of a platform on which it rests who may decide: where one
// cannot be read, nobody is taken to be on it.
func (p *Policy) Rosters(platform string) (all []Roster) {
	rules := p.Rules()
	if d := p.Discretionary(); d != nil {
		rules = append(slices.Clone(rules), d)
	}
	for _, r := range rules {
		for _, g := range r.Groups {
			for _, m := range g.Members {
				if m, ok := m.(rosterMembers); ok && m.platform == platform && !slices.Contains(all, m.roster) {
					all = append(all, m.roster)
				}
			}
		}
	}
	return all
}
