package mattermosttest_test

import (
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/approvalbot/approvalbot/channels/mattermost/mattermosttest"
)

// The captures are not part of the repository; this is what they are about.
func TestAnswersHaveTheShapesOfARealServer(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("testdata/shapes.json")
	if err != nil {
		t.Fatal(err)
	}
	var want map[string]any
	if err := json.Unmarshal(raw, &want); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, mattermosttest.Config{})
	post := w.asBot(t, http.MethodPost, "/posts", object{
		"channel_id": ops, "message": "Please decide", "pending_post_id": "p1", "unknown": 1,
		"props": object{"attachments": []object{{
			"title": "db.drop", "color": "#aa0000", "unknown": 1, "fields": []object{{"title": "Agent", "value": "billing", "short": true}},
			"actions": []object{{
				"id": "approve", "type": "button", "name": "Approve", "style": "success",
				"integration": object{"url": w.bot.url, "context": object{"d": "approve"}},
			}},
		}}},
	})
	c := comparison{names: map[string]string{}}
	c.value("POST /posts", want["POST /posts"], any(post.body))
	c.value("callback", want["callback"], decoded(t, w.press(t, ada, post.id(), "approve").Body))
	for name, shape := range want {
		method, path, isCall := strings.Cut(name, " ")
		if !isCall || path == "/posts" {
			continue
		}
		token := mattermosttest.BotToken
		if strings.Contains(path, "/actions/") {
			token = w.Session(ada)
		}
		c.value(name, shape, any(w.call(t, token, method, strings.Replace(path, "{post}", post.id(), 1), nil).body))
	}
	for _, p := range c.problems {
		t.Error(p)
	}
}

func decoded(t *testing.T, raw []byte) (v any) {
	t.Helper()
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	return v
}
