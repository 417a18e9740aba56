package execute

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/approvalbot/approvalbot/bot/webhook"
)

// verdict is what one sending came to.
type verdict struct {
	Result               // if nothing is sent after it
	final  bool          // an answer to this attempt, however often it was sent
	unsent bool          // certainly
	again  bool          // if the rule says retry_safe
	may    bool          // it may have taken effect
	asked  bool          // the receiver says when to come again:
	later  time.Duration // from now
}

func (v verdict) resend(retry bool) bool { return v.unsent || v.again && retry }

// after is how long to wait before the sending after n others.
func (v verdict) after(pause time.Duration, n int) time.Duration {
	if v.asked {
		return v.later
	}
	d := min(pause<<min(n, 10), maxPause)
	return d/2 + rand.N(d/2+1) //nolint:gosec // spreads, hides nothing
}

func (v verdict) settle(doubt bool) Result {
	if doubt && !v.final && v.Outcome != "" {
		return unknown("an earlier sending had no answer; the last: " + v.Text)
	}
	return v.Result
}

// wait waits, and reports false if that would take too long.
func wait(ctx context.Context, d time.Duration) bool {
	if end, ok := ctx.Deadline(); ok && time.Until(end) < d {
		return false
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// judge reads an answer. After doubt a 409 means that the first is still at work.
func judge(a *webhook.Answer, doubt bool) verdict {
	says := answered(a)
	later, asked := a.RetryAfter(time.Now())
	switch code := a.Status; {
	case code/100 == 2 && a.Broken != nil:
		return verdict{Result: unknown(fmt.Sprintf("answered %d, and broke off: %v", code, a.Broken)), again: true, may: true}
	case code/100 == 2 && saysError(a.Body):
		return verdict{Result: failed(string(a.Body)), final: true}
	case code/100 == 2:
		return verdict{Result: executed(string(a.Body)), final: true}
	case code/100 == 3:
		return verdict{Result: failed(says + "; redirects are not followed")}
	case code == http.StatusTooManyRequests, code == http.StatusServiceUnavailable && asked:
		return verdict{Result: failed(says), again: true, asked: asked, later: later}
	case code == http.StatusConflict && doubt:
		return verdict{Result: failed(says), again: true, asked: asked, later: later}
	case code/100 == 4:
		return verdict{Result: failed(says)}
	case proxied(code):
		return verdict{Result: unknown(says), again: true, may: true, asked: asked, later: later}
	}
	return verdict{Result: failed(says), again: true, asked: asked, later: later}
}

// proxied reports whether a status is one of those that proxies answer with when
// they lost the receiver, or were never meant to be an answer.
func proxied(code int) bool {
	switch code {
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return code < 200 || code >= 520
}

// answered puts an answer in words.
func answered(a *webhook.Answer) string {
	text := strings.TrimSpace(fmt.Sprintf("answered %d %s", a.Status, http.StatusText(a.Status)))
	if said := strings.TrimSpace(string(a.Body)); said != "" {
		text += ": " + said
	}
	return text
}
