package bot

import (
	"context"
	"log/slog"
	"time"

	"github.com/approvalbot/approvalbot/gate"
)

// Settler is what the reaper needs of the store; gate.Store has it.
type Settler interface {
	Sweep(ctx context.Context, n int) (done int, next time.Duration, err error)
	Stale(ctx context.Context, n int) ([]gate.ID, error)
}

// Reaper makes what time has settled visible: expired questions, leases that
// ran out, approvals of another life of the store. Nothing depends on when it
// runs, or whether: every move settles what it touches by itself. Any number of
// replicas may run one.
type Reaper struct {
	Store   Settler
	Refresh func(ctx context.Context, id gate.ID) error // voids a stale approval and asks again; gate.Gate has it
	Log     *slog.Logger
}

// How the reaper works.
const (
	reapBatch  = 64              // so that no script holds Redis for longer than some milliseconds
	reapEvery  = time.Second     // at least; sooner when something is due sooner
	staleEvery = 5 * time.Second // a fail-over is noticed by every reader anyway
)

// Run reaps until ctx ends.
func (r *Reaper) Run(ctx context.Context) {
	var lookedAt time.Time
	for ctx.Err() == nil {
		if time.Since(lookedAt) >= staleEvery && r.renew(ctx) {
			lookedAt = time.Now()
		}
		pause(ctx, r.sweep(ctx))
	}
}

// sweep settles what is due and says how long there is nothing more to do.
func (r *Reaper) sweep(ctx context.Context) time.Duration {
	for ctx.Err() == nil {
		done, next, err := r.Store.Sweep(ctx, reapBatch)
		switch {
		case err != nil:
			r.Log.WarnContext(ctx, "sweep failed", "err", err)
			return jitter(reapEvery)
		case done >= reapBatch:
			continue // more may be due
		case next > 0 && next < reapEvery:
			return next
		}
		return jitter(reapEvery)
	}
	return 0
}

// renew asks again in place of approvals that a fail-over of the store made
// void. It reports whether none are left.
func (r *Reaper) renew(ctx context.Context) bool {
	for ctx.Err() == nil {
		ids, err := r.Store.Stale(ctx, reapBatch)
		if err != nil {
			r.Log.WarnContext(ctx, "stale approvals not listed", "err", err)
			return false
		}
		for _, id := range ids {
			if err := r.Refresh(ctx, id); err != nil {
				r.Log.WarnContext(ctx, "stale approval not asked again", "approval", string(id), "err", err)
				return false
			}
		}
		if len(ids) < reapBatch {
			return true
		}
	}
	return false
}
