package api_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/approvalbot/approvalbot/bot/client"
	"github.com/approvalbot/approvalbot/bot/wire"
	"github.com/approvalbot/approvalbot/gate"
)

func TestArgumentsComeBackByteForByte(t *testing.T) {
	t.Parallel()
	r := start(t, memory(t), rules())
	const raw = `{ "b" : 1.50,` + "\n\t" + `"a":"\u0041\/<>&\u2028 é" }`
	for name, call := range map[string]string{
		"as an object": `"args":` + raw,
		"in base64":    `"args_b64":"` + base64.StdEncoding.EncodeToString([]byte(raw)) + `"`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := r.send(t, "hermes", http.MethodPost, "/v1/check", `{"call":{"tool":"held",`+call+`},"requester":{"attended":true}}`)
			var a wire.CheckAnswer
			if err := json.Unmarshal(got.body, &a); err != nil || a.Approval == nil {
				t.Fatalf("%d %s", got.status, got.body)
			}
			if string(a.Approval.Call.ArgsB64) != raw {
				t.Errorf("got %q; want %q", a.Approval.Call.ArgsB64, raw)
			}
		})
	}
}

func TestRedactionIsForEveryoneButTheOpener(t *testing.T) {
	t.Parallel()
	r := start(t, memory(t), rules())
	id := r.open(t, "hermes", "secret").Approval.ID
	for _, key := range []string{"ann-cli", "books", "root"} {
		got := r.send(t, key, http.MethodGet, "/v1/approvals/"+id, "")
		var a wire.ApprovalAnswer
		if err := json.Unmarshal(got.body, &a); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(got.body), "hunter2") || a.Call.ArgsB64 != nil || !a.Call.Redacted || !strings.Contains(string(a.Call.Args), "[redacted, 7 characters]") {
			t.Errorf("%s sees %s; want it covered, and said so", key, got.body)
		}
	}
	a, err := r.as(t, "hermes").Get(t.Context(), id)
	if err != nil || string(a.Call.ArgsB64) != `{"n":1,"password":"hunter2"}` || a.Call.Redacted {
		t.Errorf("the opener sees %s, %v; want the bytes it sent", a.Call.ArgsB64, err)
	}
}

func TestAKnownVersionIsWaitedFor(t *testing.T) {
	t.Parallel()
	r := start(t, memory(t), rules())
	opened := r.open(t, "hermes", "two")
	path := "/v1/approvals/" + opened.Approval.ID
	first := r.send(t, "hermes", http.MethodGet, path, "")
	tag := first.header.Get("ETag")
	if again := r.send(t, "hermes", http.MethodGet, path, "", "If-None-Match", tag); tag == "" || again.status != http.StatusNotModified || len(again.body) > 0 {
		t.Errorf("the same version: %d %s; want 304", again.status, again.body)
	}
	if again := r.send(t, "hermes", http.MethodGet, path+"?wait=20ms", "", "If-None-Match", tag); again.status != http.StatusNotModified {
		t.Errorf("the same version after waiting: %d %s; want 304", again.status, again.body)
	}
	next := make(chan reply, 1)
	go func() { next <- r.send(t, "hermes", http.MethodGet, path+"?wait=60s", "", "If-None-Match", tag) }()
	eventually(t, func() bool { return r.hub.Waiting() == 1 })
	r.vote(t, "ann-cli", opened.Approval, "approve")
	got := <-next
	var a wire.ApprovalAnswer
	if err := json.Unmarshal(got.body, &a); err != nil || got.header.Get("ETag") == tag || !strings.HasPrefix(a.Waiting, "1 of 2 (") || len(a.Votes) != 1 {
		t.Errorf("after a vote: %d %s, %q, %d votes; want the next version", got.status, got.header.Get("ETag"), a.Waiting, len(a.Votes))
	}
}

func TestACheckThatWaitsIsAnsweredByTheDecision(t *testing.T) {
	t.Parallel()
	r := start(t, memory(t), rules())
	got := make(chan wire.CheckAnswer, 1)
	go func() {
		a, err := r.as(t, "hermes").Check(t.Context(), ask("held"), 30*time.Second)
		if err != nil {
			t.Error(err)
		}
		got <- a
	}()
	eventually(t, func() bool { return r.hub.Waiting() == 1 })
	page, err := r.as(t, "books").List(t.Context(), client.Query{State: "pending"})
	if err != nil || len(page.Approvals) != 1 || page.Pending != 1 || page.Approvals[0].Call.Args != nil {
		t.Fatalf("list = %+v, %v; want the one, without arguments", page, err)
	}
	r.vote(t, "ann-cli", &page.Approvals[0], "deny")
	if a := <-got; a.Verdict != "block" || a.Reason != "denied" || !strings.HasSuffix(a.AgentText, `"because"`) || a.Approval.State != "denied" {
		t.Errorf("the caller got %+v; want the denial with its reason", a.Answer)
	}
}

