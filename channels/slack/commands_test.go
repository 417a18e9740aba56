package slack_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/approvalbot/approvalbot/bot"
	"github.com/approvalbot/approvalbot/channels"
	"github.com/approvalbot/approvalbot/channels/slack"
	"github.com/approvalbot/approvalbot/channels/slack/slacktest"
	"github.com/approvalbot/approvalbot/gate"
	"github.com/approvalbot/approvalbot/gate/secret"
	"github.com/approvalbot/approvalbot/store"
)

const (
	ada   = "U0AAAAAA1" // may decide
	bob   = "U0BBBBBB1" // may decide
	eve   = "U0EEEEEE1" // may not
	guest = "U0GUEST001"
)

// house is all of it: a workspace, and a gate on a store in memory behind what the
// workspace sends.
type house struct {
	*testing.T
	slack    *slacktest.Slack
	gate     *gate.Gate
	keys     *gate.Keyring
	presses  *slack.Presses
	commands *slack.Commands
	happens  *slack.Events
	events   string // the URL for events
}

func newHouse(t *testing.T) *house {
	t.Helper()
	h := &house{T: t, slack: workspace(t, slacktest.Config{Scopes: []string{"chat:write", "users:read", "commands", "im:write"}})}
	h.slack.AddUser(slacktest.User{ID: bob, Name: "bob"})
	h.slack.AddUser(slacktest.User{ID: eve, Name: "eve"})
	h.slack.AddUser(slacktest.User{ID: guest, Name: "guest", Restricted: true})
	h.slack.AddChannel(slacktest.Channel{ID: ops, Members: []string{ada, bob, eve, guest, slacktest.BotUser}})
	c := slack.New(slack.Config{BotToken: secret.New(slacktest.BotToken), APIURL: h.slack.URL() + "/api/"})
	if _, err := c.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	var err error
	if h.keys, err = gate.NewKeyring(secret.New(strings.Repeat("k", gate.MinServerKey))); err != nil {
		t.Fatal(err)
	}
	s, err := store.OpenMemory(t.Context(), store.Config{Fingerprints: h.keys.Fingerprints()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	quiet := slog.New(slog.DiscardHandler)
	h.gate = gate.New(s, h.keys, bot.NewHub(s, quiet), housePolicy(t, c), quiet)
	h.gate.Beat(t.Context(), "r")
	private := &bot.PrivateCards{Gate: h.gate, Keys: h.keys, Card: func(v *gate.View) *channels.Card {
		args, covered := h.gate.Shown(&v.Snapshot)
		return channels.NewCard(v, channels.Context{Args: args, Redacted: covered})
	}}
	clicks := &bot.Clicks{Gate: h.gate, Cards: s, Private: private, Log: quiet}
	engine := &bot.Commands{Gate: h.gate, Clicks: clicks, Notes: map[string]string{"slack": slack.CommandNote}, Log: quiet}
	h.commands = &slack.Commands{Slack: c, Run: engine.Run, SigningSecret: secret.New(slacktest.SigningSecret), Home: true, Log: quiet}
	h.presses = &slack.Presses{
		Slack: c, Press: clicks.Press, Private: engine.Press, Commands: h.commands,
		SigningSecret: secret.New(slacktest.SigningSecret), Log: quiet,
	}
	mux := http.NewServeMux()
	mux.Handle("/slack/commands", h.commands)
	mux.Handle("/slack/interactions", h.presses)
	h.happens = &slack.Events{Slack: c, SigningSecret: secret.New(slacktest.SigningSecret), Log: quiet, Home: h.commands.OpenedHome, Out: func(string) {}}
	mux.Handle("/slack/events", h.happens)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	t.Cleanup(h.waits)
	h.events = server.URL + "/slack/events"
	h.slack.SendTo(slacktest.URLs{Interactions: server.URL + "/slack/interactions", Commands: server.URL + "/slack/commands", Events: server.URL + "/slack/events"})
	return h
}

func housePolicy(t *testing.T, p gate.Platform) *gate.Policy {
	t.Helper()
	policy, problems := gate.NewPolicy(
		&gate.PolicyConfig{ToolGate: &gate.ToolGateConfig{DefaultMode: "inline", RequireApproval: []string{"*"}}},
		gate.ApproversConfig{Default: []string{"sre"}, Groups: map[string]gate.GroupConfig{"sre": {SlackUsers: []string{ada, bob}}}},
		nil, nil, map[string]gate.Platform{"slack": p},
	)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return policy
}

// waits returns when everything was answered.
func (h *house) waits() { h.happens.Wait(); h.presses.Wait(); h.commands.Wait() }

func (h *house) asks(tool string, change func(*gate.Request)) *gate.Snapshot {
	h.Helper()
	r := gate.Request{
		Call:      gate.Call{Tool: tool, Target: "prod/web", Args: json.RawMessage(`{"replicas": 3}`)},
		Requester: gate.Requester{Key: "hermes", Agent: "claude", Attended: true},
	}
	if change != nil {
		change(&r)
	}
	got, err := h.gate.Check(h.Context(), r)
	if err != nil || got.Approval == nil {
		h.Fatalf("Check = %+v, %v", got, err)
	}
	return got.Approval
}

func (h *house) state(s *gate.Snapshot) gate.View {
	h.Helper()
	v, err := h.gate.Get(h.Context(), gate.Principal{Key: "root", Roles: []gate.Role{gate.RoleAdmin}}, s.ID)
	if err != nil {
		h.Fatal(err)
	}
	return v
}

// types sends a command and returns the one message that came of it.
func (h *house) types(user, text string) slacktest.Message {
	h.Helper()
	before := len(h.slack.Ephemerals(user))
	o, err := h.slack.Slash(h.Context(), slacktest.Slash{User: user, Channel: ops, Command: "/approvals", Text: text})
	if err != nil || o.Warning != "" || o.Status != http.StatusOK || len(o.Answer) != 0 {
		h.Fatalf("the person sees %q, Slack is answered %d %q, %v", o.Warning, o.Status, o.Answer, err)
	}
	h.waits()
	all := h.slack.Ephemerals(user)
	if len(all) != before+1 {
		h.Fatalf("%d messages to %s alone, want one more than %d", len(all), user, before)
	}
	return all[before]
}

func (h *house) click(k slacktest.Click) slacktest.Outcome {
	h.Helper()
	k.Channel = ops
	o, err := h.slack.Click(h.Context(), k)
	if err != nil {
		h.Fatal(err)
	}
	h.waits()
	return o
}

// now is a message as it is now.
func (h *house) now(m slacktest.Message) string {
	h.Helper()
	got, ok := h.slack.Message(ops, m.TS)
	if !ok {
		h.Fatal("the message is gone")
	}
	return got.Read()
}

func wants(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if without, is := strings.CutPrefix(p, "no "); is && strings.Contains(text, without) || !is && !strings.Contains(text, p) {
			t.Errorf("want %q in:\n%s", p, text)
		}
	}
}

func TestACommandIsAnsweredToWhoTypedItAlone(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.asks("deploy", nil)
	m := h.types(ada, "")
	wants(t, m.Read(), "1 pending, 1 for you", "claude → deploy on prod/web", "replicas: 3", "[Show]")
	wants(t, h.types(eve, "pending").Read(), "Nothing is pending that you may see.", "no deploy")
	wants(t, h.types(guest, "pending").Read(), "Guests may use this only where a group lists them by id.", "no deploy")
	wants(t, h.types(ada, "pendign").Read(), "Did you mean pending?")
	wants(t, h.types(ada, "help").Read(), "/approvals revoke ID", slack.CommandNote, "[Pending]")
	for _, all := range h.slack.Messages(ops) {
		if all.Only == "" {
			t.Errorf("everybody reads %q", all.Read())
		}
	}
}

// TestSlackIsAnsweredBeforeTheWorkIsDone has an engine that does not come to an
// end before Slack has its answer.
func TestSlackIsAnsweredBeforeTheWorkIsDone(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	release := make(chan struct{})
	h.commands.Run = func(context.Context, channels.Command) channels.Answer {
		<-release
		return channels.Answer{Lines: []string{"at last"}}
	}
	o, err := h.slack.Slash(t.Context(), slacktest.Slash{User: ada, Channel: ops, Command: "/approvals"})
	if err != nil || o.Warning != "" || len(o.Answer) != 0 {
		t.Errorf("the person sees %q, and Slack was answered %q, %v", o.Warning, o.Answer, err)
	}
	if n := len(h.slack.Ephemerals(ada)); n != 0 {
		t.Errorf("%d answers before the work was done", n)
	}
	close(release)
	h.waits()
	if all := h.slack.Ephemerals(ada); len(all) != 1 || all[0].Read() != "(at last)\nat last" {
		t.Errorf("told %v", all)
	}
}

func TestPagesAreTurnedInPlace(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	for _, tool := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		h.asks("deploy_"+tool, nil)
	}
	m := h.types(ada, "pending tool=deploy_*")
	wants(t, m.Read(), "7 pending with tool=deploy_*, 7 for you", "Page 1 of 2.", "[Next page]", "no [Previous page]")
	h.click(slacktest.Click{User: ada, TS: m.TS, Action: "command:10"})
	wants(t, h.now(m), "Page 2 of 2.", "[Previous page]", "no [Next page]")
	h.click(slacktest.Click{User: ada, TS: m.TS, Action: "command:10"})
	wants(t, h.now(m), "Page 1 of 2.")
	h.click(slacktest.Click{User: ada, TS: m.TS, Action: "command:0"})
	wants(t, h.now(m), "# claude wants to run deploy_", "[Approve] [Deny] [Ask]")
	if n := len(h.slack.Ephemerals(ada)); n != 1 {
		t.Errorf("%d messages, want the one that changes", n)
	}
}

