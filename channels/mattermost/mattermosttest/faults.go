package mattermosttest

import (
	"encoding/json"
	"maps"
	"net/http"
	"strconv"
	"time"

	"github.com/approvalbot/approvalbot/channels/channeltest/double"
)

// Fault is something that goes wrong with one call. The zero Fault is none.
type Fault = double.Fault

// The faults that need to be told nothing.
var (
	// TooManyBare is a 429 as proxies make it, without any header.
	TooManyBare = Fault{Status: http.StatusTooManyRequests, Body: "limit exceeded\n", Header: http.Header{"Content-Type": {"text/plain; charset=utf-8"}}}
	// Pending is the answer when the same post is being created by another call.
	Pending = Refused(http.StatusInternalServerError, "api.post.deduplicate_create_post.pending")
	// Reset breaks the connection before anything is done.
	Reset = Fault{Break: true}
	// LostAnswer does what was asked and breaks the connection.
	LostAnswer = Fault{Lose: true}
)

// TooMany is a 429 as Mattermost makes it.
func TooMany(after time.Duration) Fault {
	f := TooManyBare
	seconds := strconv.Itoa(int((after + time.Second - 1) / time.Second))
	f.Header = maps.Clone(f.Header)
	f.Header.Set("Retry-After", seconds)
	f.Header.Set("X-Ratelimit-Limit", "101")
	f.Header.Set("X-Ratelimit-Remaining", "0")
	f.Header.Set("X-Ratelimit-Reset", seconds)
	return f
}

// HTMLPage is the page of a proxy or of a hotel's network.
func HTMLPage(status int) Fault {
	return Fault{
		Status: status, Header: http.Header{"Content-Type": {"text/html"}},
		Body: "<!doctype html><title>" + http.StatusText(status) + "</title>",
	}
}

// Refused is an error of Mattermost's own, such as 403 api.context.permissions.app_error.
func Refused(status int, id string) Fault {
	raw, _ := json.Marshal(refuse(status, id, "This was scripted."))
	return Fault{Status: status, Body: string(raw), Header: http.Header{"Content-Type": {"application/json"}}}
}

// Garbled answers 200 with this body, whatever it is.
func Garbled(body string) Fault {
	return Fault{Status: http.StatusOK, Body: body, Header: http.Header{"Content-Type": {"application/json"}}}
}

// Held does what was asked at once and answers when until is closed.
func Held(until <-chan struct{}) Fault { return Fault{Hold: until} }

// Stalled does what was asked only when until is closed. A post that is being
// created meanwhile makes others with its pending_post_id fail.
func Stalled(until <-chan struct{}) Fault { return Fault{Stall: until} }

// Fail scripts the n-th call of an operation since the start, counted from 1; n
// zero means every call that has nothing of its own.
func (s *Server) Fail(op string, n int, f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known(op)
	s.faults.Set(op, n, f)
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
