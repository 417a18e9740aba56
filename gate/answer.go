package gate

import (
	"context"
	"time"
)

// follow reads an approval, or the last of those that ask in its place; before
// is then the one that it replaced.
func (g *Gate) follow(ctx context.Context, id ID) (s, before *Snapshot, err error) {
	if s, err = g.current(ctx, id); err != nil {
		return nil, nil, err
	}
	return g.last(ctx, s)
}

// last follows the successors of an approval that was read just now.
func (g *Gate) last(ctx context.Context, s *Snapshot) (last, before *Snapshot, err error) {
	for range 16 { // a chain grows by one for each fail-over or change of policy
		if s.Successor == "" {
			return s, before, nil
		}
		before = s
		if s, err = g.current(ctx, s.Successor); err != nil {
			return nil, nil, err
		}
	}
	return nil, nil, &Error{Op: "gate.last", Public: "too many successors"}
}

// Refresh settles an approval of another life of the store: it becomes void, and
// people are asked again.
func (g *Gate) Refresh(ctx context.Context, id ID) error {
	_, err := g.current(ctx, id)
	return err
}

// current reads an approval; one from another life of the store is void, and
// asked again.
func (g *Gate) current(ctx context.Context, id ID) (*Snapshot, error) {
	s, err := g.store.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	if s.Stale() {
		return g.replace(ctx, &s, EventVoided, ReasonVoid)
	}
	return &s, nil
}

// replace ends an open approval that no longer counts, and asks again in its
// place if the policy still asks about this call. It returns the ended one.
func (g *Gate) replace(ctx context.Context, s *Snapshot, how Event, why Reason) (*Snapshot, error) {
	o, asks := g.reopening(s)
	o.Replaces, o.ReplacedBy, o.ReplaceWhy, o.ReplaceRev = s.ID, how, why, s.Rev
	var err error
	if asks {
		_, err = g.store.Open(ctx, o)
	} else {
		err = g.store.Withdraw(ctx, s.ID, Withdrawal{Event: how, Reason: why, By: "approvalbot"})
	}
	if err != nil && KindOf(err) != Conflict { // a conflict: somebody else ended it first
		return nil, err
	}
	ended, err := g.store.Get(ctx, s.ID)
	return &ended, err
}

// reopening is the question to ask again under the present policy.
func (g *Gate) reopening(s *Snapshot) (Opening, bool) {
	c := &check{policy: g.policy.Load(), Request: Request{
		Call: s.Call, Requester: s.Requester, Origin: s.Origin, Intent: s.Intent, Mode: s.Approval.Mode,
		Callback: s.Callback,
	}, digest: s.Digest}
	c.facts = Facts{Call: &c.Call, Requester: &c.Requester, Now: s.Now}
	if c.rule = c.policy.Discretionary(); !s.Discretionary {
		if c.policy.Disabled() || c.policy.Floor(&c.facts) {
			return Opening{}, false
		}
		c.rule = c.policy.Rule(&c.facts)
	}
	if c.rule == nil || c.rule.Action != ActionAsk {
		return Opening{}, false
	}
	mode, denied := c.policy.ModeOf(c.rule, c.Call.Tool, c.Requester.Attended, s.Approval.Mode == Deferred)
	c.mode = mode
	o := opening(c)
	o.Discretionary = s.Discretionary
	return o, !denied
}

// answer says what an approval means for its opener now. The chain of
// successors has been followed; before is the one it replaced, or nil.
func (g *Gate) answer(s, before *Snapshot, rung Reason) Ruling {
	r := Ruling{Verdict: Block, Reason: s.Approval.Reason, Next: NextStop, Approval: s}
	say := g.outcome(s, r.Reason)
	switch s.State {
	case Pending:
		r.Verdict, r.Reason, r.Next = Ask, rung, nextPending(s)
		if before != nil && !s.Asked() {
			say = g.outcome(before, before.Approval.Reason)
		}
	case Approved, Leased:
		r.Verdict, r.Reason = Ask, rung
		if s.State == Approved && s.ByRequester() && !s.Discretionary {
			r.Next, r.Token = NextConsume, g.keys.mint(&s.Approval)
		}
	case Executing, Executed, Failed, OutcomeUnknown:
		r.Reason = ReasonSpent
	case Denied, Expired, Cancelled, Lapsed, Revoked, Void:
	}
	r.Text = AgentText(say)
	return r
}

// nextPending tells an inline caller to wait and a deferred one to go on with
// other work; an open question comes first.
func nextPending(s *Snapshot) Next {
	switch {
	case s.Asked():
		return NextAnswer
	case s.Waits():
		return NextWait
	}
	return NextStop
}

// Waits reports whether the opener waits for people: there is something to wait
// for, and no question to answer first.
func (s *Snapshot) Waits() bool {
	return s.State == Pending && !s.Asked() && (s.Approval.Mode == Inline || s.Discretionary)
}

