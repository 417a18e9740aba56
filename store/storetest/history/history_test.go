//go:build unix

// Package history checks that the store does one thing at a time, whatever
// happens around it. Many processes run the real gate and the real store against
// one Redis through a network that loses what it carries, and are killed in the
// middle of what they do. Everything they call and are answered is written
// down; porcupine then looks for an order of all calls in which each answer is
// one that gate's table of moves allows.
//
// A failure names its seed. HISTORY_SEED runs one seed again, HISTORY_RUNS and
// HISTORY_OPS run more and longer: see `make histories`.
package history

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/redis/go-redis/v9"

	"github.com/approvalbot/approvalbot/gate"
	"github.com/approvalbot/approvalbot/store"
)

func TestMain(m *testing.M) {
	env := os.Getenv(roleEnv)
	if env == "" {
		m.Run()
		return
	}
	if err := play(env); err != nil {
		panic(err)
	}
}

const clients = 5

func TestHistories(t *testing.T) {
	t.Parallel()
	seed := uint64(setting(t, "HISTORY_SEED", time.Now().UnixNano()))
	for i := range setting(t, "HISTORY_RUNS", 2) {
		seed := seed + uint64(i)
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			(&run{T: t, seed: seed, ops: setting(t, "HISTORY_OPS", 1500)}).check()
		})
	}
}

// setting is a number from the environment.
func setting(t *testing.T, name string, fallback int64) int64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return fallback
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// run is one history from its making to its judgement.
type run struct {
	*testing.T
	seed uint64
	ops  int64
	dir  string // of the clients' files

	killed int
	mu     sync.Mutex
}

func (r *run) check() {
	r.Logf("HISTORY_SEED=%d HISTORY_RUNS=1 HISTORY_OPS=%d", r.seed, r.ops)
	r.dir = r.TempDir()
	socket := startRedis(r.T)
	db := r.store(socket)
	if _, err := db.Heartbeat(r.Context(), "replica-0", r.policy()); err != nil {
		r.Fatal(err)
	}
	before, start := offset(), time.Now()
	network := startProxy(r.T, socket, faults(rand.New(rand.NewPCG(r.seed, 0))))
	r.play(network.addr, socket)
	played := time.Since(start)
	finals := r.finals(db)
	after := offset()
	ops, err := read(r.dir)
	if err != nil {
		r.Fatal(err)
	}
	entries := r.log(db)
	r.Logf("%d calls, %d log entries, %d clients killed, played in %v", len(ops), len(entries), r.killed, played)

	start = time.Now()
	told := readLog(r.T, entries)
	holdAgainst(r.T, told, ops)
	holdPresses(r.T, ops)
	for i := range finals {
		holdTimes(r.T, &finals[i])
	}
	r.Logf("log checked in %v", time.Since(start))
	start = time.Now()
	r.linearize(ops, clock{
		offset: (before + after) / 2,
		slack:  max(before-after, after-before) + int64(5*time.Millisecond), // Redis and scripts cut to ms
	})
	r.Logf("linearized in %v", time.Since(start))
}

// offset is how much the clock that Redis goes by is ahead of ours.
func offset() int64 { return time.Now().UnixNano() - monotonic() }

func (r *run) store(addr string) *store.Redis {
	r.Helper()
	db, err := open(r.Context(), addr)
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { _ = db.Close() })
	return db
}

func (r *run) policy() gate.Version {
	r.Helper()
	p, problems := newPolicy()
	if len(problems) > 0 {
		r.Fatal(problems)
	}
	return p.Version()
}

// play runs all clients at once. Each lives for a seeded while, is then killed
// and replaced, until one finds that enough was done.
func (r *run) play(network, socket string) {
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

// client runs one client process for at most life, counted from when it is
// ready. It reports whether the client ended by itself.
func (r *run) client(as role, life time.Duration) (done bool) {
	r.Helper()
	env, err := json.Marshal(as)
	if err != nil {
		r.Error(err)
		return true
	}
	cmd := exec.CommandContext(r.Context(), os.Args[0]) // killed with SIGKILL
	cmd.Env = append(os.Environ(), roleEnv+"="+string(env))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	leash, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := cmp.Or(err1, err2, cmd.Start()); err != nil {
		r.Error(err)
		return true
	}
	defer leash.Close()
	ended := make(chan struct{})
	var killed sync.WaitGroup
	shot := false
	_, _ = out.Read(make([]byte, len("ready")))
	killed.Go(func() {
		pause(ended, life)
		select {
		case <-ended:
		default:
			shot = cmd.Process.Kill() == nil
		}
	})
	_, _ = out.Read(make([]byte, 16)) // the rest of the line
	for buf := make([]byte, 16); ; {
		if _, err := out.Read(buf); err != nil {
			break
		}
	}
	close(ended)
	killed.Wait()
	err = cmd.Wait()
	if err != nil && !shot {
		r.Errorf("client %d: %v\n%s", as.Client, err, stderr.String())
		return true
	}
	if err != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.killed++
	}
	return err == nil
}

