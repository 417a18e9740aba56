package store

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/approvalbot/approvalbot/gate"
	"github.com/approvalbot/approvalbot/store/redistest"
)

// A client beside the primary decides and dispatches while something breaks, and
// goes on as long as the old primary answers it. Then another client dispatches at
// the new primary what the first one was told has been dispatched. The figures in
// docs/guarantees.md are of `make failover`.

// levelUnderTest is how a store is kept.
type levelUnderTest struct {
	name      string
	unchecked bool // approvals of another incarnation count: what strict is measured against
	wait      int
}

var levels = []levelUnderTest{
	{name: "asynchronous, incarnation not checked", unchecked: true},
	{name: "strict"},
	{name: "strict, wait_replicas 2", wait: 2},
}

// breakage is what happens to the primary, in the middle of what the first client
// does. What it returns is done once another primary is there.
type breakage struct {
	name   string
	strike func(*redistest.Server) (afterwards func())
	long   bool // only measured, see TestFailOver
}

var breakages = []breakage{
	{name: "partition: primary and client alone", strike: func(p *redistest.Server) func() {
		p.Proxy.Set(redistest.Faults{Hole: true})
		return func() {}
	}},
	{name: "kill -9 of the primary", long: true, strike: func(p *redistest.Server) func() {
		p.Kill()
		return func() {}
	}},
	{name: "its machine is lost: first the network, then the primary", long: true, strike: func(p *redistest.Server) func() {
		p.Proxy.Set(redistest.Faults{Hole: true})
		return func() { p.Kill() }
	}},
	{name: "it hangs, and goes on when another is the primary", long: true, strike: func(p *redistest.Server) func() {
		p.Freeze()
		return p.Thaw
	}},
}

// figures are what one trial, or several together, have shown.
type figures struct {
	dispatched, undone, twice, void int // dispatches that the first client was told of
	decided, undecided              int // decisions that it was told of
}

// TestFailOver measures what each breakage costs at each level, and holds what is
// promised: at strict nothing is dispatched twice, and what all replicas have
// confirmed is not lost.
func TestFailOver(t *testing.T) {
	t.Parallel()
	trials, calls := number("FAILOVER_TRIALS", 1), number("FAILOVER_CALLS", 300)
	for _, b := range breakages {
		if b.long && os.Getenv("FAILOVER_TRIALS") == "" {
			continue
		}
		for _, l := range levels {
			t.Run(b.name+"/"+l.name, func(t *testing.T) {
				t.Parallel()
				var f figures
				for range trials {
					trial(t, b, l, calls, &f)
				}
				t.Logf("| %s | %s | %d | %d | %d | %d | %d | %d |", b.name, l.name, f.dispatched, f.undone, f.twice, f.void, f.decided, f.undecided)
				f.hold(t, l)
			})
		}
	}
}

func number(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return otherwise
}

func (f *figures) hold(t *testing.T, l levelUnderTest) {
	t.Helper()
	switch {
	case f.dispatched == 0 || f.decided == 0:
		t.Error("the first client was told of nothing")
	case !l.unchecked && f.twice > 0:
		t.Errorf("%d were dispatched twice", f.twice)
	case l.wait > 0 && f.undone+f.undecided > 0:
		t.Errorf("%d dispatches and %d decisions were confirmed and lost", f.undone, f.undecided)
	case l.unchecked && f.twice == 0 && strings.HasPrefix(t.Name(), "TestFailOver/partition"):
		t.Error("nothing was dispatched twice without the check: this test would not notice if something were")
	}
}

func trial(t *testing.T, b breakage, l levelUnderTest, calls int, f *figures) {
	t.Helper()
	g := redistest.StartSentinel(t, redistest.Setup{Replicas: 2})
	defer g.Stop()
	old := g.Primary()
	first := &caller{t: t, store: openLevel(t, Server{Addrs: []string{old.Addr}}, l)}
	first.prepare(calls)
	g.Synced(2)
	third := calls / 3
	first.use(0, third, nil)
	var afterwards func()
	first.use(third, 2*third, func() { afterwards = b.strike(old) })
	g.Watch(time.Second)
	g.Promoted(old)
	afterwards()
	first.use(2*third, calls, nil)
	l.wait = 0 // the second client takes what it can get
	first.account(openLevel(t, sentinels(g), l), f)
}

func openLevel(t *testing.T, c Server, l levelUnderTest) *Redis {
	t.Helper()
	s, err := New(Config{Redis: c, WaitReplicas: l.wait})
	if err != nil {
		t.Fatal(err)
	}
	if l.unchecked {
		s.incarnation = anyIncarnation
	}
	t.Cleanup(func() { shut(t, s) })
	return s
}

