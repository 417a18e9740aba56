package gate

import (
	"context"
	"maps"
	"slices"
	"strings"
)

// Platform is a chat platform, as far as a policy names what is on it.
type Platform interface {
	// Members returns the voter ids of those in a group that the platform keeps.
	// It may remember them for a minute; an error means that nobody knows.
	Members(ctx context.Context, group string) ([]string, error)
	// Check says what is wrong with an id in the configuration.
	Check(kind IDKind, id string) error
}

// IDKind is what an id of a platform names.
type IDKind string

// What ids name.
const (
	KindUser         IDKind = "user"
	KindUserGroup    IDKind = "user group"
	KindConversation IDKind = "conversation"
)

// Members is one way to belong to a group.
type Members interface {
	// Has reports whether v belongs. An error means that nobody knows.
	Has(ctx context.Context, v Voter) (bool, error)
	// Listed returns the identities (Voter.Identity) that are known to belong;
	// complete says that there are no others.
	Listed() (identities []string, complete bool)
}

// Accounts returns the accounts of a platform that are in the group as far as
// anybody knows, "U1" or "T2/U1": for telling people, never for what they may do.
func (g *Group) Accounts(ctx context.Context, platform string) (ids []string) {
	for _, m := range g.Members {
		switch m := m.(type) {
		case userMembers:
			if m.platform == platform {
				ids = append(ids, slices.Sorted(maps.Keys(m.ids))...)
			}
		case rosterMembers:
			if m.platform == platform {
				voters, _ := m.roster.Members(ctx, m.group) // who is not known is not told
				for _, id := range voters {
					ids = append(ids, strings.TrimPrefix(id, platform+":"))
				}
			}
		}
	}
	return ids
}

// Mention is somebody whom a platform can call, or a group that it keeps.
type Mention struct {
	Platform string
	Kind     IDKind
	ID       string // "U1", "T2/U1", "S1"
}

// Mentions returns who of the group can be called where: the accounts that are
// listed by id, and groups by their own. It asks no platform.
func (g *Group) Mentions() (all []Mention) {
	for _, m := range g.Members {
		switch m := m.(type) {
		case userMembers:
			for _, id := range slices.Sorted(maps.Keys(m.ids)) {
				all = append(all, Mention{m.platform, KindUser, id})
			}
		case rosterMembers:
			all = append(all, Mention{m.platform, KindUserGroup, m.group})
		}
	}
	return all
}

// keyMembers are holders of approver keys: identities by voter id ("key:ann").
type keyMembers map[string]string

// Has implements Members.
func (k keyMembers) Has(_ context.Context, v Voter) (bool, error) {
	_, ok := k[v.ID]
	return ok, nil
}

// Listed implements Members.
func (k keyMembers) Listed() ([]string, bool) { return slices.Collect(maps.Values(k)), true }

// userMembers are accounts of a platform that are listed by id, and the person
// each belongs to: "U1" of the workspace that the bot is in, "T2/U1" of another.
// Whoever is named like this belongs, a guest or an outsider too.
type userMembers struct {
	platform string
	ids      map[string]string
}

// Has implements Members.
func (u userMembers) Has(_ context.Context, v Voter) (bool, error) {
	id, ours := strings.CutPrefix(v.ID, u.platform+":")
	if !ours {
		return false, nil
	}
	if _, whole := u.ids[id]; whole {
		return true, nil
	}
	_, short := u.ids[id[strings.LastIndexByte(id, '/')+1:]]
	return short && v.Account != Outsider, nil
}

// Listed implements Members.
func (u userMembers) Listed() (identities []string, complete bool) {
	for id, person := range u.ids {
		identities = append(identities, Voter{ID: u.platform + ":" + id, Person: person}.Identity())
	}
	return identities, true
}

// rosterMembers are those of a group that a platform keeps. A guest or an outsider
// whom somebody put there does not belong.
type rosterMembers struct {
	platform, group string
	roster          Platform
}

// Has implements Members.
func (r rosterMembers) Has(ctx context.Context, v Voter) (bool, error) {
	if platform(v.ID) != r.platform || v.Account != Member {
		return false, nil
	}
	ids, err := r.roster.Members(ctx, r.group)
	return slices.Contains(ids, v.ID), err
}

// Listed implements Members. Who is in it the platform knows.
func (rosterMembers) Listed() ([]string, bool) { return nil, false }

// platform is what a voter id begins with: "slack" of "slack:T1/U1".
func platform(id string) string { p, _, _ := strings.Cut(id, ":"); return p }
