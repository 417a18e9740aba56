package slacktest_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/slack-go/slack"

	"github.com/approvalbot/approvalbot/channels/slack/slacktest"
)

// answering is a bot that gives one answer to everything.
func answering(t *testing.T, status int, body string) (url string) {
	t.Helper()
	return serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	})
}

// press posts a card and presses one of its buttons.
func (w world) press(t *testing.T, bot, action string) slacktest.Outcome {
	t.Helper()
	_, ts := w.post(t, ops, card("apr_01")...)
	out, err := w.Click(t.Context(), slacktest.Click{User: ada, Channel: ops, TS: ts, Action: action, To: bot})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// strict is a bot as it should be: it looks at nothing that is not signed.
type strict struct {
	mu  sync.Mutex
	got []slack.InteractionCallback
}

func (b *strict) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, "unreadable", http.StatusBadRequest)
		return
	}
	v, err := slack.NewSecretsVerifier(r.Header, slacktest.SigningSecret)
	if err == nil {
		_, _ = v.Write(raw)
		err = v.Ensure()
	}
	if err != nil {
		http.Error(w, "not signed", http.StatusUnauthorized)
		return
	}
	form, err := url.ParseQuery(string(raw))
	if err != nil || len(form["payload"]) != 1 || form.Get("ssl_check") != "" {
		if form.Get("ssl_check") == "" {
			http.Error(w, "want one payload", http.StatusBadRequest)
		}
		return
	}
	r.Body = io.NopCloser(strings.NewReader(string(raw)))
	c, err := slack.InteractionCallbackParse(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.got = append(b.got, c)
}

func TestAClickTellsWhatItIsOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, slacktest.Config{})
	bot := &strict{}
	w.SendTo(slacktest.URLs{Interactions: serve(t, bot.ServeHTTP)})
	_, parent := w.post(t, ops, text("first"))
	_, ts := w.post(t, ops, append(card("apr_01"), slack.MsgOptionTS(parent))...)

	out, err := w.Click(t.Context(), slacktest.Click{User: ada, Channel: ops, TS: ts, Action: "approve"})
	if err != nil || out.Warning != "" || out.Status != 200 {
		t.Fatalf("click = %+v, %v", out, err)
	}
	c := bot.got[0]
	if c.Type != slack.InteractionTypeBlockActions || c.User.ID != ada || c.Team.ID != slacktest.Team || c.APIAppID != slacktest.App {
		t.Errorf("who: %+v", c)
	}
	if c.Container.MessageTs != ts || c.Container.ChannelID != ops || c.Container.ThreadTs != parent || c.Channel.ID != ops {
		t.Errorf("where: %+v", c.Container)
	}
	if a := c.ActionCallback.BlockActions[0]; a.ActionID != "approve" || a.Value != "apr_01" || a.BlockID != "decision" || a.ActionTs == "" {
		t.Errorf("what: %+v", a)
	}
	if c.Message.Metadata.EventPayload["id"] != "apr_01" || c.Message.BotID != slacktest.Bot || c.Message.Text != "Approval needed" {
		t.Errorf("on: %+v", c.Message)
	}
	if c.TriggerID != out.TriggerID || c.ResponseURL != out.ResponseURL || out.TriggerID == "" || out.ResponseURL == "" {
		t.Errorf("trigger %q, response URL %q", c.TriggerID, c.ResponseURL)
	}
}

