package console

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"

	"github.com/go-chi/chi/v5"

	"github.com/approvalbot/approvalbot/gate"
)

// Inbox is what the console asks of the gate about approvals.
type Inbox interface {
	Policy() *gate.Policy
	List(context.Context, gate.Principal, gate.Query) (gate.Page, error)
	Get(context.Context, gate.Principal, gate.ID) (gate.View, error)
	Decide(context.Context, gate.Decision) (gate.Tally, error)
	Revoke(ctx context.Context, id gate.ID, v gate.Voter, why string) (gate.Tally, error)
	Settle(ctx context.Context, id gate.ID, v gate.Voter, outcome gate.State, note string) error
	Rerun(ctx context.Context, id gate.ID, v gate.Voter) (gate.ID, error)
}

// Grants is what the console asks of the gate about standing permissions.
type Grants interface {
	Grants(context.Context, gate.Principal) ([]gate.Grant, error)
	RevokeGrant(ctx context.Context, p gate.Principal, id string) error
	ConfirmGrant(ctx context.Context, p gate.Principal, id string) error
}

// Wake tells that something has changed, never what. *bot.Hub is one.
type Wake interface {
	gate.Watcher
	// Any is Watch for whatever there is.
	Any() (changed <-chan struct{}, stop func())
}

// Config is what a console needs. Only Demo may be left out.
type Config struct {
	Inbox  Inbox
	Grants Grants
	Wake   Wake

	// Login says who holds a bearer key, Holder who holds the key of that name
	// now: a key that is taken out of the configuration logs its holder out.
	Login  func(bearer string) (gate.Principal, bool)
	Holder func(key string) (gate.Principal, bool)

	// Seal signs cookies and forms.
	Seal *gate.Keyring

	// PublicURL is where people reach the console; with https cookies are Secure.
	// It may be empty when nothing stands in front of the server.
	PublicURL string

	Notices func(context.Context) []string // which chats are out; nil: there is none

	Demo *DemoLink // nil: no such way in
	Log  *slog.Logger
}

// Console is the handler of /console and everything below. It is safe for
// concurrent use.
type Console struct {
	Config
	mux      http.Handler
	attempts *limiter
	ended    *ended
}

// New makes a console. Its event streams end with their request's context, so a
// server that shuts down must end that of its connections.
func New(cfg Config) (*Console, error) {
	c := &Console{Config: cfg, attempts: newLimiter(), ended: newEnded()}
	same := http.NewCrossOriginProtection()
	if cfg.PublicURL != "" {
		if err := same.AddTrustedOrigin(strings.TrimSuffix(cfg.PublicURL, "/")); err != nil {
			return nil, fmt.Errorf("console: public URL: %w", err)
		}
	}
	same.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		c.fail(w, nil, http.StatusForbidden, "This press came from another site. Nothing was decided.")
	}))
	c.mux = guard(same.Handler(c.routes()))
	return c, nil
}

// ServeHTTP implements http.Handler.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) { c.mux.ServeHTTP(w, r) }

// routes lists the pages. Those wrapped in page need a session, those in press a
// session and a token that only its own pages carry.
func (c *Console) routes() http.Handler {
	r := chi.NewRouter()
	r.Get("/console", to("/console/"))
	r.Get("/console/static/{file}", static)
	r.Get("/console/login", c.loginPage)
	r.Post("/console/login", c.login)
	if c.Demo != nil {
		r.Get("/console/demo", c.demoPage)
		r.Post("/console/demo", c.demo)
	}
	r.Get("/console/", c.page(c.inbox))
	r.Get("/console/approvals/{id}", c.page(c.approval))
	r.Get("/console/history", c.page(c.history))
	r.Get("/console/grants", c.page(c.grants))
	r.Get("/console/events", c.page(c.events))
	r.Post("/console/approvals/{id}", c.press(c.decide))
	r.Post("/console/grants/{id}", c.press(c.grant))
	r.Post("/console/logout", c.press(c.logout))
	r.NotFound(func(w http.ResponseWriter, _ *http.Request) {
		c.fail(w, nil, http.StatusNotFound, "There is no such page.")
	})
	r.MethodNotAllowed(func(w http.ResponseWriter, _ *http.Request) {
		c.fail(w, nil, http.StatusMethodNotAllowed, "That does not work on this page.")
	})
	return r
}

func to(path string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, path, http.StatusSeeOther) }
}

// maxForm bounds a posted form in bytes.
const maxForm = 64 << 10

// policy allows what the embedded files need and nothing else: no inline code,
// no foreign host, no frame.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; " +
	"img-src 'self' data:; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// guard sets what every answer carries and bounds what every request may.
func guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Frame-Options", "DENY")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		next.ServeHTTP(w, r)
	})
}
