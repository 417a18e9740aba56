package slack_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/approvalbot/approvalbot/channels"
	"github.com/approvalbot/approvalbot/channels/slack"
	"github.com/approvalbot/approvalbot/channels/slack/slacktest"
	"github.com/approvalbot/approvalbot/gate"
	"github.com/approvalbot/approvalbot/gate/secret"
)

const (
	ops  = "C0AAAAAA1"
	card = gate.ID("apr_01JNV4X3T2E6Q1Y5Z8A9B0C1D2")
)

// workspace is a double with a conversation that the bot is in, and one of each
// that takes no cards.
func workspace(t *testing.T, c slacktest.Config) *slacktest.Slack {
	t.Helper()
	s := slacktest.New(t, c)
	s.AddUser(slacktest.User{ID: "U0AAAAAA1", Name: "ada"})
	s.AddChannel(slacktest.Channel{ID: ops, Members: []string{"U0AAAAAA1", slacktest.BotUser}})
	s.AddChannel(slacktest.Channel{ID: "C0ARCHIVE1", Archived: true, Members: []string{slacktest.BotUser}})
	s.AddChannel(slacktest.Channel{ID: "C0SHARED01", Shared: true, Members: []string{slacktest.BotUser}})
	s.AddChannel(slacktest.Channel{ID: "C0OUTSIDE1", Members: []string{"U0AAAAAA1"}})
	return s
}

func channel(s *slacktest.Slack) *slack.Slack {
	return slack.New(slack.Config{BotToken: secret.New(slacktest.BotToken), APIURL: s.URL() + "/api/"})
}

func waiting() *channels.Card {
	return &channels.Card{
		Approval: card, Rev: 1, Notification: "Approval needed: claude → held, by 03:27 (0/1)", Title: "claude wants to run held",
		Args: "{\n  \"a\": \"<!channel>\"\n}", Line: "Waiting for 1 of 1 (sre)", Silence: "If nobody decides by 03:27: not run.",
		Approve: true, Deny: true, Ask: true,
	}
}

func TestACardLivesInAConversation(t *testing.T) {
	t.Parallel()
	s := workspace(t, slacktest.Config{})
	c := channel(s)
	ref, err := c.Post(t.Context(), gate.Conversation{Place: "slack:" + ops}, waiting())
	if err != nil || ref.Place != "slack:"+ops {
		t.Fatalf("Post = %+v, %v", ref, err)
	}
	settled := waiting()
	settled.Rev, settled.Approve, settled.Deny, settled.Ask, settled.Silence = 2, false, false, false, ""
	settled.Line, settled.Notification = "Denied by Ann 03:26", "claude wants to run held. Denied by Ann 03:26"
	if err := c.Update(t.Context(), ref, settled); err != nil {
		t.Errorf("Update = %v", err)
	}
	if err := c.Say(t.Context(), ref.Below(), "Denied by Ann <!here>"); err != nil {
		t.Errorf("Say = %v", err)
	}
	all := s.Messages(ops)
	if len(all) != 2 || all[1].ThreadTS != ref.Message {
		t.Fatalf("%d messages, want a card and an answer below it", len(all))
	}
	if text := fmt.Sprint(all[0].Blocks); !strings.Contains(text, "Denied by Ann") || strings.Contains(text, "approve") {
		t.Errorf("the card is %s", text)
	}
}

func TestWhatAnAgentSaysNotifiesNobody(t *testing.T) {
	t.Parallel()
	s := workspace(t, slacktest.Config{})
	bad := "<!channel> <@U0AAAAAA1> <https://evil.example|Approve>"
	w := waiting()
	w.Title, w.Notification, w.Args, w.Intent, w.Line = bad, bad, bad, bad, bad
	ref, err := channel(s).Post(t.Context(), gate.Conversation{Place: "slack:" + ops}, w)
	if err != nil {
		t.Fatal(err)
	}
	m, _ := s.Message(ops, ref.Message)
	if who, text := m.Notifies(), m.Read(); len(who) != 0 || !strings.Contains(text, "<!channel>") {
		t.Errorf("it notifies %v, and people read %q", who, text)
	}
}