func TestWhatNobodyCanPress(t *testing.T) {
	t.Parallel()
	w := newWorld(t, slacktest.Config{NoRateLimits: true})
	bot := answering(t, 200, "")
	_, ts := w.post(t, ops, card("apr_01")...)
	_, decided := w.post(t, ops, card("apr_01")...)
	if _, _, _, err := w.api.UpdateMessageContext(t.Context(), ops, decided, text("approved")); err != nil {
		t.Fatal(err)
	}
	_, deleted := w.post(t, ops, card("apr_01")...)
	w.Remove(ops, deleted)
	_, hushed := w.post(t, secret, card("apr_01")...)
	_, common := w.post(t, shared, card("apr_01")...)
	psst, err := w.api.PostEphemeralContext(t.Context(), ops, ada, card("apr_01")...)
	if err != nil {
		t.Fatal(err)
	}
	w.AddChannel(slacktest.Channel{ID: open, Members: []string{slacktest.BotUser}})
	_, public := w.post(t, open, card("apr_01")...)

	tests := map[string]struct {
		user, channel, ts, action, block string
		can                              bool
	}{
		"a button":                            {ada, ops, ts, "approve", "", true},
		"a button in its block":               {ada, ops, ts, "approve", "decision", true},
		"a button in another block":           {ada, ops, ts, "approve", "elsewhere", false},
		"a guest who is a member":             {bob, ops, ts, "approve", "", true},
		"a button that never was":             {ada, ops, ts, "shout", "", false},
		"a button that is gone":               {ada, ops, decided, "approve", "", false},
		"a message that is gone":              {ada, ops, deleted, "approve", "", false},
		"somebody who has left":               {gone, ops, ts, "approve", "", false},
		"nobody":                              {"U0NONE", ops, ts, "approve", "", false},
		"a bot":                               {robot, ops, ts, "approve", "", false},
		"a private channel without them":      {bob, secret, hushed, "approve", "", false},
		"a public channel without a member":   {ada, open, public, "approve", "", true},
		"a public channel without the guest":  {bob, open, public, "approve", "", false},
		"a stranger in a shared channel":      {eve, shared, common, "approve", "", true},
		"a stranger in another one":           {eve, ops, ts, "approve", "", false},
		"what only they see":                  {ada, ops, psst, "approve", "", true},
		"what only somebody else sees":        {bob, ops, psst, "approve", "", false},
		"a conversation that is not":          {ada, "C0NONE", ts, "approve", "", false},
		"a modal that is not":                 {ada, "", "", "approve", "", false},
		"the right message, the wrong button": {ada, ops, ts, "deny", "decision", true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := w.Click(t.Context(), slacktest.Click{
				User: tt.user, Channel: tt.channel, TS: tt.ts, Action: tt.action, Block: tt.block, To: bot,
			})
			if tt.can && err != nil || !tt.can && !errors.Is(err, slacktest.ErrCannot) {
				t.Errorf("click = %v, can: %t", err, tt.can)
			}
		})
	}
}

func TestWhatThePresserSees(t *testing.T) {
	t.Parallel()
	const trouble, late = "trouble connecting", "operation_timeout"
	type bot func(w world, rw http.ResponseWriter, r *http.Request)
	tests := map[string]struct {
		bot  bot
		want string
	}{
		"nothing":           {func(world, http.ResponseWriter, *http.Request) {}, ""},
		"an error":          {func(_ world, rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusInternalServerError) }, "http status 500"},
		"a created":         {func(_ world, rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusCreated) }, "http status 201"},
		"no redirect":       {func(_ world, rw http.ResponseWriter, r *http.Request) { http.Redirect(rw, r, "/", http.StatusFound) }, "http status 302"},
		"just in time":      {func(w world, _ http.ResponseWriter, _ *http.Request) { w.clock.Advance(3 * time.Second) }, ""},
		"a late answer":     {func(w world, _ http.ResponseWriter, _ *http.Request) { w.clock.Advance(3*time.Second + 1) }, late},
		"a broken answer":   {func(world, http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, trouble},
		"no answer for now": {func(_ world, rw http.ResponseWriter, r *http.Request) { hang(rw, r) }, late},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			patience := time.Minute
			if strings.HasPrefix(name, "no answer") {
				patience = 100 * time.Millisecond
			}
			w := newWorld(t, slacktest.Config{Patience: patience})
			bot := func(rw http.ResponseWriter, r *http.Request) { tt.bot(w, rw, r) }
			if out := w.press(t, serve(t, bot), "approve"); out.Warning != tt.want {
				t.Errorf("warning = %q, want %q", out.Warning, tt.want)
			}
		})
	}
}

// hang answers nothing while anybody waits.
func hang(_ http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body) // else nobody sees that they have left
	<-r.Context().Done()
}

func TestForgeries(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		forged slacktest.Forgery
		status int
	}{
		"genuine":              {slacktest.Genuine, 200},
		"another secret":       {slacktest.WrongSecret, 401},
		"no signature":         {slacktest.Unsigned, 401},
		"an old timestamp":     {slacktest.OldTimestamp, 401},
		"a changed body":       {slacktest.BodyChanged, 401},
		"payload in the query": {slacktest.PayloadInQuery, 400},
		"two payloads":         {slacktest.TwoPayloads, 400},
		"an ssl_check":         {slacktest.SSLCheck, 401},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, slacktest.Config{})
			bot := &strict{}
			w.SendTo(slacktest.URLs{Interactions: serve(t, bot.ServeHTTP)})
			_, ts := w.post(t, ops, card("apr_01")...)
			out, err := w.Click(t.Context(), slacktest.Click{User: ada, Channel: ops, TS: ts, Action: "approve", Forged: tt.forged})
			if err != nil || out.Status != tt.status {
				t.Errorf("status = %d, %v, want %d", out.Status, err, tt.status)
			}
			if heard := len(bot.got) > 0; heard != (tt.forged == slacktest.Genuine) {
				t.Errorf("the bot heard of it: %t", heard)
			}
		})
	}
}

