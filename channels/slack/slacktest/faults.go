package slacktest

import (
	"maps"
	"net"
	"net/http"
	"strconv"
	"time"
)

// Fault is something that goes wrong with one call. The zero Fault is none.
type Fault struct {
	status int // answered instead of doing anything
	header http.Header
	body   string

	reset bool            // the connection breaks before anything is done
	lost  bool            // it is done, and the connection breaks
	hold  <-chan struct{} // it is done, and the answer waits for this
}

// The faults that need to be told nothing.
var (
	// RateLimitedBare is a 429 without Retry-After.
	RateLimitedBare = Fault{status: http.StatusTooManyRequests, body: `{"ok":false,"error":"ratelimited"}`}
	// NoReason is a refusal without an error, which clients take for success.
	NoReason = Fault{status: http.StatusOK, body: `{"ok":false}`}
	// ServerError is a 500 with a page for people.
	ServerError = Fault{
		status: http.StatusInternalServerError, body: "<!doctype html><title>Server Error</title>",
		header: http.Header{"Content-Type": {"text/html"}},
	}
	// Reset breaks the connection before anything is done.
	Reset = Fault{reset: true}
	// LostAnswer does what was asked and breaks the connection.
	LostAnswer = Fault{lost: true}
)

// RateLimited is a 429 with Retry-After.
func RateLimited(after time.Duration) Fault {
	f := RateLimitedBare
	f.header = http.Header{"Retry-After": {strconv.Itoa(int(after / time.Second))}}
	return f
}

// Refused answers 200 with an error, such as "ratelimited" or "fatal_error".
func Refused(code string) Fault {
	return Fault{status: http.StatusOK, body: `{"ok":false,"error":` + strconv.Quote(code) + `}`}
}

// Page answers 200 with a page for people, as the proxies of hotels do.
func Page(html string) Fault {
	return Fault{status: http.StatusOK, body: html, header: http.Header{"Content-Type": {"text/html"}}}
}

// Held does what was asked at once and answers when until is closed.
func Held(until <-chan struct{}) Fault { return Fault{hold: until} }

// Fail scripts the n-th call of a method since the start, counted from 1; n zero
// means every call that has nothing of its own. The method of response URLs is
// called "response_url".
func (s *Slack) Fail(method string, n int, f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.faults[method] == nil {
		s.faults[method] = map[int]Fault{}
	}
	s.faults[method][n] = f
}

// FailNext scripts the next calls of a method.
func (s *Slack) FailNext(method string, faults ...Fault) {
	n := len(s.Calls(method))
	for i, f := range faults {
		s.Fail(method, n+1+i, f)
	}
}

func (s *Slack) faultFor(method string, n int) Fault {
	if f, ok := s.faults[method][n]; ok {
		return f
	}
	return s.faults[method][0]
}

// instead answers in place of the method and reports whether it did.
func (f Fault) instead(w http.ResponseWriter) bool {
	switch {
	case f.reset:
		cut(w)
	case f.status != 0:
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		maps.Copy(w.Header(), f.header)
		w.WriteHeader(f.status)
		_, _ = w.Write([]byte(f.body))
	default:
		return false
	}
	return true
}

// afterwards reports whether nobody is to be answered any more.
func (f Fault) afterwards(w http.ResponseWriter, r *http.Request, over <-chan struct{}) bool {
	if f.lost {
		cut(w)
		return true
	}
	if f.hold == nil {
		return false
	}
	select {
	case <-f.hold:
	case <-r.Context().Done():
	case <-over:
	}
	return false
}

// cut breaks a connection as a network does: with a reset and not an end.
func cut(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}
