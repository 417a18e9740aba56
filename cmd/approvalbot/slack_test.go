package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/approvalbot/approvalbot/bot/client"
	"github.com/approvalbot/approvalbot/bot/wire"
	"github.com/approvalbot/approvalbot/channels/slack/slacktest"
)

var update = flag.Bool("update", false, "rewrite golden files")

// The conversation in which an agent works, and a guest there.
const (
	live  = "C0LIVE0001"
	guest = "U0GUEST001"
)

// team is replicas in processes of their own, on one Redis, that share one Slack
// app over Socket Mode.
type team struct {
	*home
	slack *slacktest.Slack
	ops   *downstream
	redis string
	all   []*replica
	urls  []string
}

const teamConfig = `
keys:
  - {name: hermes, roles: [agent], asserts: [origin, person], conversations: ["slack:C0*"], hash_file: hermes.sha256}
  - {name: ann, roles: [approver], person: ann, hash_file: ann.sha256}
  - {name: bo, roles: [approver], person: bo, hash_file: bo.sha256}
key_file: server.key
store: {redis: {addrs: [%s]}, durability: strict}
channels: {slack: {bot_token_file: bot-token, app_token_file: app-token, api_url: "%s/api/"}}
review: {slack: C0REVIEW01}
operators: {slack: C0OPS00001}
people:
  - {name: ann, keys: [ann], slack: [T0AAAAAA1/U0ANN00001]}
  - {name: bo, keys: [bo], slack: [T0AAAAAA1/U0BO000001]}
approvers:
  default: [sre]
  groups: {sre: {slack_usergroups: [S0SRE00001], slack_users: [U0BO000001], keys: [ann, bo]}}
executors:
  ops: {webhook: {url: "%s", secret_file: hook-secret, allow_cidrs: [127.0.0.1/32]}, timeout: 1s}
approvals:
  tool_gate:
    rules:
      - {name: ops, match: {tool: "ops_*"}, mode: deferred, executor: ops, redact: [args.password]}
      - {name: held, match: {tool: held}, mode: inline}
      - {name: brief, match: {tool: brief}, mode: inline, inline_timeout: {after: 3s, then: deny}}
      - {name: staged, match: {tool: staged}, mode: deferred}
`

