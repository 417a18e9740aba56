package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/approvalbot/approvalbot/bot/client"
	"github.com/approvalbot/approvalbot/bot/wire"
	"github.com/approvalbot/approvalbot/gate"
	"github.com/approvalbot/approvalbot/gate/secret"
)

var key = secret.New("ab_test")

func newClient(t *testing.T, url string, more ...string) *client.Client {
	t.Helper()
	c, err := client.New(url, key, client.Replicas(more...))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// script answers requests one after the other, and keeps what it was asked.
type script struct {
	mu      sync.Mutex
	answers []func(w http.ResponseWriter)
	asked   []string
	bodies  []string
}

func (s *script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	s.asked = append(s.asked, r.Method+" "+r.URL.RequestURI())
	s.bodies = append(s.bodies, string(body))
	answer := s.answers[min(len(s.asked), len(s.answers))-1]
	s.mu.Unlock()
	answer(w)
}

// sent returns what was asked so far, and with which bodies.
func (s *script) sent() (asked, bodies []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked), slices.Clone(s.bodies)
}

func serve(t *testing.T, answers ...func(http.ResponseWriter)) (*script, string) {
	t.Helper()
	s := &script{answers: answers}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return s, server.URL
}

func says(status int, kind, body string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func ok(body string) func(http.ResponseWriter) { return says(200, "application/json", body) }

func problem(status int, body string) func(http.ResponseWriter) {
	return says(status, "application/problem+json", body)
}

func dropped(http.ResponseWriter) { panic(http.ErrAbortHandler) }

const (
	allowed  = `{"verdict":"allow","next":"run"}`
	waiting  = `{"verdict":"ask","next":"wait","approval":{"id":"apr_1","state":"pending"}}`
	approved = `{"verdict":"ask","next":"consume","id":"apr_1","state":"approved","token":"tok"}`
)

func TestNothingButAllowRunsACall(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		answers []func(http.ResponseWriter)
		runs    int
	}{
		"allow":                                {[]func(http.ResponseWriter){ok(allowed)}, 1},
		"approved, consumed":                   {[]func(http.ResponseWriter){ok(waiting), ok(approved), ok(allowed), ok(`{}`)}, 1},
		"block":                                {[]func(http.ResponseWriter){ok(`{"verdict":"block"}`)}, 0},
		"an empty object":                      {[]func(http.ResponseWriter){ok(`{}`)}, 0},
		"a page":                               {[]func(http.ResponseWriter){says(200, "text/html", `{"verdict":"allow"}`)}, 0},
		"half an answer":                       {[]func(http.ResponseWriter){ok(`{"verdict":"allow"`)}, 0},
		"a problem that says allow":            {[]func(http.ResponseWriter){problem(403, allowed)}, 0},
		"allow with an error's status":         {[]func(http.ResponseWriter){says(500, "application/json", allowed)}, 0},
		"a redirect":                           {[]func(http.ResponseWriter){says(302, "application/json", allowed)}, 0},
		"approved, and the consume is refused": {[]func(http.ResponseWriter){ok(waiting), ok(approved), problem(409, `{"verdict":"block","code":"spent"}`)}, 0},
		"approved, and the consume asks":       {[]func(http.ResponseWriter){ok(waiting), ok(approved), ok(waiting)}, 0},
		"approved without a token":             {[]func(http.ResponseWriter){ok(waiting), ok(`{"verdict":"ask","next":"consume","id":"apr_1","state":"approved"}`)}, 0},
		"denied while waiting":                 {[]func(http.ResponseWriter){ok(waiting), ok(`{"verdict":"block","next":"stop","id":"apr_1","state":"denied"}`)}, 0},
		"deferred while waiting":               {[]func(http.ResponseWriter){ok(waiting), ok(`{"verdict":"ask","next":"stop","id":"apr_1","state":"pending"}`)}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, url := serve(t, tt.answers...)
			runs := 0
			err := newClient(t, url).Do(t.Context(), wire.CheckRequest{}, func(context.Context) error { runs++; return nil })
			if runs != tt.runs || (err == nil) != (tt.runs > 0) {
				t.Errorf("ran %d times, %v; want %d", runs, err, tt.runs)
			}
		})
	}
}

