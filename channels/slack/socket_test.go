package slack_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gorilla/websocket"

	"github.com/approvalbot/approvalbot/channels"
	"github.com/approvalbot/approvalbot/channels/slack"
	"github.com/approvalbot/approvalbot/channels/slack/slacktest"
	"github.com/approvalbot/approvalbot/gate"
	"github.com/approvalbot/approvalbot/gate/secret"
)

// office is a workspace and sockets to it, in a bubble where time is nothing.
type office struct {
	*testing.T
	slack *slacktest.Slack
	pipes *slacktest.Pipes
	http  *http.Client
	card  channels.Ref

	mu    sync.Mutex
	opens int // how often an address was asked for
	logs  strings.Builder
	downs []string
	got   []string // the kinds and triggers of what was received
}

func inOffice(t *testing.T, c slacktest.Config, test func(o *office)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		o := &office{T: t, pipes: slacktest.NewPipes()}
		c.Listener, c.NoRateLimits = o.pipes, true
		wire := &http.Transport{DialContext: o.pipes.Dial}
		o.http = &http.Client{Timeout: 10 * time.Second, Transport: transport(func(r *http.Request) (*http.Response, error) {
			if strings.HasSuffix(r.URL.Path, "/apps.connections.open") {
				o.mu.Lock()
				o.opens++
				o.mu.Unlock()
			}
			return wire.RoundTrip(r)
		})}
		o.slack = workspace(t, c)
		t.Cleanup(wire.CloseIdleConnections)
		var err error
		if o.card, err = o.channel(slacktest.AppToken).Post(t.Context(), gate.Conversation{Place: "slack:" + ops}, waiting()); err != nil {
			t.Fatal(err)
		}
		test(o)
	})
}

func (o *office) channel(appToken string) *slack.Slack {
	return slack.New(slack.Config{
		BotToken: secret.New(slacktest.BotToken), AppToken: secret.New(appToken),
		Team: slacktest.Team, APIURL: o.slack.URL() + "/api/", HTTP: o.http,
	})
}

// socket receives everything and keeps what it has received.
func (o *office) socket() *slack.Socket {
	s := &slack.Socket{
		Slack: o.channel(slacktest.AppToken), Log: slog.New(slog.NewTextHandler(o, &slog.HandlerOptions{Level: slog.LevelDebug})),
		To: slack.Receivers{Interactive: slack.Unanswered(o.receive("interactive")), Command: o.receive("command"), Event: o.receive("event")},
		Down: func(why string) {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.downs = append(o.downs, why)
		},
	}
	s.DialWith(o.pipes.Dial)
	return s
}

func (o *office) receive(kind string) func(context.Context, []byte) error {
	return func(_ context.Context, payload []byte) error {
		var p struct {
			Trigger string `json:"trigger_id"`
			Event   string `json:"event_id"`
		}
		err := json.Unmarshal(payload, &p)
		o.mu.Lock()
		defer o.mu.Unlock()
		o.got = append(o.got, kind+" "+p.Trigger+p.Event)
		return err
	}
}

// Write keeps logs.
func (o *office) Write(line []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.logs.Write(line)
}

func (o *office) logged(what string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.Count(o.logs.String(), what)
}

func (o *office) wantDowns(want ...string) {
	o.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	if diff := cmp.Diff(want, o.downs); diff != "" {
		o.Errorf("what Down was told (-want +got):\n%s", diff)
	}
}

// tries is how often an address has been asked for.
func (o *office) tries() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.opens
}

// run runs a socket until the test, or what is returned, ends it.
func (o *office) run(s *slack.Socket) (stop func()) {
	ctx, cancel := context.WithCancel(o.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.Run(ctx)
	}()
	stop = func() { cancel(); <-ended }
	o.Cleanup(stop)
	return stop
}

// open waits until so many connections are open, and greeted.
func (o *office) open(n int) []int {
	o.Helper()
	open, err := o.slack.Await(o.Context(), func(open []int) bool { return len(open) == n })
	if err != nil {
		o.Fatalf("the connections are %v: %v", open, err)
	}
	synctest.Wait()
	return open
}

func (o *office) click() slacktest.Click {
	return slacktest.Click{User: "U0AAAAAA1", Channel: ops, TS: o.card.Message, Action: "approve"}
}

// press presses approve and returns what the presser sees of it.
func (o *office) press() string {
	o.Helper()
	out, err := o.slack.Click(o.Context(), o.click())
	if err != nil {
		o.Fatal(err)
	}
	return out.Warning
}

