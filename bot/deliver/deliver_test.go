package deliver

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/approvalbot/approvalbot/bot/webhook"
	"github.com/approvalbot/approvalbot/gate"
)

func TestReceiversHearOfAWholeLife(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		live func(*office)
		told string
	}{
		"approved, dispatched and executed": {func(o *office) {
			a := o.asks()
			o.decides(a, gate.Approve)
			o.reports(o.dispatches(a), gate.Executed, "done")
		}, "requested pending, decided approved, executed executed"},
		"failed": {func(o *office) {
			a := o.asks()
			o.decides(a, gate.Approve)
			o.reports(o.dispatches(a), gate.Failed, "no")
		}, "requested pending, decided approved, executed failed"},
		"of an unknown outcome, and reported late": {func(o *office) {
			a := o.asks()
			o.decides(a, gate.Approve)
			s := o.dispatches(a)
			o.reports(s, gate.OutcomeUnknown, "who knows")
			o.reports(s, gate.Executed, "done after all")
		}, "requested pending, decided approved, executed outcome_unknown, executed executed"},
		"denied": {func(o *office) { o.decides(o.asks(), gate.Deny) }, "requested pending, decided denied"},
		"taken back": {func(o *office) {
			a := o.asks()
			o.decides(a, gate.Approve)
			o.decides(a, gate.Deny)
		}, "requested pending, decided approved, decided revoked"},
		"cancelled": {func(o *office) {
			if err := o.gate.Cancel(o.Context(), gate.Principal{Key: "hermes"}, o.asks().ID, "no need"); err != nil {
				o.Fatal(err)
			}
		}, "requested pending, decided cancelled"},
		"void": {func(o *office) {
			err := o.store.Withdraw(o.Context(), o.asks().ID, gate.Withdrawal{Event: gate.EventVoided, Reason: gate.ReasonVoid})
			if err != nil {
				o.Fatal(err)
			}
		}, "requested pending, decided void"},
		"expired": {func(o *office) {
			o.asks()
			o.passes(3 * time.Hour)
			o.sweeps()
		}, "requested pending, decided expired"},
		"lapsed": {func(o *office) {
			o.decides(o.asks(), gate.Approve)
			o.passes(90 * time.Minute)
			o.sweeps()
		}, "requested pending, decided approved, decided lapsed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(o *office) {
				r := o.hook("ci")
				out := o.outbox()
				row.live(o) // before anybody runs: it is owed all the same
				stop := o.runs(out)
				o.passes(3 * time.Second)
				stop()
				got := strings.Split(r.told(), ", ")
				for want := range strings.SplitSeq(row.told, ", ") {
					if n := strings.Count(r.told(), want); n != 1 {
						o.Errorf("%q was told %d times of %q", want, n, r.told())
					}
				}
				if len(got) != strings.Count(row.told, ",")+1 {
					o.Errorf("told %q, want %q in any order", r.told(), row.told)
				}
			})
		})
	}
}

func TestHooksHearOnlyWhatTheyListenTo(t *testing.T) {
	t.Parallel()
	inBubble(t, func(o *office) {
		decisions := o.hook("decisions", func(c *HookConfig) { c.On = Words{decided} })
		prod := o.hook("prod", func(c *HookConfig) { c.Rules = []string{"pr*"} })
		stop := o.runs(o.outbox())
		defer stop()
		o.decides(o.asks(), gate.Deny)
		o.decides(o.asks(dev), gate.Approve)
		o.passes(3 * time.Second)
		if got := decisions.told(); got != "decided denied, decided approved" && got != "decided approved, decided denied" {
			o.Errorf("the first was told %q", got)
		}
		if got := prod.told(); got != "requested pending, decided denied" && got != "decided denied, requested pending" {
			o.Errorf("the second was told %q", got)
		}
	})
}

