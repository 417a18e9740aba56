package store

import (
	"crypto/rand"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/approvalbot/approvalbot/gate"
	"github.com/approvalbot/approvalbot/store/redistest"
	"github.com/approvalbot/approvalbot/store/storetest"
)

func sentinels(g *redistest.Sentinel) Server {
	return Server{Addrs: g.Addrs(), Sentinel: &Sentinel{Master: redistest.Master}}
}

func nodes(g *redistest.Cluster) Server { return Server{Addrs: g.Addrs(), Cluster: true} }

// TestCluster holds the whole contract on three primaries: no call touches keys
// of two slots.
func TestCluster(t *testing.T) {
	t.Parallel()
	g := redistest.StartCluster(t, redistest.Setup{})
	storetest.Run(t, func(t *testing.T) *storetest.Store {
		t.Helper()
		return spaceUnderTest(t, nodes(g))
	})
}

func TestSentinel(t *testing.T) {
	t.Parallel()
	g := redistest.StartSentinel(t, redistest.Setup{Replicas: 1})
	storetest.Run(t, func(t *testing.T) *storetest.Store {
		t.Helper()
		return spaceUnderTest(t, sentinels(g))
	})
}

// TestFailOverOfTopologies holds what becomes of approvals wherever a space may
// come to another primary. The tests of one group take turns.
func TestFailOverOfTopologies(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(*testing.T) (Server, func(s *Redis)){
		"Sentinels promote a replica": func(t *testing.T) (Server, func(*Redis)) {
			t.Helper()
			g := redistest.StartSentinel(t, redistest.Setup{Replicas: 1})
			return sentinels(g), func(*Redis) { g.Synced(1); g.FailOver() }
		},
		"a Cluster promotes a replica": func(t *testing.T) (Server, func(*Redis)) {
			t.Helper()
			g := redistest.StartCluster(t, redistest.Setup{Replicas: 1})
			return nodes(g), func(s *Redis) { g.FailOver(s.declared[0]) }
		},
		"a slot moves to another primary": func(t *testing.T) (Server, func(*Redis)) {
			t.Helper()
			g := redistest.StartCluster(t, redistest.Setup{})
			return nodes(g), func(s *Redis) { g.Move(s.declared[0], another(g, s)) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, failOver := start(t)
			var turn sync.Mutex
			storetest.RunFailOver(t, func(t *testing.T) *storetest.Store {
				t.Helper()
				turn.Lock()
				t.Cleanup(turn.Unlock)
				under := spaceUnderTest(t, c)
				s := under.Store.(*Redis)
				under.FailOver = func(t *testing.T) {
					failOver(s)
					answers(t, s)
				}
				return under
			})
		})
	}
}

// another returns a primary that does not have the space.
func another(g *redistest.Cluster, s *Redis) *redistest.Server {
	if g.Owner(s.declared[0]) == g.Nodes[0] {
		return g.Nodes[1]
	}
	return g.Nodes[0]
}

// answers waits until the store has found the primary of now. It moves nothing,
// and does not notice another incarnation.
func answers(t *testing.T, s *Redis) {
	t.Helper()
	within := time.Now().Add(30 * time.Second)
	for {
		_, err := s.Get(t.Context(), "apr_0")
		if errors.Is(err, gate.NotFound) {
			return
		}
		if !errors.Is(err, gate.Unavailable) || time.Now().After(within) {
			t.Fatalf("Get = %v", err)
		}
	}
}

// TestANodeOfAClusterThatDies tells nobody where its slots went: it is found out.
func TestANodeOfAClusterThatDies(t *testing.T) {
	t.Parallel()
	g := redistest.StartCluster(t, redistest.Setup{Replicas: 1})
	s, err := Open(t.Context(), Config{Redis: nodes(g)})
	if err != nil {
		t.Fatal(err)
	}
	defer shut(t, s)
	a := approvedNow(t, s)
	owner := g.Owner(s.declared[0])
	g.Synced(owner)
	owner.Kill()
	if _, err := s.Get(t.Context(), a.ID); !errors.Is(err, gate.Unavailable) {
		t.Errorf("Get = %v, want Unavailable", err)
	}
	g.Watch(2 * time.Second)
	g.Promoted(s.declared[0], owner)
	answers(t, s)
	if err := consumeNow(t, s, a, "x"); gate.ReasonOf(err) != gate.ReasonVoid {
		t.Errorf("Consume = %v, want void", err)
	}
	if b := approvedNow(t, s); consumeNow(t, s, b, "x") != nil {
		t.Error("what is approved on the new node does not run")
	}
}

// TestSpacesOfAClusterDoNotDisturbEachOther: each has its slot, and what becomes
// of one is nothing to the other.
func TestSpacesOfAClusterDoNotDisturbEachOther(t *testing.T) {
	t.Parallel()
	g := redistest.StartCluster(t, redistest.Setup{})
	var spaces []*Redis
	for _, name := range []string{"one", "other", "third"} { // in the slots 9084, 1604 and 13907
		s, err := Open(t.Context(), Config{Redis: nodes(g), Space: name})
		if err != nil {
			t.Fatal(err)
		}
		defer shut(t, s)
		if s.Durability() != Strict {
			t.Errorf("durability %s, want strict", s.Durability())
		}
		spaces = append(spaces, s)
	}
	owners := map[*redistest.Server]bool{}
	for _, s := range spaces {
		owners[g.Owner(s.declared[0])] = true
	}
	if len(owners) < 2 {
		t.Fatal("all spaces are on one node")
	}
	a, b := approvedNow(t, spaces[0]), approvedNow(t, spaces[1])
	if _, err := spaces[1].Get(t.Context(), a.ID); !errors.Is(err, gate.NotFound) {
		t.Errorf("Get in another space = %v", err)
	}
	g.Move(spaces[0].declared[0], another(g, spaces[0]))
	answers(t, spaces[0])
	if got := read(t, spaces[1], b.ID); got.Stale() {
		t.Error("an approval is void because another space has moved")
	}
	if got := read(t, spaces[0], a.ID); !got.Stale() {
		t.Error("an approval counts on the node to which its space has moved")
	}
}

