package store

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/approvalbot/approvalbot/gate"
	"github.com/approvalbot/approvalbot/store/redistest"
)

// confirming is a primary, its two replicas, and a store that waits for both.
func confirming(t *testing.T) (s *Redis, primary *redistest.Server, replicas []*redistest.Server) {
	t.Helper()
	g := redistest.StartSentinel(t, redistest.Setup{Replicas: 2})
	primary = g.Primary()
	s, err := Open(t.Context(), Config{Redis: Server{Addrs: []string{primary.Addr}}, WaitReplicas: 2, WaitTimeout: "1s"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { shut(t, s) })
	if _, err := s.Heartbeat(t.Context(), "r", "p"); err != nil {
		t.Fatal(err)
	}
	return s, primary, g.Others(primary)
}

// untilConfirmed repeats a call until replicas have confirmed it.
func untilConfirmed(t *testing.T, call func() error) {
	t.Helper()
	within, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := call()
	for errors.Is(err, errUnconfirmed) && within.Err() == nil {
		err = call()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestWhatIsNotConfirmedDoesNotSucceed freezes one replica of two: decisions and
// dispatches say that they are not confirmed, however often one asks, and all
// else goes on. Once the replica is back, who asks again gets the same yes.
func TestWhatIsNotConfirmedDoesNotSucceed(t *testing.T) {
	t.Parallel()
	s, primary, replicas := confirming(t)
	a, b := pendingNow(t, s), pendingNow(t, s)
	untilConfirmed(t, func() error { return approve(t, s, a) })
	a = read(t, s, a.ID)
	unconfirmed := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, gate.Unavailable) || gate.ReasonOf(err) != gate.ReasonStoreUnavailable ||
			!strings.Contains(gate.PublicText(err), "not confirmed by all replicas") {
			t.Errorf("%s = %v (%q), want that it is not confirmed", what, err, gate.PublicText(err))
		}
	}
	other, err := Open(t.Context(), s.config) // on connections that write nothing from now on
	if err != nil {
		t.Fatal(err)
	}
	defer shut(t, other)
	untilConfirmed(t, func() error { return other.RevokeGrant(t.Context(), "grt_0", "ann") })
	replicas[1].Freeze()
	unconfirmed("Vote", approve(t, s, b))
	unconfirmed("Consume", consume(t, s, a, "first"))
	unconfirmed("the same attempt", consume(t, s, a, "first"))
	unconfirmed("the same attempt by another process", consume(t, other, a, "first"))
	unconfirmed("the same vote", approve(t, s, b))
	unconfirmed("EndSession", s.EndSession(t.Context(), "hermes", "s", "ann"))
	primary.Do("SCRIPT", "FLUSH")
	unconfirmed("the same attempt on a new server", consume(t, s, a, "first"))
	if err := consume(t, s, a, "second"); gate.ReasonOf(err) != gate.ReasonSpent {
		t.Errorf("another attempt = %v, want spent", err)
	}
	c := pendingNow(t, s)
	if err := s.Withdraw(t.Context(), c.ID, gate.Withdrawal{Event: gate.EventCancel, Reason: gate.ReasonCancelled}); err != nil {
		t.Errorf("Withdraw = %v", err)
	}
	replicas[1].Thaw()
	untilConfirmed(t, func() error { return consume(t, s, a, "first") })
	untilConfirmed(t, func() error { return approve(t, s, b) })
	if err := consume(t, s, a, "second"); gate.ReasonOf(err) != gate.ReasonSpent {
		t.Errorf("another attempt = %v, want spent", err)
	}
	checkOnce(t, s)
}

// TestABatchIsConfirmedOnce: what comes together waits together, and a refusal
// stands without replicas.
func TestABatchIsConfirmedOnce(t *testing.T) {
	t.Parallel()
	s, _, replicas := confirming(t)
	var all []gate.Snapshot
	for range 3 {
		a := pendingNow(t, s)
		untilConfirmed(t, func() error { return approve(t, s, a) })
		all = append(all, read(t, s, a.ID))
	}
	untilConfirmed(t, func() error { return consume(t, s, all[2], "another") })
	w := watcher{make(chan int, 10)}
	s.db.(*redis.Client).AddHook(w)
	replicas[0].Freeze()
	s.sure.free = 0 // the test has the only line
	var wg sync.WaitGroup
	for i, a := range all {
		wg.Go(func() {
			err := consume(t, s, a, "attempt")
			if i < 2 && !errors.Is(err, errUnconfirmed) || i == 2 && gate.ReasonOf(err) != gate.ReasonSpent {
				t.Errorf("Consume of %d = %v", i, err)
			}
		})
	}
	for waitingFor(s.sure) < len(all) {
		if t.Context().Err() != nil {
			t.Fatal("not all came")
		}
	}
	if err := s.Note(t.Context(), gate.Entry{Event: "rule_changed"}); err != nil {
		t.Errorf("Note behind what waits for replicas = %v", err)
	}
	s.sure.release(t.Context())
	wg.Wait()
	if n := <-w.sizes; n != len(all)+2 {
		t.Errorf("%d commands were sent together, want %d, a write and a WAIT", n, len(all))
	}
}

// TestNobodyIsWaitedForUnlessAsked: the level costs nothing where it is not wanted.
func TestNobodyIsWaitedForUnlessAsked(t *testing.T) {
	t.Parallel()
	s, _ := openServer(t)
	if s.sure != s.scripts || s.config.wait() != (confirmation{}) {
		t.Error("there are lines that wait for replicas")
	}
	w := watcher{make(chan int, 10)}
	s.db.(*redis.Client).AddHook(w)
	a := pendingNow(t, s)
	if err := approve(t, s, a); err != nil {
		t.Fatal(err)
	}
	if len(w.sizes) > 0 {
		t.Errorf("a vote alone took a pipeline of %d", <-w.sizes)
	}
}

// TestAllReplicasMustBeWaitedFor: one more could be promoted with less, and with
// one that is down nothing is decided, but the process stays.
func TestAllReplicasMustBeWaitedFor(t *testing.T) {
	t.Parallel()
	g := redistest.StartSentinel(t, redistest.Setup{Replicas: 2})
	open := func(n int) (*Redis, error) {
		return Open(t.Context(), Config{Redis: sentinels(g), WaitReplicas: n, WaitTimeout: "1s"})
	}
	if _, err := open(1); err == nil || errors.Is(err, gate.Unavailable) || !strings.Contains(err.Error(), "set wait_replicas: 2") {
		t.Errorf("Open that waits for one of two = %v, want a refusal", err)
	}
	s, err := open(2)
	if err != nil {
		t.Fatal(err)
	}
	defer shut(t, s)
	if err := s.Recheck(t.Context()); err != nil || s.Durability() != Strict {
		t.Errorf("Recheck = %v, durability %s", err, s.Durability())
	}
	g.Nodes[2].Kill()
	g.Synced(1)
	if err := s.Recheck(t.Context()); !errors.Is(err, gate.Unavailable) || !strings.Contains(err.Error(), "until all are back") {
		t.Errorf("Recheck without a replica = %v, want Unavailable", err)
	}
	again, err := open(2)
	if err != nil {
		t.Fatalf("Open without a replica = %v", err)
	}
	defer shut(t, again)
	a := pendingNow(t, again)
	if err := approve(t, again, a); !errors.Is(err, errUnconfirmed) {
		t.Errorf("Vote without a replica = %v", err)
	}
	g.Nodes[2].Start()
	g.Synced(2)
	untilConfirmed(t, func() error { return approve(t, again, a) })
	if err := s.Recheck(t.Context()); err != nil {
		t.Errorf("Recheck = %v", err)
	}
}

// TestALostConfirmationIsAskedForAgain: the script's reply came, that of WAIT did not.
func TestALostConfirmationIsAskedForAgain(t *testing.T) {
	t.Parallel()
	g := redistest.StartSentinel(t, redistest.Setup{Replicas: 1})
	p := g.Primary()
	s, err := Open(t.Context(), Config{Redis: Server{Addrs: []string{p.Proxy.Addr}}, WaitReplicas: 1, WaitTimeout: "1s"})
	if err != nil {
		t.Fatal(err)
	}
	defer shut(t, s)
	if _, err := s.Heartbeat(t.Context(), "r", "p"); err != nil {
		t.Fatal(err)
	}
	a := pendingNow(t, s)
	p.Proxy.LoseNext(redistest.Hangup)
	untilConfirmed(t, func() error { return approve(t, s, a) })
	a = read(t, s, a.ID)
	p.Proxy.LoseNext(redistest.Hangup)
	untilConfirmed(t, func() error { return consume(t, s, a, "first") })
	checkOnce(t, s)
}
