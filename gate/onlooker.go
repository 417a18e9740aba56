package gate

import (
	"context"
	"fmt"
	"strings"
)

// Onlooker is one person before the approvals of everybody: which of them they may
// see, and which decide. It looks up the groups of a rule once, so that a long list
// costs no more look-ups than there are rules. It is for one goroutine and for the
// moment: every decision is judged again.
type Onlooker struct {
	policy *Policy
	voter  Voter
	rules  map[string]*Rule
	known  map[*Rule]membership
}

// membership is which of a rule's groups somebody is in, or that nobody knows.
type membership struct {
	groups []string
	err    error
}

// Onlooker returns what somebody may see and decide under this policy.
func (p *Policy) Onlooker(v Voter) *Onlooker {
	o := &Onlooker{policy: p, voter: p.who(v), rules: map[string]*Rule{}, known: map[*Rule]membership{}}
	for _, r := range p.Rules() {
		o.rules[r.Name] = r
	}
	return o
}

// MayDecide says why they may not decide on an approval, nil if it seems they may.
// Where nobody knows, the error is of kind Unavailable.
func (o *Onlooker) MayDecide(ctx context.Context, a *Approval) error {
	rule := o.rules[a.Rule]
	if a.Discretionary {
		rule = o.policy.Discretionary()
	}
	if rule == nil {
		return conflict(ReasonPolicyChanged, "The rule it was opened under is gone from the policy.")
	}
	_, err := o.policy.eligibleOf(a, rule, o.voter, func() ([]string, error) { return o.qualify(ctx, rule) })
	return err
}

func (o *Onlooker) qualify(ctx context.Context, r *Rule) ([]string, error) {
	m, ok := o.known[r]
	if !ok {
		m.groups, m.err = r.Qualify(ctx, o.voter)
		o.known[r] = m
	}
	return m.groups, m.err
}

// Voted is what they have said to an approval themselves, empty if nothing.
func (o *Onlooker) Voted(a *Approval) Choice {
	votes := o.policy.votesOf(a, o.voter)
	if len(votes) == 0 {
		return ""
	}
	return votes[len(votes)-1].Choice
}

// MaySee says why they may not see an approval with its arguments, which may hold
// secrets. Those may who may decide on it or have, whom the call is for, and the
// approvers by default. Where nobody knows, they may not.
func (o *Onlooker) MaySee(ctx context.Context, a *Approval) error {
	if err := active(o.voter); err != nil {
		return err
	}
	why := o.MayDecide(ctx, a)
	if why == nil || o.Voted(a) != "" {
		return nil
	}
	if o.voter.Account == Member && o.policy.behind(&a.Requester, o.voter) {
		return nil
	}
	if groups, _ := o.byDefault(ctx); len(groups) > 0 {
		return nil
	}
	switch {
	case KindOf(why) == Unavailable:
		return &Error{Kind: Unavailable, Reason: ReasonIdentityUnavailable, Op: "gate.MaySee", Public: "Could not check whether you may see this. Try again.", Err: why}
	case o.voter.Account != Member:
		return why
	}
	return forbidden(ReasonNotApprover, o.audience())
}

// MaySeeGrant is MaySee for standing permission.
func (o *Onlooker) MaySeeGrant(ctx context.Context, gr *Grant) error {
	return o.MaySee(ctx, gr.origin())
}

func (o *Onlooker) byDefault(ctx context.Context) ([]string, error) {
	rule := o.policy.Discretionary()
	if rule == nil {
		return nil, nil
	}
	return o.qualify(ctx, rule)
}

// audience says to whom approvals are shown.
func (o *Onlooker) audience() string {
	const all = "This is shown to those who may decide on it"
	rule := o.policy.Discretionary()
	if rule == nil || len(rule.Groups) == 0 {
		return all + " and to the person behind the call."
	}
	return fmt.Sprintf("%s, to the person behind the call, and to %s.", all, strings.Join(rule.groupNames()[:len(rule.Groups)], " and "))
}

// Welcome says why somebody may see nothing at all: an account that never decides,
// or one of a guest or an outsider that no group lists.
func (o *Onlooker) Welcome(ctx context.Context) error {
	if err := active(o.voter); err != nil || o.voter.Account == Member {
		return err
	}
	if groups, _ := o.byDefault(ctx); len(groups) > 0 {
		return nil
	}
	for _, r := range o.rules {
		if groups, _ := o.qualify(ctx, r); len(groups) > 0 {
			return nil
		}
	}
	if o.voter.Account == Guest {
		return forbidden(ReasonNotApprover, "Guests may use this only where a group lists them by id.")
	}
	return forbidden(ReasonNotApprover, "People of other workspaces may use this only where a group lists them by id.")
}
