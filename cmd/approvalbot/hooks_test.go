package main

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/approvalbot/approvalbot/bot/client"
	"github.com/approvalbot/approvalbot/bot/wire"
	"github.com/approvalbot/approvalbot/gate"
)

// hooked is a home with a mailroom, for whose hooks hooks is.
func hooked(t *testing.T, store string, hooks func(*mailroom) string) (*home, *mailroom) {
	t.Helper()
	h, m := newHome(t), newMailroom(t)
	h.write("whsec-a", whsec("a"))
	h.write("whsec-b", whsec("b"))
	callbacks := fmt.Sprintf("roles: [agent], callbacks: {prefixes: [%q], secret_file: whsec-b, allow_cidrs: [127.0.0.1]}", m.URL+"/back/")
	h.write("approvalbot.yaml", strings.Replace(people, "roles: [agent]", callbacks, 1)+oneRule+"store: "+store+"\nhooks:\n"+hooks(m))
	return h, m
}

// ask has the agent ask, with a callback or without.
func (s *testServer) ask(callback string) (wire.CheckAnswer, error) {
	attended := true
	return s.client("hermes").Check(s.t.Context(), wire.CheckRequest{
		Call: call("held"), Requester: wire.Requester{Agent: "hermes", Attended: &attended}, Callback: callback,
	}, 0)
}

// lives has an approval asked, approved, dispatched and reported.
func (s *testServer) lives(callback string) *wire.Approval {
	s.t.Helper()
	asked, err := s.ask(callback)
	if err != nil {
		s.t.Fatal(err)
	}
	a := asked.Approval
	wantCode(s.t, s.as("ann").run(s.t, "approve", a.ID, "--digest", a.Digest), exitOK)
	agent := s.client("hermes")
	approved, err := agent.Get(s.t.Context(), a.ID)
	if err != nil {
		s.t.Fatal(err)
	}
	attempt := client.NewAttempt()
	if yes, err := agent.Consume(s.t.Context(), a.ID, wire.ConsumeRequest{Token: approved.Token, AttemptID: attempt, Call: call("held")}); err != nil || yes.Verdict != "allow" {
		s.t.Fatalf("consume = %+v, %v", yes, err)
	}
	if _, err := agent.Report(s.t.Context(), a.ID, wire.OutcomeRequest{Outcome: "executed", Token: approved.Token, AttemptID: attempt, Note: "deleted 1 pod"}); err != nil {
		s.t.Fatal(err)
	}
	return a
}

// TestHooksAndCallbacksHearOfACall goes the whole way: a call that is asked about,
// approved, run and reported, a hook that hears of all of it, and its own callback.
func TestHooksAndCallbacksHearOfACall(t *testing.T) {
	t.Parallel()
	h, m := hooked(t, "memory", func(m *mailroom) string { return m.hookTo("all", "[requested, decided, executed]") })
	s := h.serve()
	a := s.lives(m.URL + "/back/7")

	first := m.await(0, about("/all", "requested", a.ID))
	if d := first.msg.Data; first.signed != "a" || d.State != "pending" || d.Digest != a.Digest || d.Tool != "held" || d.Rule != "held" || d.Requester.Key != "hermes" || d.Policy == "" || d.Args != nil {
		t.Errorf("the hook was sent %+v", first)
	}
	if d := m.await(0, about("/all", "decided", a.ID)).msg.Data; d.State != "approved" || d.By != "ann" || d.Previous != "pending" {
		t.Errorf("of the decision it was told %+v", d)
	}
	ended := m.await(0, about("/all", "executed", a.ID)).msg.Data
	if ended.State != "executed" || ended.Note != "deleted 1 pod" {
		t.Errorf("of the end it was told %+v", ended)
	}
	if l := m.await(0, about("/back/7", "executed", a.ID)); l.signed != "b" || l.msg.Data.Note != "deleted 1 pod" || l.msg.Data.Now.AgentText == "" {
		t.Errorf("the callback was sent %+v", l)
	}
	agent := s.client("hermes")
	for deadline := time.Now().Add(patience); ; {
		got, err := agent.Get(t.Context(), a.ID)
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("got %+v, %v", got.Callback, err)
		}
		if got.Callback != nil && *got.Callback == (wire.Callback{State: "delivered", Tries: 1}) {
			break
		}
		m.rest()
	}
}

// rest lets others work for a moment.
func (m *mailroom) rest() {
	select {
	case <-m.t.Context().Done():
	case <-time.After(20 * time.Millisecond):
	}
}

