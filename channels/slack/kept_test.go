package slack_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/approvalbot/approvalbot/channels"
	"github.com/approvalbot/approvalbot/channels/slack"
	"github.com/approvalbot/approvalbot/channels/slack/slacktest"
	"github.com/approvalbot/approvalbot/gate"
	"github.com/approvalbot/approvalbot/gate/secret"
)

// TestAPressOutlivesTheReplicaThatTookIt has one replica die over a press, in every
// way that a press is made.
func TestAPressOutlivesTheReplicaThatTookIt(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		action string
		told   string
		want   gate.Choice
	}{
		"approve":               {"approve", "Recorded.", gate.Approve},
		"a dialog to be opened": {"deny", "That took too long, and nothing was decided; press again.", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				pipes := slacktest.NewPipes()
				double := workspace(t, slacktest.Config{Listener: pipes})
				transport := &http.Transport{DialContext: pipes.Dial}
				t.Cleanup(transport.CloseIdleConnections)
				log := slog.New(slog.DiscardHandler)
				st, _ := flooded(t, log)
				defer func() { _ = st.Close() }()
				c := slack.New(slack.Config{BotToken: secret.New(slacktest.BotToken), APIURL: double.URL() + "/api/", HTTP: &http.Client{Transport: transport, Timeout: 10 * time.Second}})
				ref, err := c.Post(t.Context(), gate.Conversation{Place: "slack:" + ops}, waiting())
				if err != nil {
					t.Fatal(err)
				}

				o, err := double.Click(t.Context(), slacktest.Click{User: "U0AAAAAA1", Channel: ops, TS: ref.Message, Action: tt.action})
				if len(o.Payload) == 0 {
					t.Fatalf("no press: %v", err)
				}
				if err := st.Press(t.Context(), "slack", o.Payload); err != nil { // and then it dies
					t.Fatal(err)
				}

				var mu sync.Mutex
				var clicks []channels.Click
				lives := &slack.Presses{Slack: c, Kept: st, Log: log, Press: func(_ context.Context, k channels.Click) string {
					mu.Lock()
					defer mu.Unlock()
					clicks = append(clicks, k)
					return "Recorded."
				}}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				go lives.Run(ctx)
				<-time.After(10 * time.Second)
				synctest.Wait()
				mu.Lock()
				early := len(clicks)
				mu.Unlock()
				if early != 0 {
					t.Error("it was taken over from a replica that may still live")
				}
				<-time.After(20 * time.Second)
				synctest.Wait()
				mu.Lock()
				defer mu.Unlock()
				if tt.want == "" && len(clicks) != 0 || tt.want != "" && (len(clicks) != 1 || clicks[0].Choice != tt.want || clicks[0].Ref != ref) {
					t.Errorf("it became %+v", clicks)
				}
				var told []string
				for _, m := range double.Ephemerals("U0AAAAAA1") {
					told = append(told, m.Read())
				}
				if !slices.Contains(told, tt.told) {
					t.Errorf("told %q", told)
				}
				if left, err := st.LeftPresses(t.Context(), "slack", 10, 0); err != nil || len(left) != 0 {
					t.Errorf("still kept: %q, %v", left, err)
				}
			})
		})
	}
}

// away is a store that does not answer.
type away struct{ gate.Presses }

func (away) Press(ctx context.Context, _ string, _ []byte) error {
	<-ctx.Done()
	return errors.New("the store does not answer")
}

// TestAStoreThatIsAwayKeepsNobodyWaiting: Slack is answered in time, and the press
// is decided as far as it can be.
func TestAStoreThatIsAwayKeepsNobodyWaiting(t *testing.T) {
	t.Parallel()
	d := newDesk(t, nil)
	d.presses.Kept = away{}
	start := time.Now()
	if o := d.press("U0AAAAAA1", "approve", nil); o.Warning != "" {
		t.Errorf("after %v the person sees %q", time.Since(start), o.Warning)
	}
	d.wantClick(channels.Click{Choice: gate.Approve})
	if got := d.told("U0AAAAAA1"); !strings.HasPrefix(got, "Recorded") {
		t.Errorf("told %q", got)
	}
}
