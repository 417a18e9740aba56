package slacktest_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/slack-go/slack"

	"github.com/approvalbot/approvalbot/channels/slack/slacktest"
)

func label1(s string) *slack.TextBlockObject {
	return slack.NewTextBlockObject(slack.PlainTextType, s, false, false)
}

// reason is a modal with one field.
func reason() slack.ModalViewRequest {
	field := slack.NewPlainTextInputBlockElement(nil, "reason_text")
	field.MinLength, field.MaxLength = 3, 10
	return slack.ModalViewRequest{
		Type: slack.VTModal, CallbackID: "deny_reason", PrivateMetadata: "apr_01", NotifyOnClose: true,
		Title: label1("Deny"), Submit: label1("Deny"), Close: label1("Cancel"),
		Blocks: slack.Blocks{BlockSet: []slack.Block{slack.NewInputBlock("reason", label1("Reason"), nil, field)}},
	}
}

// show opens the modal of a fresh click.
func (w world) show(t *testing.T) *slack.ViewResponse {
	t.Helper()
	out := w.press(t, answering(t, 200, ""), "deny")
	v, err := w.api.OpenViewContext(t.Context(), out.TriggerID, reason())
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestTriggers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, slacktest.Config{})
	out := w.press(t, answering(t, 200, ""), "deny")
	w.clock.Advance(3 * time.Second)
	v, err := w.api.OpenViewContext(t.Context(), out.TriggerID, reason())
	if err != nil || v.ID == "" || v.Hash == "" || v.RootViewID != v.ID || v.AppID != slacktest.App || v.CallbackID != "deny_reason" {
		t.Fatalf("in time = %+v, %v", v, err)
	}
	if _, err := w.api.OpenViewContext(t.Context(), out.TriggerID, reason()); code(err) != "exchanged_trigger_id" {
		t.Errorf("twice = %v", err)
	}
	if _, err := w.api.OpenViewContext(t.Context(), "1.2.guess", reason()); code(err) != "invalid_trigger_id" {
		t.Errorf("a guess = %v", err)
	}
	out = w.press(t, answering(t, 200, ""), "deny")
	w.clock.Advance(3*time.Second + 1)
	if _, err := w.api.OpenViewContext(t.Context(), out.TriggerID, reason()); code(err) != "expired_trigger_id" {
		t.Errorf("too late = %v", err)
	}
	out = w.press(t, answering(t, 200, ""), "deny")
	bad := reason()
	bad.Title = nil
	for _, want := range []string{"invalid_arguments", "exchanged_trigger_id"} {
		if _, err := w.api.OpenViewContext(t.Context(), out.TriggerID, bad); code(err) != want {
			t.Errorf("a bad view = %v, want %s", err, want)
		}
	}
	if open := w.Views(ada); len(open) != 1 || open[0].ID != v.ID {
		t.Errorf("open = %v", open)
	}
}

