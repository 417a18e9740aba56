package slack

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	api "github.com/slack-go/slack"

	"github.com/approvalbot/approvalbot/channels"
)

// Receivers is where payloads go, whether they come over HTTP or over a socket.
// Each returns soon: Slack waits for three seconds. An error says that a payload
// is none of ours; it is then not acknowledged. What has no receiver is dropped.
type Receivers struct {
	Interactive    func(ctx context.Context, payload []byte) (answer []byte, err error) // an answer is JSON
	Command, Event func(ctx context.Context, payload []byte) error
}

func (r *Receivers) of(kind string) func(ctx context.Context, payload []byte) (answer []byte, err error) {
	switch kind {
	case "interactive":
		return r.Interactive
	case "slash_commands":
		return unanswered(r.Command)
	case "events_api":
		return unanswered(r.Event)
	}
	return nil
}

// unanswered is a receiver that has nothing to say.
func unanswered(receive func(ctx context.Context, payload []byte) error) func(context.Context, []byte) ([]byte, error) {
	if receive == nil {
		return nil
	}
	return func(ctx context.Context, payload []byte) ([]byte, error) { return nil, receive(ctx, payload) }
}

// Socket receives over Socket Mode, which needs no public URL. It keeps two
// connections, because Slack renews each of them every few hours. Slack gives a
// payload to one connection only, whichever replica has it.
//
// slack-go's own loop is not used: it does not say why Slack ends a connection,
// comes back without a pause when Slack wants no more of them, sends on the next
// connection what the last one did not take, and reads payloads more strictly
// than a decision needs.
type Socket struct {
	Slack *Slack
	To    Receivers
	Log   *slog.Logger
	// Down is told why nothing comes in any more, and with "" that it does; nil
	// is nobody. It is called on changes, one at a time, and must not block.
	Down func(why string)

	dial func(ctx context.Context, network, address string) (net.Conn, error) // nil: as everybody dials
	work sync.WaitGroup                                                       // connections
	most atomic.Int64

	mu    sync.Mutex
	lines [2]string // what keeps each line from being connected; empty is nothing
}

// notYet is a line before its first try has come to anything.
const notYet = "connecting"

// How often a line tries. Its tries begin shortest apart, if the last connection
// did not hold as long; where an operator must mend something, the pause doubles
// from there up to longest.
const (
	shortest = 15 * time.Second
	longest  = 5 * time.Minute
)

// Run receives until ctx ends. It acknowledges what it has taken until then, and
// leaves nothing running. It may be called once.
func (s *Socket) Run(ctx context.Context) {
	for n := range s.lines {
		s.lines[n] = notYet
	}
	var lines sync.WaitGroup
	for n := range s.lines {
		lines.Go(func() { s.keep(ctx, n) })
	}
	lines.Wait()
	s.work.Wait()
}

// Connections returns how many connections the app has had at once, as far as
// Slack said so when one of ours was opened. Two are ours, or up to four while
// they are renewed; more are those of other replicas, or of somebody else who has
// the token.
func (s *Socket) Connections() int { return int(s.most.Load()) }

// ending is why a connection is no more, or never was.
type ending struct {
	why   string        // a word or two, the same for the same cause
	err   error         // the cause, if there is more to say
	mend  bool          // an operator must do something about it
	after time.Duration // Slack said not before
}

// keep keeps one line connected, with a client made of the newest tokens.
func (s *Socket) keep(ctx context.Context, n int) {
	failures := 0
	for {
		renewed, began := s.Slack.access.Load().renewed, time.Now()
		e := s.connect(ctx, n)
		if ctx.Err() != nil {
			return
		}
		held := time.Since(began)
		s.Log.DebugContext(ctx, "a Slack connection has ended", "line", n, "reason", e.why, "held", held)
		pause := max(e.after, shortest-held)
		if e.mend {
			pause = min(longest, shortest<<min(failures, 8))
			failures++
		} else {
			failures = 0
		}
		if pause <= 0 {
			continue
		}
		s.note(ctx, n, e)
		select {
		case <-ctx.Done():
			return
		case <-renewed:
			failures = 0
		case <-time.After(pause):
		}
	}
}

// connect opens a connection and returns when another one is wanted in its
// place. Until Slack closes it, it is served on.
func (s *Socket) connect(ctx context.Context, n int) ending {
	ws, err := s.open(ctx)
	if err != nil {
		return unopened(err)
	}
	c := newConnection(s, n, ws)
	s.work.Go(func() { c.serve(ctx) })
	return <-c.over
}

// handshake is a connection refused by the server behind the URL.
type handshake struct{ status int }

func (h handshake) Error() string { return fmt.Sprintf("HTTP %d instead of a connection", h.status) }

// unopened says why there is no connection.
func unopened(err error) ending {
	for { // what *url.Error adds is the URL
		u, ok := errors.AsType[*url.Error](err)
		if !ok {
			break
		}
		err = u.Err
	}
	trouble, after := meaning(err)
	e := ending{why: "not reached", err: err, mend: trouble == channels.Broken || trouble == channels.Out, after: after}
	if refused, ok := errors.AsType[api.SlackErrorResponse](err); ok {
		e.why, e.err = refused.Err, nil
	}
	if _, ok := errors.AsType[*api.RateLimitedError](err); ok {
		e.why = "ratelimited"
	}
	if status, ok := errors.AsType[api.StatusCodeError](err); ok {
		e.why, e.mend = fmt.Sprintf("HTTP %d", status.Code), status.Code == http.StatusNotFound
	}
	if refused, ok := errors.AsType[handshake](err); ok {
		e.why, e.err = refused.Error(), nil
	}
	return e
}

// note remembers what has become of a line and says so if it is new.
func (s *Socket) note(ctx context.Context, n int, e ending) {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.lines
	s.lines[n] = e.why
	switch {
	case e.why != "" && !slices.Contains(was[:], e.why):
		s.Log.WarnContext(ctx, "a Slack connection is missing", "reason", e.why, "err", e.err, "operator_must_act", e.mend)
	case s.lines != was && s.lines == [len(s.lines)]string{}:
		s.Log.InfoContext(ctx, "the Slack connections are up")
	}
	before, now := outage(was), outage(s.lines)
	if s.Down != nil && before != now && now != notYet {
		s.Down(now)
	}
}

// outage is why nothing comes in; empty if something does.
func outage(lines [2]string) string {
	for _, rather := range []string{"", notYet} {
		if slices.Contains(lines[:], rather) {
			return rather
		}
	}
	return lines[0]
}
