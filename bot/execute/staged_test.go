package execute_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/approvalbot/approvalbot/bot"
	"github.com/approvalbot/approvalbot/bot/execute"
	"github.com/approvalbot/approvalbot/gate"
	gatesecret "github.com/approvalbot/approvalbot/gate/secret"
	"github.com/approvalbot/approvalbot/store"
	"github.com/approvalbot/approvalbot/store/redistest"
)

// shop is a gate on a real Redis whose staged calls are run by ops.
type shop struct {
	store *store.Redis
	gate  *gate.Gate
	hub   *bot.Hub
}

func newShop(t testing.TB, s *redistest.Server) *shop {
	t.Helper()
	ring, err := gate.NewKeyring(gatesecret.New(strings.Repeat("k", gate.MinServerKey)))
	if err != nil {
		t.Fatal(err)
	}
	st, err := store.Open(t.Context(), store.Config{Redis: store.Server{Addrs: []string{s.Addr}}, Durability: store.Strict, Fingerprints: ring.Fingerprints()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	p, problems := gate.NewPolicy(
		&gate.PolicyConfig{ToolGate: &gate.ToolGateConfig{Rules: []gate.RuleConfig{{Name: "ops", Match: gate.MatchConfig{Tool: "*"}, Mode: "deferred", Executor: "ops"}}}},
		gate.ApproversConfig{}, nil, []gate.Principal{{Key: "ann", Roles: []gate.Role{gate.RoleApprover}, Person: "ann"}}, nil, gate.Executor{Name: "ops"})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	log := slog.New(slog.DiscardHandler)
	x := &shop{store: st, hub: bot.NewHub(st, log)}
	x.gate = gate.New(st, ring, x.hub, p, log)
	x.gate.Beat(t.Context(), "r")
	ctx, stop := context.WithCancel(t.Context())
	var parts sync.WaitGroup
	parts.Go(func() { x.hub.Run(ctx) })
	parts.Go(func() { x.gate.Run(ctx, "r") })
	t.Cleanup(func() { stop(); parts.Wait() })
	return x
}

// approve stages a call that people have approved.
func (x *shop) approve(t testing.TB, n int) gate.ID {
	t.Helper()
	r, err := x.gate.Check(t.Context(), gate.Request{
		Call:      gate.Call{Tool: "restart", Args: fmt.Appendf(nil, `{"n":%d}`, n)},
		Requester: gate.Requester{Key: "hermes", Agent: fmt.Sprint(n)}, // one of many: each may have a hundred pending
	})
	if err != nil || r.Approval == nil {
		t.Fatalf("Check = %+v, %v", r, err)
	}
	_, err = x.gate.Decide(t.Context(), gate.Decision{
		ID: r.Approval.ID, Voter: gate.Voter{ID: "key:ann", Name: "ann", Person: "ann"}, Choice: gate.Approve, Digest: r.Approval.Digest, Nonce: "n",
	})
	if err != nil {
		t.Fatal(err)
	}
	return r.Approval.ID
}

// ledger is an executor that counts the calls it runs, by approval.
type ledger struct {
	all  atomic.Int64
	mu   sync.Mutex
	runs map[gate.ID]int
}

func (l *ledger) Prepare(_ context.Context, j *execute.Job) (execute.Dispatch, error) {
	return entry{l, j.ID}, nil
}

type entry struct {
	*ledger
	id gate.ID
}

func (e entry) Run(context.Context) execute.Result {
	e.mu.Lock()
	e.runs[e.id]++
	e.mu.Unlock()
	e.all.Add(1)
	return execute.Result{Outcome: gate.Executed, Text: "done"}
}

func (entry) Drop() {}

// TestFiftyRunnersOverTwoReplicasRunACallOnce: whoever comes first runs it.
func TestFiftyRunnersOverTwoReplicasRunACallOnce(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	l := &ledger{runs: map[gate.ID]int{}}
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	a, b := newShop(t, server), newShop(t, server)
	for i := range 50 {
		g := []*gate.Gate{a.gate, b.gate}[i%2]
		ready, forget := []*bot.Hub{a.hub, b.hub}[i%2].Ready()
		t.Cleanup(forget)
		r := &execute.Runner{Name: "ops", Owner: fmt.Sprint("w", i), Executor: l, Gate: g, AtOnce: 1, Ready: ready, Log: quiet}
		all.Go(func() { r.Run(ctx) })
	}
	const calls = 20
	var ids []gate.ID
	for n := range calls {
		ids = append(ids, a.approve(t, n))
	}
	eventually(t, func() bool { return l.all.Load() >= calls })
	for _, id := range ids {
		eventually(t, func() bool {
			s, err := a.store.Get(t.Context(), id)
			return err == nil && s.State == gate.Executed
		})
	}
	stop()
	all.Wait()
	for _, id := range ids {
		if l.runs[id] != 1 {
			t.Errorf("%s ran %d times", id, l.runs[id])
		}
	}
}

func eventually(t testing.TB, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(time.Minute); !ok(); <-tick.C {
		if time.Now().After(end) {
			t.Fatal("it never came true")
		}
	}
}

// BenchmarkStaged measures how many approved calls one replica runs in a second: each
// is leased, read, looked at again, consumed and reported. The ratio is of these three
// transitions to a bare compare-and-set in the same run.
func BenchmarkStaged(b *testing.B) {
	server := redistest.Start(b, "--appendonly", "no", "--save", "3600 1")
	x := newShop(b, server)
	const calls = 2000
	best := 0.0
	for b.Loop() {
		b.StopTimer()
		for n := range calls {
			x.approve(b, n)
		}
		before := server.Ceiling()
		l := &ledger{runs: map[gate.ID]int{}}
		ctx, stop := context.WithCancel(b.Context())
		ready, forget := x.hub.Ready()
		done := make(chan struct{})
		b.StartTimer()
		start := time.Now()
		go func() {
			defer close(done)
			(&execute.Runner{Name: "ops", Owner: "w", Executor: l, Gate: x.gate, AtOnce: 32, Ready: ready, Log: quiet}).Run(ctx)
		}()
		eventually(b, func() bool { return l.all.Load() >= calls })
		rate := calls / time.Since(start).Seconds()
		b.StopTimer()
		stop()
		<-done
		forget()
		b.ReportMetric(rate, "calls/s")
		best = max(best, 3*rate/max(before, server.Ceiling()))
		b.StartTimer()
	}
	b.ReportMetric(best, "ratio")
}