func TestEveryLimitOfViews(t *testing.T) {
	t.Parallel()
	long := func(n int) string { return strings.Repeat("é", n) }
	tests := map[string]struct {
		change func(v *slack.ModalViewRequest)
		want   string
	}{
		"as it should be": {func(v *slack.ModalViewRequest) {
			v.Title, v.Submit, v.Close = label1(long(24)), label1(long(24)), label1(long(24))
			v.PrivateMetadata, v.CallbackID = long(3000), long(255)
		}, ""},
		"title":            {func(v *slack.ModalViewRequest) { v.Title = label1(long(25)) }, "/view/title/text"},
		"no title":         {func(v *slack.ModalViewRequest) { v.Title = nil }, "missing required field: title"},
		"submit":           {func(v *slack.ModalViewRequest) { v.Submit = label1(long(25)) }, "/view/submit/text"},
		"no submit":        {func(v *slack.ModalViewRequest) { v.Submit = nil }, "missing required field: submit"},
		"close":            {func(v *slack.ModalViewRequest) { v.Close = label1(long(25)) }, "/view/close/text"},
		"private metadata": {func(v *slack.ModalViewRequest) { v.PrivateMetadata = long(3001) }, "/view/private_metadata"},
		"callback id":      {func(v *slack.ModalViewRequest) { v.CallbackID = long(256) }, "/view/callback_id"},
		"a home":           {func(v *slack.ModalViewRequest) { v.Type = slack.VTHomeTab }, "/view/type"},
		"a hundred blocks": {func(v *slack.ModalViewRequest) { v.Blocks.BlockSet = dividers(100) }, ""},
		"one more":         {func(v *slack.ModalViewRequest) { v.Blocks.BlockSet = dividers(101) }, "no more than 100 items allowed [json-pointer:/view/blocks]"},
		"a bad block": {func(v *slack.ModalViewRequest) {
			v.Blocks.BlockSet = []slack.Block{slack.NewHeaderBlock(label1(long(151)))}
		}, "/view/blocks/0/text/text"},
		"all of it": {func(v *slack.ModalViewRequest) {
			v.Blocks.BlockSet = nil
			for range 90 {
				v.Blocks.BlockSet = append(v.Blocks.BlockSet, slack.NewSectionBlock(label1(long(2900)), nil, nil))
			}
		}, "view_too_large"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, slacktest.Config{})
			out := w.press(t, answering(t, 200, ""), "deny")
			v := reason()
			tt.change(&v)
			_, err := w.api.OpenViewContext(t.Context(), out.TriggerID, v)
			var refused slack.SlackErrorResponse
			errors.As(err, &refused)
			got := refused.Err + " " + strings.Join(refused.ResponseMetadata.Messages, " ")
			if (tt.want == "") != (err == nil) || !strings.Contains(got, tt.want) {
				t.Errorf("open = %v %s, want %q", err, got, tt.want)
			}
		})
	}
}

func dividers(n int) (all []slack.Block) {
	for range n {
		all = append(all, slack.NewDividerBlock())
	}
	return all
}

func TestViewsThatAreNone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, slacktest.Config{})
	for _, view := range []string{"", "null", "[]", "{"} {
		out := w.press(t, answering(t, 200, ""), "deny")
		if answer := w.raw(t, "views.open", "trigger_id", out.TriggerID, "view", view); answer["error"] != "invalid_arguments" {
			t.Errorf("%q: %v", view, answer)
		}
	}
}

func TestUpdatingViews(t *testing.T) {
	t.Parallel()
	w := newWorld(t, slacktest.Config{})
	v := w.show(t)
	next := reason()
	next.Title, next.ExternalID = label1("Decided"), "ext_01"
	if _, err := w.api.UpdateViewContext(t.Context(), next, "", "stale", v.ID); code(err) != "hash_conflict" {
		t.Errorf("a stale hash = %v", err)
	}
	changed, err := w.api.UpdateViewContext(t.Context(), next, "", v.Hash, v.ID)
	if err != nil || changed.Hash == v.Hash || changed.ID != v.ID {
		t.Fatalf("update = %+v, %v", changed, err)
	}
	if _, err := w.api.UpdateViewContext(t.Context(), next, "ext_01", "", ""); err != nil {
		t.Errorf("by its external id: %v", err)
	}
	if _, err := w.api.UpdateViewContext(t.Context(), next, "", "", "V0NONE"); code(err) != "not_found" {
		t.Errorf("none = %v", err)
	}
	if got := w.Views(ada)[0].Read(); !strings.HasPrefix(got, "# Decided\n") {
		t.Errorf("ada reads %s", got)
	}
	w.AddUser(slacktest.User{ID: bob, Name: "bob"})
	_, ts := w.post(t, ops, card("apr_01")...)
	out, err := w.Click(t.Context(), slacktest.Click{User: bob, Channel: ops, TS: ts, Action: "deny", To: answering(t, 200, "")})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.api.OpenViewContext(t.Context(), out.TriggerID, next); code(err) != "duplicate_external_id" {
		t.Errorf("the same external id = %v", err)
	}
}

