package gate

import (
	"context"
	"slices"
	"strings"
	"time"
)

// Grant is standing permission: it lets later calls of the same requester pass
// without asking, if they are what the approver saw printed.
type Grant struct {
	ID        string    `json:"id"` // "grt_" and a ULID
	Approval  ID        `json:"approval"`
	Scope     Scope     `json:"scope"` // Session or Always
	Requester Requester `json:"requester"`
	Rule      string    `json:"rule"`
	Version   Version   `json:"version"`
	// Covers: with a target, every call of this tool on this target under the
	// same rule; without one, exactly this call.
	Server string `json:"server,omitempty"`
	Tool   string `json:"tool"`
	Target string `json:"target,omitempty"`
	Digest Digest `json:"digest"`

	By          string    `json:"by"`
	Created     time.Time `json:"created"`
	Expires     time.Time `json:"expires"`
	MaxUses     int       `json:"max_uses,omitempty"` // 0: no limit
	Incarnation string    `json:"incarnation"`
	MAC         []byte    `json:"mac"`

	Uses int `json:"-"` // counted by the store, not signed
}

// Version is the fingerprint of a rule or of a whole policy, bare hex. The zero
// value equals no policy.
type Version string

// grantFor is how long a grant lives; maxBypass how long a session's bypass may.
const (
	grantFor  = 30 * 24 * time.Hour
	maxBypass = 8 * time.Hour
)

var scopeOrder = []Scope{Once, Session, Always}

// newGrant makes the grant that these votes add up to: the narrowest scope among
// them. It returns nil for Once, which leaves nothing behind.
func (g *Gate) newGrant(s *Snapshot, rule *Rule, votes []Vote) *Grant {
	scope := Always
	var by []string
	for _, v := range votes {
		if slices.Index(scopeOrder, v.Scope) < slices.Index(scopeOrder, scope) {
			scope = v.Scope
		}
		by = append(by, v.Voter.Name)
	}
	if scope != Session && scope != Always {
		return nil
	}
	gr := &Grant{
		ID: newID("grt_"), Approval: s.ID, Scope: scope, Requester: s.Requester, Rule: rule.Name, Version: rule.Version,
		Server: s.Call.Server, Tool: s.Call.Tool, Target: s.Call.Target, Digest: s.Digest,
		By: strings.Join(by, ", "), Created: s.Now, Expires: s.Now.Add(grantFor), Incarnation: s.Incarnation,
	}
	gr.Requester.Run = ""
	g.keys.signGrant(gr)
	return gr
}

// Covers describes what a grant on this call would let pass, in words for the
// approver. It and covers must say the same.
func (s *Subject) Covers() string {
	if s.Call.Target == "" {
		return "exactly this call"
	}
	return "any " + s.Call.Tool + " on " + s.Call.Target
}

// covers reports whether a grant lets this call pass under the present policy.
func (g *Gate) covers(gr *Grant, c *check) bool {
	now := c.holdings.Now
	switch {
	case !gr.Requester.Same(c.Requester), gr.Rule != c.rule.Name, gr.Version != c.rule.Version:
		return false
	case !c.rule.Grants(gr.Scope): // the policy stopped allowing it
		return false
	case gr.Scope == Session && gr.Requester.Session != c.Requester.Session: // whether it is over the store looks
		return false
	case gr.Incarnation != c.holdings.Incarnation, !now.Before(gr.Expires), !g.keys.grantGenuine(gr):
		return false
	case gr.Target == "":
		return gr.Digest == c.digest
	}
	return gr.Server == c.Call.Server && gr.Tool == c.Call.Tool && gr.Target == c.Call.Target
}

// Grants lists the standing permissions of everyone.
func (g *Gate) Grants(ctx context.Context, p Principal) ([]Grant, error) {
	if !p.reads() {
		return nil, g.notAllowed(p, "list grants")
	}
	return g.store.Grants(ctx)
}

// RevokeGrant ends a grant.
func (g *Gate) RevokeGrant(ctx context.Context, p Principal, id string) error {
	if !p.Has(RoleApprover) && !p.Has(RoleAdmin) {
		return g.notAllowed(p, "revoke a grant")
	}
	return g.store.RevokeGrant(ctx, id, p.Key)
}

