package api

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/approvalbot/approvalbot/bot"
	"github.com/approvalbot/approvalbot/gate"
)

// silent is a log in which nothing happens.
type silent struct{ gate.Log }

func (silent) Tail(context.Context) (string, error) { return "0-0.0", nil }

func (silent) Read(context.Context, string, int, time.Duration) ([]gate.Entry, error) {
	return nil, nil
}

func TestASilentStreamIsKeptAlive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := &API{Config: Config{Log: silent{}, Hub: bot.NewHub(silent{}, slog.New(slog.DiscardHandler)), MaxParked: 1}, drained: make(chan struct{})}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		w := httptest.NewRecorder()
		a.events(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/v1/events", http.NoBody), &bot.Key{})
		if n := strings.Count(w.Body.String(), ": still here\n\n"); n < 3 || n > 4 {
			t.Errorf("%d signs of life in a minute of silence; want one each 15 s", n)
		}
	})
}