func TestHomes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, slacktest.Config{})
	home := slack.HomeTabViewRequest{Type: slack.VTHomeTab, Blocks: slack.Blocks{BlockSet: []slack.Block{slack.NewHeaderBlock(label1("Pending"))}}}
	v, err := w.api.PublishViewContext(t.Context(), slack.PublishViewContextRequest{UserID: ada, View: home})
	if err != nil {
		t.Fatal(err)
	}
	stale := "stale"
	for name, tt := range map[string]struct {
		user string
		hash *string
		want string
	}{
		"nobody": {"U0NONE", nil, "user_not_found"}, "a stale hash": {ada, &stale, "hash_conflict"}, "the right hash": {ada, &v.Hash, ""},
	} {
		if _, err := w.api.PublishViewContext(t.Context(), slack.PublishViewContextRequest{UserID: tt.user, View: home, Hash: tt.hash}); code(err) != tt.want {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
	if got, ok := w.Home(ada); !ok || got.ID != v.ID || len(w.Views(ada)) != 0 {
		t.Errorf("home = %+v, %t", got, ok)
	}
	if _, ok := w.Home(bob); ok {
		t.Error("bob has a home that nobody gave him")
	}
}

// A view answers a submission in several ways; the zero answer closes it.
func TestSubmitting(t *testing.T) {
	t.Parallel()
	page := func(v slack.ModalViewRequest) string { raw, _ := json.Marshal(v); return string(raw) }
	next, bad := reason(), reason()
	next.Title, bad.Title = label1("Next"), label1(strings.Repeat("x", 25))
	tests := map[string]struct {
		status  int
		answer  string
		warning string
		reads   string // the first line of the topmost view; empty: none is open
		open    int
	}{
		"nothing closes it":            {200, "", "", "", 0},
		"clear closes all":             {200, `{"response_action":"clear"}`, "", "", 0},
		"errors keep it open":          {200, `{"response_action":"errors","errors":{"reason":"Say why"}}`, "", "# Deny", 1},
		"errors for no field":          {200, `{"response_action":"errors","errors":{"other":"x"}}`, "trouble connecting", "# Deny", 1},
		"errors without one":           {200, `{"response_action":"errors"}`, "trouble connecting", "# Deny", 1},
		"update":                       {200, `{"response_action":"update","view":` + page(next) + `}`, "", "# Next", 1},
		"update by a view that is bad": {200, `{"response_action":"update","view":` + page(bad) + `}`, "trouble connecting", "# Deny", 1},
		"push":                         {200, `{"response_action":"push","view":` + page(next) + `}`, "", "# Next", 2},
		"push nothing":                 {200, `{"response_action":"push"}`, "trouble connecting", "# Deny", 1},
		"an action that there is not":  {200, `{"response_action":"shout"}`, "trouble connecting", "# Deny", 1},
		"text":                         {200, "thank you", "trouble connecting", "# Deny", 1},
		"an error":                     {500, "", "http status 500", "# Deny", 1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, slacktest.Config{})
			w.SendTo(slacktest.URLs{Interactions: answering(t, tt.status, tt.answer)})
			v := w.show(t)
			out, err := w.Submit(t.Context(), slacktest.Submission{View: v.ID, Values: map[string]string{"reason": "wrong"}})
			if err != nil || out.Warning != tt.warning {
				t.Errorf("submit = %+v, %v", out, err)
			}
			open, got := w.Views(ada), ""
			for _, v := range open {
				got, _, _ = strings.Cut(v.Read(), "\n")
			}
			if len(open) != tt.open || got != tt.reads {
				t.Errorf("%d open, the topmost %q", len(open), got)
			}
			if name == "errors keep it open" && open[0].Read() != "# Deny\nReason: ____\n! Say why\n[Deny] [Cancel]" {
				t.Errorf("ada reads %s", open[0].Read())
			}
		})
	}
}

