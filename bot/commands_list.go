package bot

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/approvalbot/approvalbot/channels"
	"github.com/approvalbot/approvalbot/gate"
)

// Bounds of lists.
const (
	pendingRows = 5
	grantRows   = 5
	historyRows = 10
	maxScan     = 1000 // approvals that one command looks at
	scanPage    = 50
	maxPages    = 40 // of the store, which may be short
	maxGrants   = 1000
	soon        = 10 * time.Minute

	maxValue  = 120 // characters of a name
	maxFilter = 300 // bytes
)

// onlyNewest is what a list says that does not hold everything.
const onlyNewest = "There are more than 1,000; only the newest of them were looked at."

// filter is what people narrow a list by.
type filter struct {
	mine      bool
	tool      string
	rule, key string
	page      int // from 1
	match     gate.Glob
}

// parseFilter reads what stands behind a list's name; problem says what of it is
// none.
func parseFilter(text string, mine bool) (f filter, problem string) {
	f.page = 1
	if len(text) > maxFilter {
		return f, "That is too long for a filter."
	}
	words := strings.FieldsFunc(text, isSpace)
	for i := 0; i < len(words); i++ {
		name, value, has := strings.Cut(words[i], "=")
		name = strings.ToLower(name)
		switch {
		case name == "mine" && !has && mine:
			f.mine = true
		case name == "page" && !has && i+1 < len(words):
			i++
			f.page, _ = strconv.Atoi(words[i])
		case name == "tool" && value != "":
			f.tool = value
		case name == "rule" && value != "":
			f.rule = value
		case name == "key" && value != "":
			f.key = value
		default:
			n, err := strconv.Atoi(words[i])
			if err != nil {
				return f, fmt.Sprintf("%s is no filter.", echo(words[i]))
			}
			f.page = n
		}
		if f.page < 1 {
			return f, "Pages are counted from 1."
		}
	}
	if f.tool != "" {
		var err error
		if f.match, err = gate.NewGlob(f.tool); err != nil {
			return f, fmt.Sprintf("tool=%s: %s.", echo(f.tool), brief(err.Error()))
		}
	}
	return f, ""
}

// String is the filter as it is typed.
func (f filter) String() string {
	var all []string
	if f.mine {
		all = append(all, "mine")
	}
	for _, part := range [][2]string{{"tool", f.tool}, {"rule", f.rule}, {"key", f.key}} {
		if part[1] != "" {
			all = append(all, part[0]+"="+part[1])
		}
	}
	return strings.Join(all, " ")
}

// shown is the filter as it is repeated.
func (f filter) shown() string {
	f.mine = false
	if text, _ := gate.Cut(gate.Visible(f.String()), maxValue); text != "" {
		return " with " + text
	}
	return ""
}

func (f filter) admits(a *gate.Approval) bool {
	return f.tool == "" || f.match.Match(a.Call.Tool)
}

func (f filter) query(s gate.State) gate.Query {
	return gate.Query{State: s, Rule: f.rule, Requester: f.key, Limit: scanPage}
}

// usage is what a list says to a filter that is none.
func usage(problem, verb string) channels.Answer {
	for _, v := range verbs() {
		if v.name == verb {
			problem += fmt.Sprintf(" Type %s %s.", commandName, v.usage)
		}
	}
	return says(problem)
}

// scan looks at approvals for as long as it is told to go on, and up to a bound;
// more says that there are others behind it.
func (q *inquiry) scan(ctx context.Context, query gate.Query, each func(*gate.Approval) (on bool)) (now time.Time, more bool, err error) {
	seen := 0
	for range maxPages {
		page, err := q.Gate.List(ctx, drawer, query)
		if err != nil {
			return now, false, err
		}
		now = page.Now
		for i := range page.Rows {
			if seen++; seen > maxScan {
				return now, true, nil
			}
			if !each(&page.Rows[i]) {
				return now, false, nil
			}
		}
		if query.Cursor = page.Next; query.Cursor == "" {
			return now, false, nil
		}
	}
	return now, true, nil
}

// line is a pending approval in a list.
type line struct {
	gate.Approval
	mine bool
}

