package store

import (
	"context"
	"time"

	"github.com/approvalbot/approvalbot/gate"
)

// replicaGone is how long a replica may be silent before it no longer counts.
const replicaGone = 15 * time.Second

// Heartbeat implements gate.Replicas.
func (s *Redis) Heartbeat(ctx context.Context, replica string, policy gate.Version) (gate.Pulse, error) {
	const op = "store.Heartbeat"
	if replica == "" || policy == "" {
		return gate.Pulse{}, invalid(op, "a heartbeat needs a replica's name and its policy")
	}
	r, err := s.run(ctx, op, heartbeatScript, replica, string(policy), ms(replicaGone))
	if err != nil {
		return gate.Pulse{}, err
	}
	return gate.Pulse{Others: int(r.int(0)), Now: r.time(1)}, nil
}

// ResetClock takes the clock of Redis for true again after it ran back by more
// than 2 s. Somebody should have looked why: whatever happened in the time that
// is now gone keeps its later date.
func (s *Redis) ResetClock(ctx context.Context, by string) error {
	_, err := s.run(ctx, "store.ResetClock", resetClockScript, by)
	return err
}
