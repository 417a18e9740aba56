package slacktest_test

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"
	"github.com/slack-go/slack"
	"github.com/slack-go/slack/slackevents"
	"github.com/slack-go/slack/socketmode"

	"github.com/approvalbot/approvalbot/channels/slack/slacktest"
)

// connect runs a Socket Mode client until the test is over. The events that are
// work go to do.
func (w world) connect(t *testing.T, do func(c *socketmode.Client, e socketmode.Event)) {
	t.Helper()
	w.connectBy(t, websocket.DefaultDialer, do)
}

func (w world) connectBy(t *testing.T, d *websocket.Dialer, do func(c *socketmode.Client, e socketmode.Event)) {
	t.Helper()
	c := socketmode.New(w.api, socketmode.OptionDialer(d))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = c.RunContext(t.Context())
	}()
	go func() {
		for {
			select {
			case e := <-c.Events:
				if e.Request != nil && e.Type != socketmode.EventTypeHello {
					do(c, e)
				}
			case <-ended:
				return
			}
		}
	}()
	t.Cleanup(func() { <-ended })
}

func ack(c *socketmode.Client, e socketmode.Event) { _ = c.Ack(*e.Request) }

func (w world) await(t *testing.T, open int) []int {
	t.Helper()
	numbers, err := w.Await(t.Context(), func(all []int) bool { return len(all) == open })
	if err != nil {
		t.Fatal(err)
	}
	return numbers
}

// dial opens a bare socket, past the hello.
func (w world) dial(t *testing.T) *websocket.Conn {
	t.Helper()
	_, url, err := w.api.StartSocketModeContext(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	conn, resp, err := websocket.DefaultDialer.DialContext(t.Context(), url, nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func frame(t *testing.T, conn *websocket.Conn) (f map[string]any) {
	t.Helper()
	_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	if err := conn.ReadJSON(&f); err != nil {
		t.Fatal(err)
	}
	return f
}

func TestAClickOverASocket(t *testing.T) {
	t.Parallel()
	w := newWorld(t, slacktest.Config{})
	got := make(chan socketmode.Event, 1)
	w.connect(t, func(c *socketmode.Client, e socketmode.Event) {
		w.clock.Advance(time.Second)
		ack(c, e)
		got <- e
	})
	w.await(t, 1)
	out := w.press(t, "", "approve")
	if out.Warning != "" || out.Status != 0 {
		t.Errorf("click = %+v", out)
	}
	e := <-got
	click, ok := e.Data.(slack.InteractionCallback)
	if !ok || e.Type != socketmode.EventTypeInteractive || click.ActionCallback.BlockActions[0].Value != "apr_01" || e.Request.AcceptsResponsePayload {
		t.Errorf("event = %+v", e)
	}
	sent := w.Envelopes()
	if len(sent) != 1 || len(sent[0].Acks) != 1 || sent[0].Acks[0].After != time.Second || sent[0].ID != e.Request.EnvelopeID {
		t.Errorf("envelopes = %+v", sent)
	}
}

func TestHelloComesFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t, slacktest.Config{})
	w.dial(t)
	w.await(t, 1)
	hello := frame(t, w.dial(t))
	info, _ := hello["connection_info"].(map[string]any)
	if hello["type"] != "hello" || hello["num_connections"] != 2.0 || info["app_id"] != slacktest.App {
		t.Errorf("hello = %v", hello)
	}
}

func TestWhatIsNotAcknowledged(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		do      func(w world, c *socketmode.Client, e socketmode.Event)
		warning string
		acks    int
	}{
		"an ack":     {func(_ world, c *socketmode.Client, e socketmode.Event) { ack(c, e) }, "", 1},
		"none":       {func(world, *socketmode.Client, socketmode.Event) {}, "operation_timeout", 0},
		"a late one": {func(w world, c *socketmode.Client, e socketmode.Event) { w.clock.Advance(4 * time.Second); ack(c, e) }, "operation_timeout", 1},
		"one of another": {func(_ world, c *socketmode.Client, _ socketmode.Event) {
			_ = c.AckCtx(context.WithoutCancel(t.Context()), "another", nil)
		}, "operation_timeout", 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			patience := time.Minute
			if tt.acks == 0 {
				patience = 100 * time.Millisecond
			}
			w := newWorld(t, slacktest.Config{Patience: patience})
			w.connect(t, func(c *socketmode.Client, e socketmode.Event) { tt.do(w, c, e) })
			w.await(t, 1)
			if out := w.press(t, "", "approve"); out.Warning != tt.warning {
				t.Errorf("warning = %q, want %q", out.Warning, tt.warning)
			}
			if got := len(w.Envelopes()[0].Acks); got != tt.acks {
				t.Errorf("%d acks, want %d", got, tt.acks)
			}
			if name == "one of another" {
				await(t, func() bool { return len(w.StrayAcks()) == 1 })
			}
		})
	}
}

