package api

import (
	"context"
	"time"

	"github.com/approvalbot/approvalbot/bot/wire"
	"github.com/approvalbot/approvalbot/gate"
)

type sessionInput struct {
	ID string `path:"id" maxLength:"256" doc:"Name of a session of this API c."`
}

// endSession ends a session of the caller's own.
func (a *API) endSession(ctx context.Context, c *caller, in *sessionInput) (*output[wire.Answer], error) {
	return a.standing(ctx, func(ctx context.Context) error {
		return a.Gate.EndSession(ctx, c.Principal, in.ID)
	})
}

type bypassInput struct {
	ID   string `path:"id" maxLength:"256" doc:"Name of a session of the agent's API c."`
	Body wire.BypassRequest
}

func (a *API) setBypass(ctx context.Context, c *caller, in *bypassInput) (*output[wire.Answer], error) {
	d, err := time.ParseDuration(in.Body.For)
	if err != nil {
		return nil, &gate.Error{Kind: gate.Invalid, Op: "api", Public: "for: want a time such as 2h, at most 8h"}
	}
	return a.standing(ctx, func(ctx context.Context) error {
		return a.Gate.SetBypass(ctx, c.Principal, in.Body.Key, in.ID, d)
	})
}

// standing does something that is about no call.
func (a *API) standing(ctx context.Context, do func(context.Context) error) (*output[wire.Answer], error) {
	ctx, cancel := context.WithTimeout(ctx, gateTimeout)
	defer cancel()
	if err := do(ctx); err != nil {
		return nil, err
	}
	return &output[wire.Answer]{nothing()}, nil
}

func (a *API) listGrants(ctx context.Context, c *caller, _ *struct{}) (*output[wire.GrantsAnswer], error) {
	ctx, cancel := context.WithTimeout(ctx, gateTimeout)
	defer cancel()
	grants, err := a.Gate.Grants(ctx, c.Principal)
	if err != nil {
		return nil, err
	}
	body := wire.GrantsAnswer{Answer: nothing(), Grants: []wire.Grant{}}
	for i := range grants {
		body.Grants = append(body.Grants, grant(&grants[i]))
	}
	return &output[wire.GrantsAnswer]{body}, nil
}

func grant(g *gate.Grant) wire.Grant {
	return wire.Grant{
		ID: g.ID, Approval: string(g.Approval), Scope: string(g.Scope), Requester: requester(&g.Requester), Rule: g.Rule,
		Server: g.Server, Tool: g.Tool, Target: g.Target, Digest: g.Digest.String(),
		By: g.By, Created: stamp(g.Created), Expires: stamp(g.Expires), Uses: g.Uses, MaxUses: g.MaxUses,
	}
}

type grantInput struct {
	ID string `path:"id" maxLength:"64" example:"grt_01ARZ3NDEKTSV4RRFFQ69G5FAV"`
}

func (a *API) revokeGrant(ctx context.Context, c *caller, in *grantInput) (*output[wire.Answer], error) {
	return a.standing(ctx, func(ctx context.Context) error {
		return a.Gate.RevokeGrant(ctx, c.Principal, in.ID)
	})
}

func (a *API) confirmGrant(ctx context.Context, c *caller, in *grantInput) (*output[wire.Answer], error) {
	return a.standing(ctx, func(ctx context.Context) error {
		return a.Gate.ConfirmGrant(ctx, c.Principal, in.ID)
	})
}
