package slack

import (
	"context"
	"encoding/json"
	"time"
)

// How presses are kept.
const (
	keepWithin = time.Second // Slack waits for three: an answer in time comes before a copy
	leftAfter  = decideWithin + 3*time.Second
	leftEvery  = 3 * time.Second
	leftBatch  = 16
)

// keep writes a press down before Slack is told that it has arrived, so that it
// is not lost with this process. Without a store it is decided from here alone.
func (p *Presses) keep(ctx context.Context, in *interaction) []byte {
	if p.Kept == nil || in.kept != nil {
		return in.kept
	}
	press, err := json.Marshal(in) // the little of it that is needed
	if err == nil {
		ctx, cancel := context.WithTimeout(ctx, keepWithin)
		defer cancel()
		err = p.Kept.Press(ctx, name, press)
	}
	if err != nil {
		p.Log.WarnContext(ctx, "a press is not kept", "user", in.User.ID, "err", err)
		return nil
	}
	return press
}

// forget is for a press that is decided, and whose presser knows. If it fails the
// press comes again, which does no harm.
func (p *Presses) forget(ctx context.Context, press []byte) {
	if press == nil {
		return
	}
	if err := p.Kept.ForgetPress(context.WithoutCancel(ctx), name, press); err != nil {
		p.Log.WarnContext(ctx, "a press is kept for too long", "err", err)
	}
}

// Run takes over presses that another replica died over, until ctx ends.
func (p *Presses) Run(ctx context.Context) {
	tick := time.NewTicker(leftEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		left, err := p.Kept.LeftPresses(ctx, name, leftBatch, leftAfter)
		if err != nil && ctx.Err() == nil {
			p.Log.WarnContext(ctx, "presses that were left are not looked for", "err", err)
		}
		for _, press := range left {
			p.again(ctx, press)
		}
	}
}

func (p *Presses) again(ctx context.Context, press []byte) {
	in := interaction{kept: press}
	err := json.Unmarshal(press, &in)
	if err == nil {
		_, err = p.take(ctx, &in)
	}
	if err != nil { // it was understood when it was kept
		p.Log.ErrorContext(ctx, "a press that was kept is not understood any more", "err", err)
		p.forget(ctx, press)
		return
	}
	p.Log.InfoContext(ctx, "a press of another replica was taken over", "user", in.User.ID)
}
