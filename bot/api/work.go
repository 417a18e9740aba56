package api

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"time"

	"github.com/approvalbot/approvalbot/bot/wire"
	"github.com/approvalbot/approvalbot/gate"
	"github.com/approvalbot/approvalbot/gate/secret"
)

// Leases of workers.
const (
	leaseDefault = time.Minute
	leaseLeast   = 5 * time.Second
	leaseMost    = 10 * time.Minute
	lookForWork  = 5 * time.Second // whatever the hub says
)

// owner is the name under which a worker holds calls: nobody with another API key
// has it.
func owner(c *caller, worker string) (string, error) {
	name := c.Principal.Key + "/" + worker
	if len(name) > 64 {
		return "", invalid("worker_id: too long; with the name of the API key it has at most 63 characters")
	}
	return name, nil
}

func leaseOf(text string) (time.Duration, error) {
	if text == "" {
		return leaseDefault, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < leaseLeast || d > leaseMost {
		return 0, invalid("lease: want a time from 5s to 10m")
	}
	return d, nil
}

func invalid(public string) error { return &gate.Error{Kind: gate.Invalid, Op: "api", Public: public} }

type claimInput struct {
	Wait string `query:"wait" maxLength:"16" example:"25s" doc:"How long to wait for a call, at most 60s."`
	Body wire.ClaimRequest
}

// claimed is an answer to a worker that may have waited.
type claimed struct {
	RetryAfter string `header:"Retry-After" doc:"This replica holds no more callers: ask again after so many seconds."`
	Body       wire.ClaimAnswer
}

func (o *claimed) write(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	_ = json.NewEncoder(w).Encode(o.Body) // the caller left; the lease runs out
}

// hunt is one worker's wish for a call.
type hunt struct {
	queues       []string
	owner, nonce string
	lease        time.Duration
}

// claimWork leases a call to a worker, and waits for one if there is none.
func (a *API) claimWork(ctx context.Context, c *caller, in *claimInput) (*claimed, error) {
	wait, err := parseWait(in.Wait)
	if err != nil {
		return nil, err
	}
	h, err := a.hunt(c, &in.Body)
	if err != nil {
		return nil, err
	}
	out, err := a.take(ctx, h)
	if err != nil || out.Body.Work != nil || wait == 0 {
		return out, err
	}
	if a.hold(c, func(ctx context.Context) (answerer, error) { return a.stalk(ctx, h, wait) }) {
		return nil, nil
	}
	out.RetryAfter = retrySoon
	return out, nil
}

func (a *API) hunt(c *caller, in *wire.ClaimRequest) (h hunt, err error) {
	if h.owner, err = owner(c, in.WorkerID); err != nil {
		return h, err
	}
	if h.lease, err = leaseOf(in.Lease); err != nil {
		return h, err
	}
	for _, q := range in.Queues {
		if !c.MayRun(q) {
			a.Gate.Refused(c.Principal, "claim from "+q)
			return h, &gate.Error{Kind: gate.Forbidden, Op: "api", Public: "queues: this API key may not run the calls of this executor; list it in the key's queues"}
		}
		if _, ok := a.Queues[q]; !ok {
			return h, invalid("queues: no executor of this name is run by workers")
		}
	}
	h.queues, h.nonce = in.Queues, cmp.Or(in.Nonce, rand.Text())
	return h, nil
}

// take leases a call of the first queue that has one.
func (a *API) take(ctx context.Context, h hunt) (*claimed, error) {
	ctx, cancel := context.WithTimeout(ctx, gateTimeout)
	defer cancel()
	for _, q := range h.queues {
		w, err := a.Gate.Claim(ctx, q, h.owner, h.nonce, h.lease)
		if err != nil {
			return nil, err
		}
		if w != nil {
			return &claimed{Body: wire.ClaimAnswer{Answer: wire.Answer{Verdict: string(gate.Ask), Next: string(gate.NextConsume)}, Work: work(q, w)}}, nil
		}
	}
	return &claimed{Body: wire.ClaimAnswer{Answer: nothing()}}, nil
}

// stalk waits for a call. Listening comes first and looking second, so that none is
// missed in between.
func (a *API) stalk(ctx context.Context, h hunt, wait time.Duration) (*claimed, error) {
	a.parked.Add(1)
	defer a.parked.Add(-1)
	ready, stop := a.Hub.Ready()
	defer stop()
	end := time.NewTimer(wait)
	defer end.Stop()
	tick := time.NewTicker(lookForWork)
	defer tick.Stop()
	for last := false; ; {
		out, err := a.take(ctx, h)
		if err != nil || out.Body.Work != nil || last || ctx.Err() != nil {
			return out, err
		}
		select {
		case <-ready:
		case <-tick.C:
		case <-end.C:
			last = true
		case <-a.drained:
			return out, nil
		case <-ctx.Done():
		}
	}
}

func work(queue string, w *gate.Work) *wire.Work {
	return &wire.Work{
		ID: string(w.ID), Queue: queue, Token: w.Token.Reveal(), Until: stamp(w.Lease.Until), Generation: w.Fence,
		Call:   wire.Call{Server: w.Call.Server, Tool: w.Call.Tool, Target: w.Call.Target, ArgsB64: w.Call.RawArgs()},
		Digest: w.Digest.String(), Rule: w.Rule, Requester: requester(&w.Requester), By: w.By,
	}
}

type startInput struct {
	Named
	Body wire.StartRequest
}

// startWork is the consume of workers.
func (a *API) startWork(ctx context.Context, c *caller, in *startInput) (*output[wire.CheckAnswer], error) {
	digest, err := gate.ParseDigest(in.Body.Digest)
	if err != nil {
		return nil, err
	}
	lease, err := leaseOf(in.Body.Lease)
	if err != nil {
		return nil, err
	}
	return within(ctx, a, c, in.ID, in.Body.WorkerID, in.Body.Token, func(ctx context.Context, w *gate.Work) (*output[wire.CheckAnswer], error) {
		r, err := a.Gate.Consume(ctx, gate.Spending{
			Principal: w.Lease.Owner, ID: w.ID, Token: w.Token, Attempt: in.Body.AttemptID, Digest: digest,
			ReportIn: min(lease, a.limit(w)),
		})
		if err != nil {
			a.logFailure(ctx, "start", err)
			return nil, a.ruledOut(&r, err)
		}
		return &output[wire.CheckAnswer]{a.checked(&r)}, nil
	})
}

type leaseInput struct {
	Named
	Body wire.LeaseRequest
}

func (a *API) heartbeat(ctx context.Context, c *caller, in *leaseInput) (*output[wire.LeaseAnswer], error) {
	lease, err := leaseOf(in.Body.Lease)
	if err != nil {
		return nil, err
	}
	return within(ctx, a, c, in.ID, in.Body.WorkerID, in.Body.Token, func(ctx context.Context, w *gate.Work) (*output[wire.LeaseAnswer], error) {
		until, err := a.Gate.Renew(ctx, w, lease, a.limit(w))
		return &output[wire.LeaseAnswer]{wire.LeaseAnswer{Answer: nothing(), Until: stamp(until)}}, err
	})
}

func (a *API) release(ctx context.Context, c *caller, in *leaseInput) (*output[wire.Answer], error) {
	return within(ctx, a, c, in.ID, in.Body.WorkerID, in.Body.Token, func(ctx context.Context, w *gate.Work) (*output[wire.Answer], error) {
		return &output[wire.Answer]{nothing()}, a.Gate.Release(ctx, w)
	})
}

type completeInput struct {
	Named
	Body wire.CompleteRequest
}

// complete is the report of workers. It does not ask first whether they still hold
// the call: what did happen is worth knowing in any case.
func (a *API) complete(ctx context.Context, c *caller, in *completeInput) (*output[wire.Answer], error) {
	id, err := gate.ParseID(in.ID)
	if err != nil {
		return nil, err
	}
	who, err := owner(c, in.Body.WorkerID)
	if err != nil {
		return nil, err
	}
	return a.standing(ctx, func(ctx context.Context) error {
		return a.Gate.Report(ctx, gate.Reporting{
			Principal: who, ID: id, Token: secret.New(in.Body.Token), Attempt: in.Body.AttemptID,
			Outcome: gate.State(in.Body.Outcome), Result: in.Body.Result,
		})
	})
}

// limit is how long a call may take that a worker runs.
func (a *API) limit(w *gate.Work) time.Duration { return cmp.Or(a.Queues[w.Executor], 15*time.Minute) }

// within does something with a call that a worker holds.
func within[O any](ctx context.Context, a *API, c *caller, id, worker, token string, do func(context.Context, *gate.Work) (*O, error)) (*O, error) {
	parsed, err := gate.ParseID(id)
	if err != nil {
		return nil, err
	}
	who, err := owner(c, worker)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, gateTimeout)
	defer cancel()
	w, err := a.Gate.Held(ctx, who, parsed, secret.New(token))
	if err != nil {
		return nil, err
	}
	out, err := do(ctx, w)
	if err != nil {
		return nil, err
	}
	return out, nil
}

// rerun asks people whether to run a call again whose outcome is unknown.
func (a *API) rerun(ctx context.Context, c *caller, in *Named) (*output[wire.RerunAnswer], error) {
	id, err := gate.ParseID(in.ID)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, gateTimeout)
	defer cancel()
	again, err := a.Gate.Rerun(ctx, id, c.Voter("api"))
	if err != nil {
		return nil, a.stands(ctx, c, id, err)
	}
	return &output[wire.RerunAnswer]{wire.RerunAnswer{Answer: nothing(), ID: string(again)}}, nil
}
