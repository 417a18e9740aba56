package mattermosttest_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/approvalbot/approvalbot/channels/mattermost/mattermosttest"
)

// Who and what there is in every test.
const (
	ada, bob, eve = "u1ada000000000000000000000", "u1bob000000000000000000000", "u1eve000000000000000000000" // eve is not in the team
	gone, guest   = "u1gone00000000000000000000", "u1guest0000000000000000000"
	robot         = "u1robot0000000000000000000"

	ops, open = "c1ops000000000000000000000", "c1open00000000000000000000" // with the bot; public without it
	secret    = "c1secret000000000000000000"                               // private with the bot
	hidden    = "c1hidden000000000000000000"                               // private without the bot
)

// world is a double with people, and what an integration of theirs was asked.
type world struct {
	*mattermosttest.Server
	clock *mattermosttest.Clock
	bot   *integration
}

func newWorld(t *testing.T, c mattermosttest.Config) world {
	t.Helper()
	clock := mattermosttest.NewClock()
	c.Now = clock.Now
	s := mattermosttest.New(t, c)
	for _, u := range []mattermosttest.User{
		{ID: ada, Username: "ada", Email: "ada@example.test", EmailVerified: true},
		{ID: bob, Username: "bob", Email: "bob@example.test"},
		{ID: eve, Username: "eve", NoTeam: true},
		{ID: gone, Username: "gone", Deactivated: true},
		{ID: guest, Username: "guest", Guest: true},
		{ID: robot, Username: "robot", Bot: true},
	} {
		s.AddUser(u)
	}
	for _, ch := range []mattermosttest.Channel{
		{ID: ops, Name: "ops", Members: []string{ada, bob, guest, gone, mattermosttest.BotUser}},
		{ID: open, Name: "open", Members: []string{ada}},
		{ID: secret, Name: "secret", Type: "P", Members: []string{ada, mattermosttest.BotUser}},
		{ID: hidden, Name: "hidden", Type: "P", Members: []string{ada}},
	} {
		s.AddChannel(ch)
	}
	return world{Server: s, clock: clock, bot: newIntegration(t)}
}

// integration answers what it is told to and keeps what it was asked.
type integration struct {
	url string

	mu      sync.Mutex
	answers []http.HandlerFunc
	byPath  map[string]http.HandlerFunc
	asked   []asked
}

type asked struct {
	*http.Request
	body string
}

func newIntegration(t *testing.T) *integration {
	t.Helper()
	i := &integration{byPath: map[string]http.HandlerFunc{}}
	server := httptest.NewServer(i)
	t.Cleanup(server.Close)
	i.url = server.URL + "/hook"
	return i
}

func (i *integration) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	i.mu.Lock()
	i.asked = append(i.asked, asked{r, string(body)})
	answer := i.byPath[r.URL.Path]
	if answer == nil && len(i.answers) > 0 {
		answer, i.answers = i.answers[0], i.answers[1:]
	}
	i.mu.Unlock()
	if answer != nil {
		answer(w, r)
	}
}

// next says what the next requests are answered.
func (i *integration) next(answers ...http.HandlerFunc) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.answers = append(i.answers, answers...)
}

// on says what a path always answers.
func (i *integration) on(path string, answer http.HandlerFunc) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.byPath[path] = answer
}

// word makes a part of a path of a row's name.
func word(name string) string { return strings.ReplaceAll(name, " ", "") }

// says answers 200 with JSON.
func says(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, body)
	}
}

// result is what a call got.
type result struct {
	status int
	header http.Header
	body   map[string]any
	list   []any
	raw    string
}

// id returns the id of what was made, or of the error.
func (r result) id() string { id, _ := r.body["id"].(string); return id }

// call makes a call with a token; none means no header.
func (w world) call(t *testing.T, token, method, path string, body any) result {
	t.Helper()
	raw, isText := body.(string)
	if !isText && body != nil {
		encoded, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		raw = string(encoded)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, w.URL()+"/api/v4"+path, bytes.NewReader([]byte(raw)))
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "BEARER "+token)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	r := result{status: resp.StatusCode, header: resp.Header, raw: string(answer)}
	if json.Unmarshal(answer, &r.body) != nil {
		_ = json.Unmarshal(answer, &r.list)
	}
	return r
}

// asBot makes a call with the bot's token.
func (w world) asBot(t *testing.T, method, path string, body any) result {
	t.Helper()
	return w.call(t, mattermosttest.BotToken, method, path, body)
}

// object is some JSON.
type object = map[string]any

// card has two buttons and a menu.
func (w world) card() object {
	button := func(id, name string) object {
		return object{
			"id": id, "type": "button", "name": name,
			"integration": object{"url": w.bot.url, "context": object{"d": id, "mac": "m"}},
		}
	}
	menu := button("longer", "Approve for longer …")
	menu["type"] = "select"
	menu["options"] = []object{{"text": "This session", "value": "session"}, {"text": "Always", "value": "always"}}
	return object{"attachments": []object{{
		"title": "db.drop", "text": "```\n{\"table\": \"users\"}\n```", "footer": "request apr_01",
		"fields":  []object{{"title": "Agent", "value": "billing", "short": true}},
		"actions": []object{button("approve", "Approve"), button("deny", "Deny"), menu},
	}}}
}

// post posts a card as the bot.
func (w world) post(t *testing.T, channel string) string {
	t.Helper()
	r := w.asBot(t, http.MethodPost, "/posts", object{"channel_id": channel, "message": "Please decide", "props": w.card()})
	if r.status != http.StatusCreated {
		t.Fatalf("post: %d %s", r.status, r.raw)
	}
	return r.id()
}

func (w world) press(t *testing.T, user, post, action string) mattermosttest.Outcome {
	t.Helper()
	o, err := w.Press(t.Context(), mattermosttest.Press{User: user, Post: post, Action: action})
	if err != nil {
		t.Fatal(err)
	}
	return o
}