// wait lets time pass.
func (o *office) wait(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func TestPayloadsOverASocket(t *testing.T) {
	t.Parallel()
	inOffice(t, slacktest.Config{}, func(o *office) {
		decide := make(chan struct{})
		presses := &slack.Presses{
			Slack: o.channel(slacktest.AppToken), Log: slog.New(slog.NewTextHandler(o, nil)),
			Press: func(context.Context, channels.Click) string { <-decide; return "Recorded." },
		}
		s := o.socket()
		s.To.Interactive = presses.Receive
		o.run(s)
		o.open(2)
		if warning := o.press(); warning != "" {
			o.Errorf("a press gets %q", warning)
		}
		if told := o.slack.Ephemerals("U0AAAAAA1"); len(told) != 0 {
			o.Error("the press was acknowledged after its decision")
		}
		close(decide)
		presses.Wait()
		if told := o.slack.Ephemerals("U0AAAAAA1"); len(told) != 1 || told[0].Read() != "Recorded." {
			o.Errorf("the presser is told %v", told)
		}
		slash, err := o.slack.Slash(o.Context(), slacktest.Slash{User: "U0AAAAAA1", Channel: ops, Command: "/approvals", Text: "list"})
		if err != nil || slash.Warning != "" {
			o.Errorf("a command gets %q, %v", slash.Warning, err)
		}
		event, err := o.slack.Event(o.Context(), map[string]any{"type": "channel_archive", "channel": ops})
		if err != nil || event.Warning != "" {
			o.Errorf("an event gets %q, %v", event.Warning, err)
		}
		sent := o.slack.Envelopes()
		for _, e := range sent {
			if len(e.Acks) != 1 || e.Acks[0].After >= 3*time.Second || len(e.Acks[0].Payload) != 0 {
				o.Errorf("%s is acknowledged by %+v", e.Type, e.Acks)
			}
		}
		if len(sent) != 3 || len(o.got) != 2 || o.got[0] != "command "+slash.TriggerID || !strings.HasPrefix(o.got[1], "event Ev") {
			o.Errorf("%d envelopes sent, received %q", len(sent), o.got)
		}
	})
}

// TestASocketOverARealNetwork is the one that dials as everybody does.
func TestASocketOverARealNetwork(t *testing.T) {
	t.Parallel()
	double := workspace(t, slacktest.Config{Now: slacktest.NewClock().Now, Patience: time.Minute})
	c := slack.New(slack.Config{BotToken: secret.New(slacktest.BotToken), AppToken: secret.New(slacktest.AppToken), APIURL: double.URL() + "/api/"})
	s := &slack.Socket{Slack: c, Log: slog.New(slog.DiscardHandler)}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.Run(ctx)
	}()
	if _, err := double.Await(t.Context(), func(open []int) bool { return len(open) == 2 }); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		out, err := double.Slash(t.Context(), slacktest.Slash{User: "U0AAAAAA1", Channel: ops, Command: "/approvals"})
		if err != nil || out.Warning != "" {
			t.Errorf("a command gets %q, %v", out.Warning, err)
		}
	}
	cancel()
	<-ended
	if _, err := double.Await(t.Context(), func(open []int) bool { return len(open) == 0 }); err != nil {
		t.Error(err)
	}
}

// TestWhatSlackGoCannotReadArrives has payloads and frames that are not as
// expected.
func TestWhatSlackGoCannotReadArrives(t *testing.T) {
	t.Parallel()
	odd := map[string]func(map[string]any){
		"a block that nobody knows": func(p map[string]any) {
			p["message"] = map[string]any{"blocks": []any{map[string]any{"type": "actions", "elements": []any{map[string]any{"type": "new_thing"}}}}}
		},
		"a text that is a number": func(p map[string]any) {
			p["message"] = map[string]any{"blocks": []any{map[string]any{"type": "section", "text": 7}}}
		},
		"no team":                       func(p map[string]any) { p["team"] = nil },
		"an install that is a string":   func(p map[string]any) { p["is_enterprise_install"] = "false" },
		"an action that has no block":   func(p map[string]any) { delete(p["actions"].([]any)[0].(map[string]any), "block_id") },
		"a message of nearly 4 million": func(p map[string]any) { p["message"] = strings.Repeat("x", 4<<20-4096) },
	}
	for name, mangle := range odd {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inOffice(t, slacktest.Config{}, func(o *office) {
				o.run(o.socket())
				o.open(2)
				k := o.click()
				k.Mangle = mangle
				out, err := o.slack.Click(o.Context(), k)
				if err != nil || out.Warning != "" || !slices.Equal(o.got, []string{"interactive " + out.TriggerID}) {
					o.Errorf("it gets %q, %v; received %q", out.Warning, err, o.got)
				}
			})
		})
	}
	t.Run("frames that are none", func(t *testing.T) {
		t.Parallel()
		inOffice(t, slacktest.Config{}, func(o *office) {
			o.run(o.socket())
			open := o.open(2)
			for _, junk := range []string{"", "{", "[]", "null", `"hello"`, `{"type":7}`, "{}", `{"type":"hello","num_connections":"many"}`} {
				o.slack.Frame(0, junk)
			}
			o.slack.Frame(open[0], `{"type":"interactive","envelope_id":"E1","payload":{"trigger_id":"odd"},"accepts_response_payload":"no","retry_attempt":"x","num_connections":"x","reason":7}`)
			o.slack.Frame(open[1], `{"type":"functions","envelope_id":"E2","payload":{}}`)
			synctest.Wait()
			var acked []string
			for _, a := range o.slack.StrayAcks() {
				acked = append(acked, a.Envelope)
			}
			slices.Sort(acked)
			if !slices.Equal(acked, []string{"E1", "E2"}) || !slices.Equal(o.got, []string{"interactive odd"}) {
				o.Errorf("acknowledged %q, received %q", acked, o.got)
			}
			if now := o.slack.Sockets(); !slices.Equal(now, open) || o.press() != "" {
				o.Errorf("the connections are %v, they were %v", now, open)
			}
		})
	})
}

