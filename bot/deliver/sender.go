package deliver

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/approvalbot/approvalbot/bot/webhook"
	"github.com/approvalbot/approvalbot/gate"
)

// sender sends one message once.
type sender interface {
	send(ctx context.Context, m webhook.Message) (answer, error)
}

// answer is what of a receiver's answer matters. Its body does not.
type answer struct {
	status int
	rest   time.Duration // how long it asks to be left alone; zero: it does not
}

type endpoint struct{ *webhook.Endpoint }

func (e endpoint) send(ctx context.Context, m webhook.Message) (answer, error) {
	conn, err := e.Connect(ctx)
	if err != nil {
		return answer{}, err
	}
	a, err := conn.Send(ctx, m)
	if err != nil {
		return answer{}, err
	}
	rest, _ := a.RetryAfter(time.Now())
	return answer{a.Status, rest}, nil
}

// How messages are sent.
const (
	takeBatch  = 64
	takeEvery  = time.Second      // at least; others may have left something
	connectFor = 15 * time.Second // of maxTimeout's request
	sendFor    = maxTimeout + connectFor
	leaseFor   = 2 * sendFor     // then another replica sends it again
	settleFor  = 5 * time.Second // to write down how it went, also while this process stops
	unreadFor  = time.Second     // then an approval that could not be read is read again
)

var (
	errTooLong = errors.New("the message is too long, whatever is left out")
	errNobody  = errors.New("no hook of this name is configured")
)

// reader is who reads approvals to tell of them.
var reader = gate.Principal{Key: "approvalbot", Roles: []gate.Role{gate.RoleAuditor}}

// send sends what is owed until ctx ends.
func (o *Outbox) send(ctx context.Context) {
	wait := firstRetry
	for ctx.Err() == nil {
		all, next, err := o.Store.TakeOwed(ctx, takeBatch, leaseFor)
		if err != nil {
			if ctx.Err() == nil {
				o.Log.WarnContext(ctx, "nothing is sent to hooks and callbacks: the store does not answer", "err", err, "retry_in", wait)
				wait = retry(ctx, wait)
			}
			continue
		}
		wait = firstRetry
		for _, d := range all {
			o.handle(ctx, d)
		}
		if rest := jitter(o.every); next == 0 || next > rest {
			next = rest
		}
		if len(all) < takeBatch {
			pause(ctx, next, o.wake)
		}
	}
}

// parcel is a message and who it goes to.
type parcel struct {
	gate.Delivery

	to   sender
	lane string
	body []byte
}

// handle begins to send a delivery, or leaves it for later.
func (o *Outbox) handle(ctx context.Context, d gate.Delivery) {
	if ctx.Err() != nil {
		o.putBack(ctx, d, 0)
		return
	}
	p, err := o.pack(ctx, d)
	if err != nil {
		o.unpacked(ctx, d, err)
		return
	}
	switch way := o.enter(p.lane); {
	case way.gone:
		o.bury(ctx, d, errGone)
	case way.wait > 0:
		o.putBack(ctx, d, way.wait)
	default:
		o.work.Go(func() { defer o.leave(p.lane); o.try(ctx, p) })
	}
}

// unpacked leaves what could not be made for later. Of an approval that is not kept
// any more there is nothing left to tell.
func (o *Outbox) unpacked(ctx context.Context, d gate.Delivery, err error) {
	switch gate.KindOf(err) {
	case gate.Unavailable:
		o.putBack(ctx, d, unreadFor)
	case gate.NotFound:
		o.bury(ctx, d, err)
	default:
		o.failed(ctx, d, err, 0)
	}
}

// pack makes the message, from how things stand now.
func (o *Outbox) pack(ctx context.Context, d gate.Delivery) (*parcel, error) {
	v, err := o.Gate.Get(ctx, reader, d.About.ID)
	if err != nil {
		return nil, err
	}
	p, m := &parcel{Delivery: d, lane: "hook " + d.Hook}, message(d.About, &v)
	switch h := o.Hooks.named(d.Hook); {
	case d.Hook == "":
		m.Data.Now.AgentText = v.Ruling.Text
		p.to, p.lane, err = o.callback(&v.Approval)
	case h == nil:
		err = errNobody
	default:
		p.to = h.to
		if h.IncludeArgs {
			m.Data.Args, m.Data.Redacted = o.Gate.Shown(&v.Snapshot)
		}
	}
	if err != nil {
		return nil, err
	}
	p.body, err = fit(m)
	return p, err
}

// callback is where an approval's callback is. What its key may call is looked at
// again: it may have changed since, and so may what lies in the store.
func (o *Outbox) callback(a *gate.Approval) (sender, string, error) {
	c, err := o.Callbacks(a.Requester.Key, a.Callback)
	if err != nil {
		return nil, "", err
	}
	to, problems := o.dial(c)
	if len(problems) > 0 {
		return nil, "", fmt.Errorf("callback: %s", problems[0])
	}
	u, err := url.Parse(a.Callback)
	if err != nil {
		return nil, "", fmt.Errorf("callback: %w", err)
	}
	return to, "callback " + u.Scheme + "://" + u.Host, nil
}

// try sends a message and writes down how that went.
func (o *Outbox) try(ctx context.Context, p *parcel) {
	within, cancel := context.WithTimeout(ctx, sendFor)
	defer cancel()
	a, err := p.to.send(within, webhook.Message{ID: p.ID, Body: p.body})
	if err != nil {
		o.failed(ctx, p.Delivery, err, 0)
		return
	}
	o.judge(ctx, p, a)
}