func newTeam(t *testing.T, replicas int) *team {
	t.Helper()
	s := &team{home: newHome(t), slack: newWorkspace(t, slacktest.Config{}), ops: newDownstream(t)}
	s.write("hook-secret", opsSecret)
	s.slack.AddUser(slacktest.User{ID: guest, Name: "guest", Restricted: true})
	s.slack.AddChannel(slacktest.Channel{ID: live, Members: []string{annOnSlack, boOnSlack, boss, guest, slacktest.BotUser}})
	s.write("bot-token", slacktest.BotToken)
	s.write("app-token", slacktest.AppToken)
	s.redis = startRedis(t)
	s.write("approvalbot.yaml", s.config())
	t.Cleanup(func() { // whatever happened
		for _, r := range s.all {
			for _, secret := range []string{slacktest.BotToken, slacktest.AppToken, "ticket=", "/actions/", "/commands/", s.keys["hermes"].Reveal()} {
				if r.log.holds(secret) {
					t.Errorf("a log holds %q", secret)
				}
			}
			if !r.log.holds("connected to Slack") {
				t.Error("a log says nothing, which proves nothing")
			}
		}
	})
	for n := range replicas {
		r := s.spawn()
		s.all, s.urls = append(s.all, r), append(s.urls, r.url)
		if _, err := s.slack.Await(t.Context(), func(open []int) bool { return len(open) == 2*(n+1) }); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func (s *team) config() string { return fmt.Sprintf(teamConfig, s.redis, s.slack.URL(), s.ops.URL) }

func (s *team) agent() *client.Client {
	s.t.Helper()
	c, err := client.New(s.urls[0], s.keys["hermes"], client.Replicas(s.urls[1:]...))
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

// asks has the agent make a call, in a thread of the conversation where somebody
// waits for it, or with an empty thread nowhere.
func (s *team) asks(tool, thread string) *wire.Approval {
	s.t.Helper()
	return s.asksFor(call(tool), thread)
}

func (s *team) asksFor(c wire.Call, thread string) *wire.Approval {
	s.t.Helper()
	attended := thread != ""
	r := wire.CheckRequest{Call: c, Requester: wire.Requester{Agent: "claude", Session: "s1", Attended: &attended}, Intent: "clean up"}
	if thread != "" {
		r.Origin = &wire.Place{Place: "slack:" + live, Thread: thread}
		r.Requester.Person = "slack:" + slacktest.Team + "/" + boss
	}
	a, err := s.agent().Check(s.t.Context(), r, 0)
	if err != nil || a.Approval == nil {
		s.t.Fatalf("Check = %+v, %v", a, err)
	}
	return a.Approval
}

// card waits until the one card of an approval in a conversation says something.
func (s *team) card(in string, a *wire.Approval, says string) slacktest.Message {
	s.t.Helper()
	var card slacktest.Message
	soon(s.t, "a card that says "+says, func() bool {
		var mine []slacktest.Message
		for _, m := range s.slack.Messages(in) {
			if strings.Contains(string(m.Metadata), a.ID) {
				mine = append(mine, m)
			}
		}
		if len(mine) > 1 {
			s.t.Fatalf("%d cards of %s", len(mine), a.ID)
		}
		if len(mine) == 1 && strings.Contains(mine[0].Read(), says) {
			card = mine[0]
		}
		return card.TS != ""
	})
	return card
}

func (s *team) press(user string, card slacktest.Message, action string) {
	s.t.Helper()
	o, err := s.slack.Click(s.t.Context(), slacktest.Click{User: user, Channel: card.Channel, TS: card.TS, Action: action})
	if err != nil || o.Warning != "" {
		s.t.Fatalf("Click = %q, %v", o.Warning, err)
	}
}

// fill waits for the dialog of a person and sends it off.
func (s *team) fill(user, about string, values map[string]string) {
	s.t.Helper()
	o, err := s.slack.Submit(s.t.Context(), slacktest.Submission{View: s.dialog(user, about), Values: values})
	if err != nil || o.Warning != "" {
		s.t.Fatalf("Submit = %q, %v", o.Warning, err)
	}
}

// dialog waits for the dialog of a person about something.
func (s *team) dialog(user, about string) (view string) {
	s.t.Helper()
	soon(s.t, "a dialog", func() bool {
		for _, v := range s.slack.Views(user) {
			if strings.Contains(v.Read(), about) {
				view = v.ID
			}
		}
		return view != ""
	})
	return view
}

// told waits until a person has been told something privately.
func (s *team) told(user, says string) {
	s.t.Helper()
	var all []string
	soon(s.t, user+" is told "+says, func() bool {
		all = nil
		for _, m := range s.slack.Ephemerals(user) {
			all = append(all, m.Read())
		}
		return strings.Contains(strings.Join(all, "\n"), says)
	})
}

// golden compares how a card reads with a file, times and ids aside.
func (s *team) golden(name string, card slacktest.Message) {
	s.t.Helper()
	got := normal(card.Read()) + "\n"
	file := filepath.Join("testdata", "slack", name+".golden")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			s.t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		s.t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		s.t.Errorf("%s, -update rewrites it (-want +got):\n%s", file, diff)
	}
}

var (
	clockTime = regexp.MustCompile(`((Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day )?\b\d\d:\d\d\b`)
	took      = regexp.MustCompile(`\d+(\.\d+)? (s|min)\b`)
)

func normal(text string) string {
	return took.ReplaceAllString(clockTime.ReplaceAllString(text, "12:34"), "1 s")
}

// TestSlack runs two processes on one app: every card ends as it should, whichever
// process has the press.
func TestSlack(t *testing.T) {
	t.Parallel()
	s := newTeam(t, 2)
	for name, test := range map[string]func(*team){
		"approved in the thread of the call, and run":    approvedInAThread,
		"denied with a reason":                           deniedWithAReason,
		"asked, and answered":                            askedAndAnswered,
		"staged, and approved in review":                 approvedInReview,
		"expired before anybody decided":                 expiredWhileOpen,
		"decided at the console":                         decidedElsewhere,
		"approved by two at the same moment":             bothAtOnce,
		"approved and denied at the same moment":         approvedAndDenied,
		"pressed by who may not":                         pressedByOthers,
		"an older and a newer question":                  olderThenNewer,
		"the same press twice":                           pressedTwice,
		"typed in a chat, and approved on what it shows": approvedByCommand,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mine := *s
			h := *s.home
			h.t, mine.home = t, &h
			test(&mine)
		})
	}
}

