package api

import (
	"strconv"
	"time"

	"github.com/approvalbot/approvalbot/bot/wire"
	"github.com/approvalbot/approvalbot/gate"
)

// answer is a ruling as the caller gets it.
func answer(r *gate.Ruling) wire.Answer {
	if r.Verdict == "" || r.Next == "" { // the zero ruling blocks
		return nothing()
	}
	return wire.Answer{Verdict: string(r.Verdict), Reason: string(r.Reason), Next: string(r.Next), AgentText: r.Text}
}

// nothing is the verdict of answers that are about no call: none may run.
func nothing() wire.Answer {
	return wire.Answer{Verdict: string(gate.Block), Next: string(gate.NextStop)}
}

// whole is an approval as its viewer may see it.
func (a *API) whole(v *gate.View) wire.ApprovalAnswer {
	out := wire.ApprovalAnswer{Answer: answer(&v.Ruling), Approval: a.approval(&v.Snapshot, v.Own)}
	if v.Refused != nil {
		out.Approval.Refused = string(v.Refused.ID)
	}
	switch {
	case v.Own:
		out.Token = v.Ruling.Token.Reveal()
	case out.Next == string(gate.NextConsume): // its opener's to do
		out.Next = string(gate.NextStop)
	}
	return out
}

// approval renders all of an approval. The opener sees the bytes it sent;
// everyone else what the rule leaves uncovered.
func (a *API) approval(s *gate.Snapshot, own bool) wire.Approval {
	out := row(&s.Approval)
	out.Call.Args, out.Call.ArgsB64 = s.Call.RawArgs(), s.Call.RawArgs()
	if !own {
		if out.Call.Args, out.Call.Redacted = a.Gate.Shown(s); out.Call.Redacted {
			out.Call.ArgsB64 = nil
		}
	}
	for _, v := range s.Votes {
		out.Votes = append(out.Votes, wire.Vote{
			Name: v.Voter.Name, Choice: string(v.Choice), Scope: string(v.Scope), Reason: v.Reason, At: stamp(v.At),
		})
	}
	for _, q := range s.Questions {
		out.Questions = append(out.Questions, wire.Question{By: q.By, Text: q.Text, At: stamp(q.At), Answer: q.Answer})
	}
	out.Waiting = a.Gate.Progress(s).String()
	return out
}

// row is an approval as lists have it.
func row(p *gate.Approval) wire.Approval {
	out := wire.Approval{
		ID: string(p.ID), State: string(p.State), Mode: string(p.Mode), Version: p.Rev,
		Call:   wire.ShownCall{Server: p.Call.Server, Tool: p.Call.Tool, Target: p.Call.Target},
		Digest: p.Digest.String(), Rule: p.Rule, Requester: requester(&p.Requester),
		Intent: p.Intent, Executor: p.Executor,
		Created: stamp(p.Created), Expires: stamp(p.Expires), InlineUntil: stamp(p.InlineUntil),
		RunBy: stamp(p.RunBy), Decided: stamp(p.Decided), Started: stamp(p.Started), Ended: stamp(p.Ended),
		By: p.By, Note: p.Note, Outcome: p.Outcome, Result: p.Result, SettledBy: p.SettledBy, FailedOver: stamp(p.FailedOver),
		Successor: string(p.Successor), Predecessor: string(p.Predecessor), Rerun: p.Rerun,
	}
	if p.Origin != (gate.Conversation{}) {
		out.Origin = &wire.Place{Place: p.Origin.Place, Thread: p.Origin.Thread}
	}
	return out
}

func requester(r *gate.Requester) wire.RequesterOf {
	return wire.RequesterOf{Key: r.Key, Agent: r.Agent, Run: r.Run, Session: r.Session, Person: r.Person, Attended: r.Attended}
}

// stamp writes a moment of the store's clock; empty for none.
func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z07:00")
}

// etag names one version of one approval. The id is part of it, because an
// opener who asks for a replaced one is shown its successor.
func etag(id gate.ID, rev int64) string {
	return `"` + string(id) + "." + strconv.FormatInt(rev, 10) + `"`
}
