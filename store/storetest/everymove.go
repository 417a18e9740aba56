package storetest

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/approvalbot/approvalbot/gate"
)

// situations bring approvals into every state there is, by the public methods
// alone; approved comes in three kinds. The last step of each is time, if need
// be, which passes once for all.
var situations = map[string]struct {
	state gate.State
	bring func(*kit) gate.ID
}{
	"pending":       {gate.Pending, func(k *kit) gate.ID { return k.open() }},
	"inline":        {gate.Pending, func(k *kit) gate.ID { return k.open(inline(time.Hour)) }},
	"asked":         {gate.Pending, func(k *kit) gate.ID { return k.questioned() }},
	"approved":      {gate.Approved, func(k *kit) gate.ID { id := k.open(); k.approve(id); return id }},
	"staged":        {gate.Approved, func(k *kit) gate.ID { id := k.open(runBy(newAttempt())); k.approve(id); return id }},
	"discretionary": {gate.Approved, func(k *kit) gate.ID { id := k.open(discretionary); k.approve(id); return id }},
	"leased":        {gate.Leased, func(k *kit) gate.ID { return k.leased() }},
	"executing":     {gate.Executing, func(k *kit) gate.ID { id := k.open(); k.approve(id); k.consume(id); return id }},
	"executed":      {gate.Executed, func(k *kit) gate.ID { return k.reported(gate.Executed) }},
	"failed":        {gate.Failed, func(k *kit) gate.ID { return k.reported(gate.Failed) }},
	"denied":        {gate.Denied, func(k *kit) gate.ID { id := k.open(); k.deny(id); return id }},
	"cancelled":     {gate.Cancelled, func(k *kit) gate.ID { return k.withdrawn(gate.EventCancel, gate.ReasonUndeliverable) }},
	"revoked":       {gate.Revoked, func(k *kit) gate.ID { return k.withdrawn(gate.EventRevoked, gate.ReasonPolicyChanged) }},
	"void":          {gate.Void, func(k *kit) gate.ID { return k.withdrawn(gate.EventVoided, gate.ReasonPolicyChanged) }},
	"expired":       {gate.Expired, func(k *kit) gate.ID { return k.open(expires(k.Brief)) }},
	"lapsed":        {gate.Lapsed, func(k *kit) gate.ID { id := k.open(); k.approveFor(id, k.Brief); return id }},
	"unknown":       {gate.OutcomeUnknown, func(k *kit) gate.ID { return k.dispatched(true) }},
}

func (k *kit) questioned() gate.ID {
	k.Helper()
	id := k.open()
	k.ok(k.Ask(k.Context(), id, k.get(id).Rev, gate.Question{By: "Bob", Text: "what for?"}))
	return id
}

func (k *kit) leased() gate.ID {
	k.Helper()
	executor := newAttempt()
	id := k.open(runBy(executor))
	k.approve(id)
	k.lease(executor, "worker")
	return id
}

func (k *kit) reported(outcome gate.State) gate.ID {
	k.Helper()
	id := k.open()
	k.approve(id)
	c := k.consume(id)
	k.ok(k.Report(k.Context(), id, gate.Report{Principal: c.Principal, Attempt: c.Attempt, Outcome: outcome}))
	return id
}

func (k *kit) withdrawn(e gate.Event, why gate.Reason) gate.ID {
	k.Helper()
	id := k.open()
	k.approve(id)
	k.ok(k.Withdraw(k.Context(), id, gate.Withdrawal{Event: e, Reason: why, By: "x"}))
	return id
}

