package console

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/approvalbot/approvalbot/channels"
	"github.com/approvalbot/approvalbot/gate"
)

// soon is when a deadline begins to press.
const soon = 10 * time.Minute

// row is one approval in a list.
type row struct {
	gate.Approval
	Due  time.Time // when silence decides
	Mine bool      // the reader may decide
	Risk string
	Line string // how it stands
}

type listPage struct {
	chrome
	Rows    []row
	Unknown []row // dispatched, and nobody knows how it went
	Filter  filter
	Rules   []string
	States  []gate.State
	Mine    int
	Soon    int
	First   string // link to the first page, empty on it
	Next    string // link to the next page, empty on the last
	Notices []string
	Rev     string // changes whenever the list does
}

// filter is what people may narrow a list by.
type filter struct{ State, Rule, Tool, Requester string }

func filterOf(q url.Values) filter {
	return filter{q.Get("state"), q.Get("rule"), q.Get("tool"), q.Get("requester")}
}

// Set reports whether the list is narrowed.
func (f filter) Set() bool { return f != filter{} }

// link is the list at a cursor under the same filter.
func (f filter) link(path, cursor string) string {
	q := url.Values{}
	for name, value := range map[string]string{
		"state": f.State, "rule": f.Rule, "tool": f.Tool, "requester": f.Requester, "cursor": cursor,
	} {
		if value != "" {
			q.Set(name, value)
		}
	}
	if len(q) == 0 {
		return path
	}
	return path + "?" + q.Encode()
}

func (f filter) query(state gate.State, cursor string) gate.Query {
	return gate.Query{State: state, Rule: f.Rule, Tool: f.Tool, Requester: f.Requester, Cursor: cursor}
}

// inbox lists what waits for people: within a page first what the reader may
// decide, then by deadline.
func (c *Console) inbox(w http.ResponseWriter, r *http.Request, s *session) {
	ctx := r.Context()
	f, cursor := filterOf(r.URL.Query()), r.URL.Query().Get("cursor")
	page, err := c.Inbox.List(ctx, s.who, f.query(gate.Pending, cursor))
	if err != nil {
		c.failed(w, r, s, err)
		return
	}
	unknown, err := c.Inbox.List(ctx, s.who, gate.Query{State: gate.OutcomeUnknown, Limit: 20})
	if err != nil {
		c.failed(w, r, s, err)
		return
	}
	p := c.listPage(s, "Inbox", "inbox", f, page)
	p.Rows, p.Unknown = c.rows(ctx, s, page.Rows, page.Now), c.rows(ctx, s, unknown.Rows, page.Now)
	slices.SortStableFunc(p.Rows, func(a, b row) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), a.Due.Compare(b.Due))
	})
	for _, row := range p.Rows {
		if row.Mine {
			p.Mine++
		}
		if row.Due.Sub(page.Now) < soon {
			p.Soon++
		}
	}
	p.links("/console/", cursor, page.Next)
	if c.Notices != nil {
		p.Notices = c.Notices(ctx)
	}
	p.Rev = revision(p.Pending, p.seen(), p.Next, p.Notices)
	if unchanged(w, r, p.Rev) {
		return
	}
	p.Flash = c.takeFlash(w, r, s)
	c.render(w, http.StatusOK, "inbox.html", p)
}

func rank(r row) int {
	if r.Mine {
		return 0
	}
	return 1
}

// past are the states that the history can be narrowed to.
var past = []gate.State{
	gate.Approved, gate.Executing, gate.OutcomeUnknown, gate.Executed, gate.Failed,
	gate.Denied, gate.Expired, gate.Cancelled, gate.Lapsed, gate.Revoked, gate.Void,
}

// history lists what was decided: first what is at work, then what has ended.
func (c *Console) history(w http.ResponseWriter, r *http.Request, s *session) {
	f, cursor := filterOf(r.URL.Query()), r.URL.Query().Get("cursor")
	if f.State != "" && !slices.Contains(past, gate.State(f.State)) {
		c.fail(w, s, http.StatusNotFound, "There is no such state.")
		return
	}
	page, err := c.decided(r.Context(), s.who, f.query(gate.State(f.State), cursor))
	if err != nil {
		c.failed(w, r, s, err)
		return
	}
	p := c.listPage(s, "History", "history", f, page)
	p.Rows, p.States = c.rows(r.Context(), s, page.Rows, page.Now), past
	p.links("/console/history", cursor, page.Next)
	p.Rev = revision(p.seen(), p.Next)
	if unchanged(w, r, p.Rev) {
		return
	}
	c.render(w, http.StatusOK, "history.html", p)
}

// maxSkipped bounds how many pages of pending approvals the history leafs past.
const maxSkipped = 20

// decided reads a page without what is still pending, which an unfiltered list
// begins with.
func (c *Console) decided(ctx context.Context, who gate.Principal, q gate.Query) (gate.Page, error) {
	var page gate.Page
	for range maxSkipped {
		var err error
		if page, err = c.Inbox.List(ctx, who, q); err != nil {
			return page, err
		}
		page.Rows = slices.DeleteFunc(page.Rows, func(a gate.Approval) bool { return a.State == gate.Pending })
		if len(page.Rows) > 0 || page.Next == "" {
			return page, nil
		}
		q.Cursor = page.Next
	}
	return page, nil
}

func (c *Console) listPage(s *session, title, here string, f filter, page gate.Page) listPage {
	p := listPage{chrome: c.chrome(s, title, here), Filter: f}
	p.Pending, p.Now = page.Pending, page.Now
	for _, rule := range c.Inbox.Policy().Rules() {
		if rule.Action == gate.ActionAsk {
			p.Rules = append(p.Rules, rule.Name)
		}
	}
	return p
}

// In is a row in its page, for the template of a row.
func (p listPage) In(r row) any {
	return struct {
		Row  row
		Page listPage
	}{r, p}
}

// seen is what the rows show: which, at what revision, and for whom.
func (p *listPage) seen() (out []string) {
	for _, r := range slices.Concat(p.Rows, p.Unknown) {
		out = append(out, fmt.Sprint(r.ID, r.Approval.Rev, r.Mine))
	}
	return out
}

func (p *listPage) links(path, cursor, next string) {
	if cursor != "" {
		p.First = p.Filter.link(path, "")
	}
	if next != "" {
		p.Next = p.Filter.link(path, next)
	}
}

// rows adds to approvals what the reader wants to know of them.
func (c *Console) rows(ctx context.Context, s *session, approvals []gate.Approval, now time.Time) []row {
	out := make([]row, len(approvals))
	for i := range approvals {
		a := &approvals[i]
		rule := c.Inbox.Policy().RuleNamed(a)
		out[i] = row{Approval: *a, Due: channels.Due(a)}
		if a.State != gate.Pending { // of a pending one, votes and questions are not in the list
			out[i].Line = gate.StateLine(a, gate.Progress{}, gate.Clock{Now: now})
		}
		if rule != nil {
			out[i].Risk = rule.Risk
			out[i].Mine = asks(a.State) && c.Inbox.Policy().MayDecide(ctx, a, s.voter()) == nil
		}
	}
	return out
}

// asks reports whether an approval in that state asks people something.
func asks(s gate.State) bool { return s == gate.Pending || s == gate.OutcomeUnknown }
