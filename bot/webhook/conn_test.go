package webhook_test

import (
	"context"
	"encoding/pem"
	"errors"
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

	"github.com/approvalbot/approvalbot/bot/webhook"
)

func TestAMessageArrivesSigned(t *testing.T) {
	t.Parallel()
	r := receive(t, (*httptest.Server).Start, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "done") })
	c := config(t, r.URL+"/run?queue=1")
	c.PreviousSecretFile = file(t, other(32))
	a, err := send(t, endpoint(t, c))
	if err != nil || a.Status != http.StatusOK || string(a.Body) != "done" || a.Broken != nil || a.Long {
		t.Fatalf("answered %+v, %v", a, err)
	}
	req := r.requests[0]
	for _, secret := range []string{exampleSecret, other(32)} {
		if err := webhook.Verify(req.Header, time.Now(), []byte(r.bodies[0]), key(t, secret)); err != nil {
			t.Error(err)
		}
	}
	got := fmt.Sprint(req.Method, " ", req.RequestURI, " ", req.Header["Idempotency-Key"], req.Header["Webhook-Id"], req.Header["Content-Type"], " ", r.bodies[0])
	if want := `POST /run?queue=1 [apr_1] [5c1f] [application/json] {"a": 1}`; got != want {
		t.Errorf("it got %s, want %s", got, want)
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	withH2 := func(s *httptest.Server) { s.EnableHTTP2 = true; s.StartTLS() }
	r := receive(t, withH2, nil)
	ca := file(t, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: r.Certificate().Raw})))
	c := config(t, r.URL)
	if _, err := endpoint(t, c).Connect(t.Context()); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("an unknown authority: %v", err)
	}
	c.CAFile = ca
	e := endpoint(t, c)
	for range 3 {
		if a, err := send(t, e); err != nil || a.Status != http.StatusOK {
			t.Fatalf("answered %+v, %v", a, err)
		}
	}
	if conns, requests := r.seen(); conns != 2 || requests != 3 || r.requests[0].Proto != "HTTP/1.1" {
		t.Errorf("%d connections, %d requests by %s", conns, requests, r.requests[0].Proto)
	}
	c.URL = strings.Replace(r.URL, "127.0.0.1", "localhost", 1)
	if _, err := endpoint(t, c).Connect(t.Context()); err == nil || !strings.Contains(err.Error(), "localhost") {
		t.Errorf("another name than the certificate's: %v", err)
	}
}

func TestWhereNobodyMayConnect(t *testing.T) {
	t.Parallel()
	r := receive(t, (*httptest.Server).StartTLS, nil)
	for name, change := range map[string]func(*webhook.Config){
		"an address that is not listed": func(c *webhook.Config) { c.AllowCIDRs = nil },
		"a name that resolves to such an address": func(c *webhook.Config) {
			c.AllowCIDRs, c.URL = nil, strings.Replace(c.URL, "127.0.0.1", "localhost", 1)
		},
		"another address than the one listed": func(c *webhook.Config) { c.AllowCIDRs = []string{"127.0.0.2"} },
		"without TLS, another than is listed": func(c *webhook.Config) {
			c.AllowCIDRs, c.URL = []string{"10.0.0.0/8"}, strings.Replace(c.URL, "https", "http", 1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := config(t, r.URL)
			change(&c)
			_, err := endpoint(t, c).Connect(t.Context())
			if err == nil || !strings.Contains(err.Error(), "allow_cidrs") {
				t.Errorf("it says %v", err)
			}
		})
	}
}

// A proxy of the environment would be asked to call what may not be called here.
func TestNoProxyOfTheEnvironment(t *testing.T) {
	proxy := receive(t, (*httptest.Server).Start, nil)
	t.Setenv("HTTP_PROXY", proxy.URL)
	t.Setenv("HTTPS_PROXY", proxy.URL)
	t.Setenv("NO_PROXY", "")
	r := receive(t, (*httptest.Server).Start, nil)
	for _, call := range []func() error{
		func() error { _, err := send(t, endpoint(t, config(t, r.URL))); return err },
		func() error { return get(t, peer(t, r.URL).Client(nil), r.URL) },
	} {
		if err := call(); err != nil {
			t.Error(err)
		}
	}
	if _, n := proxy.seen(); n > 0 {
		t.Error("the proxy was asked")
	}
}

