package mattermosttest

import (
	"encoding/json"
	"fmt"
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
	stall <-chan struct{} // it waits for this before it is done
}

// The faults that need to be told nothing.
var (
	// TooManyBare is a 429 as proxies make it, without any header.
	TooManyBare = Fault{status: http.StatusTooManyRequests, body: "limit exceeded\n", header: http.Header{"Content-Type": {"text/plain; charset=utf-8"}}}
	// Pending is the answer when the same post is being created by another call.
	Pending = Refused(http.StatusInternalServerError, "api.post.deduplicate_create_post.pending")
	// Reset breaks the connection before anything is done.
	Reset = Fault{reset: true}
	// LostAnswer does what was asked and breaks the connection.
	LostAnswer = Fault{lost: true}
)

// TooMany is a 429 as Mattermost makes it.
func TooMany(after time.Duration) Fault {
	f := TooManyBare
	seconds := strconv.Itoa(int((after + time.Second - 1) / time.Second))
	f.header = maps.Clone(f.header)
	f.header.Set("Retry-After", seconds)
	f.header.Set("X-Ratelimit-Limit", "101")
	f.header.Set("X-Ratelimit-Remaining", "0")
	f.header.Set("X-Ratelimit-Reset", seconds)
	return f
}

// HTMLPage is the page of a proxy or of a hotel's network.
func HTMLPage(status int) Fault {
	return Fault{
		status: status, header: http.Header{"Content-Type": {"text/html"}},
		body: "<!doctype html><title>" + http.StatusText(status) + "</title>",
	}
}

// Refused is an error of Mattermost's own, such as 403 api.context.permissions.app_error.
func Refused(status int, id string) Fault {
	raw, _ := json.Marshal(refuse(status, id, "This was scripted."))
	return Fault{status: status, body: string(raw), header: http.Header{"Content-Type": {"application/json"}}}
}

// Garbled answers 200 with this body, whatever it is.
func Garbled(body string) Fault {
	return Fault{status: http.StatusOK, body: body, header: http.Header{"Content-Type": {"application/json"}}}
}

// Held does what was asked at once and answers when until is closed.
func Held(until <-chan struct{}) Fault { return Fault{hold: until} }

// Stalled does what was asked only when until is closed. A post that is being
// created meanwhile makes others with its pending_post_id fail.
func Stalled(until <-chan struct{}) Fault { return Fault{stall: until} }

// Fail scripts the n-th call of an operation since the start, counted from 1; n
// zero means every call that has nothing of its own.
func (s *Server) Fail(op string, n int, f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known(op)
	if s.faults[op] == nil {
		s.faults[op] = map[int]Fault{}
	}
	s.faults[op][n] = f
}

// FailNext scripts the next calls of an operation.
func (s *Server) FailNext(op string, faults ...Fault) {
	n := len(s.Calls(op))
	for i, f := range faults {
		s.Fail(op, n+1+i, f)
	}
}

// known ends a test that scripts an operation which no call can be.
func (s *Server) known(op string) {
	for _, r := range s.table() {
		if r.op == op {
			return
		}
	}
	s.t.Errorf("mattermosttest: there is no operation %q", op)
}

func (s *Server) faultFor(op string, n int) Fault {
	if f, ok := s.faults[op][n]; ok {
		return f
	}
	return s.faults[op][0]
}

// instead answers in place of the operation and reports whether it did.
func (f Fault) instead(w http.ResponseWriter) bool {
	switch {
	case f.reset:
		cut(w)
	case f.status != 0:
		maps.Copy(w.Header(), f.header)
		w.WriteHeader(f.status)
		_, _ = fmt.Fprint(w, f.body)
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
	wait(f.hold, r, over)
	return false
}

// wait waits for until, if there is one, as long as somebody listens.
func wait(until <-chan struct{}, r *http.Request, over <-chan struct{}) {
	if until == nil {
		return
	}
	select {
	case <-until:
	case <-r.Context().Done():
	case <-over:
	}
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
