package console

import (
	"cmp"
	"context"
	"crypto/rand"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/approvalbot/approvalbot/channels"
	"github.com/approvalbot/approvalbot/gate"
)

// approvalPage is one approval as an approver needs to see it.
type approvalPage struct {
	chrome
	gate.View
	Rev  string
	Line string // how it stands

	RefusedBefore string // the same call; empty if it was not
	Silence       string // what happens if nobody decides
	Due           time.Time
	Args          arguments
	Diff          []string // lines; none if the arguments change no text
	Warning       string   // that it may have run already
	Result        []string // lines of what the tool said
	Rule          *gate.Rule
	Approvers     string
	Timeline      []moment
	May           actions
	Form          form // what the person had typed when a press was refused
	Nonce         string
}

// moment is one line of an approval's life.
type moment struct {
	At     time.Time
	Kind   string // colours the line
	What   string
	Who    string
	Said   string
	Answer string
	Link   gate.ID
}

// actions are what the reader may press.
type actions struct {
	Approve, Deny, Ask, TakeBack, Settle, Again bool

	Why     string            // why nothing, or what to know first
	Confirm string            // what has to be confirmed with an approval
	Scopes  []channels.Choice // more than one, or none to choose from
}

// Any reports whether there is anything to press.
func (a actions) Any() bool { return a.Approve || a.Deny || a.Ask || a.TakeBack || a.Settle }

// Typed returns what a person had typed into a form whose press was refused.
func (p approvalPage) Typed(do string) string {
	if p.Form.Do != do {
		return ""
	}
	return p.Form.Text
}

// Chosen reports whether a scope is the one to offer first: the narrowest, or
// the one a refused press had chosen.
func (p approvalPage) Chosen(s gate.Scope) bool {
	return s == cmp.Or(gate.Scope(p.Form.Scope), gate.Once)
}

func (c *Console) approval(w http.ResponseWriter, r *http.Request, s *session) {
	id, err := gate.ParseID(chi.URLParam(r, "id"))
	if err != nil {
		c.fail(w, s, http.StatusNotFound, "There is no such approval.")
		return
	}
	c.showApproval(w, r, s, id, form{}, nil)
}

// showApproval renders the page; after a refused press with what was typed and
// why it did not count.
func (c *Console) showApproval(w http.ResponseWriter, r *http.Request, s *session, id gate.ID, typed form, refusal error) {
	v, err := c.Inbox.Get(r.Context(), s.who, id)
	if err != nil {
		c.failed(w, r, s, err)
		return
	}
	p := c.approvalPage(r.Context(), s, v)
	if unchanged(w, r, p.Rev) {
		return
	}
	p.Form, p.Flash = typed, c.takeFlash(w, r, s)
	status := http.StatusOK
	if refusal != nil {
		status, p.Alert = statusOf(refusal), gate.PublicText(refusal)
	}
	p.Pending = c.pending(r.Context(), s)
	c.render(w, status, "approval.html", p)
}

// pending counts what waits, for titles; 0 where that cannot be known.
func (c *Console) pending(ctx context.Context, s *session) int {
	page, err := c.Inbox.List(ctx, s.who, gate.Query{State: gate.Pending, Limit: 1})
	if err != nil {
		return 0
	}
	return page.Pending
}

func (c *Console) approvalPage(ctx context.Context, s *session, v gate.View) approvalPage {
	a, clock := &v.Approval, gate.Clock{Now: v.Snapshot.Now}
	rule := v.Rule
	if rule == nil {
		rule = c.Inbox.Policy().RuleNamed(a)
	}
	p := approvalPage{
		chrome: c.chrome(s, a.Call.Tool, ""), View: v, Rule: rule, Due: channels.Due(a), Args: argumentsOf(a, rule),
		Rev: revision(a.Rev, a.State, v.Rule == nil), Nonce: rand.Text(), Timeline: timeline(a, clock),
	}
	p.Now = v.Snapshot.Now
	if rule != nil {
		p.Approvers = channels.Approvers(rule)
		if diff := channels.Diff(rule.Redacted(a.Call.RawArgs())); diff != "" {
			p.Diff = strings.Split(diff, "\n")
		}
	}
	p.Line = gate.StateLine(a, p.Progress, clock)
	p.RefusedBefore = gate.RefusedBefore(v.Refused, clock)
	if a.Result != "" {
		p.Result = strings.Split(a.Result, "\n")
	}
	if a.State == gate.Pending {
		p.Warning = gate.MayHaveRun(a, clock)
		p.Silence = channels.Silence(a, "this inbox", clock)
	}
	p.May = c.actions(ctx, s, &v, rule)
	return p
}

