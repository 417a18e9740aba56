package slack

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/approvalbot/approvalbot/gate/secret"
)

// Events receives what happens in a workspace as far as it concerns cards. None of
// it decides anything.
type Events struct {
	Slack         *Slack
	SigningSecret secret.String
	Log           *slog.Logger

	Out     func(why string)                            // nothing works any more: the app was taken out, its token revoked
	Left    func(place string)                          // a conversation takes no more cards
	Renamed func(from, to string)                       // a conversation has another id
	Home    func(ctx context.Context, app, user string) // somebody has opened the app's home; nil: it shows nothing

	mu   sync.Mutex
	seen map[string]time.Time // events by id: Slack sends one again that it believes lost
	work sync.WaitGroup
}

// seenFor is how long a repeated event is recognised: Slack tries for five
// minutes.
const seenFor = 10 * time.Minute

type happened struct {
	Type      string `json:"type"`
	Challenge string `json:"challenge"`
	App       string `json:"api_app_id"`
	ID        string `json:"event_id"`
	Event     struct {
		Type    string          `json:"type"`
		Channel json.RawMessage `json:"channel"` // an id, or an object that has one
		User    string          `json:"user"`
		From    string          `json:"old_channel_id"`
		To      string          `json:"new_channel_id"`
		Tab     string          `json:"tab"`
		Tokens  struct {
			Bot []string `json:"bot"`
		} `json:"tokens"`
	} `json:"event"`
}

// ServeHTTP is the request URL of events in an app that does not use Socket Mode.
func (e *Events) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := signed(w, r, e.SigningSecret)
	if err != nil {
		e.Log.WarnContext(r.Context(), "a request that Slack did not sign", "err", err)
		http.Error(w, "not signed by Slack", http.StatusUnauthorized)
		return
	}
	var h happened
	if err := json.Unmarshal(body, &h); err != nil {
		http.Error(w, "want an event", http.StatusBadRequest)
		return
	}
	if h.Type == "url_verification" {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]string{"challenge": h.Challenge})
		return
	}
	if err := e.take(r.Context(), &h); err != nil {
		e.Log.WarnContext(r.Context(), "an event that is not for this app", "err", err)
		w.Header().Set("X-Slack-No-Retry", "1")
		http.Error(w, "not for this app", http.StatusForbidden)
	}
}

// Receive takes one event from a socket. It returns soon; an error is about a
// payload that is none of ours.
func (e *Events) Receive(ctx context.Context, payload []byte) error {
	var h happened
	if err := json.Unmarshal(payload, &h); err != nil {
		return errors.New("payload: not JSON as Slack writes it")
	}
	return e.take(ctx, &h)
}

func (e *Events) take(ctx context.Context, h *happened) error {
	if h.Type != "event_callback" || !e.Slack.ours("anybody", h.App) {
		return errNotOurs
	}
	if !e.first(h.ID) {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), decideWithin)
	e.work.Go(func() {
		defer cancel()
		e.act(ctx, h)
	})
	return nil
}

// Wait returns when all that has happened is dealt with.
func (e *Events) Wait() { e.work.Wait() }

// first reports whether an event comes for the first time.
func (e *Events) first(id string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	for old, at := range e.seen {
		if now.Sub(at) > seenFor {
			delete(e.seen, old)
		}
	}
	if _, again := e.seen[id]; again {
		return false
	}
	if e.seen == nil {
		e.seen = map[string]time.Time{}
	}
	e.seen[id] = now
	return true
}

func (e *Events) act(ctx context.Context, h *happened) {
	ev := &h.Event
	switch ev.Type {
	case "app_uninstalled":
		e.Out("the app was taken out of the workspace")
	case "tokens_revoked":
		if e.own(ctx, ev.Tokens.Bot...) {
			e.Out("the bot token was revoked")
		}
	case "channel_archive", "group_archive", "channel_deleted":
		e.left(ev.Channel)
	case "member_left_channel", "channel_left", "group_left":
		if ev.User == "" || e.own(ctx, ev.User) {
			e.left(ev.Channel)
		}
	case "channel_id_changed":
		e.Renamed(name+":"+ev.From, name+":"+ev.To)
	case "app_home_opened":
		if e.Home != nil && ev.Tab == "home" {
			e.Home(ctx, h.App, ev.User)
		}
	}
}

func (e *Events) left(channel json.RawMessage) {
	var id string
	if json.Unmarshal(channel, &id) == nil {
		e.Left(name + ":" + id)
	}
}

// own reports whether the bot is among some users. If Slack does not even say who
// the bot is any more, it is.
func (e *Events) own(ctx context.Context, users ...string) bool {
	here, err := e.Slack.self(ctx)
	return err != nil || slices.Contains(users, here.UserID)
}
