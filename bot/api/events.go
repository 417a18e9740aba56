package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/approvalbot/approvalbot/bot"
	"github.com/approvalbot/approvalbot/bot/wire"
	"github.com/approvalbot/approvalbot/gate"
)

// How a stream is served.
const (
	heartbeat   = 15 * time.Second // keeps proxies from closing a silent stream
	streamBatch = 256
	writeWithin = 10 * time.Second // a reader that does not read is let go
)

// eventNames says what each move of an approval is called in streams. What is
// not here is not told: it moves no approval.
var eventNames = map[gate.Event]string{
	gate.EventOpened:   "approval_requested",
	gate.EventVoted:    "approval_pending",
	gate.EventDeferred: "approval_pending",
	gate.EventAsked:    "approval_pending",
	gate.EventAnswered: "approval_pending",
	gate.EventDecided:  "approval_completed",
	gate.EventExpired:  "approval_completed",
	gate.EventLapsed:   "approval_completed",
	gate.EventCancel:   "approval_completed",
	gate.EventRevoked:  "approval_completed",
	gate.EventVoided:   "approval_completed",
	gate.EventLeased:   "execution_leased",
	gate.EventReleased: "execution_released",
	gate.EventConsumed: "execution_started",
	gate.EventReported: "execution_completed",
	gate.EventUnknown:  "execution_unknown",
}

// events serves server-sent events. A client that comes back with Last-Event-ID
// misses nothing, whichever replica it reaches: the id is a position in the
// store's log, and nothing is kept here.
func (a *API) events(w http.ResponseWriter, r *http.Request, key *bot.Key) {
	defer a.parked.Add(-1)
	if a.parked.Add(1) > int64(a.MaxParked) {
		problemOf(&gate.Error{Kind: gate.Unavailable, Op: "api.events", Public: "this replica holds no more callers"}).write(w)
		return
	}
	changed, stop := a.Hub.Any()
	defer stop()
	s := &stream{api: a, key: key, out: w, control: http.NewResponseController(w)}
	if err := s.begin(r); err != nil {
		problemOf(err).write(w)
		return
	}
	// The connection may carry other requests after this one.
	defer func() { _ = s.control.SetWriteDeadline(time.Time{}) }()
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for err := s.flush(); err == nil; {
		if err = s.catchUp(r.Context()); err != nil {
			break
		}
		select {
		case <-changed:
		case <-beat.C:
			_, err = fmt.Fprint(w, ": still here\n\n")
			err = errors.Join(err, s.flush())
		case <-a.drained:
			return // the client comes back, to another replica
		case <-r.Context().Done():
			return
		}
	}
}

// stream is one reader of events.
type stream struct {
	api     *API
	key     *bot.Key
	out     http.ResponseWriter
	control *http.ResponseController
	pos     string
}

// begin finds out where the stream goes on and opens it. "From now on" is fixed
// once: asking for new ones again after each heartbeat would lose what came in
// between.
func (s *stream) begin(r *http.Request) (err error) {
	ctx, cancel := context.WithTimeout(r.Context(), gateTimeout)
	defer cancel()
	s.pos = r.Header.Get("Last-Event-ID")
	if s.pos == "" {
		s.pos, err = s.api.Log.Tail(ctx)
	} else if _, e := s.api.Log.Read(ctx, s.pos, 1, 0); !errors.Is(e, gate.ErrGap) {
		err = e // a position that is none is told before the stream begins
	}
	if err != nil {
		return err
	}
	h := s.out.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no")
	s.out.WriteHeader(http.StatusOK)
	return nil
}

// catchUp writes everything that is in the log by now. While the store is away
// the stream stays open and silent.
func (s *stream) catchUp(ctx context.Context) error {
	for {
		batch, cancel := context.WithTimeout(ctx, gateTimeout)
		entries, err := s.api.Log.Read(batch, s.pos, streamBatch, 0)
		cancel()
		switch {
		case errors.Is(err, gate.ErrGap):
			if err := s.reset(ctx); err != nil {
				return err
			}
			continue
		case err != nil:
			return ctx.Err()
		case len(entries) == 0:
			return s.flush()
		}
		for i := range entries {
			if err := s.tell(ctx, &entries[i]); err != nil {
				return err
			}
		}
	}
}

// reset tells the client that it may have missed something: it reads the list
// again, and the stream goes on at the end of the log.
func (s *stream) reset(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, gateTimeout)
	defer cancel()
	pos, err := s.api.Log.Tail(ctx)
	if err != nil {
		return err
	}
	s.pos = pos
	_, err = fmt.Fprintf(s.out, "id: %s\nevent: reset\ndata: {}\n\n", pos)
	return err
}

// tell writes one event, if it is one and the reader may know of it. Its
// position counts as read either way, but only after that is sure.
func (s *stream) tell(ctx context.Context, e *gate.Entry) error {
	name, told := eventNames[e.Event]
	if !told || e.ID == "" {
		s.pos = e.Pos
		return nil
	}
	data, visible, err := s.event(ctx, name, e)
	if err != nil {
		return err
	}
	if visible {
		if _, err := fmt.Fprintf(s.out, "id: %s\nevent: %s\ndata: %s\n\n", e.Pos, name, data); err != nil {
			return err
		}
	}
	s.pos = e.Pos
	return nil
}

func (s *stream) event(ctx context.Context, name string, e *gate.Entry) (data []byte, visible bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, gateTimeout)
	defer cancel()
	a, visible, err := s.api.Gate.Visible(ctx, s.key.Principal, e.ID)
	switch {
	case errors.Is(err, gate.NotFound):
		return nil, false, nil // forgotten since
	case err != nil || !visible:
		return nil, false, err
	}
	out := wire.Event{ID: string(e.ID), Event: string(e.Event), State: string(e.To), By: e.By, At: stamp(e.At), Digest: a.Digest.String()}
	if name == "approval_completed" || name == "execution_completed" {
		out.Outcome, out.DurationMS = string(e.To), e.At.Sub(a.Created).Milliseconds()
	}
	data, err = json.Marshal(out)
	return data, true, err
}

func (s *stream) flush() error {
	// Not every ResponseWriter has deadlines; one without them is a test's.
	_ = s.control.SetWriteDeadline(time.Now().Add(writeWithin))
	return s.control.Flush()
}
