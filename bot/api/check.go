package api

import (
	"context"
	"time"

	"github.com/approvalbot/approvalbot/bot/wire"
	"github.com/approvalbot/approvalbot/gate"
	"github.com/approvalbot/approvalbot/gate/secret"
)

// output is an answer with nothing but a body.
type output[T any] struct{ Body T }

type checkInput struct {
	Wait string `query:"wait" maxLength:"16" example:"25s" doc:"How long to hold the answer while people decide, at most 60s."`
	Body wire.CheckRequest
}

// check is the one way in for calls. Trouble behind the gate is an answer, and
// the answer is no; a request that is wrong in itself is a problem.
func (a *API) check(ctx context.Context, c *caller, in *checkInput) (*waited[wire.CheckAnswer], error) {
	wait, err := parseWait(in.Wait)
	if err != nil {
		return nil, err
	}
	r, err := a.ruling(ctx, c, in.Body)
	if err != nil {
		return nil, err
	}
	return a.wait(c, r, wait), nil
}

// ruling asks the gate.
func (a *API) ruling(ctx context.Context, c *caller, in wire.CheckRequest) (*gate.Ruling, error) {
	r, err := a.request(c, in)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, gateTimeout)
	defer cancel()
	ruling, err := a.Gate.Check(ctx, r)
	if err == nil {
		return &ruling, nil
	}
	if kind := gate.KindOf(err); kind == gate.Internal || kind == gate.Unavailable {
		a.logFailure(ctx, "check", err)
		return &ruling, nil
	}
	return nil, a.ruledOut(&ruling, err)
}

// ruledOut is a problem that says what the ruling says.
func (a *API) ruledOut(r *gate.Ruling, err error) *problem {
	p := problemOf(err)
	p.Answer = answer(r)
	p.Verdict, p.Next = string(gate.Block), string(gate.NextStop)
	if r.Approval != nil {
		shown := a.approval(r.Approval, true)
		p.Approval = &shown
	}
	return p
}

// wait answers with a ruling, at once or when there is nothing to wait for.
func (a *API) wait(c *caller, r *gate.Ruling, d time.Duration) *waited[wire.CheckAnswer] {
	out := a.ruled(r)
	if r.Next != gate.NextWait || d == 0 {
		return out
	}
	id := r.Approval.ID
	held := a.hold(c, func(ctx context.Context) (answerer, error) {
		v, err := a.await(ctx, c, id, d, (*gate.Snapshot).Waits)
		if err != nil {
			return nil, err
		}
		return a.ruled(&v.Ruling), nil
	})
	if held {
		return nil
	}
	out.RetryAfter = retrySoon
	return out
}

func (a *API) ruled(r *gate.Ruling) *waited[wire.CheckAnswer] {
	out := &waited[wire.CheckAnswer]{Body: a.checked(r)}
	if r.Approval != nil {
		out.ETag = etag(r.Approval.ID, r.Approval.Rev)
	}
	return out
}

func (a *API) checked(r *gate.Ruling) wire.CheckAnswer {
	out := wire.CheckAnswer{Answer: answer(r), Token: r.Token.Reveal()}
	if r.Approval != nil {
		shown := a.approval(r.Approval, true)
		out.Approval = &shown
	}
	return out
}

// request is what the gate is asked. Who asks comes from the credential.
func (a *API) request(c *caller, in wire.CheckRequest) (gate.Request, error) {
	call, err := callOf(in.Call)
	if err != nil {
		return gate.Request{}, err
	}
	origin := place(in.Origin)
	who, err := a.claim(c.Key, requesterOf(in.Requester, in.Origin), origin)
	if err == nil {
		err = a.calledBack(c.Key, in.Callback)
	}
	return gate.Request{
		Call: call, Requester: who, Origin: origin, Intent: in.Intent, Mode: gate.Mode(in.Mode),
		Key: in.IdempotencyKey, Join: in.Join, Callback: in.Callback,
		Token: secret.New(in.Token), Attempt: in.AttemptID, NoReport: in.WillReport != nil && !*in.WillReport,
	}, err
}

// callOf takes the bytes of the arguments as they came.
func callOf(c wire.Call) (gate.Call, error) {
	call := gate.Call{Server: c.Server, Tool: c.Tool, Target: c.Target, Args: c.Args}
	if c.ArgsB64 != nil {
		if c.Args != nil {
			return call, &gate.Error{Kind: gate.Invalid, Reason: gate.ReasonInvalidArguments, Op: "api", Public: "call: give args or args_b64, not both"}
		}
		call.Args = c.ArgsB64
	}
	return call, nil
}

// requesterOf reads who asks. Whether somebody waits is for the caller to say;
// if it does not, somebody is there exactly if it says where.
func requesterOf(r wire.Requester, origin *wire.Place) gate.Requester {
	attended := origin != nil
	if r.Attended != nil {
		attended = *r.Attended
	}
	return gate.Requester{Agent: r.Agent, Run: r.Run, Session: r.Session, Person: r.Person, Attended: attended}
}

func place(p *wire.Place) gate.Conversation {
	if p == nil {
		return gate.Conversation{}
	}
	return gate.Conversation{Place: p.Place, Thread: p.Thread}
}

type proposeInput struct {
	Wait string `query:"wait" maxLength:"16" example:"25s" doc:"How long to hold the answer while people decide, at most 60s."`
	Body wire.ProposeRequest
}

// propose opens what an agent asks by its own judgement.
func (a *API) propose(ctx context.Context, c *caller, in *proposeInput) (*waited[wire.CheckAnswer], error) {
	wait, err := parseWait(in.Wait)
	if err != nil {
		return nil, err
	}
	r, err := a.proposal(ctx, c, in.Body)
	if err != nil {
		return nil, err
	}
	return a.wait(c, r, wait), nil
}

func (a *API) proposal(ctx context.Context, c *caller, in wire.ProposeRequest) (*gate.Ruling, error) {
	r, err := a.request(c, wire.CheckRequest{
		Call: in.Call, Requester: in.Requester, Origin: in.Origin, Intent: in.Intent, Mode: in.Mode,
		IdempotencyKey: in.IdempotencyKey, Join: in.Join, Callback: in.Callback,
	})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, gateTimeout)
	defer cancel()
	ruling, err := a.Gate.Propose(ctx, r)
	if err != nil {
		return nil, a.ruledOut(&ruling, err)
	}
	return &ruling, nil
}

type explainInput struct{ Body wire.ExplainRequest }

// explain is a dry run.
func (a *API) explain(_ context.Context, c *caller, in *explainInput) (*output[wire.ExplainAnswer], error) {
	call, err := callOf(in.Body.Call)
	if err != nil {
		return nil, err
	}
	who := requesterOf(in.Body.Requester, in.Body.Origin)
	if c.Has(gate.RoleAgent) {
		if who, err = a.claim(c.Key, who, place(in.Body.Origin)); err != nil {
			return nil, err
		}
	}
	e, err := a.Gate.Explain(gate.Request{Call: call, Requester: who, Mode: gate.Mode(in.Body.Mode)})
	if err != nil {
		return nil, err
	}
	would := wire.Would{Verdict: string(e.Verdict), Rung: string(e.Rung), Reason: string(e.Reason), Mode: string(e.Mode)}
	if e.Rule != nil {
		would.Rule, would.Quorum = e.Rule.Name, e.Rule.Quorum.Needed()
		for _, g := range e.Rule.Groups {
			would.Approvers = append(would.Approvers, g.Name)
		}
	}
	return &output[wire.ExplainAnswer]{wire.ExplainAnswer{Answer: nothing(), Would: would}}, nil
}
