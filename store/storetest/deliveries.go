package storetest

import (
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/approvalbot/approvalbot/gate"
)

// owed is a delivery to a hook about the opening of an approval.
func owed(id string) gate.Delivery {
	return gate.Delivery{ID: id, Hook: "ci", About: gate.Entry{
		Pos: "17-0.4", N: 4, ID: "apr_1", Event: gate.EventDecided, From: gate.Pending, To: gate.Approved, By: "Ann",
		At: time.UnixMilli(1764612345678).UTC(),
	}}
}

// begin writes down for the first time how far the log was read.
func (k *kit) begin() string {
	k.Helper()
	at, err := k.Owe(k.Context(), "", k.tail())
	k.ok(err)
	return at
}

// owe writes deliveries down, wherever the log was read to.
func (k *kit) owe(all ...gate.Delivery) {
	k.Helper()
	from := k.begin()
	to := rand.Text()
	got, err := k.Owe(k.Context(), from, to, all...)
	k.ok(err)
	if got != to {
		k.Fatalf("the log is read to %q, want %q", got, to)
	}
}

// takes takes deliveries, and wants just these, as "id try".
func (k *kit) takes(lease time.Duration, want ...string) (all []gate.Delivery) {
	k.Helper()
	all, _, err := k.TakeOwed(k.Context(), 100, lease)
	k.ok(err)
	var got []string
	for _, d := range all {
		got = append(got, fmt.Sprint(d.ID, " ", d.Tries))
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		k.Fatalf("took %q, want %q", got, want)
	}
	return all
}

// dueIn wants the next try of anything to be due about then.
func (k *kit) dueIn(least, most time.Duration) {
	k.Helper()
	_, next, err := k.TakeOwed(k.Context(), 0, time.Hour)
	k.ok(err)
	if next < least || next > most {
		k.Errorf("more is due in %v, want %v to %v", next, least, most)
	}
}

func (k *kit) callbacks(id gate.ID, want gate.Callbacks) {
	k.Helper()
	if got, err := k.Callbacks(k.Context(), id); err != nil || got != want {
		k.Errorf("its callbacks are %+v, %v; want %+v", got, err, want)
	}
}

