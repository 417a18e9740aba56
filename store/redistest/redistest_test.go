//go:build unix

package redistest_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/approvalbot/approvalbot/store/redistest"
)

// once is a client that tries nothing twice.
func once(t *testing.T, addr string) *redis.Client {
	t.Helper()
	db := redis.NewClient(&redis.Options{
		Addr: addr, MaxRetries: -1, DialerRetries: 1, ReadTimeout: 300 * time.Millisecond, ContextTimeoutEnabled: true, DisableIdentity: true,
	})
	t.Cleanup(func() { db.Close() })
	return db
}

func replid(t *testing.T, s *redistest.Server) string {
	t.Helper()
	text, _ := s.Do("INFO", "replication").(string)
	_, id, _ := bytes.Cut([]byte(text), []byte("master_replid:"))
	return string(id[:min(40, len(id))])
}

func TestAServerComesBackWithWhatItHadAsAnother(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]*redistest.Server{
		"on a unix socket":   redistest.Start(t),
		"on a port":          redistest.StartTCP(t, redistest.Setup{}),
		"on a port with TLS": redistest.StartTCP(t, redistest.Setup{TLS: redistest.NewCerts(t)}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s.Do("SET", "k", "v")
			before := replid(t, s)
			s.Restart()
			if got := s.Do("GET", "k"); got != "v" {
				t.Errorf("after a restart it has %v", got)
			}
			s.Kill()
			s.Start()
			if got := s.Do("GET", "k"); got != "v" {
				t.Errorf("after a kill it has %v", got)
			}
			if after := replid(t, s); after == before || len(after) != 40 {
				t.Errorf("its incarnation was %q and is %q", before, after)
			}
		})
	}
}

func TestAFrozenServerSaysNothingUntilItIsThawed(t *testing.T) {
	t.Parallel()
	s := redistest.StartTCP(t, redistest.Setup{})
	db := once(t, s.Addr)
	s.Freeze()
	var wire net.Error
	if err := db.Ping(t.Context()).Err(); !errors.As(err, &wire) || !wire.Timeout() {
		t.Errorf("Ping = %v, want nothing", err)
	}
	s.Thaw()
	if got := s.Do("PING"); got != "PONG" {
		t.Errorf("thawed it says %v", got)
	}
}

func TestTheProxyDoesWhatItIsSet(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	ctx := t.Context()
	incr := func(p *redistest.Proxy) error { return once(t, p.Addr).Incr(ctx, p.Addr).Err() }
	count := func(p *redistest.Proxy) any { return s.Do("GET", p.Addr) }
	for _, tt := range []struct {
		name  string
		set   func(*redistest.Proxy)
		want  func(error) bool // of the first INCR
		count any              // after a second one, on a network without faults
	}{
		{"nothing", func(*redistest.Proxy) {}, func(err error) bool { return err == nil }, "2"},
		{"refuses", func(p *redistest.Proxy) { p.Set(redistest.Faults{Refuse: true}) }, broken, "1"},
		{"loses the next reply", func(p *redistest.Proxy) { p.LoseNext(redistest.Hangup) }, broken, ""},
		{"loses all replies", func(p *redistest.Proxy) { p.Set(redistest.Faults{Lose: 1}) }, broken, ""},
		{"loses all replies without a word", func(p *redistest.Proxy) { p.Set(redistest.Faults{Lose: 1, How: redistest.Silence}) }, silent, ""},
		{"has a hole", func(p *redistest.Proxy) { p.Set(redistest.Faults{Hole: true}) }, silent, ""},
		{"is slow", func(p *redistest.Proxy) { p.Set(redistest.Faults{Delay: time.Minute}) }, silent, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := redistest.StartProxy(t, s.Addr)
			tt.set(p)
			if err := incr(p); !tt.want(err) {
				t.Errorf("INCR = %v", err)
			}
			p.Set(redistest.Faults{})
			if err := incr(p); err != nil {
				t.Errorf("healed: INCR = %v", err)
			}
			if got := count(p); tt.count != "" && got != tt.count {
				t.Errorf("it was done %v times, want %v", got, tt.count)
			}
		})
	}
}

func broken(err error) bool {
	var op *net.OpError
	return errors.Is(err, io.EOF) || errors.As(err, &op) && !op.Timeout()
}

func silent(err error) bool {
	var wire net.Error
	return errors.As(err, &wire) && wire.Timeout()
}

