package slacktest_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/slack-go/slack"

	"github.com/approvalbot/approvalbot/channels/slack/slacktest"
)

func respond(t *testing.T, url, body string) string {
	t.Helper()
	resp, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, _ := io.ReadAll(resp.Body)
	return fmt.Sprintf("%d %s", resp.StatusCode, strings.TrimSpace(string(raw)))
}

func TestWhatAResponseDoes(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		body     string // PARENT is the ts of the card
		want     string
		private  string // what ada alone reads
		public   string // the last message that all read
		messages int
	}{
		"a private answer":                       {`{"text":"no"}`, "200 ok", "no", "(Approval needed)", 1},
		"a private answer in so many words":      {`{"response_type":"ephemeral","replace_original":false,"text":"no"}`, "200 ok", "no", "(Approval needed)", 1},
		"an answer for all":                      {`{"response_type":"in_channel","text":"no"}`, "200 ok", "", "no", 2},
		"replacing":                              {`{"replace_original":true,"text":"done"}`, "200 ok", "", "done", 1},
		"replacing, as Slack writes it":          {`{"replace_original":"true","text":"done"}`, "200 ok", "", "done", 1},
		"deleting":                               {`{"delete_original":true}`, "200 ok", "", "", 0},
		"deleting, with a message beside it":     {`{"delete_original":"true","text":"gone"}`, "200 ok", "gone", "", 0},
		"a reply":                                {`{"response_type":"in_channel","replace_original":false,"thread_ts":"PARENT","text":"no"}`, "200 ok", "", "no", 2},
		"a reply that forgets to keep the card":  {`{"response_type":"in_channel","thread_ts":"PARENT","text":"no"}`, "200 ok", "", "no", 1},
		"nothing":                                {`{}`, `400 {"error":"no_text","ok":false}`, "", "(Approval needed)", 1},
		"no JSON":                                {`{`, `400 {"error":"invalid_json","ok":false}`, "", "(Approval needed)", 1},
		"no body":                                {``, `400 {"error":"invalid_payload","ok":false}`, "", "(Approval needed)", 1},
		"replacing by nothing":                   {`{"replace_original":true}`, `400 {"error":"no_text","ok":false}`, "", "(Approval needed)", 1},
		"a bad block":                            {`{"blocks":"{"}`, `400 {"error":"invalid_blocks_format","ok":false}`, "", "(Approval needed)", 1},
		"metadata with nothing in it, as usual ": {`{"text":"no","metadata":{"event_type":"","event_payload":null}}`, "200 ok", "no", "(Approval needed)", 1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, slacktest.Config{})
			out := w.press(t, answering(t, 200, ""), "approve")
			ts := w.Messages(ops)[0].TS
			if got := respond(t, out.ResponseURL, strings.Replace(tt.body, "PARENT", ts, 1)); got != tt.want {
				t.Errorf("answer = %s, want %s", got, tt.want)
			}
			private, public := "", ""
			for _, m := range w.Ephemerals(ada) {
				private = m.Read()
			}
			for _, m := range w.Messages(ops) {
				public, _, _ = strings.Cut(m.Read(), "\n")
			}
			if private != tt.private || public != tt.public || len(w.Messages(ops)) != tt.messages {
				t.Errorf("ada reads %q, all read %q, of %d", private, public, len(w.Messages(ops)))
			}
		})
	}
}

func TestAResponseURLWearsOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t, slacktest.Config{})
	out := w.press(t, answering(t, 200, ""), "approve")
	for n := range 5 {
		if got := respond(t, out.ResponseURL, `{"text":"no"}`); got != "200 ok" {
			t.Fatalf("use %d = %s", n+1, got)
		}
	}
	if got := respond(t, out.ResponseURL, `{"text":"no"}`); got != `404 {"error":"used_url","ok":false}` {
		t.Errorf("sixth use = %s", got)
	}

	out = w.press(t, answering(t, 200, ""), "approve")
	w.clock.Advance(30 * time.Minute)
	if got := respond(t, out.ResponseURL, `{"text":"no"}`); got != "200 ok" {
		t.Errorf("after half an hour = %s", got)
	}
	w.clock.Advance(time.Second)
	if got := respond(t, out.ResponseURL, `{"text":"no"}`); got != `404 {"error":"expired_url","ok":false}` {
		t.Errorf("later = %s", got)
	}
	if got := respond(t, w.URL()+"/actions/T0AAAAAA1/1/guess", `{"text":"no"}`); got != `404 {"error":"no_such_url","ok":false}` {
		t.Errorf("a guess = %s", got)
	}
}

func TestResponsesByTheClient(t *testing.T) {
	t.Parallel()
	w := newWorld(t, slacktest.Config{})
	out := w.press(t, answering(t, 200, ""), "approve")
	if _, _, err := w.api.PostMessageContext(t.Context(), "", slack.MsgOptionReplaceOriginal(out.ResponseURL), text("done")); err != nil {
		t.Error(err)
	}
	if got := w.Messages(ops)[0].Read(); got != "done" {
		t.Errorf("message = %s", got)
	}
	for range 4 {
		respond(t, out.ResponseURL, `{"text":"no"}`)
	}
	// The client takes a spent URL for success when the status says so only.
	err := slack.PostWebhookCustomHTTPContext(t.Context(), out.ResponseURL, http.DefaultClient, &slack.WebhookMessage{Text: "x"})
	if code(err) != "404 Not Found" {
		t.Errorf("spent = %v", err)
	}
}

func TestAResponseWorksWhereTheBotMayNotPost(t *testing.T) {
	t.Parallel()
	w := newWorld(t, slacktest.Config{})
	w.SendTo(slacktest.URLs{Commands: answering(t, 200, "")})
	out, err := w.Slash(t.Context(), slacktest.Slash{User: ada, Channel: private, Command: "/approvals"})
	if err != nil {
		t.Fatal(err)
	}
	if got := respond(t, out.ResponseURL, `{"response_type":"in_channel","replace_original":true,"text":"2 pending"}`); got != "200 ok" {
		t.Errorf("answer = %s", got)
	}
	if all := w.Messages(private); len(all) != 1 || all[0].Text != "2 pending" {
		t.Errorf("messages = %v", all)
	}
}
