package slack_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/approvalbot/approvalbot/channels/slack"
	"github.com/approvalbot/approvalbot/channels/slack/slacktest"
	"github.com/approvalbot/approvalbot/gate/secret"
)

// diary is what events became.
type diary struct {
	*testing.T
	slack  *slacktest.Slack
	events *slack.Events

	mu    sync.Mutex
	wrote []string
}

func newDiary(t *testing.T) *diary {
	t.Helper()
	d := &diary{T: t, slack: workspace(t, slacktest.Config{})}
	d.events = &slack.Events{
		Slack: channel(d.slack), SigningSecret: secret.New(slacktest.SigningSecret), Log: slog.New(slog.DiscardHandler),
		Out:     func(why string) { d.write("out: " + why) },
		Left:    func(place string) { d.write("left " + place) },
		Renamed: func(from, to string) { d.write("renamed " + from + " to " + to) },
		Home:    func(_ context.Context, _, user string) { d.write("home of " + user) },
	}
	if _, err := channel(d.slack).Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(d.events)
	t.Cleanup(server.Close)
	d.slack.SendTo(slacktest.URLs{Events: server.URL})
	return d
}

func (d *diary) write(line string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.wrote = append(d.wrote, line)
}

func (d *diary) read() []string {
	d.events.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.wrote)
}

func TestEvents(t *testing.T) {
	t.Parallel()
	type what = map[string]any
	for name, tt := range map[string]struct {
		what what
		want []string
	}{
		"the app is taken out":                   {what{"type": "app_uninstalled"}, []string{"out: the app was taken out of the workspace"}},
		"the bot's token is revoked":             {what{"type": "tokens_revoked", "tokens": what{"bot": []string{slacktest.BotUser}}}, []string{"out: the bot token was revoked"}},
		"somebody else's token is revoked":       {what{"type": "tokens_revoked", "tokens": what{"oauth": []string{"U0AAAAAA1"}}}, nil},
		"a conversation is archived":             {what{"type": "channel_archive", "channel": ops, "user": "U0AAAAAA1"}, []string{"left slack:" + ops}},
		"the bot is taken out of a conversation": {what{"type": "member_left_channel", "channel": ops, "user": slacktest.BotUser}, []string{"left slack:" + ops}},
		"somebody else leaves one":               {what{"type": "member_left_channel", "channel": ops, "user": "U0AAAAAA1"}, nil},
		"a conversation has another id":          {what{"type": "channel_id_changed", "old_channel_id": "C1", "new_channel_id": "C2"}, []string{"renamed slack:C1 to slack:C2"}},
		"somebody opens the home":                {what{"type": "app_home_opened", "user": "U0AAAAAA1", "tab": "home", "channel": "D1"}, []string{"home of U0AAAAAA1"}},
		"somebody opens the messages":            {what{"type": "app_home_opened", "user": "U0AAAAAA1", "tab": "messages"}, nil},
		"somebody writes a message":              {what{"type": "message", "text": "approve apr_1", "channel": ops, "user": "U0AAAAAA1"}, nil},
		"something new, shaped otherwise":        {what{"type": "channel_archive", "channel": what{"id": ops}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDiary(t)
			o, err := d.slack.Event(t.Context(), tt.what)
			if err != nil || o.Warning != "" {
				t.Fatalf("answered %q, %v", o.Warning, err)
			}
			if diff := cmp.Diff(tt.want, d.read()); diff != "" {
				t.Errorf("became (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEventsAreTakenOnceAndFromSlackAlone(t *testing.T) {
	t.Parallel()
	d := newDiary(t)
	if o, err := d.slack.VerifyURL(t.Context()); err != nil || o.Warning != "" {
		t.Errorf("the challenge: %q, %v", o.Warning, err)
	}
	first, err := d.slack.Event(t.Context(), map[string]any{"type": "app_uninstalled"})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(d.events)
	t.Cleanup(server.Close)
	if again := d.slack.Replay(t.Context(), first, server.URL); again.Status != 200 {
		t.Errorf("the same again is answered %d", again.Status)
	}
	if got := d.read(); len(got) != 1 {
		t.Errorf("one event became %q", got)
	}
	resp, err := server.Client().Post(server.URL, "application/json", strings.NewReader(`{"type":"event_callback","event":{"type":"app_uninstalled"}}`))
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusUnauthorized || len(d.read()) != 1 {
		t.Errorf("one that Slack did not sign is answered %d", resp.StatusCode)
	}
	if _, err := d.events.Slack.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := d.events.Receive(t.Context(), []byte(`{"type":"event_callback","api_app_id":"A0OTHER001","event_id":"E1","event":{"type":"app_uninstalled"}}`)); err == nil || len(d.read()) != 1 {
		t.Errorf("one of another app: %v, %q", err, d.read())
	}
}

func FuzzEvents(f *testing.F) {
	f.Add([]byte(`{"type":"event_callback","event_id":"E1","event":{"type":"channel_archive","channel":"C1"}}`))
	f.Fuzz(func(t *testing.T, payload []byte) {
		e := &slack.Events{
			Slack: slack.New(slack.Config{BotToken: secret.New("x"), APIURL: "http://127.0.0.1:1/"}), Log: slog.New(slog.DiscardHandler),
			Out: func(string) {}, Left: func(string) {}, Renamed: func(string, string) {},
		}
		_ = e.Receive(t.Context(), payload)
		e.Wait()
	})
}
