package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/approvalbot/approvalbot/bot/client"
	"github.com/approvalbot/approvalbot/bot/wire"
)

// simple is a caller that knows one thing: run the call if the verdict is allow.
// It presents what it has in any order, and believes nothing else. What it runs
// is held against what people have said, kept here without a look at the product.
type simple struct {
	*rapid.T
	r         *replica
	session   string
	approvals []*truth
	tokens    []string
	runs      int
}

// truth is what is true of an approval.
type truth struct {
	id, digest string
	call       string          // its body
	need       int             // approvals it takes
	yes        map[string]bool // who approved
	over       bool            // denied, cancelled, revoked, session ended
	staged     bool
	ran        string // the attempt that ran it
}

func (a *truth) mayRun(call, attempt string) bool {
	return !a.over && len(a.yes) >= a.need && a.call == call && (a.ran == "" || a.ran == attempt)
}

// say sends a request and returns what every answer has; the verdict is believed.
func (s *simple) say(key, method, path, body string) (int, wire.DecideAnswer, wire.CheckAnswer) {
	req := httptest.NewRequestWithContext(s.Context(), method, path, strings.NewReader(body))
	req.Header.Set("Authorization", "Bearer "+bearers()[key].Reveal())
	req.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	s.r.api.ServeHTTP(w, req)
	var flat wire.DecideAnswer
	var nested wire.CheckAnswer
	if json.Unmarshal(w.Body.Bytes(), &flat) != nil || flat.Verdict == "" {
		s.Fatalf("%s %s: %d %s: no verdict", method, path, w.Code, w.Body)
	}
	_ = json.Unmarshal(w.Body.Bytes(), &nested) // only some answers are of this form
	if flat.Token != "" {
		s.tokens = append(s.tokens, flat.Token)
	}
	return w.Code, flat, nested
}

// run is what the caller does with an allow.
func (s *simple) run(what, tool, call, token, attempt string) {
	s.runs++
	if tool == "free" {
		return
	}
	for _, a := range s.approvals {
		if token != "" && strings.Contains(token, a.id) && a.mayRun(call, attempt) {
			a.ran = attempt
			return
		}
	}
	s.Fatalf("%s let %s run with token %q, attempt %s; nobody agreed to that", what, call, token, attempt)
}

func (s *simple) attempt() string {
	return strings.Repeat(rapid.SampledFrom([]string{"a", "b", "c"}).Draw(s.T, "attempt"), 32)
}

func (s *simple) call() (tool, body string) {
	tool = rapid.SampledFrom([]string{"free", "held", "two", "staged", "drop_db", "never"}).Draw(s.T, "tool")
	return tool, fmt.Sprintf(`{"tool":%q,"args":{"n":%d}}`, tool, rapid.IntRange(1, 2).Draw(s.T, "n"))
}

// mostly keeps histories from being nothing but refusals.
func (s *simple) mostly(what string) bool { return rapid.IntRange(0, 3).Draw(s.T, what) > 0 }

// approval picks one that is known.
func (s *simple) approval() *truth {
	if len(s.approvals) == 0 {
		s.Skip("none yet")
	}
	return rapid.SampledFrom(s.approvals).Draw(s.T, "approval")
}

func (s *simple) token() string {
	if len(s.tokens) == 0 {
		s.Skip("none yet")
	}
	return rapid.SampledFrom(s.tokens).Draw(s.T, "token")
}

// learn keeps an approval that an answer names.
func (s *simple) learn(tool, call string, a *wire.Approval) {
	if a == nil {
		return
	}
	for _, known := range s.approvals {
		if known.id == a.ID {
			return
		}
	}
	need := 1
	if tool == "two" {
		need = 2
	}
	s.approvals = append(s.approvals, &truth{id: a.ID, digest: a.Digest, call: call, need: need, yes: map[string]bool{}, staged: a.Mode == "deferred"})
}

func (s *simple) check(*rapid.T) {
	tool, call := s.call()
	how := rapid.SampledFrom([]string{``, `"join":true,`, `"idempotency_key":"` + s.session + `1",`, `"idempotency_key":"` + s.session + `2",`}).Draw(s.T, "how")
	_, got, nested := s.say("hermes", "POST", "/v1/check",
		fmt.Sprintf(`{%s"call":%s,"requester":{"agent":"a","session":%q,"attended":true}}`, how, call, s.session))
	s.learn(tool, call, nested.Approval)
	if got.Verdict == "allow" {
		s.run("check", tool, call, "", "")
	}
}

func (s *simple) checkWithToken(*rapid.T) {
	token, attempt := s.token(), s.attempt()
	tool, call := s.call()
	_, got, _ := s.say("hermes", "POST", "/v1/check",
		fmt.Sprintf(`{"token":%q,"attempt_id":%q,"call":%s,"requester":{"agent":"a","session":%q,"attended":true}}`, token, attempt, call, s.session))
	if got.Verdict == "allow" {
		s.run("check with a token", tool, call, token, attempt)
	}
}

