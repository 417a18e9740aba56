//go:build unix

package redistest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Setup says what servers are like. The zero value is one without replicas, that
// keeps an append-only file which it does not sync.
type Setup struct {
	Args     []string // of redis-server, after those of this package
	TLS      *Certs   // nil: none; else the servers talk nothing but TLS
	Replicas int      // of each primary

	// DownAfter is when Sentinels, or the nodes of a Cluster, take one that is
	// silent for dead. 0 is longer than any test: fail-overs are on demand.
	DownAfter time.Duration
}

// Server is a redis-server, or a Sentinel. Its methods are for one goroutine at
// a time.
type Server struct {
	Addr  string // "127.0.0.1:port", or the path of a unix socket
	Proxy *Proxy // in front of a node of a group or Cluster, else nil

	t    testing.TB
	dir  string
	tls  *Certs
	args []string
	run  *process
}

// Start runs a server on a unix socket until the test ends.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	s := newServer(t, Setup{Args: args})
	s.Addr = filepath.Join(s.dir, "s")
	s.args = append([]string{"--port", "0", "--unixsocket", s.Addr}, s.args...)
	s.Start()
	return s
}

// StartTCP runs a server on a port of loopback until the test ends.
func StartTCP(t testing.TB, c Setup) *Server {
	t.Helper()
	s := newServer(t, c)
	s.listen()
	s.Start()
	return s
}

// newServer is a server that has nowhere to listen yet.
func newServer(t testing.TB, c Setup) *Server {
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
	s := &Server{t: t, dir: dir, tls: c.TLS}
	t.Cleanup(func() { s.Kill(); os.RemoveAll(dir) })
	s.args = append([]string{
		"--dir", dir, "--logfile", "log", "--appendonly", "yes", "--appendfsync", "no", "--save", "",
	}, c.Args...)
	return s
}

// listen gives the server a port.
func (s *Server) listen() {
	port := strconv.Itoa(freePort(s.t))
	s.Addr = net.JoinHostPort("127.0.0.1", port)
	where := []string{"--bind", "127.0.0.1", "--port", port}
	if s.tls != nil {
		where = append(s.tls.args(), "--bind", "127.0.0.1", "--port", "0", "--tls-port", port)
	}
	s.args = append(where, s.args...)
}

// freePort finds a port below those that the kernel gives to connections, which
// could take it while its server is down.
func freePort(t testing.TB) int {
	t.Helper()
	for range 1000 {
		port := 11_000 + rand.IntN(10_000) // the bus of a Cluster's node is 10,000 above
		if free(port) && free(port+10_000) {
			return port
		}
	}
	t.Fatal("no free port")
	return 0
}

func free(port int) bool {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err == nil {
		l.Close()
	}
	return err == nil
}

// Start runs the server, as it was, and waits until it answers.
func (s *Server) Start() {
	s.t.Helper()
	run, err := start(append([]string{"redis-server"}, s.args...))
	if err != nil {
		s.t.Fatal(err)
	}
	s.run = run
	db := s.Client()
	defer db.Close()
	eventually(s.t, "redis-server answers", func(ctx context.Context) bool {
		if s.run.ended() {
			s.t.Fatalf("redis-server did not start:\n%s", s.log())
		}
		err := db.Ping(ctx).Err()
		var said redis.Error
		return err == nil || errors.As(err, &said) && !redis.HasErrorPrefix(err, "LOADING")
	})
}

// Stop ends the server, which writes down what it has.
func (s *Server) Stop() {
	s.t.Helper()
	s.run.signal(syscall.SIGCONT, syscall.SIGTERM)
	if err := s.run.wait(); err != nil {
		s.t.Errorf("redis-server: %v\n%s", err, s.log())
	}
}

// Kill ends the server as kill -9 does. One that has ended stays so.
func (s *Server) Kill() {
	if s.run != nil {
		s.run.signal(syscall.SIGKILL)
		_ = s.run.wait() // it says that it was killed
	}
}

// Restart gives the server another incarnation, with all it had on disk.
func (s *Server) Restart() {
	s.t.Helper()
	s.Stop()
	s.Start()
}

// Freeze halts the server: it keeps its connections and says nothing, like a
// machine that hangs, until Thaw.
func (s *Server) Freeze() { s.run.signal(syscall.SIGSTOP) }

// Thaw lets a frozen server go on where it was.
func (s *Server) Thaw() { s.run.signal(syscall.SIGCONT) }

// Client is a plain client of the server itself, past any proxy, that tries
// until it is there. The caller closes it.
func (s *Server) Client() *redis.Client {
	opt := &redis.Options{
		Addr: s.Addr, MaxRetries: 100, MinRetryBackoff: 5 * time.Millisecond, MaxRetryBackoff: 20 * time.Millisecond,
		ContextTimeoutEnabled: true, DisableIdentity: true,
	}
	if strings.HasPrefix(s.Addr, "/") {
		opt.Network = "unix"
	}
	if s.tls != nil {
		opt.TLSConfig = s.tls.Config()
	}
	return redis.NewClient(opt)
}

// Do sends one command past any proxy, and fails the test if the server refuses it.
func (s *Server) Do(args ...any) any {
	s.t.Helper()
	db := s.Client()
	defer db.Close()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.t.Context()), patience)
	defer cancel()
	got, err := db.Do(ctx, args...).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		s.t.Fatalf("%v: %v\n%s", args, err, s.log())
	}
	return got
}

// info returns one line of what the server says of itself.
func (s *Server) info(section, name string) string {
	text, _ := s.Do("INFO", section).(string)
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// follows reports whether a node is a replica of another, and in touch with it.
func (s *Server) follows(primary *Server) bool {
	_, port := split(primary.announced())
	return s.info("replication", "master_port") == port && s.info("replication", "master_link_status") == "up"
}

// followedBy waits until another is a replica of this node.
func (s *Server) followedBy(other *Server) {
	s.t.Helper()
	eventually(s.t, "the old primary follows the new one", func(context.Context) bool { return other.follows(s) })
}

// announced is where others find the server: at its proxy, if it has one.
func (s *Server) announced() string {
	if s.Proxy != nil {
		return s.Proxy.Addr
	}
	return s.Addr
}

// log returns the end of what the server wrote.
func (s *Server) log() string {
	b, err := os.ReadFile(filepath.Join(s.dir, "log"))
	if err != nil {
		return fmt.Sprint(err)
	}
	lines := slices.Collect(strings.Lines(string(b)))
	return strings.Join(lines[max(0, len(lines)-20):], "")
}

// patience is how long a test waits for what must come: far longer than any
// machine needs.
const patience = 2 * time.Minute

// eventually asks until the answer is yes.
func eventually(t testing.TB, what string, ask func(context.Context) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ask(ctx) {
		select {
		case <-ctx.Done():
			t.Fatalf("it never came that %s", what)
		case <-tick.C:
		}
	}
}