func TestAThreadAndADirectMessage(t *testing.T) {
	t.Parallel()
	s := workspace(t, slacktest.Config{})
	c := channel(s)
	ts := s.Say("U0AAAAAA1", ops, "please deploy")
	if _, err := c.Post(t.Context(), gate.Conversation{Place: "slack:" + ops, Thread: ts}, waiting()); err != nil {
		t.Errorf("Post into a thread = %v", err)
	}
	ref, err := c.Post(t.Context(), gate.Conversation{Place: "slack:U0AAAAAA1"}, waiting())
	if err != nil || !strings.HasPrefix(ref.Place, "slack:D") {
		t.Fatalf("Post to a person = %+v, %v; want their direct messages", ref, err)
	}
	if err := c.Update(t.Context(), ref, waiting()); err != nil {
		t.Errorf("Update of it = %v", err)
	}
}

func TestTroubles(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		place string
		fault slacktest.Fault
		want  channels.Trouble
		after time.Duration
	}{
		"an archived conversation":    {place: "slack:C0ARCHIVE1", want: channels.Nowhere},
		"one that the bot is not in":  {place: "slack:C0OUTSIDE1", want: channels.Nowhere},
		"one another company reads":   {place: "slack:C0SHARED01", want: channels.Nowhere},
		"one that does not exist":     {place: "slack:C0NOWHERE1", want: channels.Nowhere},
		"a rate limit":                {fault: slacktest.RateLimited(7 * time.Second), want: channels.Busy, after: 7 * time.Second},
		"a rate limit without a time": {fault: slacktest.RateLimitedBare, want: channels.Busy, after: 30 * time.Second},
		"a rate limit that says 200":  {fault: slacktest.Refused("ratelimited"), want: channels.Busy, after: 30 * time.Second},
		"a broken server":             {fault: slacktest.ServerError, want: channels.Unknown},
		"no without a reason":         {fault: slacktest.NoReason, want: channels.Unknown},
		"a lost answer":               {fault: slacktest.LostAnswer, want: channels.Unknown},
		"a broken connection":         {fault: slacktest.Reset, want: channels.Unknown},
		"a fatal error":               {fault: slacktest.Refused("fatal_error"), want: channels.Unknown},
		"a token that is revoked":     {fault: slacktest.Refused("token_revoked"), want: channels.Out},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := workspace(t, slacktest.Config{})
			if tt.place == "" {
				tt.place = "slack:" + ops
				s.FailNext("chat.postMessage", tt.fault)
			}
			_, err := channel(s).Post(t.Context(), gate.Conversation{Place: tt.place}, waiting())
			wantTrouble(t, err, tt.want, tt.after)
		})
	}
}

func wantTrouble(t *testing.T, err error, want channels.Trouble, after time.Duration) {
	t.Helper()
	got, wait := channels.TroubleOf(err)
	if err == nil || got != want || wait != after {
		t.Errorf("error %v: trouble %d after %v, want %d after %v", err, got, wait, want, after)
	}
	if text := fmt.Sprintf("%v %+v %#v", err, err, err); strings.Contains(text, slacktest.BotToken) {
		t.Errorf("the error shows the token: %s", text)
	}
}

func TestAnUpdateThatSlackRefusesForGood(t *testing.T) {
	t.Parallel()
	s := workspace(t, slacktest.Config{})
	c := channel(s)
	ref, err := c.Post(t.Context(), gate.Conversation{Place: "slack:" + ops}, waiting())
	if err != nil {
		t.Fatal(err)
	}
	for _, code := range []string{"edit_window_closed", "cant_update_message", "block_mismatch"} {
		s.FailNext("chat.update", slacktest.Refused(code))
		wantTrouble(t, c.Update(t.Context(), ref, waiting()), channels.Frozen, 0)
	}
	s.Remove(ops, ref.Message)
	wantTrouble(t, c.Update(t.Context(), ref, waiting()), channels.Frozen, 0)
}

