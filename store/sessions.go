package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/approvalbot/approvalbot/gate"
)

// rememberSession is how long an ended session is known to have ended: longer
// than anything that was opened in it can live.
const rememberSession = 90 * 24 * time.Hour

// EndSession implements gate.Standing. The tombstone is the first thing it
// writes, so nothing slips in while what hangs on the session is ended.
func (s *Redis) EndSession(ctx context.Context, key, session, by string) error {
	const op = "store.EndSession"
	if session == "" {
		return invalid(op, "session: want a name")
	}
	for {
		r, err := s.run(ctx, op, endSessionScript, sessionHash(key, session), by,
			fmt.Sprintf("session %q of %s", session, key), ms(rememberSession))
		if err != nil || r.int(0) == 0 {
			return err
		}
	}
}

// PutBypass implements gate.Standing. One that ends in the past takes an
// earlier one away.
func (s *Redis) PutBypass(ctx context.Context, b gate.Bypass) error {
	const op = "store.PutBypass"
	if b.Session == "" {
		return invalid(op, "session: want a name")
	}
	text, err := json.Marshal(b)
	if err != nil {
		return &gate.Error{Op: op, Err: err}
	}
	_, err = s.run(ctx, op, putBypassScript, sessionHash(b.Key, b.Session), text, b.Until.UnixMilli(), b.By,
		fmt.Sprintf("session %q of %s until %s", b.Session, b.Key, b.Until.UTC().Format(time.RFC3339)))
	return err
}
