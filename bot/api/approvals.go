package api

import (
	"context"
	"net/http"

	"github.com/approvalbot/approvalbot/bot/wire"
	"github.com/approvalbot/approvalbot/gate"
)

// Named is an approval named in the path. Huma sets only what is exported.
type Named struct {
	ID string `path:"id" maxLength:"64" example:"apr_01ARZ3NDEKTSV4RRFFQ69G5FAV"`
}

type getInput struct {
	Named
	Wait        string `query:"wait" maxLength:"16" example:"25s" doc:"How long to wait, at most 60s: for the next version with If-None-Match, else until people have decided or ask."`
	IfNoneMatch string `header:"If-None-Match" maxLength:"128" doc:"The ETag that is known already; the answer is 304 if it is still the newest."`
}

// get reads one approval, or waits for it.
func (a *API) get(ctx context.Context, c *caller, in *getInput) (*waited[wire.ApprovalAnswer], error) {
	id, err := gate.ParseID(in.ID)
	if err != nil {
		return nil, err
	}
	wait, err := parseWait(in.Wait)
	if err != nil {
		return nil, err
	}
	known, busy := known{etag: in.IfNoneMatch}, ""
	if wait > 0 {
		held := a.hold(c, func(ctx context.Context) (answerer, error) {
			v, err := a.await(ctx, c, id, wait, known.still)
			if err != nil {
				return nil, err
			}
			return a.found(ctx, v, known.etag, "")
		})
		if held {
			return nil, nil
		}
		busy = retrySoon
	}
	v, err := a.look(ctx, c, id)
	if err != nil {
		return nil, err
	}
	return a.found(ctx, v, in.IfNoneMatch, busy)
}

// found is the answer about an approval, unless it is known already.
func (a *API) found(ctx context.Context, v *gate.View, known, busy string) (*waited[wire.ApprovalAnswer], error) {
	tag := etag(v.ID, v.Rev)
	if tag == known {
		return nil, unchanged(tag)
	}
	out := &waited[wire.ApprovalAnswer]{RetryAfter: busy, ETag: tag, Body: a.whole(v)}
	out.Body.Callback = a.callback(ctx, &v.Approval)
	return out, nil
}

// callback says whether an approval's callback has heard. It is a courtesy: what
// cannot be read now is left out.
func (a *API) callback(ctx context.Context, p *gate.Approval) *wire.Callback {
	if p.Callback == "" || a.Callbacks == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), gateTimeout)
	defer cancel()
	c, err := a.Callbacks(ctx, p.ID)
	if err != nil || c.State == "" {
		return nil
	}
	return &wire.Callback{State: string(c.State), Tries: c.Tries}
}

// known is what a caller knows that waits for news.
type known struct {
	etag string
	mode gate.Mode // as it was first seen
}

// still reports whether there is no news yet: of the version that is known, or
// else no decision, no question, and nobody who stopped waiting.
func (k *known) still(s *gate.Snapshot) bool {
	if k.etag != "" {
		return k.etag == etag(s.ID, s.Rev)
	}
	if k.mode == "" {
		k.mode = s.Approval.Mode
	}
	return s.State == gate.Pending && !s.Asked() && s.Approval.Mode == k.mode
}

func (a *API) look(ctx context.Context, c *caller, id gate.ID) (*gate.View, error) {
	ctx, cancel := context.WithTimeout(ctx, gateTimeout)
	defer cancel()
	v, err := a.Gate.Get(ctx, c.Principal, id)
	return &v, err
}

// unchanged is HTTP's answer without a body.
func unchanged(tag string) *problem {
	p := newProblem(http.StatusNotModified, "")
	p.headers.Set("ETag", tag)
	return p
}

type listInput struct {
	State     string `query:"state" enum:"pending,approved,leased,executing,executed,failed,outcome_unknown,denied,expired,cancelled,lapsed,revoked,void"`
	Rule      string `query:"rule" maxLength:"64"`
	Tool      string `query:"tool" maxLength:"256"`
	Requester string `query:"requester" maxLength:"64" doc:"Name of an API key; an agent may list its own."`
	Cursor    string `query:"cursor" maxLength:"256"`
	Limit     int    `query:"limit" minimum:"1" maximum:"200" default:"50"`
}