// TestACardInAnAnswerDecidesOnce goes all the way from a typed id to a decision.
func TestACardInAnAnswerDecidesOnce(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	s := h.asks("deploy", nil)
	m := h.types(ada, "approve "+gate.ShortID(string(s.ID)))
	wants(t, m.Read(), "Nothing is decided yet. Read the call, then press Approve.", "| {", `|   "replicas": 3`, "[Approve] [Deny] [Ask]")
	if got := h.state(s).State; got != gate.Pending {
		t.Fatalf("typing has made it %s", got)
	}
	k := slacktest.Click{User: ada, Channel: ops, TS: m.TS, Action: "approve"}
	all, err := h.slack.ClickAll(t.Context(), k, k) // a double click
	if err != nil || all[0].Warning != "" || all[1].Warning != "" {
		t.Fatalf("ClickAll = %+v, %v", all, err)
	}
	h.waits()
	if got := h.state(s); got.State != gate.Approved || len(got.Votes) != 1 || got.Votes[0].Voter.ID != "slack:"+slacktest.Team+"/"+ada {
		t.Errorf("it is %s by %+v", got.State, got.Votes)
	}
	wants(t, h.now(m), "Approved by ada, waiting to run until", "no [Approve]", "no [Deny]", "no [Ask]", "no [Take back]")
	if _, err := h.slack.Click(t.Context(), k); err == nil {
		t.Error("there is still a button to press")
	}
	m = h.types(bob, "show "+string(s.ID))
	wants(t, m.Read(), "[Take back]", "no [Approve]")
	h.click(slacktest.Click{User: bob, TS: m.TS, Action: "take_back"})
	if got := h.state(s).State; got != gate.Revoked {
		t.Errorf("taken back it is %s", got)
	}
	wants(t, h.now(m), "Taken back by bob", "no [Take back]")
}

