package execute

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/approvalbot/approvalbot/bot/client"
	api "github.com/approvalbot/approvalbot/bot/wire"
	"github.com/approvalbot/approvalbot/gate"
	"github.com/approvalbot/approvalbot/gate/secret"
)

// Remote is the gate of a Runner in another process than the server: it claims,
// starts and completes calls over the API, as a worker. An owner of leases is there
// the worker's id.
type Remote struct {
	Client *client.Client
	Wait   time.Duration // how long a claim is held; at most 60 s
}

// Claim implements Gate.
func (r *Remote) Claim(ctx context.Context, executor, owner, nonce string, d time.Duration) (*gate.Work, error) {
	got, err := r.Client.Claim(ctx, api.ClaimRequest{Queues: []string{executor}, WorkerID: owner, Nonce: nonce, Lease: d.String()}, r.Wait)
	if err != nil || got == nil {
		return nil, kinded(err)
	}
	return workOf(got, owner)
}

// workOf reads what was claimed. What is about to run must be what the digest says,
// whatever lies between here and there.
func workOf(got *api.Work, owner string) (*gate.Work, error) {
	w := &gate.Work{Token: secret.New(got.Token), Retry: false}
	w.ID, w.Rule, w.By, w.Fence = gate.ID(got.ID), got.Rule, got.By, got.Generation
	w.Lease.Owner = owner
	w.Call = gate.Call{Server: got.Call.Server, Tool: got.Call.Tool, Target: got.Call.Target, Args: got.Call.ArgsB64}
	w.Requester = gate.Requester{Key: got.Requester.Key, Agent: got.Requester.Agent, Run: got.Requester.Run, Session: got.Requester.Session, Person: got.Requester.Person}
	digest, err := w.Call.Digest()
	if err != nil || digest.String() != got.Digest {
		return nil, fmt.Errorf("execute.Remote: %s is not the call that was approved (%s)", got.ID, got.Digest)
	}
	w.Digest = digest
	return w, nil
}

// Consume implements Gate.
func (r *Remote) Consume(ctx context.Context, s gate.Spending) (gate.Ruling, error) {
	a, err := r.Client.Start(ctx, string(s.ID), api.StartRequest{
		Token: s.Token.Reveal(), AttemptID: s.Attempt, Digest: s.Digest.String(), WorkerID: s.Principal, Lease: s.ReportIn.String(),
	})
	if err != nil {
		return gate.Ruling{Verdict: gate.Block}, kinded(err)
	}
	return gate.Ruling{Verdict: gate.Verdict(a.Verdict), Reason: gate.Reason(a.Reason)}, nil
}

// Renew implements Gate; for how long at most the server knows.
func (r *Remote) Renew(ctx context.Context, w *gate.Work, d, _ time.Duration) (time.Time, error) {
	a, err := r.Client.Heartbeat(ctx, string(w.ID), api.LeaseRequest{Token: w.Token.Reveal(), WorkerID: w.Lease.Owner, Lease: d.String()})
	until, _ := time.Parse(time.RFC3339, a.Until)
	return until, kinded(err)
}

// Release implements Gate.
func (r *Remote) Release(ctx context.Context, w *gate.Work) error {
	return kinded(r.Client.Release(ctx, string(w.ID), api.LeaseRequest{Token: w.Token.Reveal(), WorkerID: w.Lease.Owner}))
}

// Report implements Gate.
func (r *Remote) Report(ctx context.Context, rep gate.Reporting) error {
	return kinded(r.Client.Complete(ctx, string(rep.ID), api.CompleteRequest{
		Token: rep.Token.Reveal(), AttemptID: rep.Attempt, WorkerID: rep.Principal, Outcome: string(rep.Outcome), Result: rep.Result,
	}))
}

// kinded makes an error of the client one of the gate: what is no answer of the API
// leaves open what happened.
func kinded(err error) error {
	if err == nil {
		return nil
	}
	refused, ok := errors.AsType[*client.Error](err)
	if !ok {
		return &gate.Error{Kind: gate.Unavailable, Reason: gate.ReasonStoreUnavailable, Op: "execute.Remote", Public: "approvalbot does not answer", Err: err}
	}
	kind, _ := refused.Unwrap().(gate.Kind) //nolint:errorlint // that is what it is
	return &gate.Error{Kind: kind, Reason: gate.Reason(refused.Reason), Op: "execute.Remote", Public: refused.Detail, Err: err}
}