func TestAFrameThatIsTooLargeIsNotRead(t *testing.T) {
	t.Parallel()
	inOffice(t, slacktest.Config{}, func(o *office) {
		o.run(o.socket())
		first := o.open(2)[0]
		o.slack.Frame(first, strings.Repeat("x", 4<<20+1))
		synctest.Wait()
		if open := o.slack.Sockets(); slices.Contains(open, first) {
			o.Errorf("the connections are %v", open)
		}
		if warning := o.press(); warning != "" {
			o.Errorf("on the other connection a press gets %q", warning)
		}
	})
}

func TestWhatIsNotAcknowledged(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		receive func(context.Context, []byte) error
		warning string
		acks    int
		log     string
	}{
		"what nobody wants is acknowledged": {nil, "", 1, "level=DEBUG msg=\"a payload that nobody wants\" kind=interactive"},
		"what is none of ours is not": {
			func(context.Context, []byte) error { return errors.New("of another app") }, "operation_timeout", 0,
			"level=WARN msg=\"a payload that is not understood\" kind=interactive err=\"of another app\"",
		},
		"a panic is not": {func(_ context.Context, p []byte) error { panic(string(p)) }, "operation_timeout", 0, "level=ERROR msg=panic kind=interactive stack="},
		"what takes too long has three seconds": {
			func(ctx context.Context, _ []byte) error { <-ctx.Done(); return ctx.Err() }, "operation_timeout", 0, "context deadline exceeded",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inOffice(t, slacktest.Config{}, func(o *office) {
				s := o.socket()
				s.To.Interactive = slack.Unanswered(tt.receive)
				o.run(s)
				o.open(2)
				warning := o.press()
				o.wait(time.Second)
				if got := o.slack.Envelopes()[0].Acks; warning != tt.warning || len(got) != tt.acks {
					o.Errorf("the presser sees %q after acknowledgements %+v", warning, got)
				}
				if o.logged(tt.log) != 1 {
					o.Errorf("no %q in\n%s", tt.log, &o.logs)
				}
				if len(o.slack.Sockets()) != 2 {
					o.Error("a connection was lost over it")
				}
			})
		})
	}
}

// TestPayloadsDoNotWaitForEachOther has receivers that hang.
func TestPayloadsDoNotWaitForEachOther(t *testing.T) {
	t.Parallel()
	inOffice(t, slacktest.Config{}, func(o *office) {
		s, hang := o.socket(), make(chan struct{})
		s.To.Interactive = func(context.Context, []byte) ([]byte, error) { <-hang; return nil, nil }
		o.run(s)
		o.open(2)
		all := make([]slacktest.Click, 200)
		for i := range all {
			all[i] = o.click()
		}
		outcomes := make(chan []slacktest.Outcome, 1)
		go func() {
			out, _ := o.slack.ClickAll(o.Context(), all...)
			outcomes <- out
		}()
		synctest.Wait()
		close(hang)
		seen := map[string]int{}
		for _, out := range <-outcomes {
			seen[out.Warning]++
		}
		if diff := cmp.Diff(map[string]int{"": 2 * 64, "operation_timeout": 200 - 2*64}, seen); diff != "" {
			o.Errorf("what pressers see (-want +got):\n%s", diff)
		}
		if n := o.logged("a payload is not taken"); n != 200-2*64 {
			o.Errorf("%d warnings", n)
		}
		if warning := o.press(); warning != "" {
			o.Errorf("a press later gets %q", warning)
		}
	})
}

