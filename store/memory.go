package store

import (
	"context"
	"crypto/rand"
	"errors"
	"net"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

// OpenMemory makes a store that lives and dies with this process, for demos and
// tests: the same scripts on an in-process server that no other process can
// reach.
func OpenMemory(ctx context.Context, c Config) (*Redis, error) {
	s, _, err := newMemory(c)
	if err != nil {
		return nil, err
	}
	if err := s.probe(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func newMemory(c Config) (*Redis, *miniredis.Miniredis, error) {
	server := miniredis.NewMiniRedis()
	server.ClockTTL(true)
	c.Durability, c.WaitReplicas = Strict, 0
	opt := redis.Options{Dialer: func(context.Context, string, string) (net.Conn, error) { return server.Dial() }}
	tame(&opt)
	s, err := newRedis(c, alone(opt))
	if err != nil {
		return nil, nil, err
	}
	s.memory, s.incarnation = true, rand.Text() // it has no INFO replication to ask
	s.scripts.free, s.scripts.most = 32, 1      // its connections hold no bytes: a batch would wait for itself
	s.stop = server.Close
	return s, server, nil
}