// TestEachDecidesOnceOnACardOfTheirOwn has two people with a card each, one of
// whom comes too late.
func TestEachDecidesOnceOnACardOfTheirOwn(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	s := h.asks("deploy", nil)
	first, second := h.types(ada, "show "+string(s.ID)), h.types(bob, "show "+string(s.ID))
	h.click(slacktest.Click{User: ada, TS: first.TS, Action: "approve"})
	h.click(slacktest.Click{User: bob, TS: second.TS, Action: "approve"})
	if got := h.state(s); got.State != gate.Approved || len(got.Votes) != 1 {
		t.Errorf("it is %s with %d votes", got.State, len(got.Votes))
	}
	wants(t, h.now(second), "ada already approved this at", "Approved by ada, waiting to run", "no [Approve]")
}

func TestADenialTypedIntoTheDialogOfACardInAnAnswer(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	s := h.asks("deploy", nil)
	m := h.types(ada, "deny "+string(s.ID))
	h.click(slacktest.Click{User: ada, TS: m.TS, Action: "deny"})
	views := h.slack.Views(ada)
	if len(views) != 1 {
		t.Fatalf("%d dialogs are open", len(views))
	}
	o, err := h.slack.Submit(t.Context(), slacktest.Submission{View: views[0].ID, Values: map[string]string{"words": "wrong <!here> cluster"}})
	if err != nil || o.Warning != "" {
		t.Fatalf("Submit = %q, %v", o.Warning, err)
	}
	h.waits()
	if got := h.state(s); got.State != gate.Denied || got.Note != "wrong <!here> cluster" {
		t.Errorf("it is %s: %q", got.State, got.Note)
	}
	wants(t, h.now(m), "Recorded. Denied by ada", "no [Deny]")
	if n := len(h.slack.Ephemerals(ada)); n != 1 {
		t.Errorf("%d messages, want the one that changes", n)
	}
}