func approvedInAThread(s *team) {
	thread := s.slack.Say(boss, live, "clean up please")
	a := s.asks("held", thread)
	card := s.card(live, a, "Waiting for")
	if card.ThreadTS != thread {
		s.t.Errorf("it is in thread %q, want %q", card.ThreadTS, thread)
	}
	s.golden("pending-inline", card)
	waited := make(chan wire.ApprovalAnswer, 1)
	go func() {
		got, err := s.agent().Wait(s.t.Context(), a.ID)
		if err != nil {
			s.t.Error(err)
		}
		waited <- got
	}()
	s.press(annOnSlack, card, "approve")
	got := <-waited
	if got.State != "approved" || got.Token == "" {
		s.t.Fatalf("the one who waits is told %s", got.State)
	}
	s.told(annOnSlack, "Recorded. Approved by Ann")
	s.card(live, a, "Approved by Ann, waiting to run")
	spend := wire.ConsumeRequest{Token: got.Token, AttemptID: client.NewAttempt(), Call: call("held")}
	if yes, err := s.agent().Consume(s.t.Context(), a.ID, spend); err != nil || yes.Verdict != "allow" {
		s.t.Fatalf("Consume = %+v, %v", yes, err)
	}
	s.card(live, a, "Running since")
	if _, err := s.agent().Report(s.t.Context(), a.ID, wire.OutcomeRequest{Token: got.Token, AttemptID: spend.AttemptID, Outcome: "executed"}); err != nil {
		s.t.Fatal(err)
	}
	s.golden("executed", s.card(live, a, "Ran "))
}

func deniedWithAReason(s *team) {
	drop := wire.Call{Tool: "held", Target: "users-db", Args: json.RawMessage(`{"table":"users"}`)}
	a := s.asksFor(drop, s.slack.Say(boss, live, "x"))
	s.press(boOnSlack, s.card(live, a, "Waiting for"), "deny")
	s.fill(boOnSlack, "users-db", map[string]string{"words": "wrong cluster"})
	s.told(boOnSlack, "Denied by Bo")
	s.golden("denied", s.card(live, a, "Denied by Bo"))
	again := s.asksFor(drop, s.slack.Say(boss, live, "please"))
	s.card(live, again, "The same call was refused before: Denied by")
	shown := (&testServer{home: s.home, url: s.urls[0]}).as("ann").run(s.t, "show", again.ID).out
	if want := "refused before  " + a.ID; !strings.Contains(shown, want) {
		s.t.Errorf("no %q in\n%s", want, shown)
	}
	got, err := s.agent().Get(s.t.Context(), a.ID)
	if err != nil || !strings.Contains(got.AgentText, `Approver's reason: "wrong cluster"`) {
		s.t.Errorf("the agent is told %q, %v", got.AgentText, err)
	}
}

func askedAndAnswered(s *team) {
	a := s.asks("held", s.slack.Say(boss, live, "x"))
	s.press(annOnSlack, s.card(live, a, "Waiting for"), "ask")
	s.fill(annOnSlack, "held", map[string]string{"words": "which one?"})
	s.golden("asked", s.card(live, a, `Ann asks`))
	if _, err := s.agent().Answer(s.t.Context(), a.ID, "the old one"); err != nil {
		s.t.Fatal(err)
	}
	s.golden("answered", s.card(live, a, "Waiting for"))
}

func approvedInReview(s *team) {
	a := s.asks("staged", "")
	card := s.card(review, a, "Waiting for")
	s.golden("pending-staged", card)
	s.press(annOnSlack, card, "approve")
	s.golden("approved-staged", s.card(review, a, "Approved by Ann"))
	s.press(annOnSlack, s.card(review, a, "Approved by Ann"), "take_back")
	s.golden("taken-back", s.card(review, a, "Taken back by Ann"))
}

func expiredWhileOpen(s *team) {
	a := s.asks("brief", s.slack.Say(boss, live, "x"))
	s.card(live, a, "Waiting for")
	s.golden("expired", s.card(live, a, "Expired"))
}

func decidedElsewhere(s *team) {
	a := s.asksFor(wire.Call{Tool: "held", Args: json.RawMessage(`{"table":"orders"}`)}, s.slack.Say(boss, live, "x"))
	s.card(live, a, "Waiting for")
	c := newTestClient(s.t, s.urls[1], s.keys["bo"])
	if _, err := c.Decide(s.t.Context(), a.ID, wire.DecideRequest{Decision: "deny", Reason: "no", Digest: a.Digest}); err != nil {
		s.t.Fatal(err)
	}
	s.golden("denied-elsewhere", s.card(live, a, "Denied by bo"))
}