// deeds are all methods that change an approval, each as its caller would call
// it on the approval as it is.
var deeds = map[string]func(*kit, gate.Snapshot) error{
	"vote": func(k *kit, s gate.Snapshot) error {
		return second(k.Vote(k.Context(), s.ID, by(k.ballot(s.ID, gate.Approve, ""), "bob")))
	},
	"approve": func(k *kit, s gate.Snapshot) error {
		return second(k.Vote(k.Context(), s.ID, by(k.ballot(s.ID, gate.Approve, gate.Approved), "bob")))
	},
	"deny": func(k *kit, s gate.Snapshot) error {
		return second(k.Vote(k.Context(), s.ID, by(k.ballot(s.ID, gate.Deny, gate.Denied), "bob")))
	},
	"take back": func(k *kit, s gate.Snapshot) error {
		return second(k.Vote(k.Context(), s.ID, by(k.ballot(s.ID, gate.Deny, gate.Revoked), "bob")))
	},
	"ask": func(k *kit, s gate.Snapshot) error {
		return k.Ask(k.Context(), s.ID, s.Rev, gate.Question{By: "Ann", Text: "why?"})
	},
	"answer": func(k *kit, s gate.Snapshot) error { return k.Answer(k.Context(), s.ID, s.Rev, "so") },
	"defer":  func(k *kit, s gate.Snapshot) error { return k.Defer(k.Context(), s.ID) },
	"cancel": func(k *kit, s gate.Snapshot) error {
		return k.Withdraw(k.Context(), s.ID, gate.Withdrawal{Event: gate.EventCancel, Reason: gate.ReasonCancelled})
	},
	"revoke": func(k *kit, s gate.Snapshot) error {
		return k.Withdraw(k.Context(), s.ID, gate.Withdrawal{Event: gate.EventRevoked, Reason: gate.ReasonRevoked})
	},
	"void": func(k *kit, s gate.Snapshot) error {
		return k.Withdraw(k.Context(), s.ID, gate.Withdrawal{Event: gate.EventVoided, Reason: gate.ReasonVoid})
	},
	"replace": func(k *kit, s gate.Snapshot) error {
		return second(k.Open(k.Context(), k.question(k.replacing(s.ID, gate.EventVoided, gate.ReasonVoid))))
	},
	"lease": func(k *kit, s gate.Snapshot) error {
		id, _, ok, err := k.Lease(k.Context(), s.Executor, "w", newAttempt(), time.Hour)
		if err == nil && (!ok || id != s.ID) {
			return errNone
		}
		return err
	},
	"renew": func(k *kit, s gate.Snapshot) error {
		return second(k.Renew(k.Context(), s.ID, s.Lease.Owner, s.Fence, 2*time.Hour, 24*time.Hour))
	},
	"release": func(k *kit, s gate.Snapshot) error {
		return k.Release(k.Context(), s.ID, s.Lease.Owner, s.Fence+1) // see leased
	},
	"give back": func(k *kit, s gate.Snapshot) error { return k.Release(k.Context(), s.ID, "worker", max(s.Fence, 1)) },
	"consume":   func(k *kit, s gate.Snapshot) error { return second(k.Consume(k.Context(), s.ID, k.consumption(s.ID))) },
	"report": func(k *kit, s gate.Snapshot) error {
		return k.Report(k.Context(), s.ID, gate.Report{Principal: s.Requester.Key, Attempt: s.Attempt, Outcome: gate.Executed})
	},
	"report a failure": func(k *kit, s gate.Snapshot) error {
		return k.Report(k.Context(), s.ID, gate.Report{Principal: s.Requester.Key, Attempt: s.Attempt, Outcome: gate.Failed})
	},
	"report that nobody knows": func(k *kit, s gate.Snapshot) error {
		return k.Report(k.Context(), s.ID, gate.Report{Principal: s.Requester.Key, Attempt: s.Attempt, Outcome: gate.OutcomeUnknown})
	},
	"ask to run it again": func(k *kit, s gate.Snapshot) error {
		return second(k.Open(k.Context(), k.question(k.replacing(s.ID, gate.EventRerun, ""))))
	},
	"settle": func(k *kit, s gate.Snapshot) error {
		return k.Report(k.Context(), s.ID, gate.Report{Person: "Ann", Outcome: gate.Failed})
	},
}

type none struct{}

func (none) Error() string { return "none" }

var errNone error = none{}

