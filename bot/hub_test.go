package bot_test

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/approvalbot/approvalbot/bot"
	"github.com/approvalbot/approvalbot/gate"
)

var quiet = slog.New(slog.DiscardHandler)

// fakeLog is a log in memory that can break, and forget.
type fakeLog struct {
	mu      sync.Mutex
	entries []gate.Entry
	broken  error
	more    chan struct{}
	reads   int
}

func newLog() *fakeLog { return &fakeLog{more: make(chan struct{})} }

func (l *fakeLog) Note(context.Context, gate.Entry) error { return nil }

func (l *fakeLog) write(id gate.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(l.entries) + 1
	l.entries = append(l.entries, gate.Entry{Pos: strconv.Itoa(n), N: int64(n), ID: id})
	close(l.more)
	l.more = make(chan struct{})
}

func (l *fakeLog) set(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.broken = err
}

func (l *fakeLog) Tail(context.Context) (string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strconv.Itoa(len(l.entries)), l.broken
}

func (l *fakeLog) Read(ctx context.Context, pos string, n int, block time.Duration) ([]gate.Entry, error) {
	until := time.NewTimer(block)
	defer until.Stop()
	for {
		l.mu.Lock()
		l.reads++
		from, _ := strconv.Atoi(pos)
		err, more := l.broken, l.more
		var out []gate.Entry
		if from < len(l.entries) {
			out = l.entries[from:min(from+n, len(l.entries))]
		}
		l.mu.Unlock()
		if err != nil || len(out) > 0 {
			return out, err
		}
		select {
		case <-more:
		case <-until.C:
			return nil, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// inBubble runs a hub on a log under synthetic time.
func inBubble(t *testing.T, f func(t *testing.T, l *fakeLog, h *bot.Hub)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := newLog()
		h := bot.NewHub(l, quiet)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { h.Run(ctx) })
		defer running.Wait()
		defer cancel()
		synctest.Wait()
		settleHub() // the first round wakes everyone
		f(t, l, h)
	})
}

// settleHub lets the hub finish waking everyone once.
func settleHub() {
	<-time.After(10 * time.Millisecond)
	synctest.Wait()
}

func woken(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestHub(t *testing.T) {
	t.Parallel()
	down := errors.New("connection lost")
	for name, tt := range map[string]func(t *testing.T, l *fakeLog, h *bot.Hub){
		"an entry wakes those who wait for it, all of them, and streams": func(t *testing.T, l *fakeLog, h *bot.Hub) {
			a, stopA := h.Watch("a")
			a2, stopA2 := h.Watch("a")
			b, stopB := h.Watch("b")
			stream, stopAny := h.Any()
			l.write("a")
			synctest.Wait()
			if !woken(a) || !woken(a2) || woken(b) || !woken(stream) {
				t.Error("want both waiters of a and the stream woken, and not b")
			}
			for _, stop := range []func(){stopA, stopA2, stopB, stopAny} {
				stop()
			}
			if n := h.Waiting(); n != 0 {
				t.Errorf("%d wait after all have left", n)
			}
		},
		"a waiter that does not look is never waited for": func(t *testing.T, l *fakeLog, h *bot.Hub) {
			a, stop := h.Watch("a")
			defer stop()
			for range 3 {
				l.write("a")
				synctest.Wait()
			}
			if !woken(a) || woken(a) {
				t.Error("want one wake-up that stands for three")
			}
		},
		"the one in the middle leaves and the others are still woken": func(t *testing.T, l *fakeLog, h *bot.Hub) {
			first, stopFirst := h.Watch("a")
			_, stopMiddle := h.Watch("a")
			last, stopLast := h.Watch("a")
			stopMiddle()
			l.write("a")
			synctest.Wait()
			if !woken(first) || !woken(last) {
				t.Error("a waiter was lost with its neighbour")
			}
			for n, stop := range []func(){stopFirst, stopLast} {
				if w := h.Waiting(); w != 2-n {
					t.Errorf("%d wait; want %d", w, 2-n)
				}
				stop()
			}
			_, stopA := h.Watch("b")
			_, stopB := h.Watch("b")
			stopA() // the older one first
			if w := h.Waiting(); w != 1 {
				t.Errorf("%d wait; want 1", w)
			}
			stopB()
			if w := h.Waiting(); w != 0 {
				t.Errorf("%d wait after all have left", w)
			}
		},
		"what was written while the log was away is not lost": func(t *testing.T, l *fakeLog, h *bot.Hub) {
			a, stop := h.Watch("a")
			defer stop()
			b, stopB := h.Watch("b")
			defer stopB()
			l.set(down)
			<-time.After(6 * time.Second) // the blocking read ends and finds it broken
			l.write("a")
			l.set(nil)
			<-time.After(3 * time.Second)
			synctest.Wait()
			if !woken(a) || !woken(b) {
				t.Error("after an error everyone must look again")
			}
		},
		"a gap wakes everyone and the tail goes on at the end": func(t *testing.T, l *fakeLog, h *bot.Hub) {
			a, stop := h.Watch("a")
			defer stop()
			l.set(gate.ErrGap)
			l.write("x")
			synctest.Wait()
			l.set(nil)
			<-time.After(3 * time.Second)
			synctest.Wait()
			if !woken(a) {
				t.Error("after a gap everyone must look again")
			}
			l.write("a")
			synctest.Wait()
			if !woken(a) {
				t.Error("the tail did not go on after the gap")
			}
		},
		"a number that is missing between two entries is a gap": func(t *testing.T, l *fakeLog, h *bot.Hub) {
			a, stop := h.Watch("a")
			defer stop()
			l.mu.Lock()
			l.entries = append(l.entries, gate.Entry{Pos: "1", N: 1, ID: "x"}, gate.Entry{Pos: "2", N: 3, ID: "x"})
			close(l.more)
			l.more = make(chan struct{})
			l.mu.Unlock()
			<-time.After(time.Second)
			if !woken(a) {
				t.Error("want everyone woken")
			}
		},
		"everyone looks again now and then without a reason": func(t *testing.T, _ *fakeLog, h *bot.Hub) {
			a, stop := h.Watch("a")
			defer stop()
			<-time.After(20 * time.Second)
			synctest.Wait()
			if !woken(a) {
				t.Error("no safety wake-up within 20 s")
			}
		},
		"waking everyone is paced, because each of them reads the store": func(t *testing.T, _ *fakeLog, h *bot.Hub) {
			var all []<-chan struct{}
			for i := range 1000 {
				c, stop := h.Watch(gate.ID(strconv.Itoa(i)))
				defer stop()
				all = append(all, c)
			}
			h.Everyone()
			synctest.Wait()
			n := 0
			for _, c := range all {
				if len(c) > 0 {
					n++
				}
			}
			if n == 0 || n > 100 {
				t.Errorf("%d woken at once; want a few", n)
			}
			<-time.After(time.Second)
			for _, c := range all {
				if !woken(c) {
					t.Fatal("one was never woken")
				}
			}
		},
		"a broken log is not asked in a loop": func(t *testing.T, l *fakeLog, _ *bot.Hub) {
			l.set(down)
			<-time.After(6 * time.Second)
			l.mu.Lock()
			before := l.reads
			l.mu.Unlock()
			<-time.After(time.Minute)
			l.mu.Lock()
			defer l.mu.Unlock()
			if n := l.reads - before; n < 20 || n > 60 {
				t.Errorf("%d reads in a minute; want one every two seconds or so", n)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, tt)
		})
	}
}