// blocked is the ruling on a call that has no approval to speak of.
func (g *Gate) blocked(c *Call, s *Snapshot, why Reason) Ruling {
	o := Outcome{Reason: why, Tool: c.Tool}
	if s != nil {
		o = g.outcome(s, why)
	}
	return Ruling{Verdict: Block, Reason: why, Next: NextStop, Text: AgentText(o), Approval: s}
}

// outcome gathers what the sentence for the agent may say.
func (g *Gate) outcome(s *Snapshot, why Reason) Outcome {
	o := Outcome{
		State: s.State, Reason: why, Mode: s.Approval.Mode, Tool: s.Call.Tool, ID: s.ID, New: s.Successor,
		Who: s.By, Said: s.Note, Executor: s.runner(), Discretionary: s.Discretionary,
		Expires: s.Expires, RunBy: s.RunBy, Waited: s.Expires.Sub(s.Created), RunWithin: s.RunBy.Sub(s.Decided),
		Clock: Clock{Now: s.Now},
	}
	if s.Asked() {
		q := s.Questions[len(s.Questions)-1]
		o.Who, o.Said = q.By, q.Text
	}
	return o
}

// Await is Get, held until the approval is no longer at revision rev, has ended
// for good, or ctx ends.
func (g *Gate) Await(ctx context.Context, p Principal, id ID, rev int64) (View, error) {
	v, err := g.AwaitWhile(ctx, time.Hour, p, id, func(s *Snapshot) bool { return s.Rev == rev && !s.State.Final() })
	if err != nil {
		return View{}, err
	}
	return *v, nil
}

// AwaitWhile is Get, held while the approval is still the same to the caller and
// asks for itself and not by a successor; for d at most, and until ctx ends.
// Watching comes first and reading second: a change between the two is then seen
// by the read or by the channel, never by neither. Many wait, so nothing that
// was read is kept meanwhile. The end of the waiting is a reason to look once
// more, not to give up; and it goes on while the store is away: whoever watches
// is woken when it is back.
func (g *Gate) AwaitWhile(ctx context.Context, d time.Duration, p Principal, id ID, same func(*Snapshot) bool) (*View, error) {
	s, err := g.await(ctx, d, p, id, same)
	if err != nil {
		return nil, err
	}
	return g.found(ctx, p, s)
}

// found is the view that was waited for. It is a function of its own, as look is,
// because its large frame would be the stack of everyone who waits.
//
//go:noinline
func (g *Gate) found(ctx context.Context, p Principal, s *Snapshot) (*View, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readTimeout)
	defer cancel()
	v, err := g.view(ctx, p, s)
	return &v, err
}

func (g *Gate) await(ctx context.Context, d time.Duration, p Principal, id ID, same func(*Snapshot) bool) (*Snapshot, error) {
	changed, stop := g.watch.Watch(id)
	defer stop()
	end := time.Now().Add(d)
	for {
		last := ctx.Err() != nil || !time.Now().Before(end)
		s, err := g.look(ctx, p, id)
		switch {
		case err != nil && (last || KindOf(err) != Unavailable):
			return nil, err
		case err == nil && (last || s.Successor != "" || !same(s)):
			return s, nil
		}
		park(ctx, changed, min(untilDue(s), time.Until(end)))
	}
}

// look reads for somebody who waits: it is not cut off together with the waiting,
// because the last look is what they are answered with.
func (g *Gate) look(ctx context.Context, p Principal, id ID) (*Snapshot, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readTimeout)
	defer cancel()
	s, err := g.current(ctx, id)
	if err == nil && !s.visible(p) {
		return nil, g.notYours(p, id, "read")
	}
	return s, err
}

const readTimeout = 2 * time.Second

// park waits for a change, a deadline, or the end of ctx.
func park(ctx context.Context, changed <-chan struct{}, due time.Duration) {
	timer := time.NewTimer(due)
	defer timer.Stop()
	select {
	case <-changed:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// untilDue is how long until time itself changes the approval: a reason to look
// again, while the store decides. Of an approval that could not be read nobody
// knows.
func untilDue(s *Snapshot) time.Duration {
	if s == nil {
		return time.Minute
	}
	at := s.Expires
	switch {
	case s.State == Pending && s.Approval.Mode == Inline:
		at = s.InlineUntil
	case s.State == Approved:
		at = s.RunBy
	case s.State == Leased:
		at = s.Lease.Until
	case s.State == Executing:
		return time.Minute
	}
	if at.IsZero() {
		return time.Minute
	}
	return max(at.Sub(s.Now), 10*time.Millisecond)
}

// Hold waits with an answer as long as there is something to wait for: until
// people have decided, have a question, or ctx ends.
func (g *Gate) Hold(ctx context.Context, p Principal, r Ruling) (Ruling, error) {
	for r.Next == NextWait && ctx.Err() == nil {
		v, err := g.Await(ctx, p, r.Approval.ID, r.Approval.Rev)
		if err != nil {
			return g.blocked(&Call{}, nil, ReasonOf(err)), err
		}
		r = v.Ruling
	}
	return r, nil
}

// runner is who dispatches the call once it is approved.
func (a *Approval) runner() string {
	if a.ByRequester() {
		return RequesterRuns
	}
	return a.Executor
}
