package storetest

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/approvalbot/approvalbot/gate"
)

var dispatching = tests{
	"a consumed approval is executing": func(k *kit) {
		id := k.open()
		k.approve(id)
		c := k.consumption(id)
		got, err := k.Consume(k.Context(), id, c)
		k.ok(err)
		s := k.state(id, gate.Executing)
		if !s.Started.Equal(got.Started) || s.Started.Before(s.Decided) || s.Attempt != c.Attempt || got.Replayed {
			k.Errorf("started %v (answer %v), attempt %q, replayed %t", s.Started, got.Started, s.Attempt, got.Replayed)
		}
	},
	"of fifty consumers one gets a yes and the others spent": func(k *kit) {
		id := k.open()
		k.approve(id)
		c := k.consumption(id)
		reasons := race(50, func(int) error {
			mine := c
			mine.Attempt = newAttempt()
			err := second(k.Consume(k.Context(), id, mine))
			if errors.Is(err, gate.Conflict) {
				return errors.New(string(gate.ReasonOf(err)))
			}
			return err
		})
		if reasons["<nil>"] != 1 || reasons["spent"] != 49 {
			k.Errorf("got %v, want one yes and 49 spent", reasons)
		}
	},
	"the same attempt gets the same yes again": func(k *kit) {
		id := k.open()
		k.approve(id)
		c := k.consumption(id)
		first, err := k.Consume(k.Context(), id, c)
		k.ok(err)
		k.Advance(k.T, 2*time.Millisecond)
		k.repeats(id, func() error {
			again, err := k.Consume(k.Context(), id, c)
			if !again.Replayed || !again.Started.Equal(first.Started) {
				k.Errorf("Consume again = %+v, want a replay of %v", again, first.Started)
			}
			return err
		})
		for name, change := range map[string]func(*gate.Consumption){
			"another attempt":   func(c *gate.Consumption) { c.Attempt = newAttempt() },
			"another principal": func(c *gate.Consumption) { c.Principal = "other" },
			"another call":      func(c *gate.Consumption) { c.Digest = k.question(otherCall).Digest },
		} {
			k.Log(name)
			other := c
			change(&other)
			k.refuses(id, gate.Conflict, gate.ReasonSpent, func() error { return second(k.Consume(k.Context(), id, other)) })
		}
		k.ok(k.Report(k.Context(), id, gate.Report{Principal: alice.Key, Attempt: c.Attempt, Outcome: gate.Executed}))
		k.refuses(id, gate.Conflict, gate.ReasonSpent, func() error { return second(k.Consume(k.Context(), id, c)) })
	},
	"a lost yes can be asked for in time only": func(k *kit) {
		id := k.open()
		k.approve(id)
		c := k.consume(id)
		k.Advance(k.T, gate.ReplayWindow)
		k.repeats(id, func() error { return second(k.Consume(k.Context(), id, c)) })
		k.Advance(k.T, time.Millisecond)
		k.refuses(id, gate.Conflict, gate.ReasonSpent, func() error { return second(k.Consume(k.Context(), id, c)) })
	},
	"whatever is not exactly the approved attempt is refused and burns nothing": func(k *kit) {
		id := k.open()
		k.approve(id)
		for _, tt := range []struct {
			name   string
			change func(*gate.Consumption)
			kind   gate.Kind
			reason gate.Reason
		}{
			{"another call", func(c *gate.Consumption) { c.Digest = k.question(otherCall).Digest }, gate.Conflict, gate.ReasonDigestMismatch},
			{"another principal", func(c *gate.Consumption) { c.Principal = "other" }, gate.Conflict, gate.ReasonFenced},
			{"votes counted before", func(c *gate.Consumption) { c.Rev-- }, gate.Conflict, gate.ReasonAlreadyDecided},
			{"another policy", func(c *gate.Consumption) { c.Policy = "77" }, gate.Unavailable, gate.ReasonPolicyUnavailable},
			{"no policy", func(c *gate.Consumption) { c.Policy = "" }, gate.Unavailable, gate.ReasonPolicyUnavailable},
			{"no attempt", func(c *gate.Consumption) { c.Attempt = "" }, gate.Invalid, gate.ReasonGateError},
		} {
			k.Log(tt.name)
			c := k.consumption(id)
			tt.change(&c)
			k.refuses(id, tt.kind, tt.reason, func() error { return second(k.Consume(k.Context(), id, c)) })
		}
		k.consume(id)
	},
	"only what is approved can be consumed": func(k *kit) {
		pending := k.open()
		k.refuses(pending, gate.Conflict, gate.ReasonAlreadyDecided, func() error {
			return second(k.Consume(k.Context(), pending, k.consumption(pending)))
		})
		denied := k.open()
		k.deny(denied)
		k.refuses(denied, gate.Conflict, gate.ReasonDenied, func() error {
			return second(k.Consume(k.Context(), denied, k.consumption(denied)))
		})
		staged := k.open(runBy("ops"))
		k.approve(staged)
		c := k.consumption(staged)
		for _, c.Principal = range []string{alice.Key, ""} {
			k.refuses(staged, gate.Conflict, gate.ReasonFenced, func() error { return second(k.Consume(k.Context(), staged, c)) })
		}
	},
	"a leased call is consumed by its leaseholder under the present fence": func(k *kit) {
		id := k.open(runBy("ops"))
		k.approve(id)
		_, old := k.lease("ops", "worker-1")
		k.ok(k.Release(k.Context(), id, "worker-1", old))
		k.lease("ops", "worker-1")
		for name, change := range map[string]func(*gate.Consumption){
			"the fence before": func(c *gate.Consumption) { c.Fence = old },
			"another worker":   func(c *gate.Consumption) { c.Principal = "worker-2" },
			"the opener":       func(c *gate.Consumption) { c.Principal = alice.Key },
		} {
			k.Log(name)
			c := k.consumption(id)
			change(&c)
			k.refuses(id, gate.Conflict, gate.ReasonFenced, func() error { return second(k.Consume(k.Context(), id, c)) })
		}
		c := k.consume(id)
		if s := k.state(id, gate.Executing); s.Lease.Owner != "worker-1" {
			k.Errorf("owner %q while executing, want worker-1", s.Lease.Owner)
		}
		k.ok(k.Report(k.Context(), id, gate.Report{Principal: "worker-1", Attempt: c.Attempt, Outcome: gate.Failed, Note: "boom"}))
	},
	"an approval that was not run in time cannot be consumed": func(k *kit) {
		id := k.open()
		k.approveFor(id, k.Brief)
		c := k.consumption(id)
		k.Advance(k.T, k.Brief)
		if err := second(k.Consume(k.Context(), id, c)); !errors.Is(err, gate.Conflict) || gate.ReasonOf(err) != gate.ReasonLapsed {
			k.Errorf("late Consume = %v, want a Conflict (lapsed)", err)
		}
		k.state(id, gate.Lapsed)
	},
	"while live replicas run different policies nothing is consumed": func(k *kit) {
		id := k.open()
		k.approve(id)
		if p := k.beat("replica-2", "77"); p.Others != 1 {
			k.Errorf("others = %d, want 1", p.Others)
		}
		if p := k.beat("replica-3", "88"); p.Others != 2 || p.Now.IsZero() {
			k.Errorf("pulse = %+v, want 2 others", p)
		}
		if p := k.beat("replica-4", "88"); p.Others != 2 {
			k.Errorf("others = %d, want 2: replicas of one policy count once", p.Others)
		}
		if p := k.beat("replica-1", policy); p.Others != 2 {
			k.Errorf("others = %d, want 2: replicas of one policy count once", p.Others)
		}
		k.beat("replica-4", policy)
		for _, p := range []gate.Version{policy, "77", "88", ""} {
			c := k.consumption(id)
			c.Policy = p
			k.refuses(id, gate.Unavailable, gate.ReasonPolicyUnavailable, func() error { return second(k.Consume(k.Context(), id, c)) })
		}
		k.beat("replica-2", policy)
		if p := k.beat("replica-3", policy); p.Others != 0 {
			k.Errorf("others = %d, want 0", p.Others)
		}
		k.consume(id)
	},
	"a replica that slept through a reload consumes nothing": func(k *kit) {
		id := k.open()
		k.approve(id)
		k.Advance(k.T, 16*time.Second)
		k.beat("replica-2", "77") // the sleeper is taken for gone
		c := k.consumption(id)
		k.refuses(id, gate.Unavailable, gate.ReasonPolicyUnavailable, func() error { return second(k.Consume(k.Context(), id, c)) })
		c.Policy = "77"
		k.ok(second(k.Consume(k.Context(), id, c)))
	},
	"a replica counts for fifteen seconds after its last beat": func(k *kit) {
		k.Advance(k.T, 15*time.Second)
		if p := k.beat("replica-2", "77"); p.Others != 1 {
			k.Errorf("others = %d, want 1", p.Others)
		}
		k.Advance(k.T, time.Millisecond)
		if p := k.beat("replica-2", "77"); p.Others != 0 {
			k.Errorf("others = %d, want 0", p.Others)
		}
	},
	"a heartbeat names a replica and a policy": func(k *kit) {
		if _, err := k.Heartbeat(k.Context(), "r", ""); !errors.Is(err, gate.Invalid) {
			k.Errorf("Heartbeat = %v, want Invalid", err)
		}
		if _, err := k.Heartbeat(k.Context(), "", policy); !errors.Is(err, gate.Invalid) {
			k.Errorf("Heartbeat = %v, want Invalid", err)
		}
	},
	"a report settles, and settles once": func(k *kit) {
		for _, outcome := range []gate.State{gate.Executed, gate.Failed} {
			id := k.open()
			k.approve(id)
			c := k.consume(id)
			r := gate.Report{Principal: alice.Key, Attempt: c.Attempt, Outcome: outcome, Note: "deleted web-1"}
			k.ok(k.Report(k.Context(), id, r))
			s := k.state(id, outcome)
			if s.Note != r.Note || s.Ended.Before(s.Started) || s.Outcome != "" || s.By != "Ann" {
				k.Errorf("note %q, ended %v, outcome %q, by %q", s.Note, s.Ended, s.Outcome, s.By)
			}
			k.repeats(id, func() error { return k.Report(k.Context(), id, r) })
			r.Outcome = map[gate.State]gate.State{gate.Executed: gate.Failed, gate.Failed: gate.Executed}[outcome]
			k.refuses(id, gate.Conflict, gate.ReasonSpent, func() error { return k.Report(k.Context(), id, r) })
		}
	},
	"a report is of the attempt that was dispatched, by who dispatched it": func(k *kit) {
		id := k.open()
		k.approve(id)
		c := k.consume(id)
		for _, r := range []gate.Report{
			{Principal: alice.Key, Attempt: newAttempt(), Outcome: gate.Executed},
			{Principal: "other", Attempt: c.Attempt, Outcome: gate.Executed},
			{Principal: "other", Outcome: gate.Executed},
		} {
			k.refuses(id, gate.Conflict, gate.ReasonFenced, func() error { return k.Report(k.Context(), id, r) })
		}
		k.refuses(id, gate.Invalid, gate.ReasonGateError, func() error {
			return k.Report(k.Context(), id, gate.Report{Principal: alice.Key, Attempt: c.Attempt, Outcome: gate.Pending})
		})
		k.ok(k.Report(k.Context(), id, gate.Report{Principal: alice.Key, Attempt: c.Attempt, Outcome: gate.Executed}))
		k.refuses(id, gate.Conflict, gate.ReasonFenced, func() error {
			return k.Report(k.Context(), id, gate.Report{Principal: "other", Attempt: c.Attempt, Outcome: gate.Executed})
		})
	},
	"a report after a crash comes without its attempt": func(k *kit) {
		id := k.open()
		k.approve(id)
		k.consume(id)
		r := gate.Report{Principal: alice.Key, Outcome: gate.Executed}
		k.ok(k.Report(k.Context(), id, r))
		if s := k.state(id, gate.Executed); s.Outcome != "reported_without_attempt" {
			k.Errorf("outcome %q", s.Outcome)
		}
		k.repeats(id, func() error { return k.Report(k.Context(), id, r) })
	},
	"without a report in time the outcome is unknown until somebody tells": func(k *kit) {
		id := k.dispatched(true)
		k.Advance(k.T, k.Brief)
		s := k.state(id, gate.OutcomeUnknown)
		if !s.Ended.IsZero() {
			k.Errorf("ended %v, want not", s.Ended)
		}
		k.ok(k.Report(k.Context(), id, gate.Report{Principal: alice.Key, Attempt: s.Attempt, Outcome: gate.Failed, Note: "late"}))
		k.state(id, gate.Failed)
	},
	"a person settles an unknown outcome, nothing else": func(k *kit) {
		id := k.dispatched(true)
		r := gate.Report{Person: "Ann", Outcome: gate.Executed, Note: "I looked"}
		k.refuses(id, gate.Conflict, gate.ReasonSpent, func() error { return k.Report(k.Context(), id, r) })
		k.Advance(k.T, k.Brief)
		k.state(id, gate.OutcomeUnknown)
		pos := k.tail()
		k.ok(k.Report(k.Context(), id, r))
		if s := k.state(id, gate.Executed); s.Note != "I looked" {
			k.Errorf("note %q", s.Note)
		}
		if e := k.entries(pos)[0]; e.By != "Ann" {
			k.Errorf("the log says by %q", e.By)
		}
		k.repeats(id, func() error { return k.Report(k.Context(), id, r) })
	},
	"a caller that cannot report is taken for done": func(k *kit) {
		id := k.dispatched(false)
		k.Advance(k.T, k.Brief)
		if s := k.state(id, gate.Executed); s.Outcome != "unreported" || s.Ended.IsZero() {
			k.Errorf("outcome %q, ended %v", s.Outcome, s.Ended)
		}
	},
	"a report of what is not executing here is kept and stops a second run": func(k *kit) {
		id := k.open(func(o *gate.Opening) { o.Key = "k" })
		first := k.question(k.replacing(id, gate.EventVoided, gate.ReasonVoid))
		k.ok(second(k.Open(k.Context(), first)))
		k.approve(first.ID)
		last := k.question(k.replacing(first.ID, gate.EventVoided, gate.ReasonVoid))
		k.ok(second(k.Open(k.Context(), last)))
		pos := k.tail()
		r := gate.Report{Principal: alice.Key, Attempt: newAttempt(), Outcome: gate.Executed}
		k.ok(k.Report(k.Context(), id, r))
		if s := k.state(id, gate.Void); s.Outcome != "" {
			k.Errorf("outcome %q", s.Outcome)
		}
		k.state(first.ID, gate.Void)
		k.state(last.ID, gate.Cancelled)
		es := k.entries(pos)
		if len(es) != 2 || es[0].Event != gate.EventSecurity || es[0].ID != id || !strings.Contains(es[0].Note, "executed") {
			k.Errorf("log: %+v, want a security line and the cancellation", es)
		}
		k.repeats(id, func() error { return k.Report(k.Context(), id, r) })
	},
	"a report of what is still open ends it": func(k *kit) {
		for _, bring := range []func(gate.ID){func(gate.ID) {}, func(id gate.ID) { k.approve(id) }} {
			id := k.open()
			bring(id)
			k.ok(k.Report(k.Context(), id, gate.Report{Principal: alice.Key, Attempt: newAttempt(), Outcome: gate.Failed}))
			k.state(id, gate.Cancelled)
		}
	},
	"revoking races consuming, and one of them wins": func(k *kit) {
		for range 20 {
			id := k.open()
			k.approve(id)
			c, b := k.consumption(id), by(k.ballot(id, gate.Deny, gate.Revoked), "bob")
			got := race(2, func(i int) error {
				if i == 0 {
					return second(k.Consume(k.Context(), id, c))
				}
				return second(k.Vote(k.Context(), id, b))
			})
			if got["<nil>"] != 1 {
				k.Fatalf("got %v, want one winner", got)
			}
			if s := k.get(id); s.State != gate.Executing && s.State != gate.Revoked {
				k.Fatalf("it is %s", s.State)
			}
		}
	},
}

