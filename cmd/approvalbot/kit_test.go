package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/approvalbot/approvalbot/bot"
	"github.com/approvalbot/approvalbot/bot/client"
	"github.com/approvalbot/approvalbot/gate/secret"
)

// patience is how long a test waits for what must come.
const patience = 20 * time.Second

// shell runs commands as somebody at a shell would.
type shell struct {
	env   map[string]string
	in    string
	inTTY bool
	tty   bool // output and errors go to a terminal
}

// result is what a command left.
type result struct {
	code     int
	out, err string
}

func (s shell) run(t *testing.T, args ...string) result {
	t.Helper()
	var out, errs lockedBuffer
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	code := run(ctx, process{
		args: args, env: func(k string) string { return s.env[k] },
		in: strings.NewReader(s.in), out: &out, err: &errs, inTTY: s.inTTY, outTTY: s.tty, errTTY: s.tty,
	})
	return result{code, out.String(), errs.String()}
}

// lockedBuffer is a buffer that a progress line may write to meanwhile.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// home is a folder with a config file and the keys that it names.
type home struct {
	t    *testing.T
	dir  string
	keys map[string]secret.String
}

// people are the keys of every home.
const people = `
keys:
  - {name: hermes, roles: [agent], hash_file: hermes.sha256}
  - {name: ann, roles: [approver], person: ann, hash_file: ann.sha256}
  - {name: bo, roles: [approver], person: bo, hash_file: bo.sha256}
key_file: server.key
`

// oneRule holds what is called "held" while its agent waits.
const oneRule = `
approvals:
  tool_gate:
    rules:
      - {name: held, match: {tool: held}, mode: inline}
      - {name: staged, match: {tool: staged}, mode: deferred}
`

func newHome(t *testing.T, config ...string) *home {
	t.Helper()
	h := &home{t: t, dir: t.TempDir(), keys: map[string]secret.String{}}
	for _, name := range []string{"hermes", "ann", "bo"} {
		key, hash := bot.NewKey()
		h.keys[name] = key
		h.write(name+".sha256", hash)
	}
	h.write("server.key", newServerKey())
	h.config(config...)
	return h
}

func (h *home) config(parts ...string) {
	h.t.Helper()
	h.write("approvalbot.yaml", people+strings.Join(parts, "\n"))
}

// write replaces a file as a whole, as editors and config maps do.
func (h *home) write(name, text string) {
	h.t.Helper()
	path := h.path(name)
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		h.t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		h.t.Fatal(err)
	}
}

func (h *home) path(name string) string { return filepath.Join(h.dir, name) }

// service is a server that this process runs, and its log.
type testServer struct {
	*home
	url  string
	log  *logbook
	stop context.CancelFunc
	done <-chan int
}

// serve runs a server of its own port on memory.
func (h *home) serve(flags ...string) *testServer {
	h.t.Helper()
	ctx, cancel := context.WithCancel(h.t.Context())
	log := newLogbook()
	done := make(chan int, 1)
	args := append([]string{"serve", "--config", h.path("approvalbot.yaml"), "--listen", "127.0.0.1:0"}, flags...)
	go func() {
		done <- run(ctx, process{args: args, env: func(string) string { return "" }, in: strings.NewReader(""), out: io.Discard, err: log})
		log.close()
	}()
	s := &testServer{home: h, log: log, stop: cancel, done: done}
	h.t.Cleanup(cancel)
	s.url = "http://" + log.await(h.t, "serving")["listen"].(string)
	return s
}

// as is the shell of the holder of a key.
func (s *testServer) as(name string) shell {
	return shell{env: map[string]string{envURL: s.url, envToken: s.keys[name].Reveal()}}
}

// client calls the server with somebody's key.
func (s *testServer) client(name string) *client.Client {
	s.t.Helper()
	return newTestClient(s.t, s.url, s.keys[name])
}

func newTestClient(t *testing.T, url string, key secret.String) *client.Client {
	t.Helper()
	c, err := client.New(url, key)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// logbook reads a JSON log while it is written.
type logbook struct {
	mu     sync.Mutex
	grew   *sync.Cond
	rest   []byte
	all    []byte // that was ever written
	lines  []map[string]any
	closed bool
}

func newLogbook() *logbook {
	l := &logbook{}
	l.grew = sync.NewCond(&l.mu)
	return l
}

func (l *logbook) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rest, l.all = append(l.rest, b...), append(l.all, b...)
	for {
		line, rest, ok := bytes.Cut(l.rest, []byte("\n"))
		if !ok {
			return len(b), nil
		}
		l.rest = rest
		entry := map[string]any{}
		if json.Unmarshal(line, &entry) != nil {
			entry["msg"] = string(line)
		}
		l.lines = append(l.lines, entry)
		l.grew.Broadcast()
	}
}

// holds reports whether something was ever written.
func (l *logbook) holds(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return bytes.Contains(l.all, []byte(text))
}

func (l *logbook) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.grew.Broadcast()
}

// await returns the next line whose message begins so, and forgets those before.
func (l *logbook) await(t *testing.T, msg string) map[string]any {
	t.Helper()
	late := false
	timer := time.AfterFunc(patience, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		late = true
		l.grew.Broadcast()
	})
	defer timer.Stop()
	l.mu.Lock()
	defer l.mu.Unlock()
	var seen []map[string]any
	for {
		for i, e := range l.lines {
			if text, _ := e["msg"].(string); strings.HasPrefix(text, msg) {
				l.lines = l.lines[i+1:]
				return e
			}
		}
		seen = append(seen[:0], l.lines...)
		if late || l.closed {
			t.Fatalf("no log line %q; there are %v", msg, seen)
		}
		l.grew.Wait()
	}
}

func wantCode(t *testing.T, r result, code int) {
	t.Helper()
	if r.code != code {
		t.Fatalf("exit %d, want %d\nout: %s\nerr: %s", r.code, code, r.out, r.err)
	}
}

func wantText(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("no %q in:\n%s", part, text)
		}
	}
}

func fromJSON[T any](t *testing.T, text string) (v T) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v in:\n%s", err, text)
	}
	return v
}
