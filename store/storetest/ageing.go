package storetest

import (
	"errors"
	"slices"
	"time"

	"github.com/approvalbot/approvalbot/gate"
)

var ageing = tests{
	"a question nobody decides expires": func(k *kit) {
		id := k.open(expires(k.Brief))
		deadline := k.get(id).Expires
		k.Advance(k.T, k.Brief)
		if s := k.state(id, gate.Expired); s.Ended.Before(deadline) || s.Reason != gate.ReasonExpired {
			k.Errorf("ended %v, reason %q", s.Ended, s.Reason)
		}
	},
	"an inline question nobody decides becomes a deferred one": func(k *kit) {
		id := k.open(inline(k.Brief), expires(time.Hour))
		until := k.get(id).InlineUntil
		pos := k.tail()
		k.Advance(k.T, k.Brief)
		s := k.state(id, gate.Pending)
		if s.Mode != gate.Deferred || !s.Expires.Equal(until.Add(time.Hour)) || !s.InlineUntil.IsZero() {
			k.Errorf("mode %s, expires %v, inline until %v", s.Mode, s.Expires, s.InlineUntil)
		}
		if got := k.events(id, pos); !slices.Equal(got, []gate.Event{gate.EventDeferred}) {
			k.Errorf("events %v", got)
		}
		k.approve(id)
	},
	"an inline question whose silence denies expires instead": func(k *kit) {
		id := k.open(inline(k.Brief), func(o *gate.Opening) { o.InlineDeny = true })
		pos := k.tail()
		k.Advance(k.T, k.Brief)
		k.state(id, gate.Expired)
		if got := k.events(id, pos); !slices.Equal(got, []gate.Event{gate.EventExpired}) {
			k.Errorf("events %v", got)
		}
	},
	"a deferral noticed after its own deadline expires at once": func(k *kit) {
		id := k.open(inline(k.Brief/2), expires(k.Brief/2))
		pos := k.tail()
		k.Advance(k.T, k.Brief)
		k.state(id, gate.Expired)
		if got := k.events(id, pos); !slices.Equal(got, []gate.Event{gate.EventDeferred, gate.EventExpired}) {
			k.Errorf("events %v", got)
		}
	},
	"an approved call nobody runs lapses": func(k *kit) {
		own, staged := k.open(), k.open(runBy("ops"))
		k.approveFor(own, k.Brief)
		k.approveFor(staged, k.Brief)
		k.Advance(k.T, k.Brief)
		k.noLease("ops")
		k.state(staged, gate.Lapsed)
		if s := k.state(own, gate.Lapsed); s.Reason != gate.ReasonLapsed || s.Ended.IsZero() {
			k.Errorf("reason %q, ended %v", s.Reason, s.Ended)
		}
	},
	"a sweep settles what is due and says when to come again": func(k *kit) {
		if n, next, err := k.Sweep(k.Context(), 10); n != 0 || next != 0 || err != nil {
			k.Errorf("Sweep of nothing = %d, %v, %v", n, next, err)
		}
		ids := []gate.ID{k.open(expires(k.Brief)), k.open(inline(k.Brief)), k.open(expires(k.Brief))}
		k.open(expires(2 * time.Hour))
		n, next, err := k.Sweep(k.Context(), 10)
		if n != 0 || next <= 0 || next > k.Brief || err != nil {
			k.Errorf("Sweep before = %d, %v, %v; want 0, up to %v", n, next, err, k.Brief)
		}
		pos := k.tail()
		k.Advance(k.T, k.Brief)
		n, next, err = k.Sweep(k.Context(), 2)
		if n != 2 || next <= 0 || next > time.Second || err != nil {
			k.Errorf("Sweep of two = %d, %v, %v; want more at once", n, next, err)
		}
		n, next, err = k.Sweep(k.Context(), 10)
		if n != 1 || next < time.Minute || next > 2*time.Hour || err != nil {
			k.Errorf("Sweep of the rest = %d, %v, %v", n, next, err)
		}
		var got []gate.Event
		for _, id := range ids {
			got = append(got, k.events(id, pos)...)
		}
		if want := []gate.Event{gate.EventExpired, gate.EventDeferred, gate.EventExpired}; !slices.Equal(got, want) {
			k.Errorf("events %v, want %v", got, want)
		}
	},
	"sweeps come in batches that keep the store responsive": func(k *kit) {
		for range 120 {
			k.open(expires(k.Brief))
		}
		k.Advance(k.T, k.Brief)
		if n, _, err := k.Sweep(k.Context(), 1000); n != 64 || err != nil {
			k.Errorf("Sweep = %d, %v; want 64", n, err)
		}
		if n := k.sweep(); n != 56 {
			k.Errorf("the rest was %d, want 56", n)
		}
	},
	"what has ended is remembered for seven days, and no longer": func(k *kit) {
		o := k.question(inline(time.Minute))
		o.Key = "k"
		k.ok(second(k.Open(k.Context(), o)))
		k.ok(k.Ask(k.Context(), o.ID, 1, gate.Question{By: "Ann", Text: "why?"}))
		k.deny(o.ID)
		k.Advance(k.T, 7*24*time.Hour-time.Minute)
		k.sweep()
		k.state(o.ID, gate.Denied)
		k.ok(k.finds(o.ID, k.question(func(o *gate.Opening) { o.Key = "k" })))
		k.Advance(k.T, 2*time.Minute)
		k.sweep()
		if err := second(k.Get(k.Context(), o.ID)); !errors.Is(err, gate.NotFound) {
			k.Errorf("Get = %v, want NotFound", err)
		}
		if _, err := k.Find(k.Context(), alice.Key, "k"); !errors.Is(err, gate.NotFound) {
			k.Errorf("Find = %v, want NotFound", err)
		}
		if got := k.ids(gate.Query{}); len(got) != 0 {
			k.Errorf("listed: %v", got)
		}
		k.open(func(o *gate.Opening) { o.Key = "k" })
	},
	"what is forgotten leaves its key to the one that took its place": func(k *kit) {
		o := k.question(expires(30 * 24 * time.Hour))
		o.Key = "k"
		k.ok(second(k.Open(k.Context(), o)))
		took := k.open(expires(30*24*time.Hour), k.replacing(o.ID, gate.EventVoided, gate.ReasonVoid))
		k.Advance(k.T, 8*24*time.Hour)
		k.sweep()
		if err := second(k.Get(k.Context(), o.ID)); !errors.Is(err, gate.NotFound) {
			k.Errorf("Get = %v, want NotFound", err)
		}
		if id, err := k.Find(k.Context(), alice.Key, "k"); id != took || err != nil {
			k.Errorf("Find = %s, %v; want %s", id, err, took)
		}
	},
	"a discretionary approval is remembered for seven days too": func(k *kit) {
		id := k.open(discretionary)
		k.approve(id)
		k.Advance(k.T, 7*24*time.Hour-time.Minute)
		k.state(id, gate.Approved)
		k.Advance(k.T, 2*time.Minute)
		k.sweep()
		if err := second(k.Get(k.Context(), id)); !errors.Is(err, gate.NotFound) {
			k.Errorf("Get = %v, want NotFound", err)
		}
	},
	"an unknown outcome is never forgotten": func(k *kit) {
		id := k.open()
		k.approve(id)
		k.consume(id)
		k.Advance(k.T, 400*24*time.Hour)
		k.sweep()
		s := k.state(id, gate.OutcomeUnknown)
		if got := k.ids(gate.Query{State: gate.OutcomeUnknown}); !slices.Equal(got, []gate.ID{id}) {
			k.Errorf("listed: %v", got)
		}
		k.ok(k.Report(k.Context(), id, gate.Report{Principal: alice.Key, Attempt: s.Attempt, Outcome: gate.Executed}))
		k.Advance(k.T, 8*24*time.Hour)
		k.sweep()
		if err := second(k.Get(k.Context(), id)); !errors.Is(err, gate.NotFound) {
			k.Errorf("Get = %v, want NotFound", err)
		}
	},
	"what is pending is never forgotten": func(k *kit) {
		id := k.open(expires(100 * 24 * time.Hour))
		k.Advance(k.T, 99*24*time.Hour)
		k.approve(id)
	},
	"a clock that steps back a little stands still": func(k *kit) {
		before := k.get(k.open()).Created
		k.Advance(k.T, -time.Second)
		id := k.open()
		if s := k.get(id); s.Created.Before(before) || s.Doubtful {
			k.Errorf("created %v after %v, doubtful %t", s.Created, before, s.Doubtful)
		}
		k.approve(id)
		k.consume(id)
	},
	"a clock that stepped back decides nothing until somebody looked": func(k *kit) {
		pending, approved, staged := k.open(), k.open(), k.open(runBy("ops"))
		k.approve(approved)
		k.approve(staged)
		g := k.granted(gate.Always, func(g *gate.Grant) { g.Expires = g.Created.Add(10 * time.Hour) })
		k.Advance(k.T, -3*time.Second)
		if !k.get(pending).Doubtful {
			k.Error("the clock is not doubtful")
		}
		k.refuses(pending, gate.Unavailable, gate.ReasonClockDoubtful, func() error {
			return second(k.Vote(k.Context(), pending, k.ballot(pending, gate.Approve, gate.Approved)))
		})
		k.refuses(approved, gate.Unavailable, gate.ReasonClockDoubtful, func() error {
			return second(k.Consume(k.Context(), approved, k.consumption(approved)))
		})
		k.refuses(staged, gate.Unavailable, gate.ReasonClockDoubtful, func() error {
			_, _, _, err := k.Lease(k.Context(), "ops", "w", "n", time.Hour)
			return err
		})
		k.unusable(g, gate.Unavailable, gate.ReasonClockDoubtful)
		k.ok(k.Note(k.Context(), gate.Entry{Event: gate.EventRefused})) // does not move what was seen
		if !k.get(pending).Doubtful {
			k.Error("a note made the clock good")
		}
		pos := k.tail()
		k.Store.ResetClock(k.T)
		if es := k.entries(pos); len(es) != 1 || es[0].Event != gate.EventClockReset {
			k.Errorf("log: %+v", es)
		}
		if k.get(pending).Doubtful {
			k.Error("the clock is doubtful after the reset")
		}
		k.approve(pending)
		k.consume(approved)
		k.lease("ops", "w")
		k.ok(k.use(g))
	},
}

