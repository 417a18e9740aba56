package api_test

import (
	"errors"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/approvalbot/approvalbot/bot/client"
	"github.com/approvalbot/approvalbot/bot/wire"
	"github.com/approvalbot/approvalbot/gate"
	"github.com/approvalbot/approvalbot/store"
)

// open is a store on the server.
func (r *redisServer) open(t testing.TB) *store.Redis {
	t.Helper()
	c := store.Config{Fingerprints: ring(t).Fingerprints()}
	c.Redis.Addrs = []string{r.addr}
	s, err := store.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// answered is what a parked caller was told.
type answered struct {
	wire.ApprovalAnswer
	err error
}

// wait has the opener wait for an approval.
func (r *replica) wait(t *testing.T, id string, more ...string) <-chan answered {
	t.Helper()
	c, out := r.as(t, "hermes", more...), make(chan answered, 1)
	go func() {
		a, err := c.Wait(t.Context(), id)
		out <- answered{a, err}
	}()
	return out
}

func TestRedisAwayAndBack(t *testing.T) {
	t.Parallel()
	server := startRedis(t)
	r := start(t, server.open(t), rules())
	opened := r.open(t, "hermes", "held")
	waiting := r.wait(t, opened.Approval.ID)
	held := make(chan reply, 1) // one long poll, which nobody sends again
	go func() {
		held <- r.send(t, "hermes", http.MethodGet, "/v1/approvals/"+opened.Approval.ID+"?wait=60s", "")
	}()
	eventually(t, func() bool { return r.hub.Waiting() == 2 })

	server.stop(t)
	r.hub.Everyone() // they look, in vain
	began := time.Now()
	a, err := r.as(t, "hermes").Check(t.Context(), ask("held"), 0)
	if err != nil || a.Verdict != "block" || a.Reason != "store_unavailable" || time.Since(began) > 2*time.Second {
		t.Errorf("check of a designated call with Redis away: %+v, %v after %v; want block, store_unavailable within 2 s", a.Answer, err, time.Since(began))
	}
	if a, err := r.as(t, "hermes").Check(t.Context(), ask("free"), 0); err != nil || a.Verdict != "allow" {
		t.Errorf("check of an undesignated call: %+v, %v; want allow", a.Answer, err)
	}
	if a, err := r.as(t, "hermes").Check(t.Context(), ask("drop_db"), 0); err != nil || a.Reason != "floor_denied" {
		t.Errorf("check of a call on the floor: %+v, %v; want floor_denied", a.Answer, err)
	}
	ready := r.send(t, "", http.MethodGet, "/readyz", "")
	if ready.status != http.StatusOK || !strings.Contains(string(ready.body), `"degraded"`) {
		t.Errorf("readyz = %d %s; want ready and degraded", ready.status, ready.body)
	}
	got := r.send(t, "ann-cli", http.MethodPost, "/v1/approvals/"+opened.Approval.ID, `{"decision":"approve","digest":"`+opened.Approval.Digest+`"}`)
	if p := got.answer(t); got.status != http.StatusServiceUnavailable || p.Code != "store_unavailable" || p.Verdict != "block" || got.header.Get("Retry-After") == "" {
		t.Errorf("decide = %d %s; want 503, store_unavailable, Retry-After", got.status, got.body)
	}
	select {
	case w := <-waiting:
		t.Fatalf("the waiter was answered during the outage: %+v", w)
	case h := <-held:
		t.Fatalf("the long poll was answered during the outage: %d %s", h.status, h.body)
	default:
	}

	// Redis comes back as another incarnation: what was pending is void and
	// asked again, and the one that waits waits for that.
	server.start(t)
	eventually(t, func() bool {
		return !strings.Contains(string(r.send(t, "", http.MethodGet, "/readyz", "").body), "degraded")
	})
	var again wire.ApprovalAnswer
	eventually(t, func() bool {
		again, err = r.as(t, "hermes").Get(t.Context(), opened.Approval.ID)
		return err == nil
	})
	if again.ID == opened.Approval.ID || again.Predecessor != opened.Approval.ID || !strings.HasPrefix(again.AgentText, "RE-ASKED.") {
		t.Fatalf("after the restart: %s %s %q; want a successor that says why", again.ID, again.State, again.AgentText)
	}
	if h := <-held; h.status != http.StatusOK || h.answer(t).Verdict != "ask" || !strings.Contains(string(h.body), again.ID) {
		t.Errorf("the long poll got %d %s; want the successor", h.status, h.body)
	}
	r.vote(t, "ann-cli", &again.Approval, "approve")
	w := <-waiting
	if w.err != nil || w.ID != again.ID || w.Next != "consume" || w.Token == "" {
		t.Errorf("the waiter got %+v, %v; want the token of the successor", w.Answer, w.err)
	}
}

func TestRedisHangsAndGoesOn(t *testing.T) {
	t.Parallel()
	server := startRedis(t)
	r := start(t, server.open(t), rules())
	r.open(t, "hermes", "held")
	if err := server.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for _, tool := range []string{"held", "staged"} {
		began := time.Now()
		a, err := r.as(t, "hermes").Check(t.Context(), ask(tool), 0)
		if err != nil || a.Verdict != "block" || a.Reason != "store_unavailable" || !strings.HasPrefix(a.AgentText, "NOT RUN.") || time.Since(began) > 2*time.Second {
			t.Errorf("%s: %+v, %v after %v; want block within 2 s, and no word of it being staged", tool, a.Answer, err, time.Since(began))
		}
	}
	if err := server.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool {
		a, err := r.as(t, "hermes").Check(t.Context(), ask("held"), 0)
		return err == nil && a.Verdict == "ask"
	})
}

