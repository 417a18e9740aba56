package execute_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/approvalbot/approvalbot/bot/execute"
	"github.com/approvalbot/approvalbot/gate"
)

var quiet = slog.New(slog.DiscardHandler)

// desk is a gate that hands out calls, and writes down what it is asked.
type desk struct {
	mu       sync.Mutex
	left     int                     // calls that wait
	consume  func(n int) gate.Ruling // the n-th time it is asked, from 1; nil allows
	broken   func(n int) error
	report   func(n int) error
	attempts []string // of consumes
	reports  []gate.Reporting
	released int
	signs    int
	silence  error // what becomes of signs of life
}

func (d *desk) Claim(context.Context, string, string, string, time.Duration) (*gate.Work, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.left == 0 {
		return nil, nil
	}
	d.left--
	w := &gate.Work{}
	w.ID, w.Call = "apr_1", gate.Call{Tool: "restart"}
	return w, nil
}

func (d *desk) Consume(_ context.Context, s gate.Spending) (gate.Ruling, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.attempts = append(d.attempts, s.Attempt)
	if d.broken != nil {
		if err := d.broken(len(d.attempts)); err != nil {
			return gate.Ruling{}, err
		}
	}
	if d.consume != nil {
		return d.consume(len(d.attempts)), nil
	}
	return gate.Ruling{Verdict: gate.Allow}, nil
}

func (d *desk) Renew(context.Context, *gate.Work, time.Duration, time.Duration) (time.Time, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.signs++
	return time.Time{}, d.silence
}

func (d *desk) Release(context.Context, *gate.Work) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.released++
	return nil
}

func (d *desk) Report(_ context.Context, r gate.Reporting) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reports = append(d.reports, r)
	if d.report != nil {
		return d.report(len(d.reports))
	}
	return nil
}

// tool is an executor made of functions.
type tool struct {
	mu       sync.Mutex
	prepare  func() error
	run      func(context.Context) execute.Result
	ran      int
	dropped  int
	prepared int
}

func (x *tool) Prepare(context.Context, *execute.Job) (execute.Dispatch, error) {
	x.mu.Lock()
	x.prepared++
	x.mu.Unlock()
	if x.prepare != nil {
		if err := x.prepare(); err != nil {
			return nil, err
		}
	}
	return x, nil
}

func (x *tool) Run(ctx context.Context) execute.Result {
	x.mu.Lock()
	x.ran++
	x.mu.Unlock()
	if x.run != nil {
		return x.run(ctx)
	}
	return execute.Result{Outcome: gate.Executed, Text: "done"}
}

func (x *tool) Drop() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.dropped++
}

var away = &gate.Error{Kind: gate.Unavailable, Reason: gate.ReasonStoreUnavailable, Public: "down"}

func times(n int, err error) func(int) error {
	return func(i int) error {
		if i <= n {
			return err
		}
		return nil
	}
}

func TestRunner(t *testing.T) {
	t.Parallel()

	tests := map[string]*struct {
		desk     desk
		tool     tool
		ran      int
		consumed int    // how often it was asked, with one attempt; -1: many times
		outcome  string // "" if nothing is reported
		said     string
		reports  int // 0 means 1, if there is an outcome
		dropped  int
	}{
		"an approved call runs once and is reported": {ran: 1, consumed: 1, outcome: "executed", said: "done"},
		"what failed is reported as failed": {
			tool: tool{run: func(context.Context) execute.Result { return execute.Result{Outcome: gate.Failed, Text: "no space"} }},
			ran:  1, consumed: 1, outcome: "failed", said: "no space",
		},
		"what nobody knows is reported so": {
			tool: tool{run: func(context.Context) execute.Result { return execute.Result{Text: "cut off"} }},
			ran:  1, consumed: 1, outcome: "outcome_unknown", said: "cut off",
		},
		"what may not run does not": {
			desk:     desk{consume: func(int) gate.Ruling { return gate.Ruling{Verdict: gate.Block, Reason: gate.ReasonPolicyChanged} }},
			consumed: 1, dropped: 1,
		},
		"a ruling that says nothing is no": {
			desk: desk{consume: func(int) gate.Ruling { return gate.Ruling{} }}, consumed: 1, dropped: 1,
		},
		"a lost answer is asked for again by the same attempt": {
			desk: desk{broken: times(3, away)}, ran: 1, consumed: 4, outcome: "executed", said: "done",
		},
		"a store that stays away lets nothing run": {desk: desk{broken: times(1000, away)}, consumed: -1, dropped: 1},
		"a fenced one does not run":                {desk: desk{broken: times(1, &gate.Error{Kind: gate.Conflict, Reason: gate.ReasonFenced})}, consumed: 1, dropped: 1},
		"what cannot be prepared is not consumed":  {tool: tool{prepare: func() error { return errors.New("connection refused") }}},
		"what can never run this way is used up and not run": {
			tool:     tool{prepare: func() error { return &execute.Refusal{Public: "target begins with a dash"} }},
			consumed: 1, outcome: "failed", said: "not started: target begins with a dash",
		},
		"a panic before it runs is a refusal": {
			tool: tool{prepare: func() error { panic("boom") }}, consumed: 1, outcome: "failed", said: "not started: ",
		},
		"a panic while it runs is an unknown outcome": {
			tool: tool{run: func(context.Context) execute.Result { panic("boom") }}, ran: 1, consumed: 1, outcome: "outcome_unknown", said: "may have taken effect",
		},
		"a call that takes too long is stopped": {
			tool: tool{run: func(ctx context.Context) execute.Result { <-ctx.Done(); return execute.Result{Text: "stopped"} }},
			ran:  1, consumed: 1, outcome: "outcome_unknown", said: "stopped",
		},
		"a report is repeated until it is heard": {
			desk: desk{report: times(4, away)}, ran: 1, consumed: 1, outcome: "executed", said: "done", reports: 5,
		},
		"a report that is refused is not": {
			desk: desk{report: times(4, &gate.Error{Kind: gate.Conflict, Reason: gate.ReasonFenced})}, ran: 1, consumed: 1, outcome: "executed", said: "done",
		},
	}
	for name := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				tt := tests[name]
				d, x := &tt.desk, &tt.tool
				d.left = 1
				ctx, stop := context.WithCancel(t.Context())
				r := &execute.Runner{Name: "ops", Owner: "w", Executor: x, Gate: d, Timeout: time.Minute, AtOnce: 1, Log: quiet}
				done := make(chan struct{})
				go func() { defer close(done); r.Run(ctx) }()
				<-time.After(5 * time.Minute)
				stop()
				<-done

				if x.ran != tt.ran || x.dropped != tt.dropped {
					t.Errorf("ran %d times and dropped %d, want %d and %d", x.ran, x.dropped, tt.ran, tt.dropped)
				}
				if n := len(d.attempts); n != tt.consumed && (tt.consumed >= 0 || n < 10) || len(slices.Compact(d.attempts)) > 1 {
					t.Errorf("consumed %d times by attempts %v, want %d", n, slices.Compact(d.attempts), tt.consumed)
				}
				want := tt.reports
				if want == 0 && tt.outcome != "" {
					want = 1
				}
				if len(d.reports) != want {
					t.Fatalf("%d reports, want %d", len(d.reports), want)
				}
				for _, got := range d.reports {
					if string(got.Outcome) != tt.outcome || !strings.Contains(got.Result, tt.said) || got.Attempt != d.attempts[0] {
						t.Errorf("reported %s %q by %s, want %s %q", got.Outcome, got.Result, got.Attempt, tt.outcome, tt.said)
					}
				}
			})
		})
	}
}

