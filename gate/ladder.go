package gate

import (
	"context"

	"github.com/approvalbot/approvalbot/gate/secret"
)

// Verdict is what becomes of a call. The zero value reads as Block.
type Verdict string

// The verdicts.
const (
	Allow Verdict = "allow" // dispatch now
	Block Verdict = "block" // must not run
	Ask   Verdict = "ask"   // people must answer first, or have and the token must be consumed
)

// Next is what the caller should do.
type Next string

// The next steps.
const (
	NextRun     Next = "run"     // dispatch, once
	NextConsume Next = "consume" // spend the token, then dispatch
	NextWait    Next = "wait"    // ask again, or hold the line
	NextAnswer  Next = "answer"  // an approver has a question
	NextStop    Next = "stop"    // do not dispatch, do not poll
)

// Request is one call and what its caller says about it.
type Request struct {
	Call      Call
	Requester Requester
	Origin    Conversation
	Intent    string
	Mode      Mode          // may ask for Deferred, nothing else
	Key       string        // idempotency key
	Join      bool          // an open approval of the same call will do
	Callback  string        // address that is told what becomes of an approval that this opens
	Token     secret.String // spend it
	Attempt   string        // with Token: 32 hex digits, fresh per dispatch
	NoReport  bool          // the caller cannot report the outcome
}

// Ruling is the answer to one call. Only Allow lets it run.
type Ruling struct {
	Verdict  Verdict
	Reason   Reason // on Allow and Ask the name of the rung
	Next     Next
	Text     string        // for the model
	Approval *Snapshot     // if there is one
	Token    secret.String // with NextConsume
}

// The rungs, as they are named in answers and in the audit log.
const (
	RungDisabled     Reason = "disabled"
	RungFloor        Reason = "floor"
	RungUndesignated Reason = "undesignated"
	RungOff          Reason = "off"
	RungBypass       Reason = "bypass"
	RungToken        Reason = "token"
	RungKey          Reason = "key"
	RungGrant        Reason = "grant"
	RungMode         Reason = "mode"
	RungAsk          Reason = "ask"
)

// rung is one step: it rules (true) or passes the call on (false).
type rung struct {
	name Reason
	try  func(*Gate, context.Context, *check) (Ruling, bool, error)
}

// ladder is the whole of what happens to a call: read it top to bottom, the
// first rung that rules wins, an error on the way is Block. The floor comes
// before everything that could let a call pass, and nothing below undesignated
// is computed for a call that nobody gates. TestLadder pins the order.
var ladder = []rung{
	{RungDisabled, (*Gate).disabled},
	{RungFloor, (*Gate).floor},
	{RungUndesignated, (*Gate).undesignated},
	{RungOff, (*Gate).off},
	{RungBypass, (*Gate).bypass},
	{RungToken, (*Gate).token},
	{RungKey, (*Gate).key},
	{RungGrant, (*Gate).grant},
	{RungMode, (*Gate).mode},
	{RungAsk, (*Gate).ask},
}

// check is one call on its way down the ladder.
type check struct {
	Request
	facts    Facts
	policy   *Policy
	rule     *Rule
	digest   Digest
	mode     Mode
	holdings Holdings
}

// Check rules on one call. The ruling is always complete; with an error it is
// Block, so that a caller who ignores the error still does not run the call.
func (g *Gate) Check(ctx context.Context, r Request) (Ruling, error) {
	c := &check{Request: r, policy: g.policy.Load()}
	c.facts = Facts{Call: &c.Call, Requester: &c.Requester, Now: g.now()}
	for _, step := range ladder {
		ruling, ruled, err := step.try(g, ctx, c)
		if err != nil {
			return g.blocked(&c.Call, nil, ReasonOf(err)), err
		}
		if ruled {
			return ruling, nil
		}
	}
	return g.blocked(&c.Call, nil, ReasonGateError), &Error{Op: "gate.Check", Public: "no rung ruled"}
}

func (g *Gate) disabled(_ context.Context, c *check) (Ruling, bool, error) {
	return allowed(RungDisabled), c.policy.Disabled(), nil
}

// floor comes first of all that looks at the call, so it also refuses one whose
// names no policy can be trusted to match.
func (g *Gate) floor(_ context.Context, c *check) (Ruling, bool, error) {
	if err := c.Call.Validate(); err != nil {
		return Ruling{}, false, err
	}
	if !c.policy.Floor(&c.facts) {
		return Ruling{}, false, nil
	}
	g.note(Entry{Event: EventRefused, By: c.Requester.Key, Note: "floor: " + c.Call.Tool})
	return g.blocked(&c.Call, nil, ReasonFloorDenied), true, nil
}

// undesignated finds the rule that gates the call; without one, or with one
// that says allow or deny, nothing further is asked.
func (g *Gate) undesignated(_ context.Context, c *check) (Ruling, bool, error) {
	c.rule = c.policy.Rule(&c.facts)
	switch {
	case c.rule == nil || c.rule.Action == ActionAllow:
		return allowed(RungUndesignated), true, nil
	case c.rule.Action == ActionDeny:
		g.note(Entry{Event: EventRefused, By: c.Requester.Key, Note: "rule " + c.rule.Name})
		return g.blocked(&c.Call, nil, ReasonRuleDenied), true, nil
	}
	return Ruling{}, false, nil
}

