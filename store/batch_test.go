package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/approvalbot/approvalbot/gate"
)

// watcher tells how large each batch is.
type watcher struct{ sizes chan int }

func (w watcher) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (w watcher) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (w watcher) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		w.sizes <- len(cmds)
		return next(ctx, cmds)
	}
}

// TestABatch holds the only line: what comes meanwhile goes together, each caller
// gets the answer to its own, and of one who left nothing is sent.
func TestABatch(t *testing.T) {
	t.Parallel()
	s, _ := openServer(t)
	w := watcher{make(chan int, 1)}
	s.db.(*redis.Client).AddHook(w)
	s.scripts.free = 0 // the test has the only line
	var wg sync.WaitGroup
	note := func(ctx context.Context, text string) {
		wg.Go(func() {
			err := s.Note(ctx, gate.Entry{Event: "rule_changed", Note: text})
			if !errors.Is(err, ctx.Err()) {
				t.Errorf("Note(%s) = %v, want %v", text, err, ctx.Err())
			}
		})
	}
	note(t.Context(), "first")
	gone, leave := context.WithCancel(t.Context())
	note(gone, "gone")
	for i := range 9 {
		wg.Go(func() {
			o := benchOpening(gate.ID(fmt.Sprintf("apr_%d", i)))
			if got, err := s.Open(t.Context(), o); err != nil || got.ID != o.ID {
				t.Errorf("Open(%s) = %+v, %v", o.ID, got, err)
			}
		})
	}
	note(t.Context(), "second")
	for s.waiting() < 12 {
		select {
		case <-t.Context().Done():
			t.Fatal("not all came")
		default:
		}
	}
	leave()
	s.scripts.release(t.Context())
	if n := <-w.sizes; n != 11 {
		t.Errorf("%d were sent together, want 11", n)
	}
	wg.Wait()
	var noted []string
	all, err := s.Read(t.Context(), "", 20, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		if e.ID == "" {
			noted = append(noted, e.Note)
		}
	}
	slices.Sort(noted)
	if !slices.Equal(noted, []string{"first", "second"}) {
		t.Errorf("noted %q, want the first and the second", noted)
	}
}

// TestALineIsTakenByOneAtATime: without it nobody would ever come together.
func TestALineIsTakenByOneAtATime(t *testing.T) {
	t.Parallel()
	b := &batcher{free: 1, most: 64}
	for i, want := range []bool{false, true} {
		if _, queued := b.enqueue(t.Context(), noteScript, nil, nil); queued != want {
			t.Errorf("request %d is queued: %t, want %t", i+1, queued, want)
		}
	}
}

// TestABatchOnANewServer sends a batch of scripts that the server does not know,
// as after a restart.
func TestABatchOnANewServer(t *testing.T) {
	t.Parallel()
	s, db := openServer(t)
	s.scripts.free = 0 // the test has the only line
	var wg sync.WaitGroup
	for i := range 5 {
		wg.Go(func() {
			if err := s.Note(t.Context(), gate.Entry{Event: "rule_changed", Note: fmt.Sprint(i)}); err != nil {
				t.Errorf("Note = %v", err)
			}
		})
	}
	for s.waiting() < 5 {
		if t.Context().Err() != nil {
			t.Fatal("not all came")
		}
	}
	if err := db.ScriptFlush(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	s.scripts.release(t.Context())
	wg.Wait()
}

func (s *Redis) waiting() int { return waitingFor(s.scripts) }

func waitingFor(b *batcher) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.waiting)
}
