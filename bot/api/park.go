package api

import (
	"context"
	"time"

	"github.com/approvalbot/approvalbot/gate"
)

// parseWait reads how long a caller wants to be held.
func parseWait(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, &gate.Error{Kind: gate.Invalid, Op: "api", Public: "wait: want a time such as 25s, at most 60s"}
	}
	return min(d, maxWait), nil
}

// retrySoon is told to those for whom there is no room to wait, in seconds.
const retrySoon = "2"

// park returns the context of somebody who waits: it ends with the caller, after
// d, or when this replica drains. It is not ok when too many wait already.
func (a *API) park(ctx context.Context, d time.Duration) (parked context.Context, leave func(), ok bool) {
	if a.parked.Add(1) > int64(a.MaxParked) {
		a.parked.Add(-1)
		return ctx, nil, false
	}
	ctx, cancel := context.WithTimeout(ctx, d)
	stop := context.AfterFunc(a.drained, cancel)
	return ctx, func() {
		stop()
		cancel()
		a.parked.Add(-1)
	}, true
}