// dispatched is an approval whose report is due in brief.
func (k *kit) dispatched(willReport bool) gate.ID {
	k.Helper()
	id := k.open()
	k.approve(id)
	c := k.consumption(id)
	c.WillReport, c.ReportIn = willReport, k.Brief
	k.ok(second(k.Consume(k.Context(), id, c)))
	return id
}

var leasing = tests{
	"workers get approved calls of their executor, the oldest first": func(k *kit) {
		a, b := k.open(runBy("ops")), k.open(runBy("ops"))
		k.open(runBy("ops"))
		other, own := k.open(runBy("dev")), k.open()
		k.noLease("ops")
		for _, id := range []gate.ID{b, a, other, own} {
			k.approve(id)
			k.Advance(k.T, 2*time.Millisecond)
		}
		first, fence := k.lease("ops", "w1")
		then, _ := k.lease("ops", "w2")
		if first != b || then != a || fence != 1 {
			k.Errorf("leased %s and %s, want %s and %s; fence %d", first, then, b, a, fence)
		}
		k.noLease("ops")
		k.noLease(gate.RequesterRuns)
		s := k.state(b, gate.Leased)
		if s.Lease.Owner != "w1" || s.Lease.Until.Before(s.Now) || s.Fence != 1 {
			k.Errorf("lease %+v, fence %d", s.Lease, s.Fence)
		}
	},
	"an inline call is its caller's to run, whoever its executor is": func(k *kit) {
		id := k.open(runBy("ops"), inline(time.Hour))
		k.approve(id)
		k.noLease("ops")
		k.consume(id)
		k.state(id, gate.Executing)
	},
	"an inline call that is not waited for any more is its executor's": func(k *kit) {
		id := k.open(runBy("ops"), inline(time.Hour))
		k.ok(k.Defer(k.Context(), id))
		k.approve(id)
		k.refuses(id, gate.Conflict, gate.ReasonFenced, func() error { return second(k.Consume(k.Context(), id, k.consumption(id))) })
		if got, _ := k.lease("ops", "w1"); got != id {
			k.Errorf("leased %s, want %s", got, id)
		}
	},
	"signs of life of the holder keep a dispatched call from becoming unknown, and not for ever": func(k *kit) {
		id := k.open(runBy("ops"))
		k.approve(id)
		_, fence := k.lease("ops", "w1")
		c := k.consumption(id)
		c.ReportIn = k.Brief
		k.ok(second(k.Consume(k.Context(), id, c)))
		rev := k.get(id).Rev
		until, err := k.Renew(k.Context(), id, "w1", fence, 10*k.Brief, 100*k.Brief)
		k.ok(err)
		k.Advance(k.T, k.Brief)
		if s := k.state(id, gate.Executing); s.Rev != rev || !until.After(s.Now) {
			k.Errorf("revision %d, before %d; until %s", s.Rev, rev, until)
		}
		k.refuses(id, gate.Conflict, gate.ReasonFenced, func() error {
			return second(k.Renew(k.Context(), id, "w2", fence, 10*k.Brief, 100*k.Brief))
		})
		k.ok(second(k.Renew(k.Context(), id, "w1", fence, 10*k.Brief, k.Brief)))
		k.state(id, gate.OutcomeUnknown)
	},
	"the same nonce gets the same lease": func(k *kit) {
		id := k.open(runBy("ops"))
		k.approve(id)
		lease := func(owner, nonce string) (gate.ID, int64, bool) {
			id, fence, ok, err := k.Lease(k.Context(), "ops", owner, nonce, time.Hour)
			k.ok(err)
			return id, fence, ok
		}
		_, fence, _ := lease("w1", "n1")
		k.repeats(id, func() error {
			again, f, ok := lease("w1", "n1")
			if again != id || f != fence || !ok {
				k.Errorf("again = %s, %d, %t", again, f, ok)
			}
			return nil
		})
		if _, _, ok := lease("w2", "n1"); ok {
			k.Error("another worker got it by the same nonce")
		}
		k.ok(k.Release(k.Context(), id, "w1", fence))
		if _, f, ok := lease("w1", "n1"); !ok || f != fence+1 {
			k.Errorf("after release: fence %d, %t; want a new lease", f, ok)
		}
		k.ok(k.Release(k.Context(), id, "w1", fence+1))
		lease("w2", "n2")
		if _, _, ok := lease("w1", "n1"); ok {
			k.Error("it got the lease that another worker has now")
		}
	},
	"a call that is given back keeps its place in the queue": func(k *kit) {
		first, then := k.open(runBy("ops")), k.open(runBy("ops"))
		for _, id := range []gate.ID{first, then} {
			k.approve(id)
			k.Advance(k.T, 2*time.Millisecond)
		}
		id, fence := k.lease("ops", "w1")
		k.ok(k.Release(k.Context(), id, "w1", fence))
		if id, _ = k.lease("ops", "w2"); id != first {
			k.Errorf("leased %s, want %s again", id, first)
		}
	},
	"fifty workers share out ten calls without a double": func(k *kit) {
		for range 10 {
			k.approve(k.open(runBy("ops")))
		}
		got := race(50, func(int) error {
			id, _, ok, err := k.Lease(k.Context(), "ops", "w", newAttempt(), time.Hour)
			if err == nil && ok {
				return errors.New(string(id))
			}
			return err
		})
		if len(got) != 11 || got["<nil>"] != 40 {
			k.Errorf("%d different answers, %d got none; want 11 and 40", len(got), got["<nil>"])
		}
	},
	"only the present lease is renewed or released": func(k *kit) {
		id := k.open(runBy("ops"))
		k.approve(id)
		_, old := k.lease("ops", "w1")
		k.ok(k.Release(k.Context(), id, "w1", old))
		if s := k.state(id, gate.Approved); s.Lease != (gate.Lease{}) || s.Fence != old {
			k.Errorf("lease %+v, fence %d after release", s.Lease, s.Fence)
		}
		k.repeats(id, func() error { return k.Release(k.Context(), id, "w1", old) })
		_, fence := k.lease("ops", "w1")
		if fence <= old {
			k.Errorf("fence %d after %d", fence, old)
		}
		for _, f := range []func() error{
			func() error { return second(k.Renew(k.Context(), id, "w1", old, time.Hour, 24*time.Hour)) },
			func() error { return second(k.Renew(k.Context(), id, "w2", fence, time.Hour, 24*time.Hour)) },
			func() error { return k.Release(k.Context(), id, "w1", old) },
			func() error { return k.Release(k.Context(), id, "w2", fence) },
		} {
			k.refuses(id, gate.Conflict, gate.ReasonFenced, f)
		}
		k.ok(second(k.Renew(k.Context(), id, "w1", fence, time.Hour, 24*time.Hour)))
		k.consume(id)
		k.refuses(id, gate.Conflict, gate.ReasonFenced, func() error { return k.Release(k.Context(), id, "w1", fence) })
	},
	"a lease that ran out goes back, and its holder is fenced off": func(k *kit) {
		id := k.open(runBy("ops"))
		k.approve(id)
		_, fence, _, err := k.Lease(k.Context(), "ops", "w1", "n", k.Brief)
		k.ok(err)
		c := k.consumption(id)
		k.Advance(k.T, k.Brief)
		if err := second(k.Consume(k.Context(), id, c)); gate.ReasonOf(err) != gate.ReasonFenced {
			k.Errorf("Consume = %v, want fenced", err)
		}
		k.state(id, gate.Approved)
		if _, next := k.lease("ops", "w2"); next <= fence {
			k.Errorf("fence %d after %d", next, fence)
		}
		c.Rev = k.get(id).Rev
		k.refuses(id, gate.Conflict, gate.ReasonFenced, func() error { return second(k.Consume(k.Context(), id, c)) })
	},
	"a renewed lease lasts": func(k *kit) {
		id := k.open(runBy("ops"))
		k.approve(id)
		_, fence, _, err := k.Lease(k.Context(), "ops", "w1", "n", k.Brief)
		k.ok(err)
		k.ok(second(k.Renew(k.Context(), id, "w1", fence, 3*time.Hour, 24*time.Hour)))
		k.Advance(k.T, k.Brief)
		k.sweep()
		k.state(id, gate.Leased)
		k.consume(id)
	},
	"no lease outlasts the time by which the call had to run": func(k *kit) {
		id := k.open(runBy("ops"))
		k.approveFor(id, k.Brief)
		_, fence, _, err := k.Lease(k.Context(), "ops", "w1", "n", 9*k.Brief)
		k.ok(err)
		if s := k.get(id); !s.Lease.Until.Equal(s.RunBy) {
			k.Errorf("leased until %v, has to run by %v", s.Lease.Until, s.RunBy)
		}
		k.ok(second(k.Renew(k.Context(), id, "w1", fence, 9*k.Brief, 24*time.Hour)))
		if s := k.get(id); !s.Lease.Until.Equal(s.RunBy) {
			k.Errorf("renewed until %v, has to run by %v", s.Lease.Until, s.RunBy)
		}
		k.Advance(k.T, k.Brief)
		k.state(id, gate.Lapsed)
	},
	"a lease has an owner and an end": func(k *kit) {
		for _, owner := range []string{"", strings.Repeat("x", 65)} {
			if _, _, _, err := k.Lease(k.Context(), "ops", owner, "n", time.Hour); !errors.Is(err, gate.Invalid) {
				k.Errorf("Lease = %v, want Invalid", err)
			}
		}
		if _, _, _, err := k.Lease(k.Context(), "ops", "w", "n", 0); !errors.Is(err, gate.Invalid) {
			k.Errorf("Lease = %v, want Invalid", err)
		}
	},
	"what is withdrawn leaves the queue": func(k *kit) {
		id := k.open(runBy("ops"))
		k.approve(id)
		k.ok(k.Withdraw(k.Context(), id, gate.Withdrawal{Event: gate.EventCancel, Reason: gate.ReasonCancelled}))
		k.noLease("ops")
	},
}

