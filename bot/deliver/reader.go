package deliver

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/approvalbot/approvalbot/gate"
)

// How the log is read.
const (
	readBatch = 32
	readBlock = 5 * time.Second
)

// read follows the log until ctx ends.
func (o *Outbox) read(ctx context.Context) {
	wait := firstRetry
	for ctx.Err() == nil {
		err := o.step(ctx)
		switch {
		case err == nil:
			wait = firstRetry
		case errors.Is(err, gate.ErrGap):
			o.Log.ErrorContext(ctx, "the log lacks entries: receivers may not hear of everything; what is left of it is told, also a second time")
			o.at = ""
		case ctx.Err() == nil:
			o.Log.WarnContext(ctx, "hooks and callbacks hear nothing: the log cannot be read", "err", err, "retry_in", wait)
			wait = retry(ctx, wait)
		}
	}
}

// step reads a few entries, and writes down what is owed about them.
func (o *Outbox) step(ctx context.Context) error {
	entries, err := o.Store.Read(ctx, o.at, readBatch, readBlock)
	if err != nil || len(entries) == 0 {
		return err
	}
	var all []gate.Delivery
	to := ""
	for _, e := range entries {
		of, err := o.owed(ctx, e)
		if err != nil && to == "" {
			return err
		} else if err != nil {
			break // as far as it was read
		}
		all, to = append(all, of...), e.Pos
	}
	read, err := o.Store.Owe(ctx, o.told, to, all...)
	if err != nil {
		return err
	}
	o.told, o.at = read, read
	if len(all) > 0 {
		o.look()
	}
	return nil
}

// look has the sender look what is due.
func (o *Outbox) look() {
	select {
	case o.wake <- struct{}{}:
	default: // it is about to
	}
}

// owed is what receivers are owed about an entry. One whose approval cannot be read,
// although the store is there, is owed to nobody: others must not wait for it.
func (o *Outbox) owed(ctx context.Context, e gate.Entry) (all []gate.Delivery, err error) {
	what := kindOf(e)
	if what == "" || e.ID == "" {
		return nil, nil
	}
	a, err := o.Store.Get(ctx, e.ID)
	if kind := gate.KindOf(err); err != nil && kind == gate.Unavailable {
		return nil, err
	} else if err != nil {
		o.Log.WarnContext(ctx, "nobody is told of an approval that cannot be read", "approval", string(e.ID), "event", string(e.Event), "err", err)
		return nil, nil
	}
	for _, h := range o.Hooks.all {
		if h.wants(what, a.Rule) {
			all = append(all, gate.Delivery{ID: messageID(e, h.Name), Hook: h.Name, About: e})
		}
	}
	if calledBack(what, &a.Approval) {
		all = append(all, gate.Delivery{ID: messageID(e, ""), About: e})
	}
	return all, nil
}

// messageID names what one receiver is told of one entry, whoever reads it and
// however often. Numbers and positions come again in a log that lost its end: that
// of the approval does not.
func messageID(e gate.Entry, hook string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %s %s %s", e.ID, e.Pos, e.Event, cmp.Or(hook, "*")))
	return "msg_" + hex.EncodeToString(sum[:16])
}