// TestOnlyWhoWasShownACardCanPressIt mangles presses as somebody would who can
// write payloads of Slack, which nobody can, or whose server mixes them up.
func TestOnlyWhoWasShownACardCanPressIt(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(h *house, s, other *gate.Snapshot, p map[string]any){
		"somebody else":        func(_ *house, _, _ *gate.Snapshot, p map[string]any) { p["user"] = map[string]any{"id": bob} },
		"somebody who may not": func(_ *house, _, _ *gate.Snapshot, p map[string]any) { p["user"] = map[string]any{"id": eve} },
		"a guest":              func(_ *house, _, _ *gate.Snapshot, p map[string]any) { p["user"] = map[string]any{"id": guest} },
		"for another approval": func(_ *house, _, other *gate.Snapshot, p map[string]any) { action(p)["value"] = string(other.ID) },
		"without the proof":    func(_ *house, s, _ *gate.Snapshot, p map[string]any) { action(p)["block_id"] = string(s.ID) + ":1" },
		"with a part of it": func(_ *house, _, _ *gate.Snapshot, p map[string]any) {
			b := action(p)["block_id"].(string)
			action(p)["block_id"] = b[:len(b)-4]
		},
		"with one of another server": func(_ *house, s, _ *gate.Snapshot, p map[string]any) {
			action(p)["block_id"] = string(s.ID) + ":1:zzzzzz.AAAA"
		},
		"with one that is too old": func(h *house, s, _ *gate.Snapshot, p map[string]any) {
			action(p)["block_id"] = string(s.ID) + ":1:" + h.keys.ProveCard(s.ID, s.Digest, "slack:"+slacktest.Team+"/"+ada, s.Now.Add(-time.Minute))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			s, other := h.asks("deploy", nil), h.asks("delete", nil)
			m := h.types(ada, "show "+string(s.ID))
			h.click(slacktest.Click{User: ada, TS: m.TS, Action: "approve", Mangle: func(p map[string]any) { change(h, s, other, p) }})
			for _, a := range []*gate.Snapshot{s, other} {
				if got := h.state(a); got.State != gate.Pending || len(got.Votes) != 0 {
					t.Errorf("%s is %s with %d votes", a.Call.Tool, got.State, len(got.Votes))
				}
			}
			h.click(slacktest.Click{User: ada, TS: m.TS, Action: "approve"}) // nothing was used up
			if got := h.state(s).State; got != gate.Approved {
				t.Errorf("pressed as it is, it is %s", got)
			}
		})
	}
}