func TestOfManyWhoDecideAtOnceOneWinsAndTheOthersLearnWho(t *testing.T) {
	t.Parallel()
	r := start(t, memory(t), rules())
	opened := r.open(t, "hermes", "held").Approval
	var mu sync.Mutex
	var won, lost int
	var all sync.WaitGroup
	for i := range 20 {
		key, decision := "ann-cli", "approve"
		if i%2 == 1 {
			key, decision = "bo-cli", "deny"
		}
		all.Go(func() {
			d, err := r.as(t, key).Decide(t.Context(), opened.ID, wire.DecideRequest{Decision: decision, Digest: opened.Digest})
			mu.Lock()
			defer mu.Unlock()
			var refused *client.Error
			switch {
			case err == nil && d.Settled:
				won++
			case errors.As(err, &refused) && refused.Code == "already_decided" && refused.Status == http.StatusConflict &&
				refused.Approval != nil && refused.Approval.By != "" && refused.Approval.Decided != "" && refused.Detail != "":
				lost++
			default:
				t.Errorf("%+v, %v; want a win, or already_decided with who and when", d, err)
			}
		})
	}
	all.Wait()
	// A late denial of an approval takes it back: then there are two moves.
	if won < 1 || won > 2 || won+lost != 20 {
		t.Errorf("%d won, %d lost", won, lost)
	}
}

func TestFiftyConsumersOverThreeProcessesGetOneYes(t *testing.T) {
	t.Parallel()
	server := startRedis(t)
	var replicas []*replica
	for range 3 {
		replicas = append(replicas, startChild(t, server.addr).replica())
	}
	opened := replicas[0].open(t, "hermes", "held")
	replicas[1].vote(t, "ann-cli", opened.Approval, "approve")
	a, err := replicas[2].as(t, "hermes").Get(t.Context(), opened.Approval.ID)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	yes, codes := []string{}, map[string]int{}
	var all sync.WaitGroup
	spend := func(i int, attempt string) {
		got, err := replicas[i%3].as(t, "hermes").Consume(t.Context(), a.ID, wire.ConsumeRequest{Token: a.Token, AttemptID: attempt, Call: ask("held").Call})
		mu.Lock()
		defer mu.Unlock()
		var refused *client.Error
		switch {
		case errors.As(err, &refused):
			codes[refused.Code]++
		case err == nil && got.Verdict == "allow":
			yes = append(yes, attempt)
		default:
			t.Errorf("%+v, %v", got, err)
		}
	}
	for i := range 50 {
		all.Go(func() { spend(i, client.NewAttempt()) })
	}
	all.Wait()
	if len(yes) != 1 || codes["spent"] != 49 {
		t.Fatalf("%d yes, %v; want one yes and 49 spent", len(yes), codes)
	}
	for i := range 3 {
		spend(i, yes[0])
	}
	if len(yes) != 4 {
		t.Errorf("the same attempt repeated on three replicas: %d more yes; want the same yes each time", len(yes)-1)
	}
}

func TestAnExplanationPermitsNothing(t *testing.T) {
	t.Parallel()
	r := start(t, memory(t), rules())
	for tool, want := range map[string]wire.Would{
		"free":    {Verdict: "allow", Rung: "undesignated"},
		"drop_db": {Verdict: "block", Rung: "floor", Reason: "floor_denied"},
		"two":     {Verdict: "ask", Rung: "ask", Rule: "two", Mode: "inline", Quorum: 2},
	} {
		e, err := r.as(t, "hermes").Explain(t.Context(), wire.ExplainRequest{Call: wire.Call{Tool: tool}, Requester: wire.Requester{Attended: yes()}})
		if len(e.Would.Approvers) == 0 == (want.Quorum > 0) {
			t.Errorf("%s: approvers %v", tool, e.Would.Approvers)
		}
		e.Would.Approvers = nil
		if err != nil || e.Verdict != "block" || e.Would.Verdict != want.Verdict || e.Would.Rung != want.Rung || e.Would.Reason != want.Reason || e.Would.Rule != want.Rule || e.Would.Quorum != want.Quorum {
			t.Errorf("%s: %+v, %v; want block, and would %+v", tool, e, err, want)
		}
	}
}

func TestAGrantIsListedRevokedAndThenAsksAgain(t *testing.T) {
	t.Parallel()
	r := start(t, memory(t), rules())
	a := r.open(t, "hermes", "granted").Approval
	d, err := r.as(t, "ann-cli").Decide(t.Context(), a.ID, wire.DecideRequest{Decision: "approve", Scope: "always", Digest: a.Digest})
	if err != nil || d.Granted != "always" {
		t.Fatalf("decide = %+v, %v; want always granted", d.Granted, err)
	}
	check := func() wire.Answer {
		a, err := r.as(t, "hermes").Check(t.Context(), ask("granted"), 0)
		if err != nil {
			t.Fatal(err)
		}
		return a.Answer
	}
	if got := check(); got.Verdict != "allow" || got.Reason != "grant" {
		t.Errorf("with the grant: %+v; want allow", got)
	}
	grants, err := r.as(t, "books").Grants(t.Context())
	if err != nil || len(grants) != 1 || grants[0].Approval != a.ID || grants[0].Uses != 1 {
		t.Fatalf("grants = %+v, %v; want the one, used once", grants, err)
	}
	if err := r.as(t, "root").ConfirmGrant(t.Context(), grants[0].ID); err != nil {
		t.Error(err)
	}
	if err := r.as(t, "root").RevokeGrant(t.Context(), grants[0].ID); err != nil {
		t.Error(err)
	}
	if got := check(); got.Verdict != "ask" {
		t.Errorf("without the grant: %+v; want ask", got)
	}
}

