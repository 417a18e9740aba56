package gate

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// Decision is what a person says to an approval.
type Decision struct {
	ID     ID
	Voter  Voter
	Choice Choice
	Scope  Scope  // with Approve; empty means Once
	Reason string // with Deny; the question with NeedContext
	Digest Digest // of the call that was on the screen
	Nonce  string // of this press; the same press twice counts once
}

// Tally says what a decision did.
type Tally struct {
	Approval     Snapshot
	Settled      bool
	Progress     Progress // while more people are needed
	Scope        Scope    // granted, the narrowest of those counted
	SessionEnded bool     // the session is over: granted for once only
}

// Decide is the only way to vote, whichever surface it came from. Every refusal
// says why and is audited; none changes anything.
func (g *Gate) Decide(ctx context.Context, d Decision) (Tally, error) {
	t, err := g.decide(ctx, d)
	if err != nil && KindOf(err) != Unavailable && KindOf(err) != NotFound {
		g.note(Entry{Event: EventRefused, ID: d.ID, By: d.Voter.ID, Note: string(d.Choice) + ": " + string(ReasonOf(err))})
	}
	return t, err
}

// decideTries bounds how often a vote is counted again because somebody else's
// came first. Each time one of them gets through.
const decideTries = 16

func (g *Gate) decide(ctx context.Context, d Decision) (Tally, error) {
	d.Reason, d.Voter = words(d.Reason), g.policy.Load().who(d.Voter)
	for range decideTries {
		s, err := g.decidable(ctx, &d)
		if err != nil {
			return Tally{}, err
		}
		t, err := g.cast(ctx, s, &d)
		if err != ErrMoved { //nolint:errorlint // the sentinel itself, never wrapped
			return t, err
		}
	}
	return Tally{}, ErrMoved
}

// decidable reads the approval and refuses what is wrong with it before anyone
// asks who is voting.
func (g *Gate) decidable(ctx context.Context, d *Decision) (*Snapshot, error) {
	s, err := g.current(ctx, d.ID)
	if err != nil {
		return nil, err
	}
	open := s.State == Pending || d.Choice == Deny && (s.State == Approved || s.State == Leased)
	switch {
	case s.Successor != "":
		return nil, conflict(ReasonVoid, fmt.Sprintf("%s no longer counts; people are asked again as %s.", s.ID, s.Successor))
	case g.policy.Load().repeated(s, d) != nil:
		return s, nil
	case !open:
		return nil, conflict(ReasonAlreadyDecided, alreadySettled(s))
	case s.Digest != d.Digest:
		return nil, conflict(ReasonDigestMismatch, "This is not the call you were shown. Look again, then decide.")
	}
	return g.unchanged(ctx, s)
}

// unchanged refuses an approval whose rule is no longer what it was opened
// under: people are asked again under the new one.
func (g *Gate) unchanged(ctx context.Context, s *Snapshot) (*Snapshot, error) {
	if g.ruleOf(s) != nil {
		return s, nil
	}
	if g.Disagree() {
		return nil, &Error{Kind: Unavailable, Reason: ReasonPolicyUnavailable, Op: "gate.Decide", Public: "Replicas run different policies. Nothing was decided; press again in a moment."}
	}
	how := EventRevoked
	if s.State == Pending {
		how = EventVoided
	}
	ended, err := g.replace(ctx, s, how, ReasonPolicyChanged)
	if err != nil {
		return nil, err
	}
	text := fmt.Sprintf("Policy changed since %s was opened; it no longer counts.", s.ID)
	if ended.Successor != "" {
		text += fmt.Sprintf(" People are asked again as %s.", ended.Successor)
	}
	return nil, conflict(ReasonPolicyChanged, text)
}

