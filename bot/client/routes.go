package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/approvalbot/approvalbot/bot/wire"
)

// pollFor is how long one request is held: well under the time-outs of proxies.
const pollFor = 25 * time.Second

// exact moves arguments to where no JSON encoder touches their bytes.
func exact(c wire.Call) wire.Call {
	if c.Args != nil && c.ArgsB64 == nil {
		c.Args, c.ArgsB64 = nil, c.Args
	}
	return c
}

// Check asks whether a call may run, and holds the line up to wait (at most 60 s)
// while people decide. Without an idempotency key it makes one, so that a lost
// answer can be asked for again and opens no second approval.
func (c *Client) Check(ctx context.Context, r wire.CheckRequest, wait time.Duration) (wire.CheckAnswer, error) {
	r.Call = exact(r.Call)
	if r.IdempotencyKey == "" && !r.Join {
		r.IdempotencyKey = NewAttempt()
	}
	return post[wire.CheckAnswer](ctx, c, call{path: "/v1/check" + holding(wait), in: r, wait: wait, again: true})
}

// Propose asks people by the agent's own judgement.
func (c *Client) Propose(ctx context.Context, r wire.ProposeRequest, wait time.Duration) (wire.CheckAnswer, error) {
	r.Call = exact(r.Call)
	if r.IdempotencyKey == "" && !r.Join {
		r.IdempotencyKey = NewAttempt()
	}
	return post[wire.CheckAnswer](ctx, c, call{path: "/v1/approvals" + holding(wait), in: r, wait: wait, again: true})
}

// Get reads one approval.
func (c *Client) Get(ctx context.Context, id string) (wire.ApprovalAnswer, error) {
	return c.get(ctx, id, 0)
}

func (c *Client) get(ctx context.Context, id string, wait time.Duration) (out wire.ApprovalAnswer, err error) {
	err = c.do(ctx, call{method: http.MethodGet, path: approval(id, "") + holding(wait), out: &out, wait: wait, again: true})
	return out, err
}

// Wait returns an approval once people have decided on it or ask something, or
// with the error of ctx. It goes on through outages and from replica to replica;
// only a refusal ends it.
func (c *Client) Wait(ctx context.Context, id string) (wire.ApprovalAnswer, error) {
	for {
		a, err := c.get(ctx, id, pollFor)
		switch {
		case ctx.Err() != nil:
			return wire.ApprovalAnswer{}, ctx.Err()
		case err == nil && (a.State != "pending" || a.Next == "answer"):
			return a, nil
		case err != nil && !retry(err, true):
			return wire.ApprovalAnswer{}, err
		case err == nil:
			id = a.ID // people may be asked again as another
		}
		if err != nil {
			sleep(ctx, time.Second)
		}
	}
}

// Query selects approvals; empty fields select everything.
type Query struct {
	State, Rule, Tool, Requester, Cursor string
	Limit                                int
}

// List returns a page of approvals, newest first.
func (c *Client) List(ctx context.Context, q Query) (out wire.ListAnswer, err error) {
	v := url.Values{}
	for name, value := range map[string]string{"state": q.State, "rule": q.Rule, "tool": q.Tool, "requester": q.Requester, "cursor": q.Cursor} {
		if value != "" {
			v.Set(name, value)
		}
	}
	if q.Limit > 0 {
		v.Set("limit", strconv.Itoa(q.Limit))
	}
	err = c.do(ctx, call{method: http.MethodGet, path: "/v1/approvals?" + v.Encode(), out: &out, again: true})
	return out, err
}

// Decide gives a person's decision. Without a nonce it makes one, so that a
// decision that is sent again counts once.
func (c *Client) Decide(ctx context.Context, id string, r wire.DecideRequest) (wire.DecideAnswer, error) {
	if r.Nonce == "" {
		r.Nonce = NewAttempt()
	}
	return post[wire.DecideAnswer](ctx, c, call{path: approval(id, ""), in: r, again: true})
}

// Consume spends a token: dispatch the call only if the verdict is allow.
func (c *Client) Consume(ctx context.Context, id string, r wire.ConsumeRequest) (wire.CheckAnswer, error) {
	r.Call = exact(r.Call)
	return post[wire.CheckAnswer](ctx, c, call{path: approval(id, "/consume"), in: r, again: true})
}

// Report says how a dispatch ended.
func (c *Client) Report(ctx context.Context, id string, r wire.OutcomeRequest) (wire.ApprovalAnswer, error) {
	return post[wire.ApprovalAnswer](ctx, c, call{path: approval(id, "/outcome"), in: r, again: true})
}

// Rerun asks people whether to run a call again whose outcome is unknown, and returns
// the new approval.
func (c *Client) Rerun(ctx context.Context, id string) (string, error) {
	out, err := post[wire.RerunAnswer](ctx, c, call{path: approval(id, "/rerun"), again: true})
	return out.ID, err
}