var reading = tests{
	"lists are newest first, whole, and come in pages": func(k *kit) {
		var want []gate.ID
		for range 25 {
			want = append(want, k.open())
		}
		k.deny(k.open())
		for _, limit := range []int{1, 7, 25, 0} {
			got := k.ids(gate.Query{State: gate.Pending, Limit: limit})
			if len(got) != 25 || !slices.Equal(byName(got), byName(want)) {
				k.Errorf("pages of %d: %d rows, want the 25 that are pending", limit, len(got))
			}
		}
		p, err := k.List(k.Context(), gate.Query{State: gate.Pending, Limit: 10})
		k.ok(err)
		if len(p.Rows) != 10 || p.Pending != 25 || p.Next == "" || p.Now.IsZero() {
			k.Errorf("%d rows, %d pending, next %q", len(p.Rows), p.Pending, p.Next)
		}
		for i := 1; i < len(p.Rows); i++ {
			if p.Rows[i].Created.After(p.Rows[i-1].Created) {
				k.Errorf("row %d is newer than the one before", i)
			}
		}
	},
	"rows have everything but arguments, votes and questions": func(k *kit) {
		id := k.open()
		k.deny(id)
		p, err := k.List(k.Context(), gate.Query{})
		k.ok(err)
		got, want := p.Rows[0], k.get(id).Approval
		if got.Call.Tool != want.Call.Tool || got.Digest != want.Digest || got.By != "Ann" || got.Note != "because" || got.Requester != want.Requester {
			k.Errorf("row %+v, want %+v", got, want)
		}
		if got.Call.Args != nil || got.Votes != nil {
			k.Errorf("row has arguments %s, votes %v", got.Call.Args, got.Votes)
		}
	},
	"filters select, and everything is listed once without one": func(k *kit) {
		pending := k.open()
		other := k.open(func(o *gate.Opening) {
			o.Rule, o.Call.Tool, o.Requester.Key = strings.Repeat("r", 100), "drop", "other"
		})
		approved, executing, denied, chatty := k.open(), k.open(), k.open(), k.open(discretionary)
		k.approve(approved)
		k.approve(executing)
		k.approve(chatty)
		k.consume(executing)
		k.deny(denied)
		for _, tt := range []struct {
			name string
			q    gate.Query
			want []gate.ID
		}{
			{"everything", gate.Query{}, []gate.ID{pending, other, approved, executing, denied, chatty}},
			{"everything in pages of one", gate.Query{Limit: 1}, []gate.ID{pending, other, approved, executing, denied, chatty}},
			{"pending", gate.Query{State: gate.Pending}, []gate.ID{pending, other}},
			{"approved", gate.Query{State: gate.Approved}, []gate.ID{approved, chatty}},
			{"executing", gate.Query{State: gate.Executing}, []gate.ID{executing}},
			{"denied", gate.Query{State: gate.Denied}, []gate.ID{denied}},
			{"void", gate.Query{State: gate.Void}, nil},
			{"a tool", gate.Query{Tool: "drop"}, []gate.ID{other}},
			{"a long rule", gate.Query{Rule: strings.Repeat("r", 100)}, []gate.ID{other}},
			{"a requester", gate.Query{Requester: "other"}, []gate.ID{other}},
			{"a requester of the others", gate.Query{Requester: alice.Key, State: gate.Pending}, []gate.ID{pending}},
		} {
			if got := k.ids(tt.q); !slices.Equal(byName(got), byName(tt.want)) {
				k.Errorf("%s: %v, want %v", tt.name, got, tt.want)
			}
		}
	},
	"a page is found though what it came after has gone": func(k *kit) {
		for range 10 {
			k.open()
		}
		p, err := k.List(k.Context(), gate.Query{State: gate.Pending, Limit: 5})
		k.ok(err)
		for i := range p.Rows {
			k.deny(p.Rows[i].ID)
		}
		k.Advance(k.T, 2*time.Millisecond)
		k.open() // newer than the cursor: not on later pages
		if got := k.ids(gate.Query{State: gate.Pending, Cursor: p.Next}); len(got) != 5 {
			k.Errorf("%d rows after the first page, want the other 5", len(got))
		}
	},
	"a foreign cursor is refused": func(k *kit) {
		for _, cursor := range []string{"x", "1", "2.5.apr", "1.x.apr", "9.1.apr", "1.-5.apr"} {
			if _, err := k.List(k.Context(), gate.Query{State: gate.Pending, Cursor: cursor}); !errors.Is(err, gate.Invalid) {
				k.Errorf("cursor %q = %v, want Invalid", cursor, err)
			}
		}
	},
	"what time has ended is not listed as pending": func(k *kit) {
		id := k.open(expires(k.Brief))
		k.Advance(k.T, k.Brief)
		if got := k.ids(gate.Query{State: gate.Pending}); len(got) != 0 || k.pending() != 0 {
			k.Errorf("pending: %v (%d)", got, k.pending())
		}
		if got := k.ids(gate.Query{State: gate.Expired}); !slices.Equal(got, []gate.ID{id}) {
			k.Errorf("expired: %v, want %s", got, id)
		}
	},
	"a page lets time move no more than a hundred": func(k *kit) {
		var p gate.Page
		for range 3 { // an answer that took so long may have been lost, and asked for again
			for range 120 {
				k.open(expires(k.Brief))
			}
			k.Advance(k.T, k.Brief)
			asked := time.Now()
			var err error
			p, err = k.List(k.Context(), gate.Query{State: gate.Pending})
			k.ok(err)
			if time.Since(asked) < time.Second {
				break
			}
		}
		if len(p.Rows) != 0 || p.Pending != 20 || p.Next == "" {
			k.Errorf("%d rows, %d pending, next %q; want 20 left for the next page", len(p.Rows), p.Pending, p.Next)
		}
		if got := k.ids(gate.Query{State: gate.Pending, Cursor: p.Next}); len(got) != 0 {
			k.Errorf("pending: %v", got)
		}
	},
	"a page misses nothing while time ends what it looks at": func(k *kit) {
		for range 80 {
			k.open(expires(48 * time.Hour))
		}
		k.Advance(k.T, 2*time.Millisecond)
		for range 60 {
			k.open(expires(k.Brief))
		}
		k.Advance(k.T, k.Brief)
		if got := k.ids(gate.Query{State: gate.Pending, Limit: 500}); len(got) != 80 {
			k.Errorf("%d are pending, want 80", len(got))
		}
	},
	"a note is a line of the log": func(k *kit) {
		pos := k.tail()
		want := gate.Entry{ID: newID(), Event: gate.EventRefused, By: "ann", Digest: "ab", Note: "why\u202e"}
		k.ok(k.Note(k.Context(), want))
		got := k.entries(pos)
		if len(got) != 1 || got[0].At.IsZero() || got[0].Pos != k.tail() {
			k.Fatalf("entries: %+v", got)
		}
		want.Pos, want.N, want.At = got[0].Pos, got[0].N, got[0].At
		if got[0] != want {
			k.Errorf("got %+v, want %+v", got[0], want)
		}
	},
	"the log is read from a position, in bits": func(k *kit) {
		pos := k.tail()
		for range 5 {
			k.open()
		}
		first, err := k.Read(k.Context(), pos, 2, 0)
		k.ok(err)
		rest, err := k.Read(k.Context(), first[1].Pos, 100, time.Minute)
		k.ok(err)
		if len(first) != 2 || len(rest) != 3 || rest[0].N != first[1].N+1 {
			k.Errorf("%d and %d entries", len(first), len(rest))
		}
		if none, err := k.Read(k.Context(), rest[2].Pos, 100, 0); len(none) != 0 || err != nil {
			k.Errorf("at the end: %v, %v", none, err)
		}
	},
	"a reader at the end waits for the next entry": func(k *kit) {
		pos := k.tail()
		read := make(chan []gate.Entry)
		go func() {
			es, _ := k.Read(k.Context(), pos, 10, time.Minute)
			read <- es
		}()
		id := k.open()
		if es := <-read; len(es) != 1 || es[0].ID != id {
			k.Errorf("woke with %+v, want the opening of %s", es, id)
		}
	},
	"a reader beyond the end, or of another log, has a gap": func(k *kit) {
		k.open()
		id, _, _ := strings.Cut(k.tail(), ".")
		for _, pos := range []string{"9999999999999-0.7", id + ".7", id + ".0", "5-0.7"} {
			if _, err := k.Read(k.Context(), pos, 10, 0); !errors.Is(err, gate.ErrGap) {
				k.Errorf("Read(%q) = %v, want ErrGap", pos, err)
			}
		}
		for _, pos := range []string{"x", "1-1", "1-1.x", "*.1", "$.1"} {
			if _, err := k.Read(k.Context(), pos, 10, 0); !errors.Is(err, gate.Invalid) {
				k.Errorf("Read(%q) = %v, want Invalid", pos, err)
			}
		}
	},
}

