package console

import (
	"context"
	"slices"
	"strings"

	"github.com/approvalbot/approvalbot/gate"
)

// ruleNamed returns the rule of that name in the present policy, nil if it is
// gone. It is for showing; what counts is the rule that the gate finds.
func (c *Console) ruleNamed(a *gate.Approval) *gate.Rule {
	p := c.Inbox.Policy()
	if a.Discretionary {
		return p.Discretionary()
	}
	rules := p.Rules()
	i := slices.IndexFunc(rules, func(r *gate.Rule) bool { return r.Name == a.Rule })
	if i < 0 {
		return nil
	}
	return rules[i]
}

// mayNot says why somebody may not decide, empty if it seems they may. It saves
// people a press that would be refused; the refusing is the gate's, which alone
// looks at everything.
func (c *Console) mayNot(ctx context.Context, a *gate.Approval, rule *gate.Rule, v gate.Voter) string {
	persons := []string{a.Requester.Person, c.Inbox.Policy().PersonOf(a.Requester.Key)}
	if v.Person != "" && slices.Contains(persons, v.Person) {
		if rule.AdmitsRequester {
			return ""
		}
		return gate.PressSelf
	}
	groups, err := rule.Qualify(ctx, v)
	if err != nil || len(groups) > 0 { // nobody knows: let them press, and be told
		return ""
	}
	return gate.PressText(gate.Press{Reason: gate.ReasonNotApprover, Progress: gate.Progress{Groups: groupNames(rule)}, Names: names(rule)})
}

// maxNames is how many people are named when somebody is sent to others.
const maxNames = 3

// names are some who may decide instead.
func names(rule *gate.Rule) []string {
	var out []string
	for _, g := range rule.Groups {
		ids, _ := g.Listed()
		for _, id := range ids {
			_, name, _ := strings.Cut(id, ":")
			if len(out) < maxNames && !slices.Contains(out, name) {
				out = append(out, name)
			}
		}
	}
	return out
}

func groupNames(rule *gate.Rule) []string {
	var out []string
	for _, g := range rule.Groups {
		out = append(out, g.Name)
	}
	return out
}