func TestNobodyIsThere(t *testing.T) {
	t.Parallel()
	w := newWorld(t, slacktest.Config{})
	if out := w.press(t, "", "approve"); out.Warning != "no_socket" {
		t.Errorf("click = %+v", out)
	}
}

func TestAcksAreCountedAndOnlyTheRightOneCounts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, slacktest.Config{})
	one := w.dial(t)
	frame(t, one)
	two := w.dial(t)
	frame(t, two)
	done := make(chan slacktest.Outcome, 1)
	_, ts := w.post(t, ops, card("apr_01")...)
	go func() {
		out, _ := w.Click(t.Context(), slacktest.Click{User: ada, Channel: ops, TS: ts, Action: "approve"})
		done <- out
	}()
	id := frame(t, one)["envelope_id"]
	acks := func(n int) { await(t, func() bool { return len(w.Envelopes()[0].Acks) == n }) }
	answer := map[string]any{"envelope_id": id}
	_ = two.WriteJSON(answer) // on the other socket
	acks(1)
	_ = one.WriteJSON(map[string]any{"envelope_id": id, "payload": strings.Repeat("x", 20_480)}) // too large
	acks(2)
	select {
	case out := <-done:
		t.Fatalf("done already: %+v", out)
	default:
	}
	_ = one.WriteJSON(answer)
	if out := <-done; out.Warning != "" || len(out.Answer) > 0 {
		t.Errorf("click = %+v", out)
	}
	_ = one.WriteJSON(answer) // a duplicate
	acks(4)
	_ = one.WriteMessage(websocket.TextMessage, []byte("{"))
	await(t, func() bool { return len(w.StrayAcks()) == 1 })
	got := w.Envelopes()[0].Acks
	if got[0].Socket == got[1].Socket || !got[1].TooLarge || got[2].TooLarge {
		t.Errorf("acks = %+v", got)
	}
}

func TestAnswersInAcks(t *testing.T) {
	t.Parallel()
	w := newWorld(t, slacktest.Config{})
	w.connect(t, func(c *socketmode.Client, e socketmode.Event) {
		switch e.Type {
		case socketmode.EventTypeSlashCommand:
			_ = c.Ack(*e.Request, map[string]any{"text": "2 pending: " + e.Data.(slack.SlashCommand).Text})
		default:
			if e.Data.(slack.InteractionCallback).Type == slack.InteractionTypeBlockActions {
				_ = c.Ack(*e.Request, map[string]any{"text": "dropped"})
				return
			}
			_ = c.Ack(*e.Request, slack.NewErrorsViewSubmissionResponse(map[string]string{"reason": "Say why"}))
		}
	})
	w.await(t, 1)
	out, err := w.Slash(t.Context(), slacktest.Slash{User: ada, Channel: ops, Command: "/approvals", Text: "list"})
	if err != nil || out.Shown != "2 pending: list" {
		t.Errorf("slash = %+v, %v", out, err)
	}
	click := w.press(t, "", "deny")
	if len(click.Answer) > 0 {
		t.Errorf("a click takes no answer: %s", click.Answer)
	}
	v, err := w.api.OpenViewContext(t.Context(), click.TriggerID, reason())
	if err != nil {
		t.Fatal(err)
	}
	if out, err := w.Submit(t.Context(), slacktest.Submission{View: v.ID, Values: map[string]string{"reason": "wrong"}}); err != nil || out.Warning != "" {
		t.Errorf("submit = %+v, %v", out, err)
	}
	if open := w.Views(ada); len(open) != 1 || open[0].Errors["reason"] != "Say why" {
		t.Errorf("views = %+v", open)
	}
}

