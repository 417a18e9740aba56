package gate

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// RequesterWord among a rule's approvers admits the person behind the call. In
// votes and quorums it stands for them as if it were a group.
const RequesterWord = "requester"

// Group is a set of people who may approve.
type Group struct {
	Name    string
	Members []Members

	configured []string // its members as the configuration lists them, sorted
}

// Has reports whether v belongs to the group. An error of one kind of members
// does not matter if another has v.
func (g *Group) Has(ctx context.Context, v Voter) (bool, error) {
	var errs []error
	for _, m := range g.Members {
		has, err := m.Has(ctx, v)
		if has && err == nil {
			return true, nil
		}
		errs = append(errs, err)
	}
	return false, errors.Join(errs...)
}

// Listed returns the identities known to belong, and whether these are all.
func (g *Group) Listed() (identities []string, complete bool) {
	complete = true
	for _, m := range g.Members {
		ids, all := m.Listed()
		identities, complete = append(identities, ids...), complete && all
	}
	slices.Sort(identities)
	return slices.Compact(identities), complete
}

// Qualify returns the names of the rule's groups that v is in. An error of one
// group does not matter if another admits; otherwise it is returned.
func (r *Rule) Qualify(ctx context.Context, v Voter) ([]string, error) {
	var (
		names []string
		errs  []error
	)
	for _, g := range r.Groups {
		has, err := g.Has(ctx, v)
		if err != nil {
			errs = append(errs, fmt.Errorf("group %s: %w", g.Name, err))
		} else if has {
			names = append(names, g.Name)
		}
	}
	if len(names) > 0 {
		return names, nil
	}
	return nil, errors.Join(errs...)
}

// Quorum is how many approvals it takes: Total of any groups or, where Per is
// set, a number of each group, one person filling one place. The zero value is
// a quorum that nobody can meet.
type Quorum struct {
	Total int
	Per   map[string]int
}

// Needed returns how many people it takes.
func (q Quorum) Needed() int {
	n := q.Total
	for _, places := range q.Per {
		n += places
	}
	return n
}

// QualifiedVote is an approval that counts, and the groups its voter is in.
type QualifiedVote struct {
	Identity string
	Groups   []string
}

// Met reports whether the votes make the quorum.
func (r *Rule) Met(votes []QualifiedVote) bool {
	return r.Quorum.Needed() > 0 && r.filled(votes) == r.Quorum.Needed()
}

// Progress says how far the votes are, and of which groups more are wanted.
func (r *Rule) Progress(votes []QualifiedVote) Progress {
	filled := r.filled(votes)
	var wanted []string
	for _, name := range r.groupNames() {
		if r.filled(append(slices.Clip(votes), QualifiedVote{"\x00", []string{name}})) > filled {
			wanted = append(wanted, name)
		}
	}
	return Progress{Have: filled, Need: r.Quorum.Needed(), Groups: wanted}
}

// groupNames returns whose votes count, RequesterWord last.
func (r *Rule) groupNames() []string {
	names := make([]string, 0, len(r.Groups)+1)
	for _, g := range r.Groups {
		names = append(names, g.Name)
	}
	if r.AdmitsRequester {
		names = append(names, RequesterWord)
	}
	return names
}

// filled returns how many places of the quorum the votes fill.
func (r *Rule) filled(votes []QualifiedVote) int {
	groups := map[string]map[string]bool{} // of each identity, whatever it voted with
	for _, v := range votes {
		for _, name := range v.Groups {
			if !slices.Contains(r.groupNames(), name) {
				continue
			}
			if groups[v.Identity] == nil {
				groups[v.Identity] = map[string]bool{}
			}
			groups[v.Identity][name] = true
		}
	}
	if r.Quorum.Per == nil {
		return min(len(groups), r.Quorum.Total)
	}
	return assign(r.Quorum.Per, groups)
}

// assign fills as many places as it can, one per person: a maximum bipartite
// matching by augmenting paths. First come, first served would not do: Ann may
// be the only owner and also one of the many of sre.
func assign(places map[string]int, groups map[string]map[string]bool) int {
	var seats []string // the group of each place
	for name, n := range places {
		seats = append(seats, slices.Repeat([]string{name}, n)...)
	}
	sitting := make([]string, len(seats))
	var seat func(person string, tried []bool) bool
	seat = func(person string, tried []bool) bool {
		for i, name := range seats {
			if tried[i] || !groups[person][name] {
				continue
			}
			tried[i] = true
			if sitting[i] == "" || seat(sitting[i], tried) {
				sitting[i] = person
				return true
			}
		}
		return false
	}
	filled := 0
	for person := range groups {
		if seat(person, make([]bool, len(seats))) {
			filled++
		}
	}
	return filled
}
