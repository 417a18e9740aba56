package bot

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/approvalbot/approvalbot/gate"
)

// Hub wakes those who wait for approvals to change. It reads the log of one
// space once, however many wait: Run is that one reader. A wake-up says only
// "look again"; the store is the truth. It implements gate.Watcher and is safe
// for concurrent use.
type Hub struct {
	log    gate.Log
	logger *slog.Logger

	mu      sync.Mutex
	waiters map[gate.ID]*waiter // the first of a list
	streams map[chan struct{}]struct{}
	ready   map[chan struct{}]struct{} // of those who run what is approved

	everyone chan struct{} // asks to wake all waiters
}

// waiter is one of those who wait for an approval.
type waiter struct {
	changed    chan struct{}
	prev, next *waiter
}

// NewHub makes a hub on a log. Nothing wakes until it runs.
func NewHub(log gate.Log, logger *slog.Logger) *Hub {
	return &Hub{
		log: log, logger: logger,
		waiters: map[gate.ID]*waiter{}, streams: map[chan struct{}]struct{}{}, ready: map[chan struct{}]struct{}{}, everyone: make(chan struct{}, 1),
	}
}

// Watch implements gate.Watcher.
func (h *Hub) Watch(id gate.ID) (changed <-chan struct{}, stop func()) {
	w := &waiter{changed: make(chan struct{}, 1)}
	h.mu.Lock()
	defer h.mu.Unlock()
	if first := h.waiters[id]; first != nil {
		w.next, first.prev = first, w
	}
	h.waiters[id] = w
	return w.changed, func() { h.forget(id, w) }
}

func (h *Hub) forget(id gate.ID, w *waiter) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if w.next != nil {
		w.next.prev = w.prev
	}
	switch {
	case w.prev != nil:
		w.prev.next = w.next
	case w.next != nil:
		h.waiters[id] = w.next
	default:
		delete(h.waiters, id)
	}
}

// Waiting returns how many wait for an approval, for metrics.
func (h *Hub) Waiting() (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, w := range h.waiters {
		for ; w != nil; w = w.next {
			n++
		}
	}
	return n
}

// Any returns a channel that receives after anything in the log, for those who
// read the log themselves and need to know when.
func (h *Hub) Any() (changed <-chan struct{}, stop func()) { return h.enlist(h.streams) }

// Ready returns a channel that receives after a call may have become ready to run:
// it was approved, or given back.
func (h *Hub) Ready() (ready <-chan struct{}, stop func()) { return h.enlist(h.ready) }

func (h *Hub) enlist(list map[chan struct{}]struct{}) (<-chan struct{}, func()) {
	c := make(chan struct{}, 1)
	h.mu.Lock()
	defer h.mu.Unlock()
	list[c] = struct{}{}
	return c, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(list, c)
	}
}

// Everyone wakes all who wait, soon and not all at once: something has changed
// that is in no log, such as that this replica is about to stop.
func (h *Hub) Everyone() { wake(h.everyone) }

// wake never blocks: a channel that is full already says "look again".
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (h *Hub) wake(entries []gate.Entry) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range entries {
		if e.To == gate.Approved {
			for c := range h.ready {
				wake(c)
			}
		}
		for w := h.waiters[e.ID]; w != nil; w = w.next {
			wake(w.changed)
		}
	}
	for c := range h.streams {
		wake(c)
	}
}

// How the tail is read.
const (
	tailBatch  = 512
	tailBlock  = 5 * time.Second
	safety     = 15 * time.Second // everyone looks again at least this often, jitter aside
	firstRetry = 50 * time.Millisecond
	lastRetry  = 2 * time.Second
)

// Run follows the log until ctx ends. It goes on where it stopped, whatever
// happens to its connection; where it may have missed something, everyone who
// waits looks again.
func (h *Hub) Run(ctx context.Context) {
	var done sync.WaitGroup
	done.Go(func() { h.wakeEveryone(ctx) })
	defer done.Wait()

	pos, missed, retry := "", true, firstRetry
	for ctx.Err() == nil {
		at, err := h.follow(ctx, pos, missed)
		switch {
		case err == nil:
			if pos, retry = at, firstRetry; missed {
				missed = false
				h.Everyone()
			}
		case errors.Is(err, gate.ErrGap) && pos != "":
			pos, missed = "", true // this place is gone: begin at the end again
			pause(ctx, firstRetry) // but not in a loop
		case ctx.Err() == nil:
			missed = true
			h.logger.WarnContext(ctx, "log not readable, waiters are not woken", "err", err, "retry_in", retry)
			pause(ctx, jitter(retry))
			retry = min(2*retry, lastRetry)
		}
	}
}

// follow takes one step along the log and returns where it stands then. From no
// position it goes to the end; after an error it does not wait there, so that
// Run knows at once that the log can be read again.
func (h *Hub) follow(ctx context.Context, pos string, missed bool) (string, error) {
	if pos == "" {
		return h.log.Tail(ctx)
	}
	block := tailBlock
	if missed {
		block = 0
	}
	entries, err := h.log.Read(ctx, pos, tailBatch, block)
	if err != nil || len(entries) == 0 {
		return pos, err
	}
	h.wake(entries)
	for i := 1; i < len(entries); i++ {
		if entries[i].N != entries[i-1].N+1 {
			return pos, gate.ErrGap
		}
	}
	return entries[len(entries)-1].Pos, nil
}

// wakeEveryone is the safety net under the log: when something may have been
// missed, and now and then without a reason. It paces itself, because every
// waiter that wakes reads the store.
func (h *Hub) wakeEveryone(ctx context.Context) {
	const atOnce, rest = 32, 2 * time.Millisecond
	for {
		timer := time.NewTimer(jitter(safety))
		select {
		case <-h.everyone:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		for i, c := range h.all() {
			if wake(c); i%atOnce == atOnce-1 {
				pause(ctx, rest)
			}
			if ctx.Err() != nil {
				return
			}
		}
		if ctx.Err() != nil {
			return
		}
	}
}

func (h *Hub) all() []chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := make([]chan struct{}, 0, len(h.waiters)+len(h.streams)+len(h.ready))
	for c := range h.streams {
		all = append(all, c)
	}
	for c := range h.ready {
		all = append(all, c)
	}
	for _, w := range h.waiters {
		for ; w != nil; w = w.next {
			all = append(all, w.changed)
		}
	}
	return all
}

// jitter keeps replicas from doing the same at the same moment: d ± 20 %.
func jitter(d time.Duration) time.Duration {
	return d*4/5 + rand.N(d*2/5) //nolint:gosec // nothing to guess
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
