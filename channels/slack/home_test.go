package slack_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/approvalbot/approvalbot/channels/slack/slacktest"
	"github.com/approvalbot/approvalbot/gate"
)

// opens lets somebody open the Home tab, and returns what they find there.
func (h *house) opens(user string) slacktest.View {
	h.Helper()
	o, err := h.slack.Event(h.Context(), map[string]any{"type": "app_home_opened", "user": user, "tab": "home", "channel": "D0AAAAAA1"})
	if err != nil || o.Warning != "" || len(o.Answer) != 0 {
		h.Fatalf("Slack was answered %q, which is %q, %v", o.Answer, o.Warning, err)
	}
	h.waits()
	return h.home(user)
}

func (h *house) home(user string) slacktest.View {
	h.Helper()
	v, ok := h.slack.Home(user)
	if !ok {
		h.Fatalf("%s has no Home tab", user)
	}
	return v
}

// modals are those that ada has before her.
func (h *house) modals(n int) []slacktest.View {
	h.Helper()
	all := h.slack.Views(ada)
	if len(all) != n {
		h.Fatalf("%d modals are open, want %d", len(all), n)
	}
	return all
}

// inView presses a button in a view of ada's.
func (h *house) inView(v slacktest.View, action string, mangle func(map[string]any)) {
	h.Helper()
	o, err := h.slack.Click(h.Context(), slacktest.Click{User: ada, View: v.ID, Action: action, Mangle: mangle})
	if err != nil || o.Warning != "" {
		h.Fatalf("Click = %q, %v", o.Warning, err)
	}
	h.waits()
}

func TestTheHomeTabShowsWhatWaits(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	s := h.asks("deploy", nil)
	tab := h.opens(ada)
	wants(t, tab.Read(), "1 pending, 1 for you", "claude → deploy on prod/web", "[Show]")
	wants(t, h.opens(eve).Read(), "Nothing is pending that you may see.", "no deploy")
	wants(t, h.opens(guest).Read(), "Guests may use this only where", "no deploy")

	h.inView(tab, "command:0", nil)
	card := h.modals(1)[0]
	wants(t, card.Read(), "# Approval", "# claude wants to run deploy", "[Approve] [Deny] [Ask]")
	h.inView(card, "approve", nil)
	if got := h.state(s).State; got != gate.Approved {
		t.Errorf("it is %s", got)
	}
	wants(t, h.modals(1)[0].Read(), "Recorded. Approved by ada", "no [Approve]")
	wants(t, h.home(ada).Read(), "Nothing is pending that you may see.")
}

func TestADenialOnTheHomeTab(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	s := h.asks("deploy", nil)
	h.inView(h.opens(ada), "command:0", nil)
	h.inView(h.modals(1)[0], "deny", nil)
	dialog := h.modals(2)[1]
	if _, err := h.slack.Submit(t.Context(), slacktest.Submission{View: dialog.ID, Values: map[string]string{"words": "wrong cluster"}}); err != nil {
		t.Fatal(err)
	}
	h.waits()
	if got := h.state(s); got.State != gate.Denied || got.Note != "wrong cluster" {
		t.Errorf("it is %s: %q", got.State, got.Note)
	}
	wants(t, h.modals(1)[0].Read(), "Recorded. Denied by ada", "no [Deny]")
}

func TestAPressInAModalThatDoesNotCount(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	s := h.asks("deploy", nil)
	h.inView(h.opens(ada), "command:0", nil)
	old := h.keys.ProveCard(s.ID, s.Digest, "slack:"+slacktest.Team+"/"+ada, s.Now.Add(-time.Minute))
	h.inView(h.modals(1)[0], "approve", func(p map[string]any) { action(p)["block_id"] = string(s.ID) + ":1:" + old })
	if got := h.state(s).State; got != gate.Pending {
		t.Errorf("it is %s", got)
	}
	modal := h.modals(1)[0]
	wants(t, modal.Read(), "This card is more than 30 minutes old.", "[Show again]")
	h.inView(modal, "command:10", nil)
	wants(t, h.modals(1)[0].Read(), "[Approve] [Deny] [Ask]")
}

// TestACardThatCameTooLateForItsModal is found on the tab, and decides there.
func TestACardThatCameTooLateForItsModal(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	s := h.asks("deploy", nil)
	tab := h.opens(ada)
	h.slack.FailNext("views.open", slacktest.Refused("expired_trigger_id"))
	h.inView(tab, "command:0", nil)
	h.modals(0)
	wants(t, h.home(ada).Read(), "[Approve] [Deny] [Ask]")
	h.inView(h.home(ada), "deny", nil)
	if _, err := h.slack.Submit(t.Context(), slacktest.Submission{View: h.modals(1)[0].ID}); err != nil {
		t.Fatal(err)
	}
	h.waits()
	if got := h.state(s).State; got != gate.Denied {
		t.Errorf("it is %s", got)
	}
	wants(t, h.home(ada).Read(), "Recorded. Denied by ada", "no [Approve]", "[Pending]")
}

func TestEventsThatShowNothing(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	if o, err := h.slack.VerifyURL(t.Context()); err != nil || o.Warning != "" {
		t.Errorf("VerifyURL = %q, %v", o.Warning, err)
	}
	for _, e := range []map[string]any{
		{"type": "app_home_opened", "user": ada, "tab": "messages"},
		{"type": "app_uninstalled"},
	} {
		if o, err := h.slack.Event(t.Context(), e); err != nil || o.Warning != "" {
			t.Errorf("%v: %q, %v", e, o.Warning, err)
		}
	}
	h.waits()
	h.commands.Home = false
	if o, err := h.slack.Event(t.Context(), map[string]any{"type": "app_home_opened", "user": ada, "tab": "home"}); err != nil || o.Warning != "" {
		t.Errorf("%q, %v", o.Warning, err)
	}
	h.waits()
	h.commands.Home = true
	resp, err := http.Post(h.events, "application/json", strings.NewReader(`{"type":"url_verification","challenge":"x"}`))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("a request that Slack did not sign is answered %d", resp.StatusCode)
	}
	h.waits()
	if _, ok := h.slack.Home(ada); ok {
		t.Error("the Home tab is published")
	}
}
