//go:build linux

package chaos

import (
	"strings"
	"testing"
	"time"

	"github.com/approvalbot/approvalbot/gate"
)

// What happens in rows: each takes a microsecond and begins when the one before has
// ended, unless the row says otherwise.
func pressed(who string, c gate.Choice, nonce string, to gate.State) *op {
	return yes(call{Do: doDecide, ID: "a", Digest: "d", Person: who, Choice: c, Nonce: nonce}, answer{State: to})
}

func approved() *op { return pressed("ann", gate.Approve, "1", gate.Approved) }

func consumed(attempt string) *op { return yes(consumeOf(attempt), answer{}) }

func consumeOf(attempt string) call {
	return call{Do: doConsume, ID: "a", Digest: "d", Attempt: attempt, Owner: "w", Fence: 1}
}

func reported() *op {
	return yes(call{Do: doReport, ID: "a", Attempt: "x", Outcome: gate.Executed}, answer{})
}

func yes(c call, a answer) *op { a.Yes = true; return &op{call: c, answer: a} }
func no(c call) *op            { return &op{call: c, answer: answer{Reason: gate.ReasonSpent}} }
func silence(c call) *op       { return &op{call: c, answer: answer{Unknown: true}, to: forever} }

// row is a small history of one approval, "a".
type row struct {
	ops      []*op
	ran      []ran
	ends     gate.State
	attempt  string
	keeps    bool
	waits    int // replicas that confirm
	log      []gate.Entry
	card     *drawn
	unlike   func(*gate.Snapshot)
	violates string // part of a violation; empty: there is none
}

func entry(e gate.Event, from, to gate.State, by string) gate.Entry {
	return gate.Entry{ID: "a", Event: e, From: from, To: to, By: by}
}

// run1 is what the log tells of an approval that was run.
func run1() []gate.Entry {
	return []gate.Entry{
		entry(gate.EventOpened, "", gate.Pending, hermes), entry(gate.EventDecided, gate.Pending, gate.Approved, "ann"),
		entry(gate.EventLeased, gate.Approved, gate.Leased, "w"), entry(gate.EventConsumed, gate.Leased, gate.Executing, "w"),
		entry(gate.EventReported, gate.Executing, gate.Executed, "w"),
	}
}

func told1(entries ...gate.Entry) []gate.Entry { return entries }