// actions says what the reader may press, as far as the console knows; the gate
// looks at every press again.
func (c *Console) actions(ctx context.Context, s *session, v *gate.View, rule *gate.Rule) actions {
	a := &v.Approval
	unsettled := a.State == gate.OutcomeUnknown
	undone := (a.State == gate.Approved || a.State == gate.Leased) && !a.Discretionary
	if a.State != gate.Pending && !undone && !unsettled {
		return actions{}
	}
	if rule == nil {
		return actions{Deny: a.State == gate.Pending, Settle: unsettled, TakeBack: undone, Why: "The rule it was opened under is gone from the policy."}
	}
	if err := c.Inbox.Policy().MayDecide(ctx, a, s.voter()); err != nil {
		return actions{Why: gate.PublicText(err)}
	}
	if a.State != gate.Pending {
		return actions{TakeBack: undone, Settle: unsettled, Again: unsettled && a.Successor == ""}
	}
	may := actions{Approve: true, Deny: true, Ask: true, Confirm: channels.Confirmation(a, rule, v.Snapshot.Now), Scopes: channels.Scopes(a, rule)}
	if slices.ContainsFunc(a.Votes, func(o gate.Vote) bool { return o.Voter.Identity() == s.voter().Identity() }) {
		may.Approve, may.Why = false, "You approved this; others must too."
	}
	if v.Rule == nil {
		may.Why = "The policy has changed since this was opened. It cannot be approved any more: a press asks people again under the new rule."
	}
	return may
}

// timeline tells an approval's life in order.
func timeline(a *gate.Approval, clock gate.Clock) []moment {
	opened := moment{At: a.Created, What: "Opened by", Who: channels.Agent(a)}
	if a.Predecessor != "" {
		opened.What, opened.Link = "Asked again in place of an earlier one by", a.Predecessor
	}
	out := []moment{opened}
	for _, q := range a.Questions {
		out = append(out, moment{At: q.At, Kind: "ask", What: "Asked by", Who: q.By, Said: q.Text, Answer: q.Answer})
	}
	for _, v := range a.Votes {
		out = append(out, voted(v))
	}
	if !a.Started.IsZero() {
		out = append(out, moment{At: a.Started, Kind: "run", What: "Dispatched, its token is spent"})
	}
	if end := ending(a, clock); end.What != "" {
		out = append(out, end)
	}
	slices.SortStableFunc(out, func(x, y moment) int { return x.At.Compare(y.At) })
	return out
}

// ending is how an approval ended, or what became of it since it was decided.
// A denial is a vote, and told as one.
func ending(a *gate.Approval, clock gate.Clock) moment {
	at := a.Ended
	switch a.State {
	case gate.Pending, gate.Approved, gate.Leased, gate.Executing, gate.Denied:
		return moment{}
	case gate.OutcomeUnknown: // it has not ended
		at = clock.Now
	default:
	}
	return moment{At: at, Kind: string(a.State), What: gate.StateLine(a, gate.Progress{}, clock), Link: a.Successor}
}

func voted(v gate.Vote) moment {
	m := moment{At: v.At, Kind: "no", What: "Denied by", Who: v.Voter.Name, Said: v.Reason}
	if v.Choice == gate.Approve {
		m.Kind, m.What = "yes", "Approved by"
		if v.Scope != "" && v.Scope != gate.Once {
			m.What = "Approved for " + string(v.Scope) + " by"
		}
	}
	if via := strings.Join(v.Groups, ", "); via != "" {
		m.Who += " (" + via + ", on " + v.Voter.Surface + ")"
	}
	return m
}
