package store

import (
	"context"
	"time"

	"github.com/approvalbot/approvalbot/gate"
)

// Lease implements gate.Leases.
func (s *Redis) Lease(ctx context.Context, executor, owner, nonce string, d time.Duration) (gate.ID, int64, bool, error) {
	const op = "store.Lease"
	if owner == "" || len(owner) > maxValue || d <= 0 {
		return "", 0, false, invalid(op, "owner: want 1 to 64 bytes, and a time to hold the lease")
	}
	r, err := s.run(ctx, op, leaseScript, short(executor), owner, fingerprint("lease", executor, owner, nonce), ms(d))
	if err != nil {
		return "", 0, false, err
	}
	id := gate.ID(r.str(0))
	return id, r.int(1), id != "", nil
}

// Renew implements gate.Leases.
func (s *Redis) Renew(ctx context.Context, id gate.ID, owner string, fence int64, d, most time.Duration) (time.Time, error) {
	r, err := s.run(ctx, "store.Renew", renewScript, string(id), owner, fence, ms(d), ms(most))
	return r.time(0), err
}

// Release implements gate.Leases.
func (s *Redis) Release(ctx context.Context, id gate.ID, owner string, fence int64) error {
	_, err := s.run(ctx, "store.Release", releaseScript, string(id), owner, fence)
	return err
}
