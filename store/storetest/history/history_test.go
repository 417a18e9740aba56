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
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

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

// maxTries is how many histories are played for one that can be judged: on a busy
// machine so many calls overlap that no search ends.
const maxTries = 3

func TestHistories(t *testing.T) {
	t.Parallel()
	seed := uint64(setting(t, "HISTORY_SEED", time.Now().UnixNano()))
	for i := range setting(t, "HISTORY_RUNS", 2) {
		seed := seed + uint64(i)
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			for try := uint64(1); ; try++ {
				undecided := (&run{T: t, seed: seed, ops: setting(t, "HISTORY_OPS", 2000)}).check()
				if len(undecided) == 0 {
					return
				}
				if try == maxTries {
					t.Fatalf("the search for an order did not end for %q: nothing was shown", undecided)
				}
				t.Logf("the search for an order did not end for %q: another history is played", undecided)
				seed += 1_000_000
			}
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

	killed atomic.Int64
}

// check returns the approvals whose calls nobody could judge.
func (r *run) check() (undecided []string) {
	r.Helper()
	r.Logf("HISTORY_SEED=%d HISTORY_RUNS=1 HISTORY_OPS=%d", r.seed, r.ops)
	r.dir = filepath.Join(r.ArtifactDir(), fmt.Sprint(r.seed)) // kept with -artifacts
	if err := os.MkdirAll(r.dir, 0o700); err != nil {
		r.Fatal(err)
	}
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
	told := readLog(r.T, entries)
	r.Logf("played in %v: %s; %d log entries, %d clients killed", played, summary(ops, told), len(entries), r.killed.Load())

	holdAgainst(r.T, told, ops)
	holdPresses(r.T, ops)
	for id := range told {
		if s, ok := finals[id]; ok {
			holdTimes(r.T, &s)
		} else {
			r.Errorf("%s is in no list", id)
		}
	}
	start = time.Now()
	undecided = r.linearize(ops, clock{
		offset: (before + after) / 2,
		slack:  max(before-after, after-before) + int64(5*time.Millisecond), // Redis and scripts cut to ms
	})
	r.Logf("linearized in %v", time.Since(start))
	return undecided
}

// summary tells how much of everything there was: a history in which nothing
// happened proves nothing.
func summary(ops []*op, log map[gate.ID]*story) string {
	unknown, refused, dispatched := 0, 0, 0
	for _, o := range ops {
		switch {
		case o.answer == nil:
			unknown++
		case o.answer.No != nil:
			refused++
		}
	}
	for _, s := range log {
		if s.attempt != "" {
			dispatched++
		}
	}
	return fmt.Sprintf("%d calls, %d of them refused and %d without an answer; %d approvals, %d dispatched",
		len(ops), refused, unknown, len(log), dispatched)
}

// offset is how much the clock that Redis goes by is ahead of ours: the best of
// some looks at both, because one may be interrupted between the two.
func offset() (ahead int64) {
	for best, n := int64(forever), 0; n < 20; n++ {
		before := monotonic()
		now := time.Now().UnixNano()
		took := monotonic() - before
		if took < best {
			best, ahead = took, now-before
		}
	}
	return ahead
}

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

// finals reads everything once more when all is quiet, as one more client.
func (r *run) finals(db *store.Redis) map[gate.ID]gate.Snapshot {
	r.Helper()
	all := map[gate.ID]gate.Snapshot{}
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
			all[s.ID] = s
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
