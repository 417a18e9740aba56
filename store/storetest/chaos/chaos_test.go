//go:build linux

// Package chaos checks what is promised when everything breaks at once. Real
// processes (servers with reaper, cards and a runner; workers; people who press
// buttons; agents) use the real gate and the real store against a real Redis, while
// a nemesis kills and freezes them, spoils their network, kills Redis, promotes
// replicas that have not everything, and turns clocks back. When all is mended
// and quiet, what they wrote down is held against what was really run, what is
// stored, and what stands in the chat:
//
//   - no approval is dispatched twice, and none without enough people who approved
//     that very call, nor after one was told that it is denied;
//   - only the holder of the last lease dispatches, and what was refused spent nothing;
//   - every approval ends, and every card says how;
//   - where Redis keeps what it acknowledged, every answer fits one order of all
//     that was done (porcupine), and no decision is lost.
//
// A failure names its seed and keeps what was written down. The seed decides the
// topology, the faults and what is tried, though not how processes interleave: run it
// more than once. `make chaos` runs many, `make chaos-breaks` breaks the gate and sees
// that it is noticed. The environment:
//
//	CHAOS_SEED       of the first history; each next one has the next
//	CHAOS_HISTORIES  how many; one of each topology if not said
//	CHAOS_PARALLEL   how many at once: most of a history is waiting
//	CHAOS_TOPOLOGY   one of topologies by its name, for all of them
//	CHAOS_SECONDS    after which none begins
//	CHAOS_STOP=1     none begins after a violation
//	CHAOS_STRICT=1   what is known not to be kept yet is a violation, too: see known
//	CHAOS_DIR        where histories are kept
package chaos

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9/logging"
)

func TestMain(m *testing.M) {
	logging.Disable() // the Redis client returns every error that it writes
	env := os.Getenv(roleEnv)
	if env == "" {
		flag.Parse()
		_ = flag.Set("test.parallel", "100") // histories mostly wait; CHAOS_PARALLEL says how many do at once
		m.Run()
		return
	}
	if err := play(env); err != nil {
		panic(err)
	}
}

// How long things take. A history rages and then settles; most of that is waiting
// for leases and deadlines, so many run at once.
const (
	rageFor  = 5 * time.Second
	patience = 2 * time.Minute // for all to settle: far longer than it takes
)

func TestChaos(t *testing.T) {
	t.Parallel()
	seed := uint64(setting(t, "CHAOS_SEED", time.Now().UnixNano()/1e6))
	count := setting(t, "CHAOS_HISTORIES", int64(len(topologies)))
	slots := make(chan struct{}, setting(t, "CHAOS_PARALLEL", int64(len(topologies))))
	total := &tally{begun: time.Now(), count: count, most: time.Duration(setting(t, "CHAOS_SECONDS", 1e6)) * time.Second}
	t.Cleanup(func() {
		if total.histories > 0 && total.dispatched == 0 {
			t.Error("nothing was dispatched in any history: nothing was shown")
		}
	})
	for i := range count {
		seed := seed + uint64(i)
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			slots <- struct{}{}
			defer func() { <-slots }()
			if total.enough() {
				t.Skip("enough was found, or the time is over")
			}
			h := &history{T: t, seed: seed}
			defer total.add(h)
			h.run()
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

// tally is what all histories were, together: one in which nothing happened
// proves nothing.
type tally struct {
	begun time.Time
	count int64
	most  time.Duration // after which no history begins

	mu        sync.Mutex
	histories int64
	failed    int
	stats
}

type stats struct{ faults, ops, approvals, dispatched, successors, forgiven int }

func (s *stats) String() string {
	return fmt.Sprintf("%d faults, %d operations, %d approvals, %d dispatched, %d asked again, %d of the known faults",
		s.faults, s.ops, s.approvals, s.dispatched, s.successors, s.forgiven)
}

// add counts a history and says now and then how far all are.
func (all *tally) add(h *history) {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.histories++
	all.faults += h.stats.faults
	all.ops += h.stats.ops
	all.approvals += h.stats.approvals
	all.dispatched += h.stats.dispatched
	all.successors += h.stats.successors
	all.forgiven += h.stats.forgiven
	if h.Failed() {
		all.failed++
	}
	if all.histories%10 == 0 || all.histories == all.count {
		fmt.Fprintf(os.Stderr, "chaos: %d of %d histories in %v, %d with violations: %s\n",
			all.histories, all.count, time.Since(all.begun).Round(time.Second), all.failed, all.String())
	}
}

// enough reports whether no further history is wanted: a violation was found and
// CHAOS_STOP is set, or the time is over.
func (all *tally) enough() bool {
	all.mu.Lock()
	defer all.mu.Unlock()
	return time.Since(all.begun) > all.most || all.failed > 0 && os.Getenv("CHAOS_STOP") != ""
}