func TestARunnerRunsManyAtOnceAndNoMore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ready := make(chan struct{}, 1)
		d := &desk{}
		x := &tool{run: func(context.Context) execute.Result {
			<-time.After(time.Second)
			return execute.Result{Outcome: gate.Executed}
		}}
		r := &execute.Runner{Name: "ops", Owner: "w", Executor: x, Gate: d, AtOnce: 4, Ready: ready, Log: quiet}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); r.Run(ctx) }()
		synctest.Wait()
		d.mu.Lock()
		d.left = 12
		d.mu.Unlock()
		ready <- struct{}{}
		<-time.After(2500 * time.Millisecond) // three rounds of four
		synctest.Wait()
		x.mu.Lock()
		if x.ran != 12 {
			t.Errorf("%d calls have begun, want 12", x.ran)
		}
		x.mu.Unlock()
		stop()
		<-done
	})
}

func TestWhatRunsMayFinishWhenTheProcessStops(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		takes time.Duration
		want  gate.State
	}{
		"what is done in time is reported": {5 * time.Second, gate.Executed},
		"what takes longer is unknown":     {time.Minute, gate.OutcomeUnknown},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				d := &desk{left: 2}
				x := &tool{run: func(ctx context.Context) execute.Result {
					select {
					case <-time.After(tt.takes):
						return execute.Result{Outcome: gate.Executed}
					case <-ctx.Done():
						return execute.Result{}
					}
				}}
				r := &execute.Runner{Name: "ops", Owner: "w", Executor: x, Gate: d, AtOnce: 1, Log: quiet}
				ctx, stop := context.WithCancel(t.Context())
				done := make(chan struct{})
				go func() { defer close(done); r.Run(ctx) }()
				<-time.After(time.Second)
				stop()
				<-done
				if len(d.reports) != 1 || d.reports[0].Outcome != tt.want || d.left != 1 {
					t.Errorf("reports %+v, %d calls left; want %s, and 1", d.reports, d.left, tt.want)
				}
			})
		})
	}
}

func TestACallThatCannotBePreparedIsGivenBackWhenTheProcessStops(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		d := &desk{left: 1}
		x := &tool{prepare: func() error { stop(); return errors.New("cut off") }}
		(&execute.Runner{Name: "ops", Owner: "w", Executor: x, Gate: d, AtOnce: 1, Log: quiet}).Run(ctx)
		if d.released != 1 || len(d.attempts) != 0 {
			t.Errorf("released %d times, consumed %d times; want once and never", d.released, len(d.attempts))
		}
	})
}

func TestACallThatRunsGivesSignsOfLife(t *testing.T) {
	t.Parallel()

	for name, silence := range map[string]error{"and they are taken": nil, "and runs on if they are not": away} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				d := &desk{left: 1, silence: silence}
				x := &tool{run: func(context.Context) execute.Result {
					<-time.After(5 * time.Minute)
					return execute.Result{Outcome: gate.Executed}
				}}
				ctx, stop := context.WithCancel(t.Context())
				r := &execute.Runner{Name: "ops", Owner: "w", Executor: x, Gate: d, AtOnce: 1, Log: quiet}
				done := make(chan struct{})
				go func() { defer close(done); r.Run(ctx) }()
				<-time.After(6 * time.Minute)
				stop()
				<-done
				if d.signs < 15 || d.signs > 20 || len(d.reports) != 1 || d.reports[0].Outcome != gate.Executed {
					t.Errorf("%d signs of life, reports %+v", d.signs, d.reports)
				}
			})
		})
	}
}
