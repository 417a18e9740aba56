package store

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/approvalbot/approvalbot/gate"
)

// cardGroup is the consumer group of the log that draws cards; each replica is
// one consumer of it. It begins at the beginning: what was opened before anybody
// drew cards gets one too.
const cardGroup = "cards"

// Follow implements gate.Cards. What another replica left behind comes first.
func (s *Redis) Follow(ctx context.Context, replica string, n int, block, idle time.Duration) ([]gate.Entry, error) {
	const op = "store.Follow"
	left, err := s.abandoned(ctx, replica, n, idle)
	if redis.HasErrorPrefix(err, "NOGROUP") {
		if err = s.reader.XGroupCreateMkStream(ctx, s.space.key("log"), cardGroup, "0").Err(); redis.HasErrorPrefix(err, "BUSYGROUP") {
			err = nil // another replica made it just now
		}
	}
	if err != nil {
		return nil, unavailable(op, err)
	}
	if len(left) > 0 {
		return entries(left), nil
	}
	if block < time.Millisecond {
		block = -1 // do not block: 0 would be for ever
	}
	res, err := s.reader.XReadGroup(ctx, &redis.XReadGroupArgs{
		Group: cardGroup, Consumer: replica, Streams: []string{s.space.key("log"), ">"}, Count: int64(n), Block: min(block, glance),
	}).Result()
	switch {
	case errors.Is(err, redis.Nil) || err == nil && len(res) == 0:
		return nil, nil
	case err != nil:
		return nil, unavailable(op, err)
	}
	return entries(res[0].Messages), nil
}

// forgetAfter is when a replica without entries is taken out of the group, long
// after it can come back: what it were given in that moment would be lost.
const forgetAfter = 24 * time.Hour

// abandoned takes over what was left by replicas that have not followed for idle:
// one that waits for turns has its entries for longer. Who follows is written down,
// because what Redis says of consumers differs between its versions. Of its own it
// takes again what it has had for much longer, for it may never have seen it.
func (s *Redis) abandoned(ctx context.Context, replica string, n int, idle time.Duration) ([]redis.XMessage, error) {
	r, err := s.run(ctx, "store.Follow", followingScript, replica, ms(idle))
	if err != nil {
		return nil, err
	}
	silent := r.list(0)
	for i := 0; i+1 < len(silent); i += 2 {
		name := silent.str(i)
		left, err := s.take(ctx, name, replica, n, idle)
		if len(left) > 0 || err != nil {
			return left, err
		}
		if time.Duration(silent.int(i+1))*time.Millisecond > forgetAfter {
			if err := s.forgetReplica(ctx, name); err != nil {
				return nil, err
			}
		}
	}
	return s.take(ctx, replica, replica, n, 10*idle)
}

func (s *Redis) forgetReplica(ctx context.Context, name string) error {
	if err := s.reader.XGroupDelConsumer(ctx, s.space.key("log"), cardGroup, name).Err(); err != nil {
		return err
	}
	return s.reader.HDel(ctx, s.space.key("followers"), name).Err()
}

// take gives one consumer what another has had for at least so long.
func (s *Redis) take(ctx context.Context, from, to string, n int, least time.Duration) ([]redis.XMessage, error) {
	log := s.space.key("log")
	pending, err := s.reader.XPendingExt(ctx, &redis.XPendingExtArgs{
		Stream: log, Group: cardGroup, Consumer: from, Idle: least, Start: "-", End: "+", Count: int64(n),
	}).Result()
	if err != nil || len(pending) == 0 {
		return nil, err
	}
	var ids []string
	for _, p := range pending {
		ids = append(ids, p.ID)
	}
	return s.reader.XClaim(ctx, &redis.XClaimArgs{Stream: log, Group: cardGroup, Consumer: to, MinIdle: least, Messages: ids}).Result()
}

func entries(all []redis.XMessage) []gate.Entry {
	var out []gate.Entry
	for _, m := range all {
		out = append(out, entry(m))
	}
	return out
}

// Settle implements gate.Cards.
func (s *Redis) Settle(ctx context.Context, all ...gate.Entry) error {
	const op = "store.Settle"
	var ids []string
	for _, e := range all {
		id, _, err := parsePosition(op, e.Pos)
		if err != nil {
			return err
		}
		ids = append(ids, id)
	}
	if len(ids) == 0 {
		return nil
	}
	return s.plainly(ctx, op, func(ctx context.Context) error {
		return s.db.XAck(ctx, s.space.key("log"), cardGroup, ids...).Err()
	})
}