func (s *simple) consume(*rapid.T) {
	a, token, attempt := s.approval(), s.token(), s.attempt()
	tool, call := s.call()
	if s.mostly("its own call") {
		tool, call = "", a.call
	}
	if s.mostly("its own token") {
		for _, t := range s.tokens {
			if strings.Contains(t, a.id) {
				token = t
			}
		}
	}
	key := rapid.SampledFrom([]string{"hermes", "hermes", "hermes", "plain", "ann-cli"}).Draw(s.T, "key")
	_, got, _ := s.say(key, "POST", "/v1/approvals/"+a.id+"/consume", fmt.Sprintf(`{"token":%q,"attempt_id":%q,"call":%s}`, token, attempt, call))
	if got.Verdict == "allow" {
		s.run("consume by "+key, tool, call, token, attempt)
	}
}

func (s *simple) decide(*rapid.T) {
	a := s.approval()
	who := rapid.SampledFrom([]string{"ann-cli", "bo-cli"}).Draw(s.T, "who")
	digest := a.digest
	if rapid.IntRange(0, 4).Draw(s.T, "wrong digest") == 0 {
		digest = "sha256:" + strings.Repeat("0", 64)
	}
	what := rapid.SampledFrom([]string{"approve", "approve", "allow", "deny", "needs_more_context"}).Draw(s.T, "decision")
	code, got, _ := s.say(who, "POST", "/v1/approvals/"+a.id, fmt.Sprintf(`{"decision":%q,"reason":"r","digest":%q}`, what, digest))
	s.heard(code, got, a)
	if code == http.StatusOK {
		switch what {
		case "approve", "allow":
			a.yes[who] = true
			s.say("hermes", "GET", "/v1/approvals/"+a.id, "") // which has the token
		case "deny":
			a.over = true
		}
	}
}

// heard is for answers that must never let anything run.
func (s *simple) heard(code int, got wire.DecideAnswer, a *truth) {
	if got.Verdict == "allow" {
		s.Fatalf("%d %+v about %s; want no allow", code, got.Answer, a.id)
	}
}

func (s *simple) get(*rapid.T) {
	a := s.approval()
	key := rapid.SampledFrom([]string{"hermes", "plain", "ann-cli", "books"}).Draw(s.T, "key")
	code, got, _ := s.say(key, "GET", "/v1/approvals/"+a.id, "")
	s.heard(code, got, a)
}

func (s *simple) end(*rapid.T) {
	a := s.approval()
	path, key := "/cancel", "hermes"
	if rapid.Bool().Draw(s.T, "revoke") {
		path, key = "/revoke", "bo-cli"
	}
	code, got, _ := s.say(key, "POST", "/v1/approvals/"+a.id+path, `{}`)
	s.heard(code, got, a)
	a.over = a.over || code == http.StatusOK
}

func (s *simple) report(*rapid.T) {
	a, token := s.approval(), s.token()
	code, got, _ := s.say("hermes", "POST", "/v1/approvals/"+a.id+"/outcome", fmt.Sprintf(`{"outcome":"failed","token":%q,"attempt_id":%q}`, token, s.attempt()))
	s.heard(code, got, a)
	if code == http.StatusOK {
		a.over = true // a call that was reported is not dispatched again, not even by its own attempt
	}
}

func (s *simple) endSession(*rapid.T) {
	if rapid.IntRange(0, 5).Draw(s.T, "rarely") != 0 {
		s.Skip("not now")
	}
	code, got, _ := s.say("hermes", "POST", "/v1/sessions/"+s.session+"/end", "")
	for _, a := range s.approvals {
		s.heard(code, got, a)
		a.over = a.over || !a.staged && a.ran == ""
	}
}

func TestACallerThatOnlyKnowsAllowIsNeverWrong(t *testing.T) {
	t.Parallel()
	r := start(t, memory(t), rules())
	runs := 0
	rapid.Check(t, func(t *rapid.T) {
		s := &simple{T: t, r: r, session: client.NewAttempt()}
		t.Repeat(map[string]func(*rapid.T){
			"check": s.check, "check with a token": s.checkWithToken, "consume": s.consume, "decide": s.decide, "get": s.get,
			"end": s.end, "report": s.report, "end session": s.endSession,
		})
		for _, a := range s.approvals { // make room for the next
			s.say("hermes", "POST", "/v1/approvals/"+a.id+"/cancel", `{}`)
			if a.ran != "" {
				runs++
			}
		}
	})
	if runs == 0 {
		t.Error("no history had an approved call run; it shows nothing")
	}
}
