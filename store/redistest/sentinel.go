//go:build unix

package redistest

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Master is the name that Sentinels have for the primary.
const Master = "main"

// Sentinel is a primary with replicas, and the three Sentinels that watch them.
type Sentinel struct {
	Nodes     []*Server // the first is the primary at the start
	Sentinels []*Server

	t testing.TB
}

// StartSentinel runs a group until the test ends. It returns when all replicas
// are in step and the Sentinels know each other.
func StartSentinel(t testing.TB, c Setup) *Sentinel {
	t.Helper()
	g := &Sentinel{t: t}
	for i := range c.Replicas + 1 {
		n := newNode(t, c)
		ip, port := split(n.Proxy.Addr)
		n.args = append(n.args, "--replica-announce-ip", ip, "--replica-announce-port", port, "--repl-diskless-sync-delay", "0", "--repl-timeout", "60")
		if i > 0 {
			ip, port = split(g.Nodes[0].Proxy.Addr)
			n.args = append(n.args, "--replicaof", ip+" "+port)
		}
		n.Start()
		g.Nodes = append(g.Nodes, n)
	}
	for range 3 {
		g.Sentinels = append(g.Sentinels, newSentinel(t, c, g.Nodes[0].Proxy.Addr))
	}
	g.settle(c.Replicas)
	return g
}

// newNode is a node with a proxy, not started yet.
func newNode(t testing.TB, c Setup) *Server {
	t.Helper()
	n := newServer(t, c)
	n.listen()
	n.Proxy = StartProxy(t, n.Addr)
	return n
}

func newSentinel(t testing.TB, c Setup, primary string) *Server {
	t.Helper()
	s := newServer(t, c)
	s.args = nil
	s.listen()
	ip, port := split(primary)
	config := fmt.Sprintf("dir %s\nlogfile log\nsentinel monitor %s %s %s 2\nsentinel down-after-milliseconds %[2]s %[5]s\nsentinel failover-timeout %[2]s 10000\n",
		s.dir, Master, ip, port, milliseconds(c.DownAfter))
	file := filepath.Join(s.dir, "sentinel.conf") // Sentinels write to it
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	s.args = append([]string{file, "--sentinel"}, s.args...)
	s.Start()
	return s
}

// hurry has the Sentinels ask and tell five times a second, until what it returns
// lets them take their time again: many groups share a machine.
func (g *Sentinel) hurry() (rest func()) {
	g.t.Helper()
	set := func(info, publish, ask int) {
		for _, s := range g.Sentinels {
			if s.run.ended() {
				continue
			}
			s.Do("SENTINEL", "DEBUG", "INFO-PERIOD", info, "PUBLISH-PERIOD", publish, "ASK-PERIOD", ask)
		}
	}
	set(200, 200, 200)
	return func() { set(10_000, 2000, 1000) }
}

// milliseconds says when a silent node is dead; 0 is longer than any test.
func milliseconds(d time.Duration) string {
	if d == 0 {
		d = time.Hour
	}
	return strconv.FormatInt(d.Milliseconds(), 10)
}

func split(addr string) (host, port string) {
	host, port, _ = net.SplitHostPort(addr)
	return host, port
}

// settle waits until everybody knows everybody.
func (g *Sentinel) settle(replicas int) {
	g.t.Helper()
	g.Synced(replicas)
	defer g.hurry()()
	want := fmt.Sprintf("slaves=%d,sentinels=%d", replicas, len(g.Sentinels))
	for _, s := range g.Sentinels {
		eventually(g.t, "the Sentinels know "+want, func(context.Context) bool {
			return strings.HasSuffix(s.info("sentinel", "master0"), want)
		})
	}
}

// Synced waits until so many replicas follow the primary and have all it has,
// which it never comes to while somebody writes.
func (g *Sentinel) Synced(replicas int) {
	g.t.Helper()
	defer g.hurry()()
	eventually(g.t, "all replicas are in step", func(context.Context) bool {
		p := g.Primary()
		if p == nil || p.run.ended() {
			return false
		}
		all := p.info("replication", "master_repl_offset")
		online := 0
		for _, n := range g.Nodes {
			if !n.run.ended() && n.follows(p) && n.info("replication", "slave_repl_offset") == all {
				online++
			}
		}
		return online == replicas
	})
}

// Addrs are those of the Sentinels.
func (g *Sentinel) Addrs() []string { return addrs(g.Sentinels) }

func addrs(all []*Server) (out []string) {
	for _, s := range all {
		out = append(out, s.announced())
	}
	return out
}

// Primary is the node that most Sentinels name.
func (g *Sentinel) Primary() *Server {
	g.t.Helper()
	votes := map[string]int{}
	for _, s := range g.Sentinels {
		if !s.run.ended() {
			at, _ := s.Do("SENTINEL", "GET-MASTER-ADDR-BY-NAME", Master).([]any)
			votes[fmt.Sprint(at...)]++
		}
	}
	for _, n := range g.Nodes {
		ip, port := split(n.Proxy.Addr)
		if votes[fmt.Sprint(ip, port)] > len(g.Sentinels)/2 {
			return n
		}
	}
	return nil
}

// Promoted waits until another than old is the primary, and takes it for one itself.
func (g *Sentinel) Promoted(old *Server) (p *Server) {
	g.t.Helper()
	defer g.hurry()()
	eventually(g.t, "another node is the primary", func(ctx context.Context) bool {
		p = g.Primary()
		return p != nil && p != old && p.isPrimary(ctx)
	})
	return p
}

func (s *Server) isPrimary(ctx context.Context) bool {
	db := s.Client()
	defer db.Close()
	role, err := db.Do(ctx, "ROLE").Slice()
	return err == nil && len(role) > 0 && role[0] == "master"
}

// FailOver has the Sentinels promote a replica in good order, and returns it when
// the old primary follows it. They give up one that takes more than 10 seconds.
func (g *Sentinel) FailOver() (p *Server) {
	g.t.Helper()
	defer g.hurry()()
	old := g.Primary()
	db := g.Sentinels[0].Client()
	defer db.Close()
	var again time.Time
	eventually(g.t, "the Sentinels promote a replica", func(ctx context.Context) bool {
		if p = g.Primary(); p != nil && p != old && p.isPrimary(ctx) {
			return true
		}
		if time.Now().After(again) && db.Do(ctx, "SENTINEL", "FAILOVER", Master).Err() == nil {
			again = time.Now().Add(20 * time.Second)
		}
		return false
	})
	p.followedBy(old)
	return p
}

// Others are the nodes but for one.
func (g *Sentinel) Others(not *Server) []*Server {
	return slices.DeleteFunc(slices.Clone(g.Nodes), func(n *Server) bool { return n == not })
}

// Watch sets when a silent node is dead, see Setup.DownAfter: what is slow before
// something is broken on purpose is then not taken for dead.
func (g *Sentinel) Watch(down time.Duration) {
	g.t.Helper()
	for _, s := range g.Sentinels {
		s.Do("SENTINEL", "SET", Master, "down-after-milliseconds", milliseconds(down))
	}
}

// Stop ends the group before the test does.
func (g *Sentinel) Stop() {
	for _, s := range slices.Concat(g.Sentinels, g.Nodes) {
		s.Kill()
	}
}
