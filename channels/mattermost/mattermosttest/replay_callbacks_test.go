package mattermosttest_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// answer is the integration: it compares what it gets and answers what was.
func (r *replay) answer(w http.ResponseWriter, req *http.Request) {
	raw, _ := io.ReadAll(req.Body)
	e, turn := r.expected(req, string(raw))
	if e == nil {
		return
	}
	if turn != nil {
		select {
		case <-turn:
		case <-time.After(10 * time.Second):
		}
	}
	for r.group == nil {
		r.mu.Lock()
		var next *exchange
		if len(r.calls) > 0 && e.Answer.After > 0 && r.calls[0].At >= e.At && r.calls[0].At <= e.At+e.Answer.After+1 {
			next, r.calls = r.calls[0], r.calls[1:]
		}
		r.mu.Unlock()
		if next == nil {
			break
		}
		r.call(next)
	}
	if e.Answer.dropped {
		panic(http.ErrAbortHandler)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for k, v := range e.Answer.Headers {
		w.Header().Set(k, r.cmp.translate(v))
	}
	if e.Answer.Headers["Content-Type"] == "" {
		w.Header()["Content-Type"] = nil
	}
	w.WriteHeader(e.Answer.Status)
	_, _ = io.WriteString(w, r.cmp.translate(e.Answer.Body))
}

// expected finds the callback that a request is, and compares it.
func (r *replay) expected(req *http.Request, body string) (*exchange, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var user struct {
		User string `json:"user_id"`
	}
	_ = json.Unmarshal([]byte(body), &user)
	i := slices.IndexFunc(r.callbacks, func(e *exchange) bool {
		path, _, _ := strings.Cut(e.Request.Path, "?")
		return path == req.URL.Path && e.Request.Method == req.Method && (r.group == nil || strings.Contains(e.Request.Body, user.User))
	})
	if i < 0 {
		r.cmp.say("unexpected callback: %s %s %.200s", req.Method, req.URL, body)
		return nil, nil
	}
	e := r.callbacks[i]
	r.callbacks = slices.Delete(r.callbacks, i, i+1)
	r.headers(e, req)
	_, query, _ := strings.Cut(e.Request.Path, "?")
	switch {
	case strings.Contains(query, "user_id="):
		r.cmp.form("query", query, req.URL.RawQuery)
	case query != req.URL.RawQuery:
		r.cmp.say("the query is %q", req.URL.RawQuery)
	case leftOut.MatchString(e.Request.Body):
	case strings.HasPrefix(e.Request.Body, "channel_id="):
		r.cmp.form("form", e.Request.Body, body)
	default:
		r.cmp.body("callback", e.Request.Body, body)
	}
	if r.group == nil {
		return e, nil
	}
	turn := r.group.turns[slices.Index(r.group.callbacks, e)]
	if r.group.arrived++; r.group.arrived == len(r.group.callbacks) {
		close(r.group.turns[0])
	}
	return e, turn
}

// headers compares those of a callback.
func (r *replay) headers(e *exchange, req *http.Request) {
	want := map[string]string{}
	for _, h := range e.Request.Headers {
		name, value, _ := strings.Cut(h, ": ")
		want[name] = value
	}
	for _, name := range []string{"User-Agent", "Accept", "Content-Type", "Authorization", "Referer", "Accept-Encoding"} {
		w, g := r.cmp.translate(want[name]), req.Header.Get(name)
		if name == "Authorization" && strings.HasPrefix(w, "Token ") && strings.HasPrefix(g, "Token ") {
			continue
		}
		if u, err := url.QueryUnescape(g); w != g && (err != nil || w != u) {
			r.cmp.say("header %s of the callback: want %q, got %q", name, w, g)
		}
	}
}