func TestASubmissionTellsWhatWasTyped(t *testing.T) {
	t.Parallel()
	w := newWorld(t, slacktest.Config{})
	bot := &strict{}
	w.SendTo(slacktest.URLs{Interactions: serve(t, bot.ServeHTTP)})
	v := w.show(t)
	out, err := w.Submit(t.Context(), slacktest.Submission{View: v.ID, Values: map[string]string{"reason": "wrong db"}})
	if err != nil || out.Warning != "" {
		t.Fatalf("submit = %+v, %v", out, err)
	}
	got := bot.got[len(bot.got)-1]
	if got.Type != slack.InteractionTypeViewSubmission || got.User.ID != ada || got.TriggerID != out.TriggerID || got.ResponseURL != "" {
		t.Errorf("submission = %+v", got)
	}
	if got.View.PrivateMetadata != "apr_01" || got.View.State.Values["reason"]["reason_text"].Value != "wrong db" {
		t.Errorf("view = %+v", got.View)
	}
}

func TestWhatAClientDoesNotSubmit(t *testing.T) {
	t.Parallel()
	w := newWorld(t, slacktest.Config{})
	w.SendTo(slacktest.URLs{Interactions: answering(t, 200, "")})
	v := w.show(t)
	for name, s := range map[string]slacktest.Submission{
		"an empty field": {View: v.ID}, "a view that is not": {View: "V0NONE"},
		"too little":       {View: v.ID, Values: map[string]string{"reason": "no"}},
		"too much":         {View: v.ID, Values: map[string]string{"reason": "much too long"}},
		"a field too many": {View: v.ID, Values: map[string]string{"reason": "wrong", "other": "x"}},
	} {
		if _, err := w.Submit(t.Context(), s); !errors.Is(err, slacktest.ErrCannot) {
			t.Errorf("%s: %v", name, err)
		}
	}
	w.AddUser(slacktest.User{ID: ada, Deleted: true})
	if _, err := w.Submit(t.Context(), slacktest.Submission{View: v.ID, Values: map[string]string{"reason": "wrong"}}); !errors.Is(err, slacktest.ErrCannot) {
		t.Errorf("by one who has left: %v", err)
	}
}

func TestFieldsThatAreChosenOrOptional(t *testing.T) {
	t.Parallel()
	w := newWorld(t, slacktest.Config{})
	bot := &strict{}
	w.SendTo(slacktest.URLs{Interactions: serve(t, bot.ServeHTTP)})
	out := w.press(t, "", "deny")
	view := reason()
	option := slack.NewOptionBlockObject("db", label1("Wrong database"), nil)
	why := slack.NewInputBlock("why", label1("Why"), nil, slack.NewOptionsSelectBlockElement(slack.OptTypeStatic, nil, "pick", option))
	more := slack.NewInputBlock("more", label1("More"), nil, slack.NewPlainTextInputBlockElement(nil, "text")).WithOptional(true)
	view.Blocks.BlockSet = []slack.Block{why, more}
	v, err := w.api.OpenViewContext(t.Context(), out.TriggerID, view)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Submit(t.Context(), slacktest.Submission{View: v.ID, Values: map[string]string{"why": "other"}}); !errors.Is(err, slacktest.ErrCannot) {
		t.Errorf("an option that is not: %v", err)
	}
	if _, err := w.Submit(t.Context(), slacktest.Submission{View: v.ID, Values: map[string]string{"why": "db"}}); err != nil {
		t.Fatal(err)
	}
	if got := bot.got[len(bot.got)-1].View.State.Values; got["why"]["pick"].SelectedOption.Value != "db" || got["more"]["text"].Value != "" {
		t.Errorf("state = %+v", got)
	}
}