// TestASlotOnItsWay: a space whose keys lie on two nodes answers nothing that
// could be wrong, and loses nothing.
func TestASlotOnItsWay(t *testing.T) {
	t.Parallel()
	g := redistest.StartCluster(t, redistest.Setup{})
	s, err := Open(t.Context(), Config{Redis: nodes(g), Space: "moving"})
	if err != nil {
		t.Fatal(err)
	}
	defer shut(t, s)
	a := approvedNow(t, s)
	from, to := g.Owner(s.declared[0]), another(g, s)
	finish := g.MoveSlowly(s.declared[0], to, s.declared[0])
	for range 3 {
		if err := consumeNow(t, s, a, rand.Text()); !errors.Is(err, gate.Unavailable) {
			t.Errorf("Consume = %v, want Unavailable", err)
		}
	}
	finish()
	answers(t, s)
	if err := consumeNow(t, s, a, rand.Text()); gate.ReasonOf(err) != gate.ReasonVoid {
		t.Errorf("after the move from %s Consume = %v, want void", from.Addr, err)
	}
	if b := approvedNow(t, s); consumeNow(t, s, b, rand.Text()) != nil {
		t.Error("what is approved on the new node does not run")
	}
}

// consumeNow is consume where no policy has been told yet.
func consumeNow(t *testing.T, s *Redis, a gate.Snapshot, attempt string) error {
	t.Helper()
	if _, err := s.Heartbeat(t.Context(), "r", "p"); err != nil && !errors.Is(err, gate.Unavailable) {
		t.Fatal(err)
	}
	return consume(t, s, a, attempt)
}

func consume(t *testing.T, s *Redis, a gate.Snapshot, attempt string) error {
	t.Helper()
	_, err := s.Consume(t.Context(), a.ID, gate.Consumption{
		Rev: a.Rev, Digest: a.Digest, Principal: "hermes", Attempt: attempt, Policy: "p", WillReport: true, ReportIn: time.Hour,
	})
	return err
}

// TestLostRepliesOfTopologies loses the first reply to every dispatch, alone and
// in batches, where the library has loops of its own that ask again: who was
// first gets a yes, and nobody else.
func TestLostRepliesOfTopologies(t *testing.T) {
	t.Parallel()
	group, cluster := redistest.StartSentinel(t, redistest.Setup{Replicas: 1}), redistest.StartCluster(t, redistest.Setup{})
	for name, tt := range map[string]struct {
		c       Server
		proxies func() []*redistest.Server
	}{
		"Sentinel": {sentinels(group), func() []*redistest.Server { return group.Nodes }},
		"Cluster":  {nodes(cluster), func() []*redistest.Server { return cluster.Nodes }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := Open(t.Context(), Config{Redis: tt.c, Space: strings.ToLower(rand.Text())})
			if err != nil {
				t.Fatal(err)
			}
			defer shut(t, s)
			for _, how := range []redistest.Loss{redistest.Hangup, redistest.Silence} {
				for _, free := range []int{2, 0} { // alone, or in a batch
					losesReplies(t, s, tt.proxies(), how, free)
				}
			}
			checkOnce(t, s)
		})
	}
}

func losesReplies(t *testing.T, s *Redis, at []*redistest.Server, how redistest.Loss, free int) {
	t.Helper()
	const calls = 4
	var all []gate.Snapshot
	for range calls {
		all = append(all, approvedNow(t, s))
	}
	if _, err := s.Heartbeat(t.Context(), "r", "p"); err != nil {
		t.Fatal(err)
	}
	s.scripts.free = free
	var wg sync.WaitGroup
	for _, a := range all {
		wg.Go(func() {
			if err := consume(t, s, a, "attempt"); err != nil {
				t.Errorf("loss %d, free %d: Consume = %v, want a yes", how, free, err)
			}
		})
	}
	lost := 0
	for _, n := range at {
		lost -= n.Proxy.Lost()
		n.Proxy.LoseNext(how)
	}
	for free == 0 && s.waiting() < calls {
		if t.Context().Err() != nil {
			t.Fatal("not all came")
		}
	}
	if free == 0 {
		s.scripts.release(t.Context())
		s.scripts.release(t.Context())
	}
	wg.Wait()
	for _, n := range at {
		n.Proxy.LoseNext(0)
		lost += n.Proxy.Lost()
	}
	if lost == 0 {
		t.Error("no reply was lost")
	}
	for _, a := range all {
		if err := consume(t, s, a, "another"); gate.ReasonOf(err) != gate.ReasonSpent {
			t.Errorf("another attempt = %v, want spent", err)
		}
	}
}
