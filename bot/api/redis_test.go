package api_test

import (
	"context"
	"net"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// redisServer is a Redis of its own that a test may stop and start.
type redisServer struct {
	addr, folder string
	cmd          *exec.Cmd
}

// startRedis starts a Redis whose data outlives it.
func startRedis(t testing.TB) *redisServer {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("redis-server is missing: apt-get install redis-server")
		}
		t.Skip("redis-server is missing: apt-get install redis-server")
	}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &redisServer{addr: listener.Addr().String(), folder: t.TempDir()}
	_ = listener.Close()
	r.start(t)
	t.Cleanup(func() { r.stop(t) })
	return r
}

func (r *redisServer) start(t testing.TB) {
	t.Helper()
	_, port, _ := net.SplitHostPort(r.addr)
	r.cmd = exec.CommandContext(context.WithoutCancel(t.Context()), "redis-server",
		"--bind", "127.0.0.1", "--port", port, "--dir", r.folder, "--save", "", "--appendonly", "yes", "--appendfsync", "no")
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	db := r.client()
	defer func() { _ = db.Close() }()
	eventually(t, func() bool { return db.Ping(context.WithoutCancel(t.Context())).Err() == nil })
}

func (r *redisServer) client() *redis.Client {
	return redis.NewClient(&redis.Options{Addr: r.addr, MaxRetries: -1, DialerRetries: 1, DialTimeout: time.Second})
}

// stop kills it.
func (r *redisServer) stop(t testing.TB) {
	t.Helper()
	if err := r.cmd.Process.Kill(); err == nil {
		_ = r.cmd.Wait()
	}
}
