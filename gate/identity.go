package gate

import (
	"slices"
	"time"
)

// Requester is who asks for a call. Key is proven; the rest is what the holder
// of the key says, and Person only where the key may assert one.
type Requester struct {
	Key      string `json:"key"`
	Agent    string `json:"agent,omitempty"`
	Run      string `json:"run,omitempty"`
	Session  string `json:"session,omitempty"`
	Person   string `json:"person,omitempty"`
	Attended bool   `json:"attended,omitempty"` // somebody waits for the answer
}

// Same reports whether r and o are the same requester: the same API key, agent
// and person together. Runs and sessions come and go.
func (r Requester) Same(o Requester) bool {
	return r.Key == o.Key && r.Agent == o.Agent && r.Person == o.Person
}

// Role is what an API key may do.
type Role string

// The roles.
const (
	RoleAgent    Role = "agent"    // asks, consumes and reports
	RoleApprover Role = "approver" // decides
	RoleWorker   Role = "worker"   // claims and runs approved calls
	RoleAuditor  Role = "auditor"  // reads everything, changes nothing
	RoleAdmin    Role = "admin"    // bypasses, resets and confirmations; never decides
)

// Principal is an authenticated holder of an API key, or a person logged in by
// one. The zero value may do nothing.
type Principal struct {
	Key    string // name of the key
	Roles  []Role
	Person string // for approvers, and for agents that always act for one person
}

// Voter is a person who wants to decide: a stable id on the surface they use,
// never a display name, which people can change.
type Voter struct {
	ID      string // "key:ann-cli", "slack:T1/U1"
	Name    string // for display, as it was at the time
	Person  string // name from the people map, else the verified mailbox; empty if nobody knows
	Surface string // "api", "cli", "console", "slack", "mattermost"
	Login   string // how they proved it: "key", "oidc", "platform"

	Account Account `json:"-"` // as the platform had it at this moment
	Email   string  `json:"-"` // that the platform itself has verified, lower case; empty if it has not, or does not say
}

// Account is what a platform says of somebody's account. The zero value is a full
// member of the workspace that the bot is in.
type Account string

// The accounts.
const (
	Member      Account = ""
	Guest       Account = "guest"       // decides only where a group lists them by id
	Outsider    Account = "outsider"    // of another workspace or company; the same
	Bot         Account = "bot"         // never decides
	Deactivated Account = "deactivated" // never decides
)

// Identity is the one name a voter's votes are counted under: the person if
// known, so that one human on two platforms is one approver. It is the store's key of
// a vote; who is the same human as whom the policy says, see self.
func (v Voter) Identity() string {
	if v.Person != "" {
		return "person:" + v.Person
	}
	return v.ID
}

// Choice is what a voter says. The zero value is no choice.
type Choice string

// The choices.
const (
	Approve     Choice = "approve"
	Deny        Choice = "deny"
	NeedContext Choice = "needs_more_context"
)

// Scope is how far an approval reaches. The zero value means Once.
type Scope string

// The scopes, narrowest first.
const (
	Once    Scope = "once"    // this call, this time
	Session Scope = "session" // what is printed beside it, for the rest of the requester's session
	Always  Scope = "always"  // also in later sessions, until it expires or is revoked
)

// Vote is one person's recorded choice. MAC is the server's signature over the
// approval's id and digest and over every field but At and the display name:
// who can write Redis but lacks the server key cannot vote.
type Vote struct {
	Voter  Voter     `json:"voter"`
	Groups []string  `json:"groups"` // that qualified it; "requester" if that word did
	Choice Choice    `json:"choice"`
	Scope  Scope     `json:"scope,omitempty"`
	Reason string    `json:"reason,omitempty"`
	Nonce  string    `json:"nonce"` // of the press, so that a repeated one is recognised
	At     time.Time `json:"at"`    // in the store's clock, to within a round trip
	MAC    []byte    `json:"mac"`
}

// Has reports whether the principal's key has a role.
func (p Principal) Has(r Role) bool { return slices.Contains(p.Roles, r) }

// reads reports whether the principal may see other people's approvals.
func (p Principal) reads() bool {
	return p.Has(RoleApprover) || p.Has(RoleAuditor) || p.Has(RoleAdmin)
}

// Voter is the principal as somebody who decides, on the given surface.
func (p Principal) Voter(surface string) Voter {
	name := p.Person
	if name == "" {
		name = p.Key
	}
	return Voter{ID: "key:" + p.Key, Name: name, Person: p.Person, Surface: surface, Login: "key"}
}