func (q *inquiry) pending(ctx context.Context, rest string) channels.Answer {
	f, problem := parseFilter(rest, true)
	if problem != "" {
		return usage(problem, "pending")
	}
	var all []line
	var unknown error
	now, more, err := q.scan(ctx, f.query(gate.Pending), func(a *gate.Approval) bool {
		if !f.admits(a) {
			return true
		}
		if err := q.look.MaySee(ctx, a); err != nil {
			if gate.KindOf(err) == gate.Unavailable {
				unknown = err
			}
			return true
		}
		all = append(all, line{*a, q.look.MayDecide(ctx, a) == nil})
		return true
	})
	if err != nil {
		return q.unread(ctx, err)
	}
	answer := says(counted(all, f, now))
	if more {
		answer.Lines = append(answer.Lines, onlyNewest)
	}
	if unknown != nil {
		answer.Lines = append(answer.Lines, "Of some it could not be checked whether you may see them; they are left out. Try again in a moment.")
	}
	if len(all) == 0 {
		answer.Lines = append(answer.Lines, "You are shown what you may decide on, and the calls that you are behind.")
	}
	if f.mine {
		all = slices.DeleteFunc(all, func(l line) bool { return !l.mine })
	}
	slices.SortStableFunc(all, func(a, b line) int {
		return cmp.Or(compareBool(b.mine, a.mine), channels.Due(&a.Approval).Compare(channels.Due(&b.Approval)), cmp.Compare(a.ID, b.ID))
	})
	for _, l := range leaf(&answer, all, f, "pending", pendingRows) {
		answer.Rows = append(answer.Rows, q.row(ctx, l, now))
	}
	return answer
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// counted is the first line of a list: how many wait, and for whom.
func counted(all []line, f filter, now time.Time) string {
	if len(all) == 0 {
		return fmt.Sprintf("Nothing is pending%s that you may see.", f.shown())
	}
	mine, due := 0, 0
	for i := range all {
		if all[i].mine {
			mine++
		}
		if channels.Due(&all[i].Approval).Sub(now) < soon {
			due++
		}
	}
	text := fmt.Sprintf("%d pending%s, %d for you", len(all), f.shown(), mine)
	if due > 0 {
		text += fmt.Sprintf(", %d due in 10 min", due)
	}
	return text
}

// leaf returns the rows of the page that is asked for, the last one if there are
// not so many, and adds what leads to the others.
func leaf[T any](answer *channels.Answer, all []T, f filter, verb string, rows int) []T {
	pages := max((len(all)+rows-1)/rows, 1)
	page := min(f.page, pages)
	turn := func(label string, to int) {
		command := strings.TrimSpace(verb+" "+f.String()) + fmt.Sprintf(" page %d", to)
		answer.Buttons = append(answer.Buttons, channels.Button{Label: label, Command: command})
	}
	if pages > 1 {
		answer.Lines = append(answer.Lines, fmt.Sprintf("Page %d of %d.", page, pages))
	}
	if page > 1 {
		turn("Previous page", page-1)
	}
	if page < pages {
		turn("Next page", page+1)
	}
	return all[(page-1)*rows : min(page*rows, len(all))]
}

// row is an approval that waits: what it is, what it would do in short, and until
// when.
func (q *inquiry) row(ctx context.Context, l line, now time.Time) channels.Row {
	a, clock := &l.Approval, gate.Clock{Now: now}
	r := channels.Row{Approval: a.ID, Lines: []string{headline(a)}, Link: q.link(ctx, a.ID), Button: &channels.Button{Label: "Show", Command: "show " + string(a.ID)}}
	state, whose := "Waiting", "for you"
	if v, err := q.Gate.Get(ctx, drawer, a.ID); err == nil { // else the card says it
		args, _ := q.Gate.Shown(&v.Snapshot)
		if summary, _ := gate.Summary(args); summary != "" {
			r.Lines = append(r.Lines, summary)
		}
		state = gate.StateLine(&v.Approval, v.Progress, clock)
		if q.look.Voted(&v.Approval) == gate.Approve {
			whose = "approved by you"
		}
	}
	due := channels.Due(a)
	facts := []string{state, fmt.Sprintf("until %s (%s left)", clock.Time(due), gate.Span(due.Sub(now))), "rule " + brief(a.Rule)}
	if l.mine {
		facts = append(facts, whose)
	}
	r.Lines = append(r.Lines, strings.Join(facts, " · "))
	return r
}

// headline says which approval it is, who asks and for what.
func headline(a *gate.Approval) string {
	text := fmt.Sprintf("%s: %s → %s", gate.ShortID(string(a.ID)), brief(channels.Agent(a)), brief(a.Call.Tool))
	if a.Call.Target != "" {
		text += " on " + brief(a.Call.Target)
	}
	return text
}

// brief is a name that somebody else chose.
func brief(s string) string {
	s, _ = gate.Cut(gate.Visible(s), maxValue)
	return s
}

// ended reports whether nothing more happens to an approval by itself.
func ended(a *gate.Approval) bool {
	return a.State.Final() || a.State == gate.OutcomeUnknown || a.State == gate.Approved && a.Discretionary
}

func (q *inquiry) history(ctx context.Context, rest string) channels.Answer {
	f, problem := parseFilter(rest, false)
	if problem != "" {
		return usage(problem, "history")
	}
	var all []gate.Approval
	now, more, err := q.scan(ctx, f.query(""), func(a *gate.Approval) bool {
		if ended(a) && f.admits(a) && q.look.MaySee(ctx, a) == nil {
			all = append(all, *a)
		}
		return true
	})
	if err != nil {
		return q.unread(ctx, err)
	}
	slices.SortStableFunc(all, func(a, b gate.Approval) int { return endOf(&b).Compare(endOf(&a)) })
	answer := says(fmt.Sprintf("%d ended%s", len(all), f.shown()))
	if more {
		answer.Lines = append(answer.Lines, onlyNewest)
	}
	for _, a := range leaf(&answer, all, f, "history", historyRows) {
		answer.Rows = append(answer.Rows, channels.Row{
			Approval: a.ID, Lines: []string{headline(&a), past(&a, now)},
			Button: &channels.Button{Label: "Show", Command: "show " + string(a.ID)},
		})
	}
	return answer
}

// endOf is when an approval ended, or was decided or opened if it did not.
func endOf(a *gate.Approval) time.Time {
	for _, t := range []time.Time{a.Ended, a.Started, a.Decided} {
		if !t.IsZero() {
			return t
		}
	}
	return a.Created
}

// past says how an approval ended, when and by whom.
func past(a *gate.Approval, now time.Time) string {
	clock := gate.Clock{Now: now}
	text := gate.StateLine(a, gate.Progress{}, clock)
	if at := clock.Time(endOf(a)); !strings.Contains(text, at) {
		text += " · " + at
	}
	if by := brief(a.By); by != "" && !strings.Contains(text, by) {
		text += " · " + by
	}
	return text
}

func (q *inquiry) grants(ctx context.Context, rest string) channels.Answer {
	f, problem := parseFilter(rest, false)
	if problem == "" && f.String() != "" {
		problem = fmt.Sprintf("%s is no filter here.", echo(f.String()))
	}
	if problem != "" {
		return usage(problem, "grants")
	}
	all, more, err := q.visibleGrants(ctx)
	if err != nil {
		return q.unread(ctx, err)
	}
	answer := says(fmt.Sprintf("%d standing permissions", len(all)))
	if len(all) == 1 {
		answer = says("1 standing permission")
	}
	if more {
		answer.Lines = append(answer.Lines, onlyNewest)
	}
	clock := gate.Clock{Now: time.Now()} // it only chooses whether a date is written
	for _, g := range leaf(&answer, all, f, "grants", grantRows) {
		row := channels.Row{Approval: g.Approval, Lines: grantLines(&g, clock)}
		if q.Gate.MayRevokeGrant(ctx, q.voter, &g) == nil {
			row.Button = &channels.Button{Label: "Revoke", Command: "revoke " + g.ID}
		}
		answer.Rows = append(answer.Rows, row)
	}
	return answer
}

func (q *inquiry) visibleGrants(ctx context.Context) (all []gate.Grant, more bool, err error) {
	grants, err := q.Gate.Grants(ctx, drawer)
	if err != nil {
		return nil, false, err
	}
	for i := range grants[:min(len(grants), maxGrants)] {
		if q.look.MaySeeGrant(ctx, &grants[i]) == nil {
			all = append(all, grants[i])
		}
	}
	return all, len(grants) > maxGrants, nil
}

func grantLines(g *gate.Grant, clock gate.Clock) []string {
	covers := "exactly one call of " + brief(g.Tool) + ", " + g.Digest.Short()
	if g.Target != "" {
		covers = "any " + brief(g.Tool) + " on " + brief(g.Target)
	}
	extent := "in later sessions too"
	if g.Scope == gate.Session {
		extent = "in session " + brief(g.Requester.Session)
	}
	used := fmt.Sprintf("used %d times", g.Uses)
	if g.MaxUses > 0 {
		used = fmt.Sprintf("used %d of %d times", g.Uses, g.MaxUses)
	}
	return []string{
		fmt.Sprintf("%s: %s, %s", gate.ShortID(g.ID), covers, extent),
		fmt.Sprintf("For %s · by %s · rule %s · until %s · %s", brief(cmp.Or(g.Requester.Agent, g.Requester.Key)), brief(g.By), brief(g.Rule), clock.Time(g.Expires), used),
	}
}
