// Package api is the HTTP API: it reads requests strictly, says who asks, lets
// the gate rule, and writes the answers of package wire.
//
//	request ─▶ authenticate ─▶ role, rate ─▶ strict JSON ─▶ gate ─▶ answer or problem
//	                                                     └▶ parked until Hub says "look again"
//
// It decides nothing itself. Its OpenAPI document is generated from the types.
package api

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humachi"
	"github.com/go-chi/chi/v5"
	"golang.org/x/time/rate"

	"github.com/approvalbot/approvalbot/bot"
	"github.com/approvalbot/approvalbot/gate"
)

// Config is what an API is made of; the zero value of the limits is the default.
type Config struct {
	Gate *gate.Gate
	Keys *bot.Keys
	Log  gate.Log // what streams read
	Hub  *bot.Hub // says when to look again
	Out  *slog.Logger

	Notices func(context.Context) []string // which chats are out; nil: there is none
	Queues  map[string]time.Duration       // executors that workers run, and how long one of their calls may take

	// Callbacks says how far the messages to an approval's callback are; nil: nobody knows.
	Callbacks func(context.Context, gate.ID) (gate.Callbacks, error)

	MaxParked int        // callers held at once by this replica; 0 means 20,000
	PerKey    rate.Limit // requests a second of one API key; 0 means 50
	Burst     int        // of one API key; 0 means 100
}

// Limits of what is not configured.
const (
	maxBody     = 1 << 20
	maxWait     = 60 * time.Second
	bodyTimeout = 10 * time.Second
	// gateTimeout bounds everything but waiting: with the store away a caller
	// is told so within two seconds.
	gateTimeout = 1500 * time.Millisecond
)

// API serves HTTP. It is safe for concurrent use.
type API struct {
	Config
	router   chi.Router
	document *huma.OpenAPI
	limiters map[string]*rate.Limiter // one for each API key, so there are few
	parked   atomic.Int64
	note     atomic.Pointer[string]

	drained chan struct{} // closed when the process is about to stop
	drain   func()
}

// New makes the API of a gate.
func New(c Config) *API {
	if c.MaxParked == 0 {
		c.MaxParked = 20_000
	}
	if c.PerKey == 0 {
		c.PerKey = 50
	}
	if c.Burst == 0 {
		c.Burst = 100
	}
	a := &API{Config: c, router: chi.NewRouter(), limiters: map[string]*rate.Limiter{}}
	for _, p := range c.Keys.Principals() {
		a.limiters[p.Key] = rate.NewLimiter(c.PerKey, c.Burst)
	}
	a.drained = make(chan struct{})
	a.drain = sync.OnceFunc(func() { close(a.drained) })
	a.router.NotFound(a.notFound)
	a.router.MethodNotAllowed(a.methodNotAllowed)
	a.routes()
	return a
}

// Drain prepares the end of the process: the replica is not ready any more, and
// everyone who waits is answered with how things stand.
func (a *API) Drain() {
	a.drain()
	a.Hub.Everyone()
}

// Routes lists what is served, for tests and for whoever mounts it.
func (a *API) Routes() chi.Routes { return a.router }

// Parked is how many callers this replica holds, for metrics.
func (a *API) Parked() int { return int(a.parked.Load()) }

func (a *API) draining() bool {
	select {
	case <-a.drained:
		return true
	default:
		return false
	}
}

// Routes by the roles that may use them. Whose approval it is, and who may
// decide on it, is the gate's business.
var (
	agents   = []gate.Role{gate.RoleAgent}
	deciders = []gate.Role{gate.RoleApprover}
	admins   = []gate.Role{gate.RoleAdmin}
	workers  = []gate.Role{gate.RoleWorker}
	readers  = []gate.Role{gate.RoleApprover, gate.RoleAuditor, gate.RoleAdmin}
	keepers  = []gate.Role{gate.RoleApprover, gate.RoleAdmin}
	reports  = []gate.Role{gate.RoleAgent, gate.RoleApprover}
	everyone = []gate.Role{gate.RoleAgent, gate.RoleApprover, gate.RoleAuditor, gate.RoleAdmin}
)

