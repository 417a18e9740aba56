package store

import (
	"crypto/rand"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/approvalbot/approvalbot/store/storetest"
)

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
	server := startServer(t)
	storetest.Run(t, func(t *testing.T) *storetest.Store {
		t.Helper()
		return serverUnderTest(t, server)
	})
}

func TestServerFailOver(t *testing.T) {
	t.Parallel()
	storetest.RunFailOver(t, func(t *testing.T) *storetest.Store {
		t.Helper()
		server := startServer(t)
		s := serverUnderTest(t, server)
		s.FailOver = server.restart
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

// serverUnderTest is a space of its own on a real server, whose time passes by
// itself.
func serverUnderTest(t *testing.T, server *server) *storetest.Store {
	t.Helper()
	s, err := Open(t.Context(), Config{Redis: Server{Addrs: []string{server.addr}}, Durability: Strict, Space: strings.ToLower(rand.Text())})
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
			server.wait(t, s, d)
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

// server is a redis-server of the test's own.
type server struct {
	addr string
	dir  string
	args []string
	cmd  *exec.Cmd
}

// startServer runs a redis-server on a unix socket until the test ends.
func startServer(t testing.TB, args ...string) *server {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("no redis-server on the PATH; CI must test against a real one")
		}
		t.Skip("no redis-server on the PATH: install redis-server 7.0 or later")
	}
	dir, err := os.MkdirTemp("", "redis") // t.TempDir is too long for a socket's path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	s := &server{addr: filepath.Join(dir, "s"), dir: dir, args: args}
	s.start(t)
	t.Cleanup(func() { s.stop(t) })
	return s
}

func (s *server) start(t testing.TB) {
	t.Helper()
	args := append([]string{
		"--port", "0", "--unixsocket", s.addr, "--dir", s.dir, "--logfile", "log",
		"--appendonly", "yes", "--appendfsync", "no", "--save", "",
	}, s.args...)
	s.cmd = exec.Command("redis-server", args...)
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	db := s.client()
	defer db.Close()
	for db.Ping(t.Context()).Err() != nil {
		if t.Context().Err() != nil {
			t.Fatal("redis-server does not answer")
		}
	}
}

func (s *server) stop(t testing.TB) {
	t.Helper()
	if err := s.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Error(err)
	}
	if err := s.cmd.Wait(); err != nil {
		t.Errorf("redis-server: %v", err)
	}
}

// restart gives the server another incarnation, with all it had on disk.
func (s *server) restart(t *testing.T) {
	t.Helper()
	s.stop(t)
	s.start(t)
}

// client is a plain client that tries until the server is there.
func (s *server) client() *redis.Client {
	network := "tcp"
	if strings.HasPrefix(s.addr, "/") {
		network = "unix"
	}
	return redis.NewClient(&redis.Options{
		Network: network, Addr: s.addr, MaxRetries: 100, MinRetryBackoff: 5 * time.Millisecond, MaxRetryBackoff: 20 * time.Millisecond,
	})
}

// wait polls until d has passed on the store's clock.
func (s *server) wait(t *testing.T, store *Redis, d time.Duration) {
	t.Helper()
	db := s.client()
	defer db.Close()
	for start := now(t, db); now(t, db).Sub(start) <= d; {
		// Each round blocks in Redis, not here, and ends when time has passed.
		if err := db.Do(t.Context(), "BLPOP", store.space.key("nothing"), "0.02").Err(); err != nil && !errors.Is(err, redis.Nil) {
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
