package storetest

import (
	"bytes"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/approvalbot/approvalbot/gate"
)

// follow takes entries as a replica and returns what it took of one approval.
func (k *kit) follow(replica string, id gate.ID, idle time.Duration) []gate.Entry {
	k.Helper()
	all, err := k.Follow(k.Context(), replica, 1000, 0, idle)
	k.ok(err)
	return slices.DeleteFunc(all, func(e gate.Entry) bool { return e.ID != id })
}

func (k *kit) draws(id gate.ID, writer string, d time.Duration, want bool) {
	k.Helper()
	ok, err := k.Draw(k.Context(), id, writer, d)
	k.ok(err)
	if ok != want {
		k.Errorf("%s may draw: %t, want %t", writer, ok, want)
	}
}

// first asks whether something is done for the first time within d.
func (k *kit) first(what string, d time.Duration, want bool) {
	k.Helper()
	first, err := k.Once(k.Context(), what, d)
	k.ok(err)
	if first != want {
		k.Errorf("%s is done for the first time: %t, want %t", what, first, want)
	}
}

var cards = tests{
	"each entry goes to one replica": func(k *kit) {
		id := k.open() // before anybody followed
		if got := k.follow("a", id, time.Hour); len(got) != 1 || got[0].Event != gate.EventOpened {
			k.Errorf("a took %v, want what was opened before", got)
		}
		if got := k.follow("b", id, time.Hour); len(got) != 0 {
			k.Errorf("b took %v, which a has", got)
		}
		k.approve(id)
		if got := k.follow("b", id, time.Hour); len(got) != 1 || got[0].Event != gate.EventDecided {
			k.Errorf("b took %v, want the decision", got)
		}
	},
	"what a replica left is taken over, what it settled is not": func(k *kit) {
		settled, left := k.open(), k.open()
		k.ok(k.Settle(k.Context(), k.follow("a", settled, time.Hour)...))
		if got := k.follow("b", left, 0); len(got) != 1 {
			k.Errorf("b took over %v, want what a left", got)
		}
		if got := k.follow("b", settled, 0); len(got) != 0 {
			k.Errorf("b took over %v, which a has settled", got)
		}
		k.ok(k.Settle(k.Context()))
	},
	"a replica that lives keeps what it has, however long": func(k *kit) {
		id := k.open(expires(100 * k.Brief))
		k.follow("a", id, k.Brief/2)
		k.Advance(k.T, k.Brief)
		k.follow("a", id, k.Brief/2) // it still follows
		if got := k.follow("b", id, k.Brief/2); len(got) != 0 {
			k.Errorf("b took over %v of a, which lives", got)
		}
		k.Advance(k.T, k.Brief)
		if got := k.follow("b", id, k.Brief/2); len(got) != 1 {
			k.Errorf("b took over %v, want what a left", got)
		}
		if got := k.follow("c", id, k.Brief/2); len(got) != 0 {
			k.Errorf("c took %v too", got)
		}
	},
	"an answer that was lost is given again": func(k *kit) {
		id := k.open(expires(100 * k.Brief))
		k.follow("a", id, time.Hour) // it never saw that
		if got := k.follow("a", id, time.Hour); len(got) != 0 {
			k.Errorf("a was given %v twice", got)
		}
		k.Advance(k.T, k.Brief)
		if got := k.follow("a", id, k.Brief/20); len(got) != 1 {
			k.Errorf("a was given %v, want what it never saw", got)
		}
	},
	"a press is kept until it is forgotten": func(k *kit) {
		left := func(idle time.Duration) string {
			k.Helper()
			all, err := k.LeftPresses(k.Context(), "slack", 10, idle)
			k.ok(err)
			slices.SortFunc(all, bytes.Compare)
			return string(bytes.Join(all, []byte(" ")))
		}
		for _, press := range []string{"one", "two", "two"} {
			k.ok(k.Press(k.Context(), "slack", []byte(press)))
		}
		k.ok(k.Press(k.Context(), "mattermost", []byte("three")))
		if got := left(time.Hour); got != "" {
			k.Errorf("took %q, which others still have", got)
		}
		if got := left(0); got != "one two" {
			k.Errorf("took %q, want both once", got)
		}
		k.ok(k.ForgetPress(k.Context(), "slack", []byte("one")))
		if got := left(0); got != "two" {
			k.Errorf("took %q, want what is not forgotten", got)
		}
		if k.Brief > time.Minute { // longer than presses are kept
			return
		}
		k.Advance(k.T, k.Brief)
		if got := left(k.Brief / 2); got != "two" {
			k.Errorf("took %q", got)
		}
		if got := left(k.Brief / 2); got != "" {
			k.Errorf("took %q, which was taken just now", got)
		}
	},
	"of all who do something once, one is the first": func(k *kit) {
		var firsts atomic.Int32
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				first, err := k.Once(k.Context(), "trigger 1", time.Hour)
				if err != nil {
					k.Errorf("Once = %v", err)
				}
				if first {
					firsts.Add(1)
				}
			})
		}
		all.Wait()
		if n := firsts.Load(); n != 1 {
			k.Errorf("%d of 50 were the first", n)
		}
		k.first("trigger 2", time.Hour, true)
		k.first("trigger 1", time.Hour, false)
	},
	"what was done once is new when its time is up": func(k *kit) {
		k.first("trigger", k.Brief, true)
		k.first("trigger", k.Brief, false) // which makes it last no longer
		k.Advance(k.T, k.Brief+100*time.Millisecond)
		k.first("trigger", time.Hour, true)
		k.first("trigger", k.Brief, false)
	},
	"once is within a time": func(k *kit) {
		for _, d := range []time.Duration{0, -time.Second, time.Microsecond} {
			if first, err := k.Once(k.Context(), "trigger", d); first || gate.KindOf(err) != gate.Invalid {
				k.Errorf("within %v: %t, %v; want Invalid", d, first, err)
			}
		}
		k.first("trigger", time.Hour, true)
	},
	"one writer at a time draws": func(k *kit) {
		id := k.open()
		k.draws(id, "a", time.Hour, true)
		k.draws(id, "b", time.Hour, false)
		k.draws(id, "a", k.Brief, true)
		k.ok(k.Drawn(k.Context(), id, "b")) // it is not b's to let go
		k.draws(id, "b", k.Brief, false)
		k.ok(k.Drawn(k.Context(), id, "a"))
		k.draws(id, "b", time.Hour, true)
		k.draws(k.open(), "a", time.Hour, true)
	},
	"a writer that is gone is replaced when its time is up": func(k *kit) {
		id := k.open(expires(3 * k.Brief))
		k.draws(id, "a", k.Brief, true)
		k.draws(id, "b", k.Brief, false)
		k.Advance(k.T, k.Brief)
		k.draws(id, "b", k.Brief, true)
	},
	"cards are found again": func(k *kit) {
		id := k.open()
		about := gate.Posted{Place: "slack:C1", Rev: 1, Digest: "d"}
		there := gate.Posted{Place: "slack:C1", Message: "1.2", Rev: 1, Digest: "d"}
		dm := gate.Posted{Place: "slack:D1", Message: "3.4", Rev: 2, Digest: "d", Frozen: true}
		for _, p := range []gate.Posted{about, there, dm} {
			k.ok(k.PutPosted(k.Context(), id, p))
		}
		about.Rev = 0
		k.ok(k.PutPosted(k.Context(), id, about))
		there.Rev = 3
		k.ok(k.PutPosted(k.Context(), id, there))
		got, err := k.Posted(k.Context(), id)
		k.ok(err)
		slices.SortFunc(got, func(a, b gate.Posted) int { return len(a.Place+a.Message) - len(b.Place+b.Message) })
		if len(got) != 2 || !slices.Contains(got, there) || !slices.Contains(got, dm) {
			k.Errorf("cards %+v, want %+v and %+v", got, there, dm)
		}
		if got, err := k.Posted(k.Context(), k.open()); len(got) != 0 || err != nil {
			k.Errorf("another has %+v, %v", got, err)
		}
		if err := k.PutPosted(k.Context(), id, gate.Posted{Rev: 1}); gate.KindOf(err) != gate.Invalid {
			k.Errorf("a card nowhere = %v, want Invalid", err)
		}
	},
	"turns come at their pace, some at once": func(k *kit) {
		turn := func() time.Duration {
			k.Helper()
			d, err := k.Turn(k.Context(), "slack:C1", time.Minute, 3)
			k.ok(err)
			return d
		}
		for range 3 {
			if d := turn(); d != 0 {
				k.Errorf("one of the first three waits %v", d)
			}
		}
		if d := turn(); d <= 0 || d > time.Minute {
			k.Errorf("the fourth waits %v, want up to a minute", d)
		}
		if d, err := k.Turn(k.Context(), "slack:C2", time.Minute, 3); d != 0 || err != nil {
			k.Errorf("in another conversation it waits %v, %v", d, err)
		}
		k.Advance(k.T, time.Minute)
		if d := turn(); d != 0 {
			k.Errorf("a minute later it waits %v", d)
		}
		if d := turn(); d <= 0 {
			k.Error("and the next one does not wait")
		}
	},
	"a pause holds up all": func(k *kit) {
		k.ok(k.Pause(k.Context(), "slack:C1", time.Hour))
		k.ok(k.Pause(k.Context(), "slack:C1", time.Minute)) // which is shorter
		d, err := k.Turn(k.Context(), "slack:C1", time.Second, 10)
		k.ok(err)
		if d < 59*time.Minute || d > time.Hour {
			k.Errorf("the next turn waits %v, want an hour", d)
		}
	},
}
