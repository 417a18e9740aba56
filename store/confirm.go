package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/approvalbot/approvalbot/gate"
)

// confirmation is that all replicas have what a script wrote, before anybody
// hears that it succeeded. The zero value asks none.
type confirmation struct {
	replicas int // all there are: one that is not asked could be promoted
	timeout  time.Duration
	key      string // written to for nothing else
}

// confirmed are the scripts by which people decide and calls are dispatched.
// What else is lost with a primary is asked again or stays undone.
var confirmed = map[*redis.Script]bool{
	voteScript: true, consumeScript: true,
	putGrantScript: true, revokeGrantScript: true, useGrantScript: true, endSessionScript: true, putBypassScript: true,
}

// errUnconfirmed is of what was done at the primary, and may be lost with it.
var errUnconfirmed = errors.New("not confirmed by all replicas")

// ask ends a pipeline with WAIT, which is about what this very connection did
// last; since Redis 7.2 only about what it wrote. So something is written first: a
// move that was made before, and is asked about again, writes nothing itself, and
// would seem confirmed at once.
func (c confirmation) ask(ctx context.Context, pipe redis.Pipeliner) *redis.Cmd {
	if c.replicas == 0 {
		return nil
	}
	pipe.Set(ctx, c.key, "1", 0)
	return pipe.Do(ctx, "wait", c.replicas, c.timeout.Milliseconds())
}

// check takes back what succeeded and was not confirmed.
func (c confirmation) check(answer *redis.Cmd, cmds []*redis.Cmd) {
	if answer == nil {
		return
	}
	n, err := answer.Int()
	if err == nil && n >= c.replicas {
		return
	}
	if err == nil {
		err = fmt.Errorf("%w: %d of %d did in %s", errUnconfirmed, n, c.replicas, c.timeout)
	} else if !lost(err) {
		err = fmt.Errorf("%w: %w", errUnconfirmed, err)
	}
	for _, cmd := range cmds {
		if succeeded(cmd) {
			cmd.SetErr(err)
		}
	}
}

// succeeded reports whether a script has done what it was to do: a refusal
// stands, whoever knows of it.
func succeeded(cmd *redis.Cmd) bool {
	res, err := cmd.Slice()
	return err == nil && reply(res).str(0) == "OK"
}

// waits says whether the replicas that a server has are those that are waited for.
func (f facts) waits(want int) error {
	switch {
	case want == 0 || f.online == want:
		return nil
	case f.online > want:
		return fmt.Errorf("store: %d replicas are connected and wait_replicas is %d: one that is not waited for could be promoted; set wait_replicas: %[1]d", f.online, want)
	}
	return &gate.Error{
		Kind: gate.Unavailable, Reason: gate.ReasonStoreUnavailable, Op: "store.Recheck",
		Err: fmt.Errorf("%d replicas are connected and wait_replicas is %d: until all are back nothing is approved or dispatched", f.online, want),
	}
}
