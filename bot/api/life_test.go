package api_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/approvalbot/approvalbot/bot/client"
	"github.com/approvalbot/approvalbot/bot/wire"
	"github.com/approvalbot/approvalbot/gate"
)

func sha256Hex(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

func TestAHeldCallIsApprovedConsumedOnceAndReported(t *testing.T) {
	t.Parallel()
	r := start(t, memory(t), rules())
	opened := r.open(t, "hermes", "held")
	if opened.Verdict != "ask" || opened.Next != "wait" {
		t.Fatalf("check = %+v; want ask, wait", opened.Answer)
	}
	woken := make(chan wire.ApprovalAnswer, 1)
	go func() {
		a, err := r.as(t, "hermes").Wait(t.Context(), opened.Approval.ID)
		if err != nil {
			t.Error(err)
		}
		woken <- a
	}()
	if d := r.vote(t, "ann-cli", opened.Approval, "allow"); !d.Settled || d.Token != "" || d.Verdict == "allow" {
		t.Fatalf("decide = %+v; want settled, and no token or allow for the approver", d)
	}
	a := <-woken
	if a.State != "approved" || a.Next != "consume" || a.Token == "" || a.By != "ann" {
		t.Fatalf("waiter got %+v; want the token", a)
	}
	spend := wire.ConsumeRequest{Token: a.Token, AttemptID: client.NewAttempt(), Call: ask("held").Call}
	for range 2 { // the same attempt gets the same yes
		yes, err := r.as(t, "hermes").Consume(t.Context(), a.ID, spend)
		if err != nil || yes.Verdict != "allow" || yes.Next != "run" {
			t.Fatalf("consume = %+v, %v; want allow", yes.Answer, err)
		}
	}
	spend.AttemptID = client.NewAttempt()
	if _, err := r.as(t, "hermes").Consume(t.Context(), a.ID, spend); !errors.Is(err, gate.Conflict) {
		t.Fatalf("second attempt: %v; want a conflict", err)
	}
	done, err := r.as(t, "hermes").Report(t.Context(), a.ID, wire.OutcomeRequest{Outcome: "executed", Token: a.Token})
	if err != nil || done.State != "executed" || done.Verdict != "block" {
		t.Fatalf("report = %+v, %v; want executed, and never allow", done, err)
	}
}

func TestDoRunsAtMostOnceAndOnlyIfItMay(t *testing.T) {
	t.Parallel()
	r := start(t, memory(t), rules())
	for name, tt := range map[string]struct {
		tool, decision string
		runs           int
		reason         string
	}{
		"an undesignated call runs":         {"free", "", 1, ""},
		"an approved call runs":             {"held", "approve", 1, ""},
		"a denied call does not run":        {"held", "deny", 0, "denied"},
		"a call on the floor does not run":  {"drop_db", "", 0, "floor_denied"},
		"a staged call does not run by now": {"staged", "", 0, "ask"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var voting sync.WaitGroup
			defer voting.Wait()
			req := ask(tt.tool)
			req.IdempotencyKey = name
			if tt.decision != "" {
				opened, err := r.as(t, "hermes").Check(t.Context(), req, 0)
				if err != nil {
					t.Fatal(err)
				}
				voting.Go(func() {
					d := wire.DecideRequest{Decision: tt.decision, Digest: opened.Approval.Digest}
					if _, err := r.as(t, "ann-cli").Decide(t.Context(), opened.Approval.ID, d); err != nil {
						t.Error(err)
					}
				})
			}
			runs := 0
			err := r.as(t, "hermes").Do(t.Context(), req, func(context.Context) error { runs++; return nil })
			var not *client.NotRun
			if runs != tt.runs || errors.As(err, &not) != (tt.reason != "") || not != nil && not.Reason != tt.reason {
				t.Errorf("runs = %d, %v; want %d and reason %q", runs, err, tt.runs, tt.reason)
			}
		})
	}
}

func TestALongPollEndsAtOnceWhenTheReplicaDrains(t *testing.T) {
	t.Parallel()
	r := start(t, memory(t), rules())
	opened := r.open(t, "hermes", "held")
	answered := make(chan reply, 1)
	go func() {
		answered <- r.send(t, "hermes", http.MethodGet, "/v1/approvals/"+opened.Approval.ID+"?wait=60s", "")
	}()
	eventually(t, func() bool { return r.hub.Waiting() == 1 })
	began := time.Now()
	r.api.Drain()
	got := <-answered
	if p := got.answer(t); got.status != http.StatusOK || p.Verdict != "ask" || p.Next != "wait" || time.Since(began) > 5*time.Second {
		t.Errorf("answer = %d %+v after %v; want how it stands, at once", got.status, p.Answer, time.Since(began))
	}
	if ready := r.send(t, "", http.MethodGet, "/readyz", ""); ready.status != http.StatusServiceUnavailable {
		t.Errorf("readyz = %d while draining; want 503", ready.status)
	}
}