func TestEnvelopesTakeTurns(t *testing.T) {
	t.Parallel()
	w := newWorld(t, slacktest.Config{NoRateLimits: true})
	for n := range 3 {
		w.connect(t, ack)
		w.await(t, n+1)
	}
	for range 6 {
		w.press(t, "", "approve")
	}
	var to []int
	for _, e := range w.Envelopes() {
		to = append(to, e.Socket)
	}
	if !slices.Equal(to, []int{1, 2, 3, 1, 2, 3}) {
		t.Errorf("envelopes went to %v", to)
	}
}

func TestTicketsAreGoodOnceAndNotForLong(t *testing.T) {
	t.Parallel()
	w := newWorld(t, slacktest.Config{})
	dial := func(url string) int {
		conn, resp, err := websocket.DefaultDialer.DialContext(t.Context(), url, http.Header{"Origin": {"https://api.slack.com"}})
		if err == nil {
			_ = conn.Close()
		}
		_ = resp.Body.Close()
		return resp.StatusCode
	}
	ticket := func() string {
		_, url, err := w.api.StartSocketModeContext(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return url
	}
	url := ticket()
	if got := dial(url); got != http.StatusSwitchingProtocols {
		t.Errorf("first = %d", got)
	}
	if got := dial(url); got != http.StatusForbidden {
		t.Errorf("again = %d", got)
	}
	url = ticket()
	other := ticket()
	w.clock.Advance(30 * time.Second)
	if got := dial(other); got != http.StatusSwitchingProtocols {
		t.Errorf("in time = %d", got)
	}
	w.clock.Advance(time.Second)
	if got := dial(url); got != http.StatusForbidden {
		t.Errorf("late = %d", got)
	}
}

func TestTheEleventhSocketIsOneTooMany(t *testing.T) {
	t.Parallel()
	w := newWorld(t, slacktest.Config{})
	for range 10 {
		frame(t, w.dial(t))
	}
	if got := frame(t, w.dial(t)); got["type"] != "disconnect" || got["reason"] != "too_many_websockets" {
		t.Errorf("the eleventh gets %v", got)
	}
	w.await(t, 10)
	w.Drop(3)
	w.await(t, 9)
	if got := frame(t, w.dial(t)); got["type"] != "hello" {
		t.Errorf("then %v", got)
	}
}

// What slack-go does about that: it comes back at once, until rate limits stop it.
func TestAClientTooManyStorms(t *testing.T) {
	t.Parallel()
	w := newWorld(t, slacktest.Config{})
	for range 10 {
		frame(t, w.dial(t))
	}
	w.connect(t, ack)
	await(t, func() bool { return len(w.Calls("apps.connections.open")) > 50 })
	w.await(t, 10)
}

// What slack-go does with an acknowledgement that its socket did not live to
// take: the next one takes it.
func TestAnAckAfterADropComesOnAnotherSocket(t *testing.T) {
	t.Parallel()
	w := newWorld(t, slacktest.Config{Patience: 100 * time.Millisecond})
	clicked := make(chan struct{})
	w.connect(t, func(c *socketmode.Client, e socketmode.Event) {
		w.Drop(1)
		<-clicked
		if _, err := w.Await(t.Context(), func(open []int) bool { return slices.Equal(open, []int{2}) }); err == nil {
			ack(c, e)
		}
	})
	w.await(t, 1)
	if out := w.press(t, "", "approve"); out.Warning != "operation_timeout" {
		t.Errorf("click = %+v", out)
	}
	close(clicked)
	await(t, func() bool { return len(w.Envelopes()[0].Acks) == 1 })
	if e := w.Envelopes()[0]; e.Socket != 1 || e.Acks[0].Socket != 2 {
		t.Errorf("envelope = %+v", e)
	}
}

func TestDisconnects(t *testing.T) {
	t.Parallel()
	for _, reason := range []string{"refresh_requested", "warning", "dropped"} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, slacktest.Config{})
			w.connect(t, ack)
			first := w.await(t, 1)[0]
			if reason == "dropped" {
				w.Drop(first)
			} else {
				w.Disconnect(first, reason)
			}
			// The client comes back by itself.
			open, err := w.Await(t.Context(), func(open []int) bool { return len(open) == 1 && open[0] > first })
			if err != nil {
				t.Fatal(open, err)
			}
			if out := w.press(t, "", "approve"); out.Warning != "" {
				t.Errorf("click = %+v", out)
			}
		})
	}
}