// bothAtOnce has two people approve in the same moment, as often as it takes to be
// sure: one decides, the other learns who.
func bothAtOnce(s *team) {
	for range 3 {
		a := s.asks("staged", "")
		card := s.card(review, a, "Waiting for")
		if _, err := s.slack.ClickAll(s.t.Context(),
			slacktest.Click{User: annOnSlack, Channel: card.Channel, TS: card.TS, Action: "approve"},
			slacktest.Click{User: boOnSlack, Channel: card.Channel, TS: card.TS, Action: "approve"}); err != nil {
			s.t.Fatal(err)
		}
		settled := s.card(review, a, "Approved by")
		winner, loser := "Ann", boOnSlack
		if strings.Contains(settled.Read(), "Approved by Bo") {
			winner, loser = "Bo", annOnSlack
		}
		s.told(loser, winner+" already approved this at")
	}
}

// approvedByCommand types what it wants, and presses on the card that it is shown.
func approvedByCommand(s *team) {
	a := s.asks("staged", "")
	s.card(review, a, "Waiting for")
	o, err := s.slack.Slash(s.t.Context(), slacktest.Slash{User: annOnSlack, Channel: review, Text: "approve " + a.ID})
	if err != nil || o.Warning != "" {
		s.t.Fatalf("Slash = %q, %v", o.Warning, err)
	}
	var card slacktest.Message
	soon(s.t, "a private card", func() bool {
		for _, m := range s.slack.Ephemerals(annOnSlack) {
			if strings.Contains(m.Read(), "Nothing is decided yet") {
				card = m
			}
		}
		return card.TS != ""
	})
	s.golden("private", card)
	s.press(annOnSlack, card, "approve")
	s.card(review, a, "Approved by Ann")
}

// approvedAndDenied has one approve while the other sends off a denial: whoever
// comes first, nothing may run, and both are told what they did.
func approvedAndDenied(s *team) {
	for _, target := range []string{"first", "second", "third"} {
		a := s.asksFor(wire.Call{Tool: "staged", Target: target}, "")
		card := s.card(review, a, "Waiting for")
		s.press(boOnSlack, card, "deny")
		view := s.dialog(boOnSlack, target)
		var both sync.WaitGroup
		both.Go(func() {
			_, _ = s.slack.Click(s.t.Context(), slacktest.Click{User: annOnSlack, Channel: card.Channel, TS: card.TS, Action: "approve"})
		})
		both.Go(func() {
			_, _ = s.slack.Submit(s.t.Context(), slacktest.Submission{View: view, Values: map[string]string{"words": "no"}})
		})
		both.Wait()
		s.card(review, a, "by Bo ")
		got, err := newTestClient(s.t, s.urls[1], s.keys["ann"]).Get(s.t.Context(), a.ID)
		if err != nil || got.State != "denied" && got.State != "revoked" {
			s.t.Errorf("it is %s, %v", got.State, err)
		}
	}
}

func olderThenNewer(s *team) {
	older, newer := s.asks("staged", ""), s.asks("staged", "")
	s.press(annOnSlack, s.card(review, older, "Waiting for"), "approve")
	s.card(review, older, "Approved by Ann")
	s.press(boOnSlack, s.card(review, newer, "Waiting for"), "approve")
	s.card(review, newer, "Approved by Bo")
	s.card(review, older, "Approved by Ann")
}

// pressedTwice has Slack deliver a press again.
func pressedTwice(s *team) {
	a := s.asks("staged", "")
	card := s.card(review, a, "Waiting for")
	k := slacktest.Click{User: boOnSlack, Channel: card.Channel, TS: card.TS, Action: "approve"}
	same := func(p map[string]any) { p["actions"].([]any)[0].(map[string]any)["action_ts"] = "1.1" }
	k.Mangle = same
	if _, err := s.slack.ClickAll(s.t.Context(), k, k, k); err != nil {
		s.t.Fatal(err)
	}
	s.card(review, a, "Approved by Bo")
	got, err := newTestClient(s.t, s.urls[0], s.keys["ann"]).Get(s.t.Context(), a.ID)
	if err != nil || len(got.Approval.Votes) != 1 {
		s.t.Errorf("votes %+v, %v", got.Approval, err)
	}
}