func TestARefreshLeavesNoGap(t *testing.T) {
	t.Parallel()
	for _, reason := range []string{"refresh_requested", "warning", ""} {
		for after, wait := range map[string]time.Duration{"at once": 0, "after an hour": time.Hour} {
			t.Run(reason+" "+after, func(t *testing.T) {
				t.Parallel()
				inOffice(t, slacktest.Config{}, func(o *office) {
					o.run(o.socket())
					first := o.open(2)[0]
					o.wait(wait)
					if reason == "" {
						o.slack.Drop(first)
						synctest.Wait() // until Slack has seen it
					} else {
						o.slack.Disconnect(first, reason)
					}
					began := time.Now()
					if warning := o.press(); warning != "" {
						o.Errorf("a press meanwhile gets %q", warning)
					}
					// The warned connection is still there beside its successor.
					open, err := o.slack.Await(o.Context(), func(open []int) bool { return open[len(open)-1] == 3 })
					if err != nil || wait > 0 && time.Since(began) > 0 || time.Since(began) > 15*time.Second {
						o.Errorf("after %v the connections are %v, %v", time.Since(began), open, err)
					}
					if reason == "warning" && wait > 0 && !slices.Equal(open, []int{1, 2, 3}) {
						o.Errorf("the connections are %v, want the warned one among them", open)
					}
					o.wait(time.Minute)
					if now := o.slack.Sockets(); !slices.Equal(now, []int{2, 3}) {
						o.Errorf("later the connections are %v", now)
					}
					for range 4 {
						if warning := o.press(); warning != "" {
							o.Errorf("a press later gets %q", warning)
						}
					}
					o.wantDowns("")
				})
			})
		}
	}
}

// TestAPressDuringARefresh is under way when its connection is told to go.
func TestAPressDuringARefresh(t *testing.T) {
	t.Parallel()
	for reason, want := range map[string]string{"warning": "", "refresh_requested": "operation_timeout", "link_lost": "operation_timeout"} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			inOffice(t, slacktest.Config{}, func(o *office) {
				s, came, decide := o.socket(), make(chan struct{}, 1), make(chan struct{})
				s.To.Interactive = func(ctx context.Context, p []byte) ([]byte, error) {
					came <- struct{}{}
					<-decide
					return nil, o.receive("interactive")(ctx, p)
				}
				o.run(s)
				o.open(2)
				o.wait(time.Hour)
				sees := make(chan string, 1)
				go func() { sees <- o.press() }()
				<-came
				if reason == "link_lost" {
					o.slack.Drop(0)
				} else {
					o.slack.Disconnect(0, reason)
				}
				synctest.Wait()
				close(decide)
				if got := <-sees; got != want {
					o.Errorf("the presser sees %q, want %q", got, want)
				}
				if again := o.press(); again != "" || len(o.got) != 2 {
					o.Errorf("pressing again gets %q; received %q", again, o.got)
				}
				if stray := o.slack.StrayAcks(); len(stray) != 0 {
					o.Errorf("acknowledgements of nothing: %+v", stray)
				}
				for _, e := range o.slack.Envelopes() {
					if len(e.Acks) > 0 && e.Acks[0].Socket != e.Socket {
						o.Errorf("an acknowledgement of what came on %d went out on %d", e.Socket, e.Acks[0].Socket)
					}
				}
				o.wantDowns("") // it was no outage
			})
		})
	}
}

func TestReplicasShareThePresses(t *testing.T) {
	t.Parallel()
	inOffice(t, slacktest.Config{}, func(o *office) {
		one, two := o.socket(), o.socket()
		o.run(one)
		o.open(2)
		o.run(two)
		o.open(4)
		if own, both := one.Connections(), two.Connections(); own != 2 || both != 4 {
			o.Errorf("the first saw %d connections, the second %d", own, both)
		}
		all := make([]slacktest.Click, 40)
		for i := range all {
			all[i] = o.click()
		}
		outcomes, err := o.slack.ClickAll(o.Context(), all...)
		if err != nil {
			o.Fatal(err)
		}
		var want []string
		for _, out := range outcomes {
			if out.Warning != "" {
				o.Errorf("a press gets %q", out.Warning)
			}
			want = append(want, "interactive "+out.TriggerID)
		}
		slices.Sort(want)
		slices.Sort(o.got)
		if diff := cmp.Diff(want, o.got); diff != "" || len(slices.Compact(want)) != 40 {
			o.Errorf("presses (-want +got):\n%s", diff)
		}
		per := map[int]int{}
		for _, e := range o.slack.Envelopes() {
			per[e.Socket] += len(e.Acks)
		}
		if diff := cmp.Diff(map[int]int{1: 10, 2: 10, 3: 10, 4: 10}, per); diff != "" {
			o.Errorf("acknowledgements by connection (-want +got):\n%s", diff)
		}
	})
}