func TestAnApprovalOfBeforeTheRestartIsVoid(t *testing.T) {
	t.Parallel()
	server := startRedis(t)
	r := start(t, server.open(t), rules())
	opened := r.open(t, "hermes", "held")
	r.vote(t, "ann-cli", opened.Approval, "approve")
	a, err := r.as(t, "hermes").Get(t.Context(), opened.Approval.ID)
	if err != nil {
		t.Fatal(err)
	}
	server.stop(t)
	server.start(t)
	eventually(t, func() bool {
		_, err = r.as(t, "hermes").Consume(t.Context(), a.ID, wire.ConsumeRequest{Token: a.Token, AttemptID: client.NewAttempt(), Call: ask("held").Call})
		return !errors.Is(err, gate.Unavailable)
	})
	var refused *client.Error
	if !errors.As(err, &refused) || refused.Code != "void" || refused.Verdict != "block" || !strings.HasPrefix(refused.AgentText, "RE-ASKED.") {
		t.Errorf("consume after the restart: %v; want void, and asked again", err)
	}
}

func TestTheDeathOfAReplicaLosesNoWaiter(t *testing.T) {
	t.Parallel()
	server := startRedis(t)
	first, second := startChild(t, server.addr), startChild(t, server.addr)
	r := first.replica()
	const callers = 20
	opened := r.open(t, "hermes", "held")
	var waiting []<-chan answered
	for range callers {
		waiting = append(waiting, r.wait(t, opened.Approval.ID, second.url))
	}
	eventually(t, func() bool { n, _ := first.ask(t, "count"); return n == callers })
	if err := first.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	second.replica().vote(t, "ann-cli", opened.Approval, "approve")
	for _, c := range waiting {
		if w := <-c; w.err != nil || w.Next != "consume" || w.Token == "" {
			t.Errorf("a caller got %+v, %v; want the decision from the other replica", w.Answer, w.err)
		}
	}
}

// TestNoWakeUpIsLost kills the connection of the tail again and again while
// people decide. Nothing but the tail wakes anyone here in time.
func TestNoWakeUpIsLost(t *testing.T) {
	t.Parallel()
	server := startRedis(t)
	r := start(t, server.open(t), rules())
	db := server.client()
	defer func() { _ = db.Close() }()
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		killTails(t.Context(), stop, db)
	}()
	const rounds = 40
	for range rounds {
		opened := r.open(t, "hermes", "held")
		waiting := r.wait(t, opened.Approval.ID)
		eventually(t, func() bool { return r.hub.Waiting() == 1 })
		r.vote(t, "ann-cli", opened.Approval, "approve")
		limit := time.NewTimer(5 * time.Second)
		select {
		case w := <-waiting:
			if w.err != nil || w.State != "approved" {
				t.Errorf("got %+v, %v; want approved", w.Answer, w.err)
			}
		case <-limit.C:
			t.Fatal("a wake-up was lost")
		}
		limit.Stop()
	}
	close(stop)
	<-stopped
}

func TestTooManyWaitersAreAnsweredAtOnce(t *testing.T) {
	t.Parallel()
	r := start(t, memory(t), rules(), func(c *apiConfig) { c.MaxParked = 1 })
	opened := r.open(t, "hermes", "held")
	first := r.wait(t, opened.Approval.ID)
	eventually(t, func() bool { return r.hub.Waiting() == 1 })
	got := r.send(t, "hermes", http.MethodGet, "/v1/approvals/"+opened.Approval.ID+"?wait=60s", "")
	if p := got.answer(t); got.status != http.StatusOK || p.Verdict != "ask" || p.Next != "wait" || got.header.Get("Retry-After") == "" {
		t.Errorf("%d %s; want how it stands, and when to come back", got.status, got.body)
	}
	r.vote(t, "ann-cli", opened.Approval, "deny")
	if w := <-first; w.Reason != "denied" {
		t.Errorf("the first got %+v; want denied", w.Answer)
	}
}

func TestAKeyThatSendsTooMuchIsToldToWait(t *testing.T) {
	t.Parallel()
	r := start(t, memory(t), rules(), func(c *apiConfig) { c.PerKey, c.Burst = 0.001, 3 })
	for range 3 {
		r.open(t, "hermes", "held")
	}
	got := r.send(t, "hermes", http.MethodPost, "/v1/check", `{"call":{"tool":"held"},"requester":{}}`)
	if p := got.answer(t); got.status != http.StatusTooManyRequests || p.Code != "rate_limited" || p.Verdict != "block" || got.header.Get("Retry-After") == "" {
		t.Errorf("%d %s; want 429, rate_limited, Retry-After", got.status, got.body)
	}
	if other := r.send(t, "ann-cli", http.MethodGet, "/v1/grants", ""); other.status != http.StatusOK {
		t.Errorf("another key: %d; want it unharmed", other.status)
	}
}