// routes is the table of contents.
func (a *API) routes() {
	h := humachi.New(a.router, a.humaConfig())
	a.document = h.OpenAPI()

	post, get := http.MethodPost, http.MethodGet
	route(a, h, agents, op(post, "/v1/check", "check", "Ask whether a call may run"), a.check)
	route(a, h, agents, op(post, "/v1/approvals", "propose", "Ask people by the agent's own judgement"), a.propose)
	route(a, h, everyone, op(get, "/v1/approvals", "list", "List approvals, newest first"), a.list)
	route(a, h, everyone, op(get, "/v1/approvals/{id}", "get", "Read one approval, or wait for it to change"), a.get)
	route(a, h, deciders, op(post, "/v1/approvals/{id}", "decide", "Approve, deny, or ask for more context"), a.decide)
	route(a, h, agents, op(post, "/v1/approvals/{id}/consume", "consume", "Spend a token: the one way from approved to allow"), a.consume)
	route(a, h, reports, op(post, "/v1/approvals/{id}/outcome", "report", "Say how a dispatch ended"), a.report)
	route(a, h, agents, op(post, "/v1/approvals/{id}/cancel", "cancel", "Withdraw an approval that has not run"), a.cancel)
	route(a, h, agents, op(post, "/v1/approvals/{id}/context", "answer", "Answer an approver's question"), a.context)
	route(a, h, deciders, op(post, "/v1/approvals/{id}/revoke", "revoke", "Take an approval back before it runs"), a.revoke)
	route(a, h, deciders, op(post, "/v1/approvals/{id}/rerun", "rerun", "Ask whether to run a call again whose outcome is unknown"), a.rerun)
	route(a, h, workers, op(post, "/v1/work/claim", "claimWork", "Lease an approved call to run, or wait for one"), a.claimWork)
	route(a, h, workers, op(post, "/v1/work/{id}/start", "startWork", "Consume a leased call: run it if the verdict is allow"), a.startWork)
	route(a, h, workers, op(post, "/v1/work/{id}/heartbeat", "heartbeat", "Say that the call is still being worked on"), a.heartbeat)
	route(a, h, workers, op(post, "/v1/work/{id}/complete", "completeWork", "Say how a started call ended"), a.complete)
	route(a, h, workers, op(post, "/v1/work/{id}/release", "releaseWork", "Give a call back that was not started"), a.release)
	route(a, h, agents, op(post, "/v1/sessions/{id}/end", "endSession", "End a session of this API key"), a.endSession)
	route(a, h, admins, op(http.MethodPut, "/v1/sessions/{id}/bypass", "setBypass", "Let a session's calls pass for a while"), a.setBypass)
	route(a, h, readers, op(get, "/v1/grants", "listGrants", "List standing permissions"), a.listGrants)
	route(a, h, keepers, op(http.MethodDelete, "/v1/grants/{id}", "revokeGrant", "End a standing permission"), a.revokeGrant)
	route(a, h, keepers, op(post, "/v1/grants/{id}/confirm", "confirmGrant", "Let a grant count again after the store failed over"), a.confirmGrant)
	route(a, h, everyone, op(post, "/v1/policy/explain", "explain", "Say what would become of a call, without asking"), a.explain)

	a.plain(h, "/v1/events", "events", "Follow approvals as server-sent events", "text/event-stream", a.allowed(everyone, a.events))
	a.plain(h, "/healthz", "healthz", "Whether the process lives", "application/json", a.healthz)
	a.plain(h, "/readyz", "readyz", "Whether this replica serves, and what is wrong", "application/json", a.readyz)
	a.plain(h, "/openapi.json", "openapi", "This document", "application/json", a.openapi)
}
