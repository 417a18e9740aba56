package slack_test

import (
	"strings"
	"testing"
	"time"

	"github.com/approvalbot/approvalbot/channels"
	"github.com/approvalbot/approvalbot/channels/channeltest"
	"github.com/approvalbot/approvalbot/channels/slack/slacktest"
	"github.com/approvalbot/approvalbot/gate"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	channeltest.Run(t, func(t *testing.T) *channeltest.Desk {
		t.Helper()
		s := workspace(t, slacktest.Config{NoRateLimits: true})
		until := make(chan struct{})
		t.Cleanup(func() { close(until) })
		return &channeltest.Desk{
			Channel: channel(s),
			Open:    gate.Conversation{Place: "slack:" + ops},
			Closed:  gate.Conversation{Place: "slack:C0ARCHIVE1"},
			Missing: gate.Conversation{Place: "slack:C0NOWHERE1"},
			Begin:   func() string { return s.Say("U0AAAAAA1", ops, "look at this") },
			Read:    func(place string) []channeltest.Seen { return read(s, place) },
			Remove:  func(ref channels.Ref) { s.Remove(strings.TrimPrefix(ref.Place, "slack:"), ref.Message) },
			Break: func(op string, how channeltest.Breakage) {
				method := map[string]string{"post": "chat.postMessage", "update": "chat.update", "say": "chat.postMessage"}[op]
				s.FailNext(method, map[channeltest.Breakage]slacktest.Fault{
					channeltest.Limited: slacktest.RateLimited(7 * time.Second),
					channeltest.Lost:    slacktest.LostAnswer,
					channeltest.Reset:   slacktest.Reset,
					channeltest.Revoked: slacktest.Refused("token_revoked"),
					channeltest.Silent:  slacktest.Held(until),
				}[how])
			},
			Secret: []string{slacktest.BotToken, slacktest.AppToken, slacktest.SigningSecret},
		}
	})
}

func read(s *slacktest.Slack, place string) (all []channeltest.Seen) {
	for _, m := range s.Messages(strings.TrimPrefix(place, "slack:")) {
		buttons := 0
		for _, b := range m.Blocks {
			if b["type"] == "actions" {
				elements, _ := b["elements"].([]any)
				buttons += len(elements)
			}
		}
		all = append(all, channeltest.Seen{
			Ref: channels.Ref{Place: place, Message: m.TS, Thread: m.ThreadTS}, Text: m.Read(), Buttons: buttons, Calls: m.Notifies(),
		})
	}
	return all
}
