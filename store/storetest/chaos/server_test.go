//go:build linux

package chaos

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/approvalbot/approvalbot/bot"
	"github.com/approvalbot/approvalbot/bot/execute"
	"github.com/approvalbot/approvalbot/channels"
	"github.com/approvalbot/approvalbot/gate"
)

// serve is what a server runs: it says which policy it has, settles what is due,
// draws cards and runs staged calls.
func (p *process) serve(ctx context.Context) {
	replica := fmt.Sprintf("%s-%d", p.Name, p.Life)
	reaper := &bot.Reaper{Store: p.store, Refresh: p.Refresh, Log: p.log}
	cards := &bot.Dispatcher{
		Cards: p.store, Gate: p.Gate, Channels: map[string]channels.Channel{chat: remote{p.world}}, Replica: replica, Log: p.log,
		Route: func(v *gate.View) []gate.Conversation { // one for each: no card waits for its turn behind another
			return []gate.Conversation{{Place: fmt.Sprint(chat, ":", v.Call.Tool)}}
		},
		Card: func(v *gate.View) *channels.Card {
			args, covered := p.Shown(&v.Snapshot)
			return channels.NewCard(v, channels.Context{Args: args, Redacted: covered})
		},
	}
	ready, stop := p.hub.Any()
	defer stop()
	runner := &execute.Runner{
		Name: ops, Owner: replica, Executor: downstream{p}, Gate: witness{p.Gate, p.rec}, Timeout: time.Second, AtOnce: 2, Ready: ready, Log: p.log,
	}
	var wg sync.WaitGroup
	for _, part := range []func(context.Context){
		reaper.Run, cards.Run, runner.Run, func(ctx context.Context) { p.Run(ctx, replica) },
	} {
		wg.Go(func() { part(ctx) })
	}
	wg.Wait()
}

// witness is the gate as a runner has it: what it spends and reports is written down.
type witness struct {
	*gate.Gate
	rec *recorder
}

// Consume implements execute.Gate.
func (w witness) Consume(ctx context.Context, s gate.Spending) (r gate.Ruling, err error) {
	c := call{Do: doConsume, ID: s.ID, Attempt: s.Attempt, Digest: s.Digest.Hex(), Owner: s.Principal, Fence: noFence}
	if held, err := w.Held(ctx, s.Principal, s.ID, s.Token); err == nil {
		c.Fence = held.Fence
	}
	w.rec.do(c, func() answer {
		r, err = w.Gate.Consume(ctx, s)
		return ruled(r, err)
	})
	return r, err
}

// Report implements execute.Gate.
func (w witness) Report(ctx context.Context, r gate.Reporting) (err error) {
	w.rec.do(call{Do: doReport, ID: r.ID, Attempt: r.Attempt, Outcome: r.Outcome}, func() answer {
		err = w.Gate.Report(ctx, r)
		return told(err)
	})
	return err
}

// downstream is the executor of servers. Some calls cannot be prepared.
type downstream struct{ *process }

// Prepare implements execute.Executor.
func (d downstream) Prepare(_ context.Context, j *execute.Job) (execute.Dispatch, error) {
	if d.one(20) {
		return nil, &execute.Refusal{Public: "it cannot be run"}
	}
	return job{d.process, j}, nil
}

type job struct {
	*process
	*execute.Job
}

// Run implements execute.Dispatch.
func (j job) Run(ctx context.Context) execute.Result {
	digest, err := j.Call.Digest()
	if err != nil {
		panic(err) // it was one before
	}
	if err := j.world.run(ctx, ran{ID: j.ID, Attempt: j.Attempt, Digest: digest.Hex(), Tool: j.Call.Tool, By: j.Name}); err != nil {
		return execute.Result{Outcome: gate.Failed, Text: err.Error()}
	}
	return execute.Result{Outcome: gate.Executed}
}

// Drop implements execute.Dispatch.
func (job) Drop() {}
