package api

import (
	"context"

	"github.com/approvalbot/approvalbot/bot/wire"
	"github.com/approvalbot/approvalbot/gate"
	"github.com/approvalbot/approvalbot/gate/secret"
)

type consumeInput struct {
	Named
	Body wire.ConsumeRequest
}

// consume spends a token. Whatever fails burns nothing, and the same attempt may
// be sent again when its answer was lost.
func (a *API) consume(ctx context.Context, c *caller, in *consumeInput) (*output[wire.CheckAnswer], error) {
	id, err := gate.ParseID(in.ID)
	if err != nil {
		return nil, err
	}
	call, err := callOf(in.Body.Call)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, gateTimeout)
	defer cancel()
	r, err := a.Gate.Consume(ctx, gate.Spending{
		Principal: c.Principal.Key, ID: id, Token: secret.New(in.Body.Token), Attempt: in.Body.AttemptID, Call: call,
		NoReport: in.Body.WillReport != nil && !*in.Body.WillReport,
	})
	if err != nil {
		a.logFailure(ctx, "consume", err)
		return nil, a.ruledOut(&r, err)
	}
	return &output[wire.CheckAnswer]{a.checked(&r)}, nil
}

type reportInput struct {
	Named
	Body wire.OutcomeRequest
}

// report takes the word of the one who dispatched, proven by the token; or a
// person's, on a dispatch of which nobody else knows how it ended.
func (a *API) report(ctx context.Context, c *caller, in *reportInput) (*output[wire.ApprovalAnswer], error) {
	outcome := gate.State(in.Body.Outcome)
	return a.change(ctx, c, in.ID, func(ctx context.Context, id gate.ID) error {
		if c.Has(gate.RoleApprover) {
			if in.Body.Token != "" {
				return &gate.Error{Kind: gate.Invalid, Op: "api", Public: "token: an approver settles an outcome without one"}
			}
			return a.Gate.Settle(ctx, id, c.Voter("api"), outcome, in.Body.Note)
		}
		return a.Gate.Report(ctx, gate.Reporting{
			Principal: c.Principal.Key, ID: id, Token: secret.New(in.Body.Token), Attempt: in.Body.AttemptID,
			Outcome: outcome, Note: in.Body.Note, Result: in.Body.Result,
		})
	})
}