func TestCourt(t *testing.T) {
	t.Parallel()
	once := []ran{{ID: "a", Attempt: "x", Digest: "d", Tool: "one_1", By: "worker"}}
	for name, r := range map[string]row{
		"all is well": {
			ops: []*op{approved(), consumed("x"), reported()}, ran: once, ends: gate.Executed, attempt: "x", keeps: true, log: run1(),
			card: &drawn{Approval: "a", Rev: 5},
		},
		"it is run twice": {
			ops: []*op{approved(), consumed("x"), reported()}, ran: append(once, ran{ID: "a", Attempt: "y", Digest: "d", Tool: "one_1"}),
			ends: gate.Executed, attempt: "x", log: run1(), violates: "dispatched twice",
		},
		"nobody approved it": {
			ops: []*op{consumed("x"), reported()}, ran: once, ends: gate.Executed, attempt: "x", log: run1(), violates: "with 0 of 1 approvals",
		},
		"another call was approved": {
			ops: []*op{approved(), consumed("x"), reported()}, ran: []ran{{ID: "a", Attempt: "x", Digest: "e", Tool: "one_1"}},
			ends: gate.Executed, attempt: "x", log: run1(), violates: "with 0 of 1 approvals",
		},
		"one of two approved it": {
			ops: []*op{approved(), consumed("x"), reported()}, ran: []ran{{ID: "a", Attempt: "x", Digest: "d", Tool: "two_1"}},
			ends: gate.Executed, attempt: "x", log: run1(), violates: "with 1 of 2 approvals",
		},
		"it is run, and was denied": {
			ops: []*op{approved(), pressed("bo", gate.Deny, "2", gate.Revoked), consumed("x")}, ran: once, ends: gate.Executed, attempt: "x",
			log: run1(), violates: "and denied",
		},
		"a refusal spends it": {
			ops: []*op{approved(), no(consumeOf("x")), reported()}, ran: once, ends: gate.Executed, attempt: "x", log: run1(),
			violates: "which was refused",
		},
		"a forged consume is taken": {
			ops: []*op{approved(), consumed("x"), yes(call{Do: doForge, ID: "a", Attempt: "z"}, answer{})}, ran: once, ends: gate.Executed,
			attempt: "x", log: run1(), violates: "forged",
		},
		"an earlier lease dispatches": {
			ops: []*op{approved(), consumed("x")}, ran: once, ends: gate.Executed, attempt: "x", log: run1(),
			unlike: func(s *gate.Snapshot) { s.Fence = 2 }, violates: "under fence 1, but leased under 2",
		},
		"somebody else dispatches": {
			ops: []*op{approved(), consumed("x")}, ran: once, ends: gate.Executed, attempt: "x", log: append(
				run1()[:3:3], entry(gate.EventConsumed, gate.Leased, gate.Executing, "v"), entry(gate.EventReported, gate.Executing, gate.Executed, "v")),
			violates: `by v, but leased by "w"`,
		},
		"it never ends": {
			ops: []*op{approved()}, ends: gate.Approved, log: run1()[:2], violates: "is still approved",
		},
		"the log makes a move that there is not": {
			ends: gate.Executed, log: told1(entry(gate.EventOpened, "", gate.Pending, ""), entry(gate.EventReported, gate.Pending, gate.Executed, "")),
			violates: `took "reported" from "pending"`,
		},
		"the log has a gap": {
			ends: gate.Expired, log: told1(gate.Entry{N: 7}), violates: "entry 1 has number 7",
		},
		"a decision is lost": {
			ops: []*op{approved()}, ends: gate.Lapsed, keeps: true, unlike: func(s *gate.Snapshot) { s.Votes = nil },
			log:      append(run1()[:2:2], entry(gate.EventLapsed, gate.Approved, gate.Lapsed, "")),
			violates: "a decision was lost",
		},
		"a decision is lost where that may be": {
			ops: []*op{approved()}, ends: gate.Lapsed, unlike: func(s *gate.Snapshot) { s.Votes = nil },
			log: append(run1()[:2:2], entry(gate.EventLapsed, gate.Approved, gate.Lapsed, "")),
		},
		"a decision is lost that replicas have confirmed": {
			ops: []*op{approved()}, ends: gate.Lapsed, waits: 1, unlike: func(s *gate.Snapshot) { s.Votes = nil },
			log:      append(run1()[:2:2], entry(gate.EventLapsed, gate.Approved, gate.Lapsed, "")),
			violates: "a decision was lost",
		},
		"a report is lost": {
			ops: []*op{approved(), consumed("x"), reported()}, ran: once, ends: gate.Failed, attempt: "x", keeps: true,
			log:      append(run1()[:4:4], entry(gate.EventReported, gate.Executing, gate.Failed, "")),
			violates: "a report was lost",
		},
		"it is stored as run, and was not": {
			ops: []*op{approved(), consumed("x")}, ends: gate.Executed, attempt: "x", keeps: true, log: run1(), violates: "was never run",
		},
		"a card says what was long ago": {
			ops: []*op{approved(), consumed("x"), reported()}, ran: once, ends: gate.Executed, attempt: "x", keeps: true, log: run1(),
			card: &drawn{Approval: "a", Rev: 2}, violates: "at revision 5",
		},
		"a card has buttons in the end": {
			ops: []*op{approved(), consumed("x"), reported()}, ran: once, ends: gate.Executed, attempt: "x", keeps: true, log: run1(),
			card: &drawn{Approval: "a", Rev: 5, Live: true}, violates: "at revision 5",
		},
		"two attempts are told to run": {
			ops: []*op{approved(), consumed("x"), consumed("y"), reported()}, ran: once, ends: gate.Executed, attempt: "x", keeps: true,
			log: run1(), violates: "no order",
		},
		"it expires, though it was approved": {
			ops: []*op{approved()}, ends: gate.Expired, keeps: true,
			log:      told1(entry(gate.EventOpened, "", gate.Pending, ""), entry(gate.EventExpired, gate.Pending, gate.Expired, "")),
			violates: "no order",
		},
		"what got no answer has happened": {
			ops: []*op{approved(), silence(consumeOf("x")), reported()}, ran: once, ends: gate.Executed, attempt: "x", keeps: true, log: run1(),
		},
		"what got no answer has not happened": {
			ops: []*op{approved(), silence(consumeOf("y")), consumed("x"), reported()}, ran: once, ends: gate.Executed, attempt: "x",
			keeps: true, log: run1(),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := r.court()
			c.sit()
			got := strings.Join(c.violations, "\n")
			if r.violates == "" && got != "" || !strings.Contains(got, r.violates) {
				t.Errorf("want a violation with %q, got:\n%s", r.violates, got)
			}
		})
	}
}

// court has the row before it.
func (r *row) court() *court {
	s := &gate.Snapshot{Approval: gate.Approval{
		ID: "a", State: r.ends, Attempt: r.attempt, Fence: 1, Mode: gate.Deferred, Rev: int64(len(r.log)),
		Subject: gate.Subject{Call: gate.Call{Tool: "one_1"}, Executor: ops},
	}}
	at := int64(0)
	for i, o := range r.ops {
		o.client, o.from = i, at
		o.to = max(o.to, at+int64(time.Microsecond))
		at += int64(2 * time.Microsecond)
		if o.Do == doDecide && o.Yes {
			s.Votes = append(s.Votes, gate.Vote{Voter: gate.Voter{Person: o.Person}, Choice: o.Choice, Nonce: o.Nonce})
		}
	}
	if r.unlike != nil {
		r.unlike(s)
	}
	for i := range r.log {
		if r.log[i].N == 0 {
			r.log[i].N = int64(i + 1)
		}
	}
	c := newCourt(r.ops, ending{approvals: map[gate.ID]*gate.Snapshot{"a": s}, log: r.log}, &topology{replica: !r.keeps, waits: r.waits})
	for _, run := range r.ran {
		run.At = at
		c.ran = append(c.ran, run)
	}
	if r.card != nil {
		c.cards = []drawn{*r.card}
	}
	return c
}