func pressedByOthers(s *team) {
	a := s.asks("held", s.slack.Say(boss, live, "x"))
	card := s.card(live, a, "Waiting for")
	s.press(boss, card, "approve")
	s.told(boss, "You asked for this call, so someone else must decide.")
	s.press(guest, card, "approve")
	s.told(guest, "Guests decide only where a group lists them by id. You are not in sre.")
	got, err := s.agent().Get(s.t.Context(), a.ID)
	if err != nil || got.State != "pending" {
		s.t.Errorf("it is %s, %v", got.State, err)
	}
}

// TestAPressBeforeThePostWasAnswered has Slack show a card and be slow to say so.
func TestAPressBeforeThePostWasAnswered(t *testing.T) {
	t.Parallel()
	s := newTeam(t, 1)
	until := make(chan struct{})
	s.slack.FailNext("chat.postMessage", slacktest.Held(until))
	a := s.asks("held", s.slack.Say(boss, live, "x"))
	s.press(annOnSlack, s.card(live, a, "Waiting for"), "approve")
	s.told(annOnSlack, "Recorded. Approved by Ann")
	close(until)
	s.card(live, a, "Approved by Ann")
}

// TestAKilledReplicaLosesNoPress kills the process that has a press in hand, after
// it has acknowledged it and before it has decided.
func TestAKilledReplicaLosesNoPress(t *testing.T) {
	t.Parallel()
	s := newTeam(t, 2)
	a := s.asks("held", s.slack.Say(boss, live, "x"))
	card := s.card(live, a, "Waiting for")
	until := make(chan struct{})
	s.slack.FailNext("users.info", slacktest.Held(until)) // it looks up who pressed, and hears nothing
	s.press(annOnSlack, card, "approve")
	soon(t, "the look-up", func() bool { return len(s.slack.Calls("users.info")) > 0 })
	victim := s.holder()
	if err := victim.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	close(until)
	s.told(annOnSlack, "Recorded. Approved by Ann")
	s.card(live, a, "Approved by Ann")
}

// holder is the replica that took the last press: each has two sockets, and the
// first replica the first two.
func (s *team) holder() *replica {
	all := s.slack.Envelopes()
	return s.all[(all[len(all)-1].Socket-1)/2]
}

// TestAKilledReplicaLosesNoCard kills the process that is about to redraw a card,
// after the decision was stored.
func TestAKilledReplicaLosesNoCard(t *testing.T) {
	t.Parallel()
	s := newTeam(t, 2)
	a := s.asks("held", s.slack.Say(boss, live, "x"))
	card := s.card(live, a, "Waiting for")
	s.slack.FailNext("chat.update", slacktest.Reset, slacktest.Reset) // of whichever draws it
	c := newTestClient(t, s.urls[1], s.keys["bo"])
	if _, err := c.Decide(t.Context(), a.ID, wire.DecideRequest{Decision: "deny", Digest: a.Digest}); err != nil {
		t.Fatal(err)
	}
	soon(t, "a try to redraw it", func() bool { return len(s.slack.Calls("chat.update")) > 0 })
	for _, r := range s.all { // one of them was at it
		if err := r.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
	}
	s.spawn()
	if m := s.card(live, a, "Denied by bo"); m.TS != card.TS {
		t.Errorf("it is another card, %s", m.TS)
	}
}

// TestATokenIsRenewedWithoutARestart revokes the token in the middle of it all.
func TestATokenIsRenewedWithoutARestart(t *testing.T) {
	t.Parallel()
	s := newTeam(t, 1)
	s.card(review, s.asks("staged", ""), "Waiting for")
	s.slack.RenewToken("xoxb-new")
	late := s.asks("staged", "")
	s.all[0].log.await(t, "a chat is out")
	ann := (&testServer{home: s.home, url: s.urls[0]}).as("ann")
	said := func() string {
		<-time.After(200 * time.Millisecond) // a key may ask so often only
		return ann.run(t, "pending").out
	}
	var out string
	soon(t, "a word on the command line", func() bool { out = said(); return strings.HasPrefix(out, "Slack unreachable for ") })
	wantText(t, out, ", 1 card undelivered: decide here\n2 pending")

	s.write("bot-token", "xoxb-wrong")
	s.write("approvalbot.yaml", s.config())
	s.all[0].log.await(t, "RELOAD REFUSED")

	s.write("bot-token", "xoxb-new")
	s.write("approvalbot.yaml", s.config())
	s.all[0].log.await(t, "reloaded")
	s.press(annOnSlack, s.card(review, late, "Waiting for"), "approve")
	s.card(review, late, "Approved by Ann")
	soon(t, "the word to go", func() bool { return strings.HasPrefix(said(), "1 pending") })
}
