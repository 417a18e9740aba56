package store

import (
	"context"
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
	left, _, err := s.reader.XAutoClaim(ctx, &redis.XAutoClaimArgs{
		Stream: s.space.key("log"), Group: cardGroup, Consumer: replica, MinIdle: idle, Start: "0-0", Count: int64(n),
	}).Result()
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
