package store

import (
	"crypto/rand"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/approvalbot/approvalbot/store/redistest"
	"github.com/approvalbot/approvalbot/store/storetest"
)

// TestMain keeps the library from telling of the outages that tests make.
func TestMain(m *testing.M) {
	logging.Disable()
	m.Run()
}

func TestMemory(t *testing.T) {
	t.Parallel()
	storetest.Run(t, memoryUnderTest)
	t.Run("fail-over", func(t *testing.T) {
		t.Parallel()
		storetest.RunFailOver(t, memoryUnderTest)
	})
}

func TestServer(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	storetest.Run(t, func(t *testing.T) *storetest.Store {
		t.Helper()
		return serverUnderTest(t, server)
	})
}

func TestServerFailOver(t *testing.T) {
	t.Parallel()
	storetest.RunFailOver(t, func(t *testing.T) *storetest.Store {
		t.Helper()
		server := redistest.Start(t)
		s := serverUnderTest(t, server)
		s.FailOver = func(*testing.T) { server.Restart() }
		return s
	})
}

// memoryUnderTest is a store in memory whose clock tests set.
func memoryUnderTest(t *testing.T) *storetest.Store {
	t.Helper()
	s, server, err := newMemory(Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { checkIndexes(t, s); shut(t, s) })
	now := time.Now()
	server.SetTime(now)
	return &storetest.Store{
		Store: s,
		Brief: time.Hour,
		Advance: func(_ *testing.T, d time.Duration) {
			now = now.Add(d)
			server.SetTime(now)
		},
		FailOver:   func(*testing.T) { s.incarnation = rand.Text() },
		ResetClock: func(t *testing.T) { resetClock(t, s) },
	}
}

// serverUnderTest is a space of its own on a real server.
func serverUnderTest(t *testing.T, server *redistest.Server) *storetest.Store {
	t.Helper()
	return spaceUnderTest(t, Server{Addrs: []string{server.Addr}})
}

// spaceUnderTest is a space of its own wherever c leads. Time passes by itself.
func spaceUnderTest(t *testing.T, c Server) *storetest.Store {
	t.Helper()
	s, err := Open(t.Context(), Config{Redis: c, Durability: Strict, Space: strings.ToLower(rand.Text())})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { checkIndexes(t, s); shut(t, s) })
	return &storetest.Store{
		Store: s,
		Brief: 1500 * time.Millisecond,
		Advance: func(t *testing.T, d time.Duration) {
			t.Helper()
			if d < 0 || d > 2*time.Second {
				t.Skip("needs a clock that can be set")
			}
			wait(t, s, d)
		},
		ResetClock: func(t *testing.T) { resetClock(t, s) },
	}
}

func shut(t *testing.T, s *Redis) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func resetClock(t *testing.T, s *Redis) {
	t.Helper()
	if err := s.ResetClock(t.Context(), "root"); err != nil {
		t.Fatal(err)
	}
}

// wait polls until d has passed on the store's clock.
func wait(t *testing.T, s *Redis, d time.Duration) {
	t.Helper()
	db, err := s.node(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for start := now(t, db); now(t, db).Sub(start) <= d; {
		// Each round blocks in Redis, not here, and ends when time has passed.
		if err := db.Do(t.Context(), "BLPOP", s.space.key("nothing"), "0.02").Err(); err != nil && !errors.Is(err, redis.Nil) {
			t.Fatal(err)
		}
	}
}

func now(t *testing.T, db *redis.Client) time.Time {
	t.Helper()
	at, err := db.Time(t.Context()).Result()
	if err != nil {
		t.Fatal(err)
	}
	return at
}
