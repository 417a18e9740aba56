//go:build linux

package chaos

import (
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/approvalbot/approvalbot/store"
)

// topology is how the Redis of a history is built, and what it promises.
type topology struct {
	name       string
	durability store.Durability
	restarts   bool // it is killed and comes back with what is on its disk
	replica    bool // which is promoted; writes of the old primary are lost
	waits      int  // replicas that confirm
	sentinels  bool // they promote
}

var topologies = []topology{
	{name: "alone", durability: store.Strict},
	{name: "restarts", durability: store.Strict, restarts: true},
	{name: "standard", durability: store.Standard, restarts: true},
	{name: "promotions", durability: store.Strict, replica: true},
	{name: "confirmed", durability: store.Strict, replica: true, waits: 1},
	{name: "sentinels", durability: store.Strict, sentinels: true},
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
func (t *topology) keeps() bool { return !t.replica && !t.sentinels }

// confirms reports whether at least no decision and no dispatch may be.
func (t *topology) confirms() bool { return t.keeps() || t.waits > 0 }

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
