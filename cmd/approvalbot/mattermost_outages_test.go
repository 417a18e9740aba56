package main

import (
	"net/http"
	"strings"
	"testing"

	"github.com/approvalbot/approvalbot/channels/mattermost/mattermosttest"
)

// TestACopyOfACardDecidesNothing plants the buttons of a card beside it: while
// Mattermost is slow to say that it has posted the card, and afterwards.
func TestACopyOfACardDecidesNothing(t *testing.T) {
	t.Parallel()
	c := newCrew(t, 2)
	until := make(chan struct{})
	c.mm.FailNext("create_post", mattermosttest.Held(until))
	a := c.asks(call("staged"), "")
	card := c.card(opsOnMM, a, "Waiting for")
	plant := func() {
		t.Helper()
		copied := mattermosttest.Post{ID: c.mm.Plant(bossOnMM, opsOnMM, map[string]any{"attachments": card.Props["attachments"]})}
		c.told(annOnMM, copied, "approve", "This button is not valid here. Nothing was decided.")
	}
	plant()
	close(until)
	plant()
	if got, err := c.agent().Get(t.Context(), a.ID); err != nil || got.State != "pending" {
		t.Errorf("it is %s, %v", got.State, err)
	}
	c.told(annOnMM, card, "approve", "Recorded. Approved by ann")
	c.card(opsOnMM, a, "Approved by ann")
}

// TestWhoAsksForACardIsSentOne, and one only; others find the card for all.
func TestWhoAsksForACardIsSentOne(t *testing.T) {
	t.Parallel()
	c := newCrew(t, 2)
	a := c.asks(call("staged"), "")
	card := c.card(opsOnMM, a, "Waiting for")
	types := func(user, text string) string {
		t.Helper()
		o, err := c.mm.Type(t.Context(), mattermosttest.Typed{User: user, Channel: liveOnMM, Trigger: "approvals", Text: text})
		if err != nil || o.Status != http.StatusOK {
			t.Fatalf("Type = %+v, %v", o, err)
		}
		return strings.Join(o.Ephemerals, "\n")
	}
	leads := func(answer string) (post string) {
		if m := permalink.FindStringSubmatch(answer); m != nil {
			post = m[1]
		}
		return post
	}
	own := leads(types(annOnMM, "show "+a.ID))
	if again := leads(types(annOnMM, "deny "+a.ID)); own == "" || own == card.ID || again != own {
		t.Errorf("ann is sent %q, then %q", own, again)
	}
	if told := types(boOnMM, "pending"); leads(told) != card.ID {
		t.Errorf("bo is led to %q, want %q", leads(told), card.ID)
	}
	if told := types(bossOnMM, "show "+a.ID); leads(told) != "" || !strings.Contains(told, "This is shown to those who may decide on it") {
		t.Errorf("somebody else is told %q", told)
	}
}

// TestAMattermostThatIsAwayIsWaitedFor starts while nothing answers: cards come, and
// names mean somebody, when it does.
func TestAMattermostThatIsAwayIsWaitedFor(t *testing.T) {
	t.Parallel()
	c := newCrew(t, 0)
	away, back := mattermosttest.HTMLPage(http.StatusBadGateway), mattermosttest.Fault{}
	for _, op := range []string{"me", "users_by_name", "create_post"} {
		c.mm.Fail(op, 0, away)
	}
	c.join()
	c.all[0].log.await(t, "Mattermost does not say what is needed")
	a := c.asks(call("staged"), "")
	c.mm.Fail("me", 0, back)
	c.mm.Fail("create_post", 0, back)
	card := c.card(opsOnMM, a, "Waiting for")
	c.told(annOnMM, card, "approve", "You are not in sre") // who is known by name alone, which means nobody yet
	asked := len(c.mm.Calls("users_by_name"))
	c.mm.Fail("users_by_name", 0, back)
	soon(t, "the names to be asked for again", func() bool { return len(c.mm.Calls("users_by_name")) > asked })
	soon(t, "ann to be known", func() bool { return strings.Contains(c.press(annOnMM, card, "approve"), "Recorded. Approved by ann") })
}

// TestATokenOfMattermostIsRenewedWithoutARestart revokes the token in the middle of it
// all; then somebody is listed anew, by name.
func TestATokenOfMattermostIsRenewedWithoutARestart(t *testing.T) {
	t.Parallel()
	c := newCrew(t, 1)
	c.card(opsOnMM, c.asks(call("staged"), ""), "Waiting for")
	const renewed, wrong = "k1renewed00000000000000000", "k1wrong0000000000000000000"
	c.mm.Renew(renewed)
	late := c.asks(call("staged"), "")
	c.all[0].log.await(t, "a chat is out")

	c.write("bot-token", wrong)
	c.write("approvalbot.yaml", c.config())
	c.all[0].log.await(t, "RELOAD REFUSED")

	c.write("bot-token", renewed)
	c.write("approvalbot.yaml", c.config())
	c.all[0].log.await(t, "reloaded")
	c.told(annOnMM, c.card(opsOnMM, late, "Waiting for"), "approve", "Recorded. Approved by ann")

	c.write("approvalbot.yaml", strings.Replace(c.config(), "mattermost_users: [ann]", "mattermost_users: [ann, boss]", 1))
	c.all[0].log.await(t, "reloaded")
	c.told(bossOnMM, c.card(opsOnMM, c.asks(call("staged"), ""), "Waiting for"), "approve", "Recorded. Approved by boss")
}
