package bot

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/approvalbot/approvalbot/channels"
	"github.com/approvalbot/approvalbot/gate"
)

// maxNamed is how many approvals a short id that names several lists.
const maxNamed = 10

// found is what a short id names.
type found struct {
	rows   []gate.Approval
	grants []gate.Grant
	more   bool // not everything was looked at
}

// find looks for what a short id names among what the person may see; open leaves
// out what has ended, which the store lists last.
func (q *inquiry) find(ctx context.Context, short string, open bool) (f found, err error) {
	_, f.more, err = q.scan(ctx, gate.Query{Limit: scanPage}, func(a *gate.Approval) bool {
		if open && ended(a) && a.State != gate.OutcomeUnknown {
			return false
		}
		if gate.Names(short, string(a.ID)) && len(f.rows) <= maxNamed && q.sees(ctx, a) {
			f.rows = append(f.rows, *a)
		}
		return true
	})
	return f, err
}

// sees reports whether the person may see a row of a list, which has no votes.
func (q *inquiry) sees(ctx context.Context, a *gate.Approval) bool {
	if q.look.MaySee(ctx, a) == nil {
		return true
	}
	v, err := q.Gate.Get(ctx, drawer, a.ID)
	return err == nil && q.look.MaySee(ctx, &v.Approval) == nil
}

// one returns the only approval or grant that was found, or what to say where it
// is none or several. Who is about to do something with it must be sure that it is
// the only one.
func (f *found) one(short string, sure bool) (id string, otherwise *channels.Answer) {
	var text string
	switch n := len(f.rows) + len(f.grants); {
	case n == 1 && f.more && sure:
		text = fmt.Sprintf("There are too many approvals to be sure that %s names only one. Give the whole id.", echo(short))
	case n == 1 && len(f.rows) == 1:
		return string(f.rows[0].ID), nil
	case n == 1:
		return f.grants[0].ID, nil
	case n == 0 && f.more:
		text = fmt.Sprintf("Nothing that you may see is named by %s among the newest 1,000. Give the whole id.", echo(short))
	case n == 0:
		text = fmt.Sprintf("Nothing that you may see is named by %s.", echo(short))
	default:
		return "", f.several(short)
	}
	a := says(text)
	return "", &a
}

func (f *found) several(short string) *channels.Answer {
	a := says(fmt.Sprintf("%s names several. Nothing was done; which one?", echo(short)))
	for i := range f.rows[:min(len(f.rows), maxNamed)] {
		r := &f.rows[i]
		a.Rows = append(a.Rows, channels.Row{
			Approval: r.ID, Lines: []string{headline(r), string(r.ID) + " · " + string(r.State)},
			Button: &channels.Button{Label: "Show", Command: "show " + string(r.ID)},
		})
	}
	for i := range f.grants[:min(len(f.grants), maxNamed-len(a.Rows))] {
		g := &f.grants[i]
		a.Rows = append(a.Rows, channels.Row{Approval: g.Approval, Lines: []string{g.ID + " · grant · " + brief(g.Tool)}})
	}
	return &a
}

// need asks for an id.
func need(verb, id string) *channels.Answer {
	var a channels.Answer
	switch short := strings.TrimPrefix(strings.TrimPrefix(strings.ToLower(id), "apr_"), "grt_"); {
	case id == "":
		a = usage("Which one?", verb)
	case len(short) < gate.LeastID:
		a = says(fmt.Sprintf("%s is no id: want at least %d characters of its end or beginning.", echo(id), gate.LeastID))
	default:
		return nil
	}
	return &a
}

// approval turns what was typed into the id of an approval, which is about to be
// looked at, or to be answered and so open.
func (q *inquiry) approval(ctx context.Context, verb, typed string, open bool) (gate.ID, *channels.Answer) {
	if otherwise := need(verb, typed); otherwise != nil {
		return "", otherwise
	}
	if id, err := gate.ParseID(typed); err == nil {
		return id, nil
	}
	f, err := q.find(ctx, typed, open)
	if err != nil {
		a := q.unread(ctx, err)
		return "", &a
	}
	id, otherwise := f.one(typed, open)
	return gate.ID(id), otherwise
}

// before is what somebody is told who typed a decision.
var before = map[gate.Choice]string{
	gate.Approve: "Nothing is decided yet. Read the call, then press Approve.",
	gate.Deny:    "Nothing is decided yet. Read the call, then press Deny.",
}

// seeing is a verb that shows a call with its buttons; wanted is what somebody is
// about to decide, if they said so.
func seeing(wanted gate.Choice) func(q *inquiry, ctx context.Context, rest string) channels.Answer {
	return func(q *inquiry, ctx context.Context, rest string) channels.Answer {
		typed, _ := word(rest)
		id, otherwise := q.approval(ctx, "show", typed, false)
		if otherwise != nil {
			return *otherwise
		}
		v, err := q.Gate.Get(ctx, drawer, id)
		if errors.Is(err, gate.NotFound) {
			return says(fmt.Sprintf("There is no approval %s.", id))
		}
		if err != nil {
			return q.unread(ctx, err)
		}
		if err := q.look.MaySee(ctx, &v.Approval); err != nil {
			q.Gate.Refused(gate.Principal{Key: q.voter.ID}, "show "+string(id))
			return q.unread(ctx, err)
		}
		return q.card(ctx, &v, wanted)
	}
}

