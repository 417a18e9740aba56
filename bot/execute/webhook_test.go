package execute_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/approvalbot/approvalbot/bot/execute"
	"github.com/approvalbot/approvalbot/bot/webhook"
	"github.com/approvalbot/approvalbot/gate"
)

func TestWhatAReceiverIsTold(t *testing.T) {
	t.Parallel()
	r := receive(t, func(w http.ResponseWriter, _ *http.Request, _ int) { _, _ = io.WriteString(w, "deleted 1 file") })
	j := job(t)
	wants(t, run(soon(t), t, hook(t, r.URL), j), gate.Executed, "deleted 1 file")

	heads, bodies := r.got()
	key, err := webhook.ParseKey(secret)
	if err != nil {
		t.Fatal(err)
	}
	if err := webhook.Verify(heads[0], time.Now(), bodies[0], key); err != nil {
		t.Error(err)
	}
	if got := heads[0].Get("Idempotency-Key") + " " + heads[0].Get("Webhook-Id"); got != string(j.ID)+" "+j.Attempt {
		t.Errorf("the keys are %s", got)
	}
	if !strings.Contains(string(bodies[0]), `"args":`+args+`}`) {
		t.Errorf("the arguments are not as they came: %s", bodies[0])
	}
	var got map[string]any
	if err := json.Unmarshal(bodies[0], &got); err != nil {
		t.Fatal(err)
	}
	if _, err := time.Parse(time.RFC3339, fmt.Sprint(got["timestamp"])); err != nil {
		t.Error(err)
	}
	delete(got, "timestamp")
	var parsed any
	_ = json.Unmarshal([]byte(args), &parsed)
	want := map[string]any{"type": "call.execute", "data": map[string]any{
		"approval_id": string(j.ID), "attempt_id": j.Attempt, "server": "files", "tool": "delete_file", "target": "prod",
		"args": parsed, "args_b64": b64(args), "digest": j.Digest.String(), "rule": "prod", "approved_by": "Ben",
		"requester": map[string]any{"agent": "deployer", "run": "r1", "session": "s1", "person": "ann"},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// in answers the n-th request with the n-th of these, and the last from then on.
func in(answers ...func(http.ResponseWriter)) func(http.ResponseWriter, *http.Request, int) {
	return func(w http.ResponseWriter, _ *http.Request, n int) { answers[min(n, len(answers))-1](w) }
}

func says(code int, body string, head ...string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		for i := 0; i < len(head); i += 2 {
			w.Header().Set(head[i], head[i+1])
		}
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
	}
}

func breaks(raw string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) { cut(w, raw) }
}

const half = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"

func TestWhatAnAnswerMeans(t *testing.T) {
	t.Parallel()
	ok := says(200, "done")
	for name, tt := range map[string]struct {
		answers []func(http.ResponseWriter)
		retry   bool
		outcome gate.State
		text    string
		sent    int
	}{
		"200":                       {[]func(http.ResponseWriter){ok}, false, gate.Executed, "done", 1},
		"200, safe to send again":   {[]func(http.ResponseWriter){ok}, true, gate.Executed, "done", 1},
		"202":                       {[]func(http.ResponseWriter){says(202, "")}, false, gate.Executed, "", 1},
		"204":                       {[]func(http.ResponseWriter){says(204, "")}, false, gate.Executed, "", 1},
		"200 with an error":         {[]func(http.ResponseWriter){says(200, `{"error":{"code":7}}`)}, true, gate.Failed, `"code":7`, 1},
		"200 with an error of null": {[]func(http.ResponseWriter){says(200, `{"error":null}`)}, false, gate.Executed, "", 1},
		"200 that is an error":      {[]func(http.ResponseWriter){says(200, `{"isError":true}`)}, false, gate.Failed, "", 1},
		"200 and garbage":           {[]func(http.ResponseWriter){says(200, "{\xff\x00 not JSON")}, false, gate.Executed, "not JSON", 1},
		"200 and three megabytes":   {[]func(http.ResponseWriter){says(200, strings.Repeat("é", 1_500_000))}, false, gate.Executed, " […]", 1},
		"500 and three megabytes":   {[]func(http.ResponseWriter){says(500, strings.Repeat("é", 1_500_000))}, false, gate.Failed, "answered 500", 1},
		"302":                       {[]func(http.ResponseWriter){says(302, "", "Location", "/elsewhere")}, true, gate.Failed, "answered 302 Found; redirects are not followed", 1},
		"304":                       {[]func(http.ResponseWriter){says(304, "")}, false, gate.Failed, "answered 304", 1},
		"400":                       {[]func(http.ResponseWriter){says(400, "no such file\n")}, true, gate.Failed, "answered 400 Bad Request: no such file", 1},
		"410 and no body":           {[]func(http.ResponseWriter){says(410, "")}, false, gate.Failed, "answered 410 Gone", 1},
		"409":                       {[]func(http.ResponseWriter){says(409, "known")}, true, gate.Failed, "answered 409 Conflict: known", 1},
		"500":                       {[]func(http.ResponseWriter){says(500, "oops")}, false, gate.Failed, "answered 500 Internal Server Error: oops", 1},
		"429":                       {[]func(http.ResponseWriter){says(429, "slow", "Retry-After", "0")}, false, gate.Failed, "answered 429", 1},
		"503 with Retry-After":      {[]func(http.ResponseWriter){says(503, "busy", "Retry-After", "0")}, false, gate.Failed, "answered 503 Service Unavailable: busy", 1},
		"503 without":               {[]func(http.ResponseWriter){says(503, "upstream reset")}, false, "", "answered 503", 1},
		"502":                       {[]func(http.ResponseWriter){says(502, "")}, false, "", "answered 502", 1},
		"504":                       {[]func(http.ResponseWriter){says(504, "")}, false, "", "answered 504", 1},
		"524":                       {[]func(http.ResponseWriter){says(524, "")}, false, "", "answered 524", 1},
		"101":                       {[]func(http.ResponseWriter){breaks("HTTP/1.1 101 Switching Protocols\r\n\r\n")}, false, "", "answered 101", 1},
		"no answer":                 {[]func(http.ResponseWriter){breaks("")}, false, "", "no answer", 1},
		"no HTTP":                   {[]func(http.ResponseWriter){breaks("HTTP? no\r\n")}, false, "", "no answer", 1},
		"half an answer":            {[]func(http.ResponseWriter){breaks(half)}, false, "", "answered 200, and broke off", 1},

		"500, then 200, safe":              {[]func(http.ResponseWriter){says(500, ""), ok}, true, gate.Executed, "done", 2},
		"502, then 200, safe":              {[]func(http.ResponseWriter){says(502, ""), ok}, true, gate.Executed, "done", 2},
		"503 twice, then 200, safe":        {[]func(http.ResponseWriter){says(503, "", "Retry-After", "0"), says(503, ""), ok}, true, gate.Executed, "done", 3},
		"429, then 400, safe":              {[]func(http.ResponseWriter){says(429, ""), says(400, "bad")}, true, gate.Failed, "answered 400", 2},
		"500, then 400, safe":              {[]func(http.ResponseWriter){says(500, ""), says(400, "bad")}, true, gate.Failed, "answered 400", 2},
		"no answer, then 200, safe":        {[]func(http.ResponseWriter){breaks(""), ok}, true, gate.Executed, "done", 2},
		"half an answer, then 200, safe":   {[]func(http.ResponseWriter){breaks(half), ok}, true, gate.Executed, "done", 2},
		"no answer, then an error, safe":   {[]func(http.ResponseWriter){breaks(""), says(200, `{"error":"no"}`)}, true, gate.Failed, "no", 2},
		"no answer, then 404: who knows":   {[]func(http.ResponseWriter){breaks(""), says(404, "")}, true, "", "an earlier sending had no answer; the last: answered 404", 2},
		"502, then 401: who knows":         {[]func(http.ResponseWriter){says(502, ""), says(401, "")}, true, "", "the last: answered 401", 2},
		"no answer, then 409: still at it": {[]func(http.ResponseWriter){breaks(""), says(409, ""), says(409, ""), ok}, true, gate.Executed, "done", 4},
		"503 that asks for too much time":  {[]func(http.ResponseWriter){says(503, "", "Retry-After", "3600")}, true, gate.Failed, "answered 503", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := receive(t, in(tt.answers...))
			j := job(t)
			j.Retry = tt.retry
			wants(t, run(soon(t), t, hook(t, r.URL), j), tt.outcome, tt.text)
			heads, bodies := r.got()
			if len(heads) != tt.sent {
				t.Errorf("sent %d times, want %d", len(heads), tt.sent)
			}
			for i := range heads {
				same := heads[i].Get("Webhook-Id") == j.Attempt && heads[i].Get("Idempotency-Key") == string(j.ID) && string(bodies[i]) == string(bodies[0])
				if !same {
					t.Errorf("sending %d is another message", i+1)
				}
			}
		})
	}
}