func TestAWarnedSocketGetsNoMoreWork(t *testing.T) {
	t.Parallel()
	w := newWorld(t, slacktest.Config{})
	conn := w.dial(t)
	frame(t, conn)
	w.Disconnect(0, "warning")
	if got := frame(t, conn); got["reason"] != "warning" {
		t.Errorf("frame = %v", got)
	}
	if out := w.press(t, "", "approve"); out.Warning != "no_socket" {
		t.Errorf("click = %+v", out)
	}
	if open := w.Sockets(); len(open) != 1 {
		t.Errorf("open = %v", open)
	}
}

func TestNoSocketOpensOnceTheLinkIsDisabled(t *testing.T) {
	t.Parallel()
	w := newWorld(t, slacktest.Config{})
	conn := w.dial(t)
	frame(t, conn)
	w.Disconnect(0, "link_disabled")
	w.await(t, 0)
	if _, _, err := w.api.StartSocketModeContext(t.Context()); code(err) != "link_disabled" {
		t.Errorf("open = %v", err)
	}
}

// The client would leave at the first tick of its ping interval.
func TestPingsKeepAClient(t *testing.T) {
	t.Parallel()
	w := newWorld(t, slacktest.Config{PingEvery: 5 * time.Millisecond})
	conn := w.dial(t)
	frame(t, conn)
	pings := make(chan struct{}, 3)
	conn.SetPingHandler(func(string) error {
		select {
		case pings <- struct{}{}:
		default:
		}
		return nil
	})
	go conn.ReadMessage() // handles pings
	for range 3 {
		<-pings
	}
}

func TestFramesThatSlackWouldNotSend(t *testing.T) {
	t.Parallel()
	w := newWorld(t, slacktest.Config{})
	one, two := w.dial(t), w.dial(t)
	frame(t, one)
	frame(t, two)
	w.Frame(2, "{")
	if _, raw, err := two.ReadMessage(); err != nil || string(raw) != "{" {
		t.Errorf("frame = %q, %v", raw, err)
	}
	w.Frame(0, `{"type":"new"}`)
	if a, b := frame(t, one), frame(t, two); a["type"] != "new" || b["type"] != "new" {
		t.Errorf("frames = %v and %v", a, b)
	}
}

