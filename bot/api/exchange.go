package api

import (
	"context"
	"encoding/json"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/approvalbot/approvalbot/bot"
	"github.com/approvalbot/approvalbot/gate"
)

// exchange is one request and its answer. A handler that has to wait does not do
// so under the router, the OpenAPI layer and the JSON it has read, which would
// weigh some 40 KiB for each caller that is held: it says what is left to do,
// and returns, and that is done from here.
type exchange struct {
	http.ResponseWriter
	begun bool                                        // something was written
	later func(ctx context.Context) (answerer, error) // waits, and then has the answer
}

// answerer is an answer that can be written without the OpenAPI layer.
type answerer interface{ write(w http.ResponseWriter) }

// caller is who sent a request.
type caller struct {
	*bot.Key
	exchange *exchange
}

// ServeHTTP implements http.Handler. A panic becomes a problem and not an open
// gate.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := &exchange{ResponseWriter: w}
	defer func() {
		if v := recover(); v != nil {
			a.panicked(x, r, v)
		}
	}()
	a.router.ServeHTTP(x, r)
	if x.later != nil {
		a.finish(x, r)
	}
}

func (a *API) panicked(x *exchange, r *http.Request, v any) {
	if v == http.ErrAbortHandler { //nolint:errorlint // the sentinel itself, as net/http compares it
		panic(v)
	}
	a.Out.ErrorContext(r.Context(), "panic", "method", r.Method, "panic", v, "stack", string(debug.Stack()))
	if x.begun { // half an answer is none: drop the connection
		panic(http.ErrAbortHandler)
	}
	x.later = nil
	newProblem(http.StatusInternalServerError, "").write(x)
}

// finish waits and writes the answer.
func (a *API) finish(x *exchange, r *http.Request) {
	out, err := x.later(r.Context())
	x.later = nil
	if err != nil {
		a.fail(r.Context(), "wait", err).write(x)
		return
	}
	out.write(x)
}

// hold has the answer of a request come later, when done has it. It reports
// whether there is room to wait.
func (a *API) hold(c *caller, done func(context.Context) (answerer, error)) bool {
	if a.parked.Load() >= int64(a.MaxParked) {
		return false
	}
	c.exchange.later = done
	return true
}

// await waits while an approval is the same to the caller, for d at most, and
// until this replica drains. There is no context for this: each of those that
// wait would have one more.
func (a *API) await(ctx context.Context, c *caller, id gate.ID, d time.Duration, same func(*gate.Snapshot) bool) (*gate.View, error) {
	a.parked.Add(1)
	defer a.parked.Add(-1)
	return a.Gate.AwaitWhile(ctx, d, c.Principal, id, func(s *gate.Snapshot) bool { return !a.draining() && same(s) })
}

// WriteHeader implements http.ResponseWriter. What the layers above say of an
// answer that comes later is not it.
func (x *exchange) WriteHeader(status int) {
	if x.later != nil {
		return
	}
	x.begun = true
	x.Header().Set("Cache-Control", "no-store") // tokens are among the answers
	x.Header().Set("X-Content-Type-Options", "nosniff")
	x.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (x *exchange) Write(b []byte) (int, error) {
	if x.later != nil {
		return len(b), nil
	}
	if !x.begun {
		x.WriteHeader(http.StatusOK)
	}
	return x.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (x *exchange) Unwrap() http.ResponseWriter { return x.ResponseWriter }

// waited is an answer that may have been waited for.
type waited[T any] struct {
	RetryAfter string `header:"Retry-After" doc:"This replica holds no more callers: ask again after so many seconds."`
	ETag       string `header:"ETag" doc:"Names this version; with If-None-Match it is waited for the next one."`
	Body       T
}

func (o *waited[T]) write(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("ETag", o.ETag)
	w.WriteHeader(http.StatusOK)
	_ = json.NewEncoder(w).Encode(o.Body) // the caller left; nobody to tell
}

// retrySoon is told to those for whom there is no room to wait, in seconds.
const retrySoon = "2"

// parseWait reads how long a caller wants to be held.
func parseWait(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, &gate.Error{Kind: gate.Invalid, Op: "api", Public: "wait: want a time such as 25s, at most 60s"}
	}
	return min(d, maxWait), nil
}
