package channels

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/approvalbot/approvalbot/gate"
)

// Card is one approval as a person sees it. Every text in it is inert: it holds
// no character that hides, reorders or imitates another. What a platform takes
// for markup is still in it; the channel escapes that.
type Card struct {
	Approval gate.ID
	Rev      int64
	Digest   gate.Digest
	Proof    string // that the one person who sees it was shown this call; empty: the card is one for everybody, and stored

	Notification string // what a phone shows: never the arguments
	Title        string // "hermes wants to run kubectl_apply", on one short line
	Tool         string // its whole name, if that is too long for the title
	Target       string // what it acts on, and
	Server       string // where the tool lives; empty if nobody knows
	Risk         string // as the rule has it; may be empty
	Facts        []Fact // who asks, and under which rule
	Intent       string // the agent's own words
	Args         string // all of them, on as many lines as it takes
	Redacted     bool   // some of Args is covered
	Diff         string // how Args change texts; empty if they change none
	Mention      []gate.Mention

	Warning  string // what to know before deciding
	Refused  string // that the same call was refused before; empty if it was not
	Dialogue string // what was asked and answered; empty if nothing was
	Line     string // how it stands
	Result   string // what the tool said, or why nobody knows; it belongs below the card
	Silence  string // what happens if nobody decides; empty if nothing waits
	Settled  bool   // people have decided, or nobody will: Line is the news
	Link     string // the page that shows all of it; empty if there is none

	Approve, Deny, Ask, Answer, TakeBack bool // the live buttons
	Unsettled                            bool // nobody knows whether it ran: people may say so
	Again                                bool // and may ask to run it again
	Scopes                               []Choice
	Confirm                              string // to be confirmed with an approval
	ReasonRequired                       bool   // with a denial
}

// Fact is one line of what a card says about a call.
type Fact struct{ Name, Value string }

// Choice is a scope that an approver may choose, what it would cover, and for how
// long.
type Choice struct {
	Scope  gate.Scope
	Name   string
	Covers string
	Lasts  string
}

// What a title shows of two names, in characters.
const (
	maxTitleAgent = 50
	maxTitleTool  = 80
)

// Context is what a card needs to know beside the approval.
type Context struct {
	Args     json.RawMessage // as people may see them, and
	Redacted bool            // whether some of it is covered: see gate.Gate.Shown
	Review   string          // where an inline question goes when its time is up
	Link     string
}

// NewCard draws an approval.
func NewCard(v *gate.View, x Context) *Card {
	a, clock := &v.Approval, gate.Clock{Now: v.Now}
	c := &Card{
		Approval: a.ID, Rev: a.Rev, Digest: a.Digest,
		Target: gate.Visible(a.Call.Target), Server: gate.Visible(a.Call.Server),
		Facts: facts(a, v.Rule), Intent: gate.VisibleLines(a.Intent),
		Args: gate.Pretty(x.Args), Redacted: x.Redacted, Diff: Diff(x.Args),
		Dialogue: gate.Dialogue(a), Line: gate.StateLine(a, v.Progress, clock), Result: a.Result, Settled: a.State != gate.Pending, Link: x.Link,
	}
	c.title(a)
	c.Refused = gate.RefusedBefore(v.Refused, clock)
	if v.Rule != nil {
		c.Risk = v.Rule.Risk
	}
	c.Notification = fmt.Sprintf("%s. %s", c.Title, c.Line)
	if a.State == gate.Pending {
		c.Silence = Silence(a, x.Review, clock)
		c.Warning = gate.MayHaveRun(a, clock)
		if v.Progress.Need > 0 {
			c.Notification = gate.Notification(a, Due(a), v.Progress, clock)
		}
	}
	c.buttons(a, v.Rule, v.Now)
	return c
}

// title says who wants what. What it has no room for follows elsewhere.
func (c *Card) title(a *gate.Approval) {
	agent, cutAgent := gate.Cut(gate.Visible(Agent(a)), maxTitleAgent)
	tool, cutTool := gate.Cut(gate.Visible(a.Call.Tool), maxTitleTool)
	verb := "wants to run"
	if a.Discretionary {
		verb = "asks about"
	}
	c.Title = fmt.Sprintf("%s %s %s", agent, verb, tool)
	if cutTool {
		c.Tool = gate.Visible(a.Call.Tool)
	}
	if cutAgent {
		c.Facts = slices.Insert(c.Facts, 0, Fact{"Agent", gate.Visible(Agent(a))})
	}
}

