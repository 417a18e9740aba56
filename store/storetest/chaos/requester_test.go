//go:build linux

package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/approvalbot/approvalbot/gate"
)

// request asks for one call after another, until stdin ends. All requesters, and
// those who come after a killed one, ask for the same calls with the same keys at
// about the same time, as the replicas of one agent do.
func (p *process) request(ctx context.Context) {
	const atOnce = 6
	var wg sync.WaitGroup
	free := make(chan struct{}, atOnce)
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case free <- struct{}{}:
			i := (monotonic()-p.Begun)/int64(jobEvery) - int64(p.draw(4))
			if p.one(4) {
				i -= int64(p.draw(30)) // an agent that came back
			}
			wg.Go(func() {
				if i >= 0 {
					p.ask(ctx, wanted(i))
				}
				<-free
			})
		}
		p.dawdle(ctx, jobEvery)
	}
	wg.Wait()
}

// wanted is the i-th call of a history.
func wanted(i int64) gate.Request {
	words := []string{"one", "staged", "two", "pair", "staged", "now"}
	return gate.Request{
		Call: gate.Call{
			Server: "k8s", Tool: fmt.Sprintf("%s_%d", words[i%int64(len(words))], i), Args: json.RawMessage(`{"namespace":"prod"}`),
		},
		Requester: gate.Requester{Key: hermes, Agent: fmt.Sprint("agent-", i), Attended: true}, // an agent of its own: none has too many waiting
		Key:       fmt.Sprint("key-", i),
	}
}

// ask asks, waits for people and runs what is its own to run.
func (p *process) ask(ctx context.Context, r gate.Request) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	digest, err := r.Call.Digest()
	if err != nil {
		panic(err) // it is a constant
	}
	var got gate.Ruling
	p.rec.do(call{Do: doCheck, Digest: digest.Hex()}, func() answer {
		if got, err = p.Check(ctx, r); err != nil || got.Approval == nil {
			return told(err)
		}
		return answer{Yes: true, Names: got.Approval.ID, State: got.Approval.State}
	})
	if got.Approval == nil {
		return
	}
	if p.one(30) {
		id := got.Approval.ID
		p.rec.do(call{Do: doCancel, ID: id}, func() answer { return told(p.Cancel(ctx, asker, id, "")) })
	}
	for got.Verdict == gate.Ask && !got.Token.Set() && ctx.Err() == nil && got.Approval.ByRequester() {
		v, err := p.Await(ctx, asker, got.Approval.ID, got.Approval.Rev)
		if err != nil {
			pause(ctx, 50*time.Millisecond)
			continue
		}
		got = v.Ruling
	}
	if p.one(8) && got.Approval != nil {
		p.forge(ctx, got.Approval)
	}
	if got.Token.Set() {
		p.spend(ctx, &errand{gate.Work{Snapshot: *got.Approval, Token: got.Token}, hermes})
	}
}

// forge goes past the gate and asks the store for what the gate never would. It
// must be refused, whatever else happens, and spend nothing.
func (p *process) forge(ctx context.Context, of *gate.Snapshot) {
	s, err := p.store.Get(ctx, of.ID)
	if err != nil {
		return
	}
	c := gate.Consumption{
		Rev: s.Rev, Digest: s.Digest, Principal: hermes, Attempt: unique(), Fence: s.Fence,
		Policy: p.Policy().Version(), WillReport: true, ReportIn: reportIn,
	}
	if !s.ByRequester() {
		c.Principal = s.Lease.Owner
	}
	switch p.draw(5) {
	case 0:
		c.Rev--
	case 1:
		c.Digest[0]++
	case 2:
		c.Principal = "mallory"
	case 3:
		c.Policy = "another"
	case 4:
		if c.Fence--; s.ByRequester() {
			c.Rev--
		}
	}
	p.rec.do(call{Do: doForge, ID: s.ID, Attempt: c.Attempt}, func() answer {
		_, err := p.store.Consume(ctx, s.ID, c)
		return told(err)
	})
}