// A connection that breaks under a request, be it new or kept from before, must not
// bring the request a second time.
func TestAReceiverThatHangsUpSeesOneRequest(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]int{"on a new connection": 0, "on one that was kept": 3} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := receive(t, func(w http.ResponseWriter, _ *http.Request, n int) {
				if n > before {
					cut(w, "")
				}
			})
			w := hook(t, r.URL)
			for range before {
				wants(t, run(soon(t), t, w, job(t)), gate.Executed, "")
			}
			wants(t, run(soon(t), t, w, job(t)), "", "it may have taken effect: no answer")
			if heads, _ := r.got(); len(heads) != before+1 {
				t.Errorf("%d requests, want %d", len(heads), before+1)
			}
		})
	}
}

// Between Prepare and Run the receiver hangs up: nothing was sent, so that it is sent.
func TestWhatWasNotSentIsSentAlsoIfItIsNotSafe(t *testing.T) {
	t.Parallel()
	r := receive(t, in(says(200, "done")), func(s *httptest.Server) { s.Listener = &hangsUpOnce{Listener: s.Listener} })
	d, err := hook(t, r.URL).Prepare(soon(t), job(t))
	if err != nil {
		t.Fatal(err)
	}
	awaitClosed(t, d)
	wants(t, d.Run(soon(t)), gate.Executed, "done")
	if heads, _ := r.got(); len(heads) != 1 {
		t.Errorf("%d requests", len(heads))
	}
}

