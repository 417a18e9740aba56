package gate

import (
	"cmp"
	"context"
	"regexp"
	"time"

	"github.com/approvalbot/approvalbot/gate/secret"
)

// Spending is one attempt to dispatch an approved call.
type Spending struct {
	Principal string // name of the API key, or of the lease's owner
	ID        ID     // may be empty: the token names it
	Token     secret.String
	Attempt   string        // 32 hex digits, fresh per dispatch
	Call      Call          // about to be dispatched
	Digest    Digest        // instead of Call, of whoever has the call from here
	NoReport  bool          // the caller cannot report the outcome
	ReportIn  time.Duration // until the outcome is unknown; 0 means 15 minutes
}

var attemptForm = regexp.MustCompile(`^[0-9a-f]{32}$`)

// Deadlines of a dispatch.
const (
	reportWithin   = 15 * time.Minute // then its outcome is unknown
	noReportWithin = ReplayWindow     // then it is taken for executed, if no report was promised
)

// Consume spends a token: the one way to turn an approval into Allow. It looks
// at everything again, policy and votes included; whatever fails burns nothing.
func (g *Gate) Consume(ctx context.Context, c Spending) (Ruling, error) {
	for range decideTries {
		r, err := g.consume(ctx, &c)
		if err != ErrMoved { //nolint:errorlint // the sentinel itself, never wrapped
			return r, err
		}
	}
	return g.blocked(&c.Call, nil, ReasonOf(ErrMoved)), ErrMoved
}

func (g *Gate) consume(ctx context.Context, c *Spending) (Ruling, error) {
	s, err := g.spendable(ctx, c)
	if err != nil {
		return g.blocked(&c.Call, s, ReasonOf(err)), err
	}
	if s.State.Open() {
		if refused, err := g.recheck(ctx, s); refused != nil || err != nil {
			return g.orBlocked(refused, err, &c.Call, s)
		}
	}
	_, err = g.store.Consume(ctx, s.ID, Consumption{
		Rev: s.Rev, Digest: s.Digest, Principal: c.Principal, Attempt: c.Attempt, Fence: s.Fence,
		Policy: g.policy.Load().Version(), WillReport: !c.NoReport, ReportIn: c.reportIn(),
	})
	if err != nil {
		return g.refusedConsume(ctx, c, s, err)
	}
	return Ruling{Verdict: Allow, Reason: RungToken, Next: NextRun, Approval: s}, nil
}

func (c *Spending) digest() (Digest, error) {
	if c.Digest != (Digest{}) {
		return c.Digest, nil
	}
	return c.Call.Digest()
}

func (c *Spending) reportIn() time.Duration {
	if c.NoReport {
		return noReportWithin
	}
	return cmp.Or(c.ReportIn, reportWithin)
}

// spendable reads the approval that a token names and checks what the caller
// presents against it.
func (g *Gate) spendable(ctx context.Context, c *Spending) (*Snapshot, error) {
	const op = "gate.Consume"
	t, err := parseToken(c.Token)
	if err != nil {
		return nil, err
	}
	if c.ID != "" && c.ID != t.id {
		return nil, &Error{Kind: Invalid, Reason: ReasonNotFound, Op: op, Public: "token: it belongs to another approval"}
	}
	if !attemptForm.MatchString(c.Attempt) {
		return nil, &Error{Kind: Invalid, Op: op, Public: "attempt_id: want 32 lower-case hex digits, fresh for each dispatch"}
	}
	digest, err := c.digest()
	if err != nil {
		return nil, err
	}
	s, err := g.current(ctx, t.id)
	if err != nil {
		return nil, err
	}
	switch {
	case !g.keys.genuine(t, s.Digest):
		g.note(Entry{Event: EventSecurity, ID: t.id, By: c.Principal, Note: "token not genuine"})
		return nil, &Error{Kind: Forbidden, Reason: ReasonNotFound, Op: op, Public: "token: not a token of this approval"}
	case c.Principal != spender(s):
		return nil, g.notYours(Principal{Key: c.Principal}, s.ID, "consume")
	case digest != s.Digest:
		g.note(Entry{Event: EventSecurity, ID: s.ID, By: c.Principal, Digest: digest.Hex(), Note: "token presented for another call"})
		return s, &Error{Kind: Conflict, Reason: ReasonDigestMismatch, Op: op, Public: "this is not the call that was approved; nothing was spent"}
	case s.Successor != "":
		return s, &Error{Kind: Conflict, Reason: s.Approval.Reason, Op: op, Public: "this approval no longer counts; see its successor"}
	case s.State.Open() && t.fence != s.Fence:
		return s, &Error{Kind: Conflict, Reason: ReasonFenced, Op: op, Public: "this token is of an earlier lease"}
	case s.State.Open() && (t.incarnation != s.Approval.Incarnation || !t.decided.Equal(s.Decided)):
		return s, &Error{Kind: Conflict, Reason: ReasonVoid, Op: op, Public: "this token is of a decision that no longer counts"}
	}
	return s, nil
}