// off lets a designated call pass because the process was started that way.
// From here on the call is worth its digest.
func (g *Gate) off(_ context.Context, c *check) (Ruling, bool, error) {
	var err error
	if c.digest, err = c.Call.Digest(); err != nil {
		return Ruling{}, false, err
	}
	if !c.policy.Off() {
		return Ruling{}, false, nil
	}
	g.notePassed(c, RungOff, "")
	return allowed(RungOff), true, nil
}

// bypass lets the calls of one session pass because an admin said so.
func (g *Gate) bypass(ctx context.Context, c *check) (Ruling, bool, error) {
	var err error
	if c.holdings, err = g.store.Standing(ctx, c.Requester); err != nil {
		return Ruling{}, false, err
	}
	h := &c.holdings
	b := h.Bypass
	live := b != nil && h.Now.Before(b.Until) && b.Incarnation == h.Incarnation &&
		b.Key == c.Requester.Key && b.Session == c.Requester.Session && g.keys.bypassGenuine(b)
	if !live {
		return Ruling{}, false, nil
	}
	g.notePassed(c, RungBypass, "set by "+b.By)
	return allowed(RungBypass), true, nil
}

// token spends what the caller presents; then no later rung is tried.
func (g *Gate) token(ctx context.Context, c *check) (Ruling, bool, error) {
	if !c.Token.Set() {
		return Ruling{}, false, nil
	}
	ruling, err := g.Consume(ctx, Spending{
		Principal: c.Requester.Key, Token: c.Token, Attempt: c.Attempt, Call: c.Call, NoReport: c.NoReport,
	})
	if KindOf(err) == Conflict {
		return ruling, true, nil // spent, void or for another call: that is the answer
	}
	return ruling, true, err
}

// key answers from the approval that the caller's idempotency key names.
func (g *Gate) key(ctx context.Context, c *check) (Ruling, bool, error) {
	if c.Key == "" {
		return Ruling{}, false, nil
	}
	id, err := g.store.Find(ctx, c.Requester.Key, c.Key)
	if KindOf(err) == NotFound {
		return Ruling{}, false, nil
	}
	if err != nil {
		return Ruling{}, false, err
	}
	s, before, err := g.follow(ctx, id)
	if err != nil {
		return Ruling{}, false, err
	}
	if s.Digest != c.digest {
		return Ruling{}, false, &Error{Kind: Conflict, Reason: ReasonDigestMismatch, Op: "gate.Check", Public: "this idempotency key belongs to another call; use a new key"}
	}
	return g.answer(s, before, RungKey), true, nil
}

// grant lets a call pass that an approver has already allowed for longer.
func (g *Gate) grant(ctx context.Context, c *check) (Ruling, bool, error) {
	for i := range c.holdings.Grants {
		gr := &c.holdings.Grants[i]
		if !g.covers(gr, c) {
			continue
		}
		err := g.store.UseGrant(ctx, *gr, c.policy.Version(), c.digest)
		if KindOf(err) == Conflict {
			continue // revoked or used up meanwhile; another one may cover it
		}
		if err != nil {
			return Ruling{}, false, err
		}
		return allowed(RungGrant), true, nil
	}
	return Ruling{}, false, nil
}

// mode says whether somebody waits, and whether a call nobody waits for may ask.
func (g *Gate) mode(_ context.Context, c *check) (Ruling, bool, error) {
	mode, denied := c.policy.ModeOf(c.rule, c.Call.Tool, c.Requester.Attended, c.Request.Mode == Deferred)
	if denied {
		g.note(Entry{Event: EventRefused, By: c.Requester.Key, Note: "unattended: rule " + c.rule.Name})
		return g.blocked(&c.Call, nil, ReasonUnattended), true, nil
	}
	c.mode = mode
	return Ruling{}, false, nil
}

// ask opens an approval, or finds the one that is open already.
func (g *Gate) ask(ctx context.Context, c *check) (Ruling, bool, error) {
	g.noteRule(c.rule)
	opened, err := g.store.Open(ctx, opening(c))
	if err != nil {
		return Ruling{}, false, err
	}
	s, before, err := g.follow(ctx, opened.ID)
	if err != nil {
		return Ruling{}, false, err
	}
	return g.answer(s, before, RungAsk), true, nil
}

// maxPending is how many approvals one requester may have waiting.
const maxPending = 100

func opening(c *check) Opening {
	r := c.rule
	return Opening{
		ID: NewID(),
		Subject: Subject{
			Call: c.Call, Digest: c.digest, Rule: r.Name, Version: r.Version,
			Requester: c.Requester, Origin: c.Origin, Intent: c.Intent, Executor: r.Executor,
			Callback: c.Callback,
		},
		Mode: c.mode, ExpiresIn: r.ExpiresIn, InlineFor: r.InlineFor, InlineDeny: r.InlineThen == FallbackDeny,
		Key: c.Key, Join: c.Join, Cap: maxPending,
	}
}

func allowed(rung Reason) Ruling { return Ruling{Verdict: Allow, Reason: rung, Next: NextRun} }

// notePassed audits a designated call that passed without asking.
func (g *Gate) notePassed(c *check, rung Reason, why string) {
	g.note(Entry{Event: EventAllowed, By: c.Requester.Key, Digest: c.digest.Hex(), Note: string(rung) + ", rule " + c.rule.Name + " " + why})
}