// hangsUpOnce closes the first connection.
type hangsUpOnce struct {
	net.Listener
	once sync.Once
}

func (l *hangsUpOnce) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	l.once.Do(func() {
		if err == nil {
			_ = c.Close()
			c, err = l.Listener.Accept()
		}
	})
	return c, err
}

func awaitClosed(t *testing.T, d execute.Dispatch) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !execute.Closed(d); runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatal("it is not closed")
		}
	}
}

func TestAReceiverThatIsGone(t *testing.T) {
	t.Parallel()
	if _, err := hook(t, nobody(t)).Prepare(soon(t), job(t)); gate.KindOf(err) != gate.Unavailable {
		t.Errorf("before: %v", err)
	}
	for _, retry := range []bool{false, true} {
		r := receive(t, in(says(200, "done")))
		w, j := hook(t, r.URL), job(t)
		j.Retry = retry
		d, err := w.Prepare(soon(t), j)
		if err != nil {
			t.Fatal(err)
		}
		r.Close()
		awaitClosed(t, d)
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		wants(t, d.Run(ctx), gate.Failed, "not sent")
	}
}

func TestTimeIsUp(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		retry   bool
		timeout string // of one request
		all     time.Duration
		stop    bool // once the request has arrived
		text    string
	}{
		"of one request": {false, "50ms", time.Minute, false, "it may have taken effect: no answer: it took too long"},
		"of all":         {true, "1m", time.Second, false, "it may have taken effect: no answer: the time was up"},
		"of the server":  {true, "1m", time.Minute, true, "it may have taken effect: no answer: this server was stopped"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), tt.all)
			defer cancel()
			over := make(chan struct{})
			r := receive(t, func(http.ResponseWriter, *http.Request, int) {
				if tt.stop {
					cancel()
				}
				<-over
			})
			t.Cleanup(func() { close(over) })
			j := job(t)
			j.Retry = tt.retry
			d, err := hook(t, r.URL, func(c *webhook.Config) { c.Timeout = tt.timeout }).Prepare(soon(t), j)
			if err != nil {
				t.Fatal(err)
			}
			wants(t, d.Run(ctx), "", tt.text)
		})
	}
}

// A connection that was prepared and not used serves the next call.
func TestADroppedWebhookSendsNothing(t *testing.T) {
	t.Parallel()
	r := receive(t, in(says(200, "done")))
	w := hook(t, r.URL)
	d, err := w.Prepare(soon(t), job(t))
	if err != nil {
		t.Fatal(err)
	}
	d.Drop()
	if heads, _ := r.got(); len(heads) != 0 {
		t.Error("something was sent")
	}
	wants(t, run(soon(t), t, w, job(t)), gate.Executed, "done")
}

func TestSaysError(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]bool{
		`{"error":"no such file"}`:            true,
		` {"a":[{"b":1}],"error":{"code":1}}`: true,
		`{"isError":true}`:                    true,
		`{"error":{}}`:                        true,
		`{"error":null,"error":"two"}`:        true,
		`{"error":"cut`:                       false,
		`{"error":"no","rest":"cut`:           true,
		`{"error":null}`:                      false,
		`{"error":false}`:                     false,
		`{"error":""}`:                        false,
		`{"error":0}`:                         false,
		`{"isError":false}`:                   false,
		`{"isError":"true"}`:                  false,
		`{"data":{"error":"inside"}}`:         false,
		`{"errors":0}`:                        false,
		`[{"error":"in a list"}]`:             false,
		`"error"`:                             false,
		`error`:                               false,
		``:                                    false,
		`{`:                                   false,
		`{"error"`:                            false,
	} {
		if got := execute.SaysError([]byte(answer)); got != want {
			t.Errorf("%s: %v", answer, got)
		}
	}
}