// RevokeGrantAs ends a grant for a person who holds no API key.
func (g *Gate) RevokeGrantAs(ctx context.Context, v Voter, id string) error {
	grants, err := g.store.Grants(ctx)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(grants, func(gr Grant) bool { return gr.ID == id })
	if i < 0 {
		return &Error{Kind: NotFound, Reason: ReasonNotFound, Op: "gate.RevokeGrantAs", Public: "There is no such grant."}
	}
	if err := g.MayRevokeGrant(ctx, v, &grants[i]); err != nil {
		g.note(Entry{Event: EventRefused, ID: grants[i].Approval, By: v.ID, Note: "revoke a grant: " + string(ReasonOf(err))})
		return err
	}
	return g.store.RevokeGrant(ctx, id, v.ID)
}

// MayRevokeGrant says why a person may not end a grant. Those may who may decide on
// what it came of, and those whose approval made it.
func (g *Gate) MayRevokeGrant(ctx context.Context, v Voter, gr *Grant) error {
	p, s := g.policy.Load(), Snapshot{Approval: *gr.origin()}
	v = p.who(v)
	if err := active(v); err != nil {
		return err
	}
	opened, err := g.store.Get(ctx, gr.Approval)
	switch {
	case err == nil:
		s = opened
	case KindOf(err) != NotFound: // grants may outlive what they came of
		return err
	}
	if slices.ContainsFunc(g.counted(&s), func(o Vote) bool { return o.Voter.Identity() == v.Identity() }) {
		return nil
	}
	rule := p.RuleNamed(&s.Approval)
	if rule == nil {
		rule = p.Discretionary()
	}
	if rule == nil {
		return forbidden(ReasonNotApprover, "You are not an approver.")
	}
	_, err = p.eligible(ctx, &s.Approval, rule, v)
	return err
}

// origin is what a grant still says of the approval that it came of.
func (gr *Grant) origin() *Approval {
	return &Approval{ID: gr.Approval, Subject: Subject{
		Call: Call{Server: gr.Server, Tool: gr.Tool, Target: gr.Target}, Digest: gr.Digest,
		Rule: gr.Rule, Version: gr.Version, Requester: gr.Requester,
	}}
}

// ConfirmGrant makes a grant count again after the store failed over: a
// revocation may have been lost with the old one, so a person looks first.
func (g *Gate) ConfirmGrant(ctx context.Context, p Principal, id string) error {
	if !p.Has(RoleApprover) && !p.Has(RoleAdmin) {
		return g.notAllowed(p, "confirm a grant")
	}
	grants, err := g.store.Grants(ctx)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(grants, func(gr Grant) bool { return gr.ID == id })
	if i < 0 || !g.keys.grantGenuine(&grants[i]) {
		return &Error{Kind: NotFound, Reason: ReasonNotFound, Op: "gate.ConfirmGrant", Public: "no such grant"}
	}
	gr := grants[i]
	h, err := g.store.Standing(ctx, gr.Requester)
	if err != nil {
		return err
	}
	gr.Incarnation = h.Incarnation
	g.keys.signGrant(&gr)
	return g.store.PutGrant(ctx, gr, p.Key)
}

// EndSession ends a session of the caller's own: what waits in it is cancelled,
// what was approved inline is revoked, its grants and bypass end.
func (g *Gate) EndSession(ctx context.Context, p Principal, session string) error {
	if session == "" || len(session) > MaxName {
		return &Error{Kind: Invalid, Op: "gate.EndSession", Public: "session: want a name of at most 256 bytes"}
	}
	return g.store.EndSession(ctx, p.Key, session, p.Key)
}

// SetBypass lets the calls of one session of an agent's key pass for a while.
func (g *Gate) SetBypass(ctx context.Context, p Principal, key, session string, d time.Duration) error {
	if !p.Has(RoleAdmin) {
		return g.notAllowed(p, "set a bypass")
	}
	if session == "" || key == "" || d <= 0 || d > maxBypass {
		return &Error{Kind: Invalid, Op: "gate.SetBypass", Public: "bypass: want the agent's key, a session, and at most 8h"}
	}
	h, err := g.store.Standing(ctx, Requester{Key: key, Session: session})
	if err != nil {
		return err
	}
	b := Bypass{Key: key, Session: session, By: p.Key, Until: h.Now.Add(d), Incarnation: h.Incarnation}
	g.keys.signBypass(&b)
	return g.store.PutBypass(ctx, b)
}