// spender is who may dispatch an approval: its opener, or the leaseholder.
func spender(s *Snapshot) string {
	if s.ByRequester() {
		return s.Requester.Key
	}
	return s.Lease.Owner
}

// recheck runs the policy again and counts the votes again, for an approval
// that is about to be dispatched. It returns a ruling if it must not be.
func (g *Gate) recheck(ctx context.Context, s *Snapshot) (*Ruling, error) {
	if g.Disagree() {
		return nil, &Error{Kind: Unavailable, Reason: ReasonPolicyUnavailable, Op: "gate.Consume", Public: "replicas run different policies; nothing was spent, try again in a moment"}
	}
	rule := g.ruleOf(s)
	switch {
	case s.State == Pending:
		r := g.answer(s, nil, RungToken)
		return &r, nil
	case rule == nil:
		return g.again(ctx, s, EventRevoked, ReasonPolicyChanged)
	case g.forged(s) || !rule.Met(qualified(g.counted(s))):
		g.note(Entry{Event: EventSecurity, ID: s.ID, By: "approvalbot", Note: "votes do not add up to a quorum"})
		return g.again(ctx, s, EventVoided, ReasonVoid)
	}
	return nil, nil
}

// again ends an approval that no longer counts. A staged call is asked again by
// itself; an inline caller is there and can do so.
func (g *Gate) again(ctx context.Context, s *Snapshot, how Event, why Reason) (*Ruling, error) {
	if s.Approval.Mode == Inline && how == EventRevoked {
		err := g.store.Withdraw(ctx, s.ID, Withdrawal{Event: how, Reason: why, By: "approvalbot"})
		if err != nil {
			return nil, err
		}
		r := g.blocked(&s.Call, s, why)
		return &r, nil
	}
	ended, err := g.replace(ctx, s, how, why)
	if err != nil {
		return nil, err
	}
	r := g.blocked(&s.Call, ended, why)
	return &r, nil
}

func (g *Gate) orBlocked(r *Ruling, err error, c *Call, s *Snapshot) (Ruling, error) {
	if err != nil {
		return g.blocked(c, s, ReasonOf(err)), err
	}
	return *r, nil
}

// refusedConsume answers a consume that the store refused. A second spending is
// a security event; an approval that moved on is answered as it is now.
func (g *Gate) refusedConsume(ctx context.Context, c *Spending, s *Snapshot, cause error) (Ruling, error) {
	if cause == ErrMoved || KindOf(cause) != Conflict { //nolint:errorlint // the sentinel itself, never wrapped
		return g.blocked(&c.Call, s, ReasonOf(cause)), cause
	}
	if ReasonOf(cause) == ReasonSpent {
		g.note(Entry{Event: EventSecurity, ID: s.ID, By: c.Principal, Note: "spent token presented again"})
	}
	if now, err := g.current(ctx, s.ID); err == nil {
		s = now
	}
	return g.blocked(&c.Call, s, ReasonOf(cause)), cause
}