func action(p map[string]any) map[string]any { return p["actions"].([]any)[0].(map[string]any) }

// TestACommandOfAButtonIsOfWhoPressesIt presses what leads to a call as somebody
// who may not see it.
func TestACommandOfAButtonIsOfWhoPressesIt(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.asks("deploy", nil)
	m := h.types(ada, "")
	h.click(slacktest.Click{User: ada, TS: m.TS, Action: "command:0", Mangle: func(p map[string]any) { p["user"] = map[string]any{"id": eve} }})
	wants(t, h.now(m), "This is shown to those who may decide on it", "no replicas", "no [Approve]")
}

func TestWhatAnAgentSaysInAnAnswerNotifiesNobody(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	const bad = "<!channel> <@U0AAAAAA1> <https://evil.example|Approve> `*x*"
	args, err := json.Marshal(map[string]string{bad: bad})
	if err != nil {
		t.Fatal(err)
	}
	s := h.asks(bad, func(r *gate.Request) {
		r.Call.Target, r.Call.Server, r.Call.Args, r.Intent = bad, bad, args, bad
		r.Requester.Agent, r.Requester.Run, r.Requester.Session = bad, bad, bad
	})
	h.types(ada, "")
	h.types(ada, "show "+string(s.ID))
	h.types(ada, "pending rule=&lt;!channel&gt; tool=&lt;!here&gt;*")
	h.types(ada, "&lt;!channel&gt;")
	h.types(ada, "show &lt;!channel&gt;")
	if _, err := h.gate.Decide(t.Context(), gate.Decision{ID: s.ID, Voter: gate.Voter{ID: "slack:T1/" + bob, Name: bad}, Choice: gate.Deny, Reason: bad, Digest: s.Digest}); err != nil {
		t.Fatal(err)
	}
	h.types(ada, "history")
	h.types(ada, "show "+string(s.ID))
	all := h.slack.Ephemerals(ada)
	for _, m := range all {
		if who := m.Notifies(); len(who) > 0 {
			t.Errorf("it notifies %v:\n%s", who, m.Read())
		}
	}
	wants(t, all[0].Read(), "<!channel>", "no Approve (https://evil.example)")
}

func TestWhereTheAddressToAnswerToIsSpent(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	s := h.asks("deploy", nil)
	h.slack.FailNext("response_url", slacktest.ServerError)
	m := h.types(ada, "show "+string(s.ID))
	wants(t, m.Read(), "[Approve]")
	if n := len(h.slack.Calls("chat.postEphemeral")); n != 1 {
		t.Errorf("%d ephemeral posts, want one instead", n)
	}
	h.click(slacktest.Click{User: ada, TS: m.TS, Action: "approve"})
	if got := h.state(s).State; got != gate.Approved {
		t.Errorf("it is %s", got)
	}
}

