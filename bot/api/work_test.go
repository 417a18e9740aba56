package api_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/approvalbot/approvalbot/bot/api"
	"github.com/approvalbot/approvalbot/bot/client"
	"github.com/approvalbot/approvalbot/bot/wire"
	"github.com/approvalbot/approvalbot/gate"
)

// yard is a replica whose staged calls are run by workers.
func yard(t *testing.T) *replica {
	t.Helper()
	return start(t, memory(t), rules(), func(c *api.Config) { c.Queues = map[string]time.Duration{"batch": time.Hour} })
}

// ready is an approved call that waits for a worker.
func (r *replica) ready(t *testing.T) *wire.Approval {
	t.Helper()
	a := r.open(t, "hermes", "batch_run").Approval
	r.vote(t, "ann-cli", a, "approve")
	return a
}

func (r *replica) claim(t *testing.T, worker string, wait time.Duration) *wire.Work {
	t.Helper()
	w, err := r.as(t, "mule").Claim(t.Context(), wire.ClaimRequest{Queues: []string{"batch"}, WorkerID: worker}, wait)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func starting(w *wire.Work, worker string) wire.StartRequest {
	return wire.StartRequest{Token: w.Token, AttemptID: client.NewAttempt(), Digest: w.Digest, WorkerID: worker}
}

func TestAWorkerRunsAnApprovedCallWithoutItsAgent(t *testing.T) {
	t.Parallel()
	r := yard(t)
	mule := r.as(t, "mule")
	a := r.ready(t)
	if mine, err := r.as(t, "hermes").Get(t.Context(), a.ID); err != nil || mine.Token != "" || mine.Next != "stop" {
		t.Errorf("its opener is told %s with token %q, %v", mine.Next, mine.Token, err)
	}
	w := r.claim(t, "w1", 0)
	if w == nil || w.ID != a.ID || w.Digest != a.Digest || string(w.Call.ArgsB64) != string(a.Call.ArgsB64) || w.Requester.Key != "hermes" || w.By != "ann" || w.Generation != 1 {
		t.Fatalf("claimed %+v", w)
	}
	if again := r.claim(t, "w2", 0); again != nil {
		t.Errorf("another worker got %+v", again)
	}
	s := starting(w, "w1")
	for range 2 { // the second is the repetition of a lost answer
		if got, err := mule.Start(t.Context(), w.ID, s); err != nil || got.Verdict != "allow" {
			t.Fatalf("Start = %s, %v", got.Verdict, err)
		}
	}
	if until, err := mule.Heartbeat(t.Context(), w.ID, wire.LeaseRequest{Token: w.Token, WorkerID: "w1", Lease: "10m"}); err != nil || until.Until <= w.Until {
		t.Errorf("Heartbeat = %s, %v; it was %s", until.Until, err, w.Until)
	}
	done := wire.CompleteRequest{Token: w.Token, AttemptID: s.AttemptID, WorkerID: "w1", Outcome: "executed", Result: "restarted\nwith hunter2"}
	if err := mule.Complete(t.Context(), w.ID, done); err != nil {
		t.Fatal(err)
	}
	if got, err := r.as(t, "hermes").Get(t.Context(), a.ID); err != nil || got.State != "executed" || got.Result != "restarted\nwith [redacted]" || got.Note != "restarted" {
		t.Errorf("%s: %q (%q), %v", got.State, got.Result, got.Note, err)
	}
}

func TestAWorkerThatWaitsIsGivenACallWhenItIsApproved(t *testing.T) {
	t.Parallel()
	r := yard(t)
	got := make(chan *wire.Work, 1)
	go func() { got <- r.claim(t, "w1", time.Minute) }()
	eventually(t, func() bool { return r.api.Parked() == 1 })
	a := r.ready(t)
	select {
	case w := <-got:
		if w == nil || w.ID != a.ID {
			t.Errorf("claimed %+v, want %s", w, a.ID)
		}
	case <-time.After(time.Minute):
		t.Error("it was not told")
	}
}

func TestAWorkerThatWaitsIsAnsweredWhenTheReplicaDrains(t *testing.T) {
	t.Parallel()
	r := yard(t)
	got := make(chan *wire.Work, 1)
	go func() { got <- r.claim(t, "w1", time.Minute) }()
	eventually(t, func() bool { return r.api.Parked() == 1 })
	r.api.Drain()
	if w := <-got; w != nil {
		t.Errorf("claimed %+v", w)
	}
}

func TestWhatWorkersMayNotDo(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		do   func(t *testing.T, r *replica, w *wire.Work) error
		kind gate.Kind
		code string // reason
	}{
		"claim from a queue that is not among the key's": {func(t *testing.T, r *replica, _ *wire.Work) error {
			_, err := r.as(t, "mule").Claim(t.Context(), wire.ClaimRequest{Queues: []string{"other"}}, 0)
			return err
		}, gate.Forbidden, ""},
		"claim from an executor that runs by itself": {func(t *testing.T, r *replica, _ *wire.Work) error {
			_, err := r.as(t, "mule").Claim(t.Context(), wire.ClaimRequest{Queues: []string{"ops"}}, 0)
			return err
		}, gate.Invalid, ""},
		"hold a call for hours": {func(t *testing.T, r *replica, _ *wire.Work) error {
			_, err := r.as(t, "mule").Claim(t.Context(), wire.ClaimRequest{Queues: []string{"batch"}, Lease: "2h"}, 0)
			return err
		}, gate.Invalid, ""},
		"start what another worker holds": {func(t *testing.T, r *replica, w *wire.Work) error {
			_, err := r.as(t, "mule").Start(t.Context(), w.ID, starting(w, "w2"))
			return err
		}, gate.Conflict, "fenced"},
		"start another call": {func(t *testing.T, r *replica, w *wire.Work) error {
			s := starting(w, "w1")
			s.Digest = "sha256:" + strings.Repeat("1", 64)
			_, err := r.as(t, "mule").Start(t.Context(), w.ID, s)
			return err
		}, gate.Conflict, "digest_mismatch"},
		"start with a forged token": {func(t *testing.T, r *replica, w *wire.Work) error {
			s := starting(w, "w1")
			s.Token += "A"
			_, err := r.as(t, "mule").Start(t.Context(), w.ID, s)
			return err
		}, gate.Forbidden, "not_found"},
		"start twice": {func(t *testing.T, r *replica, w *wire.Work) error {
			_, err := r.as(t, "mule").Start(t.Context(), w.ID, starting(w, "w1"))
			if err != nil {
				t.Fatal(err)
			}
			_, err = r.as(t, "mule").Start(t.Context(), w.ID, starting(w, "w1"))
			return err
		}, gate.Conflict, "spent"},
		"start what was given back": {func(t *testing.T, r *replica, w *wire.Work) error {
			if err := r.as(t, "mule").Release(t.Context(), w.ID, wire.LeaseRequest{Token: w.Token, WorkerID: "w1"}); err != nil {
				t.Fatal(err)
			}
			_, err := r.as(t, "mule").Start(t.Context(), w.ID, starting(w, "w1"))
			return err
		}, gate.Conflict, "fenced"},
		"start what was taken back": {func(t *testing.T, r *replica, w *wire.Work) error {
			if _, err := r.as(t, "ann-cli").Revoke(t.Context(), w.ID, "no"); err != nil {
				t.Fatal(err)
			}
			_, err := r.as(t, "mule").Start(t.Context(), w.ID, starting(w, "w1"))
			return err
		}, gate.Conflict, "revoked"},
		"complete what was never started, as another worker": {func(t *testing.T, r *replica, w *wire.Work) error {
			_, err := r.as(t, "mule").Start(t.Context(), w.ID, starting(w, "w1"))
			if err != nil {
				t.Fatal(err)
			}
			return r.as(t, "mule").Complete(t.Context(), w.ID, wire.CompleteRequest{Token: w.Token, WorkerID: "w2", Outcome: "executed"})
		}, gate.Conflict, "fenced"},
		"run it again by itself": {func(t *testing.T, r *replica, w *wire.Work) error {
			_, err := r.as(t, "mule").Rerun(t.Context(), w.ID)
			return err
		}, gate.Forbidden, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := yard(t)
			r.ready(t)
			err := tt.do(t, r, r.claim(t, "w1", 0))
			var refused *client.Error
			if !errors.Is(err, tt.kind) || !errors.As(err, &refused) || refused.Reason != tt.code && tt.code != "" {
				t.Errorf("error = %v, want %v (%s)", err, tt.kind, tt.code)
			}
		})
	}
}

