package gate

import (
	"context"
	"slices"
	"strings"
)

// RuleNamed returns the rule of that name in the present policy, nil if it is
// gone. It is for showing: what counts is the rule as the approval was opened
// under it.
func (p *Policy) RuleNamed(a *Approval) *Rule {
	if a.Discretionary {
		return p.Discretionary()
	}
	rules := p.Rules()
	i := slices.IndexFunc(rules, func(r *Rule) bool { return r.Name == a.Rule })
	if i < 0 {
		return nil
	}
	return rules[i]
}

// MayDecide says why somebody may not decide on an approval, nil if it seems they
// may. It saves people a press that would be refused; every press is judged again.
// Where nobody knows, they may press, and are told.
func (p *Policy) MayDecide(ctx context.Context, a *Approval, v Voter) error {
	rule := p.RuleNamed(a)
	if rule == nil {
		return conflict(ReasonPolicyChanged, "The rule it was opened under is gone from the policy.")
	}
	if _, err := p.eligible(ctx, a, rule, v); KindOf(err) != Unavailable {
		return err
	}
	return nil
}

// who completes a voter by the person that the account belongs to.
func (p *Policy) who(v Voter) Voter {
	if v.Person == "" {
		v.Person = p.PersonOf(v.ID)
	}
	return v
}

// eligible says by which groups a voter may decide on an approval, or why not.
func (p *Policy) eligible(ctx context.Context, a *Approval, rule *Rule, v Voter) ([]string, error) {
	v = p.who(v)
	return p.eligibleOf(a, rule, v, func() ([]string, error) { return rule.Qualify(ctx, v) })
}

// eligibleOf is eligible for a completed voter whose groups somebody looks up.
func (p *Policy) eligibleOf(a *Approval, rule *Rule, v Voter, qualify func() ([]string, error)) ([]string, error) {
	if err := active(v); err != nil {
		return nil, err
	}
	if p.behind(&a.Requester, v) {
		if rule.AdmitsRequester {
			return []string{RequesterWord}, nil
		}
		return nil, forbidden(ReasonSelfApproval, PressSelf)
	}
	if p.unclear(a, v) {
		return nil, forbidden(ReasonIdentityUnclear, "Nobody can tell whether you are the one who asked or has voted already. Decide where the others did, or ask an admin to add you to people.")
	}
	groups, err := qualify()
	if err != nil {
		return nil, &Error{Kind: Unavailable, Reason: ReasonIdentityUnavailable, Op: "gate.eligible", Public: "Could not check whether you may decide. Nothing was decided; press again.", Err: err}
	}
	if len(groups) == 0 {
		return nil, notApprover(rule, v)
	}
	return groups, nil
}

// active refuses accounts that never decide, whatever a list says.
func active(v Voter) error {
	switch v.Account {
	case Bot:
		return forbidden(ReasonNotApprover, "Bots cannot decide.")
	case Deactivated:
		return forbidden(ReasonNotApprover, "Your account is deactivated, so someone else must decide.")
	default:
		return nil
	}
}

// keyVoter is what the voter ids of API keys begin with.
const keyVoter = "key"

// asker is who a call is for: what the agent says, as a person where the account
// belongs to one, and the person of its key.
func (p *Policy) asker(r *Requester) []string {
	said := r.Person
	if person := p.PersonOf(said); person != "" {
		said = person
	}
	return slices.DeleteFunc([]string{said, p.PersonOf("key:" + r.Key)}, func(s string) bool { return s == "" })
}

// behind reports whether a voter is the one who asks.
func (p *Policy) behind(r *Requester, v Voter) bool {
	if v.ID == "key:"+r.Key {
		return true
	}
	asker := p.asker(r)
	return slices.Contains(asker, v.ID) || v.Person != "" && slices.Contains(asker, v.Person)
}

// unclear reports whether a voter might be a requester or an earlier voter under
// another name.
func (p *Policy) unclear(a *Approval, v Voter) bool {
	if slices.ContainsFunc(p.asker(&a.Requester), func(id string) bool { return !p.apart(v, id) }) {
		return true
	}
	return slices.ContainsFunc(a.Votes, func(o Vote) bool {
		if o.Voter.Person != "" && v.Person != "" {
			return false
		}
		if o.Voter.Person != "" {
			return !p.joined(o.Voter.Person, platform(v.ID))
		}
		return !p.apart(v, o.Voter.ID)
	})
}

// apart reports whether a voter is certainly not behind a name, which is an
// account's ("slack:T1/U1") or a person's. Two accounts of one chat are two people
// (two keys need not be); across platforms people tells, if it says who somebody
// is on both.
func (p *Policy) apart(v Voter, name string) bool {
	on, _, account := strings.Cut(name, ":")
	switch {
	case account && platform(v.ID) == on && on != keyVoter:
		return true
	case account:
		return v.Person != "" && p.joined(v.Person, on)
	}
	return v.Person != "" || p.joined(name, platform(v.ID))
}

// maxNames is how many people are named when somebody is sent to others.
const maxNames = 3

// onlyByID is what people of some accounts must know besides.
var onlyByID = map[Account]string{
	Guest:    "Guests decide only where a group lists them by id. ",
	Outsider: "People of other workspaces decide only where a group lists them by id. ",
}

func notApprover(r *Rule, v Voter) error {
	var groups, names []string
	for _, g := range r.Groups {
		groups = append(groups, g.Name)
		ids, _ := g.Listed()
		for _, id := range ids {
			on, name, _ := strings.Cut(id, ":")
			if (on == "person" || on == "key") && len(names) < maxNames && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	text := PressText(Press{Reason: ReasonNotApprover, Progress: Progress{Groups: groups}, Names: names})
	return forbidden(ReasonNotApprover, onlyByID[v.Account]+text)
}