// ruleOf returns the rule an approval was opened under if the present policy
// still rules so, else nil. Conditions see the time of opening; those of deny
// rules also the present. The version says what the rule does, its name does not.
func (g *Gate) ruleOf(s *Snapshot) *Rule {
	p := g.policy.Load()
	then := Facts{Call: &s.Call, Requester: &s.Requester, Now: s.Created}
	now := Facts{Call: &s.Call, Requester: &s.Requester, Now: s.Now}
	if s.Discretionary {
		return p.Discretionary()
	}
	if p.Disabled() || p.Floor(&now) {
		return nil
	}
	if r := p.Rule(&now); r != nil && r.Action == ActionDeny {
		return nil
	}
	r := p.Rule(&then)
	if r == nil || r.Name != s.Rule || r.Version != s.Version {
		return nil
	}
	if _, denied := p.ModeOf(r, s.Call.Tool, s.Requester.Attended, s.Approval.Mode == Deferred); denied {
		return nil
	}
	return r
}

// repeated is what this very press has been recorded as already, nil if it has not.
func (p *Policy) repeated(s *Snapshot, d *Decision) *Vote {
	if d.Nonce == "" {
		return nil
	}
	for _, v := range p.votesOf(&s.Approval, d.Voter) {
		if v.Nonce == d.Nonce && v.Choice == d.Choice {
			return &v
		}
	}
	return nil
}

// cast checks who votes and what, counts, and records.
func (g *Gate) cast(ctx context.Context, s *Snapshot, d *Decision) (Tally, error) {
	rule, p := g.ruleOf(s), g.policy.Load()
	if v := p.repeated(s, d); v != nil { // the store says whether it is safe by now: its first answer may have been lost, or no
		res, err := g.store.Vote(ctx, s.ID, Ballot{Rev: s.Rev, Digest: s.Digest, Vote: *v})
		if err != nil {
			return Tally{}, err
		}
		return g.tally(ctx, s, rule, Ballot{}, res)
	}
	groups, err := p.eligible(ctx, &s.Approval, rule, d.Voter)
	if err != nil {
		return Tally{}, err
	}
	if err := p.allowedBy(rule, s, d); err != nil {
		return Tally{}, err
	}
	if d.Choice == NeedContext {
		err := g.store.Ask(ctx, s.ID, s.Rev, Question{By: d.Voter.Name, Text: d.Reason})
		if err != nil {
			return Tally{}, err
		}
		return g.tally(ctx, s, rule, Ballot{}, VoteResult{})
	}
	b := g.ballot(s, rule, d, groups)
	res, err := g.store.Vote(ctx, s.ID, b)
	if err != nil {
		return Tally{}, err
	}
	return g.tally(ctx, s, rule, b, res)
}

// allowedBy checks the decision against the rule and against the voter's
// earlier one.
func (p *Policy) allowedBy(rule *Rule, s *Snapshot, d *Decision) error {
	switch d.Choice {
	case Approve:
		if slices.ContainsFunc(p.votesOf(&s.Approval, d.Voter), func(v Vote) bool { return v.Choice == Approve }) {
			return conflict(ReasonAlreadyDecided, "You already approved this; others must too.")
		}
		return scopeAllowed(rule, s, d)
	case Deny:
		if rule.ReasonRequired && d.Reason == "" {
			return &Error{Kind: Invalid, Reason: ReasonReasonRequired, Op: "gate.Decide", Public: "Say why: this rule wants a reason with a denial."}
		}
	case NeedContext:
		if d.Reason == "" {
			return &Error{Kind: Invalid, Reason: ReasonReasonRequired, Op: "gate.Decide", Public: "Write the question the agent should answer."}
		}
	default:
		return &Error{Kind: Invalid, Op: "gate.Decide", Public: "decision: want approve, deny or needs_more_context"}
	}
	return nil
}

func scopeAllowed(rule *Rule, s *Snapshot, d *Decision) error {
	if d.Scope == "" {
		d.Scope = Once
	}
	switch {
	case !rule.Grants(d.Scope):
		return forbidden(ReasonScopeNotAllowed, fmt.Sprintf("This rule does not allow %q; it allows: %s.", d.Scope, scopeNames(rule.Scopes)))
	case d.Scope == Session && s.Requester.Session == "":
		return forbidden(ReasonScopeNotAllowed, "This call came without a session, so it can only be approved once.")
	}
	return nil
}