// A day on pipes takes no time.
func TestADoubleInABubble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pipes := slacktest.NewPipes()
		s := slacktest.New(t, slacktest.Config{Listener: pipes})
		s.AddUser(slacktest.User{ID: ada, Name: "ada"})
		s.AddChannel(slacktest.Channel{ID: ops, Members: []string{ada, slacktest.BotUser}})
		transport := &http.Transport{DialContext: pipes.Dial}
		t.Cleanup(transport.CloseIdleConnections)
		w := world{Slack: s, api: client(s, slacktest.BotToken, slack.OptionHTTPClient(&http.Client{Transport: transport}))}
		w.connectBy(t, &websocket.Dialer{NetDialContext: pipes.Dial}, ack)
		w.await(t, 1)
		<-time.After(24 * time.Hour)
		if open := s.Sockets(); len(open) != 1 || open[0] != 1 {
			t.Errorf("after a day of pings the connections are %v", open)
		}
		if out := w.press(t, "", "approve"); out.Warning != "" {
			t.Errorf("click = %+v", out)
		}
	})
	pipes := slacktest.NewPipes()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := pipes.Dial(ctx, "", ""); !errors.Is(err, context.Canceled) {
		t.Errorf("dial without hope = %v", err)
	}
	_, _ = pipes.Close(), pipes.Close()
	if _, err := pipes.Dial(t.Context(), "", ""); !errors.Is(err, net.ErrClosed) {
		t.Errorf("dial after the end = %v", err)
	}
	if _, err := pipes.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("accept after the end = %v", err)
	}
}

func TestEventsOverSocketsAreDeliveredAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, slacktest.Config{})
	if out, err := w.Event(t.Context(), map[string]any{"type": "channel_archive", "channel": ops}); err != nil || out.Warning != "no_socket" {
		t.Fatalf("event = %+v, %v", out, err)
	}
	type heard struct {
		channel, id string
		attempt     int
	}
	events := make(chan heard, 9)
	late := true
	w.connect(t, func(c *socketmode.Client, e socketmode.Event) {
		api, _ := e.Data.(slackevents.EventsAPIEvent)
		inner, _ := api.InnerEvent.Data.(*slackevents.ChannelArchiveEvent)
		callback, _ := api.Data.(*slackevents.EventsAPICallbackEvent)
		if inner != nil && callback != nil {
			events <- heard{inner.Channel, callback.EventID, e.Request.RetryAttempt}
		}
		if late {
			w.clock.Advance(4 * time.Second)
		}
		late = false
		ack(c, e)
	})
	w.await(t, 1)
	for range 3 {
		if _, err := w.Redeliver(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	first, second := <-events, <-events
	if first.channel != ops || first.attempt != 1 || second.attempt != 2 || first.id != second.id || len(events) > 0 {
		t.Errorf("first %+v, second %+v, and %d more", first, second, len(events))
	}
}

// What slack-go does with errors of apps.connections.open.
func TestAClientGivesUpOnlyOnBadTokens(t *testing.T) {
	t.Parallel()
	for refusal, fatal := range map[string]bool{
		"invalid_auth": true, "not_authed": true, "account_inactive": true, "token_revoked": true, "fatal_error": false,
	} {
		t.Run(refusal, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, slacktest.Config{})
			w.FailNext("apps.connections.open", slacktest.Refused(refusal))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ended := make(chan error, 1)
			go func() { ended <- socketmode.New(w.api).RunContext(ctx) }()
			if !fatal {
				w.await(t, 1)
				cancel()
			}
			if err := <-ended; fatal != (err.Error() == refusal) || !fatal && !errors.Is(err, context.Canceled) {
				t.Errorf("run = %v", err)
			}
		})
	}
}

func TestEnvelopesHoldWhatHTTPWould(t *testing.T) {
	t.Parallel()
	w := newWorld(t, slacktest.Config{})
	w.connect(t, ack)
	w.await(t, 1)
	out := w.press(t, "", "approve")
	over := w.Replay(t.Context(), out, serve(t, (&strict{}).ServeHTTP))
	var socket, http map[string]any
	if json.Unmarshal(w.Envelopes()[0].Payload, &socket) != nil || json.Unmarshal(over.Payload, &http) != nil {
		t.Fatal("no JSON")
	}
	if socket["trigger_id"] != http["trigger_id"] || socket["type"] != "block_actions" || over.Status != 200 {
		t.Errorf("socket %v, HTTP %v", socket, http)
	}
}