// TestNoReconnectStorm looks at an hour of each trouble, and then mends it.
func TestNoReconnectStorm(t *testing.T) {
	t.Parallel()
	const (
		always   = 2 * 240 // two lines, every 15 seconds
		operator = 2 * 16  // at 0:15, 0:45, 1:45, 3:45, 7:45, and then every five minutes
	)
	fail := func(f slacktest.Fault) func(o *office, _ *slack.Socket) func() {
		return func(o *office, _ *slack.Socket) func() {
			o.slack.Fail("apps.connections.open", 0, f)
			return func() { o.slack.Fail("apps.connections.open", 0, slacktest.Fault{}) }
		}
	}
	each := func(breaks func(o *office, n int)) func(o *office, _ *slack.Socket) func() {
		return func(o *office, _ *slack.Socket) func() {
			ctx, cancel := context.WithCancel(o.Context())
			o.Cleanup(cancel)
			go func() {
				for n := 1; ; n++ {
					if _, err := o.slack.Await(ctx, func(open []int) bool { return slices.Contains(open, n) }); err != nil {
						return
					}
					breaks(o, n)
				}
			}()
			return cancel
		}
	}
	for name, tt := range map[string]struct {
		trouble func(o *office, s *slack.Socket) (mend func())
		tries   int
		why     string // empty: it comes and goes
	}{
		"a token that is revoked":              {fail(slacktest.Refused("token_revoked")), operator, "token_revoked"},
		"a token that is not valid":            {fail(slacktest.Refused("invalid_auth")), operator, "invalid_auth"},
		"Socket Mode that is switched off":     {fail(slacktest.Refused("link_disabled")), operator, "link_disabled"},
		"an error that nobody knows":           {fail(slacktest.Refused("new_error")), operator, "new_error"},
		"Slack out of order":                   {fail(slacktest.ServerError), always, "HTTP 500"},
		"Slack out of order, as it says":       {fail(slacktest.Refused("internal_error")), always, "internal_error"},
		"a refusal without a reason":           {fail(slacktest.NoReason), always, "not reached"},
		"a network that breaks":                {fail(slacktest.Reset), always, "not reached"},
		"a rate limit of a minute":             {fail(slacktest.RateLimited(time.Minute)), 2 * 60, "ratelimited"},
		"a rate limit of a second":             {fail(slacktest.RateLimited(time.Second)), always, "ratelimited"},
		"a rate limit of ten minutes":          {fail(slacktest.RateLimited(10 * time.Minute)), 2 * 6, "ratelimited"},
		"a rate limit that does not say":       {fail(slacktest.RateLimitedBare), 2 * 120, "HTTP 429"},
		"a rate limit with 200":                {fail(slacktest.Refused("ratelimited")), 2 * 120, "ratelimited"},
		"a connection that breaks at once":     {each(func(o *office, n int) { o.slack.Drop(n) }), always, ""},
		"a connection refreshed at once":       {each(func(o *office, n int) { o.slack.Disconnect(n, "refresh_requested") }), always, ""},
		"a connection for which we are a pest": {each(func(o *office, n int) { o.slack.Disconnect(n, "too_many_websockets") }), operator, ""},
		"ten connections of others": {func(o *office, _ *slack.Socket) func() {
			for range 10 {
				o.squat()
			}
			return func() { o.slack.Drop(0) }
		}, operator + 10, "too_many_websockets"},
		"a bot token for an app token": {func(o *office, s *slack.Socket) func() {
			s.Slack = o.channel(slacktest.BotToken)
			return func() { s.Slack.Adopt(o.channel(slacktest.AppToken)) }
		}, operator, "not_allowed_token_type"},
		"an address that is not Slack's": {func(o *office, s *slack.Socket) func() {
			s.Slack = slack.New(slack.Config{AppToken: secret.New(slacktest.AppToken), APIURL: o.slack.URL() + "/nowhere/", HTTP: o.http})
			return func() { s.Slack.Adopt(o.channel(slacktest.AppToken)) }
		}, operator, "HTTP 404"},
		"sockets that no wall lets through": {func(o *office, s *slack.Socket) func() {
			open := make(chan struct{})
			s.DialWith(func(ctx context.Context, network, address string) (net.Conn, error) {
				select {
				case <-open:
					return o.pipes.Dial(ctx, network, address)
				default:
					return nil, &net.OpError{Op: "dial", Err: errors.New("connection refused")}
				}
			})
			return func() { close(open) }
		}, always, "not reached"},
		"sockets that nobody answers": {func(o *office, s *slack.Socket) func() {
			open := make(chan struct{})
			s.DialWith(func(ctx context.Context, network, address string) (net.Conn, error) {
				select {
				case <-open:
					return o.pipes.Dial(ctx, network, address)
				default:
					here, there := net.Pipe()
					go func() { _, _ = io.Copy(io.Discard, there) }()
					return here, nil
				}
			})
			return func() { close(open) }
		}, always, "not reached"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inOffice(t, slacktest.Config{}, func(o *office) {
				s := o.socket()
				mend := tt.trouble(o, s)
				o.run(s)
				o.wait(time.Hour - time.Second)
				if n := o.tries(); n != tt.tries {
					o.Errorf("%d tries in an hour, want %d", n, tt.tries)
				}
				if tt.why != "" {
					o.wantDowns(tt.why)
					if o.logged("level=WARN") != 1 || o.logged("reason="+quoted(tt.why)+" err") != 1 {
						o.Errorf("want one warning with %s:\n%s", quoted(tt.why), &o.logs)
					}
				}
				mend()
				o.wait(10 * time.Minute)
				if open := o.slack.Sockets(); len(open) != 2 {
					o.Errorf("ten minutes after it was mended the connections are %v", open)
				}
				if warning := o.press(); warning != "" {
					o.Errorf("a press then gets %q", warning)
				}
				if tt.why != "" {
					o.wantDowns(tt.why, "")
					if o.logged("level=INFO") != 1 {
						o.Errorf("want one line that all is well again:\n%s", &o.logs)
					}
				}
			})
		})
	}
}