// card shows a call to somebody who may see it. Its buttons are for those who may
// decide; the others are told why not. Where it could not be pressed here, they are
// sent another one.
func (q *inquiry) card(ctx context.Context, v *gate.View, wanted gate.Choice) channels.Answer {
	c := q.Clicks.Private.Draw(v, q.voter)
	answer := channels.Answer{Card: c}
	if v.Successor != "" {
		answer.Lines = append(answer.Lines, fmt.Sprintf("People are asked again as %s.", v.Successor))
		answer.Buttons = append(answer.Buttons, channels.Button{Label: "Show that", Command: "show " + string(v.Successor)})
	}
	stored, may := q.Stored[q.voter.Surface], q.look.MayDecide(ctx, &v.Approval)
	if c.Live() && may != nil && (stored != nil || gate.KindOf(may) != gate.Unavailable) {
		c.Settle()
		answer.Lines = append(answer.Lines, gate.PublicText(may))
	}
	if v.State == gate.Pending && c.Approve && q.look.Voted(&v.Approval) == gate.Approve {
		c.Approve, c.Scopes = false, nil
		answer.Lines = append(answer.Lines, "You approved this already; others must too.")
	}
	if !c.Live() {
		c.Proof = ""
	}
	if wanted == gate.Approve && !c.Approve || wanted == gate.Deny && !c.Deny {
		wanted = ""
	}
	sent := stored == nil || q.send(ctx, &answer)
	switch {
	case wanted != "" && !sent:
		answer.Lines = append(answer.Lines, "Nothing is decided.")
	case wanted != "":
		answer.Lines = append(answer.Lines, before[wanted])
	}
	if v.Asked() {
		answer.Lines = append(answer.Lines, fmt.Sprintf("The person behind the call answers with: %s answer %s and the words.", commandName, gate.ShortID(string(v.ID))))
	}
	return answer
}

func (q *inquiry) answer(ctx context.Context, rest string) channels.Answer {
	typed, text := word(rest)
	if typed == "" || text == "" {
		return usage("Which one, and what is the answer?", "answer")
	}
	id, otherwise := q.approval(ctx, "answer", typed, true)
	if otherwise != nil {
		return *otherwise
	}
	if err := q.Gate.AnswerAs(ctx, q.voter, id, text); err != nil {
		return q.undone(ctx, err)
	}
	return says("Answered. The approvers see it on the card.")
}

func (q *inquiry) revoke(ctx context.Context, rest string) channels.Answer {
	typed, why := word(rest)
	if otherwise := need("revoke", typed); otherwise != nil {
		return *otherwise
	}
	id, otherwise := q.revocable(ctx, typed)
	if otherwise != nil {
		return *otherwise
	}
	if strings.HasPrefix(id, "grt_") {
		if err := q.Gate.RevokeGrantAs(ctx, q.voter, id); err != nil {
			return q.undone(ctx, err)
		}
		return says("Revoked. It lets nothing pass any more.")
	}
	v, err := q.Gate.Get(ctx, drawer, gate.ID(id))
	if err == nil {
		err = q.look.MaySee(ctx, &v.Approval)
	}
	if err != nil {
		return q.unread(ctx, err)
	}
	t, err := q.Gate.Revoke(ctx, v.ID, q.voter, why)
	if err != nil {
		return q.undone(ctx, err)
	}
	return says(recorded(&channels.Click{Choice: gate.Deny}, &t))
}

// revocable turns what was typed into the id of an approval that has not run, or
// of a grant.
func (q *inquiry) revocable(ctx context.Context, typed string) (string, *channels.Answer) {
	if id, err := gate.ParseID(typed); err == nil {
		return string(id), nil
	}
	f, err := q.find(ctx, typed, true)
	if err == nil {
		err = q.findGrants(ctx, typed, &f)
	}
	if err != nil {
		a := q.unread(ctx, err)
		return "", &a
	}
	return f.one(typed, true)
}

func (q *inquiry) findGrants(ctx context.Context, typed string, f *found) error {
	grants, more, err := q.visibleGrants(ctx)
	if err != nil {
		return err
	}
	f.more = f.more || more
	for i := range grants {
		if gate.Names(typed, grants[i].ID) {
			f.grants = append(f.grants, grants[i])
		}
	}
	return nil
}

// Press decides what was pressed on a private card. What was decided stands in its
// place then, without buttons.
func (c *Commands) Press(ctx context.Context, k channels.Click) channels.Answer {
	text, err := c.Clicks.Try(ctx, k)
	if err != nil && gate.KindOf(err) != gate.Conflict { // that one came too late, and the card with it
		return channels.Answer{Lines: []string{text}, Beside: true}
	}
	answer := says(text)
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	if v, err := c.Gate.Get(ctx, drawer, k.Approval); err == nil {
		answer.Card = c.Clicks.Private.Card(&v)
		answer.Card.Settle()
	}
	return answer
}
