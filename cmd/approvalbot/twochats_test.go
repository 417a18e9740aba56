package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/approvalbot/approvalbot/bot/client"
	"github.com/approvalbot/approvalbot/bot/wire"
	"github.com/approvalbot/approvalbot/channels/mattermost/mattermosttest"
	"github.com/approvalbot/approvalbot/channels/slack/slacktest"
)

const twoChats = `
keys:
  - {name: hermes, roles: [agent], asserts: [origin, person], conversations: ["slack:C0*", "mattermost:*"], hash_file: hermes.sha256}
  - {name: ann, roles: [approver], person: ann, hash_file: ann.sha256}
key_file: server.key
store: {redis: {addrs: [%s]}, durability: strict}
channels:
  slack: {bot_token_file: bot-token, app_token_file: app-token, api_url: "%s/api/"}
  mattermost: {url: "%s", token_file: mm-token, callback_url: "%s", callback_allow: [127.0.0.1], commands: [{team: acme, token_file: command-token}]}
review: {slack: C0REVIEW01, mattermost: acme/review}
people:
  - {name: ann, keys: [ann], slack: [T0AAAAAA1/U0ANN00001], mattermost: [ann]}
approvers:
  default: [sre]
  groups:
    sre: {slack_users: [U0ANN00001, U0BO000001], mattermost_users: [ann, u1bo0000000000000000000000, u1boss00000000000000000000], keys: [ann]}
    mails: {emails: [cy@example.com]}
approvals:
  tool_gate:
    rules:
      - {name: two, match: {tool: two}, quorum: 2, conversation: {slack: C0REVIEW01}}
      - {name: onmm, match: {tool: onmm}, quorum: 2, conversation: {mattermost: acme/review}}
      - {name: both, match: {tool: both}}
      - {name: mailed, match: {tool: mailed}, approvers: [mails], conversation: {mattermost: acme/review}}
`