func quoted(s string) string {
	if strings.Contains(s, " ") {
		return fmt.Sprintf("%q", s)
	}
	return s
}

// squat opens a connection of somebody else.
func (o *office) squat() {
	o.Helper()
	req, err := http.NewRequestWithContext(o.Context(), http.MethodPost, o.slack.URL()+"/api/apps.connections.open", nil)
	if err != nil {
		o.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+slacktest.AppToken)
	resp, err := o.http.Do(req)
	if err != nil {
		o.Fatal(err)
	}
	defer resp.Body.Close()
	var at struct{ URL string }
	if err := json.NewDecoder(resp.Body).Decode(&at); err != nil {
		o.Fatal(err)
	}
	conn, handshake, err := (&websocket.Dialer{NetDialContext: o.pipes.Dial}).DialContext(o.Context(), at.URL, nil)
	if err != nil {
		o.Fatal(err)
	}
	_ = handshake.Body.Close()
	go func() {
		for {
			if _, _, err := conn.ReadMessage(); err != nil {
				_ = conn.Close()
				return
			}
		}
	}()
}

// TestEachChangeIsSaidOnce has a trouble that becomes another, and one of a
// single line.
func TestEachChangeIsSaidOnce(t *testing.T) {
	t.Parallel()
	inOffice(t, slacktest.Config{}, func(o *office) {
		o.run(o.socket())
		o.open(2)
		o.wait(time.Hour)
		o.wantDowns("")
		o.slack.Disconnect(0, "link_disabled")
		o.wait(10 * time.Minute)
		o.wantDowns("", "link_disabled")
		o.slack.Fail("apps.connections.open", 0, slacktest.ServerError)
		o.wait(10 * time.Minute)
		o.wantDowns("", "link_disabled", "HTTP 500")
		if n := o.logged("level=WARN"); n != 2 {
			o.Errorf("%d warnings, want 2:\n%s", n, &o.logs)
		}
	})
	inOffice(t, slacktest.Config{}, func(o *office) {
		o.run(o.socket())
		first := o.open(2)[0]
		o.wait(time.Hour)
		o.slack.Fail("apps.connections.open", 0, slacktest.ServerError)
		o.slack.Drop(first)
		o.wait(time.Hour)
		o.wantDowns("") // half of it is enough
		if n := o.logged("level=WARN"); n != 1 {
			o.Errorf("%d warnings, want one:\n%s", n, &o.logs)
		}
	})
}

// TestPausesAreShortAgain has a second trouble long after the first.
func TestPausesAreShortAgain(t *testing.T) {
	t.Parallel()
	inOffice(t, slacktest.Config{}, func(o *office) {
		o.run(o.socket())
		for range 2 {
			o.slack.Fail("apps.connections.open", 0, slacktest.Refused("token_revoked"))
			o.slack.Drop(0)
			o.wait(time.Hour)
			o.slack.Fail("apps.connections.open", 0, slacktest.Fault{})
			o.wait(time.Hour)
		}
		o.slack.Fail("apps.connections.open", 0, slacktest.Refused("token_revoked"))
		before := o.tries()
		o.slack.Drop(0)
		o.wait(20 * time.Second)
		if n := o.tries() - before; n != 2*2 {
			o.Errorf("%d tries in twenty seconds, want two of each line", n)
		}
	})
}

func TestANewTokenIsTriedAtOnce(t *testing.T) {
	t.Parallel()
	inOffice(t, slacktest.Config{}, func(o *office) {
		s := o.socket()
		s.Slack = o.channel("xapp-old")
		o.run(s)
		o.wait(time.Hour)
		began := time.Now()
		s.Slack.Adopt(o.channel("xapp-old-too"))
		synctest.Wait()
		s.Slack.Adopt(o.channel(slacktest.AppToken))
		o.open(2)
		if took := time.Since(began); took != 0 || o.press() != "" {
			o.Errorf("it took %v", took)
		}
		o.wantDowns("invalid_auth", "")
	})
}

func TestASilentConnectionIsGivenUp(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		every time.Duration
		last  int
	}{
		"a connection with pings is kept": {10 * time.Second, 2},
		"one without is not":              {time.Hour, 2 * 20},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inOffice(t, slacktest.Config{PingEvery: tt.every}, func(o *office) {
				o.run(o.socket())
				o.open(2)
				o.wait(10*time.Minute - time.Second)
				if open := o.slack.Sockets(); open[len(open)-1] != tt.last {
					o.Errorf("after ten minutes the connections are %v, want the last one to be %d", open, tt.last)
				}
			})
		})
	}
}