func TestAnUnknownOutcomeIsSettledOrRunAgainOverTheAPI(t *testing.T) {
	t.Parallel()
	r := yard(t)
	a := r.ready(t)
	w := r.claim(t, "w1", 0)
	s := starting(w, "w1")
	if _, err := r.as(t, "mule").Start(t.Context(), w.ID, s); err != nil {
		t.Fatal(err)
	}
	lost := wire.CompleteRequest{Token: w.Token, AttemptID: s.AttemptID, WorkerID: "w1", Outcome: "outcome_unknown", Result: "the connection broke"}
	if err := r.as(t, "mule").Complete(t.Context(), w.ID, lost); err != nil {
		t.Fatal(err)
	}
	again, err := r.as(t, "bo-cli").Rerun(t.Context(), a.ID)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := r.as(t, "ann-cli").Get(t.Context(), again); err != nil || !got.Rerun || got.Predecessor != a.ID || got.State != "pending" {
		t.Errorf("asked again as %+v, %v", got.Approval, err)
	}
	got, err := r.as(t, "ann-cli").Report(t.Context(), a.ID, wire.OutcomeRequest{Outcome: "executed", Note: "I saw it"})
	if err != nil || got.State != "executed" || got.SettledBy != "ann" || got.Result != "the connection broke" {
		t.Errorf("settled: %+v, %v", got.Approval, err)
	}
	if got, err := r.as(t, "ann-cli").Get(t.Context(), again); err != nil || got.State != "cancelled" {
		t.Errorf("what would have run it twice is %s, %v", got.State, err)
	}
}
