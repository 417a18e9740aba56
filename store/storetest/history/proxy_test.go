//go:build unix

package history

import (
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// proxy is a bad network between clients and the store: it loses requests and
// replies, cuts connections, and is slow at times.
type proxy struct {
	addr   string
	target string // unix socket
	faults func() fault
	done   chan struct{}

	mu    sync.Mutex
	conns map[net.Conn]bool
	wg    sync.WaitGroup
}

// fault is what becomes of one message and its reply.
type fault struct {
	late      time.Duration // the request is under way for so long
	noRequest bool          // it never arrives
	noReply   bool          // it arrives, and nobody hears of it
	silent    bool          // whatever was lost: the connection stays, as if the network hung
}

// faults draws the fate of each message. Every now and then comes a spell in
// which hardly any gets through, so that the store's own retries fail too.
func faults(rng *rand.Rand) func() fault {
	var mu sync.Mutex
	spell := 0
	return func() (f fault) {
		mu.Lock()
		defer mu.Unlock()
		spell--
		if spell < -1500 {
			spell = 40
		}
		if rng.IntN(8) == 0 {
			f.late = time.Duration(rng.IntN(8_000)) * time.Microsecond
		}
		p := rng.IntN(1000)
		if spell > 0 {
			p /= 10
		}
		f.noRequest = p < 25
		f.noReply = p >= 25 && p < 75
		f.silent = rng.IntN(80) == 0
		return f
	}
}

// startProxy serves until the test ends.
func startProxy(t *testing.T, target string, f func() fault) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{addr: l.Addr().String(), target: target, faults: f, done: make(chan struct{}), conns: map[net.Conn]bool{}}
	p.wg.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			p.wg.Go(func() { p.serve(client) })
		}
	})
	t.Cleanup(func() {
		close(p.done)
		l.Close()
		p.mu.Lock()
		for c := range p.conns {
			c.Close()
		}
		p.mu.Unlock()
		p.wg.Wait()
	})
	return p
}

func (p *proxy) serve(client net.Conn) {
	server, err := net.Dial("unix", p.target)
	if err != nil {
		client.Close()
		return
	}
	for _, c := range []net.Conn{client, server} {
		p.mu.Lock()
		p.conns[c] = true
		p.mu.Unlock()
	}
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.conns, client)
		delete(p.conns, server)
	}()
	var lost atomic.Pointer[fault] // of the replies from now on
	var wg sync.WaitGroup
	wg.Go(func() {
		defer client.Close()
		p.replies(client, server, &lost)
	})
	p.requests(client, server, &lost)
	server.Close()
	wg.Wait()
}

// requests passes on what the client sends, until the client is gone or cut off.
func (p *proxy) requests(client, server net.Conn, lost *atomic.Pointer[fault]) {
	buf := make([]byte, 64<<10)
	for {
		n, err := client.Read(buf)
		if err != nil {
			return
		}
		f := p.faults()
		pause(p.done, f.late)
		switch {
		case f.noRequest && f.silent:
			_, _ = io.Copy(io.Discard, client)
			return
		case f.noRequest:
			return
		case f.noReply:
			lost.Store(&f)
		}
		if _, err := server.Write(buf[:n]); err != nil {
			return
		}
	}
}

// replies passes on what the store answers. A lost reply is cut in the middle or
// swallowed, always after the store has done what was asked: a request that is
// done after its caller was told no is no fault this network has.
func (p *proxy) replies(client, server net.Conn, lost *atomic.Pointer[fault]) {
	buf := make([]byte, 64<<10)
	for {
		n, err := server.Read(buf)
		if err != nil {
			return
		}
		switch f := lost.Load(); {
		case f != nil && f.silent:
			n = 0
		case f != nil:
			_, _ = client.Write(buf[:n/2])
			return
		}
		if _, err := client.Write(buf[:n]); err != nil {
			return
		}
	}
}

// pause lets a seeded time pass, or less if done comes first. It is the one
// place where this package waits for nothing but time: slow networks and
// clients that hesitate are what the histories are about.
func pause(done <-chan struct{}, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}