func scopeNames(scopes []Scope) string {
	var out []string
	for _, s := range scopes {
		out = append(out, string(s))
	}
	return strings.Join(out, ", ")
}

// ballot signs the vote and says what it settles together with those before it.
func (g *Gate) ballot(s *Snapshot, rule *Rule, d *Decision, groups []string) Ballot {
	v := Vote{Voter: d.Voter, Groups: groups, Choice: d.Choice, Reason: d.Reason, Nonce: d.Nonce, At: s.Now}
	if d.Choice == Approve {
		v.Scope = d.Scope
	}
	g.keys.signVote(s.ID, &s.Subject, &v)
	b := Ballot{Rev: s.Rev, Digest: d.Digest, Vote: v}
	switch {
	case d.Choice == Deny && s.State == Pending:
		b.Settles = Denied
	case d.Choice == Deny:
		b.Settles, b.EndsGrants = Revoked, true
	case rule.Met(qualified(append(g.counted(s), v))):
		b.Settles = Approved
		b.RunFor = rule.RunFor(s.Approval.Mode)
		b.Grant = g.newGrant(s, rule, append(g.counted(s), v))
	}
	return b
}

// counted returns the approving votes that this server signed. Others are what
// somebody wrote into the store.
func (g *Gate) counted(s *Snapshot) []Vote {
	var out []Vote
	for i := range s.Votes {
		v := &s.Votes[i]
		if v.Choice == Approve && g.keys.voteGenuine(s.ID, &s.Subject, v) {
			out = append(out, *v)
		}
	}
	return out
}

// forged reports whether a vote lies there that this server never signed.
func (g *Gate) forged(s *Snapshot) bool {
	return slices.ContainsFunc(s.Votes, func(v Vote) bool { return !g.keys.voteGenuine(s.ID, &s.Subject, &v) })
}

func qualified(votes []Vote) []QualifiedVote {
	out := make([]QualifiedVote, len(votes))
	for i, v := range votes {
		out[i] = QualifiedVote{Identity: v.Voter.Identity(), Groups: v.Groups}
	}
	return out
}

// tally reads the approval back for the answer to the voter.
func (g *Gate) tally(ctx context.Context, s *Snapshot, rule *Rule, b Ballot, res VoteResult) (Tally, error) {
	after, err := g.store.Get(ctx, s.ID)
	if err != nil {
		return Tally{}, err
	}
	t := Tally{Approval: after, Settled: after.State != Pending, SessionEnded: res.SessionEnded, Scope: Once}
	if b.Grant != nil && !res.SessionEnded {
		t.Scope = b.Grant.Scope
	}
	if after.State == Pending && rule != nil {
		t.Progress = rule.Progress(qualified(g.counted(&after)))
	}
	return t, nil
}

// alreadySettled tells somebody who came too late what happened instead.
func alreadySettled(s *Snapshot) string {
	clock := Clock{Now: s.Now}
	switch s.State {
	case Approved, Leased:
		return fmt.Sprintf("%s already approved this at %s.", name(s.By), clock.Time(s.Decided))
	case Denied:
		return fmt.Sprintf("%s already denied this at %s.", name(s.By), clock.Time(s.Decided))
	case Expired:
		return fmt.Sprintf("This expired %s ago; nothing ran.", Span(s.Now.Sub(s.Ended)))
	default:
		return StateLine(&s.Approval, Progress{}, clock) + "."
	}
}

