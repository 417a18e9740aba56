package webhook_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/approvalbot/approvalbot/bot/webhook"
)

// file writes a file of its own and returns its path.
func file(t testing.TB, content string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// config is one that reaches this machine.
func config(t testing.TB, url string) webhook.Config {
	t.Helper()
	return webhook.Config{URL: url, SecretFile: file(t, exampleSecret), AllowCIDRs: []string{"127.0.0.0/8", "::1"}}
}

func endpoint(t testing.TB, c webhook.Config) *webhook.Endpoint {
	t.Helper()
	e, err := webhook.New(c)
	if err != nil {
		t.Fatal(err)
	}
	webhook.KeepFor(e, time.Hour)
	return e
}

var message = webhook.Message{ID: "5c1f", Key: "apr_1", Body: []byte(`{"a": 1}`)}

// send connects and sends once.
func send(t testing.TB, e *webhook.Endpoint) (*webhook.Answer, error) {
	t.Helper()
	c, err := e.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return c.Send(t.Context(), message)
}

// receiver counts connections and requests.
type receiver struct {
	*httptest.Server
	mu       sync.Mutex
	conns    int
	requests []*http.Request
	bodies   []string
}

func (r *receiver) seen() (conns, requests int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.conns, len(r.requests)
}

func receive(t testing.TB, start func(*httptest.Server), h http.HandlerFunc) *receiver {
	t.Helper()
	r := &receiver{}
	r.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		r.mu.Lock()
		r.requests, r.bodies = append(r.requests, req), append(r.bodies, string(body))
		r.mu.Unlock()
		if h != nil {
			h(w, req)
		}
	}))
	r.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			r.mu.Lock()
			r.conns++
			r.mu.Unlock()
		}
	}
	start(r.Server)
	t.Cleanup(r.Close)
	return r
}

// cut breaks the connection of a request.
func cut(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err == nil {
		_ = conn.Close()
	}
}