// TestTheEndOfASocket ends one in every state. That nothing runs on, the bubble
// sees to.
func TestTheEndOfASocket(t *testing.T) {
	t.Parallel()
	run := func(name string, c slacktest.Config, test func(o *office, s *slack.Socket)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inOffice(t, c, func(o *office) {
				test(o, o.socket())
				if open := o.slack.Sockets(); len(open) != 0 {
					o.Errorf("the connections are %v", open)
				}
			})
		})
	}
	ends := func(o *office, stop func()) {
		o.Helper()
		began := time.Now()
		stop()
		synctest.Wait()
		if took := time.Since(began); took > 0 {
			o.Errorf("it took %v", took)
		}
	}
	run("with nothing to do", slacktest.Config{}, func(o *office, s *slack.Socket) {
		stop := o.run(s)
		o.open(2)
		o.wait(time.Hour)
		ends(o, stop)
		if said := o.slack.Goodbyes(); len(said) != 2 {
			o.Errorf("goodbyes of %v, want both", said)
		}
	})
	run("with a Slack that hears nothing and goes on talking", slacktest.Config{PingEvery: 100 * time.Millisecond}, func(o *office, s *slack.Socket) {
		var deaf atomic.Bool
		s.DialWith(func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := o.pipes.Dial(ctx, network, address)
			return mute{conn, &deaf}, err
		})
		stop := o.run(s)
		o.open(2)
		o.wait(time.Hour)
		o.slack.Disconnect(0, "warning")
		o.open(4)
		deaf.Store(true)
		began := time.Now()
		stop()
		if took := time.Since(began); took != time.Second {
			o.Errorf("it took %v, want a second of patience", took)
		}
		o.slack.Drop(0)
		o.open(0)
	})
	run("waiting to try again", slacktest.Config{}, func(o *office, s *slack.Socket) {
		s.Slack = o.channel("xapp-old")
		stop := o.run(s)
		o.wait(time.Hour)
		ends(o, stop)
	})
	run("waiting for an address", slacktest.Config{}, func(o *office, s *slack.Socket) {
		o.slack.Fail("apps.connections.open", 0, slacktest.Held(make(chan struct{})))
		stop := o.run(s)
		o.wait(time.Second)
		ends(o, stop)
	})
	run("in a handshake", slacktest.Config{}, func(o *office, s *slack.Socket) {
		s.DialWith(func(context.Context, string, string) (net.Conn, error) {
			here, there := net.Pipe()
			go func() { _, _ = io.Copy(io.Discard, there) }()
			return here, nil
		})
		stop := o.run(s)
		o.wait(time.Second)
		ends(o, stop)
	})
	run("with a warned connection", slacktest.Config{}, func(o *office, s *slack.Socket) {
		stop := o.run(s)
		o.open(2)
		o.wait(time.Hour)
		o.slack.Disconnect(0, "warning")
		o.open(4)
		ends(o, stop)
	})
}

// TestTheEndWaitsForWhatWasTaken has a press under way when all ends.
func TestTheEndWaitsForWhatWasTaken(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		before      func(o *office) // what happens to its connection
		sees, later string          // what its presser sees, and who presses after the end
	}{
		"on a connection":        {func(*office) {}, "", "operation_timeout"},
		"on a warned connection": {func(o *office) { o.slack.Disconnect(1, "warning") }, "", "no_socket"},
		"on a lost connection":   {func(o *office) { o.slack.Drop(1) }, "operation_timeout", "no_socket"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inOffice(t, slacktest.Config{}, func(o *office) {
				s, came, decide := o.socket(), make(chan context.Context, 1), make(chan struct{})
				s.To.Interactive = func(ctx context.Context, _ []byte) ([]byte, error) {
					came <- ctx
					<-decide
					return nil, ctx.Err()
				}
				stop := o.run(s)
				o.open(2)
				o.slack.Drop(2) // so that all is on one
				synctest.Wait()
				press := func() chan string {
					sees := make(chan string, 1)
					go func() { sees <- o.press() }()
					return sees
				}
				first := press()
				within, stopped := <-came, make(chan struct{})
				tt.before(o)
				synctest.Wait()
				go func() {
					defer close(stopped)
					stop()
				}()
				synctest.Wait()
				select {
				case <-stopped:
					o.Error("it ended before its work")
				default:
				}
				if within.Err() != nil {
					o.Error("the work was cut off")
				}
				later := press()
				synctest.Wait()
				close(decide)
				if got := <-first; got != tt.sees {
					o.Errorf("the presser sees %q, want %q", got, tt.sees)
				}
				<-stopped
				if got := <-later; got != tt.later {
					o.Errorf("who presses after the end sees %q, want %q", got, tt.later)
				}
			})
		})
	}
}

