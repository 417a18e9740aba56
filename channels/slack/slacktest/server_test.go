package slacktest_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/slack-go/slack"

	"github.com/approvalbot/approvalbot/channels/slack/slacktest"
)

func TestAuthTestTellsWhoTheBotIsAndWhatItMayDo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, slacktest.Config{})
	got, err := w.api.AuthTestContext(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got.TeamID != slacktest.Team || got.UserID != slacktest.BotUser || got.BotID != slacktest.Bot {
		t.Errorf("auth.test = %+v", got)
	}
	if scopes := got.Header.Get("X-OAuth-Scopes"); !strings.HasPrefix(scopes, "chat:write,commands") {
		t.Errorf("X-OAuth-Scopes = %q", scopes)
	}
	if date := got.Header.Get("Date"); date != w.clock.Now().UTC().Format(http.TimeFormat) {
		t.Errorf("Date = %q, and the clock says %v", date, w.clock.Now())
	}
}

// The requests are raw, because no client sends most of them.
func TestWhatIsRefusedBeforeAnyMethodRuns(t *testing.T) {
	t.Parallel()
	const form, js = "application/x-www-form-urlencoded", "application/json; charset=utf-8"
	tests := map[string]struct {
		method, kind, token, body string
		want                      string
	}{
		"no token":                           {"auth.test", form, "", "", "not_authed"},
		"a token that nobody knows":          {"auth.test", form, "xoxb-other", "", "invalid_auth"},
		"a token in the form":                {"auth.test", form, "", "token=" + slacktest.BotToken, ""},
		"a token in the header":              {"auth.test", js, slacktest.BotToken, "{}", ""},
		"no body":                            {"auth.test", "", slacktest.BotToken, "", ""},
		"an app token for a bot's method":    {"auth.test", form, slacktest.AppToken, "", "not_allowed_token_type"},
		"a bot token for sockets":            {"apps.connections.open", js, slacktest.BotToken, "", "not_allowed_token_type"},
		"an app token in the form":           {"apps.connections.open", form, "", "token=" + slacktest.AppToken, "not_authed"},
		"a method that there is not":         {"chat.shout", form, slacktest.BotToken, "", "unknown_method"},
		"JSON that is none":                  {"auth.test", js, slacktest.BotToken, "{", "invalid_json"},
		"JSON that is no object":             {"auth.test", js, slacktest.BotToken, "[]", "json_not_object"},
		"a form that is none":                {"auth.test", form, slacktest.BotToken, "a=%zz", "invalid_form_data"},
		"a body of another kind":             {"auth.test", "text/plain", slacktest.BotToken, "a", "invalid_post_type"},
		"a body of no kind":                  {"auth.test", "", slacktest.BotToken, "a", "missing_post_type"},
		"more than a megabyte":               {"auth.test", js, slacktest.BotToken, `{"a":"` + strings.Repeat("a", 1<<20) + `"}`, "invalid_json"},
		"a message in JSON, as others do it": {"chat.postMessage", js, slacktest.BotToken, `{"channel":"` + ops + `","blocks":[{"type":"divider"}]}`, ""},
	}
	w := newWorld(t, slacktest.Config{})
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.URL()+"/api/"+tt.method, strings.NewReader(tt.body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", tt.kind)
			if tt.token != "" {
				req.Header.Set("Authorization", "Bearer "+tt.token)
			}
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			body, _ := io.ReadAll(resp.Body)
			want := `"ok":true`
			if tt.want != "" {
				want = `"error":"` + tt.want + `"`
			}
			if resp.StatusCode != http.StatusOK || !strings.Contains(string(body), want) {
				t.Errorf("%d %s, want %s", resp.StatusCode, body, want)
			}
			if kind := resp.Header.Get("Content-Type"); kind != "application/json; charset=utf-8" {
				t.Errorf("Content-Type = %q", kind)
			}
		})
	}
}

func TestMethodsAreCalledByPost(t *testing.T) {
	t.Parallel()
	w := newWorld(t, slacktest.Config{})
	resp, err := http.Get(w.URL() + "/api/auth.test?token=" + slacktest.BotToken)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, _ := io.ReadAll(resp.Body); !strings.Contains(string(body), "invalid_post_type") {
		t.Errorf("answer = %s", body)
	}
}

func TestABrokenTokenFailsEverywhereUntilItIsRepaired(t *testing.T) {
	t.Parallel()
	w := newWorld(t, slacktest.Config{})
	w.BreakToken("token_revoked")
	if _, _, err := w.api.PostMessageContext(t.Context(), ops, text("hello")); code(err) != "token_revoked" {
		t.Errorf("post = %v, want token_revoked", err)
	}
	w.BreakToken("")
	w.post(t, ops, text("hello"))
}

