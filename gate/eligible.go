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
		// To a rule that lets them in an address alone opens no guest's way: what
		// platforms say of mailboxes grants nothing but to full members.
		if rule.AdmitsRequester && (v.Account == Member || p.behind(&a.Requester, p.withoutMail(v))) {
			return []string{RequesterWord}, nil
		}
		return nil, forbidden(ReasonSelfApproval, PressSelf)
	}
	if why := p.unclear(a, v); why != "" {
		return nil, forbidden(ReasonIdentityUnclear, why)
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

// asker is who a call is for: whom the agent says, and the person of its key.
func (p *Policy) asker(r *Requester) (all []self) {
	if r.Person != "" {
		all = append(all, p.said(r.Person))
	}
	if person := p.PersonOf(keyVoter + ":" + r.Key); person != "" {
		all = append(all, self{persons: []string{person}, mail: mailbox(person)})
	}
	return all
}

// behind reports whether a completed voter is the one who asks.
func (p *Policy) behind(r *Requester, v Voter) bool {
	return v.ID == keyVoter+":"+r.Key || slices.ContainsFunc(p.asker(r), p.selfOf(v).is)
}

// unclear says why a voter might be the requester, or an earlier voter, under another
// name; empty if they certainly are not. Whose account people lists for one and
// whose mailbox for another might be either.
func (p *Policy) unclear(a *Approval, v Voter) string {
	me := p.selfOf(v)
	if owner := p.people.byMail(v.Email); owner != "" && owner != v.Person {
		return "Your account and your e-mail address belong to two people in the configuration. Ask an admin to correct people."
	}
	for _, asker := range p.asker(&a.Requester) {
		switch {
		case asker.unknown:
			return "Nobody can tell whether you are the one this call is for: the agent names them in no form that can be compared. It must name somebody of people, an e-mail address, or an account with its platform's own id."
		case !p.apart(me, asker):
			return whoAreYou
		}
	}
	for i := range a.Votes {
		if o := p.selfOf(a.Votes[i].Voter); !me.is(o) && !p.apart(me, o) {
			return whoAreYou
		}
	}
	return ""
}

const whoAreYou = "Nobody can tell whether you are the one who asked or has voted already. Decide where the others did, or ask an admin to add you to people."

// votesOf are the votes of a completed voter, under whatever names they cast them.
func (p *Policy) votesOf(a *Approval, v Voter) (all []Vote) {
	me := p.selfOf(v)
	for i := range a.Votes {
		if me.is(p.selfOf(a.Votes[i].Voter)) {
			all = append(all, a.Votes[i])
		}
	}
	return all
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
			if (on == "person" || on == "key") && !isMail(name) && len(names) < maxNames && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	text := PressText(Press{Reason: ReasonNotApprover, Progress: Progress{Groups: groups}, Names: names})
	return forbidden(ReasonNotApprover, onlyByID[v.Account]+text)
}
