package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/approvalbot/approvalbot/bot/client"
	"github.com/approvalbot/approvalbot/bot/wire"
	"github.com/approvalbot/approvalbot/channels/mattermost/mattermosttest"
)

// Who and what is on the Mattermost of these tests.
const (
	annOnMM   = "u1ann000000000000000000000"
	boOnMM    = "u1bo0000000000000000000000"
	bossOnMM  = "u1boss00000000000000000000" // whom the agent works for
	guestOnMM = "u1guest0000000000000000000"
	liveOnMM  = "c1live00000000000000000000"
	opsOnMM   = "c1review000000000000000000"
)

// crew is replicas in processes of their own, on one Redis, which one Mattermost
// reaches at one address: whichever of them has a turn.
type crew struct {
	*home
	mm    *mattermosttest.Server
	door  *door
	redis string
	all   []*replica
	urls  []string
}

const crewConfig = `
keys:
  - {name: hermes, roles: [agent], asserts: [origin, person], conversations: ["mattermost:*"], hash_file: hermes.sha256}
  - {name: ann, roles: [approver], person: ann, hash_file: ann.sha256}
  - {name: bo, roles: [approver], person: bo, hash_file: bo.sha256}
key_file: server.key
store: {redis: {addrs: [%s]}, durability: strict}
channels: {mattermost: {url: "%s", token_file: bot-token, callback_url: "%s", callback_allow: [127.0.0.1], commands: [{team: acme, token_file: command-token}]}}
review: {mattermost: acme/review}
people:
  - {name: ann, keys: [ann], mattermost: [ann]}
  - {name: bo, keys: [bo], mattermost: [u1bo0000000000000000000000]}
approvers:
  default: [sre]
  groups: {sre: {mattermost_users: [ann], mattermost_channel_members: [acme/approvers], keys: [ann, bo]}}
approvals:
  tool_gate:
    rules:
      - {name: held, match: {tool: held}, mode: inline, mention: [sre]}
      - {name: brief, match: {tool: brief}, mode: inline, inline_timeout: {after: 3s, then: deny}}
      - {name: staged, match: {tool: staged}, mode: deferred}
`

func newCrew(t *testing.T, replicas int) *crew {
	t.Helper()
	c := &crew{home: newHome(t), mm: mattermosttest.New(t, mattermosttest.Config{}), door: newDoor(t)}
	for _, u := range []mattermosttest.User{
		{ID: annOnMM, Username: "ann"}, {ID: boOnMM, Username: "bo"}, {ID: bossOnMM, Username: "boss"}, {ID: guestOnMM, Username: "guest", Guest: true},
	} {
		c.mm.AddUser(u)
	}
	all := []string{annOnMM, boOnMM, bossOnMM, guestOnMM, mattermosttest.BotUser}
	for id, name := range map[string]string{liveOnMM: "live", opsOnMM: "review"} {
		c.mm.AddChannel(mattermosttest.Channel{ID: id, Name: name, Team: mattermosttest.Team, Type: "O", Members: all})
	}
	c.mm.AddChannel(mattermosttest.Channel{ID: "c1approvers000000000000000", Name: "approvers", Team: mattermosttest.Team, Type: "P", Members: []string{boOnMM, guestOnMM, mattermosttest.BotUser}})
	c.write("bot-token", mattermosttest.BotToken)
	c.write("command-token", c.mm.AddCommand(mattermosttest.Command{Team: mattermosttest.Team, Trigger: "approvals", URL: c.door.url + "/mattermost/commands", Method: "P"}))
	c.redis = startRedis(t)
	c.write("approvalbot.yaml", c.config())
	t.Cleanup(func() { // whatever happened
		for _, r := range c.all {
			for _, secret := range []string{mattermosttest.BotToken, `"seal"`, c.keys["hermes"].Reveal()} {
				if r.log.holds(secret) {
					t.Errorf("a log holds %q", secret)
				}
			}
			if !r.log.holds("connected to Mattermost") {
				t.Error("a log says nothing, which proves nothing")
			}
		}
	})
	for range replicas {
		c.join()
	}
	return c
}

