package api

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/approvalbot/approvalbot/bot/wire"
	"github.com/approvalbot/approvalbot/gate"
)

// status maps each kind of failure to its HTTP status, here and nowhere else.
var status = map[gate.Kind]int{
	gate.Internal:    http.StatusInternalServerError,
	gate.Invalid:     http.StatusBadRequest,
	gate.Forbidden:   http.StatusForbidden,
	gate.NotFound:    http.StatusNotFound,
	gate.Conflict:    http.StatusConflict,
	gate.TooMany:     http.StatusTooManyRequests,
	gate.Unavailable: http.StatusServiceUnavailable,
}

// code is what a problem is called when it has no reason of the closed set:
// stable, because callers match on it.
var code = map[int]string{
	http.StatusBadRequest:            "invalid",
	http.StatusUnauthorized:          "unauthorized",
	http.StatusForbidden:             "forbidden",
	http.StatusNotFound:              "not_found",
	http.StatusMethodNotAllowed:      "method_not_allowed",
	http.StatusRequestTimeout:        "request_timeout",
	http.StatusConflict:              "conflict",
	http.StatusRequestEntityTooLarge: "too_large",
	http.StatusUnsupportedMediaType:  "unsupported_media_type",
	http.StatusUnprocessableEntity:   "invalid",
	http.StatusTooManyRequests:       "too_many",
	http.StatusInternalServerError:   "internal_error",
	http.StatusServiceUnavailable:    "unavailable",
}

// kinds is the way back, for what fails before the gate is asked.
var kinds = map[int]gate.Kind{
	http.StatusUnauthorized: gate.Forbidden, http.StatusForbidden: gate.Forbidden, http.StatusNotFound: gate.NotFound,
	http.StatusConflict: gate.Conflict, http.StatusTooManyRequests: gate.TooMany,
	http.StatusInternalServerError: gate.Internal, http.StatusServiceUnavailable: gate.Unavailable,
}

// problem is an error on its way out, RFC 9457.
type problem struct {
	wire.Problem
	headers http.Header
}

// newProblem makes a problem with nothing of what was sent in it.
func newProblem(status int, detail string) *problem {
	kind, known := kinds[status]
	if !known {
		kind = gate.Invalid
	}
	name := code[status]
	if name == "" {
		name = "invalid"
	}
	return &problem{headers: http.Header{}, Problem: wire.Problem{
		Type: "about:blank", Title: http.StatusText(status), Status: status, Code: name, Detail: detail,
		Answer: wire.Answer{Verdict: string(gate.Block), Next: string(gate.NextStop), AgentText: gate.ErrorText(kind)},
	}}
}

// problemOf makes a problem of an error of the gate.
func problemOf(err error) *problem {
	kind := gate.KindOf(err)
	p := newProblem(status[kind], gate.PublicText(err))
	p.AgentText = gate.ErrorText(err)
	if e, ok := errors.AsType[*gate.Error](err); ok && e.Reason != "" {
		p.Code, p.Reason = string(e.Reason), string(e.Reason)
	}
	if kind == gate.TooMany || kind == gate.Unavailable {
		p.headers.Set("Retry-After", strconv.Itoa(retryAfter[kind]))
	}
	return p
}

// retryAfter is in seconds.
var retryAfter = map[gate.Kind]int{gate.TooMany: 5, gate.Unavailable: 2}

// about adds where an approval stands.
func (p *problem) about(approval *wire.Approval, text string) *problem {
	p.Approval = approval
	if text != "" {
		p.AgentText = text
	}
	return p
}

// Error, GetStatus, GetHeaders and ContentType are how huma writes it.
func (p *problem) Error() string           { return p.Code + ": " + p.Detail }
func (p *problem) GetStatus() int          { return p.Status }
func (p *problem) GetHeaders() http.Header { return p.headers }
func (*problem) ContentType(string) string { return "application/problem+json" }

// MarshalJSON writes the wire form alone.
func (p *problem) MarshalJSON() ([]byte, error) { return json.Marshal(p.Problem) }

// write answers a plain handler's request.
func (p *problem) write(w http.ResponseWriter) {
	maps.Copy(w.Header(), p.headers)
	w.Header().Set("Content-Type", p.ContentType(""))
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) // the caller left; nobody to tell
}

// fail turns an error into a problem. The cause goes to the log, the public text
// to the caller.
func (a *API) fail(ctx context.Context, operation string, err error) *problem {
	if p, ok := errors.AsType[*problem](err); ok {
		return p
	}
	a.logFailure(ctx, operation, err)
	return problemOf(err)
}

func (a *API) logFailure(ctx context.Context, operation string, err error) {
	level := slog.LevelInfo
	if kind := gate.KindOf(err); kind == gate.Internal || kind == gate.Unavailable {
		level = slog.LevelError
	}
	a.Out.LogAttrs(ctx, level, "request failed", slog.String("operation", operation), slog.Any("err", err))
}

func (a *API) notFound(w http.ResponseWriter, _ *http.Request) {
	newProblem(http.StatusNotFound, "no such route; /openapi.json lists them").write(w)
}

func (a *API) methodNotAllowed(w http.ResponseWriter, _ *http.Request) {
	newProblem(http.StatusMethodNotAllowed, "this route has other methods; /openapi.json lists them").write(w)
}

// What huma refuses by itself. Its own errors repeat the body.
var refusals = map[int]string{
	http.StatusBadRequest:            "the request could not be read",
	http.StatusRequestEntityTooLarge: "a request body is at most 1 MiB",
	http.StatusRequestTimeout:        "the request body came too slowly",
	http.StatusUnsupportedMediaType:  "want Content-Type: application/json",
	http.StatusUnprocessableEntity:   "the request is not what this route takes; see errors",
}

// huma makes its errors with a package variable; this is the only one to set.
func init() { //nolint:gochecknoinits // see above
	huma.NewError = func(status int, _ string, errs ...error) huma.StatusError {
		p := newProblem(status, refusals[status])
		for _, err := range errs {
			p.add(err)
		}
		return p
	}
}

// fieldPath is what may be repeated of a request: where in it something is wrong.
var fieldPath = regexp.MustCompile(`^[a-z0-9_.\[\]-]{1,200}$`)

// add says which field is wrong and how, in our words or in those of the schema.
func (p *problem) add(err error) {
	d, ok := errors.AsType[*huma.ErrorDetail](err)
	if !ok || p.Status == http.StatusUnsupportedMediaType {
		return
	}
	if !fieldPath.MatchString(d.Location) {
		d.Location, _, _ = strings.Cut(d.Location, ".")
	}
	p.Fields = append(p.Fields, wire.FieldIssue{Field: d.Location, Text: d.Message})
}