// TestTheSameSeedLosesTheSameReplies: a history that went wrong can be played again.
func TestTheSameSeedLosesTheSameReplies(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	dial := func(addr string) net.Conn {
		t.Helper()
		c, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	play := func(seed uint64) (heard string) {
		p := redistest.StartProxy(t, s.Addr)
		p.Set(redistest.Faults{Lose: 0.3, Seed: seed})
		c := dial(p.Addr)
		for range 40 {
			_, _ = c.Write([]byte("PING\r\n"))
			if _, err := io.ReadFull(c, make([]byte, 7)); err == nil {
				heard += "+"
				continue
			}
			heard += "-"
			c.Close()
			c = dial(p.Addr)
		}
		c.Close()
		return heard
	}
	first := play(7)
	if again := play(7); again != first || !strings.Contains(first, "-") || !strings.Contains(first, "+") {
		t.Errorf("once %s, then %s", first, again)
	}
	if other := play(8); other == first {
		t.Errorf("with another seed too %s", other)
	}
}

// TestALostReplyIsOfSomethingDone: else lost replies would prove nothing.
func TestALostReplyIsOfSomethingDone(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for _, how := range []redistest.Loss{redistest.Hangup, redistest.Silence} {
		p := redistest.StartProxy(t, s.Addr)
		db := once(t, p.Addr)
		if err := db.Ping(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		p.LoseNext(how)
		if err := db.Incr(t.Context(), p.Addr).Err(); err == nil {
			t.Error("the reply came")
		}
		if got := s.Do("GET", p.Addr); got != "1" || p.Lost() != 1 {
			t.Errorf("it was done %v times, and %d replies were lost", got, p.Lost())
		}
	}
}

func TestCutBreaksWhatIsOpen(t *testing.T) {
	t.Parallel()
	p := redistest.StartProxy(t, redistest.Start(t).Addr)
	c, err := new(net.Dialer).DialContext(t.Context(), "tcp", p.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write([]byte("PING\r\n")); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 7)
	if _, err := io.ReadFull(c, buf); err != nil {
		t.Fatal(err)
	}
	p.Cut()
	if n, err := c.Read(buf); err == nil {
		t.Errorf("it read %q", buf[:n])
	}
}

func TestSentinelsPromoteAReplica(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]redistest.Setup{
		"plainly":  {Replicas: 2},
		"with TLS": {Replicas: 1, TLS: redistest.NewCerts(t)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := redistest.StartSentinel(t, c)
			old := g.Primary()
			if old != g.Nodes[0] || len(g.Others(old)) != c.Replicas {
				t.Fatal("the first node is not the primary")
			}
			old.Do("SET", "k", "v")
			if got := old.Do("WAIT", c.Replicas, 10_000); got != int64(c.Replicas) {
				t.Fatalf("WAIT = %v", got)
			}
			now := g.FailOver()
			if got := now.Do("GET", "k"); got != "v" || now == old {
				t.Errorf("the new primary has %v", got)
			}
			g.Synced(c.Replicas)
		})
	}
}

// TestAHoleIsAPartition: who is beside the primary writes on, the others go with
// another one, and in the end there is one.
func TestAHoleIsAPartition(t *testing.T) {
	t.Parallel()
	g := redistest.StartSentinel(t, redistest.Setup{Replicas: 2})
	old := g.Primary()
	old.Proxy.Set(redistest.Faults{Hole: true})
	g.Watch(time.Second)
	now := g.Promoted(old)
	old.Do("SET", "k", "lost")
	now.Do("SET", "k", "kept")
	old.Proxy.Set(redistest.Faults{})
	g.Synced(2)
	if got := old.Do("GET", "k"); got != "kept" {
		t.Errorf("the old primary has %v", got)
	}
}

func TestAClusterMovesAndFailsOver(t *testing.T) {
	t.Parallel()
	g := redistest.StartCluster(t, redistest.Setup{Replicas: 1})
	db := redis.NewClusterClient(&redis.ClusterOptions{Addrs: g.Addrs()[:1], ContextTimeoutEnabled: true, ClusterStateReloadInterval: time.Second})
	defer db.Close()
	set := func(v string) {
		t.Helper()
		within, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for db.Set(within, "k", v, 0).Err() != nil {
			if within.Err() != nil {
				t.Fatalf("%s cannot be set", v)
			}
		}
	}
	old := g.Owner("k")
	set("first")
	to := g.Nodes[0]
	if to == old {
		to = g.Nodes[1]
	}
	g.Move("k", to)
	if got := to.Do("GET", "k"); got != "first" {
		t.Errorf("after the move it is %v", got)
	}
	set("second")
	now := g.FailOver("k")
	set("third")
	if got := now.Do("GET", "k"); now == to || got != "third" {
		t.Errorf("after the fail-over it is %v", got)
	}
	now.Kill()
	g.Watch(2 * time.Second)
	if last := g.Promoted("k", now); last != to {
		t.Error("after a kill another than its replica has the key")
	}
	set("fourth")
}

func TestNothingIsLeftOver(t *testing.T) {
	t.Parallel()
	var addr string
	t.Run("a server", func(t *testing.T) { addr = redistest.Start(t).Addr })
	if _, err := os.Stat(addr); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its socket is still there: %v", err)
	}
}