func TestWhatRanIsReported(t *testing.T) {
	t.Parallel()
	broken := errors.New("exit status 3")
	for name, tt := range map[string]struct {
		run     func(context.Context) error
		outcome wire.OutcomeRequest
	}{
		"done":     {func(context.Context) error { return nil }, wire.OutcomeRequest{Outcome: "executed"}},
		"failed":   {func(context.Context) error { return broken }, wire.OutcomeRequest{Outcome: "failed", Note: "exit status 3"}},
		"panicked": {func(context.Context) error { panic("boom") }, wire.OutcomeRequest{Outcome: "failed", Note: "the caller panicked"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, url := serve(t, ok(waiting), ok(approved), ok(allowed), ok(`{}`))
			c := newClient(t, url)
			func() {
				defer func() { _ = recover() }()
				_ = c.Do(t.Context(), wire.CheckRequest{}, tt.run)
			}()
			_, bodies := s.sent()
			var spent wire.ConsumeRequest
			var got wire.OutcomeRequest
			if err := errors.Join(json.Unmarshal([]byte(bodies[2]), &spent), json.Unmarshal([]byte(bodies[3]), &got)); err != nil {
				t.Fatal(err)
			}
			tt.outcome.Token, tt.outcome.AttemptID = "tok", spent.AttemptID
			if got != tt.outcome || len(spent.AttemptID) != 32 {
				t.Errorf("reported %+v; want %+v", got, tt.outcome)
			}
		})
	}
}

func TestALostAnswerIsAskedForAgainAndNothingHappensTwice(t *testing.T) {
	t.Parallel()
	s, url := serve(t, dropped, ok(waiting), dropped, ok(approved), dropped, problem(503, `{}`), ok(allowed), dropped, ok(`{}`))
	runs := 0
	if err := newClient(t, url).Do(t.Context(), wire.CheckRequest{}, func(context.Context) error { runs++; return nil }); err != nil || runs != 1 {
		t.Fatalf("ran %d times, %v; want once", runs, err)
	}
	asked, bodies := s.sent()
	for _, pair := range [][2]int{{0, 1}, {4, 5}, {5, 6}, {7, 8}} {
		if a, b := bodies[pair[0]], bodies[pair[1]]; a != b {
			t.Errorf("%s: sent %s, and again as %s; want the same key and attempt", asked[pair[0]], a, b)
		}
	}
}

func TestWhatMustNotBeSentTwiceIsNot(t *testing.T) {
	t.Parallel()
	s, url := serve(t, dropped)
	_, err := newClient(t, url).Cancel(t.Context(), "apr_1", "x")
	if asked, _ := s.sent(); err == nil || len(asked) != 1 {
		t.Errorf("asked %v, %v; want one try and an error", asked, err)
	}
}

func TestAnotherReplicaIsAskedWhenOneIsGone(t *testing.T) {
	t.Parallel()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	s, url := serve(t, ok(`{"id":"apr_1","state":"cancelled"}`))
	a, err := newClient(t, gone.URL, url).Cancel(t.Context(), "apr_1", "x") // safe: it was not sent
	if asked, _ := s.sent(); err != nil || a.State != "cancelled" || len(asked) != 1 {
		t.Errorf("%+v, %v, asked %v; want the answer of the other", a, err, asked)
	}
}

func TestWaitEndsWithItsContextAndNotWithAnOutage(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, url := serve(t, problem(503, `{"code":"store_unavailable"}`))
	if _, err := newClient(t, url).Wait(ctx, "apr_1"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Wait: %v; want the error of the context", err)
	}
	_, url = serve(t, problem(404, `{"code":"not_found"}`))
	if _, err := newClient(t, url).Wait(t.Context(), "apr_1"); !errors.Is(err, gate.NotFound) {
		t.Errorf("Wait for nothing: %v; want not found at once", err)
	}
}

func TestArgumentsLeaveAsTheyCame(t *testing.T) {
	t.Parallel()
	s, url := serve(t, ok(allowed))
	const raw = `{ "a" : "<\u0041>" }`
	if _, err := newClient(t, url).Check(t.Context(), wire.CheckRequest{Call: wire.Call{Tool: "x", Args: json.RawMessage(raw)}}, 0); err != nil {
		t.Fatal(err)
	}
	_, bodies := s.sent()
	var sent wire.CheckRequest
	if err := json.Unmarshal([]byte(bodies[0]), &sent); err != nil || string(sent.Call.ArgsB64) != raw || sent.IdempotencyKey == "" {
		t.Errorf("sent %s; want the bytes of %s, and a key", bodies[0], raw)
	}
}

func TestNewWantsAnAddressAndAKey(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		url string
		key secret.String
	}{
		"no scheme":      {"approvals.example.com", key},
		"another scheme": {"ftp://approvals.example.com", key},
		"no key":         {"https://approvals.example.com", secret.String{}},
	} {
		if _, err := client.New(tt.url, tt.key); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	a, b := client.NewAttempt(), client.NewAttempt()
	if a == b || len(a) != 32 || slices.Contains([]string{a, b}, "") {
		t.Errorf("attempts %s and %s; want 32 random digits", a, b)
	}
}