func (c *Card) buttons(a *gate.Approval, rule *gate.Rule, now time.Time) {
	switch {
	case a.State == gate.Pending && rule == nil:
		c.Deny, c.Answer, c.Warning = true, a.Asked(), "The policy has changed since this was opened. It cannot be approved any more."
	case a.State == gate.Pending:
		c.Approve, c.Deny, c.Ask, c.Answer = true, true, !a.Asked(), a.Asked()
		c.Scopes, c.Confirm, c.ReasonRequired = Scopes(a, rule), Confirmation(a, rule, now), rule.ReasonRequired
		for _, g := range rule.Mention {
			c.Mention = append(c.Mention, g.Mentions()...)
		}
	case (a.State == gate.Approved || a.State == gate.Leased) && !a.Discretionary:
		c.TakeBack = true
	case a.State == gate.OutcomeUnknown:
		c.Unsettled, c.Again = true, a.Successor == ""
	}
}

// Live reports whether there is anything to press.
func (c *Card) Live() bool {
	return c.Approve || c.Deny || c.Ask || c.Answer || c.TakeBack || c.Unsettled || c.Again
}

// Settle takes all buttons away.
func (c *Card) Settle() {
	c.Approve, c.Deny, c.Ask, c.TakeBack, c.Unsettled, c.Again, c.Scopes, c.Proof = false, false, false, false, false, false, nil, ""
}

// Body returns the arguments in at most n characters, and whether that hides
// any. While it does, approving must lead over a full view.
func (c *Card) Body(n int) (text string, hides bool) { return gate.Cut(c.Args, n) }

func facts(a *gate.Approval, rule *gate.Rule) []Fact {
	all := []Fact{
		{"For", gate.Visible(a.Requester.Person)},
		{"Key", gate.Visible(a.Requester.Key)},
		{"Rule", gate.Visible(a.Rule)},
	}
	if rule != nil {
		all = append(all, Fact{"Decided by", Approvers(rule)})
	}
	all = append(all, Fact{"Run", gate.Visible(a.Requester.Run)}, Fact{"Call", a.Digest.Short()})
	return slices.DeleteFunc(all, func(f Fact) bool { return f.Value == "" })
}

// Agent names who asks: the agent by its own name, else by its key.
func Agent(a *gate.Approval) string { return cmp.Or(a.Requester.Agent, a.Requester.Key) }

// Approvers says who may decide: "sre (6), owners (2+)".
func Approvers(rule *gate.Rule) string {
	var out []string
	for _, g := range rule.Groups {
		ids, complete := g.Listed()
		more := "+"
		if complete {
			more = ""
		}
		out = append(out, fmt.Sprintf("%s (%d%s)", g.Name, len(ids), more))
	}
	if rule.AdmitsRequester {
		out = append(out, "the requester")
	}
	return strings.Join(out, ", ")
}

// Due is when silence decides something about a pending approval.
func Due(a *gate.Approval) time.Time {
	if a.Mode == gate.Inline && !a.InlineUntil.IsZero() {
		return a.InlineUntil
	}
	return a.Expires
}

// Silence says what happens if nobody decides; review is where an inline
// question goes then.
func Silence(a *gate.Approval, review string, clock gate.Clock) string {
	if by := Due(a); by.Before(a.Expires) {
		return gate.Silence(by, a.Expires, review, clock)
	}
	return gate.Silence(a.Expires, time.Time{}, "", clock)
}

// Confirmation is what an approver must confirm before an approval counts.
func Confirmation(a *gate.Approval, rule *gate.Rule, now time.Time) string {
	if text := gate.MayHaveRun(a, gate.Clock{Now: now}); text != "" {
		return text + " Confirm?"
	}
	if rule != nil && rule.Risk == "high" {
		return "I have read the arguments. This is high risk."
	}
	return ""
}

// Scopes are what an approver may choose from; none if there is only one.
func Scopes(a *gate.Approval, rule *gate.Rule) []Choice {
	if a.Discretionary || len(rule.Scopes) < 2 {
		return nil
	}
	all := []Choice{
		{gate.Once, "Once", "this call", "this time"},
		{gate.Session, "This session", gate.Visible(a.Covers()), "only while this session lasts"},
		{gate.Always, "Always", gate.Visible(a.Covers()), "later sessions too, until it expires or is revoked"},
	}
	return slices.DeleteFunc(all, func(o Choice) bool {
		return o.Scope != gate.Once && !rule.Grants(o.Scope) || o.Scope == gate.Session && a.Requester.Session == ""
	})
}