func (c *crew) config() string { return fmt.Sprintf(crewConfig, c.redis, c.mm.URL(), c.door.url) }

// join starts another replica.
func (c *crew) join() {
	c.t.Helper()
	r := c.spawn()
	c.all, c.urls = append(c.all, r), append(c.urls, r.url)
	c.door.add(r.url)
}

// door is the one address of all replicas, as a load balancer has it.
type door struct {
	url  string
	mu   sync.Mutex
	to   []*httputil.ReverseProxy
	next atomic.Int64
}

func newDoor(t *testing.T) *door {
	t.Helper()
	d := &door{}
	srv := httptest.NewServer(d)
	t.Cleanup(srv.Close)
	d.url = srv.URL
	return d
}

func (d *door) add(to string) {
	u, err := url.Parse(to)
	if err != nil {
		panic(err) // it is the address of a server that runs
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.to = append(d.to, httputil.NewSingleHostReverseProxy(u))
}

func (d *door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	to := d.to[int(d.next.Add(1))%len(d.to)]
	d.mu.Unlock()
	to.ServeHTTP(w, r)
}

func (c *crew) agent() *client.Client {
	c.t.Helper()
	a, err := client.New(c.urls[0], c.keys["hermes"], client.Replicas(c.urls[1:]...))
	if err != nil {
		c.t.Fatal(err)
	}
	return a
}

// asks has the agent make a call, in a thread of the conversation where somebody
// waits for it, or with an empty thread nowhere.
func (c *crew) asks(what wire.Call, thread string) *wire.Approval {
	c.t.Helper()
	attended := thread != ""
	r := wire.CheckRequest{Call: what, Requester: wire.Requester{Agent: "claude", Session: "s1", Attended: &attended}, Intent: "clean up"}
	if thread != "" {
		r.Origin = &wire.Place{Place: "mattermost:" + liveOnMM, Thread: thread}
		r.Requester.Person = "mattermost:" + bossOnMM
	}
	a, err := c.agent().Check(c.t.Context(), r, 0)
	if err != nil || a.Approval == nil {
		c.t.Fatalf("Check = %+v, %v", a, err)
	}
	return a.Approval
}

// card waits until the one card of an approval in a conversation says something.
func (c *crew) card(in string, a *wire.Approval, says string) mattermosttest.Post {
	c.t.Helper()
	var card mattermosttest.Post
	soon(c.t, "a card that says "+says, func() bool {
		var mine []mattermosttest.Post
		for _, p := range c.mm.Posts(in) {
			if p.Props["approvalbot_card"] == a.ID {
				mine = append(mine, p)
			}
		}
		if len(mine) > 1 {
			c.t.Fatalf("%d cards of %s", len(mine), a.ID)
		}
		if len(mine) == 1 && strings.Contains(mine[0].Read(), says) {
			card = mine[0]
		}
		return card.ID != ""
	})
	return card
}

// press presses a button, and returns what the presser was told.
func (c *crew) press(user string, card mattermosttest.Post, action string) string {
	c.t.Helper()
	o, err := c.mm.Press(c.t.Context(), mattermosttest.Press{User: user, Post: card.ID, Action: action})
	if err != nil || o.Status != http.StatusOK {
		c.t.Fatalf("Press = %+v, %v", o, err)
	}
	return strings.Join(o.Ephemerals, "\n")
}

func (c *crew) told(user string, card mattermosttest.Post, action, says string) {
	c.t.Helper()
	if got := c.press(user, card, action); !strings.Contains(got, says) {
		c.t.Errorf("%s is told %q, want %q", user, got, says)
	}
}

// dialog is what somebody has open about something.
func (c *crew) dialog(user, about string) mattermosttest.Dialog {
	c.t.Helper()
	for _, d := range c.mm.Dialogs(user) {
		if strings.Contains(d.Read(), about) {
			return d
		}
	}
	c.t.Fatalf("no dialog about %s", about)
	return mattermosttest.Dialog{}
}

func (c *crew) fill(user, about string, values map[string]any) mattermosttest.Answered {
	c.t.Helper()
	a, err := c.mm.Submit(c.t.Context(), mattermosttest.Submission{User: user, Dialog: c.dialog(user, about), Values: values})
	if err != nil {
		c.t.Fatal(err)
	}
	return a
}

// golden compares how a card reads with a file, times and ids aside.
func (c *crew) golden(name string, card mattermosttest.Post) {
	c.t.Helper()
	got := approvalID.ReplaceAllString(normal(card.Read()), "apr_1") + "\n"
	file := filepath.Join("testdata", "mattermost", name+".golden")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			c.t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		c.t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		c.t.Errorf("%s, -update rewrites it (-want +got):\n%s", file, diff)
	}
}

