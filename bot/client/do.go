package client

import (
	"context"
	"fmt"
	"time"

	"github.com/approvalbot/approvalbot/bot/wire"
)

// NotRun says that a call must not run now, and why. Answer has the sentence for
// the model.
type NotRun struct {
	wire.Answer
	Approval *wire.Approval // if there is one; a staged call can be waited for by its id
}

func (e *NotRun) Error() string { return e.AgentText }

// reportWithin bounds the report of a call whose context may have ended.
const reportWithin = 15 * time.Second

// Do asks for a call, waits for people as long as ctx lasts and somebody waits,
// and calls run at most once, only if the call may run. It returns run's error,
// a *NotRun, or what went wrong; then run was not called.
//
// A staged call returns a *NotRun: Do does not wait for hours. Call Do again with
// the same idempotency key once it is approved.
func (c *Client) Do(ctx context.Context, r wire.CheckRequest, run func(context.Context) error) error {
	a, err := c.Check(ctx, r, pollFor)
	if err != nil {
		return err
	}
	if a.Next == "wait" && a.Approval != nil {
		decided, err := c.waitInline(ctx, a.Approval.ID)
		if err != nil {
			return err
		}
		a = wire.CheckAnswer{Answer: decided.Answer, Approval: &decided.Approval, Token: decided.Token}
	}
	switch {
	case a.Verdict == "allow":
		return run(ctx)
	case a.Verdict == "ask" && a.Next == "consume" && a.Approval != nil && a.Token != "":
		return c.spend(ctx, r.Call, a, run)
	}
	return &NotRun{a.Answer, a.Approval}
}

// waitInline waits while there is something to wait for: an inline approval that
// was deferred meanwhile is not waited for any more.
func (c *Client) waitInline(ctx context.Context, id string) (wire.ApprovalAnswer, error) {
	for {
		a, err := c.get(ctx, id, pollFor)
		switch {
		case ctx.Err() != nil:
			return wire.ApprovalAnswer{}, ctx.Err()
		case err == nil && a.Next != "wait":
			return a, nil
		case err != nil && !retry(err, true):
			return wire.ApprovalAnswer{}, err
		case err != nil:
			sleep(ctx, time.Second)
		default:
			id = a.ID
		}
	}
}

func (c *Client) spend(ctx context.Context, what wire.Call, a wire.CheckAnswer, run func(context.Context) error) error {
	attempt := NewAttempt()
	yes, err := c.Consume(ctx, a.Approval.ID, wire.ConsumeRequest{Token: a.Token, AttemptID: attempt, Call: what})
	if err != nil {
		return err
	}
	if yes.Verdict != "allow" {
		return &NotRun{yes.Answer, yes.Approval}
	}
	report := wire.OutcomeRequest{Outcome: "failed", Token: a.Token, AttemptID: attempt, Note: "the caller panicked"}
	defer func() { // also if run panics: it started, and that must not stay unsaid
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reportWithin)
		defer cancel()
		_, _ = c.Report(ctx, a.Approval.ID, report) // lost: the outcome becomes unknown, and people settle it
	}()
	if err := run(ctx); err != nil {
		report.Note = fmt.Sprintf("%.4000s", err.Error())
		return err
	}
	report.Outcome, report.Note = "executed", ""
	return nil
}
