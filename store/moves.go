package store

import (
	"context"
	"encoding/json"
	"time"

	"github.com/approvalbot/approvalbot/gate"
)

// Vote implements gate.Moves.
func (s *Redis) Vote(ctx context.Context, id gate.ID, b gate.Ballot) (gate.VoteResult, error) {
	const op = "store.Vote"
	v := &b.Vote
	vote, err := json.Marshal(v)
	if err != nil {
		return gate.VoteResult{}, &gate.Error{Op: op, Err: err}
	}
	g, err := encodeGrant(op, b.Grant)
	if err != nil {
		return gate.VoteResult{}, err
	}
	switch b.Settles {
	case "", gate.Approved, gate.Denied, gate.Revoked:
	default:
		return gate.VoteResult{}, invalid(op, "a vote approves, denies or revokes")
	}
	r, err := s.run(ctx, op, voteScript, string(id), b.Rev, b.Digest.Hex(), v.Voter.Identity(),
		fingerprint("press", v.Nonce, string(v.Choice)), vote, string(b.Settles), ms(b.RunFor),
		v.Voter.Name, v.Reason, voteNote(v), flag(b.EndsGrants),
		g.id, g.json, g.mac, g.expires, g.requester, g.session)
	if err != nil {
		return gate.VoteResult{}, err
	}
	return gate.VoteResult{SessionEnded: r.int(0) == 1}, nil
}

// voteNote is what an auditor needs to know of a vote and the card does not say.
func voteNote(v *gate.Vote) string {
	b, err := json.Marshal(struct {
		Choice gate.Choice `json:"choice"`
		Scope  gate.Scope  `json:"scope,omitempty"`
		Voter  gate.Voter  `json:"voter"`
		Groups []string    `json:"groups,omitempty"`
		Reason string      `json:"reason,omitempty"`
	}{v.Choice, v.Scope, v.Voter, v.Groups, v.Reason})
	if err != nil {
		return "" // strings always encode
	}
	return string(b)
}

// maxQuestions is how often an agent may be asked about one approval.
const maxQuestions = 5

// Ask implements gate.Moves. The time of the question is the store's.
func (s *Redis) Ask(ctx context.Context, id gate.ID, rev int64, q gate.Question) error {
	const op = "store.Ask"
	b, err := json.Marshal(gate.Question{By: q.By, Text: q.Text})
	if err != nil {
		return &gate.Error{Op: op, Err: err}
	}
	_, err = s.run(ctx, op, askScript, string(id), rev, q.By, b, maxQuestions)
	return err
}

// Answer implements gate.Moves.
func (s *Redis) Answer(ctx context.Context, id gate.ID, rev int64, text string) error {
	_, err := s.run(ctx, "store.Answer", answerScript, string(id), rev, text)
	return err
}

// Consume implements gate.Moves.
func (s *Redis) Consume(ctx context.Context, id gate.ID, c gate.Consumption) (gate.Consumed, error) {
	const op = "store.Consume"
	if c.Attempt == "" || len(c.Attempt) > maxValue {
		return gate.Consumed{}, invalid(op, "attempt: want 1 to 64 bytes")
	}
	r, err := s.run(ctx, op, consumeScript, string(id), c.Rev, c.Digest.Hex(), short(c.Principal), c.Attempt,
		c.Fence, string(c.Policy), flag(c.WillReport), ms(c.ReportIn), ms(gate.ReplayWindow))
	if err != nil {
		return gate.Consumed{}, err
	}
	return gate.Consumed{Started: r.time(0), Replayed: r.int(1) == 1}, nil
}

// Report implements gate.Moves. A genuine report of what is not executing here
// is recorded as a security event and is no error.
func (s *Redis) Report(ctx context.Context, id gate.ID, r gate.Report) error {
	const op = "store.Report"
	switch {
	case r.Outcome == gate.Executed, r.Outcome == gate.Failed:
	case r.Outcome == gate.OutcomeUnknown && r.Person == "":
	default:
		return invalid(op, "outcome: want executed, failed or, of the one who dispatched, outcome_unknown")
	}
	if len(r.Attempt) > maxValue {
		return invalid(op, "attempt: want at most 64 bytes")
	}
	_, err := s.run(ctx, op, reportScript, string(id), short(r.Principal), r.Attempt, r.Person, string(r.Outcome), r.Note, r.Result)
	return err
}

// Withdraw implements gate.Moves.
func (s *Redis) Withdraw(ctx context.Context, id gate.ID, w gate.Withdrawal) error {
	const op = "store.Withdraw"
	end := endOf(w.Event)
	if end == "" || end == gate.OutcomeUnknown || len(w.Reason) > maxValue {
		return invalid(op, "a withdrawal cancels, revokes or voids")
	}
	_, err := s.run(ctx, op, withdrawScript, string(id), string(w.Event), string(end), string(w.Reason), w.By, w.Note)
	return err
}

// Defer implements gate.Moves.
func (s *Redis) Defer(ctx context.Context, id gate.ID) error {
	_, err := s.run(ctx, "store.Defer", deferScript, string(id))
	return err
}

// sweepBatch keeps every run of a script under 5 ms.
const sweepBatch = 64

// Sweep implements gate.Moves. It settles at most 64 in one go.
func (s *Redis) Sweep(ctx context.Context, n int) (int, time.Duration, error) {
	r, err := s.run(ctx, "store.Sweep", sweepScript, min(max(n, 1), sweepBatch), s.retention.Milliseconds())
	if err != nil {
		return 0, 0, err
	}
	wait := time.Duration(r.int(1)) * time.Millisecond
	switch {
	case wait < 0:
		return int(r.int(0)), 0, nil
	case wait == 0: // more are due now
		wait = time.Millisecond
	}
	return int(r.int(0)), wait, nil
}

// Stale implements gate.Moves.
func (s *Redis) Stale(ctx context.Context, n int) ([]gate.ID, error) {
	r, err := s.run(ctx, "store.Stale", staleScript, min(max(n, 1), sweepBatch))
	if err != nil {
		return nil, err
	}
	var ids []gate.ID
	for i := range r {
		ids = append(ids, gate.ID(r.str(i)))
	}
	return ids, nil
}