// A bot that does not look first takes each of them for a click.
func TestForgeriesWouldWork(t *testing.T) {
	t.Parallel()
	naive := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("payload") == "" {
			w.WriteHeader(http.StatusTeapot)
		}
	})
	for f := slacktest.Genuine; f <= slacktest.SSLCheck; f++ {
		t.Run(fmt.Sprint(f), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, slacktest.Config{})
			_, ts := w.post(t, ops, card("apr_01")...)
			out, err := w.Click(t.Context(), slacktest.Click{User: ada, Channel: ops, TS: ts, Action: "approve", Forged: f, To: naive})
			if err != nil || out.Status != 200 {
				t.Errorf("click = %+v, %v", out, err)
			}
		})
	}
}

func TestSignaturesAreSlacks(t *testing.T) {
	t.Parallel()
	h := http.Header{}
	slacktest.Sign(h, []byte("payload=%7B%22type%22%3A%22block_actions%22%7D"), "slack-signing-secret-0001", time.Unix(1700000000, 0))
	if got := h.Get("X-Slack-Signature"); got != "v0=a54b0f9820e8fb2a62ce6ad91d61533164e81d63623d1c660673b916abfeba2b" {
		t.Errorf("signature = %s", got)
	}
}

func TestSSLCheckIsSignedAndAnsweredWithNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, slacktest.Config{})
	bot := &strict{}
	if out := w.CheckSSL(t.Context(), serve(t, bot.ServeHTTP)); out.Warning != "" || len(bot.got) > 0 {
		t.Errorf("outcome = %+v, heard %d", out, len(bot.got))
	}
	if out := w.CheckSSL(t.Context(), answering(t, 200, "hello")); out.Warning == "" {
		t.Error("an answer with something in it passes")
	}
}

func TestTwoPeopleAtTheSameMoment(t *testing.T) {
	t.Parallel()
	w := newWorld(t, slacktest.Config{})
	_, ts := w.post(t, ops, card("apr_01")...)
	var both sync.WaitGroup
	both.Add(2)
	meet := func(http.ResponseWriter, *http.Request) { both.Done(); both.Wait() }
	one, two := serve(t, meet), serve(t, meet)
	out, err := w.ClickAll(t.Context(),
		slacktest.Click{User: ada, Channel: ops, TS: ts, Action: "approve", To: one},
		slacktest.Click{User: bob, Channel: ops, TS: ts, Action: "deny", To: two},
	)
	if err != nil || out[0].Warning != "" || out[1].Warning != "" {
		t.Errorf("clicks = %+v, %v", out, err)
	}
}

func TestADoubleClickIsTwoAndAReplayIsTheSame(t *testing.T) {
	t.Parallel()
	w := newWorld(t, slacktest.Config{})
	bot := &strict{}
	w.SendTo(slacktest.URLs{Interactions: serve(t, bot.ServeHTTP)})
	_, ts := w.post(t, ops, card("apr_01")...)
	c := slacktest.Click{User: ada, Channel: ops, TS: ts, Action: "approve"}
	out, err := w.ClickAll(t.Context(), c, c)
	if err != nil || out[0].TriggerID == out[1].TriggerID || len(bot.got) != 2 {
		t.Fatalf("double click = %+v, %v", out, err)
	}
	again := w.Replay(t.Context(), out[0], "")
	if again.Status != 200 || len(bot.got) != 3 {
		t.Fatalf("replay = %+v", again)
	}
	if diff := cmp.Diff(string(out[0].Payload), string(again.Payload)); diff != "" {
		t.Error(diff)
	}
	if got := bot.got[2].TriggerID; got != out[0].TriggerID {
		t.Errorf("trigger of the replay = %s", got)
	}
}

func TestAnEphemeralCardHasNoMessage(t *testing.T) {
	t.Parallel()
	w := newWorld(t, slacktest.Config{})
	bot := &strict{}
	ts, err := w.api.PostEphemeralContext(t.Context(), ops, ada, card("apr_01")...)
	if err != nil {
		t.Fatal(err)
	}
	out, err := w.Click(t.Context(), slacktest.Click{User: ada, Channel: ops, TS: ts, Action: "deny", To: serve(t, bot.ServeHTTP)})
	if err != nil || !bot.got[0].Container.IsEphemeral || bot.got[0].Message.Timestamp != "" {
		t.Fatalf("click = %+v, %v", out, err)
	}
	if got := respond(t, out.ResponseURL, `{"replace_original":true,"text":"denied"}`); got != "200 ok" {
		t.Errorf("replace = %s", got)
	}
	if seen := w.Ephemerals(ada); len(seen) != 1 || seen[0].Read() != "denied" {
		t.Errorf("ada sees %v", seen)
	}
}

