package api

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humachi"

	"github.com/approvalbot/approvalbot/bot"
	"github.com/approvalbot/approvalbot/gate"
)

// authenticate says which API key a request carries, or why it goes no further.
// Whatever is wrong with the key, the answer is the same.
func (a *API) authenticate(r *http.Request) (*bot.Key, *problem) {
	scheme, bearer, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	key, known := a.Keys.Authenticate(bearer)
	if !known || !strings.EqualFold(scheme, "Bearer") {
		p := newProblem(http.StatusUnauthorized, "want Authorization: Bearer and an API key of approvalbot")
		p.headers.Set("WWW-Authenticate", "Bearer")
		return nil, p
	}
	if !a.limiters[key.Principal.Key].Allow() {
		return nil, problemOf(&gate.Error{Kind: gate.TooMany, Reason: gate.ReasonRateLimited, Op: "api", Public: "this API key sends too many requests"})
	}
	return key, nil
}

// admit authenticates and checks the role. Who tries what it may not is audited.
func (a *API) admit(r *http.Request, may []gate.Role, what string) (*bot.Key, *problem) {
	key, p := a.authenticate(r)
	if p != nil {
		return nil, p
	}
	if !slices.ContainsFunc(may, key.Has) {
		a.Gate.Refused(key.Principal, what+": not its role")
		return nil, problemOf(&gate.Error{Kind: gate.Forbidden, Op: "api", Public: "this API key may not do that; see its roles"})
	}
	return key, nil
}

// allowed is admit for a plain handler.
func (a *API) allowed(may []gate.Role, h func(http.ResponseWriter, *http.Request, *bot.Key)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		key, p := a.admit(r, may, r.Method+" "+r.URL.Path)
		if p != nil {
			p.write(w)
			return
		}
		h(w, r, key)
	}
}

type callerOf struct{}

// route registers an operation. The key is checked before a byte of the body is
// read; the handler gets it, and its errors become problems.
func route[I, O any](a *API, h huma.API, may []gate.Role, o huma.Operation, handle func(context.Context, *caller, *I) (*O, error)) {
	o.Security = []map[string][]string{{"key": {}}}
	o.Middlewares = huma.Middlewares{func(ctx huma.Context, next func(huma.Context)) {
		r, w := humachi.Unwrap(ctx)
		key, p := a.admit(r, may, o.Method+" "+o.Path)
		if p != nil {
			p.write(w)
			return
		}
		x, _ := w.(*exchange)
		next(huma.WithValue(ctx, callerOf{}, &caller{key, x}))
	}}
	huma.Register(h, o, func(ctx context.Context, in *I) (*O, error) {
		c, _ := ctx.Value(callerOf{}).(*caller)
		out, err := handle(ctx, c, in)
		if err != nil {
			return nil, a.fail(ctx, o.OperationID, err)
		}
		return out, nil
	})
}

// claim turns what a caller says of itself into who asks. An unlisted claim is
// audited, not only refused.
func (a *API) claim(key *bot.Key, r gate.Requester, origin gate.Conversation) (gate.Requester, error) {
	claimed, err := key.Claim(r, origin)
	if err != nil {
		a.Gate.Refused(key.Principal, "claim "+gate.PublicText(err))
	}
	return claimed, err
}

// calledBack refuses a callback that is not the key's to name, audited likewise.
func (a *API) calledBack(key *bot.Key, address string) error {
	err := key.MayCallBack(address)
	if err != nil {
		a.Gate.Refused(key.Principal, gate.PublicText(err))
	}
	return err
}