// taken says which deeds each situation takes, and the state they lead to. All
// others are refused and change nothing.
var taken = map[string]map[string]gate.State{
	"pending":  pendingTakes(nil),
	"inline":   pendingTakes(map[string]gate.State{"defer": gate.Pending}),
	"asked":    pendingTakes(map[string]gate.State{"answer": gate.Pending}),
	"approved": approvedTakes(map[string]gate.State{"consume": gate.Executing}),
	"staged":   approvedTakes(map[string]gate.State{"lease": gate.Leased}),
	"leased": approvedTakes(map[string]gate.State{
		"renew": gate.Leased, "give back": gate.Approved, "consume": gate.Executing,
	}),
	"executing": {"report": gate.Executed, "report a failure": gate.Failed, "report that nobody knows": gate.OutcomeUnknown},
	"unknown": {
		"report": gate.Executed, "report a failure": gate.Failed, "settle": gate.Failed, "ask to run it again": gate.OutcomeUnknown,
	},
}

// harmless are deeds that succeed and leave the approval as it is: said before,
// or a report of what did not run here.
var harmless = map[string][]string{
	"pending": {"defer"}, "asked": {"defer"},
	"unknown":  {"report that nobody knows"},
	"executed": {"report"}, "failed": {"report a failure", "settle"},
	"discretionary": late, "denied": late, "expired": late, "cancelled": late, "lapsed": late, "revoked": late, "void": late,
}

var late = []string{"report", "report a failure", "report that nobody knows"}

func pendingTakes(more map[string]gate.State) map[string]gate.State {
	m := map[string]gate.State{
		"vote": gate.Pending, "ask": gate.Pending, "approve": gate.Approved, "deny": gate.Denied,
		"cancel": gate.Cancelled, "void": gate.Void, "replace": gate.Void,
		"report": gate.Cancelled, "report a failure": gate.Cancelled, "report that nobody knows": gate.Cancelled, // it ran: nobody may run it again
	}
	maps.Copy(m, more)
	return m
}

func approvedTakes(more map[string]gate.State) map[string]gate.State {
	m := map[string]gate.State{
		"take back": gate.Revoked, "revoke": gate.Revoked, "cancel": gate.Cancelled, "void": gate.Void, "replace": gate.Void,
		"report": gate.Cancelled, "report a failure": gate.Cancelled, "report that nobody knows": gate.Cancelled,
	}
	maps.Copy(m, more)
	return m
}

// testEveryMove tries every deed in every situation. The log of all that, which
// checkLog reads, must consist of moves of the table alone.
func testEveryMove(t *testing.T, n New) {
	t.Helper()
	for name, at := range situations {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newKit(t, n)
			ids := map[string]gate.ID{}
			for deed := range deeds {
				ids[deed] = at.bring(k)
			}
			if k.get(ids["vote"]).State != at.state {
				k.Advance(k.T, k.Brief)
			}
			for deed, do := range deeds {
				k.state(ids[deed], at.state)
				k.checkDeed(name, deed, ids[deed], do)
			}
			k.checkLog()
		})
	}
}

func (k *kit) checkDeed(situation, deed string, id gate.ID, do func(*kit, gate.Snapshot) error) {
	k.Helper()
	before, pos := k.get(id), k.tail()
	err := do(k, before)
	after := k.get(id)
	after.Now = before.Now
	want, takes := taken[situation][deed]
	switch {
	case takes && err != nil:
		k.Errorf("%s refused %q: %v", situation, deed, err)
	case takes && after.State != want:
		k.Errorf("%s became %s by %q, want %s", situation, after.State, deed, want)
	case takes && after.Rev == before.Rev && deed != "renew": // that moves a deadline, and nothing people see
		k.Errorf("%s kept its revision through %q", situation, deed)
	case takes:
		return
	case err == nil && !slices.Contains(harmless[situation], deed):
		k.Errorf("%s took %q and is %s", situation, deed, after.State)
	case err != nil && slices.Contains(harmless[situation], deed):
		k.Errorf("%s refused %q: %v", situation, deed, err)
	}
	if diff := cmp.Diff(before, after); diff != "" {
		k.Errorf("%s: %q changed it (-before +after):\n%s", situation, deed, diff)
	}
	if moves := k.events(id, pos); len(moves) > 0 {
		k.Errorf("%s: %q wrote %v", situation, deed, moves)
	}
}
