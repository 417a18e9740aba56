//go:build unix

package redistest

import (
	"bytes"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// Proxy is a network between clients and one server, as good or bad as Set says.
// It is safe for concurrent use.
type Proxy struct {
	Addr string // "127.0.0.1:port"

	to   string
	done chan struct{}
	wg   sync.WaitGroup

	mu      sync.Mutex
	faults  Faults
	rng     *rand.Rand    // seeded by faults
	changed chan struct{} // closed when faults change
	next    Loss          // of the first reply from now on
	lost    int
	conns   map[net.Conn]bool
}

// Faults is what is wrong with a network. The zero value is nothing.
type Faults struct {
	Refuse bool          // new connections are closed at once
	Hole   bool          // nothing passes, neither way, and nothing is closed: a partition. What was sent arrives after it
	Delay  time.Duration // of all that clients send
	Lose   float64       // the share of replies that do not arrive, between 0 and 1
	How    Loss          // what becomes of those; the zero value is Hangup
	Seed   uint64        // of which replies those are
}

// Loss is what becomes of a reply that does not arrive. The server has done what
// was asked in any case.
type Loss int

// The ways to lose a reply.
const (
	Hangup  Loss = iota + 1 // its connection breaks
	Silence                 // the connection stays, and nothing comes
)

// StartProxy runs a proxy to an address, or the path of a unix socket, until the
// test ends.
func StartProxy(t testing.TB, to string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{Addr: l.Addr().String(), to: to, done: make(chan struct{}), changed: make(chan struct{}), conns: map[net.Conn]bool{}}
	p.wg.Go(func() { p.accept(l) })
	t.Cleanup(func() {
		close(p.done)
		l.Close()
		p.Cut()
		p.wg.Wait()
	})
	return p
}

// Set changes what is wrong, for open connections too.
func (p *Proxy) Set(f Faults) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults, p.rng = f, rand.New(rand.NewPCG(f.Seed, 0))
	close(p.changed)
	p.changed = make(chan struct{})
}

// LoseNext loses the first reply from now on that tells of something done.
func (p *Proxy) LoseNext(how Loss) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next = how
}

// Lost returns how many replies did not arrive.
func (p *Proxy) Lost() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lost
}

// Cut breaks every open connection.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.Close()
	}
}

func (p *Proxy) accept(l net.Listener) {
	for {
		client, err := l.Accept()
		if err != nil {
			return
		}
		p.wg.Go(func() { p.serve(client) })
	}
}

func (p *Proxy) serve(client net.Conn) {
	defer p.hold(client)()
	if f, open := p.pass(); f.Refuse || !open {
		return
	}
	server, err := net.Dial(network(p.to), p.to)
	if err != nil {
		return
	}
	defer p.hold(server)()
	var wg sync.WaitGroup
	wg.Go(func() {
		p.requests(client, server)
		server.Close()
	})
	p.replies(client, server)
	client.Close()
	wg.Wait()
}

func network(addr string) string {
	if strings.HasPrefix(addr, "/") {
		return "unix"
	}
	return "tcp"
}

// hold lets Cut reach a connection until what it returns closes it.
func (p *Proxy) hold(c net.Conn) (letGo func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns[c] = true
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.conns, c)
		c.Close()
	}
}

// pass waits while there is a hole. It reports whether the proxy goes on.
func (p *Proxy) pass() (f Faults, open bool) {
	for {
		p.mu.Lock()
		f, changed := p.faults, p.changed
		p.mu.Unlock()
		select {
		case <-p.done:
			return f, false
		default:
		}
		if !f.Hole {
			return f, true
		}
		select {
		case <-p.done:
		case <-changed:
		}
	}
}

// requests passes on what a client sends.
func (p *Proxy) requests(client, server net.Conn) {
	buf := make([]byte, 64<<10)
	for {
		n, err := client.Read(buf)
		if err != nil {
			return
		}
		f, open := p.pass()
		if !open || !p.late(f.Delay) {
			return
		}
		if _, err := server.Write(buf[:n]); err != nil {
			return
		}
	}
}

// late waits as long as the network takes. It is the one place that waits for
// nothing but time.
func (p *Proxy) late(d time.Duration) bool {
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-p.done:
		return false
	case <-timer.C:
		return true
	}
}

// replies passes on what the server says, but for what is lost.
func (p *Proxy) replies(client, server net.Conn) {
	buf := make([]byte, 64<<10)
	for {
		n, err := server.Read(buf)
		if err != nil {
			return
		}
		if _, open := p.pass(); !open {
			return
		}
		switch p.loss(buf[:n]) {
		case Hangup:
			return
		case Silence:
			continue
		}
		if _, err := client.Write(buf[:n]); err != nil {
			return
		}
	}
}

// loss draws what becomes of a reply. That a script is not known yet says that
// nothing was done: to lose it proves nothing.
func (p *Proxy) loss(reply []byte) (how Loss) {
	if bytes.HasPrefix(reply, []byte("-NOSCRIPT")) {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	how, p.next = p.next, 0
	if how == 0 && p.faults.Lose > 0 && p.rng.Float64() < p.faults.Lose {
		how = max(p.faults.How, Hangup)
	}
	if how != 0 {
		p.lost++
	}
	return how
}