func byName(ids []gate.ID) []gate.ID { return slices.Sorted(slices.Values(ids)) }

var unknowns = tests{
	"what a tool said is kept with how it ended": func(k *kit) {
		for _, outcome := range []gate.State{gate.Executed, gate.Failed, gate.OutcomeUnknown} {
			id := k.dispatched(true)
			s := k.get(id)
			k.ok(k.Report(k.Context(), id, gate.Report{Principal: s.Requester.Key, Attempt: s.Attempt, Outcome: outcome, Note: "one", Result: "one\ntwo"}))
			if s = k.state(id, outcome); s.Note != "one" || s.Result != "one\ntwo" {
				k.Errorf("%s: note %q, result %q", outcome, s.Note, s.Result)
			}
		}
	},
	"a person's word is kept as theirs, and what the tool said stays": func(k *kit) {
		id := k.lost("no answer", "")
		k.ok(k.Report(k.Context(), id, gate.Report{Person: "Ann", Outcome: gate.Executed, Note: "saw it"}))
		s := k.state(id, gate.Executed)
		if s.SettledBy != "Ann" || s.Outcome != "settled" || s.Note != "saw it" || s.Result != "no answer" {
			k.Errorf("settled by %q (%s): %q, %q", s.SettledBy, s.Outcome, s.Note, s.Result)
		}
		k.refuses(id, gate.Conflict, gate.ReasonSpent, func() error {
			return k.Report(k.Context(), id, gate.Report{Person: "Bob", Outcome: gate.Failed})
		})
	},
	"running an unknown outcome again is one new question, and the old one stays": func(k *kit) {
		id := k.lost("", "again")
		again := k.rerun(id)
		if twice := k.rerun(id); twice != again {
			k.Errorf("asked twice: %s and %s", again, twice)
		}
		old, s := k.state(id, gate.OutcomeUnknown), k.state(again, gate.Pending)
		if old.Successor != again || s.Predecessor != id || !s.Rerun {
			k.Errorf("%s follows %s (rerun %t); successor %s", again, s.Predecessor, s.Rerun, old.Successor)
		}
		if named, err := k.Find(k.Context(), s.Requester.Key, "again"); err != nil || named != again {
			k.Errorf("its key names %s, %v; want %s", named, err, again)
		}
		k.approve(again)
		k.consume(again)
	},
	"what ran after all is not run again": func(k *kit) {
		for name, tell := range map[string]gate.Report{
			"a late report":   {Principal: alice.Key, Outcome: gate.Executed},
			"a person's word": {Person: "Ann", Outcome: gate.Executed},
		} {
			id := k.lost("", "")
			again := k.rerun(id)
			k.approve(again)
			k.ok(k.Report(k.Context(), id, tell))
			k.state(id, gate.Executed)
			if k.get(again).State != gate.Cancelled {
				k.Errorf("%s: it can still be run again", name)
			}
		}
	},
	"what did not run may be run again": func(k *kit) {
		id := k.lost("", "")
		again := k.rerun(id)
		k.ok(k.Report(k.Context(), id, gate.Report{Person: "Ann", Outcome: gate.Failed}))
		k.state(again, gate.Pending)
	},
	"who asked to run it again is in the log": func(k *kit) {
		id := k.lost("", "")
		pos := k.tail()
		k.rerun(id)
		es := k.entries(pos)
		if len(es) != 2 || es[0].Event != gate.EventRerun || es[0].By != "Ann" || es[0].To != gate.OutcomeUnknown {
			k.Errorf("entries: %+v", es)
		}
	},
}

// lost is an approval under an idempotency key that was dispatched, and nobody knows
// how that ended.
func (k *kit) lost(said, key string) gate.ID {
	k.Helper()
	id := k.open(func(o *gate.Opening) { o.Key = key })
	k.approve(id)
	c := k.consume(id)
	k.ok(k.Report(k.Context(), id, gate.Report{Principal: c.Principal, Attempt: c.Attempt, Outcome: gate.OutcomeUnknown, Result: said}))
	return id
}

func (k *kit) rerun(id gate.ID) gate.ID {
	k.Helper()
	o := k.question(k.replacing(id, gate.EventRerun, ""), func(o *gate.Opening) { o.By = "Ann" })
	opened, err := k.Open(k.Context(), o)
	k.ok(err)
	return opened.ID
}
