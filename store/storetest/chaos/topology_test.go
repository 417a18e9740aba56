//go:build linux

package chaos

import (
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/approvalbot/approvalbot/store"
	"github.com/approvalbot/approvalbot/store/redistest"
)

// topology is how the Redis of a history is built, and what it promises.
type topology struct {
	name       string
	durability store.Durability
	restarts   bool // it is killed and comes back with what is on its disk
	replica    bool // which is promoted; writes of the old primary are lost
}

var topologies = []topology{
	{name: "alone", durability: store.Strict},
	{name: "restarts", durability: store.Strict, restarts: true},
	{name: "standard", durability: store.Standard, restarts: true},
	{name: "promotions", durability: store.Strict, replica: true},
}

// choose takes the topology of a seed, or the one that CHAOS_TOPOLOGY names.
func choose(seed uint64) topology {
	for _, t := range topologies {
		if t.name == os.Getenv("CHAOS_TOPOLOGY") {
			return t
		}
	}
	return topologies[seed%uint64(len(topologies))]
}

// keeps reports whether nothing that was acknowledged may be lost.
func (t *topology) keeps() bool { return !t.replica }

// site is the Redis of one history and the two ways to it. All processes on one
// way see the same network.
type site struct {
	topology
	t       *testing.T
	primary *redistest.Server
	spare   *redistest.Server // follows the primary; nil if there is none
	links   map[*redistest.Server]*redistest.Proxy
	levers  []*lever
	paths   []*redistest.Proxy
}

func build(t *testing.T, top topology) *site {
	t.Helper()
	s := &site{topology: top, t: t, links: map[*redistest.Server]*redistest.Proxy{}}
	switch {
	case top.replica:
		setup := redistest.Setup{Args: []string{"--repl-diskless-sync-delay", "0", "--repl-timeout", "60"}}
		s.primary, s.spare = redistest.StartTCP(t, setup), redistest.StartTCP(t, setup)
		for _, n := range []*redistest.Server{s.primary, s.spare} {
			s.links[n] = redistest.StartProxy(t, n.Addr)
		}
		s.follow(s.spare, s.primary)
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

// follow makes one server the replica of another and waits until it is in step.
func (s *site) follow(replica, of *redistest.Server) {
	host, port, _ := net.SplitHostPort(s.links[of].Addr)
	replica.Do("REPLICAOF", host, port)
	for end := time.Now().Add(patience); time.Now().Before(end); pause(s.t.Context(), 10*time.Millisecond) {
		if text, _ := replica.Do("INFO", "replication").(string); strings.Contains(text, "master_link_status:up") {
			return
		}
	}
	s.t.Fatal("a replica did not get in step")
}

// lever is a way to one of several servers. Moving it cuts every connection.
type lever struct {
	addr string

	mu    sync.Mutex
	to    string
	conns map[net.Conn]bool
}

func startLever(t *testing.T, to string) *lever {
	t.Helper()
	in, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &lever{addr: in.Addr().String(), to: to, conns: map[net.Conn]bool{}}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := in.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { l.serve(c) })
		}
	})
	t.Cleanup(func() { in.Close(); l.move(""); wg.Wait() })
	return l
}

// move leads all from now on to another server, "" to none.
func (l *lever) move(to string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.to = to
	for c := range l.conns {
		c.Close()
	}
}

func (l *lever) serve(client net.Conn) {
	defer client.Close()
	server := l.dial(client)
	if server == nil {
		return
	}
	defer l.forget(client, server)
	var wg sync.WaitGroup
	wg.Go(func() { _, _ = io.Copy(server, client); server.Close() })
	_, _ = io.Copy(client, server)
	client.Close()
	wg.Wait()
}

// dial connects to where the lever points, unless it is moved meanwhile.
func (l *lever) dial(client net.Conn) net.Conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	network := "tcp"
	if strings.HasPrefix(l.to, "/") {
		network = "unix"
	}
	server, err := net.Dial(network, l.to)
	if err != nil {
		return nil
	}
	l.conns[client], l.conns[server] = true, true
	return server
}

func (l *lever) forget(all ...net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range all {
		c.Close()
		delete(l.conns, c)
	}
}
