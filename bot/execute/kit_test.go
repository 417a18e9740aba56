package execute_test

import (
	"context"
	"encoding/base64"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/approvalbot/approvalbot/bot/execute"
	"github.com/approvalbot/approvalbot/bot/webhook"
	"github.com/approvalbot/approvalbot/gate"
)

// args are spelt as no encoder would spell them.
const args = `{ "path": "/tmp/<a>&b",  "n": 1.0, "deep": {"on": true, "no": null, "list": [1]}, "neg": -1, "flag": "--force" }`

func job(t testing.TB) *execute.Job {
	t.Helper()
	call := gate.Call{Server: "files", Tool: "delete_file", Target: "prod", Args: []byte(args)}
	digest, err := call.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return &execute.Job{
		ID: "apr_01JE000000000000000000TEST", Attempt: strings.Repeat("5c", 16), Call: call, Digest: digest, Rule: "prod",
		Requester: gate.Requester{Key: "hermes", Agent: "deployer", Run: "r1", Session: "s1", Person: "ann"}, By: "Ben",
	}
}

// file writes a file of its own and returns its path.
func file(t testing.TB, content string, mode os.FileMode) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(name, mode); err != nil {
		t.Fatal(err)
	}
	return name
}

// soon bounds what a test waits for; nothing waits that long unless it is broken.
func soon(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// run prepares and runs a call.
func run(ctx context.Context, t testing.TB, e execute.Executor, j *execute.Job) execute.Result {
	t.Helper()
	d, err := e.Prepare(ctx, j)
	if err != nil {
		t.Fatal(err)
	}
	return d.Run(ctx)
}

// wants compares an end with an outcome, and a text that has to be in it.
func wants(t testing.TB, got execute.Result, outcome gate.State, text string) {
	t.Helper()
	if got.Outcome != outcome || !strings.Contains(got.Text, text) {
		t.Errorf("it ended %q: %.300q; want %q, and a text with %q", got.Outcome, got.Text, outcome, text)
	}
	if len(got.Text) > execute.MaxText {
		t.Errorf("a text of %d bytes", len(got.Text))
	}
}

const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// receiver is somebody who is told to run calls. It counts what arrives.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex
	heads  []http.Header
	bodies [][]byte
}

func (r *receiver) got() ([]http.Header, [][]byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.heads, r.bodies
}

// receive starts a receiver; answer is told how many requests there were, this one
// included.
func receive(t testing.TB, answer func(w http.ResponseWriter, req *http.Request, n int), change ...func(*httptest.Server)) *receiver {
	t.Helper()
	r := &receiver{}
	r.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		r.mu.Lock()
		r.heads, r.bodies = append(r.heads, req.Header), append(r.bodies, body)
		n := len(r.heads)
		r.mu.Unlock()
		answer(w, req, n)
	}))
	for _, f := range change {
		f(r.Server)
	}
	r.Start()
	t.Cleanup(r.Close)
	return r
}

func hook(t testing.TB, url string, change ...func(*webhook.Config)) *execute.Webhook {
	t.Helper()
	c := webhook.Config{URL: url, SecretFile: file(t, secret, 0o600), AllowCIDRs: []string{"127.0.0.1"}}
	for _, f := range change {
		f(&c)
	}
	w, err := execute.NewWebhook(c)
	if err != nil {
		t.Fatal(err)
	}
	execute.Impatient(w)
	return w
}

// cut breaks the connection of a request, after it has written raw.
func cut(w http.ResponseWriter, raw string) {
	if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
		_, _ = io.WriteString(conn, raw)
		_ = conn.Close()
	}
}

func b64(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

// nobody returns an address where nobody listens.
func nobody(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return "http://" + l.Addr().String()
}
