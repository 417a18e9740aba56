//go:build unix

package redistest

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Cluster is three primaries that share the slots, with the replicas of each.
type Cluster struct {
	Nodes []*Server // the primaries at the start, then their replicas in turn

	t testing.TB
}

const (
	primaries = 3
	slots     = 16384
)

// StartCluster runs a Cluster until the test ends. It returns when every node
// says that all slots are served.
func StartCluster(t testing.TB, c Setup) *Cluster {
	t.Helper()
	g := &Cluster{t: t}
	for range primaries * (1 + c.Replicas) {
		n := newNode(t, c)
		n.args = append(n.args, n.clusterArgs(c)...)
		n.Start()
		g.Nodes = append(g.Nodes, n)
	}
	g.meet()
	g.share()
	return g
}

func (s *Server) clusterArgs(c Setup) []string {
	ip, port := split(s.Proxy.Addr)
	args := []string{
		"--cluster-enabled", "yes", "--cluster-node-timeout", milliseconds(c.DownAfter),
		"--cluster-announce-ip", ip, "--cluster-announce-bus-port", strconv.Itoa(s.bus()), "--repl-diskless-sync-delay", "0",
	}
	if c.TLS != nil {
		return append(args, "--tls-cluster", "yes", "--cluster-announce-tls-port", port)
	}
	return append(args, "--cluster-announce-port", port)
}

// bus is the port on which the nodes of a Cluster talk to each other.
func (s *Server) bus() int {
	_, port := split(s.Addr)
	n, _ := strconv.Atoi(port)
	return n + 10_000
}

func (g *Cluster) meet() {
	g.t.Helper()
	for i, n := range g.Nodes {
		n.Do("CLUSTER", "SET-CONFIG-EPOCH", i+1)
	}
	for _, n := range g.Nodes[1:] {
		ip, port := split(n.Addr)
		g.Nodes[0].Do("CLUSTER", "MEET", ip, port, n.bus())
	}
	g.all("nodes know each other", "cluster_known_nodes", strconv.Itoa(len(g.Nodes)))
}

func (g *Cluster) all(what, name, want string) {
	g.t.Helper()
	for _, n := range g.Nodes {
		eventually(g.t, what, func(context.Context) bool { return n.clusterInfo(name) == want })
	}
}

func (s *Server) clusterInfo(name string) string {
	text, _ := s.Do("CLUSTER", "INFO").(string)
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// share gives the slots to the primaries, and each of those its replicas.
func (g *Cluster) share() {
	g.t.Helper()
	for i := range primaries {
		g.Nodes[i].Do("CLUSTER", "ADDSLOTSRANGE", i*slots/primaries, (i+1)*slots/primaries-1)
	}
	for i, n := range g.Nodes[primaries:] {
		n.Do("CLUSTER", "REPLICATE", g.Nodes[i%primaries].id())
	}
	g.all("all slots are served", "cluster_state", "ok")
	for _, n := range g.Nodes[primaries:] {
		eventually(g.t, "the replicas are in step", func(context.Context) bool {
			return n.info("replication", "master_link_status") == "up"
		})
	}
}

// id is the name of a node in its Cluster.
func (s *Server) id() string {
	id, _ := s.Do("CLUSTER", "MYID").(string)
	return id
}

// Addrs are those of all nodes.
func (g *Cluster) Addrs() []string { return addrs(g.Nodes) }

// Owner is the node that serves a key, as the nodes that run see it.
func (g *Cluster) Owner(key string) *Server {
	g.t.Helper()
	for _, n := range g.Nodes {
		if n.run.ended() || !n.isPrimary(g.t.Context()) {
			continue
		}
		db := n.Client()
		err := db.Exists(g.t.Context(), key).Err()
		db.Close()
		if err == nil {
			return n
		}
	}
	return nil
}

// Promoted waits until another than old serves a key.
func (g *Cluster) Promoted(key string, old *Server) (p *Server) {
	g.t.Helper()
	eventually(g.t, "another node serves the key", func(context.Context) bool {
		p = g.Owner(key)
		return p != nil && p != old
	})
	return p
}

// Watch sets when a silent node is dead, see Setup.DownAfter.
func (g *Cluster) Watch(down time.Duration) {
	g.t.Helper()
	for _, n := range g.Nodes {
		if !n.run.ended() {
			n.Do("CONFIG", "SET", "cluster-node-timeout", milliseconds(down))
		}
	}
}

// Synced waits until a replica has all that a node has, and returns it.
func (g *Cluster) Synced(primary *Server) (replica *Server) {
	g.t.Helper()
	eventually(g.t, "a replica has all", func(context.Context) bool {
		for _, n := range g.Nodes {
			if !n.run.ended() && n.follows(primary) && n.info("replication", "slave_repl_offset") == primary.info("replication", "master_repl_offset") {
				replica = n
				return true
			}
		}
		return false
	})
	return replica
}

// FailOver promotes a replica of the owner of a key that has all the owner has,
// and returns it when the old owner follows it. The others are not asked: they
// agree to one fail-over of a node in twice DownAfter.
func (g *Cluster) FailOver(key string) *Server {
	g.t.Helper()
	old := g.Owner(key)
	p := g.Synced(old)
	p.Do("CLUSTER", "FAILOVER", "TAKEOVER")
	p.followedBy(old)
	return g.Promoted(key, old)
}

// Move gives the slot of a key, with all in it, to another node: a resharding.
func (g *Cluster) Move(key string, to *Server) {
	g.t.Helper()
	g.MoveSlowly(key, to)()
}

// MoveSlowly begins a resharding: those of the slot's keys that are named first
// are on the other node when it returns, and all when finish does.
func (g *Cluster) MoveSlowly(key string, to *Server, first ...string) (finish func()) {
	g.t.Helper()
	from := g.Owner(key)
	slot := from.Do("CLUSTER", "KEYSLOT", key)
	to.Do("CLUSTER", "SETSLOT", slot, "IMPORTING", from.id())
	from.Do("CLUSTER", "SETSLOT", slot, "MIGRATING", to.id())
	for _, k := range first {
		g.migrate(from, to, k)
	}
	return func() {
		g.t.Helper()
		g.carry(slot, from, to)
		for _, n := range []*Server{to, from} {
			n.Do("CLUSTER", "SETSLOT", slot, "NODE", to.id())
		}
		eventually(g.t, "the slot has moved", func(context.Context) bool { return g.Owner(key) == to })
	}
}

// carry migrates all keys of a slot.
func (g *Cluster) carry(slot any, from, to *Server) {
	g.t.Helper()
	for {
		keys, _ := from.Do("CLUSTER", "GETKEYSINSLOT", slot, 100).([]any)
		if len(keys) == 0 {
			return
		}
		g.migrate(from, to, keys...)
	}
}

func (g *Cluster) migrate(from, to *Server, keys ...any) {
	g.t.Helper()
	ip, port := split(to.Addr)
	if got := from.Do(append([]any{"MIGRATE", ip, port, "", 0, 10_000, "KEYS"}, keys...)...); fmt.Sprint(got) != "OK" {
		g.t.Fatalf("MIGRATE answered %v", got)
	}
}