// Claim leases an approved call to run, and waits up to wait (at most 60 s) for one;
// nil if there is none. Nothing may run before it is started.
func (c *Client) Claim(ctx context.Context, r wire.ClaimRequest, wait time.Duration) (*wire.Work, error) {
	if r.Nonce == "" {
		r.Nonce = NewAttempt()
	}
	out, err := post[wire.ClaimAnswer](ctx, c, call{path: "/v1/work/claim" + holding(wait), in: r, wait: wait, again: true})
	return out.Work, err
}

// Start consumes a leased call: run it only if the verdict is allow.
func (c *Client) Start(ctx context.Context, id string, r wire.StartRequest) (wire.CheckAnswer, error) {
	return post[wire.CheckAnswer](ctx, c, call{path: atWork(id, "start"), in: r, again: true})
}

// Heartbeat says that a call is still being worked on.
func (c *Client) Heartbeat(ctx context.Context, id string, r wire.LeaseRequest) (wire.LeaseAnswer, error) {
	return post[wire.LeaseAnswer](ctx, c, call{path: atWork(id, "heartbeat"), in: r, again: true})
}

// Complete says how a started call ended.
func (c *Client) Complete(ctx context.Context, id string, r wire.CompleteRequest) error {
	_, err := post[wire.Answer](ctx, c, call{path: atWork(id, "complete"), in: r, again: true})
	return err
}

// Release gives a call back that was not started.
func (c *Client) Release(ctx context.Context, id string, r wire.LeaseRequest) error {
	_, err := post[wire.Answer](ctx, c, call{path: atWork(id, "release"), in: r, again: true})
	return err
}

func atWork(id, what string) string { return "/v1/work/" + url.PathEscape(id) + "/" + what }

// Cancel withdraws an approval that has not run.
func (c *Client) Cancel(ctx context.Context, id, reason string) (wire.ApprovalAnswer, error) {
	return post[wire.ApprovalAnswer](ctx, c, call{path: approval(id, "/cancel"), in: wire.CancelRequest{Reason: reason}})
}

// Answer answers an approver's question.
func (c *Client) Answer(ctx context.Context, id, text string) (wire.ApprovalAnswer, error) {
	return post[wire.ApprovalAnswer](ctx, c, call{path: approval(id, "/context"), in: wire.ContextRequest{Text: text}})
}

// Revoke takes an approval back before it runs.
func (c *Client) Revoke(ctx context.Context, id, reason string) (wire.DecideAnswer, error) {
	return post[wire.DecideAnswer](ctx, c, call{path: approval(id, "/revoke"), in: wire.RevokeRequest{Reason: reason}})
}

// EndSession ends a session of this API key.
func (c *Client) EndSession(ctx context.Context, session string) error {
	_, err := post[wire.Answer](ctx, c, call{path: "/v1/sessions/" + url.PathEscape(session) + "/end", again: true})
	return err
}

// SetBypass lets the calls of a session of an agent's key pass for a while.
func (c *Client) SetBypass(ctx context.Context, session string, r wire.BypassRequest) error {
	return c.do(ctx, call{
		method: http.MethodPut, path: "/v1/sessions/" + url.PathEscape(session) + "/bypass", in: r, out: &wire.Answer{}, again: true,
	})
}

// Grants lists the standing permissions.
func (c *Client) Grants(ctx context.Context) ([]wire.Grant, error) {
	var out wire.GrantsAnswer
	err := c.do(ctx, call{method: http.MethodGet, path: "/v1/grants", out: &out, again: true})
	return out.Grants, err
}

// RevokeGrant ends a standing permission.
func (c *Client) RevokeGrant(ctx context.Context, id string) error {
	return c.do(ctx, call{method: http.MethodDelete, path: "/v1/grants/" + url.PathEscape(id), out: &wire.Answer{}})
}

// ConfirmGrant lets a grant count again after the store failed over.
func (c *Client) ConfirmGrant(ctx context.Context, id string) error {
	_, err := post[wire.Answer](ctx, c, call{path: "/v1/grants/" + url.PathEscape(id) + "/confirm", again: true})
	return err
}

// Explain says what would become of a call, without asking anybody.
func (c *Client) Explain(ctx context.Context, r wire.ExplainRequest) (wire.ExplainAnswer, error) {
	r.Call = exact(r.Call)
	return post[wire.ExplainAnswer](ctx, c, call{path: "/v1/policy/explain", in: r, again: true})
}

func post[O any](ctx context.Context, c *Client, r call) (out O, err error) {
	r.method, r.out = http.MethodPost, &out
	if err = c.do(ctx, r); err != nil {
		var none O // half an answer is none
		return none, err
	}
	return out, nil
}

func approval(id, what string) string { return "/v1/approvals/" + url.PathEscape(id) + what }

func holding(wait time.Duration) string {
	if wait <= 0 {
		return ""
	}
	return "?wait=" + wait.String()
}