func peer(t testing.TB, url string) *webhook.Peer {
	t.Helper()
	p, err := webhook.NewPeer(webhook.PeerConfig{URL: url, AllowCIDRs: []string{"127.0.0.1"}})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func get(t *testing.T, c *http.Client, url string) error {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := c.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	return nil
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	inside := receive(t, (*httptest.Server).Start, nil)
	r := receive(t, (*httptest.Server).Start, func(w http.ResponseWriter, req *http.Request) {
		http.Redirect(w, req, inside.URL, http.StatusTemporaryRedirect)
	})
	if a, err := send(t, endpoint(t, config(t, r.URL))); err != nil || a.Status != http.StatusTemporaryRedirect {
		t.Errorf("answered %+v, %v", a, err)
	}
	if err := get(t, peer(t, r.URL).Client(nil), r.URL); err == nil || !strings.Contains(err.Error(), "307") {
		t.Errorf("a client of a peer: %v", err)
	}
	if _, n := inside.seen(); n > 0 {
		t.Error("the redirect was followed")
	}
}

func TestAConnectionIsUsedAgainForAMoment(t *testing.T) {
	t.Parallel()
	r := receive(t, (*httptest.Server).Start, nil)
	e := endpoint(t, config(t, r.URL))
	for range 20 {
		if _, err := send(t, e); err != nil {
			t.Fatal(err)
		}
	}
	if conns, requests := r.seen(); conns != 1 || requests != 20 {
		t.Errorf("%d connections for %d requests", conns, requests)
	}
}

func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	r := receive(t, (*httptest.Server).Start, nil)
	e := endpoint(t, config(t, r.URL))
	var all sync.WaitGroup
	for range 30 {
		all.Go(func() {
			for range 5 {
				c, err := e.Connect(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := c.Send(t.Context(), message); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if conns, requests := r.seen(); requests != 150 || conns > 150 {
		t.Errorf("%d connections for %d requests", conns, requests)
	}
}

func TestAConnectionIsNotKeptForLonger(t *testing.T) {
	t.Parallel()
	closed := make(chan struct{}, 9)
	watch := func(s *httptest.Server) {
		counted := s.Config.ConnState
		s.Config.ConnState = func(c net.Conn, state http.ConnState) {
			counted(c, state)
			if state == http.StateClosed {
				closed <- struct{}{}
			}
		}
		s.Start()
	}
	r := receive(t, watch, nil)
	e := endpoint(t, config(t, r.URL))
	webhook.KeepFor(e, time.Millisecond)
	if _, err := send(t, e); err != nil {
		t.Fatal(err)
	}
	select {
	case <-closed:
	case <-time.After(time.Minute):
		t.Fatal("it is kept")
	}
	if _, err := send(t, e); err != nil {
		t.Error(err)
	}
}

func TestAConnectionThatWasClosedIsNotUsed(t *testing.T) {
	t.Parallel()
	r := receive(t, (*httptest.Server).Start, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Connection", "close") })
	e := endpoint(t, config(t, r.URL))
	for range 5 {
		if _, err := send(t, e); err != nil {
			t.Fatal(err)
		}
	}
	if conns, requests := r.seen(); conns != 5 || requests != 5 {
		t.Errorf("%d connections for %d requests", conns, requests)
	}
}

// net/http's own transport sends these again: they carry an Idempotency-Key.
func TestNothingIsSentTwice(t *testing.T) {
	t.Parallel()
	var r *receiver
	r = receive(t, (*httptest.Server).Start, func(w http.ResponseWriter, _ *http.Request) {
		if _, n := r.seen(); n > 1 {
			cut(w)
		}
	})
	e := endpoint(t, config(t, r.URL))
	if _, err := send(t, e); err != nil {
		t.Fatal(err)
	}
	_, err := send(t, e)
	if lost, ok := errors.AsType[*webhook.Lost](err); !ok || !lost.Sent {
		t.Errorf("it says %v, want that the request may have arrived", err)
	}
	if conns, requests := r.seen(); conns != 1 || requests != 2 {
		t.Errorf("%d connections for %d requests", conns, requests)
	}
}

func TestBrokenAnswers(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		raw          string // what the receiver writes before it hangs up
		lost, broken bool
	}{
		"nothing":             {"", true, false},
		"no HTTP":             {"220 mail ready\r\n", true, false},
		"half a head":         {"HTTP/1.1 200 OK\r\nContent-Le", true, false},
		"too long a head":     {"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 1<<20) + "\r\n\r\n", true, false},
		"half a body":         {"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf", false, true},
		"half a chunk":        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhal", false, true},
		"a body to its end":   {"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nwhole", false, false},
		"a body of no length": {"HTTP/1.1 200 OK\r\n\r\nuntil I hang up", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, err := send(t, endpoint(t, config(t, "http://"+answerRaw(t, tt.raw))))
			lost, ok := errors.AsType[*webhook.Lost](err)
			if tt.lost && (!ok || !lost.Sent) {
				t.Errorf("%v, want that it may have arrived", err)
			}
			if !tt.lost && (err != nil || a.Status != 200 || (a.Broken != nil) != tt.broken) {
				t.Errorf("%+v, %v", a, err)
			}
		})
	}
}

// answerRaw listens, and answers every request with these bytes.
func answerRaw(t testing.TB, raw string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				buf := make([]byte, 64<<10)
				_, _ = conn.Read(buf)
				_, _ = io.WriteString(conn, raw)
			}()
		}
	}()
	return l.Addr().String()
}

func TestALongAnswerIsCut(t *testing.T) {
	t.Parallel()
	r := receive(t, (*httptest.Server).Start, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, strings.Repeat("x", 3_000_000))
	})
	a, err := send(t, endpoint(t, config(t, r.URL)))
	if err != nil || !a.Long || len(a.Body) != webhook.MaxAnswer || a.Broken != nil {
		t.Errorf("long %v, %d bytes, %v, %v", a.Long, len(a.Body), a.Broken, err)
	}
}

