package gate

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// votes builds qualified votes from "identity group group".
func votes(lines ...[]string) (vs []QualifiedVote) {
	for _, l := range lines {
		vs = append(vs, QualifiedVote{l[0], l[1:]})
	}
	return vs
}

func TestQuorum(t *testing.T) {
	t.Parallel()

	type v = []string
	both := map[string]int{"sre": 1, "owners": 1}
	tests := map[string]struct {
		quorum   Quorum
		votes    []QualifiedVote
		met      bool
		progress Progress
	}{
		"nobody yet":                             {Quorum{Total: 1}, nil, false, Progress{0, 1, []string{"owners", "sre"}}},
		"one of one":                             {Quorum{Total: 1}, votes(v{"ann", "sre"}), true, Progress{1, 1, nil}},
		"one of two":                             {Quorum{Total: 2}, votes(v{"ann", "sre"}), false, Progress{1, 2, []string{"owners", "sre"}}},
		"two people of one group":                {Quorum{Total: 2}, votes(v{"ann", "sre"}, v{"bob", "sre"}), true, Progress{2, 2, nil}},
		"one person twice":                       {Quorum{Total: 2}, votes(v{"ann", "sre"}, v{"ann", "owners"}), false, Progress{1, 2, []string{"owners", "sre"}}},
		"more than it takes":                     {Quorum{Total: 1}, votes(v{"ann", "sre"}, v{"bob", "sre"}), true, Progress{1, 1, nil}},
		"a vote of another group":                {Quorum{Total: 1}, votes(v{"ann", "devs"}), false, Progress{0, 1, []string{"owners", "sre"}}},
		"a vote of no group":                     {Quorum{Total: 1}, votes(v{"ann"}), false, Progress{0, 1, []string{"owners", "sre"}}},
		"the requester where nobody admits them": {Quorum{Total: 1}, votes(v{"ann", "requester"}), false, Progress{0, 1, []string{"owners", "sre"}}},
		"no quorum at all is never met":          {Quorum{}, votes(v{"ann", "sre"}), false, Progress{0, 0, nil}},
		"one of each group":                      {Quorum{Per: both}, votes(v{"ann", "sre"}, v{"bob", "owners"}), true, Progress{2, 2, nil}},
		"two of the same group":                  {Quorum{Per: both}, votes(v{"ann", "sre"}, v{"bob", "sre"}), false, Progress{1, 2, []string{"owners"}}},
		"one in both groups fills one place":     {Quorum{Per: both}, votes(v{"ann", "sre", "owners"}), false, Progress{1, 2, []string{"owners", "sre"}}},
		"the only owner came first, for sre":     {Quorum{Per: both}, votes(v{"ann", "sre", "owners"}, v{"bob", "sre"}), true, Progress{2, 2, nil}},
		"the only owner came last":               {Quorum{Per: both}, votes(v{"bob", "sre"}, v{"ann", "owners", "sre"}), true, Progress{2, 2, nil}},
		"one person on two platforms, one place": {Quorum{Per: both}, votes(v{"ann", "sre"}, v{"ann", "owners"}), false, Progress{1, 2, []string{"owners", "sre"}}},
		"two places of a group take two":         {Quorum{Per: map[string]int{"sre": 2}}, votes(v{"ann", "sre"}), false, Progress{1, 2, []string{"sre"}}},
		"a group without places does not help":   {Quorum{Per: map[string]int{"sre": 1}}, votes(v{"ann", "owners"}), false, Progress{0, 1, []string{"sre"}}},
		"an empty list of places is never met":   {Quorum{Per: map[string]int{}}, votes(v{"ann", "sre"}), false, Progress{0, 0, nil}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			r := &Rule{Groups: []*Group{{Name: "owners"}, {Name: "sre"}}, Quorum: tt.quorum}
			if got := r.Met(tt.votes); got != tt.met {
				t.Errorf("met = %t, want %t", got, tt.met)
			}
			if diff := cmp.Diff(tt.progress, r.Progress(tt.votes)); diff != "" {
				t.Errorf("progress (-want +got):\n%s", diff)
			}
		})
	}

	r := &Rule{Groups: []*Group{{Name: "sre"}}, AdmitsRequester: true, Quorum: Quorum{Per: map[string]int{"sre": 1, "requester": 1}}}
	if !r.Met(votes(v{"ann", "requester"}, v{"bob", "sre"})) || r.Met(votes(v{"ann", "requester", "sre"})) {
		t.Error("the word requester is not counted as a group of its own")
	}
}

// TestPlacesAreFilledAsWellAsPossible compares with trying every seating.
func TestPlacesAreFilledAsWellAsPossible(t *testing.T) {
	t.Parallel()

	names := []string{"a", "b", "c"}
	rapid.Check(t, func(t *rapid.T) {
		r := &Rule{Quorum: Quorum{Per: map[string]int{}}}
		for _, n := range names {
			r.Groups = append(r.Groups, &Group{Name: n})
			if places := rapid.IntRange(0, 2).Draw(t, n); places > 0 {
				r.Quorum.Per[n] = places
			}
		}
		var vs []QualifiedVote
		for i := range rapid.IntRange(0, 6).Draw(t, "people") {
			in := rapid.SliceOfDistinct(rapid.SampledFrom(names), rapid.ID).Draw(t, "in")
			vs = append(vs, QualifiedVote{fmt.Sprint("p", i), in})
		}
		if got, want := r.filled(vs), best(maps.Clone(r.Quorum.Per), vs); got != want {
			t.Fatalf("%v of %v fill %d places, want %d", vs, r.Quorum.Per, got, want)
		}
	})
}

func best(free map[string]int, vs []QualifiedVote) int {
	if len(vs) == 0 {
		return 0
	}
	most := best(free, vs[1:]) // the first one stays standing
	for _, g := range vs[0].Groups {
		if free[g] > 0 {
			free[g]--
			most = max(most, 1+best(free, vs[1:]))
			free[g]++
		}
	}
	return most
}

func TestListedCountsPeopleNotKeys(t *testing.T) {
	t.Parallel()

	g := &Group{Members: []Members{
		keyMembers{"key:ann-cli": "person:ann", "key:ann-web": "person:ann"},
		keyMembers{"key:bob": "key:bob"},
	}}
	ids, complete := g.Listed()
	if !slices.Equal(ids, []string{"key:bob", "person:ann"}) || !complete {
		t.Errorf("listed %q, complete %t", ids, complete)
	}
	g.Members = append(g.Members, membersFunc(nil))
	if _, complete := g.Listed(); complete {
		t.Error("a group with a look-up is never fully listed")
	}
}
