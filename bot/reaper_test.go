package bot_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/approvalbot/approvalbot/bot"
	"github.com/approvalbot/approvalbot/gate"
)

// sweeps answers Sweep and Stale from scripts; an exhausted one has nothing due.
type sweeps struct {
	mu    sync.Mutex
	done  []int
	next  time.Duration
	err   error
	stale []gate.ID
	at    []time.Duration // since the beginning
	asked int
	begin time.Time
}

func (s *sweeps) Sweep(_ context.Context, n int) (int, time.Duration, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at = append(s.at, time.Since(s.begin))
	if s.err != nil {
		return 0, 0, s.err
	}
	if len(s.done) == 0 {
		return 0, s.next, nil
	}
	done := min(s.done[0], n)
	s.done = s.done[1:]
	return done, s.next, nil
}

func (s *sweeps) Stale(context.Context, int) ([]gate.ID, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	return s.stale, nil
}

func (s *sweeps) refresh(_ context.Context, id gate.ID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stale[0] != id {
		return errors.New("not the next one")
	}
	s.stale = s.stale[1:]
	return nil
}

func reap(t *testing.T, s *sweeps, d time.Duration) {
	t.Helper()
	s.begin = time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	(&bot.Reaper{Store: s, Refresh: s.refresh, Log: quiet}).Run(ctx)
}

func TestReaper(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]func(t *testing.T){
		"a full batch is followed by the next at once": func(t *testing.T) {
			s := &sweeps{done: []int{64, 64, 7}}
			reap(t, s, 100*time.Millisecond)
			if len(s.at) != 3 || s.at[2] != 0 {
				t.Errorf("sweeps at %v; want three at once", s.at)
			}
		},
		"it sleeps until the next is due": func(t *testing.T) {
			s := &sweeps{next: 300 * time.Millisecond}
			reap(t, s, time.Second)
			if len(s.at) != 4 || s.at[1] != 300*time.Millisecond {
				t.Errorf("sweeps at %v; want one each 300 ms", s.at)
			}
		},
		"with nothing due it looks about once a second": func(t *testing.T) {
			s := &sweeps{next: time.Hour}
			reap(t, s, time.Minute)
			if n := len(s.at); n < 48 || n > 76 {
				t.Errorf("%d sweeps in a minute; want about 60", n)
			}
		},
		"an error does not make it spin": func(t *testing.T) {
			s := &sweeps{err: errors.New("away")}
			reap(t, s, time.Minute)
			if n := len(s.at); n < 48 || n > 76 {
				t.Errorf("%d sweeps in a minute of errors; want about 60", n)
			}
		},
		"stale approvals are asked again at the start, and looked for afterwards": func(t *testing.T) {
			s := &sweeps{stale: []gate.ID{"a", "b"}}
			reap(t, s, 30*time.Second)
			if len(s.stale) != 0 || s.asked < 4 || s.asked > 8 {
				t.Errorf("%v left, looked %d times; want none left and a look every 5 s or so", s.stale, s.asked)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, tt)
		})
	}
}