// plainly runs commands that are no script and may run twice.
func (s *Redis) plainly(ctx context.Context, op string, f func(context.Context) error) error {
	if err := s.persist(ctx, f); err != nil {
		return unavailable(op, err)
	}
	return nil
}

// Draw implements gate.Cards. A writer that asks again has them for longer.
func (s *Redis) Draw(ctx context.Context, id gate.ID, writer string, d time.Duration) (ok bool, err error) {
	r, err := s.run(ctx, "store.Draw", drawScript, string(id), writer, ms(d))
	return r.int(0) == 1, err
}

// Drawn implements gate.Cards.
func (s *Redis) Drawn(ctx context.Context, id gate.ID, writer string) error {
	_, err := s.run(ctx, "store.Drawn", drawScript, string(id), writer, 0)
	return err
}

// Posted implements gate.Cards.
func (s *Redis) Posted(ctx context.Context, id gate.ID) ([]gate.Posted, error) {
	const op = "store.Posted"
	var all map[string]string
	err := s.plainly(ctx, op, func(ctx context.Context) (err error) {
		all, err = s.db.HGetAll(ctx, s.space.key("c:"+string(id))).Result()
		return err
	})
	var out []gate.Posted
	for _, text := range all {
		var p gate.Posted
		if err := json.Unmarshal([]byte(text), &p); err != nil {
			return nil, damaged(op, fmt.Errorf("card of %s: %w", id, err))
		}
		out = append(out, p)
	}
	return out, err
}

// PutPosted implements gate.Cards.
func (s *Redis) PutPosted(ctx context.Context, id gate.ID, p gate.Posted) error {
	const op = "store.PutPosted"
	if p.Place == "" || strings.ContainsRune(p.Place, ' ') {
		return invalid(op, "place: want a conversation without spaces")
	}
	text, err := json.Marshal(p)
	if err != nil {
		return &gate.Error{Op: op, Err: err}
	}
	key, field := s.space.key("c:"+string(id)), p.Place+" "+p.Message
	return s.plainly(ctx, op, func(ctx context.Context) error {
		if p.Rev == 0 {
			return s.db.HDel(ctx, key, field).Err()
		}
		return s.db.HSet(ctx, key, field, text).Err()
	})
}

// Press implements gate.Presses.
func (s *Redis) Press(ctx context.Context, channel string, press []byte) error {
	_, err := s.run(ctx, "store.Press", pressScript, channel, press)
	return err
}

// LeftPresses implements gate.Presses.
func (s *Redis) LeftPresses(ctx context.Context, channel string, n int, idle time.Duration) (left [][]byte, err error) {
	r, err := s.run(ctx, "store.LeftPresses", leftPressesScript, channel, ms(idle), n)
	for i := range r.list(0) {
		left = append(left, []byte(r.list(0).str(i)))
	}
	return left, err
}

// ForgetPress implements gate.Presses.
func (s *Redis) ForgetPress(ctx context.Context, channel string, press []byte) error {
	return s.plainly(ctx, "store.ForgetPress", func(ctx context.Context) error {
		return s.db.ZRem(ctx, s.space.key("pr:"+channel), press).Err()
	})
}

// Once implements gate.Presses. Each call has a name of its own, so that one that
// asks again, because no answer came, knows its own first time.
func (s *Redis) Once(ctx context.Context, what string, within time.Duration) (first bool, err error) {
	const op = "store.Once"
	if within < time.Millisecond {
		return false, invalid(op, "within: want a time of a millisecond or more")
	}
	r, err := s.run(ctx, op, onceScript, fingerprint("once", what), rand.Text(), ms(within))
	return err == nil && r.int(0) == 1, err
}

// Turn implements gate.Cards.
func (s *Redis) Turn(ctx context.Context, place string, every time.Duration, burst int) (time.Duration, error) {
	return s.turn(ctx, "store.Turn", place, every, burst, 0)
}

// Pause implements gate.Cards.
func (s *Redis) Pause(ctx context.Context, place string, d time.Duration) error {
	_, err := s.turn(ctx, "store.Pause", place, 0, 1, d)
	return err
}

func (s *Redis) turn(ctx context.Context, op, place string, every time.Duration, burst int, pause time.Duration) (time.Duration, error) {
	r, err := s.run(ctx, op, turnScript, fingerprint("place", place), ms(every), burst, ms(pause))
	if err != nil {
		return 0, err
	}
	return time.Duration(r.int(0)) * time.Millisecond, nil
}