// Revoke takes back an approval that has not run. It is a late denial.
func (g *Gate) Revoke(ctx context.Context, id ID, v Voter, why string) (Tally, error) {
	s, err := g.current(ctx, id)
	if err != nil {
		return Tally{}, err
	}
	if s.State == Pending {
		return Tally{}, conflict(ReasonAlreadyDecided, "Nobody has approved this yet; deny it instead.")
	}
	return g.Decide(ctx, Decision{ID: id, Voter: v, Choice: Deny, Reason: why, Digest: s.Digest})
}

// Answer gives the agent's reply to an approver's question.
func (g *Gate) Answer(ctx context.Context, p Principal, id ID, text string) error {
	s, err := g.current(ctx, id)
	if err != nil {
		return err
	}
	if s.Requester.Key != p.Key {
		return g.notYours(p, id, "answer")
	}
	return g.reply(ctx, s, text)
}

// AnswerAs gives the reply of the person behind the call.
func (g *Gate) AnswerAs(ctx context.Context, v Voter, id ID, text string) error {
	s, err := g.current(ctx, id)
	if err != nil {
		return err
	}
	if p := g.policy.Load(); v.Account != Member || !p.behind(&s.Requester, p.who(v)) {
		g.note(Entry{Event: EventRefused, ID: id, By: v.ID, Note: "answer: not its own"})
		return forbidden("", "Only the person who asked for this call, or their agent, can answer.")
	}
	return g.reply(ctx, s, text)
}

func (g *Gate) reply(ctx context.Context, s *Snapshot, text string) error {
	text, _ = Cut(Clean(text), MaxAnswer)
	if text == "" {
		return &Error{Kind: Invalid, Op: "gate.Answer", Public: "text: write an answer"}
	}
	if !s.Asked() {
		return conflict(ReasonAlreadyDecided, "Nobody waits for an answer on this approval.")
	}
	return g.store.Answer(ctx, s.ID, s.Rev, text)
}

// MaxAnswer is how long an agent's answer to a question may be, in characters.
const MaxAnswer = 4000

// Settle records what a person says of a dispatch whose outcome is unknown.
func (g *Gate) Settle(ctx context.Context, id ID, v Voter, outcome State, note string) error {
	s, err := g.current(ctx, id)
	if err != nil {
		return err
	}
	if outcome != Executed && outcome != Failed {
		return &Error{Kind: Invalid, Op: "gate.Settle", Public: "outcome: want executed or failed"}
	}
	if err := g.maySettle(ctx, s, v); err != nil {
		return err
	}
	return g.store.Report(ctx, id, Report{Person: v.Name, Outcome: outcome, Note: words(note)})
}

// maySettle admits whoever is in a group that decides on the call, to say what became
// of it: that is no vote, so it does not matter who has asked or voted. Where the rule
// is gone, the default approvers may.
func (g *Gate) maySettle(ctx context.Context, s *Snapshot, v Voter) error {
	p := g.policy.Load()
	rule := g.ruleOf(s)
	if rule == nil {
		rule = p.Discretionary()
	}
	if err := active(v); err != nil {
		return err
	}
	groups, err := rule.Qualify(ctx, p.who(v))
	if err != nil {
		return &Error{Kind: Unavailable, Reason: ReasonIdentityUnavailable, Op: "gate.maySettle", Public: "Could not check whether you may decide; try again.", Err: err}
	}
	if len(groups) == 0 {
		return forbidden(ReasonNotApprover, fmt.Sprintf("You are not in %s. Nothing was recorded.", anyOf(rule.groupNames())))
	}
	return nil
}

func conflict(why Reason, public string) error {
	return &Error{Kind: Conflict, Reason: why, Op: "gate", Public: public}
}

func forbidden(why Reason, public string) error {
	return &Error{Kind: Forbidden, Reason: why, Op: "gate", Public: public}
}

// notYours refuses and audits a principal that reaches for another's approval.
func (g *Gate) notYours(p Principal, id ID, what string) error {
	g.note(Entry{Event: EventRefused, ID: id, By: p.Key, Note: what + ": not its own"})
	return forbidden("", "this approval belongs to another API key")
}