func (a *API) list(ctx context.Context, c *caller, in *listInput) (*output[wire.ListAnswer], error) {
	ctx, cancel := context.WithTimeout(ctx, gateTimeout)
	defer cancel()
	page, err := a.Gate.List(ctx, c.Principal, gate.Query{
		State: gate.State(in.State), Rule: in.Rule, Tool: in.Tool, Requester: in.Requester, Cursor: in.Cursor, Limit: in.Limit,
	})
	if err != nil {
		return nil, err
	}
	body := wire.ListAnswer{Answer: nothing(), Approvals: []wire.Approval{}, Pending: page.Pending, Cursor: page.Next, Notices: a.notices(ctx)}
	for i := range page.Rows {
		body.Approvals = append(body.Approvals, row(&page.Rows[i]))
	}
	return &output[wire.ListAnswer]{body}, nil
}

type decideInput struct {
	Named
	Body wire.DecideRequest
}

// decide is a person's vote, given with an API c.
func (a *API) decide(ctx context.Context, c *caller, in *decideInput) (*output[wire.DecideAnswer], error) {
	id, err := gate.ParseID(in.ID)
	if err != nil {
		return nil, err
	}
	digest, err := gate.ParseDigest(in.Body.Digest)
	if err != nil {
		return nil, err
	}
	choice := gate.Choice(in.Body.Decision)
	if choice == "allow" {
		choice = gate.Approve
	}
	ctx, cancel := context.WithTimeout(ctx, gateTimeout)
	defer cancel()
	t, err := a.Gate.Decide(ctx, gate.Decision{
		ID: id, Voter: c.Voter("api"), Choice: choice, Scope: gate.Scope(in.Body.Scope),
		Reason: in.Body.Reason, Digest: digest, Nonce: in.Body.Nonce,
	})
	return a.decided(ctx, c, id, t, err)
}

func (a *API) decided(ctx context.Context, c *caller, id gate.ID, t gate.Tally, err error) (*output[wire.DecideAnswer], error) {
	if err != nil {
		return nil, a.stands(ctx, c, id, err)
	}
	v, err := a.Gate.Get(ctx, c.Principal, id)
	if err != nil {
		return nil, err
	}
	body := wire.DecideAnswer{ApprovalAnswer: a.whole(&v), Settled: t.Settled, SessionEnded: t.SessionEnded}
	if v.State == gate.Approved {
		body.Granted = string(t.Scope)
	}
	return &output[wire.DecideAnswer]{body}, nil
}

// stands adds to a refusal where the approval stands: who came too late learns
// who decided, and when.
func (a *API) stands(ctx context.Context, c *caller, id gate.ID, cause error) error {
	if gate.KindOf(cause) != gate.Conflict {
		return cause
	}
	v, err := a.Gate.Get(ctx, c.Principal, id)
	if err != nil {
		return cause
	}
	shown := a.whole(&v)
	return problemOf(cause).about(&shown.Approval, shown.AgentText)
}

type cancelInput struct {
	Named
	Body wire.CancelRequest
}

func (a *API) cancel(ctx context.Context, c *caller, in *cancelInput) (*output[wire.ApprovalAnswer], error) {
	return a.change(ctx, c, in.ID, func(ctx context.Context, id gate.ID) error {
		return a.Gate.Cancel(ctx, c.Principal, id, in.Body.Reason)
	})
}

type contextInput struct {
	Named
	Body wire.ContextRequest
}

func (a *API) context(ctx context.Context, c *caller, in *contextInput) (*output[wire.ApprovalAnswer], error) {
	return a.change(ctx, c, in.ID, func(ctx context.Context, id gate.ID) error {
		return a.Gate.Answer(ctx, c.Principal, id, in.Body.Text)
	})
}

type revokeInput struct {
	Named
	Body wire.RevokeRequest
}

func (a *API) revoke(ctx context.Context, c *caller, in *revokeInput) (*output[wire.DecideAnswer], error) {
	id, err := gate.ParseID(in.ID)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, gateTimeout)
	defer cancel()
	t, err := a.Gate.Revoke(ctx, id, c.Voter("api"), in.Body.Reason)
	return a.decided(ctx, c, id, t, err)
}

// change does something to an approval and answers with how it stands then.
func (a *API) change(ctx context.Context, c *caller, id string, do func(context.Context, gate.ID) error) (*output[wire.ApprovalAnswer], error) {
	parsed, err := gate.ParseID(id)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, gateTimeout)
	defer cancel()
	if err := do(ctx, parsed); err != nil {
		return nil, a.stands(ctx, c, parsed, err)
	}
	v, err := a.Gate.Get(ctx, c.Principal, parsed)
	if err != nil {
		return nil, err
	}
	return &output[wire.ApprovalAnswer]{a.whole(&v)}, nil
}