func TestMangledPayloads(t *testing.T) {
	t.Parallel()
	w := newWorld(t, slacktest.Config{})
	bot := &strict{}
	_, ts := w.post(t, ops, card("apr_01")...)
	c := slacktest.Click{User: ada, Channel: ops, TS: ts, Action: "approve", To: serve(t, bot.ServeHTTP)}
	c.Mangle = func(p map[string]any) {
		p["team"], p["is_enterprise_install"] = nil, true
		p["message"].(map[string]any)["blocks"] = nil
	}
	if out, err := w.Click(t.Context(), c); err != nil || out.Status != 200 || bot.got[0].Team.ID != "" {
		t.Fatalf("click = %+v, %v", out, err)
	}
	if m, _ := w.Message(ops, ts); len(m.Blocks) != 2 {
		t.Error("mangling reached the stored message")
	}
	// What the client cannot decode does not arrive as a click.
	c.Mangle = func(p map[string]any) {
		p["message"].(map[string]any)["blocks"] = []any{map[string]any{"type": "section", "text": 7}}
	}
	if out, err := w.Click(t.Context(), c); err != nil || out.Status != 400 {
		t.Errorf("click = %+v, %v", out, err)
	}
}

func TestSlashCommands(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		bot            string
		shown, warning string
		public         int
	}{
		"no answer":      {"", "", "", 0},
		"plain text":     {"2 pending", "2 pending", "", 0},
		"an ephemeral":   {`{"response_type":"ephemeral","text":"2 pending"}`, "2 pending", "", 0},
		"for everyone":   {`{"response_type":"in_channel","text":"2 pending"}`, "2 pending", "", 1},
		"blocks":         {`{"text":"x","blocks":[{"type":"header","text":{"type":"plain_text","text":"Hi"}}]}`, "(x)\n# Hi", "", 0},
		"bad blocks":     {`{"text":"x","blocks":[{"type":"shout"}]}`, "", "trouble connecting", 0},
		"a number, text": {"42", "42", "", 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, slacktest.Config{})
			var got slack.SlashCommand
			w.SendTo(slacktest.URLs{Commands: serve(t, func(rw http.ResponseWriter, r *http.Request) {
				raw, _ := io.ReadAll(r.Body)
				v, err := slack.NewSecretsVerifier(r.Header, slacktest.SigningSecret)
				if _, _ = v.Write(raw); err != nil || v.Ensure() != nil {
					rw.WriteHeader(http.StatusUnauthorized)
				}
				r.Body = io.NopCloser(strings.NewReader(string(raw)))
				got, _ = slack.SlashCommandParse(r)
				_, _ = io.WriteString(rw, tt.bot)
			})})
			out, err := w.Slash(t.Context(), slacktest.Slash{User: ada, Channel: ops, Command: "/approvals", Text: "list"})
			if err != nil || out.Shown != tt.shown || out.Warning != tt.warning {
				t.Errorf("slash = %+v, %v", out, err)
			}
			if n := len(w.Messages(ops)); n != tt.public {
				t.Errorf("%d messages for everyone", n)
			}
			want := slack.SlashCommand{
				Token: "deprecated", TeamID: slacktest.Team, TeamDomain: "acme", ChannelID: ops, ChannelName: "ops",
				UserID: ada, UserName: "ada", Command: "/approvals", Text: "list", APIAppID: slacktest.App,
				ResponseURL: out.ResponseURL, TriggerID: out.TriggerID,
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestWhoHasNoCommand(t *testing.T) {
	t.Parallel()
	w := newWorld(t, slacktest.Config{})
	for name, c := range map[string]slacktest.Slash{
		"a stranger":       {User: eve, Channel: shared},
		"who is not there": {User: bob, Channel: secret},
		"who has left":     {User: gone, Channel: ops},
		"in no channel":    {User: ada, Channel: "C0NONE"},
	} {
		if _, err := w.Slash(t.Context(), c); !errors.Is(err, slacktest.ErrCannot) {
			t.Errorf("%s: %v", name, err)
		}
	}
	w.SetScopes("chat:write")
	if _, err := w.Slash(t.Context(), slacktest.Slash{User: ada, Channel: ops}); !errors.Is(err, slacktest.ErrCannot) {
		t.Errorf("without the scope: %v", err)
	}
}