// caller decides and dispatches, and remembers what it was told has been done.
type caller struct {
	t     *testing.T
	store *Redis
	calls []trialCall
}

// trialCall is an approval that is dispatched, and one that is decided.
type trialCall struct {
	run, ask            gate.ID
	dispatched, decided bool
}

var trialDigest, _ = gate.Call{Tool: "t"}.Digest()

// prepare opens what is decided and approves what is dispatched.
func (c *caller) prepare(n int) {
	c.t.Helper()
	if _, err := c.store.Heartbeat(c.t.Context(), "r", "p"); err != nil {
		c.t.Fatal(err)
	}
	c.calls = make([]trialCall, n)
	c.each(0, n, func(call *trialCall) error {
		call.run, call.ask = c.open(), c.open()
		return c.vote(call.run)
	})
	for _, call := range c.calls {
		if call.ask == "" {
			c.t.Fatal("not all could be opened")
		}
	}
}

func (c *caller) open() gate.ID {
	o := gate.Opening{
		ID: gate.ID("apr_" + rand.Text()), Mode: gate.Deferred, ExpiresIn: time.Hour,
		Subject: gate.Subject{Call: gate.Call{Tool: "t"}, Digest: trialDigest, Requester: gate.Requester{Key: "hermes"}, Executor: gate.RequesterRuns},
	}
	if _, err := c.store.Open(c.t.Context(), o); err != nil {
		c.t.Errorf("Open = %v", err)
	}
	return o.ID
}

func (c *caller) vote(id gate.ID) error {
	_, err := c.store.Vote(c.t.Context(), id, gate.Ballot{
		Rev: 1, Digest: trialDigest, Settles: gate.Approved, RunFor: time.Hour, Vote: gate.Vote{Voter: gate.Voter{ID: "u"}, Nonce: "n"},
	})
	return err
}

func consumeTrial(ctx context.Context, s *Redis, id gate.ID, attempt string) error {
	_, err := s.Consume(ctx, id, gate.Consumption{
		Rev: 2, Digest: trialDigest, Principal: "hermes", Attempt: attempt, Policy: "p", WillReport: true, ReportIn: time.Hour,
	})
	return err
}

// use dispatches and decides the calls from one to another, in the middle of
// which something happens.
func (c *caller) use(from, to int, middle func()) {
	var done atomic.Int64
	c.each(from, to, func(call *trialCall) error {
		if done.Add(1) == int64(to-from)/2 && middle != nil {
			middle()
		}
		err := consumeTrial(c.t.Context(), c.store, call.run, "first")
		call.dispatched = err == nil
		if err == nil {
			err = c.vote(call.ask)
			call.decided = err == nil
		}
		return err
	})
	if middle != nil && done.Load() < int64(to-from)/2 {
		c.t.Error("the client gave up before anything had happened")
	}
}

// each does something with the calls from one to another, 32 at a time, until the
// store has failed too often.
func (c *caller) each(from, to int, do func(*trialCall) error) {
	const most = 64
	var failed, next atomic.Int64
	next.Store(int64(from))
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(to) && failed.Load() < most; i = next.Add(1) - 1 {
				if err := do(&c.calls[i]); err != nil {
					failed.Add(1)
				}
			}
		})
	}
	wg.Wait()
}

// account looks at the new primary for all that the first client was told has
// been done, and tries to dispatch it again.
func (c *caller) account(s *Redis, f *figures) {
	c.t.Helper()
	answers(c.t, s)
	for _, call := range c.calls {
		if call.decided {
			f.decided++
			f.undecided += c.hasNot(s, call.ask, gate.Approved)
		}
		if !call.dispatched {
			continue
		}
		f.dispatched++
		f.undone += c.hasNot(s, call.run, gate.Executing)
		switch err := consumeTrial(c.t.Context(), s, call.run, "second"); {
		case err == nil, errors.Is(err, errUnconfirmed): // it may have been done
			f.twice++
		case gate.ReasonOf(err) == gate.ReasonVoid:
			f.void++
		case gate.ReasonOf(err) != gate.ReasonSpent:
			c.t.Errorf("the second client: Consume = %v", err)
		}
	}
}

// hasNot counts 1 if the store does not know that an approval is in a state.
func (c *caller) hasNot(s *Redis, id gate.ID, want gate.State) int {
	c.t.Helper()
	a, err := s.Get(c.t.Context(), id)
	if err != nil {
		c.t.Fatal(err)
	}
	if a.State == want {
		return 0
	}
	return 1
}
