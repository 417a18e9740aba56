//go:build linux

package chaos

import (
	"context"
	"time"

	"github.com/approvalbot/approvalbot/gate"
)

// errand is an approved call that somebody may run, once.
type errand struct {
	gate.Work
	owner string
}

// work pulls what an executor is to run.
func (p *process) work(ctx context.Context) {
	var before *errand
	for ctx.Err() == nil {
		if before != nil && p.one(10) { // a lease that is over, or was spent
			p.spend(ctx, before)
		}
		e := p.claim(ctx)
		if e == nil {
			p.dawdle(ctx, 150*time.Millisecond)
			continue
		}
		p.handle(ctx, e)
		before = e
	}
}

func (p *process) claim(ctx context.Context) *errand {
	w, err := p.Claim(ctx, ops, p.Owner, unique(), lease)
	if err != nil || w == nil {
		return nil
	}
	return &errand{*w, p.Owner}
}

// handle runs a leased call as a good worker does, or gives it back; at times it
// takes longer than it has, or forgets it.
func (p *process) handle(ctx context.Context, e *errand) {
	switch p.draw(12) {
	case 0, 1:
		pause(ctx, lease+time.Duration(p.draw(int(lease/2))))
	case 2:
		_ = p.Release(ctx, &e.Work)
		return
	case 3:
		return
	case 4, 5:
		_, _ = p.Renew(ctx, &e.Work, lease, reportIn)
		fallthrough
	case 6, 7, 8:
		p.dawdle(ctx, lease/3)
	}
	p.spend(ctx, e)
}

// spend is one attempt at a call: only a yes of the gate lets it run.
func (p *process) spend(ctx context.Context, e *errand) {
	s := gate.Spending{
		Principal: e.owner, Token: e.Token, Attempt: unique(), Call: e.Call, ReportIn: reportIn, NoReport: p.Mute && p.one(8),
	}
	if p.one(15) {
		s.Call.Target = "elsewhere"
	}
	digest, err := s.Call.Digest()
	if err != nil {
		panic(err) // it was one before
	}
	for range 3 { // of the same attempt: the answer may have been lost
		a := p.consume(ctx, e, &s, digest)
		if a.Yes {
			p.dispatch(ctx, e, &s, digest)
		}
		if !a.Unknown || ctx.Err() != nil {
			return
		}
	}
}

func (p *process) consume(ctx context.Context, e *errand, s *gate.Spending, digest gate.Digest) answer {
	c := call{Do: doConsume, ID: e.ID, Attempt: s.Attempt, Digest: digest.Hex(), Owner: e.owner, Fence: e.Fence, Silent: s.NoReport}
	return p.rec.do(c, func() answer {
		return ruled(p.Consume(ctx, *s))
	})
}

// ruled says what a ruling means for who would run the call.
func ruled(r gate.Ruling, err error) answer {
	if err == nil && r.Verdict != gate.Allow {
		return answer{Reason: r.Reason}
	}
	return told(err)
}

// dispatch runs the call, and says how it ended.
func (p *process) dispatch(ctx context.Context, e *errand, s *gate.Spending, digest gate.Digest) {
	out := gate.Executed
	if err := p.world.run(ctx, ran{ID: e.ID, Attempt: s.Attempt, Digest: digest.Hex(), Tool: s.Call.Tool, By: p.Name}); err != nil {
		out = gate.Failed
	}
	if s.NoReport || p.one(12) {
		return
	}
	r := gate.Reporting{Principal: e.owner, ID: e.ID, Token: e.Token, Attempt: s.Attempt, Outcome: out}
	for range 3 {
		a := p.rec.do(call{Do: doReport, ID: e.ID, Attempt: r.Attempt, Outcome: out}, func() answer { return told(p.Report(ctx, r)) })
		if !a.Unknown || ctx.Err() != nil {
			return
		}
	}
}