// TestASocketTellsNoSecrets greps all that is said in many troubles.
func TestASocketTellsNoSecrets(t *testing.T) {
	t.Parallel()
	const words = "hunter2"
	look := func(o *office) {
		o.Helper()
		o.mu.Lock()
		defer o.mu.Unlock()
		said := o.logs.String() + strings.Join(o.downs, "\n")
		for _, bad := range []string{
			slacktest.AppToken, slacktest.BotToken, "ticket", "ws:", "wss:", "/actions/", "response_url", "trigger", words,
		} {
			if strings.Contains(said, bad) {
				o.Errorf("%q is said:\n%s", bad, said)
			}
		}
		if !strings.Contains(said, "level=DEBUG") || !strings.Contains(said, "level=WARN") {
			o.Errorf("too little is said to prove anything:\n%s", said)
		}
	}
	t.Run("payloads", func(t *testing.T) {
		t.Parallel()
		inOffice(t, slacktest.Config{}, func(o *office) {
			s := o.socket()
			o.run(s)
			s.To = slack.Receivers{
				Interactive: (&slack.Presses{Slack: s.Slack, Log: s.Log}).Receive,
				Command:     func(_ context.Context, p []byte) error { panic(string(p)) },
			}
			o.open(2)
			for _, mangle := range []func(map[string]any){
				func(p map[string]any) { p["api_app_id"] = words },
				func(p map[string]any) { p["actions"] = words },
				func(p map[string]any) { p["actions"].([]any)[0].(map[string]any)["action_id"] = words },
				func(p map[string]any) { p["actions"].([]any)[0].(map[string]any)["value"] = words },
			} {
				k := o.click()
				k.Mangle = mangle
				_, _ = o.slack.Click(o.Context(), k)
			}
			_, _ = o.slack.Slash(o.Context(), slacktest.Slash{User: "U0AAAAAA1", Channel: ops, Command: "/approvals", Text: words})
			_, _ = o.slack.Event(o.Context(), map[string]any{"type": words})
			for _, junk := range []string{words, `{"type":"` + words, `{"payload":"` + words + `"}`} {
				o.slack.Frame(0, junk)
			}
			o.slack.Drop(0)
			o.wait(time.Minute)
			look(o)
		})
	})
	for name, at := range map[string]string{
		"an address that is none":       `ws://127.0.0.1:x/link/?ticket=hunter2`,
		"one with a control character":  `wss://127.0.0.1/link/?ticket=hunter2\u007f`,
		"one of another kind":           `https://127.0.0.1/link/?ticket=hunter2`,
		"one with a password":           `ws://ticket:hunter2@127.0.0.1/link/?ticket=hunter2`,
		"one that expects TLS":          `wss://127.0.0.1/link/?ticket=hunter2`,
		"one whose ticket was used":     `ws://127.0.0.1/link/?ticket=hunter2`,
		"one that is another page":      `ws://127.0.0.1/api/hunter2?ticket=hunter2`,
		"one that redirects to nowhere": `ws://127.0.0.1//link/?ticket=hunter2`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inOffice(t, slacktest.Config{}, func(o *office) {
				s := o.socket()
				client := &http.Client{Transport: answers(`{"ok":true,"url":"` + at + `"}`)}
				s.Slack = slack.New(slack.Config{
					BotToken: secret.New(slacktest.BotToken), AppToken: secret.New(slacktest.AppToken), APIURL: o.slack.URL() + "/api/", HTTP: client,
				})
				o.run(s)
				o.wait(time.Hour)
				look(o)
			})
		})
	}
	for name, broken := range map[string]http.RoundTripper{
		"a page instead of an answer": answers("<html>" + slacktest.AppToken + " ?ticket=hunter2"),
		"an answer of another shape":  answers(`{"ok":true,"url":{"ticket":"hunter2"}}`),
		"a network that says too much": transport(func(r *http.Request) (*http.Response, error) {
			return nil, fmt.Errorf("no way to %s", r.Host)
		}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inOffice(t, slacktest.Config{}, func(o *office) {
				s := o.socket()
				s.Slack = slack.New(slack.Config{AppToken: secret.New(slacktest.AppToken), APIURL: "http://ticket@127.0.0.1/", HTTP: &http.Client{Transport: broken}})
				o.run(s)
				o.wait(time.Hour)
				look(o)
			})
		})
	}
}

// mute is a connection that sends nothing any more when it is told so.
type mute struct {
	net.Conn
	on *atomic.Bool
}

func (m mute) Write(b []byte) (int, error) {
	if m.on.Load() {
		return len(b), nil
	}
	return m.Conn.Write(b)
}

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func answers(body string) transport {
	return func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Request: r, Body: io.NopCloser(strings.NewReader(body))}, nil
	}
}

func TestHowConnectionsAreDialled(t *testing.T) {
	t.Parallel()
	d := slack.Dialer()
	if d.HandshakeTimeout != 10*time.Second || d.WriteBufferSize < 32<<10 {
		t.Errorf("the dialer is %+v", d)
	}
	if reflect.ValueOf(d.Proxy).Pointer() != reflect.ValueOf(http.ProxyFromEnvironment).Pointer() {
		t.Error("proxies are not those of the environment")
	}
}
