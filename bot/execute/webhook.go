package execute

import (
	"context"
	"errors"
	"time"

	"github.com/approvalbot/approvalbot/bot/webhook"
	"github.com/approvalbot/approvalbot/gate"
)

// Webhook runs calls by telling a receiver to. What each answer means:
//
//	2xx                            executed; failed if its body says error
//	3xx, 4xx                       failed
//	429, 503 with Retry-After      failed: not begun       | sent again
//	500 and other 5xx below 520    failed                  | sent again
//	502, 504, 503 alone, from 520  unknown: of a proxy     | sent again
//	no answer, or half a 2xx       unknown                 | sent again
//	certainly not sent             sent again until time is up, then failed
//
// Behind the bar: if the rule says retry_safe, as the same attempt and with the same
// keys, until time is up. Once a sending may have taken effect only a 2xx settles
// it; the receiver knows the attempt, and says how it ended.
type Webhook struct {
	end   *webhook.Endpoint
	pause time.Duration // before a second sending; it doubles
}

const (
	firstPause = 500 * time.Millisecond
	maxPause   = 30 * time.Second
)

// NewWebhook makes a Webhook. Its error reports all that is wrong, each with its key.
func NewWebhook(c webhook.Config) (*Webhook, error) {
	end, err := webhook.New(c)
	if err != nil {
		return nil, err
	}
	return &Webhook{end: end, pause: firstPause}, nil
}

// Prepare implements Executor: it connects.
func (w *Webhook) Prepare(ctx context.Context, j *Job) (Dispatch, error) {
	body, err := order(j, time.Now())
	if err != nil {
		return nil, &Refusal{"the call cannot be written as JSON"}
	}
	conn, err := w.end.Connect(ctx)
	if err != nil {
		return nil, &gate.Error{Kind: gate.Unavailable, Op: "execute.Webhook", Public: "the receiver cannot be reached", Err: err}
	}
	return &sending{w, conn, webhook.Message{ID: j.Attempt, Key: string(j.ID), Body: body}, j.Retry}, nil
}

// sending is a webhook that is ready to go.
type sending struct {
	w       *Webhook
	conn    *webhook.Conn // nil: connect first
	message webhook.Message
	retry   bool
}

// Drop implements Dispatch.
func (s *sending) Drop() { s.conn.Close() }

// Run implements Dispatch.
func (s *sending) Run(ctx context.Context) Result {
	doubt := false // an earlier sending may have taken effect
	for n := 0; ; n++ {
		v := s.try(ctx, doubt)
		if !v.resend(s.retry) || !wait(ctx, v.after(s.w.pause, n)) {
			return v.settle(doubt)
		}
		doubt = doubt || v.may
	}
}

// try sends once.
func (s *sending) try(ctx context.Context, doubt bool) verdict {
	conn, err := s.conn, error(nil)
	s.conn = nil
	if conn == nil {
		conn, err = s.w.end.Connect(ctx)
	}
	if err != nil {
		return verdict{Result: failed("not sent: " + reason(ctx, err)), unsent: true}
	}
	a, err := conn.Send(ctx, s.message)
	switch lost, ok := errors.AsType[*webhook.Lost](err); {
	case err == nil:
		return judge(a, doubt)
	case ok && !lost.Sent:
		return verdict{Result: failed("not sent: " + reason(ctx, lost.Err)), unsent: true}
	}
	return verdict{Result: unknown("no answer: " + reason(ctx, err)), again: true, may: true}
}
