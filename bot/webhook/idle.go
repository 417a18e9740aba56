package webhook

import (
	"cmp"
	"net/http"
	"slices"
	"sync"
	"time"
)

// How long and how many connections are kept between requests. It is less than any
// receiver keeps them: one that hangs up just while a request is sent leaves nobody
// sure whether the request arrived.
const (
	maxIdleFor = time.Second
	maxIdle    = 16
)

// idle keeps connections for a moment. Each serves one request at a time, so that
// it is plain which one broke. The zero value keeps none yet.
type idle struct {
	mu    sync.Mutex
	conns []kept        // the oldest first
	keep  time.Duration // zero: maxIdleFor
}

type kept struct {
	conn   *http.ClientConn
	hangUp *time.Timer
}

// take returns the connection that was used last and lives, or nil.
func (p *idle) take() *http.ClientConn {
	for {
		k, ok := p.pop()
		if !ok {
			return nil
		}
		if k.hangUp.Stop() && k.conn.Err() == nil {
			return k.conn
		}
		_ = k.conn.Close()
	}
}

func (p *idle) pop() (k kept, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	last := len(p.conns) - 1
	if last < 0 {
		return kept{}, false
	}
	k, p.conns = p.conns[last], p.conns[:last]
	return k, true
}

// put keeps a connection, or closes it if there are enough.
func (p *idle) put(c *http.ClientConn) {
	if !p.push(c) {
		_ = c.Close()
	}
}

func (p *idle) push(c *http.ClientConn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.conns) >= maxIdle {
		return false
	}
	p.conns = append(p.conns, kept{c, time.AfterFunc(cmp.Or(p.keep, maxIdleFor), func() { p.drop(c) })})
	return true
}

// drop closes a connection that nobody has taken in time.
func (p *idle) drop(c *http.ClientConn) {
	p.mu.Lock()
	p.conns = slices.DeleteFunc(p.conns, func(k kept) bool { return k.conn == c })
	p.mu.Unlock()
	_ = c.Close() // which may wait for the network
}
