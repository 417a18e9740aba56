package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/approvalbot/approvalbot/bot/webhook"
	"github.com/approvalbot/approvalbot/bot/wire"
)

// whsec is a secret of webhooks.
func whsec(of string) string {
	return "whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat(of, 32)))
}

// mailroom receives what hooks and callbacks are sent, and believes only what is
// signed with the secret "a" or "b".
type mailroom struct {
	*httptest.Server
	t    *testing.T
	mu   sync.Mutex
	grew *sync.Cond
	all  []letter

	answer func(w http.ResponseWriter, r *http.Request, n int) // of the nth from 1; nil: 200
}

type letter struct {
	path, id string
	signed   string // by whom: "a", "b", "ab", or ""
	msg      wire.Message
}

func newMailroom(t *testing.T) *mailroom {
	t.Helper()
	m := &mailroom{t: t}
	m.grew = sync.NewCond(&m.mu)
	m.Server = httptest.NewServer(http.HandlerFunc(m.receive))
	t.Cleanup(m.Close)
	return m
}

func (m *mailroom) receive(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	l := letter{path: r.URL.Path, id: r.Header.Get(webhook.HeaderID)}
	for _, of := range []string{"a", "b"} {
		key, _ := webhook.ParseKey(whsec(of))
		if webhook.Verify(r.Header, time.Now(), body, key) == nil {
			l.signed += of
		}
	}
	if err != nil || json.Unmarshal(body, &l.msg) != nil || len(body) >= 20_000 {
		m.t.Errorf("got %d bytes that are no message: %v", len(body), err)
	}
	m.mu.Lock()
	m.all = append(m.all, l)
	n := len(m.all)
	m.grew.Broadcast()
	m.mu.Unlock()
	if m.answer != nil {
		m.answer(w, r, n)
	}
}

// await returns the first letter that is wanted, of those from the nth on.
func (m *mailroom) await(from int, want func(letter) bool) letter {
	m.t.Helper()
	late := false
	timer := time.AfterFunc(patience, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		late = true
		m.grew.Broadcast()
	})
	defer timer.Stop()
	m.mu.Lock()
	defer m.mu.Unlock()
	for ; ; m.grew.Wait() {
		for _, l := range m.all[min(from, len(m.all)):] {
			if want(l) {
				return l
			}
		}
		if late {
			m.t.Fatalf("it did not come; there are %+v", m.all)
		}
	}
}

// about wants a message of a kind about an approval, at a path.
func about(path, kind, id string) func(letter) bool {
	return func(l letter) bool {
		return l.path == path && l.msg.Type == "approval."+kind && l.msg.Data.ID == id
	}
}

// anything wants whatever comes.
func anything(letter) bool { return true }

// hookTo is the entry of a hook in this room.
func (m *mailroom) hookTo(name, on string) string {
	return fmt.Sprintf("  - {name: %s, on: %s, webhook: {url: %q, secret_file: whsec-a, allow_cidrs: [127.0.0.1]}}\n", name, on, m.URL+"/"+name)
}
