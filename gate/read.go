package gate

import (
	"context"
	"encoding/json"

	"github.com/approvalbot/approvalbot/gate/secret"
)

// View is an approval as a principal may see it.
type View struct {
	Snapshot
	Ruling Ruling // what it means for its opener; the token only if that is who asks
	Rule   *Rule  // it was opened under, if it is still in force
	Own    bool   // the viewer opened it

	Refused *Approval // of a pending one: the same call, denied not long before; nil if it was not, or for its opener

	Progress Progress // by the votes that count; zero if nobody is waited for
}

// Get returns one approval: to its opener, or to those who may see everything.
// The opener gets the one that asks in its place, if there is one.
func (g *Gate) Get(ctx context.Context, p Principal, id ID) (View, error) {
	s, err := g.current(ctx, id)
	if err != nil {
		return View{}, err
	}
	return g.view(ctx, p, s)
}

func (g *Gate) view(ctx context.Context, p Principal, s *Snapshot) (View, error) {
	if s.Requester.Key != p.Key {
		if !p.reads() {
			return View{}, g.notYours(p, s.ID, "read")
		}
		v := View{Snapshot: *s, Rule: g.ruleOf(s), Ruling: g.answer(s, nil, RungAsk), Progress: g.Progress(s)}
		v.Ruling.Token = secret.String{}
		v.Refused = g.refused(ctx, s)
		return v, nil
	}
	last, before, err := g.last(ctx, s)
	if err != nil {
		return View{}, err
	}
	return View{Snapshot: *last, Rule: g.ruleOf(last), Ruling: g.answer(last, before, RungAsk), Own: true, Progress: g.Progress(last)}, nil
}

// refused returns the denial of the same call that people should know of. It is
// for their judgement alone: one that cannot be read is left out.
func (g *Gate) refused(ctx context.Context, s *Snapshot) *Approval {
	if s.State != Pending || s.Approval.Refused == "" {
		return nil
	}
	before, err := g.store.Get(ctx, s.Approval.Refused)
	if err != nil || before.State != Denied {
		return nil
	}
	return &before.Approval
}

// Visible reads an approval and reports whether p may see it, without a word to
// the audit log: for streams that leave out what is not theirs.
func (g *Gate) Visible(ctx context.Context, p Principal, id ID) (*Snapshot, bool, error) {
	s, err := g.store.Get(ctx, id)
	if err != nil {
		return nil, false, err
	}
	return &s, s.visible(p), nil
}

// visible reports whether p may see the approval: its opener, and readers.
func (s *Snapshot) visible(p Principal) bool { return s.Requester.Key == p.Key || p.reads() }

// Shown returns an approval's arguments for people's eyes, with what its rule
// redacts covered; covered says whether anything is. Nobody knows any more what
// a rule without a trace in the present policy would cover: then everything is.
func (g *Gate) Shown(s *Snapshot) (args json.RawMessage, covered bool) {
	raw := s.Call.RawArgs()
	if s.Discretionary {
		return raw, false
	}
	for _, r := range g.policy.Load().Rules() {
		if r.Name == s.Rule {
			return r.Redacted(raw), len(r.redact) > 0
		}
	}
	return mark(raw), true
}

// Progress says of a pending approval how far its votes are; it is zero if nobody
// is waited for.
func (g *Gate) Progress(s *Snapshot) Progress {
	rule := g.ruleOf(s)
	if s.State != Pending || rule == nil {
		return Progress{}
	}
	return rule.Progress(qualified(g.counted(s)))
}

// Refused audits that a principal tried what it may not, for the ways in that
// refuse before the gate is asked.
func (g *Gate) Refused(p Principal, what string) {
	g.note(Entry{Event: EventRefused, By: p.Key, Note: what})
}

// List returns a page of approvals. An agent sees its own.
func (g *Gate) List(ctx context.Context, p Principal, q Query) (Page, error) {
	if !p.reads() && q.Requester != p.Key {
		return Page{}, g.notAllowed(p, "list")
	}
	return g.store.List(ctx, q)
}

// Cancel withdraws an approval that was not dispatched.
func (g *Gate) Cancel(ctx context.Context, p Principal, id ID, why string) error {
	s, err := g.current(ctx, id)
	if err != nil {
		return err
	}
	if s.Requester.Key != p.Key {
		return g.notYours(p, id, "cancel")
	}
	if s.Successor != "" {
		id = s.Successor
	}
	return g.store.Withdraw(ctx, id, Withdrawal{Event: EventCancel, Reason: ReasonCancelled, By: p.Key, Note: words(why)})
}

// Undeliverable says that no card of an approval could be posted anywhere. The
// policy says what becomes of it.
func (g *Gate) Undeliverable(ctx context.Context, id ID) error {
	s, err := g.current(ctx, id)
	if err != nil {
		return err
	}
	if g.policy.Load().OnUndeliverable() == FallbackDefer && s.Approval.Mode == Inline {
		return g.store.Defer(ctx, id)
	}
	return g.store.Withdraw(ctx, id, Withdrawal{Event: EventCancel, Reason: ReasonUndeliverable, By: "approvalbot"})
}

// Propose opens an approval that an agent asks for by its own judgement. It is
// never gated itself and authorises nothing but itself: it ends at Approved.
func (g *Gate) Propose(ctx context.Context, r Request) (Ruling, error) {
	p := g.policy.Load()
	c := &check{Request: r, policy: p, rule: p.Discretionary(), mode: Deferred}
	if r.Requester.Attended && r.Mode != Deferred {
		c.mode = Inline
	}
	var err error
	if c.digest, err = r.Call.Digest(); err != nil {
		return g.blocked(&r.Call, nil, ReasonOf(err)), err
	}
	o := opening(c)
	o.Discretionary = true
	opened, err := g.store.Open(ctx, o)
	if err != nil {
		return g.blocked(&r.Call, nil, ReasonOf(err)), err
	}
	s, before, err := g.follow(ctx, opened.ID)
	if err != nil {
		return g.blocked(&r.Call, nil, ReasonOf(err)), err
	}
	return g.answer(s, before, RungAsk), nil
}

func (g *Gate) notAllowed(p Principal, what string) error {
	g.note(Entry{Event: EventRefused, By: p.Key, Note: what + ": not its role"})
	return forbidden("", "this API key may not do that; see its roles")
}