// TestAMessageThatFailsIsTriedAgainBySchedule: ten tries over three days, under
// one id; then it is dead, and everybody can see that.
func TestAMessageThatFailsIsTriedAgainBySchedule(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(context.Context, int) (answer, error){
		"it answers 500":           always(500),
		"it refuses":               always(400),
		"it redirects":             always(302),
		"nobody answers":           func(context.Context, int) (answer, error) { return answer{}, &webhook.Lost{Err: errors.New("refused")} },
		"it takes all of its time": func(ctx context.Context, _ int) (answer, error) { <-ctx.Done(); return answer{}, ctx.Err() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(o *office) {
				r := o.hook("ci", func(c *HookConfig) { c.On = Words{requested} })
				r.answer = fail
				out, began := o.outbox(), time.Now()
				o.asks()
				defer o.sends(out)()
				o.passes(100 * time.Hour)
				all := r.all()
				if len(all) != 1+len(waits) {
					o.Fatalf("%d tries, want %d", len(all), 1+len(waits))
				}
				at := began
				for i, s := range all {
					least, most := at, at.Add(2*time.Second)
					if i > 0 {
						least, most = at.Add(waits[i-1]), at.Add(waits[i-1]*6/5+sendFor+2*takeEvery)
					}
					if s.at.Before(least) || s.at.After(most) || s.id != all[0].id {
						o.Errorf("try %d of %s came after %s, want %s to %s of %s", i+1, s.id, s.at.Sub(began), least.Sub(began), most.Sub(began), all[0].id)
					}
					at = s.at
				}
				if o.logs.count("message given up") != 1 || o.logs.count(`"dead_within_a_week":1`) != 1 {
					o.Error("nobody is told that it is dead")
				}
			})
		})
	}
}

func TestADayOfSilenceLosesNothing(t *testing.T) {
	t.Parallel()
	inBubble(t, func(o *office) {
		r := o.hook("ci", func(c *HookConfig) { c.On = Words{decided} })
		back := time.Now().Add(24 * time.Hour)
		r.answer = func(context.Context, int) (answer, error) {
			if time.Now().Before(back) {
				return answer{}, errors.New("connection refused")
			}
			return answer{status: 200}, nil
		}
		const calls = 30
		out := o.outbox()
		for range calls {
			o.decides(o.asks(), gate.Approve)
		}
		defer o.sends(out)()
		o.passes(48 * time.Hour)
		heard := map[string]bool{}
		for _, s := range r.all() {
			if !s.at.Before(back) {
				if heard[s.id] {
					o.Errorf("%s came again, though it was taken", s.id)
				}
				heard[s.id] = true
			}
		}
		if len(heard) != calls {
			o.Errorf("%d of %d have arrived", len(heard), calls)
		}
	})
}

// TestAReceiverThatHangsDelaysNobodyElse: it has its few places, for as long as it
// likes.
func TestAReceiverThatHangsDelaysNobodyElse(t *testing.T) {
	t.Parallel()
	inBubble(t, func(o *office) {
		var now, most atomic.Int32
		hung := o.hook("hung")
		hung.answer = func(ctx context.Context, _ int) (answer, error) {
			most.Store(max(most.Load(), now.Add(1)))
			defer now.Add(-1)
			<-ctx.Done()
			return answer{}, ctx.Err()
		}
		well := o.hook("well", func(c *HookConfig) { c.On = Words{requested} })
		stop := o.runs(o.outbox())
		defer stop()
		for range 40 {
			o.decides(o.asks(), gate.Deny)
		}
		o.passes(5 * time.Second)
		if n := len(well.all()); n != 40 {
			o.Errorf("the other heard of %d of 40 within seconds", n)
		}
		o.passes(time.Minute)
		if n := most.Load(); n != atOnce {
			o.Errorf("it had %d at once, want %d", n, atOnce)
		}
	})
}

func TestAReceiverIsLeftAloneForAsLongAsItAsks(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		says answer
		rest time.Duration
	}{
		"too many requests":                   {answer{status: 429}, firstRest},
		"a bad gateway":                       {answer{status: 502}, firstRest},
		"a gateway that waited in vain":       {answer{status: 504}, firstRest},
		"too many requests, for three hours":  {answer{429, 3 * time.Hour}, 3 * time.Hour},
		"not available, for eight minutes":    {answer{503, 8 * time.Minute}, 8 * time.Minute},
		"an error, and not a word about when": {answer{status: 500}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(o *office) {
				r := o.hook("ci", func(c *HookConfig) { c.On = Words{requested} })
				other := o.hook("other", func(c *HookConfig) { c.On = Words{requested} })
				r.answer = func(_ context.Context, n int) (answer, error) {
					if n == 1 {
						return row.says, nil
					}
					return answer{status: 200}, nil
				}
				out, began := o.outbox(), time.Now()
				stop := o.runs(out)
				o.asks()
				o.passes(1500 * time.Millisecond)
				o.asks() // nothing is wrong with this one
				o.passes(2 * time.Second)
				stop()
				defer o.sends(o.outbox())() // of another replica, to which nobody has said so
				o.passes(5 * time.Hour)
				all := r.all()
				if len(all) != 3 || len(other.all()) != 2 {
					o.Fatalf("%d and %d came, want 3 and 2", len(all), len(other.all()))
				}
				for i, s := range all[1:] {
					if after := s.at.Sub(all[0].at); after < row.rest || after > row.rest*6/5+waits[0]*2+2*takeEvery {
						o.Errorf("message %d came after %s, want %s and little more", i+2, after, row.rest)
					}
				}
				if took := other.all()[1].at.Sub(began); took > 5*time.Second {
					o.Errorf("the other waited for %s", took)
				}
			})
		})
	}
}

