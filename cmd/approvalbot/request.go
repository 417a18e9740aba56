package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/approvalbot/approvalbot/bot/client"
	"github.com/approvalbot/approvalbot/bot/wire"
	"github.com/approvalbot/approvalbot/gate"
)

// asking is `request`: a call, and what to do about the answer.
type asking struct {
	callFlags
	intent, key string
	propose     bool
	wait        bool
	timeout     time.Duration
}

const exitHelp = `Exit codes: 0 it may run, or people said yes; 77 denied, by people or policy, or
used up; 75 nobody decided in time, or it was withdrawn; 69 the service or its store
is unreachable; 78 no address or key, or one the service does not take; 70 internal
error; 2 anything else.`

func newRequest(p process) *cobra.Command {
	var a asking
	c := &cobra.Command{
		Use: "request", Short: "ask whether a call may run",
		Long: `Asks the policy whether a call may run, and people if it says so. Without --wait it
prints the answer and exits: 0 if the call may run or people are asked, else 2.
With --wait it stays until they have decided.

That people said yes runs nothing and spends nothing: -o json has the token that
consumes the approval, once. With --propose people are asked by your own judgement,
whatever policy says; that authorises nothing but itself.

` + exitHelp,
		Example: `  approvalbot request --tool kubectl_delete --args '{"namespace":"prod"}' --wait
  approvalbot request --tool deploy --target web --args @call.json --key "$CI_JOB_ID"
  approvalbot request --propose --tool fail_over --intent "primary is slow" --wait`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return request(cmd.Context(), p, &a, asJSON(cmd)) },
	}
	a.bind(c)
	f := c.Flags()
	f.StringVar(&a.intent, "intent", "", "why, in your own words")
	f.StringVar(&a.key, "key", "", "idempotency key: the same key and call get the same approval")
	f.BoolVar(&a.propose, "propose", false, "ask people whatever policy says")
	f.BoolVar(&a.wait, "wait", false, "stay until people have decided")
	f.DurationVar(&a.timeout, "timeout", 0, "with --wait: give up after this long; 0 never")
	return c
}

func request(ctx context.Context, p process, a *asking, jsonOut bool) error {
	call, err := a.call(p.in)
	if err != nil {
		return err
	}
	c, err := connect(p)
	if err != nil {
		return a.failed(err)
	}
	r, err := a.ask(ctx, c, call)
	if err != nil {
		return a.failed(err)
	}
	if !a.wait || r.Approval == nil || r.Verdict != string(gate.Ask) {
		return a.answered(p, r, jsonOut)
	}
	return wait(ctx, p, c, r.Approval.ID, a.timeout, jsonOut)
}

func (a *asking) ask(ctx context.Context, c *client.Client, call gate.Call) (wire.CheckAnswer, error) {
	attended := a.wait && !a.deferred // somebody waits
	who := wire.Requester{Agent: a.agent, Session: a.session, Person: a.person, Attended: &attended}
	if a.propose {
		return c.Propose(ctx, wire.ProposeRequest{Call: wired(call), Requester: who, Intent: a.intent, Mode: string(a.mode()), IdempotencyKey: a.key}, 0)
	}
	return c.Check(ctx, wire.CheckRequest{Call: wired(call), Requester: who, Intent: a.intent, Mode: string(a.mode()), IdempotencyKey: a.key}, 0)
}

// failed gives an error the exit code that fits: only those who wait are told
// more than 2.
func (a *asking) failed(err error) error {
	if a.wait {
		return waitFailed(err)
	}
	return explainRefusal(err)
}

// answered prints an answer that is not waited for.
func (a *asking) answered(p process, r wire.CheckAnswer, jsonOut bool) error {
	var err error
	switch {
	case jsonOut:
		err = printJSON(p.out, r)
	case r.Approval != nil:
		err = newScreen(p).line("%s  %s", gate.Clean(r.Approval.ID), standing(r.Approval, r.Reason, time.Now()))
	case r.Verdict == string(gate.Allow):
		err = newScreen(p).line("may run (%s)", gate.Clean(r.Reason))
	}
	if err != nil || r.Verdict == string(gate.Allow) || r.Verdict == string(gate.Ask) {
		return err
	}
	code := exitBlock
	if a.wait {
		code = codeOf(r.Reason)
	}
	return &exitError{code, errors.New(gate.Clean(r.AgentText))}
}

// codeOf is the exit code for a call that must not run. What is not listed was
// refused by people or policy.
func codeOf(reason string) int {
	if code, ok := exitCodes[gate.Reason(reason)]; ok {
		return code
	}
	return exitDenied
}

var exitCodes = map[gate.Reason]int{
	gate.ReasonExpired: exitNoDecision, gate.ReasonCancelled: exitNoDecision, gate.ReasonLapsed: exitNoDecision,
	gate.ReasonUndeliverable: exitNoDecision, gate.ReasonVoid: exitNoDecision, gate.ReasonPolicyChanged: exitNoDecision,
	gate.ReasonRateLimited: exitNoDecision, gate.ReasonFrozen: exitNoDecision, gate.ReasonCooldown: exitNoDecision,
	gate.ReasonStoreUnavailable: exitUnreachable, gate.ReasonChannelUnavailable: exitUnreachable,
	gate.ReasonPolicyUnavailable: exitUnreachable, gate.ReasonClockDoubtful: exitUnreachable,
	gate.ReasonGateError: exitInternal,
}

// waitFailed is the error of somebody who waits, with its exit code.
func waitFailed(err error) error {
	code := exitUnreachable // no answer at all, or none of approvalbot
	refused, ok := errors.AsType[*client.Error](err)
	_, bare := errors.AsType[notSetUp](err)
	switch {
	case bare:
		code = exitConfig
	case !ok || refused.Code == "not_approvalbot":
	case errors.Is(err, gate.Forbidden):
		code = exitConfig
	case errors.Is(err, gate.Internal):
		code = exitInternal
	case !errors.Is(err, gate.Unavailable) && !errors.Is(err, gate.TooMany):
		code = exitBlock
	}
	return &exitError{code, explainRefusal(err)}
}
