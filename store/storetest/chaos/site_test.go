//go:build linux

package chaos

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/approvalbot/approvalbot/store"
	"github.com/approvalbot/approvalbot/store/redistest"
)

// site is the Redis of one history and the ways to it: two that a lever each leads
// to the primary, or what Sentinels say. All processes on one way see the same
// network.
type site struct {
	topology
	t       *testing.T
	primary *redistest.Server // as the nemesis has left it; of a group see current
	spare   *redistest.Server // follows the primary; nil if there is none
	group   *redistest.Sentinel
	links   map[*redistest.Server]*redistest.Proxy // that replicas see
	levers  []*lever
	paths   []*redistest.Proxy
}

func build(t *testing.T, top topology) *site {
	t.Helper()
	s := &site{topology: top, t: t, links: map[*redistest.Server]*redistest.Proxy{}}
	switch {
	case top.sentinels:
		s.group = redistest.StartSentinel(t, redistest.Setup{Replicas: 2, DownAfter: downAfter})
		for _, n := range s.group.Nodes {
			s.paths = append(s.paths, n.Proxy)
		}
		return s
	case top.replica:
		s.pair()
	case top.durability == store.Standard:
		s.primary = redistest.Start(t, "--appendfsync", "always")
	default:
		s.primary = redistest.Start(t)
	}
	for range 2 {
		l := startLever(t, s.primary.Addr)
		s.levers = append(s.levers, l)
		s.paths = append(s.paths, redistest.StartProxy(t, l.addr))
	}
	return s
}

// downAfter is when Sentinels take a silent node for dead.
const downAfter = 700 * time.Millisecond

// pair is a primary with one replica.
func (s *site) pair() {
	setup := redistest.Setup{Args: []string{"--repl-diskless-sync-delay", "0", "--repl-timeout", "60"}}
	s.primary, s.spare = redistest.StartTCP(s.t, setup), redistest.StartTCP(s.t, setup)
	for _, n := range []*redistest.Server{s.primary, s.spare} {
		s.links[n] = redistest.StartProxy(s.t, n.Addr)
	}
	s.follow(s.spare, s.primary)
}

// follow makes one server the replica of another and waits until it is in step.
func (s *site) follow(replica, of *redistest.Server) {
	host, port, _ := net.SplitHostPort(s.links[of].Addr)
	replica.Do("REPLICAOF", host, port)
	s.eventually("a replica is in step", func() bool {
		text, _ := replica.Do("INFO", "replication").(string)
		return strings.Contains(text, "master_link_status:up")
	})
}

func (s *site) eventually(what string, ask func() bool) {
	s.t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); pause(s.t.Context(), 10*time.Millisecond) {
		if ask() {
			return
		}
	}
	s.t.Fatalf("it never came that %s", what)
}

// config is how the i-th process, or its neighbour, finds the store.
func (s *site) config(i int) store.Config {
	if s.group != nil {
		c := s.at(s.group.Addrs()...)
		c.Redis.Sentinel = &store.Sentinel{Master: redistest.Master}
		return c
	}
	return s.at(s.paths[i%len(s.paths)].Addr)
}

// direct is the store past all networks, when all is mended.
func (s *site) direct() store.Config {
	if s.group != nil {
		s.eventually("there is one primary, and all follow it", func() bool {
			s.primary = s.group.Primary()
			return s.primary != nil && s.primaries() == 1 && s.leads(s.primary)
		})
		s.group.Synced(len(s.group.Nodes) - 1)
	}
	return s.at(s.primary.Addr)
}

func (s *site) at(addrs ...string) store.Config {
	c := store.Config{Durability: s.durability, Fingerprints: []string{"k"}, WaitReplicas: s.waits}
	c.Redis.Addrs = addrs
	return c
}

func (s *site) primaries() (n int) {
	for _, node := range s.group.Nodes {
		if s.leads(node) {
			n++
		}
	}
	return n
}

// leads reports whether a server takes itself for a primary.
func (s *site) leads(node *redistest.Server) bool {
	db := node.Client()
	defer db.Close()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	role, err := db.Do(ctx, "ROLE").Slice()
	return err == nil && len(role) > 0 && role[0] == "master"
}
