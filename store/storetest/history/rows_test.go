//go:build unix

package history

import (
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/approvalbot/approvalbot/gate"
)

// The calls of rows. Each takes a microsecond and begins when the one before
// has returned, unless the row says otherwise.
func opening(key string, id gate.ID, says gate.Opened) *op {
	return yes(call{Method: "open", Key: key, ID: id, Opening: &gate.Opening{
		Subject: gate.Subject{Digest: gate.Digest{1}, Requester: gate.Requester{Key: hermes}},
		Mode:    gate.Deferred, ExpiresIn: time.Second,
	}}, answer{Opened: &says})
}

func opened() *op { return opening("k", "a", gate.Opened{ID: "a", Created: true}) }

func vote(person, nonce string, rev int64, settles gate.State) call {
	choice := gate.Approve
	if settles == gate.Denied || settles == gate.Revoked {
		choice = gate.Deny
	}
	return call{Method: "vote", ID: "a", Ballot: &gate.Ballot{
		Rev: rev, Digest: gate.Digest{1}, Settles: settles, RunFor: time.Second,
		Vote: gate.Vote{Voter: gate.Voter{Person: person}, Choice: choice, Nonce: nonce},
	}}
}

func approved() *op { return yes(vote("ann", "1", 1, gate.Approved), answer{}) }

func consume(attempt string, rev int64, change ...func(*gate.Consumption)) call {
	c := gate.Consumption{Rev: rev, Digest: gate.Digest{1}, Principal: hermes, Attempt: attempt, WillReport: true, ReportIn: time.Minute}
	for _, f := range change {
		f(&c)
	}
	return call{Method: "consume", ID: "a", Consumption: &c}
}

func run1(replayed bool) answer {
	return answer{Consumed: &gate.Consumed{Started: time.UnixMilli(7), Replayed: replayed}}
}

func report(attempt string) call {
	return call{Method: "report", ID: "a", Report: &gate.Report{Principal: hermes, Attempt: attempt, Outcome: gate.Executed}}
}

func cancel() call {
	return call{Method: "withdraw", ID: "a", Withdrawal: &gate.Withdrawal{Event: gate.EventCancel, Reason: gate.ReasonCancelled}}
}

func saw(s gate.State, rev int64, why gate.Reason) *op {
	return yes(call{Method: "get", ID: "a"}, answer{Seen: &seen{ID: "a", State: s, Rev: rev, Reason: why, Digest: gate.Digest{1}, Mode: gate.Deferred}})
}

func yes(c call, a answer) *op         { return &op{call: c, answer: &a} }
func no(c call, why refusal) *op       { return &op{call: c, answer: &answer{No: &why}} }
func silence(c call) *op               { return &op{call: c, to: forever} }
func after(d time.Duration, o *op) *op { o.from = int64(d); return o }

