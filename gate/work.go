package gate

import (
	"context"
	"time"

	"github.com/approvalbot/approvalbot/gate/secret"
)

// Work is an approved call that somebody holds a lease on. Holding it runs
// nothing: Consume with the token does, once, by the holder alone.
type Work struct {
	Snapshot
	Token secret.String
	Retry bool // the rule says that the same attempt may be sent again
}

// Claim leases the oldest approved call of an executor to owner for d; nil if none
// waits. Owner is whoever will consume, heartbeat and report. The same nonce gets the
// same lease again while that lasts.
func (g *Gate) Claim(ctx context.Context, executor, owner, nonce string, d time.Duration) (*Work, error) {
	id, fence, ok, err := g.store.Lease(ctx, executor, owner, nonce, d)
	if err != nil || !ok {
		return nil, err
	}
	s, err := g.store.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	if s.State != Leased || s.Lease.Owner != owner || s.Fence != fence {
		return nil, nil // taken back, or over, since
	}
	rule := g.ruleOf(&s)
	return &Work{Snapshot: s, Token: g.keys.mint(&s.Approval), Retry: rule != nil && rule.RetrySafe}, nil
}

// Held reads what owner holds: a call that it has leased, or dispatched under that
// lease. Only the token of that lease is believed.
func (g *Gate) Held(ctx context.Context, owner string, id ID, presented secret.String) (*Work, error) {
	const op = "gate.Held"
	t, err := parseToken(presented)
	if err != nil {
		return nil, err
	}
	if t.id != id {
		return nil, &Error{Kind: Invalid, Reason: ReasonNotFound, Op: op, Public: "token: it belongs to another approval"}
	}
	s, err := g.store.Get(ctx, id)
	switch {
	case err != nil:
		return nil, err
	case !g.keys.genuine(t, s.Digest):
		g.note(Entry{Event: EventSecurity, ID: id, By: owner, Note: "token not genuine"})
		return nil, &Error{Kind: Forbidden, Reason: ReasonNotFound, Op: op, Public: "token: not a token of this approval"}
	case t.fence != s.Fence || s.Lease.Owner != owner:
		return nil, &Error{Kind: Conflict, Reason: ReasonFenced, Op: op, Public: "this call is not, or no longer, yours to run"}
	}
	return &Work{Snapshot: s, Token: presented}, nil
}

// Renew is a sign of life: a lease lasts for d from now, though never beyond the time
// by which the call had to run; of a dispatched call the outcome becomes unknown d
// from now, or most after the dispatch. It returns until when.
func (g *Gate) Renew(ctx context.Context, w *Work, d, most time.Duration) (time.Time, error) {
	return g.store.Renew(ctx, w.ID, w.Lease.Owner, w.Fence, d, most)
}

// Release gives a call back that was not dispatched: somebody else may lease it.
func (g *Gate) Release(ctx context.Context, w *Work) error {
	return g.store.Release(ctx, w.ID, w.Lease.Owner, w.Fence)
}
