package slacktest

import (
	"context"
	"fmt"
	"strings"
)

// maxRetries is how often an event is sent again.
const maxRetries = 3

// event is one that nobody has acknowledged yet.
type event struct {
	payload object
	retries int
	reason  string
}

// Event tells the bot what happened, such as {"type": "app_uninstalled"}. What
// is not acknowledged waits for [Slack.Redeliver].
func (s *Slack) Event(ctx context.Context, what map[string]any) (Outcome, error) {
	s.mu.Lock()
	e := &event{payload: object{
		"type": "event_callback", "token": "deprecated", "team_id": Team, "api_app_id": App, "event": what,
		"event_id": s.id("Ev"), "event_time": s.config.Now().Unix(), "is_ext_shared_channel": false, "context_team_id": Team,
		"authorizations": []any{object{"enterprise_id": nil, "team_id": Team, "user_id": BotUser, "is_bot": true, "is_enterprise_install": false}},
	}}
	s.mu.Unlock()
	return s.try(ctx, e)
}

// Redeliver sends again what is not acknowledged, and not retried too often. A
// test decides when: Slack does so after three seconds over sockets, and at
// once, after a minute and after five over HTTP.
func (s *Slack) Redeliver(ctx context.Context) ([]Outcome, error) {
	s.mu.Lock()
	waiting := s.events
	s.events = nil
	s.mu.Unlock()
	var outcomes []Outcome
	for _, e := range waiting {
		e.retries++
		o, err := s.try(ctx, e)
		if err != nil {
			return outcomes, err
		}
		outcomes = append(outcomes, o)
	}
	return outcomes, nil
}

func (s *Slack) try(ctx context.Context, e *event) (Outcome, error) {
	o, err := s.prepare(kindEvent, e.payload, how{})
	if err != nil {
		return Outcome{}, err
	}
	r := o.sent
	r.retry, r.reason = e.retries, e.reason
	if e.retries > 0 && r.url != "" {
		r.header.Set("X-Slack-Retry-Num", fmt.Sprint(e.retries))
		r.header.Set("X-Slack-Retry-Reason", e.reason)
	}
	o = s.deliver(ctx, r)
	if o.Warning == "" || o.noRetry || e.retries == maxRetries {
		return o, nil
	}
	e.reason = retryReason(r, o)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, e)
	return o, nil
}

func retryReason(r request, o Outcome) string {
	switch {
	case r.url == "":
		return "timeout"
	case strings.HasPrefix(o.Warning, warnStatus):
		return "http_error"
	case o.Warning == warnTimeout:
		return "http_timeout"
	}
	return "connection_failed"
}