// finals reads everything once more when all is quiet, as one more client.
func (r *run) finals(db *store.Redis) (all []gate.Snapshot) {
	r.Helper()
	f, err := os.Create(filepath.Join(r.dir, "final.jsonl"))
	if err != nil {
		r.Fatal(err)
	}
	defer f.Close()
	rec := &recorder{Store: db, w: f}
	for cursor := ""; ; {
		page, err := db.List(r.Context(), gate.Query{Cursor: cursor, Limit: 500})
		if err != nil {
			r.Fatal(err)
		}
		for i := range page.Rows {
			s, err := rec.Get(r.Context(), page.Rows[i].ID)
			if err != nil {
				r.Fatal(err)
			}
			all = append(all, s)
		}
		if cursor = page.Next; cursor == "" {
			return all
		}
	}
}

func (r *run) log(db *store.Redis) (all []gate.Entry) {
	r.Helper()
	for pos := ""; ; {
		entries, err := db.Read(r.Context(), pos, 1000, 0)
		if err != nil {
			r.Fatal(err)
		}
		if len(entries) == 0 {
			return all
		}
		all = append(all, entries...)
		pos = entries[len(entries)-1].Pos
	}
}

// linearize looks, for each approval by itself, for an order of all calls that
// explains every answer.
func (r *run) linearize(ops []*op, c clock) {
	r.Helper()
	m, parts := model(c), split(ops)
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		history := operations(parts[name])
		result, info := porcupine.CheckOperationsVerbose(m, history, time.Minute)
		if result == porcupine.Ok {
			continue
		}
		r.Errorf("%s: %s; no order of these calls explains their answers:\n%s", name, result, describe(parts[name]))
		file := filepath.Join(r.ArtifactDir(), strings.ReplaceAll(name, "/", "_")+".html")
		if err := porcupine.VisualizePath(m, info, file); err != nil {
			r.Error(err)
		}
	}
}

// split sorts calls by the approval they are about: the one that a key names,
// or that has the id.
func split(ops []*op) map[string][]*op {
	names := map[gate.ID]string{}
	for _, o := range ops {
		if o.Method == "open" && o.Key != "" {
			names[o.ID] = o.Key
		}
	}
	parts := map[string][]*op{}
	for _, o := range ops {
		silent := o.answer == nil && (o.Method == "get" || o.Method == "find")
		if o.Method == dispatch || o.Method == press || silent {
			continue
		}
		name := cmp.Or(o.Key, names[o.ID], string(o.ID))
		parts[name] = append(parts[name], o)
	}
	return parts
}

func operations(ops []*op) (out []porcupine.Operation) {
	for _, o := range ops {
		out = append(out, porcupine.Operation{ClientId: o.client, Input: o, Call: o.from, Return: o.to})
	}
	return out
}

func describe(ops []*op) string {
	var b strings.Builder
	for _, o := range ops {
		to := "    never"
		if o.to != forever {
			to = fmt.Sprintf("%9d", (o.to-ops[0].from)/1000)
		}
		fmt.Fprintf(&b, "%9d -%s us  client %3d  %s\n", (o.from-ops[0].from)/1000, to, o.client, o)
	}
	return b.String()
}

// String is a call and its answer on one line.
func (o *op) String() string {
	c := o.call
	if c.Opening != nil { // of which most is the same everywhere
		short := *c.Opening
		short.Subject = gate.Subject{}
		c.Opening = &short
	}
	if c.Ballot != nil {
		short := *c.Ballot
		short.Digest = gate.Digest{}
		short.Vote = gate.Vote{Voter: gate.Voter{Person: short.Vote.Voter.Person}, Choice: short.Vote.Choice, Nonce: short.Vote.Nonce}
		c.Ballot = &short
	}
	return compact(c) + " -> " + compact(o.answer)
}

func compact(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return digests.ReplaceAllString(string(b), "")
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

// digests are 32 numbers in JSON, and tell a reader nothing.
var digests = regexp.MustCompile(`,?"Digest":\[[0-9,]+\]`)
