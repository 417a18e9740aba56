package slacktest_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/slack-go/slack"

	"github.com/approvalbot/approvalbot/channels/slack/slacktest"
)

// Who and what there is in every test.
const (
	ada, bob, eve    = "U0AAAAAA1", "U0AAAAAA2", "U0AAAAAA3" // member; guest; stranger
	gone, robot      = "U0AAAAAA4", "U0AAAAAA5"              // deactivated; another bot
	hidden           = "U0AAAAAA6"
	ops, open        = "C0AAAAAA1", "C0AAAAAA2" // with the bot; public without it
	private          = "C0AAAAAA3"              // without the bot
	archived, shared = "C0AAAAAA4", "C0AAAAAA5"
	readOnly         = "C0AAAAAA6"
	secret           = "C0AAAAAA7" // private with the bot
	sre, disbanded   = "S0AAAAAA1", "S0AAAAAA2"
)

// world is a double with people, and a client of it.
type world struct {
	*slacktest.Slack
	clock *slacktest.Clock
	api   *slack.Client
}

func newWorld(t *testing.T, c slacktest.Config) world {
	t.Helper()
	clock := slacktest.NewClock()
	c.Now = clock.Now
	if c.Patience == 0 {
		c.Patience = time.Minute // a slow machine is no slow bot
	}
	s := slacktest.New(t, c)
	for _, u := range []slacktest.User{
		{ID: ada, Name: "ada", Email: "ada@example.com"},
		{ID: bob, Name: "bob", UltraRestricted: true},
		{ID: eve, Name: "eve", Team: "T0BBBBBB1"},
		{ID: gone, Name: "gone", Deleted: true},
		{ID: robot, Name: "robot", Bot: true},
		{ID: hidden, Name: "hidden", Hidden: true},
	} {
		s.AddUser(u)
	}
	for _, ch := range []slacktest.Channel{
		{ID: ops, Name: "ops", Members: []string{ada, bob, slacktest.BotUser}},
		{ID: open, Name: "open", Members: []string{ada}},
		{ID: private, Name: "private", Private: true, Members: []string{ada}},
		{ID: archived, Name: "archived", Archived: true, Members: []string{ada, slacktest.BotUser}},
		{ID: shared, Name: "shared", Shared: true, Members: []string{ada, eve, slacktest.BotUser}},
		{ID: readOnly, Restricted: "restricted_action_read_only_channel", Members: []string{slacktest.BotUser}},
		{ID: secret, Name: "secret", Private: true, Members: []string{ada, slacktest.BotUser}},
	} {
		s.AddChannel(ch)
	}
	s.AddGroup(slacktest.Group{ID: sre, Members: []string{ada, bob}})
	s.AddGroup(slacktest.Group{ID: disbanded, Members: []string{ada}, Disabled: true})
	return world{Slack: s, clock: clock, api: client(s, slacktest.BotToken)}
}

func client(s *slacktest.Slack, token string, options ...slack.Option) *slack.Client {
	options = append([]slack.Option{
		slack.OptionAPIURL(s.URL() + "/api/"), slack.OptionAppLevelToken(slacktest.AppToken),
		slack.OptionHTTPClient(&http.Client{Timeout: 10 * time.Second}),
	}, options...)
	return slack.New(token, options...)
}

// serve runs a bot that is called over HTTP.
func serve(t *testing.T, h http.HandlerFunc) (url string) {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server.URL
}

// code returns what Slack calls an error.
func code(err error) string {
	var refused slack.SlackErrorResponse
	var limited *slack.RateLimitedError
	var status slack.StatusCodeError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &refused):
		return refused.Err
	case errors.As(err, &limited):
		return "429 after " + limited.RetryAfter.String()
	case errors.As(err, &status):
		return status.Status
	}
	return "transport"
}

// card is a message with a button.
func card(id string) []slack.MsgOption {
	return []slack.MsgOption{
		slack.MsgOptionText("Approval needed", true),
		slack.MsgOptionBlocks(
			slack.NewSectionBlock(slack.NewTextBlockObject(slack.PlainTextType, "Drop it?", false, false), nil, nil),
			slack.NewActionBlock("decision",
				slack.NewButtonBlockElement("approve", id, slack.NewTextBlockObject(slack.PlainTextType, "Approve", false, false)),
				slack.NewButtonBlockElement("deny", id, slack.NewTextBlockObject(slack.PlainTextType, "Deny", false, false)),
			),
		),
		slack.MsgOptionMetadata(slack.SlackMetadata{EventType: "approval_requested", EventPayload: map[string]any{"id": id}}),
	}
}

func (w world) post(t *testing.T, channel string, options ...slack.MsgOption) (string, string) {
	t.Helper()
	ch, ts, err := w.api.PostMessageContext(t.Context(), channel, options...)
	if err != nil {
		t.Fatalf("post in %s: %v", channel, err)
	}
	return ch, ts
}

func text(s string) slack.MsgOption { return slack.MsgOptionText(s, false) }

// raw calls a method with a form, in ways in which the client would not.
func (w world) raw(t *testing.T, method string, form ...string) (answer map[string]any) {
	t.Helper()
	values := url.Values{"token": {slacktest.BotToken}}
	for i := 0; i < len(form); i += 2 {
		values.Set(form[i], form[i+1])
	}
	resp, err := http.PostForm(w.URL()+"/api/"+method, values)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		t.Fatal(err)
	}
	return answer
}
