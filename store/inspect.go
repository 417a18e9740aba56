package store

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// Report is what a Redis, and what lies in it, say of themselves: for people who look
// for what is wrong. Nothing is changed by it.
type Report struct {
	Version  string // "7.0.15"
	Primary  bool
	Replicas int    // that could take over
	Eviction string // maxmemory-policy
	Disk     Disk

	Unusable error // why Open refuses it at any level; nil: it does not
	Lacks    error // what it lacks for Standard; nil: it carries it
	Short    error // why what waits for its replicas is not confirmed; nil: it is, or nothing waits
	Scripts  error // why scripts cannot do what they must; nil: they can

	// As the first server stored it; empty: none has been here yet.
	Schema, Key string
	Level       Durability

	Ahead   time.Duration // of the store's clock before this machine's, to some milliseconds
	Behind  time.Duration // of the store's clock behind the highest time it has told; 0: it is not doubtful
	Pending int
	Waits   time.Duration // the oldest of them, so far
}

// Disk is what survives the end of a Redis.
type Disk struct {
	AppendOnly bool
	Fsync      string // appendfsync; empty: it does not say
	Saves      bool   // snapshots, or it does not say
}

// Schema is the version of what lies in Redis that this program reads and writes.
func Schema() string { return schema }

// ShortKey is a fingerprint of a server key as it is stored.
func ShortKey(fingerprint string) string { return short(fingerprint) }

// doubt is how far the store's clock may run back before nothing is decided by it; see
// lua/prelude.lua.
const doubt = 2 * time.Second

// canScript is what every script must be able to do.
var canScript = redis.NewScript(`redis.call('TIME') return redis.call('INFO', 'replication')`)

// Inspect looks at the server as it is, whether Open would take it or not. It fails if
// the server cannot be asked.
func (s *Redis) Inspect(ctx context.Context) (Report, error) {
	f, err := s.inspect(ctx)
	if err != nil {
		return Report{}, err
	}
	r := Report{
		Version: f.version, Primary: f.role == "master", Replicas: f.replicas, Eviction: f.eviction,
		Disk:     Disk{AppendOnly: f.appendonly == "1", Fsync: f.fsync, Saves: f.save != ""},
		Unusable: f.usable(), Lacks: f.standard(), Short: f.waits(s.config.WaitReplicas),
	}
	r.Scripts = canScript.Run(ctx, s.db, []string{s.space.key("meta")}).Err()
	err = s.persist(ctx, func(ctx context.Context) error { return s.contents(ctx, &r) })
	if err != nil {
		return Report{}, unavailable("store.Inspect", err)
	}
	return r, nil
}

// contents reads what lies in the server.
func (s *Redis) contents(ctx context.Context, r *Report) error {
	began := time.Now()
	now, err := s.db.Time(ctx).Result()
	if err != nil {
		return err
	}
	r.Ahead = now.Sub(began.Add(time.Since(began) / 2)) // the answer was made in the middle
	meta, err := s.db.HGetAll(ctx, s.space.key("meta")).Result()
	if err != nil {
		return err
	}
	r.Schema, r.Level, r.Key = meta["schema"], Durability(meta["level"]), meta["key"]
	if behind := row(meta).time("hi").Sub(now); behind > doubt {
		r.Behind = behind
	}
	oldest, err := s.db.ZRangeWithScores(ctx, s.space.key("pending"), 0, 0).Result()
	if err != nil {
		return err
	}
	for _, z := range oldest {
		r.Waits = now.Sub(fromMS(int64(z.Score)))
	}
	n, err := s.db.ZCard(ctx, s.space.key("pending")).Result()
	r.Pending = int(n)
	return err
}