func TestModel(t *testing.T) {
	t.Parallel()
	conflict := func(why gate.Reason) refusal { return refusal{Kind: gate.Conflict, Reason: why} }
	for name, row := range map[string]struct {
		ops   []*op
		legal bool
	}{
		"an approved call is dispatched, and the same attempt hears it again": {
			[]*op{opened(), approved(), yes(consume("x", 2), run1(false)), yes(consume("x", 2), run1(true)), no(consume("y", 2), spent)}, true,
		},
		"another attempt is told to run": {
			[]*op{opened(), approved(), yes(consume("x", 2), run1(false)), yes(consume("y", 2), run1(true))}, false,
		},
		"the same attempt is told that somebody else was first": {
			[]*op{opened(), approved(), yes(consume("x", 2), run1(false)), no(consume("x", 2), spent)}, false,
		},
		"spent, but by nobody": {
			[]*op{opened(), approved(), no(consume("x", 2), spent)}, false,
		},
		"a question is dispatched": {
			[]*op{opened(), yes(consume("x", 1), run1(false))}, false,
		},
		"what was denied is dispatched": {
			[]*op{opened(), yes(vote("ann", "1", 1, gate.Denied), answer{}), yes(consume("x", 2), run1(false))}, false,
		},
		"what was denied is approved": {
			[]*op{opened(), yes(vote("ann", "1", 1, gate.Denied), answer{}), yes(vote("bo", "2", 2, gate.Approved), answer{})}, false,
		},
		"another call is dispatched": {
			[]*op{opened(), approved(), yes(consume("x", 2, func(c *gate.Consumption) { c.Digest = gate.Digest{2} }), run1(false))}, false,
		},
		"somebody else's call is dispatched": {
			[]*op{opened(), approved(), yes(consume("x", 2, func(c *gate.Consumption) { c.Principal = "mallory" }), run1(false))}, false,
		},
		"a vote that was counted before another is taken": {
			[]*op{opened(), yes(vote("ann", "1", 1, ""), answer{}), yes(vote("bo", "2", 1, gate.Approved), answer{})}, false,
		},
		"the same press is taken again, whatever became of it": {
			[]*op{opened(), approved(), yes(cancel(), answer{}), yes(vote("ann", "1", 1, gate.Approved), answer{})}, true,
		},
		"the same press is told how things are now": {
			[]*op{opened(), approved(), yes(cancel(), answer{}), no(vote("ann", "1", 1, gate.Approved), moved)}, false,
		},
		"a refusal names a reason that is not so": {
			[]*op{opened(), yes(cancel(), answer{}), no(consume("x", 2), conflict(gate.ReasonDenied))}, false,
		},
		"a late vote is refused": {
			[]*op{opened(), after(2*time.Second, no(vote("ann", "1", 2, gate.Approved), conflict(gate.ReasonExpired)))}, true,
		},
		"a late vote is taken": {
			[]*op{opened(), after(2*time.Second, approved())}, false,
		},
		"a question expires before its time": {
			[]*op{opened(), saw(gate.Expired, 2, gate.ReasonExpired)}, false,
		},
		"a key names one approval": {
			[]*op{opened(), opening("k", "b", gate.Opened{ID: "a"})}, true,
		},
		"a key names two": {
			[]*op{opened(), opening("k", "b", gate.Opened{ID: "b", Created: true})}, false,
		},
		"a call without an answer has happened": {
			[]*op{opened(), silence(cancel()), saw(gate.Cancelled, 2, gate.ReasonCancelled)}, true,
		},
		"a call without an answer has not happened": {
			[]*op{opened(), silence(cancel()), saw(gate.Pending, 1, "")}, true,
		},
		"a call without an answer happens twice": {
			[]*op{opened(), silence(cancel()), saw(gate.Cancelled, 3, gate.ReasonCancelled)}, false,
		},
		"what has happened is undone": {
			[]*op{opened(), yes(cancel(), answer{}), saw(gate.Pending, 1, "")}, false,
		},
		"a refused call has happened": {
			[]*op{opened(), no(cancel(), conflict(gate.ReasonDenied)), saw(gate.Cancelled, 2, gate.ReasonCancelled)}, false,
		},
		"another attempt reports": {
			[]*op{opened(), approved(), yes(consume("x", 2), run1(false)), yes(report("y"), answer{})}, false,
		},
		"a report of what was not dispatched cancels it": {
			[]*op{opened(), yes(report("y"), answer{}), saw(gate.Cancelled, 2, gate.ReasonCancelled)}, true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := porcupine.CheckOperations(model(clock{}), operations(inTurn(row.ops))); got != row.legal {
				t.Errorf("legal = %t, want %t:\n%s", got, row.legal, describe(row.ops))
			}
		})
	}
}

// inTurn gives calls their times.
func inTurn(ops []*op) []*op {
	at := int64(0)
	for i, o := range ops {
		o.client = i
		o.from = max(o.from, at)
		o.to = max(o.to, o.from+int64(time.Microsecond))
		at = o.from + int64(2*time.Microsecond)
	}
	return ops
}