func TestClosingTellsTheBotIfItAsked(t *testing.T) {
	t.Parallel()
	for name, cross := range map[string]bool{"cancel": false, "the cross": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, slacktest.Config{})
			bot := &strict{}
			w.SendTo(slacktest.URLs{Interactions: serve(t, bot.ServeHTTP)})
			v := w.show(t)
			if _, err := w.Dismiss(t.Context(), v.ID, cross); err != nil {
				t.Fatal(err)
			}
			got := bot.got[len(bot.got)-1]
			if got.Type != slack.InteractionTypeViewClosed || got.IsCleared != cross || got.View.ID != v.ID || len(w.Views(ada)) > 0 {
				t.Errorf("closed = %+v", got)
			}
			if _, err := w.Dismiss(t.Context(), v.ID, cross); !errors.Is(err, slacktest.ErrCannot) {
				t.Errorf("again = %v", err)
			}
		})
	}
}

func TestModalsStackThreeHigh(t *testing.T) {
	t.Parallel()
	w := newWorld(t, slacktest.Config{})
	page, _ := json.Marshal(reason())
	w.SendTo(slacktest.URLs{Interactions: answering(t, 200, `{"response_action":"push","view":`+string(page)+`}`)})
	top := w.show(t).ID
	for height := 2; height <= 4; height++ {
		out, err := w.Submit(t.Context(), slacktest.Submission{View: top, Values: map[string]string{"reason": "wrong"}})
		if err != nil || (out.Warning == "") != (height < 4) {
			t.Fatalf("height %d: %+v, %v", height, out, err)
		}
		open := w.Views(ada)
		if len(open) != min(height, 3) || height < 4 && open[height-1].Previous != top {
			t.Fatalf("height %d: %+v", height, open)
		}
		top = open[len(open)-1].ID
	}
}

func TestAClickInAModal(t *testing.T) {
	t.Parallel()
	w := newWorld(t, slacktest.Config{})
	bot := &strict{}
	w.SendTo(slacktest.URLs{Interactions: serve(t, bot.ServeHTTP)})
	view := reason()
	view.Blocks.BlockSet = append(view.Blocks.BlockSet, slack.NewActionBlock("actions", slack.NewButtonBlockElement("more", "", label1("More"))))
	v, err := w.api.OpenViewContext(t.Context(), w.press(t, "", "deny").TriggerID, view)
	if err != nil {
		t.Fatal(err)
	}
	out, err := w.Click(t.Context(), slacktest.Click{User: ada, View: v.ID, Action: "more"})
	if err != nil || out.Warning != "" || out.ResponseURL != "" {
		t.Errorf("click = %+v, %v", out, err)
	}
	if got := bot.got[len(bot.got)-1]; got.Container.ViewID != v.ID || got.View.PrivateMetadata != "apr_01" || got.Channel.ID != "" {
		t.Errorf("click = %+v", got.Container)
	}
	if _, err := w.Click(t.Context(), slacktest.Click{User: bob, View: v.ID, Action: "more"}); !errors.Is(err, slacktest.ErrCannot) {
		t.Errorf("a click in somebody else's modal = %v", err)
	}
}