func TestASlowReceiverIsNotWaitedForLong(t *testing.T) {
	t.Parallel()
	over := make(chan struct{})
	r := receive(t, (*httptest.Server).Start, func(http.ResponseWriter, *http.Request) { <-over })
	t.Cleanup(func() { close(over) })
	c := config(t, r.URL)
	c.Timeout = "100ms"
	_, err := send(t, endpoint(t, c))
	if lost, ok := errors.AsType[*webhook.Lost](err); !ok || !lost.Sent || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("it says %v", err)
	}
}

func TestWhatWasNeverSent(t *testing.T) {
	t.Parallel()
	for range 20 { // net/http tries to write now and then, although it knows
		c, _, hangUp := idleConn(t)
		hangUp()
		awaitClosed(t, c)
		_, err := c.Send(t.Context(), message)
		if lost, ok := errors.AsType[*webhook.Lost](err); !ok || lost.Sent {
			t.Fatalf("it says %v, want that nothing was sent", err)
		}
	}
	c, _, _ := idleConn(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Send(ctx, message); !errors.Is(err, context.Canceled) {
		t.Errorf("when there is no time, it says %v", err)
	}
}

// idleConn returns a connection to somebody who hangs up when told, and then is gone.
func idleConn(t *testing.T) (*webhook.Conn, *webhook.Endpoint, func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e := endpoint(t, config(t, "http://"+l.Addr().String()))
	c, err := e.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = l.Close()
	return c, e, func() { _ = conn.Close() }
}

func awaitClosed(t *testing.T, c *webhook.Conn) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !c.Closed(); runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatal("it is not closed")
		}
	}
}

func TestADeadConnectionIsNotTakenAgain(t *testing.T) {
	t.Parallel()
	c, e, hangUp := idleConn(t)
	hangUp()
	awaitClosed(t, c)
	c.Close()
	if _, err := e.Connect(t.Context()); err == nil {
		t.Error("there is nobody, and a connection to them")
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	for said, want := range map[string]string{
		"":                              "no",
		"7":                             "7s",
		"0":                             "0s",
		"-5":                            "0s",
		"soon":                          "no",
		"1.5":                           "no",
		"9999999999":                    "24h0m0s",
		"99999999999999999999999999999": "no",
		"Tue, 01 Dec 2026 12:01:00 GMT": "1m0s",
		"Tue, 01 Dec 2026 11:00:00 GMT": "0s",
	} {
		t.Run(said, func(t *testing.T) {
			t.Parallel()
			r := receive(t, (*httptest.Server).Start, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Retry-After", said) })
			a, err := send(t, endpoint(t, config(t, r.URL)))
			if err != nil {
				t.Fatal(err)
			}
			got := "no"
			if d, ok := a.RetryAfter(now); ok {
				got = d.String()
			}
			if got != want {
				t.Errorf("%q is %s, want %s", said, got, want)
			}
		})
	}
}
