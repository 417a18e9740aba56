package execute

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	randv2 "math/rand/v2"
	"runtime/debug"
	"sync"
	"time"

	"github.com/approvalbot/approvalbot/gate"
)

// Gate is what a runner asks of the gate; *gate.Gate has it.
type Gate interface {
	Claim(ctx context.Context, executor, owner, nonce string, d time.Duration) (*gate.Work, error)
	Consume(ctx context.Context, s gate.Spending) (gate.Ruling, error)
	Renew(ctx context.Context, w *gate.Work, d, most time.Duration) (time.Time, error)
	Release(ctx context.Context, w *gate.Work) error
	Report(ctx context.Context, r gate.Reporting) error
}

// Runner runs what is staged for one executor. Every replica has one; a call is run
// by whoever leases it first, and only if consuming it says allow. It never runs a
// call a second time: what it cannot finish ends as an unknown outcome.
type Runner struct {
	Name     string // of the executor, as rules have it
	Owner    string // of its leases: no other process has this name, at most 64 bytes
	Executor Executor
	Gate     Gate
	Timeout  time.Duration   // of a dispatch; 0 means 15 minutes
	AtOnce   int             // dispatches by this replica at the same time; 0 means 8
	Ready    <-chan struct{} // receives when a call may have become ready; without it they are looked for now and then
	Log      *slog.Logger
}

// How a runner works.
const (
	leaseFor     = 30 * time.Second // what could not be prepared is left alone that long, and then anybody's again
	prepareFor   = 15 * time.Second
	lookEvery    = 5 * time.Second
	defaultLimit = 15 * time.Minute
	defaultMany  = 8
	graceTime    = 10 * time.Second // what runs when the process is to stop
	aliveFor     = time.Minute      // without a sign of life a call that runs is an unknown outcome
	signEvery    = aliveFor / 4
	reportSlack  = 10 * time.Second // after the time-out
	reportFor    = 10 * time.Minute // a report is tried again
)

// Run runs calls until ctx ends; what is under way then has ten seconds to finish.
func (r *Runner) Run(ctx context.Context) {
	var all sync.WaitGroup
	more := make(chan struct{}, 1) // there may be another call: one who rests should look
	for range r.many() {
		all.Go(func() { r.work(ctx, more) })
	}
	all.Wait()
}

func (r *Runner) many() int {
	if r.AtOnce > 0 {
		return r.AtOnce
	}
	return defaultMany
}

func (r *Runner) limit() time.Duration {
	if r.Timeout > 0 {
		return r.Timeout
	}
	return defaultLimit
}

// work takes one call after the other.
func (r *Runner) work(ctx context.Context, more chan struct{}) {
	rest := time.Duration(0)
	for ctx.Err() == nil {
		switch worked, err := r.next(ctx, more); {
		case err != nil && ctx.Err() == nil:
			rest = min(max(2*rest, time.Second), leaseFor)
			r.Log.WarnContext(ctx, "executor rests", "executor", r.Name, "err", err, "retry_in", rest)
			rests(ctx, jitter(rest), nil, nil)
		case worked:
			rest = 0
		default:
			rests(ctx, jitter(lookEvery), r.Ready, more)
		}
	}
}

// rests waits for d, or until one of the channels or the end of ctx wakes it.
func rests(ctx context.Context, d time.Duration, ready, more <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ready:
	case <-more:
	case <-timer.C:
	case <-ctx.Done():
	}
}

func jitter(d time.Duration) time.Duration {
	return d*4/5 + randv2.N(d*2/5) //nolint:gosec // nothing to guess
}

// next leases a call and runs it. An error says that this executor cannot run any
// at the moment.
func (r *Runner) next(ctx context.Context, more chan<- struct{}) (worked bool, err error) {
	w, err := r.Gate.Claim(ctx, r.Name, r.Owner, newAttempt(), leaseFor)
	if err != nil || w == nil {
		return false, err
	}
	select {
	case more <- struct{}{}:
	default:
	}
	j := &Job{
		ID: w.ID, Attempt: newAttempt(), Call: w.Call, Digest: w.Digest, Rule: w.Rule, Requester: w.Requester, By: w.By, Retry: w.Retry,
	}
	d, err := r.prepare(ctx, j)
	if no, ok := errors.AsType[*Refusal](err); ok {
		d, err = never{no}, nil
	}
	if err != nil {
		r.Log.WarnContext(ctx, "a call could not be prepared, nothing was sent", "executor", r.Name, "approval", string(w.ID), "err", err)
		if ctx.Err() != nil { // another replica can try at once
			_ = r.Gate.Release(context.WithoutCancel(ctx), w)
		}
		return true, err
	}
	if !r.start(ctx, w, j) {
		d.Drop()
		return true, nil
	}
	r.finish(ctx, w, j, r.run(ctx, d, w, j))
	return true, nil
}