func TestAReceiverThatIsGoneGetsNothingMore(t *testing.T) {
	t.Parallel()
	inBubble(t, func(o *office) {
		r, other := o.hook("ci"), o.hook("other")
		r.answer = always(410)
		stop := o.runs(o.outbox())
		o.asks()
		o.passes(3 * time.Second)
		o.asks()
		o.passes(10 * time.Second)
		stop()
		if len(r.all()) != 1 || len(other.all()) != 2 {
			o.Errorf("%d and %d came, want 1 and 2", len(r.all()), len(other.all()))
		}
		if n := o.logs.count("A HOOK IS OFF"); n != 1 {
			o.Errorf("it is said %d times", n)
		}
		if n := o.logs.count("message given up"); n < 2 {
			o.Errorf("%d are dead, want all", n)
		}
		r.answer = nil // a process that has read its configuration
		stop = o.runs(o.outbox())
		defer stop()
		o.asks()
		o.passes(3 * time.Second)
		if len(r.all()) != 2 {
			o.Errorf("%d came, want it to be tried again", len(r.all()))
		}
	})
}

func TestReplicasTellOnceTogether(t *testing.T) {
	t.Parallel()
	inBubble(t, func(o *office) {
		r := o.hook("ci")
		stop := o.runs(o.outbox(), o.outbox(), o.outbox())
		defer stop()
		const calls = 20
		for range calls {
			o.decides(o.asks(), gate.Deny)
		}
		o.passes(10 * time.Second)
		heard := map[string]int{}
		for _, s := range r.all() {
			heard[s.id]++
		}
		if len(heard) != 2*calls || len(r.all()) != 2*calls {
			o.Errorf("%d messages came, %d in all; want %d once", len(heard), len(r.all()), 2*calls)
		}
	})
}

// TestAReplicaThatDiesOverAMessageIsReplaced: it took the message and is never heard
// of again. The other one sends it under the same id.
func TestAReplicaThatDiesOverAMessageIsReplaced(t *testing.T) {
	t.Parallel()
	inBubble(t, func(o *office) {
		r := o.hook("ci")
		out := o.outbox()
		o.asks()
		if err := out.step(o.Context()); err != nil {
			o.Fatal(err)
		}
		taken, _, err := o.store.TakeOwed(o.Context(), 10, leaseFor)
		if err != nil || len(taken) != 1 {
			o.Fatalf("took %v, %v", taken, err)
		}
		stop := o.runs(o.outbox())
		defer stop()
		o.passes(leaseFor - time.Second)
		if n := len(r.all()); n != 0 {
			o.Errorf("%d came while the first one had it", n)
		}
		o.passes(5 * time.Second)
		if all := r.all(); len(all) != 1 || all[0].id != taken[0].ID {
			o.Errorf("%v came, want %s once", all, taken[0].ID)
		}
	})
}

// TestAStopPutsBackWhatIsNotSent: nothing waits for a lease to run out because a
// replica was replaced by a newer one.
func TestAStopPutsBackWhatIsNotSent(t *testing.T) {
	t.Parallel()
	inBubble(t, func(o *office) {
		r := o.hook("ci", func(c *HookConfig) { c.On = Words{requested} })
		r.answer = func(ctx context.Context, _ int) (answer, error) { <-ctx.Done(); return answer{}, ctx.Err() }
		stop := o.runs(o.outbox())
		o.asks()
		o.passes(3 * time.Second)
		stop()
		r.answer = nil
		defer o.runs(o.outbox())()
		o.passes(10 * time.Second)
		if all := r.all(); len(all) != 2 || all[0].id != all[1].id {
			o.Errorf("%v came, want the same again within seconds", all)
		}
	})
}

// flaky is a store that fails now and then.
type flaky struct{ Store }

func (f *flaky) fails() error {
	if rand.N(2) > 0 {
		return &gate.Error{Kind: gate.Unavailable, Op: "test"}
	}
	return nil
}