func TestACallbackThatIsNotTheKeysIsRefused(t *testing.T) {
	t.Parallel()
	h, m := hooked(t, "memory", func(m *mailroom) string { return m.hookTo("all", "requested") })
	s := h.serve()
	for _, address := range []string{
		"https://evil.example.com/back/7", m.URL + "/other", m.URL + "/back/../x", m.URL + "/back/%2e%2e/x", "back",
	} {
		_, err := s.ask(address)
		refused, ok := errors.AsType[*client.Error](err)
		if !ok || refused.Status != http.StatusBadRequest || !strings.Contains(refused.Error(), "callback: ") {
			t.Errorf("%s: %v, want 400 that names the field", address, err)
		}
	}
	if page, err := s.client("ann").List(t.Context(), client.Query{}); err != nil || len(page.Approvals) > 0 {
		t.Errorf("something was asked: %v, %v", page.Approvals, err)
	}
}

// TestWhatReceiversDoChangesNothing: with receivers that hang, crash, lie, redirect
// and are not there, calls live as always, and the one that works hears of all.
func TestWhatReceiversDoChangesNothing(t *testing.T) {
	t.Parallel()
	h, m := hooked(t, "memory", func(m *mailroom) string {
		all := ""
		for _, name := range []string{"hangs", "crashes", "lies", "redirects", "fails", "works"} {
			all += m.hookTo(name, "[requested, decided, executed]")
		}
		return all + "  - {name: nowhere, on: [requested, decided, executed], webhook: {url: 'http://127.0.0.1:1/', secret_file: whsec-a, allow_cidrs: [127.0.0.1]}}\n"
	})
	m.answer = func(w http.ResponseWriter, r *http.Request, _ int) {
		switch r.URL.Path {
		case "/hangs":
			<-r.Context().Done()
		case "/crashes":
			panic(http.ErrAbortHandler)
		case "/lies":
			conn, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				_, _ = conn.Write([]byte("220 mail.example.com ESMTP\r\n"))
				_ = conn.Close()
			}
		case "/redirects":
			http.Redirect(w, r, m.URL+"/inside", http.StatusTemporaryRedirect)
		case "/fails":
			http.Error(w, "no", http.StatusInternalServerError)
		}
	}
	s := h.serve()
	const calls = 5
	var ids []string
	for range calls {
		ids = append(ids, s.lives("").ID)
	}
	for _, id := range ids {
		for _, kind := range []string{"requested", "decided", "executed"} {
			m.await(0, about("/works", kind, id))
		}
		if got, err := s.client("hermes").Get(t.Context(), id); err != nil || got.State != "executed" {
			t.Errorf("%s is %s, %v", id, got.State, err)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, l := range m.all {
		if l.path == "/inside" {
			t.Error("a redirect was followed")
		}
	}
}

// TestAKilledReplicaLosesNoMessage: one is killed over a message that its receiver
// has not answered. The other sends it again, under the same id, and what happened
// while nobody lived to tell is told too.
func TestAKilledReplicaLosesNoMessage(t *testing.T) {
	t.Parallel()
	socket := startRedis(t)
	h, m := hooked(t, "{redis: {addrs: ["+socket+"]}}", func(m *mailroom) string { return m.hookTo("all", "[requested, decided]") })
	m.answer = func(_ http.ResponseWriter, r *http.Request, n int) {
		if n == 1 {
			<-r.Context().Done() // its sender is killed meanwhile
		}
	}
	first := h.spawn()
	s := &testServer{home: h, url: first.url}
	asked, err := s.ask("")
	if err != nil {
		t.Fatal(err)
	}
	a := asked.Approval
	lost := m.await(0, about("/all", "requested", a.ID))
	if err := first.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = first.cmd.Wait()

	second := h.spawn()
	s.url = second.url
	wantCode(t, s.as("ann").run(t, "deny", a.ID, "--digest", a.Digest, "--reason", "no"), exitOK)
	m.await(1, about("/all", "decided", a.ID))
	// Whoever is dead has it until its time is up, which this brings about.
	db := goredis.NewClient(&goredis.Options{Network: "unix", Addr: socket})
	defer db.Close()
	if n, err := db.ZAdd(t.Context(), "approvalbot:{default}:owed", goredis.Z{Member: lost.id}).Result(); err != nil || n != 0 {
		t.Fatalf("the message is not owed any more: %d, %v", n, err)
	}
	again := m.await(1, about("/all", "requested", a.ID))
	if again.id != lost.id {
		t.Errorf("it came as %s, then as %s", lost.id, again.id)
	}
	if d := again.msg.Data; d.State != "pending" || d.Now.State != string(gate.Denied) {
		t.Errorf("it says %+v, want what happened, and how it is now", d)
	}
}
