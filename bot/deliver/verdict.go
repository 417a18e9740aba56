package deliver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/approvalbot/approvalbot/gate"
)

// waits are how long a message waits for its next try, after each that failed.
var waits = [...]time.Duration{
	5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour,
	10 * time.Hour, 14 * time.Hour, 20 * time.Hour, 24 * time.Hour,
}

// firstRest is how long a receiver that is overloaded gets nothing, if it does not
// say how long.
const firstRest = 5 * time.Second

// overloaded are the answers of a receiver, or of what stands before it, that gets too much.
var overloaded = []int{http.StatusTooManyRequests, http.StatusBadGateway, http.StatusGatewayTimeout}

var errGone = errors.New("the receiver has said that it is gone (410)")

// judge writes down what an answer means.
func (o *Outbox) judge(ctx context.Context, p *parcel, a answer) {
	switch {
	case a.status/100 == 2:
		o.settle(ctx, func(ctx context.Context) error { return o.Store.Delivered(ctx, p.Delivery) })
		o.Log.InfoContext(ctx, "message delivered", append(facts(p.Delivery), "status", a.status)...)
		return
	case a.status == http.StatusGone:
		o.gone(ctx, p)
		return
	case a.rest > 0, slices.Contains(overloaded, a.status):
		o.rest(p.lane, max(a.rest, firstRest))
	}
	o.failed(ctx, p.Delivery, fmt.Errorf("the receiver answered %d", a.status), a.rest)
}

// gone gives up a hook until the configuration is loaded again. Callbacks have an
// address each, so it is this message alone that nobody wants.
func (o *Outbox) gone(ctx context.Context, p *parcel) {
	if p.Hook != "" && o.close(p.lane) {
		o.Log.ErrorContext(ctx, "A HOOK IS OFF: its receiver has said that it is gone (410). Take it out of the config file, or restart the server to try it again", "hook", p.Hook)
	}
	o.bury(ctx, p.Delivery, errGone)
}

// failed writes down that a try came to nothing: the next one is later, and the last
// one was the last.
func (o *Outbox) failed(ctx context.Context, d gate.Delivery, why error, least time.Duration) {
	if d.Tries > len(waits) {
		o.bury(ctx, d, why)
		return
	}
	in := max(jitter(waits[max(d.Tries, 1)-1]), least)
	o.Log.WarnContext(ctx, "message not delivered", append(facts(d), "err", why, "retry_in", in)...)
	o.settle(ctx, func(ctx context.Context) error { return o.Store.Again(ctx, d, in) })
	o.look() // this may be the next that is due
}

func (o *Outbox) bury(ctx context.Context, d gate.Delivery, why error) {
	dead := 0
	o.settle(ctx, func(ctx context.Context) (err error) { dead, err = o.Store.Bury(ctx, d); return err })
	o.Log.WarnContext(ctx, "message given up: its receiver will not hear of this", append(facts(d), "err", why, "dead_within_a_week", dead)...)
}

func (o *Outbox) putBack(ctx context.Context, d gate.Delivery, in time.Duration) {
	o.settle(ctx, func(ctx context.Context) error { return o.Store.PutBack(ctx, d, jitter(in)) })
}

// settle writes down what became of a try, also while this process stops. If that
// fails the message is sent again, when the lease is over.
func (o *Outbox) settle(ctx context.Context, write func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleFor)
	defer cancel()
	if err := write(ctx); err != nil {
		o.Log.WarnContext(ctx, "what became of a message is not written down: it will be sent again", "err", err)
	}
}

// facts of a delivery for the log. The address of a callback is not among them:
// agents choose it.
func facts(d gate.Delivery) []any {
	return []any{"approval", string(d.About.ID), "event", string(d.About.Event), "hook", d.Hook, "webhook_id", d.ID, "try", d.Tries}
}