func (f *flaky) Get(ctx context.Context, id gate.ID) (gate.Snapshot, error) {
	if err := f.fails(); err != nil {
		return gate.Snapshot{}, err
	}
	return f.Store.Get(ctx, id)
}

func (f *flaky) Owe(ctx context.Context, from, to string, all ...gate.Delivery) (string, error) {
	if err := f.fails(); err != nil && len(all) > 0 {
		return "", err
	}
	return f.Store.Owe(ctx, from, to, all...)
}

func (f *flaky) TakeOwed(ctx context.Context, n int, lease time.Duration) ([]gate.Delivery, time.Duration, error) {
	if err := f.fails(); err != nil {
		return nil, 0, err
	}
	return f.Store.TakeOwed(ctx, n, lease)
}

func (f *flaky) Delivered(ctx context.Context, d gate.Delivery) error {
	if err := f.fails(); err != nil {
		return err
	}
	return f.Store.Delivered(ctx, d)
}

func TestAStoreThatFailsNowAndThenLosesNothing(t *testing.T) {
	t.Parallel()
	inBubble(t, func(o *office) {
		r := o.hook("ci")
		stop := o.runs(o.outbox(func(c *Config) { c.Store = &flaky{Store: c.Store} }))
		defer stop()
		const calls = 10
		for range calls {
			o.decides(o.asks(), gate.Deny)
		}
		o.passes(15 * time.Minute)
		heard := map[string]bool{}
		for _, s := range r.all() {
			heard[s.id] = true
		}
		if len(heard) != 2*calls {
			o.Errorf("%d of %d have arrived", len(heard), 2*calls)
		}
	})
}

// broken is a store with an approval that cannot be read, or whose log lacks entries.
type broken struct {
	Store
	bad gate.ID
	gap atomic.Bool
}

func (b *broken) Get(ctx context.Context, id gate.ID) (gate.Snapshot, error) {
	if id == b.bad {
		return gate.Snapshot{}, &gate.Error{Op: "test", Err: errors.New("damaged")}
	}
	return b.Store.Get(ctx, id)
}

func (b *broken) Read(ctx context.Context, pos string, n int, block time.Duration) ([]gate.Entry, error) {
	if pos != "" && b.gap.Load() {
		return nil, gate.ErrGap
	}
	b.gap.Store(false)
	return b.Store.Read(ctx, pos, n, block)
}

func TestOneApprovalThatCannotBeReadIsInNobodysWay(t *testing.T) {
	t.Parallel()
	inBubble(t, func(o *office) {
		r := o.hook("ci")
		out := o.outbox(func(c *Config) { c.Store = &broken{Store: c.Store, bad: o.asks().ID} })
		bad := out.Store.(*broken).bad
		o.decides(&gate.Snapshot{Approval: o.get(bad)}, gate.Deny)
		o.asks()
		defer o.runs(out)()
		o.passes(3 * time.Second)
		if got := r.told(); got != "requested pending" || r.all()[0].msg.Data.ID == string(bad) {
			o.Errorf("told %q, want the other alone", got)
		}
	})
}

func (o *office) get(id gate.ID) gate.Approval {
	o.Helper()
	s, err := o.store.Get(o.Context(), id)
	if err != nil {
		o.Fatal(err)
	}
	return s.Approval
}

// TestWhatALogLacksIsSaid: what is there is told, and what was told already is not
// told a second time.
func TestWhatALogLacksIsSaid(t *testing.T) {
	t.Parallel()
	inBubble(t, func(o *office) {
		r := o.hook("ci")
		b := &broken{Store: o.store}
		out := o.outbox(func(c *Config) { c.Store = b })
		stop := o.runs(out)
		defer stop()
		o.asks()
		o.passes(3 * time.Second)
		b.gap.Store(true)
		o.asks()
		o.passes(10 * time.Second)
		o.asks()
		o.passes(3 * time.Second)
		if got := r.told(); got != "requested pending, requested pending, requested pending" {
			o.Errorf("told %q", got)
		}
		if o.logs.count("the log lacks entries") == 0 {
			o.Error("nobody is told of the gap")
		}
	})
}