var (
	approvalID = regexp.MustCompile(`apr_[0-9A-Z]+( · [0-9a-f]+)?`)
	permalink  = regexp.MustCompile(`/_redirect/pl/([a-z0-9]{26})`)
)

// TestMattermost runs two processes behind one address: every card ends as it should,
// whichever process has the press.
func TestMattermost(t *testing.T) {
	t.Parallel()
	c := newCrew(t, 2)
	for name, test := range map[string]func(*crew){
		"approved in the thread of the call, and run":    mmApprovedInAThread,
		"denied with a reason":                           mmDenied,
		"asked, and answered":                            mmAsked,
		"staged, approved in review and taken back":      mmTakenBack,
		"expired while the dialog was open":              mmExpired,
		"decided at the console":                         mmDecidedElsewhere,
		"approved by two at the same moment":             mmBothAtOnce,
		"approved and denied at the same moment":         mmApprovedAndDenied,
		"pressed by who may not":                         mmPressedByOthers,
		"an older and a newer question":                  mmOlderThenNewer,
		"twenty kilobytes of arguments":                  mmLarge,
		"typed in a chat, and approved on what it sends": mmByCommand,
		"a card that was deleted":                        mmDeleted,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mine, h := *c, *c.home
			h.t, mine.home = t, &h
			test(&mine)
		})
	}
}

func mmApprovedInAThread(c *crew) {
	thread := c.mm.Say(bossOnMM, liveOnMM, "", "clean up please")
	a := c.asks(call("held"), thread)
	card := c.card(liveOnMM, a, "Waiting for")
	if card.Root != thread || strings.Join(card.Notifies(), " ") != "@ann" {
		c.t.Errorf("it is in thread %q, and calls %v", card.Root, card.Notifies())
	}
	c.golden("pending-inline", card)
	waited := make(chan wire.ApprovalAnswer, 1)
	go func() {
		got, err := c.agent().Wait(c.t.Context(), a.ID)
		if err != nil {
			c.t.Error(err)
		}
		waited <- got
	}()
	c.told(annOnMM, card, "approve", "Recorded. Approved by ann")
	got := <-waited
	if got.State != "approved" || got.Token == "" {
		c.t.Fatalf("the one who waits is told %s", got.State)
	}
	c.card(liveOnMM, a, "Approved by ann, waiting to run")
	spend := wire.ConsumeRequest{Token: got.Token, AttemptID: client.NewAttempt(), Call: call("held")}
	if yes, err := c.agent().Consume(c.t.Context(), a.ID, spend); err != nil || yes.Verdict != "allow" {
		c.t.Fatalf("Consume = %+v, %v", yes, err)
	}
	if _, err := c.agent().Report(c.t.Context(), a.ID, wire.OutcomeRequest{Token: got.Token, AttemptID: spend.AttemptID, Outcome: "executed"}); err != nil {
		c.t.Fatal(err)
	}
	ran := c.card(liveOnMM, a, "Ran ")
	if len(ran.Buttons()) > 0 {
		c.t.Errorf("%v can be pressed", ran.Buttons())
	}
	c.golden("executed", ran)
}