var deliveries = tests{
	"what was before the first look is owed to nobody, and the next reader goes on there": func(k *kit) {
		k.open()
		first := k.begin()
		k.open()
		if again := k.begin(); again != first || first == k.tail() {
			k.Errorf("the second begins at %s, want %s", again, first)
		}
		k.takes(time.Hour)
	},
	"a delivery is taken as it was written down": func(k *kit) {
		d := owed("m_1-a")
		d.About.Note = "of voters"
		k.owe(d)
		got := k.takes(time.Hour, "m_1-a 1")[0]
		d.Tries, d.About.Note = 1, "" // which may say more than a receiver should know
		if diff := cmp.Diff(d, got); diff != "" {
			k.Errorf("-written +taken:\n%s", diff)
		}
	},
	"of those who have read as far, one writes it down": func(k *kit) {
		from := k.begin()
		var mu sync.Mutex
		var all sync.WaitGroup
		wrote := map[string]int{}
		for i := range 20 {
			all.Go(func() {
				to := fmt.Sprint("to ", i)
				got, err := k.Owe(k.Context(), from, to, owed(fmt.Sprint("m", i)))
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					k.Error(err)
				}
				wrote[got]++
			})
		}
		all.Wait()
		if len(wrote) != 1 {
			k.Errorf("they are told that it is read to %v, want all the same", wrote)
		}
		got, _, err := k.TakeOwed(k.Context(), 100, time.Hour)
		k.ok(err)
		if len(got) != 1 || wrote["to "+strings.TrimPrefix(got[0].ID, "m")] != 20 {
			k.Errorf("%d deliveries are written down, want that of whom all were told: %v", len(got), wrote)
		}
	},
	"what is written down twice is owed once, also when it is over": func(k *kit) {
		k.owe(owed("a"), owed("a"), owed("b"))
		k.owe(owed("b"))
		for _, d := range k.takes(time.Hour, "a 1", "b 1") {
			k.ok(k.Delivered(k.Context(), d))
		}
		k.owe(owed("a"), owed("c"))
		k.takes(time.Hour, "c 1")
	},
	"an id that could be something else is refused": func(k *kit) {
		from := k.begin()
		for _, id := range []string{"", "a.b", "a b", "a}", strings.Repeat("a", 65)} {
			if _, err := k.Owe(k.Context(), from, "x", owed(id)); gate.KindOf(err) != gate.Invalid {
				k.Errorf("%q is taken: %v", id, err)
			}
		}
		if again := k.begin(); again != from {
			k.Errorf("the log is read to %s, want %s", again, from)
		}
	},
	"nobody else has what was taken, until its time is up": func(k *kit) {
		k.owe(owed("a"))
		k.dueIn(time.Millisecond, time.Millisecond)
		k.takes(k.Brief, "a 1")
		k.takes(k.Brief)
		k.Advance(k.T, k.Brief)
		k.takes(time.Hour, "a 2")
		k.dueIn(59*time.Minute, time.Hour)
	},
	"no more are taken than were asked for, the first due first": func(k *kit) {
		k.owe(owed("a"))
		k.Advance(k.T, 2*time.Millisecond)
		k.owe(owed("b"))
		all, next, err := k.TakeOwed(k.Context(), 1, time.Hour)
		k.ok(err)
		if len(all) != 1 || all[0].ID != "a" || next != time.Millisecond {
			k.Errorf("took %v, more in %v; want a, and b at once", all, next)
		}
	},
	"what was delivered is over": func(k *kit) {
		k.owe(owed("a"))
		d := k.takes(time.Hour, "a 1")[0]
		k.ok(k.Delivered(k.Context(), d))
		k.ok(k.Again(k.Context(), d, 0)) // a late word of another kind
		k.takes(time.Hour)
		k.dueIn(0, 0)
	},
	"what failed is tried again when its time has come": func(k *kit) {
		k.owe(owed("a"))
		d := k.takes(time.Hour, "a 1")[0]
		k.ok(k.Again(k.Context(), d, k.Brief))
		k.takes(time.Hour)
		k.Advance(k.T, k.Brief)
		k.takes(time.Hour, "a 2")
	},
	"what was put back was not tried": func(k *kit) {
		k.owe(owed("a"))
		k.ok(k.PutBack(k.Context(), k.takes(time.Hour, "a 1")[0], 0))
		k.takes(time.Hour, "a 1")
	},
	"who has lost a delivery has no say in it": func(k *kit) {
		k.owe(owed("a"))
		late := k.takes(0, "a 1")[0]
		k.takes(time.Hour, "a 2")
		k.ok(k.Delivered(k.Context(), late))
		k.ok(k.Again(k.Context(), late, 0))
		if n, err := k.Bury(k.Context(), late); n != 0 || err != nil {
			k.Errorf("%d are dead, %v", n, err)
		}
		k.takes(time.Hour)
		k.dueIn(59*time.Minute, time.Hour)
	},
	"the dead are counted and never tried": func(k *kit) {
		k.owe(owed("a"), owed("b"))
		for i, d := range k.takes(0, "a 1", "b 1") {
			if n, err := k.Bury(k.Context(), d); n != i+1 || err != nil {
				k.Errorf("%d are dead, %v; want %d", n, err, i+1)
			}
		}
		k.takes(time.Hour)
		k.owe(owed("a"))
		k.takes(time.Hour)
	},
	"the dead are forgotten after a week": func(k *kit) {
		k.owe(owed("a"), owed("b"))
		all := k.takes(100*24*time.Hour, "a 1", "b 1")
		if _, err := k.Bury(k.Context(), all[0]); err != nil {
			k.Fatal(err)
		}
		k.Advance(k.T, gate.KeepDelivered+time.Second)
		if n, err := k.Bury(k.Context(), all[1]); n != 1 || err != nil {
			k.Errorf("%d are dead, %v; want the last alone", n, err)
		}
	},
	"of an approval's callbacks the worst is told": func(k *kit) {
		to := func(id string, approval gate.ID) gate.Delivery {
			d := owed(id)
			d.Hook, d.About.ID = "", approval
			return d
		}
		k.callbacks("apr_1", gate.Callbacks{})
		k.owe(owed("hook"), to("a", "apr_1"), to("b", "apr_1"), to("c", "apr_2"))
		k.callbacks("apr_1", gate.Callbacks{State: gate.Waiting})
		for _, d := range k.takes(time.Hour, "a 1", "b 1", "c 1", "hook 1") {
			switch d.ID {
			case "a":
				k.ok(k.Again(k.Context(), d, 0))
			case "hook":
				_, err := k.Bury(k.Context(), d)
				k.ok(err)
			default:
				k.ok(k.Delivered(k.Context(), d))
			}
		}
		k.callbacks("apr_1", gate.Callbacks{State: gate.Waiting, Tries: 1})
		k.callbacks("apr_2", gate.Callbacks{State: gate.Delivered, Tries: 1})
		_, err := k.Bury(k.Context(), k.takes(time.Hour, "a 2")[0])
		k.ok(err)
		k.callbacks("apr_1", gate.Callbacks{State: gate.Dead, Tries: 2})
	},
}