// TestOneHumanInTwoChats: who is on Slack and on Mattermost is one approver. What
// joins them takes away, and never gives.
func TestOneHumanInTwoChats(t *testing.T) {
	t.Parallel()
	s := &team{home: newHome(t), slack: newWorkspace(t, slacktest.Config{})}
	c := &crew{home: s.home, mm: mattermosttest.New(t, mattermosttest.Config{RequireEmailVerification: true}), door: newDoor(t)}
	const cy = "u1cy0000000000000000000000"
	for _, u := range []mattermosttest.User{
		{ID: annOnMM, Username: "ann"}, {ID: boOnMM, Username: "bo"}, {ID: bossOnMM, Username: "boss"}, {ID: cy, Username: "cy", Email: "Cy@example.com", EmailVerified: true},
	} {
		c.mm.AddUser(u)
	}
	c.mm.AddChannel(mattermosttest.Channel{ID: opsOnMM, Name: "review", Team: mattermosttest.Team, Type: "O", Members: []string{annOnMM, boOnMM, bossOnMM, cy, mattermosttest.BotUser}})
	s.write("bot-token", slacktest.BotToken)
	s.write("app-token", slacktest.AppToken)
	s.write("mm-token", mattermosttest.BotToken)
	s.write("command-token", c.mm.AddCommand(mattermosttest.Command{Team: mattermosttest.Team, Trigger: "approvals", URL: c.door.url + "/mattermost/commands", Method: "P"}))
	s.write("approvalbot.yaml", fmt.Sprintf(twoChats, startRedis(t), s.slack.URL(), c.mm.URL(), c.door.url))
	c.join()
	s.all, s.urls = c.all, c.urls
	if _, err := s.slack.Await(t.Context(), func(open []int) bool { return len(open) == 2 }); err != nil {
		t.Fatal(err)
	}
	ask := func(tool, person string) *wire.Approval {
		t.Helper()
		attended := false
		a, err := c.agent().Check(t.Context(), wire.CheckRequest{
			Call: call(tool), Requester: wire.Requester{Agent: "claude", Attended: &attended, Person: person},
		}, 0)
		if err != nil || a.Approval == nil {
			t.Fatalf("Check = %+v, %v", a, err)
		}
		return a.Approval
	}
	// sent is the card that somebody on Mattermost asks for.
	sent := func(user string, a *wire.Approval) mattermosttest.Post {
		t.Helper()
		o, err := c.mm.Type(t.Context(), mattermosttest.Typed{User: user, Channel: opsOnMM, Trigger: "approvals", Text: "show " + a.ID})
		if err != nil || o.Status != http.StatusOK {
			t.Fatalf("Type = %+v, %v", o, err)
		}
		m := permalink.FindStringSubmatch(strings.Join(o.Ephemerals, "\n"))
		if m == nil {
			return mattermosttest.Post{Message: strings.Join(o.Ephemerals, "\n")}
		}
		p, _ := c.mm.Post(m[1])
		return p
	}

	t.Run("who voted in Slack cannot vote again in Mattermost", func(t *testing.T) {
		a := ask("two", "")
		dm := sent(annOnMM, a)
		s.press(annOnSlack, s.card(review, a, "Waiting for"), "approve")
		s.card(review, a, "Waiting for 1 of 2")
		c.told(annOnMM, dm, "approve", "You already approved this; others must too.")
		votes(t, c, a, 1)
		// People says who Ann is on both, so that Bo is certainly somebody else.
		c.told(boOnMM, sent(boOnMM, a), "approve", "Recorded. Approved by bo")
		votes(t, c, a, 2)
	})
	t.Run("whom nobody can tell from one who voted in Slack is refused in Mattermost", func(t *testing.T) {
		a := ask("two", "")
		dm := sent(boOnMM, a)
		s.press(boOnSlack, s.card(review, a, "Waiting for"), "approve")
		s.card(review, a, "Waiting for 1 of 2")
		c.told(boOnMM, dm, "approve", "Nobody can tell whether you are the one who asked or has voted already.")
		votes(t, c, a, 1)
		c.told(annOnMM, sent(annOnMM, a), "approve", "Recorded. Approved by ann")
	})
	t.Run("who asked in Slack cannot approve in Mattermost", func(t *testing.T) {
		a := ask("onmm", "slack:"+slacktest.Team+"/"+annOnSlack)
		card := c.card(opsOnMM, a, "Waiting for")
		c.told(annOnMM, card, "approve", "You asked for this call, so someone else must decide.")
		c.told(boOnMM, card, "approve", "Recorded (1 of 2)")
		votes(t, c, a, 1)
	})
	t.Run("whom nobody can tell from one who asked in Slack is refused", func(t *testing.T) {
		a := ask("onmm", "slack:"+slacktest.Team+"/"+boss)
		c.told(boOnMM, c.card(opsOnMM, a, "Waiting for"), "approve", "Nobody can tell whether you are the one who asked")
		votes(t, c, a, 0)
	})
	t.Run("who asked in Mattermost cannot approve in Slack", func(t *testing.T) {
		a := ask("two", "mattermost:"+annOnMM)
		s.press(annOnSlack, s.card(review, a, "Waiting for"), "approve")
		s.told(annOnSlack, "You asked for this call, so someone else must decide.")
		votes(t, c, a, 0)
	})
	t.Run("approvers of both chats are shown it in both, and both are settled", func(t *testing.T) {
		a := ask("both", "")
		c.card(opsOnMM, a, "Waiting for")
		s.press(annOnSlack, s.card(review, a, "Waiting for"), "approve")
		c.card(opsOnMM, a, "Approved by Ann")
		s.card(review, a, "Approved by Ann")
	})
	t.Run("an address that the server has verified lets its owner decide", func(t *testing.T) {
		a := ask("mailed", "")
		card := c.card(opsOnMM, a, "Waiting for")
		c.told(boOnMM, card, "approve", "You are not in mails.")
		c.told(cy, card, "approve", "Recorded. Approved by cy")
		got := votes(t, c, a, 1)
		if got.State != "approved" {
			t.Errorf("it is %s", got.State)
		}
	})
	t.Run("who asked is known by their address", func(t *testing.T) {
		a := ask("mailed", "CY@example.com")
		c.told(cy, c.card(opsOnMM, a, "Waiting for"), "approve", "You asked for this call, so someone else must decide.")
		votes(t, c, a, 0)
	})
}

// votes wants so many votes to count.
func votes(t *testing.T, c *crew, a *wire.Approval, want int) *wire.Approval {
	t.Helper()
	approver, err := client.New(c.urls[0], c.keys["ann"])
	if err != nil {
		t.Fatal(err)
	}
	got, err := approver.Get(t.Context(), a.ID)
	if err != nil || len(got.Approval.Votes) != want {
		t.Fatalf("%+v, %v: want %d votes", got.Approval, err, want)
	}
	return &got.Approval
}
