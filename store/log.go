package store

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/approvalbot/approvalbot/gate"
)

// Note implements gate.Log.
func (s *Redis) Note(ctx context.Context, e gate.Entry) error {
	_, err := s.run(ctx, "store.Note", noteScript, string(e.ID), string(e.Event), e.By, e.Digest, e.Note, e.Once)
	return err
}

// A position is "<stream id>.<number>": the number tells a log that lost its
// end in a fail-over and grew a new one from the log that was read before.
func position(id string, n int64) string { return id + "." + strconv.FormatInt(n, 10) }

// parsePosition reads a position; the empty one is before the first entry,
// whatever its number.
func parsePosition(op, pos string) (id string, n int64, err error) {
	if pos == "" {
		return "0-0", -1, nil
	}
	id, num, ok := strings.Cut(pos, ".")
	n, err = strconv.ParseInt(num, 10, 64)
	if !ok || err != nil || id == "" || strings.Trim(id, "0123456789-") != "" {
		return "", 0, invalid(op, "position: not one of this log")
	}
	return id, n, nil
}

// Tail implements gate.Log.
func (s *Redis) Tail(ctx context.Context) (string, error) {
	const op = "store.Tail"
	e, err := s.last(ctx)
	if err != nil {
		return "", unavailable(op, err)
	}
	return e.Pos, nil
}

// last returns the last entry; in an empty log one with the position before all.
func (s *Redis) last(ctx context.Context) (gate.Entry, error) {
	var found []redis.XMessage
	err := s.persist(ctx, func(ctx context.Context) (err error) {
		found, err = s.db.XRevRangeN(ctx, s.space.key("log"), "+", "-", 1).Result()
		return err
	})
	if err != nil || len(found) == 0 {
		return gate.Entry{Pos: position("0-0", 0)}, err
	}
	return entry(found[0]), nil
}

// glance is how long one read of the log blocks: a reader whose context ends
// leaves within it, because a client in the middle of a read cannot.
const glance = time.Second

// Read implements gate.Log. It reads on a connection of its own, so that no
// move waits behind it.
func (s *Redis) Read(ctx context.Context, pos string, n int, block time.Duration) ([]gate.Entry, error) {
	const op = "store.Read"
	id, after, err := parsePosition(op, pos)
	if err != nil {
		return nil, err
	}
	for until := time.Now().Add(block); ; {
		entries, err := s.readOnce(ctx, id, n, min(time.Until(until), glance))
		if err != nil {
			return nil, unavailable(op, err)
		}
		if len(entries) == 0 && ctx.Err() == nil && time.Until(until) > 0 {
			continue
		}
		if len(entries) == 0 {
			entries, err = s.atEnd(ctx, op, pos, id, n)
		}
		if err == nil && len(entries) > 0 && after >= 0 && entries[0].N != after+1 {
			err = gate.ErrGap
		}
		if err != nil {
			return nil, err
		}
		return entries, nil
	}
}

func (s *Redis) readOnce(ctx context.Context, id string, n int, block time.Duration) ([]gate.Entry, error) {
	if block < time.Millisecond {
		block = -1 // do not block: 0 would be for ever
	}
	res, err := s.reader.XRead(ctx, &redis.XReadArgs{
		Streams: []string{s.space.key("log"), id}, Count: int64(n), Block: block,
	}).Result()
	if errors.Is(err, redis.Nil) || err == nil && len(res) == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []gate.Entry
	for _, m := range res[0].Messages {
		out = append(out, entry(m))
	}
	return out, nil
}

// atEnd finds out whether nothing came because the log ends where the reader
// stands, or because the reader stands beyond its end.
func (s *Redis) atEnd(ctx context.Context, op, pos, id string, n int) ([]gate.Entry, error) {
	if err := ctx.Err(); err != nil {
		return nil, unavailable(op, err)
	}
	last, err := s.last(ctx)
	if err != nil {
		return nil, unavailable(op, err)
	}
	if last.Pos == pos || last.N == 0 && pos == "" {
		return nil, nil
	}
	entries, err := s.readOnce(ctx, id, n, 0) // something came just now
	if err != nil {
		return nil, unavailable(op, err)
	}
	if len(entries) == 0 {
		return nil, gate.ErrGap
	}
	return entries, nil
}

func entry(m redis.XMessage) gate.Entry {
	f := make(row, len(m.Values))
	for k, v := range m.Values {
		f[k], _ = v.(string)
	}
	return gate.Entry{
		Pos: position(m.ID, f.int("n")), N: f.int("n"), ID: gate.ID(f["id"]), Event: gate.Event(f["ev"]),
		From: gate.State(f["f"]), To: gate.State(f["t"]), By: f["by"], At: f.time("at"), Digest: f["dg"], Note: f["x"],
	}
}