func TestNobodyListens(t *testing.T) {
	t.Parallel()
	c := slack.New(slack.Config{BotToken: secret.New(slacktest.BotToken), APIURL: "http://127.0.0.1:1/api/", HTTP: &http.Client{Timeout: time.Second}})
	_, err := c.Post(t.Context(), gate.Conversation{Place: "slack:" + ops}, waiting())
	wantTrouble(t, err, channels.Busy, 0) // it was never sent
}

func TestANewTokenIsAdopted(t *testing.T) {
	t.Parallel()
	s := workspace(t, slacktest.Config{})
	c := slack.New(slack.Config{BotToken: secret.New("xoxb-revoked"), APIURL: s.URL() + "/api/"})
	ops := gate.Conversation{Place: "slack:" + ops}
	_, err := c.Post(t.Context(), ops, waiting())
	wantTrouble(t, err, channels.Out, 0)
	c.Adopt(channel(s))
	ref, err := c.Post(t.Context(), ops, waiting())
	if err != nil {
		t.Fatal(err)
	}
	c.Adopt(channel(s)) // and again
	if err := c.Update(t.Context(), ref, waiting()); err != nil {
		t.Error(err)
	}
}

func TestACardWhoseAnswerWasLostIsFound(t *testing.T) {
	t.Parallel()
	history := []string{"chat:write", "im:write", "channels:read", "channels:history"}
	for name, tt := range map[string]struct {
		scopes []string
		thread bool
		other  bool // it is another approval's card that is there
		found  bool
	}{
		"in a conversation":     {scopes: history, found: true},
		"in a thread":           {scopes: history, thread: true, found: true},
		"not another one":       {scopes: history, other: true},
		"not without the scope": {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := workspace(t, slacktest.Config{Scopes: tt.scopes})
			c, to := channel(s), gate.Conversation{Place: "slack:" + ops}
			if tt.thread {
				to.Thread = s.Say("U0AAAAAA1", ops, "please deploy")
			}
			w := waiting()
			if tt.other {
				w.Approval = "apr_01JNV4X3T2E6Q1Y5Z8A9B0C1D3"
			}
			s.FailNext("chat.postMessage", slacktest.LostAnswer)
			if _, err := c.Post(t.Context(), to, w); err == nil {
				t.Fatal("the answer was not lost")
			}
			ref, found, err := c.Find(t.Context(), to, card)
			if found != tt.found || err != nil {
				t.Fatalf("Find = %+v, %t, %v; want %t", ref, found, err, tt.found)
			}
			if found {
				if err := c.Update(t.Context(), ref, w); err != nil {
					t.Errorf("Update of what was found = %v", err)
				}
			}
		})
	}
}

// TestWhoReadsAConversationIsLookedAtFirst: arguments are for this company alone.
func TestWhoReadsAConversationIsLookedAtFirst(t *testing.T) {
	t.Parallel()
	to := gate.Conversation{Place: "slack:" + ops}
	t.Run("nothing is posted while nobody knows", func(t *testing.T) {
		t.Parallel()
		s := workspace(t, slacktest.Config{})
		s.FailNext("conversations.info", slacktest.ServerError)
		_, err := channel(s).Post(t.Context(), to, waiting())
		wantTrouble(t, err, channels.Busy, 0)
		if n := len(s.Messages(ops)); n != 0 {
			t.Errorf("%d messages", n)
		}
	})
	t.Run("without the scope to look nobody can know", func(t *testing.T) {
		t.Parallel()
		s := workspace(t, slacktest.Config{Scopes: []string{"chat:write", "users:read"}})
		if _, err := channel(s).Post(t.Context(), to, waiting()); err != nil {
			t.Error(err)
		}
	})
	t.Run("many cards take one look", func(t *testing.T) {
		t.Parallel()
		s := workspace(t, slacktest.Config{NoRateLimits: true})
		c := channel(s)
		for range 20 {
			if _, err := c.Post(t.Context(), to, waiting()); err != nil {
				t.Fatal(err)
			}
		}
		if n := len(s.Calls("conversations.info")); n != 1 {
			t.Errorf("%d looks", n)
		}
	})
}