// TestCallbacks: whoever asked is told what becomes of it, not that it asked; and of
// whatever asks in its place.
func TestCallbacks(t *testing.T) {
	t.Parallel()
	inBubble(t, func(o *office) {
		r := &receiver{}
		var used webhook.Config
		out := o.outbox(func(c *Config) {
			c.Callbacks = func(key, url string) (webhook.Config, error) {
				if key != "hermes" {
					return webhook.Config{}, fmt.Errorf("no key %q", key)
				}
				return webhook.Config{URL: url, SecretFile: "s"}, nil
			}
		})
		out.dial = func(c webhook.Config) (sender, []gate.Problem) { used = c; return r, nil }
		defer o.runs(out)()
		back := func(q *gate.Request) { q.Callback = "https://ci.example.com/hooks/1" }
		a := o.asks(back)
		o.asks() // has none
		o.decides(a, gate.Deny)
		o.passes(3 * time.Second)
		all := r.all()
		if r.told() != "decided denied" || all[0].msg.Data.ID != string(a.ID) {
			o.Fatalf("told %q", r.told())
		}
		if used.URL != "https://ci.example.com/hooks/1" || used.SecretFile != "s" {
			o.Errorf("sent with %+v", used)
		}
		if text := all[0].msg.Data.Now.AgentText; !strings.Contains(text, "as agreed") {
			o.Errorf("the model is told %q", text)
		}
		if all[0].msg.Data.Args != nil {
			o.Error("the arguments went along")
		}
		if got, err := o.store.Callbacks(o.Context(), a.ID); err != nil || got != (gate.Callbacks{State: gate.Delivered, Tries: 1}) {
			o.Errorf("its callback is %+v, %v", got, err)
		}
	})
}

func TestASuccessorIsToldToTheCallback(t *testing.T) {
	t.Parallel()
	inBubble(t, func(o *office) {
		r := &receiver{}
		out := o.outbox(func(c *Config) {
			c.Callbacks = func(_, url string) (webhook.Config, error) { return webhook.Config{URL: url}, nil }
		})
		out.dial = func(webhook.Config) (sender, []gate.Problem) { return r, nil }
		a := o.asks(func(q *gate.Request) { q.Callback = "https://ci.example.com/1" })
		next := gate.Opening{ID: gate.NewID(), Subject: a.Subject, Mode: gate.Deferred, ExpiresIn: time.Hour}
		next.Replaces, next.ReplacedBy, next.ReplaceWhy, next.ReplaceRev = a.ID, gate.EventVoided, gate.ReasonVoid, a.Rev
		if _, err := o.store.Open(o.Context(), next); err != nil {
			o.Fatal(err)
		}
		defer o.runs(out)()
		o.passes(3 * time.Second)
		if got := r.told(); got != "decided void, requested pending" && got != "requested pending, decided void" {
			o.Errorf("told %q", got)
		}
		for _, s := range r.all() {
			if d := s.msg.Data; d.State == "void" && d.Now.Successor != string(next.ID) || d.State == "pending" && d.Predecessor != string(a.ID) {
				o.Errorf("told %+v, want who takes whose place", d)
			}
		}
	})
}

// TestACallbackThatMayNotBeCalledIsNot: what its key may call is looked at when it
// is sent, not only when the call came.
func TestACallbackThatMayNotBeCalledIsNot(t *testing.T) {
	t.Parallel()
	inBubble(t, func(o *office) {
		r := &receiver{}
		out := o.outbox() // which has no callbacks
		out.dial = func(webhook.Config) (sender, []gate.Problem) { return r, nil }
		a := o.asks(func(q *gate.Request) { q.Callback = "https://evil.example.com/1" })
		o.decides(a, gate.Deny)
		stop := o.sends(out)
		o.passes(100 * time.Hour)
		stop()
		if len(r.all()) != 0 {
			o.Errorf("told %q", r.told())
		}
		if got, err := o.store.Callbacks(o.Context(), a.ID); err != nil || got.State != gate.Dead {
			o.Errorf("its callback is %+v, %v; want dead", got, err)
		}
	})
}

func TestAHookThatWasTakenOutIsDeadInTheEnd(t *testing.T) {
	t.Parallel()
	inBubble(t, func(o *office) {
		r := o.hook("ci", func(c *HookConfig) { c.On = Words{requested} })
		r.answer = always(500)
		stop := o.runs(o.outbox())
		o.asks()
		o.passes(time.Second)
		stop()
		r.answer = nil
		without := o.outbox(func(c *Config) { c.Hooks = &Hooks{} })
		stop = o.runs(without)
		o.passes(time.Minute)
		stop() // a replica of the new file had it; one of the old may still send it
		defer o.sends(o.outbox())()
		o.passes(time.Hour)
		if all := r.all(); len(all) != 2 || all[0].id != all[1].id {
			o.Errorf("%d came, want the same twice", len(all))
		}
	})
}
