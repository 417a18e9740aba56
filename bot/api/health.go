package api

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/approvalbot/approvalbot/bot/wire"
)

// healthz says that the process lives.
func (a *API) healthz(w http.ResponseWriter, _ *http.Request) {
	writeHealth(w, http.StatusOK, wire.Health{Status: "ok"})
}

// readyz says whether this replica takes requests. An outage of the store leaves
// it ready: taking every replica out would also take the console away, and the
// calls that nobody gates.
func (a *API) readyz(w http.ResponseWriter, r *http.Request) {
	switch {
	case a.draining():
		writeHealth(w, http.StatusServiceUnavailable, wire.Health{Status: "draining"})
		return
	case a.Gate.Policy() == nil:
		writeHealth(w, http.StatusServiceUnavailable, wire.Health{Status: "degraded", Notes: []string{"no policy is loaded"}})
		return
	}
	h := wire.Health{Status: "ok", Notes: a.troubles(r.Context())}
	if len(h.Notes) > 0 {
		h.Status = "degraded"
	}
	writeHealth(w, http.StatusOK, h)
}

// Note says on /readyz what only the process around it knows to be wrong; it
// stands until the next, and an empty one takes it away.
func (a *API) Note(text string) { a.note.Store(&text) }

func (a *API) notices(ctx context.Context) []string {
	if a.Notices == nil {
		return nil
	}
	return a.Notices(ctx)
}

// troubles lists what is not as it should be. That the gate is off is loud here.
func (a *API) troubles(ctx context.Context) (notes []string) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if _, err := a.Log.Tail(ctx); err != nil {
		notes = append(notes, "the store does not answer: designated calls are blocked")
	}
	if a.Gate.Disagree() {
		notes = append(notes, "replicas run different policies: nothing can be consumed until they agree")
	}
	if note := a.note.Load(); note != nil && *note != "" {
		notes = append(notes, *note)
	}
	notes = append(notes, a.notices(ctx)...)
	policy := a.Gate.Policy()
	if policy.Disabled() {
		notes = append(notes, "THE GATE IS DISABLED: there is no tool_gate section, or it says enabled: false; every call passes")
	}
	if policy.Off() {
		notes = append(notes, "THE GATE IS OFF: approvals.mode is off; designated calls pass without asking")
	}
	return notes
}

func writeHealth(w http.ResponseWriter, status int, h wire.Health) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(h) // the caller left; nobody to tell
}
