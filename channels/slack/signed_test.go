package slack

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/approvalbot/approvalbot/channels"
	"github.com/approvalbot/approvalbot/channels/slack/slacktest"
	"github.com/approvalbot/approvalbot/gate/secret"
)

// What Slack publishes as an example of a signed command.
const (
	exampleSecret = "8f742231b10e8888abcd99yyyzzz85a5"
	exampleTime   = 1531420618
	exampleBody   = "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"
	exampleMAC    = "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"
)

func TestThePublishedSignature(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		body, mac, key, method string
		late                   time.Duration
		want                   bool
	}{
		"as it was published":         {exampleBody, exampleMAC, exampleSecret, http.MethodPost, 0, true},
		"five minutes later":          {exampleBody, exampleMAC, exampleSecret, http.MethodPost, 299 * time.Second, true},
		"after that":                  {exampleBody, exampleMAC, exampleSecret, http.MethodPost, 302 * time.Second, false},
		"with another body":           {exampleBody + "&", exampleMAC, exampleSecret, http.MethodPost, 0, false},
		"with the parts reordered":    {"text=&" + strings.Replace(exampleBody, "&text=", "", 1), exampleMAC, exampleSecret, http.MethodPost, 0, false},
		"by another key":              {exampleBody, exampleMAC, "another", http.MethodPost, 0, false},
		"where no key is set":         {exampleBody, exampleMAC, "", http.MethodPost, 0, false},
		"of another version":          {exampleBody, "v1" + exampleMAC[2:], exampleSecret, http.MethodPost, 0, false},
		"cut":                         {exampleBody, exampleMAC[:40], exampleSecret, http.MethodPost, 0, false},
		"in what is no POST":          {exampleBody, exampleMAC, exampleSecret, http.MethodPut, 0, false},
		"with more than is ever sent": {exampleBody + strings.Repeat(" ", maxRequest), exampleMAC, exampleSecret, http.MethodPost, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				<-time.After(time.Until(time.Unix(exampleTime, 0).Add(tt.late)))
				r := httptest.NewRequestWithContext(t.Context(), tt.method, "/slack/commands", strings.NewReader(tt.body))
				r.Header.Set("X-Slack-Request-Timestamp", "1531420618")
				r.Header.Set("X-Slack-Signature", tt.mac)
				body, err := signed(httptest.NewRecorder(), r, secret.New(tt.key))
				if (err == nil) != tt.want || err == nil && string(body) != tt.body {
					t.Errorf("signed = %q, %v; want it taken: %t", body, err, tt.want)
				}
			})
		})
	}
}

func TestWhatSlackMakesOfTextIsUndone(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"show 4F9K2M": "show 4F9K2M",
		"answer 4F9K2M a &lt; b &amp;&amp; c &gt; d": "answer 4F9K2M a < b && c > d",
		"answer 4F9K2M &amp;lt;":                     "answer 4F9K2M &lt;",
		"ask <@U1|ann> in <#C1|ops>":                 "ask @ann in #ops",
		"ask <@U1> in <#C1>, <#C2|>":                 "ask @U1 in #C1, #C2",
		"<!here> <!subteam^S1|@sre>":                 "@here @sre",
		"see <https://example.com|example.com>":      "see example.com",
		"see <https://example.com>":                  "see https://example.com",
		"see <https://evil.example|example.com>":     "see https://evil.example",
		"<mailto:a@example.com|a@example.com>":       "a@example.com",
		"key=<@U1|x&gt;y>":                           "key=@x>y",
		"<unfinished":                                "<unfinished",
		"":                                           "",
	} {
		if got := unescape(in); got != want {
			t.Errorf("%q is %q, want %q", in, got, want)
		}
	}
}

func FuzzUnescape(f *testing.F) {
	f.Add("<@U1|ann> &amp;")
	f.Fuzz(func(t *testing.T, typed string) {
		escaped := strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(typed)
		if got := unescape(escaped); got != typed {
			t.Errorf("%q came as %q and was read as %q", typed, escaped, got)
		}
		_ = unescape(typed)
	})
}

func FuzzCommandForm(f *testing.F) {
	f.Add([]byte(exampleBody), []byte(`{"user_id":"U1","text":"pending","api_app_id":"A1"}`))
	f.Add([]byte("user_id=U1&user_id=U2"), []byte(`{"user_id":7}`))
	f.Fuzz(func(t *testing.T, form, payload []byte) {
		c := testCommands(t)
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(string(form)))
		slacktest.Sign(r.Header, form, exampleSecret, time.Now())
		w := httptest.NewRecorder()
		c.ServeHTTP(w, r)
		if w.Code == http.StatusOK && w.Body.Len() > 0 {
			t.Errorf("answered %q", w.Body)
		}
		_ = c.Receive(t.Context(), payload)
		c.Wait()
	})
}

// testCommands is of a Slack that cannot be reached, so that nobody is known.
func testCommands(t *testing.T) *Commands {
	return &Commands{
		Slack:         New(Config{BotToken: secret.New("x"), HTTP: &http.Client{Transport: noWay{}}}),
		SigningSecret: secret.New(exampleSecret),
		Log:           slog.New(slog.DiscardHandler),
		Run: func(context.Context, channels.Command) channels.Answer {
			t.Error("somebody was answered whom nobody could look up")
			return channels.Answer{}
		},
	}
}

// noWay reaches nobody.
type noWay struct{}

func (noWay) RoundTrip(*http.Request) (*http.Response, error) { return nil, errors.New("no way") }

func FuzzAnswer(f *testing.F) {
	f.Add("4 pending", "4F9K2M: claude", "pending page 2", true)
	f.Add(strings.Repeat("<", 800), strings.Repeat("\"", 800), strings.Repeat("x", 3000), false)
	f.Fuzz(func(t *testing.T, top, row, command string, withCard bool) {
		a := &channels.Answer{Lines: []string{top, row}, Buttons: []channels.Button{{Label: top, Command: command}, {Label: row, Command: "help"}}}
		for range 12 {
			a.Rows = append(a.Rows, channels.Row{Lines: []string{row, top}, Button: &channels.Button{Label: "Show", Command: command}})
		}
		if withCard {
			a.Card, a.Rows = card(), nil
			a.Card.Proof, a.Card.Args, a.Card.Intent = strings.Repeat("p", 52), row, top
		}
		text, blocks := renderAnswer(a)
		if strings.ContainsAny(text, "<>") {
			t.Errorf("screen readers are told %q", text)
		}
		raw, err := json.Marshal(blocks)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(raw), `"mrkdwn"`) {
			t.Errorf("some text is parsed: %s", raw)
		}
		if len(blocks) > 50 || utf8.RuneCount(raw) > 12_000 {
			t.Errorf("%d blocks of %d characters", len(blocks), utf8.RuneCount(raw))
		}
		if _, err := slacktest.CheckBlocks(raw); err != nil {
			t.Errorf("Slack refuses it: %v", err)
		}
	})
}