func mmDenied(c *crew) {
	drop := wire.Call{Tool: "held", Target: "users-db", Args: []byte(`{"table":"users"}`)}
	a := c.asks(drop, c.mm.Say(bossOnMM, liveOnMM, "", "x"))
	c.press(boOnMM, c.card(liveOnMM, a, "Waiting for"), "deny")
	if sent := c.fill(boOnMM, "users-db", map[string]any{"words": "wrong cluster"}); !sent.Closed {
		c.t.Errorf("%+v", sent)
	}
	c.golden("denied", c.card(liveOnMM, a, "Denied by bo"))
	again := c.asks(drop, c.mm.Say(bossOnMM, liveOnMM, "", "please"))
	c.card(liveOnMM, again, "The same call was refused before")
	got, err := c.agent().Get(c.t.Context(), a.ID)
	if err != nil || !strings.Contains(got.AgentText, `Approver's reason: "wrong cluster"`) {
		c.t.Errorf("the agent is told %q, %v", got.AgentText, err)
	}
}

func mmAsked(c *crew) {
	a := c.asks(wire.Call{Tool: "held", Target: "asked-db"}, c.mm.Say(bossOnMM, liveOnMM, "", "x"))
	c.press(annOnMM, c.card(liveOnMM, a, "Waiting for"), "ask")
	c.fill(annOnMM, "asked-db", map[string]any{"words": "which one?"})
	c.golden("asked", c.card(liveOnMM, a, "ann asks"))
	if _, err := c.agent().Answer(c.t.Context(), a.ID, "the old one"); err != nil {
		c.t.Fatal(err)
	}
	c.golden("answered", c.card(liveOnMM, a, "the old one"))
}

func mmTakenBack(c *crew) {
	a := c.asks(call("staged"), "")
	card := c.card(opsOnMM, a, "Waiting for")
	c.golden("pending-staged", card)
	c.told(annOnMM, card, "approve", "Recorded. Approved by ann")
	card = c.card(opsOnMM, a, "Approved by ann")
	c.golden("approved-staged", card)
	c.told(annOnMM, card, "takeback", "Recorded. Taken back by ann")
	c.golden("taken-back", c.card(opsOnMM, a, "Taken back by ann"))
}

func mmExpired(c *crew) {
	a := c.asks(wire.Call{Tool: "brief", Target: "expired-db"}, c.mm.Say(bossOnMM, liveOnMM, "", "x"))
	c.press(boOnMM, c.card(liveOnMM, a, "Waiting for"), "deny")
	c.golden("expired", c.card(liveOnMM, a, "Expired"))
	if sent := c.fill(boOnMM, "expired-db", map[string]any{"words": "no"}); sent.Closed || !strings.Contains(sent.Error, "expired") {
		c.t.Errorf("the dialog says %+v", sent)
	}
}

func mmDecidedElsewhere(c *crew) {
	a := c.asks(wire.Call{Tool: "held", Args: []byte(`{"table":"orders"}`)}, c.mm.Say(bossOnMM, liveOnMM, "", "x"))
	card := c.card(liveOnMM, a, "Waiting for")
	if _, err := newTestClient(c.t, c.urls[1], c.keys["bo"]).Decide(c.t.Context(), a.ID, wire.DecideRequest{Decision: "deny", Reason: "no", Digest: a.Digest}); err != nil {
		c.t.Fatal(err)
	}
	c.golden("denied-elsewhere", c.card(liveOnMM, a, "Denied by bo"))
	if o, err := c.mm.Press(c.t.Context(), mattermosttest.Press{User: annOnMM, Post: card.ID, Action: "approve"}); err != nil || o.Status != http.StatusNotFound {
		c.t.Errorf("a button is left: %+v, %v", o, err)
	}
}