func TestAnAnswerReachesTheApproverAndTheQuestionTheAgent(t *testing.T) {
	t.Parallel()
	r := start(t, memory(t), rules())
	a := r.open(t, "hermes", "held").Approval
	waiting := r.wait(t, a.ID)
	r.vote(t, "ann-cli", a, "needs_more_context")
	if w := <-waiting; w.Next != "answer" || len(w.Questions) != 1 || w.Questions[0].Text != "because" {
		t.Fatalf("the waiter got %+v, %+v; want the question", w.Answer, w.Questions)
	}
	if _, err := r.as(t, "hermes").Answer(t.Context(), a.ID, "for the report"); err != nil {
		t.Fatal(err)
	}
	seen, err := r.as(t, "ann-cli").Get(t.Context(), a.ID)
	if err != nil || seen.Questions[0].Answer != "for the report" {
		t.Errorf("the approver sees %+v, %v; want the answer", seen.Questions, err)
	}
}

func TestReadyzIsLoudAboutAGateThatIsOff(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		cfg  *gate.PolicyConfig
		note string
	}{
		"on":       {rules(), ""},
		"disabled": {&gate.PolicyConfig{}, "DISABLED"},
		"off":      {&gate.PolicyConfig{Mode: "off", ToolGate: rules().ToolGate}, "OFF"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := start(t, memory(t), tt.cfg)
			got := r.send(t, "", http.MethodGet, "/readyz", "")
			var h wire.Health
			if err := json.Unmarshal(got.body, &h); err != nil {
				t.Fatal(err)
			}
			if got.status != http.StatusOK || (h.Status == "ok") != (tt.note == "") || !strings.Contains(strings.Join(h.Notes, " "), tt.note) {
				t.Errorf("%d %+v; want 200 and %q", got.status, h, tt.note)
			}
			if live := r.send(t, "", http.MethodGet, "/healthz", ""); live.status != http.StatusOK {
				t.Errorf("healthz = %d; want 200", live.status)
			}
		})
	}
}

func TestASessionMayHaveAnyName(t *testing.T) {
	t.Parallel()
	r := start(t, memory(t), rules())
	const session = "a/b c?d#é%2f"
	req := ask("held")
	req.Requester.Session = session
	a, err := r.as(t, "hermes").Check(t.Context(), req, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.as(t, "hermes").EndSession(t.Context(), session); err != nil {
		t.Fatal(err)
	}
	if got, err := r.as(t, "hermes").Get(t.Context(), a.Approval.ID); err != nil || got.State != "cancelled" {
		t.Errorf("%s, %v; want it cancelled with its session", got.State, err)
	}
}

func TestACallerThatLeavesIsForgotten(t *testing.T) {
	t.Parallel()
	r := start(t, memory(t), rules())
	opened := r.open(t, "hermes", "held")
	ctx, leave := context.WithCancel(t.Context())
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_, _ = r.as(t, "hermes").Wait(ctx, opened.Approval.ID)
	}()
	eventually(t, func() bool { return r.hub.Waiting() == 1 })
	leave()
	<-gone
	eventually(t, func() bool { return r.hub.Waiting() == 0 })
	if a, err := r.as(t, "hermes").Get(t.Context(), opened.Approval.ID); err != nil || a.State != "pending" {
		t.Errorf("%s, %v; want it still pending: who leaves decides nothing", a.State, err)
	}
}

func TestWhoeverWaitsInlineIsToldWhenTheCallIsDeferred(t *testing.T) {
	t.Parallel()
	cfg := rules()
	cfg.ToolGate.Rules = append(cfg.ToolGate.Rules, gate.RuleConfig{
		Name: "soon", Match: gate.MatchConfig{Tool: "soon"}, Action: "ask", Mode: "inline", InlineTimeout: &gate.InlineTimeoutConfig{After: "1s", Then: "defer"},
	})
	r := start(t, memory(t), cfg)
	id := r.open(t, "hermes", "soon").Approval.ID
	polled := make(chan reply, 1)
	go func() { polled <- r.send(t, "hermes", http.MethodGet, "/v1/approvals/"+id+"?wait=60s", "") }()
	same := ask("soon")
	same.Join = true
	a, err := r.as(t, "hermes").Check(t.Context(), same, 30*time.Second)
	if err != nil || a.Verdict != "ask" || a.Next != "stop" || !strings.HasPrefix(a.AgentText, "STAGED, NOT RUN YET.") {
		t.Errorf("a check that waits: %+v, %v; want staged", a.Answer, err)
	}
	if p := <-polled; p.answer(t).Next != "stop" || !strings.Contains(string(p.body), `"mode":"deferred"`) {
		t.Errorf("a long poll: %s; want deferred", p.body)
	}
}
