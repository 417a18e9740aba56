package slack_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/approvalbot/approvalbot/bot"
	"github.com/approvalbot/approvalbot/channels"
	"github.com/approvalbot/approvalbot/channels/slack"
	"github.com/approvalbot/approvalbot/channels/slack/slacktest"
	"github.com/approvalbot/approvalbot/gate"
	"github.com/approvalbot/approvalbot/gate/secret"
	"github.com/approvalbot/approvalbot/store"
)

// court is a gate whose approvers, ada and bo, are on Slack, and a call that they
// are asked about by cy's agent.
type court struct {
	*testing.T
	gate    *gate.Gate
	slack   *slacktest.Slack
	presses *slack.Presses
	id      gate.ID
	ts      string // of the card
}

const bo, cy = "U0BBBBBB1", "U0CCCCCC1"

func newCourt(t *testing.T, rule gate.RuleConfig, args string) *court {
	t.Helper()
	c := &court{T: t, slack: workspace(t, slacktest.Config{})}
	c.slack.AddUser(slacktest.User{ID: bo, Name: "bo"})
	c.slack.AddUser(slacktest.User{ID: cy, Name: "cy"})
	c.slack.AddChannel(slacktest.Channel{ID: ops, Members: []string{ada, bo, cy, slacktest.BotUser}})
	chat := channel(c.slack)
	keys, err := gate.NewKeyring(secret.New(strings.Repeat("k", gate.MinServerKey)))
	if err != nil {
		t.Fatal(err)
	}
	st, err := store.OpenMemory(context.WithoutCancel(t.Context()), store.Config{Fingerprints: keys.Fingerprints()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	rule.Name, rule.Match = "held", gate.MatchConfig{Tool: "*"}
	policy, problems := gate.NewPolicy(
		&gate.PolicyConfig{ToolGate: &gate.ToolGateConfig{DefaultMode: "inline", Rules: []gate.RuleConfig{rule}}},
		gate.ApproversConfig{Default: []string{"sre"}, Groups: map[string]gate.GroupConfig{"sre": {SlackUsers: []string{ada, bo}}}},
		[]gate.PersonConfig{{Name: "cy", Slack: []string{slacktest.Team + "/" + cy}}}, nil, map[string]gate.Platform{gate.Slack: chat},
	)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	quiet := slog.New(slog.DiscardHandler)
	c.gate = gate.New(st, keys, bot.NewHub(st, quiet), policy, quiet)
	c.gate.Beat(t.Context(), "r")
	c.presses = &slack.Presses{
		Slack: chat, SigningSecret: secret.New(slacktest.SigningSecret), Log: quiet, Card: c.card,
		Press: (&bot.Clicks{Gate: c.gate, Cards: st, Log: quiet}).Press,
	}
	server := httptest.NewServer(c.presses)
	t.Cleanup(server.Close)
	c.slack.SendTo(slacktest.URLs{Interactions: server.URL})

	r, err := c.gate.Check(t.Context(), gate.Request{
		Call:      gate.Call{Tool: "edit_file", Target: "prod/web", Args: json.RawMessage(args)},
		Requester: gate.Requester{Key: "hermes", Agent: "claude", Attended: true, Person: "cy"},
	})
	if err != nil || r.Approval == nil {
		t.Fatalf("Check = %+v, %v", r, err)
	}
	c.id = r.Approval.ID
	shown, err := c.card(t.Context(), c.id)
	if err != nil {
		t.Fatal(err)
	}
	ref, err := chat.Post(t.Context(), gate.Conversation{Place: "slack:" + ops}, shown)
	if err != nil {
		t.Fatal(err)
	}
	c.ts = ref.Message
	if err := st.PutPosted(t.Context(), c.id, gate.Posted{Place: ref.Place, Message: ref.Message, Rev: shown.Rev, Digest: shown.Digest.Hex()}); err != nil {
		t.Fatal(err)
	}
	return c
}

// card reads an approval as whoever draws cards does.
func (c *court) card(ctx context.Context, id gate.ID) (*channels.Card, error) {
	v, err := c.gate.Get(ctx, gate.Principal{Roles: []gate.Role{gate.RoleAuditor}}, id)
	if err != nil {
		return nil, err
	}
	return channels.NewCard(&v, channels.Context{Args: v.Call.RawArgs()}), nil
}

func (c *court) redrawn() *channels.Card {
	c.Helper()
	shown, err := c.card(c.Context(), c.id)
	if err != nil {
		c.Fatal(err)
	}
	if err := c.presses.Slack.Update(c.Context(), channels.Ref{Place: "slack:" + ops, Message: c.ts}, shown); err != nil {
		c.Fatal(err)
	}
	return shown
}

func (c *court) press(user, action string) {
	c.Helper()
	if _, err := c.slack.Click(c.Context(), slacktest.Click{User: user, Channel: ops, TS: c.ts, Action: action}); err != nil {
		c.Fatal(err)
	}
	c.presses.Wait()
}

// submission is what a person types into the dialog that they have open.
func (c *court) submission(user, words string) slacktest.Submission {
	c.Helper()
	views := c.slack.Views(user)
	if len(views) != 1 {
		c.Fatalf("%s has %d dialogs, and is told %q", user, len(views), c.told(user))
	}
	return slacktest.Submission{View: views[0].ID, Values: map[string]string{"words": words}}
}

func (c *court) submit(user, words string) {
	c.Helper()
	if _, err := c.slack.Submit(c.Context(), c.submission(user, words)); err != nil {
		c.Fatal(err)
	}
	c.presses.Wait()
}

// told is the last that one person has been shown alone.
func (c *court) told(user string) string {
	all := c.slack.Ephemerals(user)
	if len(all) == 0 {
		return ""
	}
	return all[len(all)-1].Read()
}

func (c *court) wantTold(user, want string) {
	c.Helper()
	if got := c.told(user); !strings.HasPrefix(got, want) {
		c.Errorf("%s is told %q, want %q", user, got, want)
	}
}

// TestADialogIsSubmittedTooLate has somebody else decide while one types, and the
// same submission twice: it counts once, and everybody is told what came of theirs.
func TestADialogIsSubmittedTooLate(t *testing.T) {
	t.Parallel()
	t.Run("after somebody else", func(t *testing.T) {
		t.Parallel()
		c := newCourt(t, gate.RuleConfig{}, `{}`)
		c.press(ada, "deny")
		c.press(bo, "approve")
		c.wantTold(bo, "Recorded. Approved by bo, waiting to run until")
		c.submit(ada, "wrong file")
		c.wantTold(ada, "Recorded. Taken back by ada") // a late denial takes back
		c.press(bo, "deny")
		c.wantTold(bo, "Taken back by ada")
	})
	t.Run("after it was denied", func(t *testing.T) {
		t.Parallel()
		c := newCourt(t, gate.RuleConfig{}, `{}`)
		c.press(ada, "deny")
		c.press(bo, "deny")
		c.submit(bo, "wrong file")
		c.wantTold(bo, `Recorded. Denied by bo`)
		c.submit(ada, "wrong file too")
		c.wantTold(ada, "bo already denied this at")
		if got := c.redrawn().Line; !strings.HasSuffix(got, `: "wrong file"`) {
			t.Errorf("it stands like this: %s", got)
		}
	})
	t.Run("twice", func(t *testing.T) {
		t.Parallel()
		c := newCourt(t, gate.RuleConfig{}, `{}`)
		c.press(ada, "deny")
		o, err := c.slack.Submit(t.Context(), c.submission(ada, "wrong file"))
		if err != nil {
			t.Fatal(err)
		}
		c.slack.Replay(t.Context(), o, "")
		c.presses.Wait()
		for _, m := range c.slack.Ephemerals(ada) {
			if got := m.Read(); !strings.HasPrefix(got, "Recorded. Denied by ada") {
				t.Errorf("told %q", got)
			}
		}
		if n := len(c.slack.Ephemerals(ada)); n != 2 {
			t.Errorf("told %d times, want each time", n)
		}
	})
	t.Run("without the reason that the rule wants", func(t *testing.T) {
		t.Parallel()
		c := newCourt(t, gate.RuleConfig{DenyReason: "required"}, `{}`)
		c.presses.Card = nil // so that the dialog does not know
		c.press(ada, "deny")
		c.submit(ada, "")
		c.wantTold(ada, "Say why: this rule wants a reason with a denial.")
	})
}

// TestAQuestionAndItsAnswer goes from a press of Ask to what the card says of the
// answer. Only the person behind the call can give it.
func TestAQuestionAndItsAnswer(t *testing.T) {
	t.Parallel()
	c := newCourt(t, gate.RuleConfig{}, `{}`)
	c.press(ada, "ask")
	c.submit(ada, "why now?")
	c.wantTold(ada, "Asked. The call waits for the agent's answer.")
	if got := c.redrawn(); got.Line != `ada asks: "why now?", waiting for the agent's answer` || !got.Answer || got.Ask {
		t.Errorf("the card says %q, with an answer %t, a question %t", got.Line, got.Answer, got.Ask)
	}
	c.press(bo, "answer")
	c.submit(bo, "because I say so")
	c.wantTold(bo, "Only the person who asked for this call, or their agent, can answer.")
	c.press(cy, "answer")
	c.press(ada, "answer")
	c.submit(cy, "the shop is down <!channel>")
	c.wantTold(cy, "Answered. The approvers see it on the card.")
	c.redrawn()
	m, _ := c.slack.Message(ops, c.ts)
	if got := m.Read(); !strings.Contains(got, "ada asks: \"why now?\"\nAnswer: \"the shop is down <!channel>\"\n") || strings.Contains(got, "[Answer]") || len(m.Notifies()) != 0 {
		t.Errorf("the card reads, and calls %v:\n%s", m.Notifies(), got)
	}
	c.submit(ada, "late")
	c.wantTold(ada, "Only the person who asked for this call")
}

// TestAnEditOnACard has a call that changes a text and is too long for its card: the
// change is there, and the whole beside it.
func TestAnEditOnACard(t *testing.T) {
	t.Parallel()
	args := `{"old_string":"replicas: 3","new_string":"replicas: 30","padding":"` + strings.Repeat("x", 2000) + `"}`
	c := newCourt(t, gate.RuleConfig{}, args)
	m, _ := c.slack.Message(ops, c.ts)
	if got := m.Read(); !strings.Contains(got, "| -replicas: 3\n| +replicas: 30\n") || !strings.Contains(got, "before you approve") || !strings.HasSuffix(got, "[Approve] [Deny] [Ask] [Show all]") {
		t.Errorf("the card reads\n%s", got)
	}
	c.press(cy, "full")
	if got := c.slack.Views(cy)[0].Read(); !strings.Contains(got, strings.Repeat("x", 2000)) {
		t.Errorf("the full view reads\n%s", got)
	}
	c.press(ada, "approve")
	c.wantTold(ada, "Recorded. Approved by ada")
}