func TestEventsOverHTTP(t *testing.T) {
	t.Parallel()
	w := newWorld(t, slacktest.Config{})
	type heard struct{ Num, Reason string }
	var got []heard
	ids := map[string]bool{}
	answers := []int{500, 500, 200}
	w.SendTo(slacktest.URLs{Events: serve(t, func(rw http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		var e struct {
			ID    string `json:"event_id"`
			Event struct{ Type, Channel string }
		}
		_ = json.Unmarshal(raw, &e)
		ids[e.ID+e.Event.Type+e.Event.Channel] = true
		got = append(got, heard{r.Header.Get("X-Slack-Retry-Num"), r.Header.Get("X-Slack-Retry-Reason")})
		v, err := slack.NewSecretsVerifier(r.Header, slacktest.SigningSecret)
		if _, _ = v.Write(raw); err != nil || v.Ensure() != nil {
			rw.WriteHeader(http.StatusUnauthorized)
			return
		}
		rw.WriteHeader(answers[len(got)-1])
	})})
	if out, err := w.Event(t.Context(), map[string]any{"type": "channel_archive", "channel": ops}); err != nil || out.Warning == "" {
		t.Fatalf("event = %+v, %v", out, err)
	}
	for range 3 {
		if _, err := w.Redeliver(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	want := []heard{{"", ""}, {"1", "http_error"}, {"2", "http_error"}}
	if diff := cmp.Diff(want, got); diff != "" || len(ids) != 1 {
		t.Errorf("ids %v, %s", ids, diff)
	}
}

func TestEventsAreNotRetriedForEver(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		header string
		want   int
	}{"three times": {"", 4}, "or never, when asked": {"1", 1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, n := newWorld(t, slacktest.Config{}), 0
			w.SendTo(slacktest.URLs{Events: serve(t, func(rw http.ResponseWriter, _ *http.Request) {
				n++
				rw.Header().Set("X-Slack-No-Retry", tt.header)
				rw.WriteHeader(http.StatusBadGateway)
			})})
			if _, err := w.Event(t.Context(), map[string]any{"type": "app_uninstalled"}); err != nil {
				t.Fatal(err)
			}
			for range 9 {
				_, _ = w.Redeliver(t.Context())
			}
			if n != tt.want {
				t.Errorf("sent %d times, want %d", n, tt.want)
			}
		})
	}
}

func TestTheChallengeOfAnEventsURL(t *testing.T) {
	t.Parallel()
	echo := func(asJSON bool) http.HandlerFunc {
		return func(rw http.ResponseWriter, r *http.Request) {
			var c map[string]string
			_ = json.NewDecoder(r.Body).Decode(&c)
			if asJSON {
				_ = json.NewEncoder(rw).Encode(map[string]string{"challenge": c["challenge"]})
				return
			}
			_, _ = io.WriteString(rw, c["challenge"])
		}
	}
	for name, tt := range map[string]struct {
		bot http.HandlerFunc
		ok  bool
	}{
		"as JSON": {echo(true), true}, "as text": {echo(false), true}, "nothing": {func(http.ResponseWriter, *http.Request) {}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, slacktest.Config{})
			u, err := url.Parse(serve(t, tt.bot))
			if err != nil {
				t.Fatal(err)
			}
			w.SendTo(slacktest.URLs{Events: u.String()})
			if out, err := w.VerifyURL(t.Context()); err != nil || (out.Warning == "") != tt.ok {
				t.Errorf("verify = %+v, %v", out, err)
			}
		})
	}
}

func TestPushingViews(t *testing.T) {
	t.Parallel()
	w := newWorld(t, slacktest.Config{})
	refused := func(err error, want string) {
		t.Helper()
		if code, _ := errors.AsType[slack.SlackErrorResponse](err); code.Err != want {
			t.Errorf("push = %v, want %q", err, want)
		}
	}
	first := w.press(t, answering(t, 200, ""), "deny")
	_, err := w.api.PushViewContext(t.Context(), first.TriggerID, reason())
	refused(err, "push_limit_reached") // there is nothing to push it onto
	w.show(t)
	for range 2 {
		out := w.press(t, answering(t, 200, ""), "deny")
		if _, err := w.api.PushViewContext(t.Context(), out.TriggerID, reason()); err != nil {
			t.Fatal(err)
		}
		_, err := w.api.PushViewContext(t.Context(), out.TriggerID, reason())
		refused(err, "exchanged_trigger_id")
	}
	out := w.press(t, answering(t, 200, ""), "deny")
	_, err = w.api.PushViewContext(t.Context(), out.TriggerID, reason())
	refused(err, "push_limit_reached")
	if all := w.Views(ada); len(all) != 3 || all[2].Previous != all[1].ID {
		t.Errorf("%d views are open", len(all))
	}
}
