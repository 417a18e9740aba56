package gate

import (
	"context"
	"maps"
	"slices"
	"strings"
)

// Platform is a chat platform, as far as a policy names what is on it.
type Platform interface {
	// Has reports whether a voter ("mattermost:<id>") is in what the platform keeps.
	// It may remember that for a minute; an error means that nobody knows.
	Has(ctx context.Context, r Roster, voter string) (bool, error)
	// Members lists their voter ids, for telling people and never for what they may
	// do: where the platform shows no more it is not all of them.
	Members(ctx context.Context, r Roster) ([]string, error)
	// Check says what is wrong with an id in the configuration.
	Check(kind IDKind, id string) error
	// Named reports whether an account is written as a name, which somebody else may
	// have tomorrow, instead of as its id. See Policy.Pin.
	Named(account string) bool
}

// Roster is people whom a platform keeps together: those in a user group, or the
// members of a conversation.
type Roster struct {
	Kind IDKind // KindUserGroup or KindConversation
	ID   string // as the configuration has it
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
				ids = append(ids, m.accounts()...)
			}
		case rosterMembers:
			if m.platform == platform {
				voters, _ := m.chat.Members(ctx, m.roster) // who is not known is not told
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
	ID       string // "U1", "T2/U1", "S1"; or a name, as the configuration has it
}

// Mentions returns who of the group can be called where: the accounts that are
// listed, and groups by their own id. Who is in a conversation cannot be called
// together. It asks no platform.
func (g *Group) Mentions() (all []Mention) {
	for _, m := range g.Members {
		switch m := m.(type) {
		case userMembers:
			for _, id := range m.listed {
				all = append(all, Mention{m.platform, KindUser, id})
			}
		case rosterMembers:
			if m.roster.Kind == KindUserGroup {
				all = append(all, Mention{m.platform, KindUserGroup, m.roster.ID})
			}
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

// userMembers are accounts of a platform that are listed one by one: by id ("U1" of
// the workspace that the bot is in, "T2/U1" of another), or by a name. Whoever is
// listed by id belongs, a guest or an outsider too. A name admits the full member
// whose id it is pinned to, and until then nobody.
type userMembers struct {
	platform string
	listed   []string // sorted
	people   *people
}

func newUserMembers(platform string, ids []string, w *people) userMembers {
	u := userMembers{platform, slices.Compact(slices.Sorted(slices.Values(ids))), w}
	for _, id := range u.listed {
		w.mention(platform + ":" + id)
	}
	return u
}

// Has implements Members.
func (u userMembers) Has(_ context.Context, v Voter) (bool, error) {
	id, ours := strings.CutPrefix(v.ID, u.platform+":")
	return ours && slices.ContainsFunc(u.listed, func(l string) bool { return u.is(l, id, v) }), nil
}

// is reports whether what is listed means a voter of that id.
func (u userMembers) is(listed, id string, v Voter) bool {
	if account := u.platform + ":" + listed; u.people.named(account) {
		return v.Account == Member && u.people.now().pins[account] == v.ID
	}
	return listed == id || listed == userPart(v.ID) && v.Account != Outsider
}

// accounts are the ids of those listed. Who is known by name alone has none.
func (u userMembers) accounts() (ids []string) {
	for _, l := range u.listed {
		id := u.people.resolve(u.platform + ":" + l)
		if !u.people.named(id) {
			ids = append(ids, strings.TrimPrefix(id, u.platform+":"))
		}
	}
	return ids
}

// Listed implements Members.
func (u userMembers) Listed() (identities []string, complete bool) {
	for _, l := range u.listed {
		account := u.platform + ":" + l
		identities = append(identities, Voter{ID: u.people.resolve(account), Person: u.people.ownerOf(account)}.Identity())
	}
	return identities, true
}

// rosterMembers are those of a list that a platform keeps. A guest or an outsider
// whom somebody put there does not belong.
type rosterMembers struct {
	platform string
	roster   Roster
	chat     Platform
}

// Has implements Members.
func (r rosterMembers) Has(ctx context.Context, v Voter) (bool, error) {
	if platform(v.ID) != r.platform || v.Account != Member {
		return false, nil
	}
	return r.chat.Has(ctx, r.roster, v.ID)
}

// Listed implements Members. Who is in it the platform knows.
func (rosterMembers) Listed() ([]string, bool) { return nil, false }

// mailMembers are listed by e-mail addresses, in lower case: whoever's platform says
// that it has verified the address is theirs. It takes a full member's account: who
// lets guests in is not asked about their addresses.
type mailMembers struct {
	addresses []string
	people    *people
}

// Has implements Members.
func (m mailMembers) Has(_ context.Context, v Voter) (bool, error) {
	return v.Account == Member && v.Email != "" && slices.Contains(m.addresses, strings.ToLower(v.Email)), nil
}

// Listed implements Members.
func (m mailMembers) Listed() (identities []string, complete bool) {
	for _, address := range m.addresses {
		identities = append(identities, Voter{Person: m.people.holder(address)}.Identity())
	}
	return identities, true
}

// platform is what a voter id begins with: "slack" of "slack:T1/U1".
func platform(id string) string { p, _, _ := strings.Cut(id, ":"); return p }