func TestWhatIsNoCommandOfOurs(t *testing.T) {
	t.Parallel()
	mangled := func(f func(map[string]any)) func(*slacktest.Slash) {
		return func(c *slacktest.Slash) { c.Mangle = f }
	}
	for name, change := range map[string]func(*slacktest.Slash){
		"signed by somebody else": func(c *slacktest.Slash) { c.Forged = slacktest.WrongSecret },
		"not signed":              func(c *slacktest.Slash) { c.Forged = slacktest.Unsigned },
		"signed long ago":         func(c *slacktest.Slash) { c.Forged = slacktest.OldTimestamp },
		"changed after signing":   func(c *slacktest.Slash) { c.Forged = slacktest.BodyChanged },
		"beside the signed bytes": func(c *slacktest.Slash) { c.Forged = slacktest.PayloadInQuery },
		"with ssl_check":          func(c *slacktest.Slash) { c.Forged = slacktest.SSLCheck },
		"for another app":         mangled(func(p map[string]any) { p["api_app_id"] = "A0OTHER001" }),
		"by nobody":               mangled(func(p map[string]any) { delete(p, "user_id") }),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			h.commands.Run = func(context.Context, channels.Command) channels.Answer {
				t.Error("it was run")
				return channels.Answer{Lines: []string{"x"}}
			}
			c := slacktest.Slash{User: ada, Channel: ops, Command: "/approvals"}
			change(&c)
			o, err := h.slack.Slash(t.Context(), c)
			if err != nil || o.Status == http.StatusOK {
				t.Errorf("answered %d, %v", o.Status, err)
			}
			h.waits()
		})
	}
	t.Run("fields that are there twice", func(t *testing.T) {
		t.Parallel()
		h := newHouse(t)
		body := url.Values{"api_app_id": {slacktest.App}, "user_id": {ada, bob}}.Encode()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/slack/commands", strings.NewReader(body))
		slacktest.Sign(r.Header, []byte(body), slacktest.SigningSecret, time.Now())
		w := httptest.NewRecorder()
		if h.commands.ServeHTTP(w, r); w.Code != http.StatusBadRequest {
			t.Errorf("answered %d", w.Code)
		}
	})
	t.Run("a look at the certificate", func(t *testing.T) {
		t.Parallel()
		h := newHouse(t)
		body := "ssl_check=1&token=x&user_id=" + ada + "&api_app_id=" + slacktest.App
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/slack/commands", strings.NewReader(body))
		slacktest.Sign(r.Header, []byte(body), slacktest.SigningSecret, time.Now())
		w := httptest.NewRecorder()
		h.commands.ServeHTTP(w, r)
		h.waits()
		if w.Code != http.StatusOK || w.Body.Len() > 0 || len(h.slack.Ephemerals(ada)) > 0 {
			t.Errorf("answered %d %q", w.Code, w.Body)
		}
	})
}

// TestACommandOverASocket has the fields of the form as an object.
func TestACommandOverASocket(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	payload, err := json.Marshal(map[string]any{
		"command": "/approvals", "text": "help", "user_id": ada, "channel_id": ops, "api_app_id": slacktest.App,
		"response_url": "", "is_enterprise_install": "false", "team_id": slacktest.Team,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := h.commands.Receive(t.Context(), payload); err != nil {
		t.Fatal(err)
	}
	h.waits()
	all := h.slack.Ephemerals(ada) // without an address, below in the channel
	if len(all) != 1 || !strings.Contains(all[0].Read(), "What you can type:") {
		t.Errorf("told %v", all)
	}
	for name, bad := range map[string]string{"no JSON": "{", "of another app": `{"user_id":"U1","api_app_id":"A0OTHER001"}`, "of nobody": `{"api_app_id":"` + slacktest.App + `"}`} {
		if err := h.commands.Receive(t.Context(), []byte(bad)); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

func TestNobodyIsAnsweredWhoCannotBeLookedUp(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.asks("deploy", nil)
	h.slack.FailNext("users.info", slacktest.ServerError)
	wants(t, h.types(ada, "").Read(), "Could not look up who you are. Nothing was done; try again.", "no deploy")
	wants(t, h.types(ada, "").Read(), "1 pending")
}

// TestAPressOfAButtonOfNoCommandIsRefused has a server without commands.
func TestAPressOfAButtonOfNoCommandIsRefused(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.asks("deploy", nil)
	m := h.types(ada, "")
	h.presses.Commands = nil
	o, err := h.slack.Click(t.Context(), slacktest.Click{User: ada, Channel: ops, TS: m.TS, Action: "command:0"})
	if err != nil || o.Status == http.StatusOK {
		t.Errorf("answered %d, %v", o.Status, err)
	}
	if !slices.Equal([]string{h.now(m)}, []string{m.Read()}) {
		t.Error("the answer has changed")
	}
}
