package console

import (
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// maxKept bounds what is remembered of strangers and of ended sessions.
const maxKept = 4096

// limiter bears ten failed logins at once from one address, then one every six
// seconds. Keys have 256 random bits, so this is against noise.
type limiter struct {
	mu   sync.Mutex
	from map[netip.Prefix]*rate.Limiter
}

func newLimiter() *limiter { return &limiter{from: map[netip.Prefix]*rate.Limiter{}} }

const (
	failures = 10
	every    = 6 * time.Second
)

// bears reports whether another attempt from there may be looked at.
func (l *limiter) bears(remote string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	bucket := l.from[network(remote)]
	return bucket == nil || bucket.Tokens() >= 1
}

// failed counts an attempt that failed.
func (l *limiter) failed(remote string) {
	from := network(remote)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.from[from] == nil {
		if len(l.from) >= maxKept {
			l.forget()
		}
		l.from[from] = rate.NewLimiter(rate.Every(every), failures)
	}
	l.from[from].Allow()
}

// forget makes room: it drops those who have been quiet, or everybody if all are
// noisy.
func (l *limiter) forget() {
	for from, bucket := range l.from {
		if bucket.Tokens() >= failures {
			delete(l.from, from)
		}
	}
	if len(l.from) >= maxKept {
		clear(l.from)
	}
}

// network is whom an address belongs to: itself, or in IPv6 its /64.
func network(remote string) netip.Prefix {
	at, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.Prefix{}
	}
	addr, bits := at.Addr().Unmap().WithZone(""), 32
	if addr.Is6() {
		bits = 64
	}
	p, _ := addr.Prefix(bits)
	return p
}

// ended remembers the sessions that were logged out on this replica, until they
// would have ended by themselves. The browser has lost the cookie anyway.
type ended struct {
	mu    sync.Mutex
	until map[string]time.Time
}

func newEnded() *ended { return &ended{until: map[string]time.Time{}} }

func (e *ended) add(id string, until time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.until) >= maxKept {
		e.forget()
	}
	e.until[id] = until
}

// forget drops what is over, or the one that is over first.
func (e *ended) forget() {
	var first string
	now := time.Now()
	for id, until := range e.until {
		if !now.Before(until) {
			delete(e.until, id)
		} else if first == "" || until.Before(e.until[first]) {
			first = id
		}
	}
	if len(e.until) >= maxKept {
		delete(e.until, first)
	}
}

func (e *ended) has(id string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	_, ok := e.until[id]
	return ok
}