func (r *Runner) prepare(ctx context.Context, j *Job) (d Dispatch, err error) {
	ctx, cancel := context.WithTimeout(ctx, prepareFor)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			r.Log.ErrorContext(ctx, "an executor panicked, nothing was sent", "executor", r.Name, "panic", p, "stack", string(debug.Stack()))
			err = &Refusal{"the executor failed on this call"}
		}
	}()
	return r.Executor.Prepare(ctx, j)
}

// start consumes the approval. Where nobody knows whether that happened the same
// attempt is asked for again: it gets the same yes, as long as that can be given.
func (r *Runner) start(ctx context.Context, w *gate.Work, j *Job) bool {
	within, cancel := context.WithTimeout(ctx, leaseFor)
	defer cancel()
	for {
		ruling, err := r.Gate.Consume(within, gate.Spending{
			Principal: r.Owner, ID: w.ID, Token: w.Token, Attempt: j.Attempt, Digest: j.Digest, ReportIn: min(aliveFor, r.limit()+reportSlack),
		})
		switch {
		case err == nil && ruling.Verdict == gate.Allow:
			return true
		case gate.KindOf(err) == gate.Unavailable && within.Err() == nil:
			rests(within, time.Second, nil, nil)
			continue
		}
		r.Log.InfoContext(ctx, "an approved call is not run", "executor", r.Name, "approval", string(w.ID), "reason", string(ruling.Reason), "err", err)
		return false
	}
}

// run dispatches. From here on the outcome is unknown unless the executor knows it.
func (r *Runner) run(ctx context.Context, d Dispatch, w *gate.Work, j *Job) (res Result) {
	r.Log.InfoContext(ctx, "running an approved call", "executor", r.Name, "approval", string(j.ID), "attempt", j.Attempt)
	running, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.limit())
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		rests(running, graceTime, nil, nil)
		cancel()
	})()
	go r.keep(running, w)
	defer func() {
		if p := recover(); p != nil {
			r.Log.ErrorContext(ctx, "an executor panicked while a call ran", "executor", r.Name, "approval", string(j.ID), "panic", p, "stack", string(debug.Stack()))
			res = unknown("the executor failed while the call ran")
		}
	}()
	return d.Run(running)
}

// keep gives signs of life while a call runs. If they are not taken the call runs on:
// nothing can undo that it was started, and its report still counts.
func (r *Runner) keep(ctx context.Context, w *gate.Work) {
	tick := time.NewTicker(signEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if _, err := r.Gate.Renew(ctx, w, aliveFor, r.limit()+reportSlack); err != nil && ctx.Err() == nil {
			r.Log.WarnContext(ctx, "a sign of life was not taken", "executor", r.Name, "approval", string(w.ID), "err", err)
		}
	}
}

// finish reports, again and again until the store has heard it.
func (r *Runner) finish(ctx context.Context, w *gate.Work, j *Job, res Result) {
	report := gate.Reporting{
		Principal: r.Owner, ID: w.ID, Token: w.Token, Attempt: j.Attempt, Outcome: res.Outcome, Result: res.Text,
	}
	if res.Outcome == "" {
		report.Outcome = gate.OutcomeUnknown
	}
	patience := reportFor
	if ctx.Err() != nil {
		patience = graceTime
	}
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, lookEvery) {
		err := r.Gate.Report(within, report)
		switch {
		case err == nil:
			r.Log.InfoContext(ctx, "an approved call ended", "executor", r.Name, "approval", string(w.ID), "outcome", string(report.Outcome))
			return
		case gate.KindOf(err) != gate.Unavailable || within.Err() != nil:
			r.Log.ErrorContext(ctx, "how a call ended could not be recorded; people will be asked", "executor", r.Name, "approval", string(w.ID), "outcome", string(report.Outcome), "err", err)
			return
		}
		rests(within, wait, nil, nil)
	}
}

// never is the dispatch of a call that its executor refuses: it is used up, so that
// people learn why and the queue goes on, and nothing is sent.
type never struct{ *Refusal }

func (n never) Run(context.Context) Result {
	return failed(fmt.Sprintf("not started: %s", n.Public))
}

func (never) Drop() {}

func newAttempt() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