// mmBothAtOnce has two people approve in the same moment, as often as it takes to be
// sure: one decides, the other learns who.
func mmBothAtOnce(c *crew) {
	for range 3 {
		a := c.asks(call("staged"), "")
		card := c.card(opsOnMM, a, "Waiting for")
		told := map[string]string{}
		var (
			both sync.WaitGroup
			mu   sync.Mutex
		)
		for _, user := range []string{annOnMM, boOnMM} {
			both.Go(func() {
				o, err := c.mm.Press(c.t.Context(), mattermosttest.Press{User: user, Post: card.ID, Action: "approve"})
				if err != nil {
					c.t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				told[user] = strings.Join(o.Ephemerals, "\n")
			})
		}
		both.Wait()
		winner, loser := "ann", boOnMM
		if strings.Contains(c.card(opsOnMM, a, "Approved by").Read(), "Approved by bo") {
			winner, loser = "bo", annOnMM
		}
		if want := winner + " already approved this at"; !strings.Contains(told[loser], want) {
			c.t.Errorf("the loser is told %q, want %q", told[loser], want)
		}
	}
}

// mmApprovedAndDenied has one approve while the other sends off a denial: whoever
// comes first, nothing may run.
func mmApprovedAndDenied(c *crew) {
	for _, target := range []string{"first", "second", "third"} {
		a := c.asks(wire.Call{Tool: "staged", Target: target}, "")
		card := c.card(opsOnMM, a, "Waiting for")
		c.press(boOnMM, card, "deny")
		asked := c.dialog(boOnMM, target)
		var both sync.WaitGroup
		both.Go(func() {
			_, _ = c.mm.Press(c.t.Context(), mattermosttest.Press{User: annOnMM, Post: card.ID, Action: "approve"})
		})
		both.Go(func() {
			for range 5 { // on a slow machine it may have to be sent again
				a, err := c.mm.Submit(c.t.Context(), mattermosttest.Submission{User: boOnMM, Dialog: asked, Values: map[string]any{"words": "no"}})
				if err != nil || !strings.Contains(a.Error, "press again") {
					return
				}
			}
		})
		both.Wait()
		c.card(opsOnMM, a, "by bo ")
		got, err := newTestClient(c.t, c.urls[1], c.keys["ann"]).Get(c.t.Context(), a.ID)
		if err != nil || got.State != "denied" && got.State != "revoked" {
			c.t.Errorf("it is %s, %v", got.State, err)
		}
	}
}

func mmPressedByOthers(c *crew) {
	a := c.asks(call("held"), c.mm.Say(bossOnMM, liveOnMM, "", "x"))
	card := c.card(liveOnMM, a, "Waiting for")
	for user, says := range map[string]string{
		bossOnMM:               "You asked for this call, so someone else must decide.",
		guestOnMM:              "Guests decide only where a group lists them by id.",
		mattermosttest.Admin:   "You are not in sre.",
		mattermosttest.BotUser: "Bots cannot decide.",
	} {
		c.told(user, card, "approve", says)
	}
	got, err := c.agent().Get(c.t.Context(), a.ID)
	if err != nil || got.State != "pending" {
		c.t.Errorf("it is %s, %v", got.State, err)
	}
	c.told(annOnMM, card, "approve", "Recorded. Approved by ann")
}

func mmOlderThenNewer(c *crew) {
	older, newer := c.asks(call("staged"), ""), c.asks(call("staged"), "")
	first, second := c.card(opsOnMM, older, "Waiting for"), c.card(opsOnMM, newer, "Waiting for")
	c.told(annOnMM, first, "approve", "Recorded")
	c.told(annOnMM, second, "approve", "Recorded")
	c.card(opsOnMM, older, "Approved by ann")
	c.card(opsOnMM, newer, "Approved by ann")
}

// mmLarge has more arguments than a card shows.
func mmLarge(c *crew) {
	text := strings.Repeat("@all `x` ", 2200)
	a := c.asks(wire.Call{Tool: "staged", Args: fmt.Appendf(nil, `{"text":%q}`, text)}, "")
	card := c.card(opsOnMM, a, "more characters")
	if got := card.Read(); !strings.Contains(got, "press Show all before you approve") || len(card.Notifies()) > 0 {
		c.t.Errorf("it calls %v, and reads\n%s", card.Notifies(), got)
	}
	c.told(boOnMM, card, "full", "The whole call is below the card.")
	var whole strings.Builder
	for _, p := range c.mm.Posts(opsOnMM) {
		if p.Root == card.ID {
			whole.WriteString(p.Read())
		}
	}
	if n := strings.Count(whole.String(), "@all"); n != 2200 {
		c.t.Errorf("%d of 2200 are there", n)
	}
	c.told(annOnMM, card, "approve", "Recorded. Approved by ann")
	c.card(opsOnMM, a, "Approved by ann")
}

// mmByCommand types what it wants, and presses on the card that it is sent.
func mmByCommand(c *crew) {
	a := c.asks(wire.Call{Tool: "staged", Target: "typed-db"}, "")
	c.card(opsOnMM, a, "Waiting for")
	typed := func(text string) string {
		o, err := c.mm.Type(c.t.Context(), mattermosttest.Typed{User: annOnMM, Channel: liveOnMM, Trigger: "approvals", Text: text})
		if err != nil || o.Status != http.StatusOK || len(o.Ephemerals) != 1 {
			c.t.Fatalf("Type = %+v, %v", o, err)
		}
		return o.Ephemerals[0]
	}
	if got := typed("pending"); !strings.Contains(got, "pending") || !strings.Contains(got, "/approvals show") {
		c.t.Errorf("pending says\n%s", got)
	}
	got := typed("approve " + a.ID)
	if !strings.Contains(got, "Nothing is decided yet") || !strings.Contains(got, "/_redirect/pl/") {
		c.t.Errorf("approve says\n%s", got)
	}
	m := permalink.FindStringSubmatch(got)
	if m == nil {
		c.t.Fatalf("no link in\n%s", got)
	}
	sent, ok := c.mm.Post(m[1])
	if !ok || sent.Channel == opsOnMM || sent.Channel == liveOnMM {
		c.t.Fatalf("it leads to %+v", sent)
	}
	c.told(annOnMM, sent, "approve", "Recorded. Approved by ann")
	c.card(opsOnMM, a, "Approved by ann")
	c.card(sent.Channel, a, "Approved by ann")
	c.golden("help", mattermosttest.Post{Message: typed("help")})
}

// mmDeleted has somebody delete the card: what became of the call is said all the same.
func mmDeleted(c *crew) {
	a := c.asks(wire.Call{Tool: "held", Target: "deleted-db"}, c.mm.Say(bossOnMM, liveOnMM, "", "x"))
	c.mm.Remove(c.card(liveOnMM, a, "Waiting for").ID)
	if _, err := newTestClient(c.t, c.urls[1], c.keys["bo"]).Decide(c.t.Context(), a.ID, wire.DecideRequest{Decision: "deny", Reason: "gone-card", Digest: a.Digest}); err != nil {
		c.t.Fatal(err)
	}
	soon(c.t, "the outcome", func() bool {
		for _, p := range c.mm.Posts(liveOnMM) {
			if strings.Contains(p.Message, "gone-card") {
				return true
			}
		}
		return false
	})
}

// TestAPressBeforeMattermostAnswered has Mattermost show a card and be slow to say so.
func TestAPressBeforeMattermostAnswered(t *testing.T) {
	t.Parallel()
	c := newCrew(t, 1)
	until := make(chan struct{})
	c.mm.FailNext("create_post", mattermosttest.Held(until))
	a := c.asks(call("staged"), "")
	c.told(annOnMM, c.card(opsOnMM, a, "Waiting for"), "approve", "Recorded. Approved by ann")
	close(until)
	c.card(opsOnMM, a, "Approved by ann")
}

// TestAKilledReplicaLosesNoCardInMattermost kills both processes after the decision
// was stored and before the card was redrawn.
func TestAKilledReplicaLosesNoCardInMattermost(t *testing.T) {
	t.Parallel()
	c := newCrew(t, 2)
	a := c.asks(call("staged"), "")
	card := c.card(opsOnMM, a, "Waiting for")
	c.mm.FailNext("patch_post", mattermosttest.Reset, mattermosttest.Reset)
	if _, err := newTestClient(t, c.urls[1], c.keys["bo"]).Decide(t.Context(), a.ID, wire.DecideRequest{Decision: "deny", Digest: a.Digest}); err != nil {
		t.Fatal(err)
	}
	soon(t, "a try to redraw it", func() bool { return len(c.mm.Calls("patch_post")) > 0 })
	for _, r := range c.all { // one of them was at it
		if err := r.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
	}
	c.join()
	if p := c.card(opsOnMM, a, "Denied by bo"); p.ID != card.ID {
		t.Errorf("it is another card, %s", p.ID)
	}
}
