package gate

import "context"

// RequesterWord among a rule's approvers admits the person behind the call; it
// also stands for them where groups are named.
const RequesterWord = "requester"

// Group is a set of people who may approve.
type Group struct {
	Name    string
	Members []Members
}

// Members is one way to belong to a group.
type Members interface {
	// Has reports whether v belongs. An error means nobody knows.
	Has(ctx context.Context, v Voter) (bool, error)
	// Listed returns the identities that the configuration itself names;
	// complete says that there are no others.
	Listed() (identities []string, complete bool)
}

// Quorum is how many approvals it takes: Total of any groups, or, where Per is
// set, a number of each group, one person filling one place.
type Quorum struct {
	Total int
	Per   map[string]int
}

// QualifiedVote is an approval that counts, and the groups its voter is in.
type QualifiedVote struct {
	Identity string
	Groups   []string
}

// Qualify returns the names of the rule's groups that v is in. An error of one
// group does not matter if another admits; otherwise it is returned.
func (r *Rule) Qualify(ctx context.Context, v Voter) ([]string, error) { return nil, nil }

// Met reports whether the votes make the quorum.
func (r *Rule) Met(votes []QualifiedVote) bool { return false }

// Missing says how far the votes are and whose are wanted: "1 of 2 (sre)".
func (r *Rule) Missing(votes []QualifiedVote) string { return "" }
