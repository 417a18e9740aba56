//go:build unix

package history

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// play runs all clients at once. Each lives for a seeded while, is then killed
// and replaced, until one finds that enough was done.
func (r *run) play(network, socket string) {
	enough := time.AfterFunc(time.Duration(setting(r.T, "HISTORY_SECONDS", 10))*time.Second, func() { r.enough(socket) })
	defer enough.Stop()
	var wg sync.WaitGroup
	for slot := range clients {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(r.seed, 1+uint64(slot)))
			for life := 0; r.Context().Err() == nil; life++ {
				number := 1 + slot + life*clients
				done := r.client(role{
					Seed: r.seed, Client: number, Store: network, Counter: socket, Ops: r.ops,
					File: filepath.Join(r.dir, fmt.Sprintf("%03d.jsonl", number)),
				}, time.Duration(400+rng.IntN(3000))*time.Millisecond)
				if done {
					return
				}
			}
		})
	}
	wg.Wait()
}

// enough makes all clients end by themselves, on a machine too slow for all that
// was asked for.
func (r *run) enough(socket string) {
	counter := redis.NewClient(&redis.Options{Network: "unix", Addr: socket})
	defer counter.Close()
	if err := counter.IncrBy(r.Context(), counterKey, r.ops).Err(); err != nil {
		r.Error(err)
	}
}

// client runs one client process and kills it with SIGKILL when it has lived long
// enough, counted from when it is ready. It reports whether it ended by itself.
func (r *run) client(as role, life time.Duration) (done bool) {
	r.Helper()
	program, err := os.Executable()
	if err != nil {
		r.Error(err)
		return true
	}
	env, err := json.Marshal(as)
	if err != nil {
		r.Error(err)
		return true
	}
	var stderr bytes.Buffer
	cmd := exec.CommandContext(r.Context(), program)
	cmd.Env, cmd.Stderr = append(os.Environ(), roleEnv+"="+string(env)), &stderr
	_, err1 := cmd.StdinPipe() // open as long as we live: a client ends with its parent
	stdout, err2 := cmd.StdoutPipe()
	if err := cmp.Or(err1, err2, cmd.Start()); err != nil {
		r.Error(err)
		return true
	}
	out := bufio.NewReader(stdout)
	_, _ = out.ReadString('\n') // ready
	death := time.AfterFunc(life, func() { _ = cmd.Process.Kill() })
	_, _ = io.Copy(io.Discard, out) // until it has ended
	death.Stop()
	err = cmd.Wait()
	switch {
	case err == nil:
		return true
	case cmd.ProcessState.ExitCode() == -1: // by a signal
		r.killed.Add(1)
		return false
	}
	r.Errorf("client %d: %v\n%s", as.Client, err, stderr.String())
	return true
}

// startRedis runs a redis-server on a unix socket until the test ends.
func startRedis(t *testing.T) (socket string) {
	t.Helper()
	program, err := exec.LookPath("redis-server")
	switch {
	case err != nil && os.Getenv("CI") == "true":
		t.Fatal("no redis-server on the PATH; CI must test against a real one")
	case err != nil:
		t.Skip("no redis-server on the PATH: install redis-server 7.0 or later")
	}
	dir, err := os.MkdirTemp("", "redis") // t.TempDir is too long for a socket's path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket = filepath.Join(dir, "s")
	cmd := exec.Command(program, "--port", "0", "--unixsocket", socket, "--dir", dir, "--logfile", "log",
		"--appendonly", "yes", "--appendfsync", "everysec", "--save", "")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		if err := cmd.Wait(); err != nil {
			t.Errorf("redis-server: %v", err)
		}
	})
	db := redis.NewClient(&redis.Options{
		Network: "unix", Addr: socket, MaxRetries: 100, MinRetryBackoff: 5 * time.Millisecond, MaxRetryBackoff: 50 * time.Millisecond,
	})
	defer db.Close()
	if err := db.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	return socket
}