var failingOver = tests{
	"after a fail-over nothing undispatched is decided or dispatched": func(k *kit) {
		pending, approved, staged, leased := k.open(), k.open(), k.open(runBy("ops")), k.open(runBy("dev"))
		chatty, executing := k.open(discretionary), k.open()
		for _, id := range []gate.ID{approved, staged, leased, chatty, executing} {
			k.approve(id)
		}
		k.lease("dev", "w")
		c := k.consume(executing)
		g := k.granted(gate.Always)
		old := k.get(pending).Incarnation

		k.FailOver(k.T)

		k.beat("replica-1", policy)
		for _, id := range []gate.ID{pending, approved, staged, leased} {
			if s := k.get(id); !s.Stale() || s.Incarnation == old || s.Approval.Incarnation != old {
				k.Errorf("%s (%s): stale %t, incarnation %q of %q", id, s.State, s.Stale(), s.Approval.Incarnation, s.Incarnation)
			}
		}
		k.refuses(pending, gate.Conflict, gate.ReasonVoid, func() error {
			return second(k.Vote(k.Context(), pending, k.ballot(pending, gate.Approve, gate.Approved)))
		})
		for _, id := range []gate.ID{approved, leased} {
			k.refuses(id, gate.Conflict, gate.ReasonVoid, func() error { return second(k.Consume(k.Context(), id, k.consumption(id))) })
		}
		k.noLease("ops")
		k.unusable(g, gate.Conflict, gate.ReasonVoid)
		if s := k.get(chatty); s.Stale() {
			k.Error("an ended discretionary approval is stale")
		}
		k.ok(k.Report(k.Context(), executing, gate.Report{Principal: alice.Key, Attempt: c.Attempt, Outcome: gate.Executed}))
	},
	"a fail-over is in the log, once": func(k *kit) {
		k.open()
		pos := k.tail()
		k.FailOver(k.T)
		k.beat("replica-1", policy)
		k.get(k.open())
		k.holdings(alice)
		var seen int
		for _, e := range k.entries(pos) {
			if e.Event == gate.EventFailedOver {
				seen++
			}
		}
		if seen != 1 {
			k.Errorf("it is logged %d times", seen)
		}
	},
	"what is stale is found, and has one successor that says why": func(k *kit) {
		var want []gate.ID
		for range 5 {
			want = append(want, k.open())
		}
		approved := k.open(runBy("ops"))
		k.approve(approved)
		want = append(want, approved)
		ended, executing, chatty := k.open(), k.open(), k.open(discretionary)
		k.deny(ended)
		k.approve(executing)
		k.approve(chatty)
		k.consume(executing)
		if ids, err := k.Stale(k.Context(), 100); len(ids) != 0 || err != nil {
			k.Errorf("Stale before = %v, %v; want none", ids, err)
		}

		k.FailOver(k.T)

		fresh := k.open()
		got, err := k.Stale(k.Context(), 100)
		k.ok(err)
		if !slices.Equal(byName(got), byName(want)) {
			k.Errorf("Stale = %v, want %v", got, want)
		}
		if few, err := k.Stale(k.Context(), 2); len(few) != 2 || err != nil {
			k.Errorf("Stale of two = %v, %v", few, err)
		}
		if s := k.get(fresh); s.FailedOver.IsZero() || s.Stale() {
			k.Errorf("failed over %v, stale %t", s.FailedOver, s.Stale())
		}
		for _, id := range got {
			o := k.question(k.replacing(id, gate.EventVoided, gate.ReasonVoid), runBy("ops"))
			k.ok(second(k.Open(k.Context(), o)))
			if s := k.state(id, gate.Void); s.Successor != o.ID {
				k.Errorf("successor %q, want %s", s.Successor, o.ID)
			}
			if s := k.state(o.ID, gate.Pending); s.FailedOver.IsZero() || s.Stale() {
				k.Errorf("failed over %v, stale %t", s.FailedOver, s.Stale())
			}
		}
		if ids, err := k.Stale(k.Context(), 100); len(ids) != 0 || err != nil {
			k.Errorf("Stale after = %v, %v; want none", ids, err)
		}
		k.beat("replica-1", policy)
		k.approve(fresh)
		k.consume(fresh)
	},
	"an approval of the first incarnation says nothing of a fail-over": func(k *kit) {
		if s := k.get(k.open()); !s.FailedOver.IsZero() {
			k.Errorf("failed over %v", s.FailedOver)
		}
	},
	"a grant counts again once somebody confirmed it": func(k *kit) {
		g := k.granted(gate.Always)
		k.FailOver(k.T)
		k.beat("replica-1", policy)
		k.get(g.Approval) // notices it
		k.unusable(g, gate.Conflict, gate.ReasonVoid)
		h := k.holdings(alice)
		if len(h.Grants) != 1 || h.Incarnation == g.Incarnation {
			k.Fatalf("holdings %+v", h)
		}
		g.Incarnation, g.MAC = h.Incarnation, []byte{5}
		k.ok(k.PutGrant(k.Context(), g, "ann"))
		k.ok(k.use(g))
	},
	"calls of an earlier incarnation do not block the queue": func(k *kit) {
		for range 101 {
			k.approve(k.open(runBy("ops")))
		}
		k.FailOver(k.T)
		k.Advance(k.T, 2*time.Millisecond)
		id := k.open(runBy("ops"))
		k.approve(id)
		k.noLease("ops") // looks at a hundred
		if got, _ := k.lease("ops", "w"); got != id {
			k.Errorf("leased %s, want %s", got, id)
		}
	},
	"long after a fail-over cards say nothing of it": func(k *kit) {
		k.open()
		k.FailOver(k.T)
		k.open()
		k.Advance(k.T, 15*time.Minute)
		if s := k.get(k.open()); !s.FailedOver.IsZero() {
			k.Errorf("failed over %v", s.FailedOver)
		}
	},
}
