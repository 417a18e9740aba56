package mattermosttest

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/approvalbot/approvalbot/channels/channeltest/double"
)

// object is a JSON object of which the double knows no more.
type object = map[string]any

// call is one request under way.
type call struct {
	*http.Request
	user  *user // who asks; nil where nobody must be logged in
	body  []byte
	stall <-chan struct{} // closed when the call may go on; nil if it may at once
	seen  *Outcome        // what a press or command does is noted here
}

func (c *call) path(name string) string {
	v, err := url.PathUnescape(chi.URLParam(c.Request, name))
	if err != nil {
		return chi.URLParam(c.Request, name)
	}
	return v
}

func (c *call) query(name string) string { return c.URL.Query().Get(name) }

// number reads a number from the query.
func (c *call) number(name string, otherwise int) int {
	if n, err := strconv.Atoi(c.query(name)); err == nil && n >= 0 {
		return n
	}
	return otherwise
}

// read decodes the body as what it is called in errors.
func (c *call) read(what string, v any) error {
	if err := json.Unmarshal(c.body, v); err != nil {
		return invalidBody(what)
	}
	return nil
}

// answer is what a call gets when nothing is wrong with it.
type answer struct {
	status int
	body   any // JSON, or text
}

func ok(body any) answer { return answer{http.StatusOK, body} }

func created(body any) answer { return answer{http.StatusCreated, body} }

var done = ok(object{"status": "OK"})

// route is what the double can do for a client.
type route struct {
	op, method, path string
	do               func(*call) (answer, error)
	open             bool // needs no session
}

func (s *Server) router() http.Handler {
	mux := chi.NewRouter()
	nowhere := func(w http.ResponseWriter, r *http.Request) { s.respond(w, answer{}, notFound(r.URL.Path)) }
	mux.NotFound(nowhere)
	mux.MethodNotAllowed(nowhere)
	for _, r := range s.table() {
		mux.MethodFunc(r.method, r.path, func(w http.ResponseWriter, req *http.Request) { s.serve(w, req, r) })
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(r.RequestURI) > maxURL {
			s.respond(w, answer{}, refuse(http.StatusRequestURITooLong, "basic_security_check.url.too_long_error", "URL is too long"))
			return
		}
		mux.ServeHTTP(w, r)
	})
}

const maxURL = 2048

func (s *Server) serve(w http.ResponseWriter, r *http.Request, to route) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	fault := s.note(to.op, r, body)
	if s.limited(w, r) || fault.Instead(w) {
		return
	}
	if to.op != opCreate { // which is in flight meanwhile
		double.Wait(fault.Stall, r, s.done)
	}
	if errors.As(err, new(*http.MaxBytesError)) {
		s.respond(w, answer{}, tooLarge())
		return
	}
	seen, _ := r.Context().Value(watched{}).(*Outcome)
	if seen == nil {
		seen = &Outcome{}
	}
	a, err := s.perform(&call{Request: r, body: body, stall: fault.Stall, seen: seen}, to)
	if !fault.Afterwards(w, r, s.done) {
		s.respond(w, a, err)
	}
}

// watched is the key of the [Outcome] of a press in the context of its request.
type watched struct{}

func watching(ctx context.Context, o *Outcome) context.Context {
	return context.WithValue(ctx, watched{}, o)
}

func (s *Server) perform(c *call, to route) (answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.authorise(c, to); err != nil {
		return answer{}, err
	}
	return to.do(c)
}

// released lets go of the lock while f runs, which asks an integration or waits.
func (s *Server) released(f func()) {
	s.mu.Unlock()
	defer s.mu.Lock()
	f()
}

func (s *Server) respond(w http.ResponseWriter, a answer, err error) {
	h := w.Header()
	h.Set("Date", s.config.Now().UTC().Format(http.TimeFormat))
	h.Set("X-Version-Id", s.config.Version+".local.0000000000000000000000000000000000000000000000000000000000000000.false")
	h.Set("X-Request-Id", NewID())
	refusal := &appError{}
	if errors.As(err, &refusal) {
		shown := *refusal
		if shown.ID != "api.context.404.app_error" {
			shown.Request = h.Get("X-Request-Id")
		}
		if s.config.Developer {
			shown.Detailed = shown.cause
		}
		a = answer{shown.Status, shown}
	}
	if text, isText := a.body.(string); isText {
		h.Set("Content-Type", "text/plain")
		w.WriteHeader(a.status)
		_, _ = io.WriteString(w, text)
		return
	}
	h.Set("Content-Type", "application/json")
	w.WriteHeader(a.status)
	_ = json.NewEncoder(w).Encode(a.body) // the client may have left
}

// Call is a call of the API as it arrived, whatever became of it.
type Call struct {
	Method, Path string // with the query
	Body         []byte
	At           time.Time
}

// note keeps a call and returns what has been scripted for it.
func (s *Server) note(op string, r *http.Request, body []byte) Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls[op] = append(s.calls[op], Call{r.Method, r.URL.RequestURI(), body, s.config.Now()})
	return s.faults.For(op, len(s.calls[op]))
}

// Calls returns the calls of an operation so far, such as "create_post".
func (s *Server) Calls(op string) []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Call(nil), s.calls[op]...)
}

// page returns the part of a list that a call asks for.
func page[T any](c *call, all []T, size int) []T {
	size = min(c.number("per_page", size), 200)
	from := min(c.number("page", 0)*size, len(all))
	return all[from:min(from+size, len(all))]
}

func words(s ...string) string {
	var all []string
	for _, w := range s {
		if w != "" {
			all = append(all, w)
		}
	}
	return strings.Join(all, " ")
}