func TestEachMethodNeedsItsScope(t *testing.T) {
	t.Parallel()
	ask := map[string]func(t *testing.T, api *slack.Client) error{
		"chat:write": func(t *testing.T, api *slack.Client) error {
			_, _, err := api.PostMessageContext(t.Context(), ops, text("hello"))
			return err
		},
		"im:write,mpim:write": func(t *testing.T, api *slack.Client) error {
			_, _, _, err := api.OpenConversationContext(t.Context(), &slack.OpenConversationParameters{Users: []string{ada}})
			return err
		},
		"users:read": func(t *testing.T, api *slack.Client) error {
			_, err := api.GetUserInfoContext(t.Context(), ada)
			return err
		},
		"usergroups:read": func(t *testing.T, api *slack.Client) error {
			_, err := api.GetUserGroupMembersContext(t.Context(), sre)
			return err
		},
		"channels:read,groups:read,im:read,mpim:read": func(t *testing.T, api *slack.Client) error {
			_, err := api.GetConversationInfoContext(t.Context(), &slack.GetConversationInfoInput{ChannelID: ops})
			return err
		},
		"channels:history,groups:history,im:history,mpim:history": func(t *testing.T, api *slack.Client) error {
			_, err := api.GetConversationHistoryContext(t.Context(), &slack.GetConversationHistoryParameters{ChannelID: ops})
			return err
		},
	}
	for scopes, ask := range ask {
		t.Run(scopes, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, slacktest.Config{Scopes: []string{"commands"}})
			var refused slack.SlackErrorResponse
			err := ask(t, w.api)
			if !errors.As(err, &refused) || refused.Err != "missing_scope" {
				t.Fatalf("without = %v, want missing_scope", err)
			}
			if refused.Needed != scopes || refused.Provided != "commands" {
				t.Errorf("needed %q of %q", refused.Needed, refused.Provided)
			}
			w.SetScopes(strings.Split(scopes, ",")...)
			if err := ask(t, w.api); err != nil {
				t.Errorf("with = %v", err)
			}
		})
	}
}

func TestCallsAreKeptWithoutTheToken(t *testing.T) {
	t.Parallel()
	w := newWorld(t, slacktest.Config{})
	w.post(t, ops, text("hello"))
	got := w.Calls("chat.postMessage")
	want := []slacktest.Call{{Args: map[string]string{"channel": ops, "text": "hello"}, At: w.clock.Now()}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestRateLimits(t *testing.T) {
	t.Parallel()
	type step func(w world, t *testing.T) error
	update := func(w world, t *testing.T) error {
		_, _, _, err := w.api.UpdateMessageContext(t.Context(), ops, "1.000000", text("x"))
		return err
	}
	tests := map[string]struct {
		call   step
		times  int    // that pass
		want   string // then
		after  time.Duration
		then   int // pass again
		normal string
	}{
		"a conversation takes a burst and then one a second": {
			func(w world, t *testing.T) error {
				_, _, err := w.api.PostMessageContext(t.Context(), ops, text("x"))
				return err
			}, 5, "429 after 1s", time.Second, 1, "",
		},
		"tier 2": {
			func(w world, t *testing.T) error {
				_, err := w.api.GetUserGroupMembersContext(t.Context(), sre)
				return err
			}, 20, "429 after 3s", 3 * time.Second, 1, "",
		},
		"tier 3 counts refused calls, too": {update, 50, "429 after 2s", 6 * time.Second, 5, "message_not_found"},
		"tier 4": {
			func(w world, t *testing.T) error {
				_, err := w.api.GetUserInfoContext(t.Context(), ada)
				return err
			}, 100, "429 after 1s", 600 * time.Millisecond, 1, "",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, slacktest.Config{})
			for n := range tt.times {
				if err := tt.call(w, t); code(err) != tt.normal {
					t.Fatalf("call %d = %v", n+1, err)
				}
			}
			if err := tt.call(w, t); code(err) != tt.want {
				t.Fatalf("one too many = %v, want %s", err, tt.want)
			}
			w.clock.Advance(tt.after)
			for range tt.then {
				if err := tt.call(w, t); code(err) != tt.normal {
					t.Fatalf("after %s = %v", tt.after, err)
				}
			}
			if err := tt.call(w, t); code(err) != tt.want {
				t.Errorf("again = %v, want %s", err, tt.want)
			}
		})
	}
}

func TestRateLimitsAreApartAndCanBeOff(t *testing.T) {
	t.Parallel()
	w := newWorld(t, slacktest.Config{})
	for range 5 {
		w.post(t, ops, text("x"))
	}
	w.post(t, secret, text("another conversation"))

	w = newWorld(t, slacktest.Config{NoRateLimits: true})
	for range 20 {
		w.post(t, ops, text("x"))
	}
}
