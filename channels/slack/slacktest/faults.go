package slacktest

import (
	"net/http"
	"strconv"
	"time"

	"github.com/approvalbot/approvalbot/channels/channeltest/double"
)

// Fault is something that goes wrong with one call. The zero Fault is none.
type Fault = double.Fault

// The faults that need to be told nothing.
var (
	// RateLimitedBare is a 429 without Retry-After.
	RateLimitedBare = Fault{Status: http.StatusTooManyRequests, Body: `{"ok":false,"error":"ratelimited"}`}
	// NoReason is a refusal without an error, which clients take for success.
	NoReason = Fault{Status: http.StatusOK, Body: `{"ok":false}`}
	// ServerError is a 500 with a page for people.
	ServerError = Fault{
		Status: http.StatusInternalServerError, Body: "<!doctype html><title>Server Error</title>",
		Header: http.Header{"Content-Type": {"text/html"}},
	}
	// Reset breaks the connection before anything is done.
	Reset = Fault{Break: true}
	// LostAnswer does what was asked and breaks the connection.
	LostAnswer = Fault{Lose: true}
)

// RateLimited is a 429 with Retry-After.
func RateLimited(after time.Duration) Fault {
	f := RateLimitedBare
	f.Header = http.Header{"Retry-After": {strconv.Itoa(int(after / time.Second))}}
	return f
}

// Refused answers 200 with an error, such as "ratelimited" or "fatal_error".
func Refused(code string) Fault {
	return Fault{Status: http.StatusOK, Body: `{"ok":false,"error":` + strconv.Quote(code) + `}`}
}

// Page answers 200 with a page for people, as the proxies of hotels do.
func Page(html string) Fault {
	return Fault{Status: http.StatusOK, Body: html, Header: http.Header{"Content-Type": {"text/html"}}}
}

// Held does what was asked at once and answers when until is closed.
func Held(until <-chan struct{}) Fault { return Fault{Hold: until} }

// Fail scripts the n-th call of a method since the start, counted from 1; n zero
// means every call that has nothing of its own. The method of response URLs is
// called "response_url".
func (s *Slack) Fail(method string, n int, f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults.Set(method, n, f)
}

// FailNext scripts the next calls of a method.
func (s *Slack) FailNext(method string, faults ...Fault) {
	n := len(s.Calls(method))
	for i, f := range faults {
		s.Fail(method, n+1+i, f)
	}
}
