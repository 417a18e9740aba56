package slack_test

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/approvalbot/approvalbot/bot"
	"github.com/approvalbot/approvalbot/channels"
	"github.com/approvalbot/approvalbot/channels/slack"
	"github.com/approvalbot/approvalbot/channels/slack/slacktest"
	"github.com/approvalbot/approvalbot/gate"
	"github.com/approvalbot/approvalbot/gate/secret"
	"github.com/approvalbot/approvalbot/store"
)

// TestFiveHundredApprovalsInOneConversation opens them all at once and lets two
// replicas show them, on a Slack that keeps its limits and says so.
func TestFiveHundredApprovalsInOneConversation(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const n = 500
		pipes := slacktest.NewPipes()
		double := workspace(t, slacktest.Config{Listener: pipes})
		transport := &http.Transport{DialContext: pipes.Dial}
		t.Cleanup(transport.CloseIdleConnections)
		log := slog.New(slog.DiscardHandler)
		st, g := flooded(t, log)
		defer func() { _ = st.Close() }()

		var opened []gate.ID
		for i := range n { // of several agents, because each may have 100 waiting
			r, err := g.Check(t.Context(), gate.Request{Call: gate.Call{Tool: "staged"}, Requester: gate.Requester{Key: "hermes", Agent: "claude " + strconv.Itoa(i%10)}})
			if err != nil {
				t.Fatal(err)
			}
			opened = append(opened, r.Approval.ID)
		}
		start := time.Now()
		for _, replica := range []string{"a", "b"} {
			d := &bot.Dispatcher{
				Cards: st, Gate: g, Replica: replica, Log: log,
				Channels: map[string]channels.Channel{"slack": slack.New(slack.Config{
					BotToken: secret.New(slacktest.BotToken), APIURL: double.URL() + "/api/", HTTP: &http.Client{Transport: transport, Timeout: 10 * time.Second},
				})},
				Route: func(*gate.View) []gate.Conversation { return []gate.Conversation{{Place: "slack:" + ops}} },
				Card:  func(v *gate.View) *channels.Card { return channels.NewCard(v, channels.Context{Args: v.Call.Args}) },
			}
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() { defer close(done); d.Run(ctx) }()
			defer func() { cancel(); <-done }()
		}
		const bound = (n + 20) * time.Second // one a second, some at once, and each wait of a turn is rounded up
		<-time.After(bound)
		synctest.Wait()

		posted := shown(double)
		if len(posted) != n {
			t.Errorf("%d cards within %v, want %d", len(posted), time.Since(start), n)
		}
		if !slices.Equal(posted, opened) {
			t.Error("they came in another order, or one of them twice")
		}
		looks := 0
		for _, method := range []string{"conversations.info", "auth.test", "bots.info", "users.info", "usergroups.users.list"} {
			looks += len(double.Calls(method))
		}
		if looks > 25 {
			t.Errorf("%d look-ups for %d cards, want at most one in a while", looks, n)
		}
		if limited := len(double.Calls("chat.postMessage")) - n; limited > 0 {
			t.Errorf("Slack had to refuse %d of them", limited)
		}
	})
}

// shown are the approvals whose cards are in a conversation, the oldest first.
func shown(s *slacktest.Slack) (ids []gate.ID) {
	for _, m := range s.Messages(ops) {
		i := strings.Index(string(m.Metadata), "apr_")
		ids = append(ids, gate.ID(strings.TrimRight(string(m.Metadata)[i:], `"}`)))
	}
	return ids
}

// flooded is a gate that stages every call, on a store in memory.
func flooded(t *testing.T, log *slog.Logger) (*store.Redis, *gate.Gate) {
	t.Helper()
	keys, err := gate.NewKeyring(secret.New(strings.Repeat("k", gate.MinServerKey)))
	if err != nil {
		t.Fatal(err)
	}
	st, err := store.OpenMemory(t.Context(), store.Config{Fingerprints: keys.Fingerprints()})
	if err != nil {
		t.Fatal(err)
	}
	policy, problems := gate.NewPolicy(
		&gate.PolicyConfig{ToolGate: &gate.ToolGateConfig{RequireApproval: []string{"staged"}}}, gate.ApproversConfig{}, nil,
		[]gate.Principal{{Key: "ann", Person: "ann", Roles: []gate.Role{gate.RoleApprover}}}, nil,
	)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	g := gate.New(st, keys, bot.NewHub(st, log), policy, log)
	g.Beat(t.Context(), "a")
	return st, g
}
