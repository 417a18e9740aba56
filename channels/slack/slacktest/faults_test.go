package slacktest_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/slack-go/slack"

	"github.com/approvalbot/approvalbot/channels/slack/slacktest"
)

func TestFaults(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		fault  slacktest.Fault
		want   string
		posted bool
	}{
		"rate limited":                   {slacktest.RateLimited(7 * time.Second), "429 after 7s", false},
		"rate limited, but until when":   {slacktest.RateLimitedBare, "429 Too Many Requests", false},
		"rate limited with 200":          {slacktest.Refused("ratelimited"), "ratelimited", false},
		"a page for people":              {slacktest.ServerError, "500 Internal Server Error", false},
		"no reason, which is no error":   {slacktest.NoReason, "", false},
		"a reset before it is done":      {slacktest.Reset, "transport", false},
		"a lost answer":                  {slacktest.LostAnswer, "transport", true},
		"nothing":                        {slacktest.Fault{}, "", true},
		"a fatal error, nothing is done": {slacktest.Refused("fatal_error"), "fatal_error", false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, slacktest.Config{})
			w.post(t, ops, text("first"))
			w.Fail("chat.postMessage", 2, tt.fault)
			_, ts, err := w.api.PostMessageContext(t.Context(), ops, card("apr_01")...)
			if code(err) != tt.want {
				t.Errorf("post = %q, %v, want %q", ts, err, tt.want)
			}
			if got := len(w.Messages(ops)) == 2; got != tt.posted {
				t.Errorf("posted: %t, want %t", got, tt.posted)
			}
			w.post(t, ops, text("third"))
		})
	}
}

func TestFaultsInARowAndForEver(t *testing.T) {
	t.Parallel()
	w := newWorld(t, slacktest.Config{})
	w.Fail("users.info", 0, slacktest.ServerError)
	w.FailNext("users.info", slacktest.Reset, slacktest.Fault{}, slacktest.NoReason)
	for n, want := range []string{"transport", "", "", "500 Internal Server Error", "500 Internal Server Error"} {
		if _, err := w.api.GetUserInfoContext(t.Context(), ada); code(err) != want {
			t.Errorf("call %d = %v, want %q", n+1, err, want)
		}
	}
	if got := len(w.Calls("users.info")); got != 5 {
		t.Errorf("%d calls, want 5", got)
	}
}

func TestAHeldAnswerComesAfterWhatItTells(t *testing.T) {
	t.Parallel()
	w := newWorld(t, slacktest.Config{})
	release, answered := make(chan struct{}), make(chan error, 1)
	w.FailNext("chat.postMessage", slacktest.Held(release))
	go func() {
		_, _, err := w.api.PostMessageContext(t.Context(), ops, card("apr_01")...)
		answered <- err
	}()
	await(t, func() bool { return len(w.Messages(ops)) == 1 })
	select {
	case err := <-answered:
		t.Fatalf("answered already: %v", err)
	default:
	}
	close(release)
	if err := <-answered; err != nil {
		t.Error(err)
	}
}

func TestAHeldAnswerEndsWithTheTest(t *testing.T) {
	t.Parallel()
	t.Run("inner", func(t *testing.T) {
		w := newWorld(t, slacktest.Config{})
		w.FailNext("chat.postMessage", slacktest.Held(nil), slacktest.Held(make(chan struct{})))
		w.post(t, ops, text("held by nothing"))
		go w.api.PostMessageContext(context.WithoutCancel(t.Context()), ops, text("held for ever"))
		await(t, func() bool { return len(w.Messages(ops)) == 2 })
	})
}

// await polls for what no event tells.
func await(t *testing.T, done func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for range tick.C {
		if done() {
			return
		}
		if t.Context().Err() != nil {
			t.Fatal("the test is over")
		}
	}
}

// What slack-go does with a lost answer when it may retry connections.
func TestARetryAfterALostAnswerPostsTwice(t *testing.T) {
	t.Parallel()
	w := newWorld(t, slacktest.Config{})
	retry := slack.RetryConfig{MaxRetries: 1, RetryAfterDuration: time.Millisecond, RetryAfterJitter: time.Millisecond}
	retry.Handlers = slack.AllBuiltinRetryHandlers(retry)
	api := client(w.Slack, slacktest.BotToken, slack.OptionRetryConfig(retry))
	w.FailNext("chat.postMessage", slacktest.LostAnswer)
	if _, _, err := api.PostMessageContext(t.Context(), ops, card("apr_01")...); err != nil {
		t.Fatal(err)
	}
	if n := len(w.Messages(ops)); n != 2 {
		t.Errorf("%d messages, want the same one twice", n)
	}
}

func TestFaultsOfResponseURLs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, slacktest.Config{})
	out := w.press(t, answering(t, 200, ""), "approve")
	w.FailNext("response_url", slacktest.ServerError)
	if got := respond(t, out.ResponseURL, `{"text":"no"}`); !strings.HasPrefix(got, "500 ") {
		t.Errorf("first = %s", got)
	}
	if got := respond(t, out.ResponseURL, `{"text":"no"}`); got != "200 ok" {
		t.Errorf("second = %s", got)
	}
}
