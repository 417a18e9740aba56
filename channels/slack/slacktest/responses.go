package slacktest

import (
	"errors"
	"io"
	"net/http"
	"time"
)

// How long and how often a response URL works.
const (
	hookLife = 30 * time.Minute
	hookUses = 5
)

// hook is what is behind a response URL: who clicked and on what.
type hook struct {
	user, channel, ts string
	command           bool // after a slash command there is no original
	issued            time.Time
	uses              int
}

func (s *Slack) newHook(h *hook) string {
	kind := "/actions/"
	if h.command {
		kind = "/commands/"
	}
	h.issued = s.config.Now()
	path := kind + Team + "/" + s.id("601") + "/slacktest"
	s.hooks[path] = h
	return s.server.URL + path
}

func (s *Slack) serveHook(w http.ResponseWriter, r *http.Request) {
	const name = "response_url"
	raw, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	a, bad := jsonArgs(raw)
	if err != nil || r.Method != http.MethodPost || len(raw) == 0 {
		bad = refuse("invalid_payload")
	}
	fault := s.note(name, a)
	if fault.Instead(w) {
		return
	}
	status, err := s.useHook(r.URL.Path, a, bad)
	if fault.Afterwards(w, r, s.done) {
		return
	}
	refusal := &Refusal{}
	if errors.As(err, &refusal) {
		writeJSON(w, status, refusal.wire())
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = io.WriteString(w, "ok")
}

// useHook is strict where the documentation is silent: spent and expired URLs,
// and bad messages, get an error status.
func (s *Slack) useHook(path string, a args, bad error) (status int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.hooks[path]
	switch {
	case h == nil:
		return http.StatusNotFound, refuse("no_such_url")
	case s.config.Now().Sub(h.issued) > hookLife:
		return http.StatusNotFound, refuse("expired_url")
	case h.uses >= hookUses:
		return http.StatusNotFound, refuse("used_url")
	case bad != nil:
		return http.StatusBadRequest, bad
	}
	if _, err := s.respond(a, h); err != nil {
		return http.StatusBadRequest, err
	}
	h.uses++
	return http.StatusOK, nil
}

// respond does what a response to a click or a command says, and returns the
// message that came of it, if any.
func (s *Slack) respond(a args, h *hook) (*Message, error) {
	conv := s.channels[h.channel]
	if conv == nil {
		return nil, refuse("channel_not_found")
	}
	original := conv.message(h.ts) // none after a command
	said, err := s.content(a)
	if err != nil {
		return nil, err
	}
	if a.truth("delete_original") && original != nil {
		conv.remove(h.ts)
		if said.empty() {
			return nil, nil
		}
		original = nil
	}
	// A thread_ts alone overwrites what was clicked.
	replace := a.truth("replace_original") || a["thread_ts"] != "" && !a.has("replace_original")
	if replace && original != nil {
		return original, said.replaces(original)
	}
	m, _, err := s.compose(a, conv)
	if err != nil {
		return nil, err
	}
	if a["response_type"] != "in_channel" {
		m.Only = h.user
	}
	return conv.add(m, s.config.Now()), nil
}
