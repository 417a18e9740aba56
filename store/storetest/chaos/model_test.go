//go:build linux

package chaos

import (
	"fmt"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/approvalbot/approvalbot/gate"
)

// linearize looks, for each approval by itself, for an order of all that was done
// to it that explains every answer and how it stands in the end.
func (c *court) linearize() {
	for id, s := range c.approvals {
		m := model(quorumOf(s.Approval.Call.Tool))
		if porcupine.CheckOperationsTimeout(m, c.operations(s), 20*time.Second) == porcupine.Illegal {
			c.blame("%s: no order of these explains their answers:%s", id, c.story(id))
		}
	}
}

// doRead is what the parent sees in the end.
const doRead = "read"

// operations are what was done to one approval. What was refused after the store may
// have asked twice is two: the first may have been done.
func (c *court) operations(s *gate.Snapshot) (out []porcupine.Operation) {
	last := int64(0)
	add := func(o *op) {
		out = append(out, porcupine.Operation{ClientId: o.client, Input: o, Call: o.from, Return: o.to})
	}
	for _, o := range c.of[s.ID] {
		switch o.Do {
		case doDecide, doConsume, doForge, doReport, doSettle:
		default:
			continue
		}
		if !o.Yes && !o.Unknown && o.mayCount() {
			first := *o
			first.answer = answer{Unknown: true}
			add(&first)
		}
		if o.Unknown {
			o.to = forever
		} else {
			last = max(last, o.to)
		}
		add(o)
	}
	end := &op{call: call{Do: doRead, ID: s.ID, Attempt: s.Attempt}, answer: answer{Yes: true, State: s.State}, from: last + 1, to: last + 2}
	for _, o := range out { // nothing happens after the last look
		end.from = max(end.from, o.Call+1)
	}
	end.to = end.from + 1
	for i := range out {
		out[i].Return = min(out[i].Return, end.from-1)
	}
	add(end)
	return out
}

// standing is all that decides what an approval may answer. The zero value waits for
// people.
type standing struct {
	gate.State
	votes   [3]string // of people, the nonce of each one's approval
	denied  [3]string // and of their denial
	attempt string
	silent  bool // its outcome will not be reported
}

func model(quorum int) porcupine.Model {
	m := porcupine.NondeterministicModel{
		Init: func() []any { return []any{standing{State: gate.Pending}} },
		Step: func(s, in, _ any) (next []any) {
			for _, n := range s.(standing).after(in.(*op), quorum) {
				next = append(next, n)
			}
			return next
		},
		DescribeOperation: func(in, _ any) string { return in.(*op).String() },
		DescribeState:     func(s any) string { return fmt.Sprint(s) },
	}
	return m.ToModel()
}

// after returns what the approval may be after o was answered as it was; nothing if
// it cannot have been. Time, cancelling and other incarnations may act before.
func (s standing) after(o *op, quorum int) (next []standing) {
	for _, at := range s.aged() {
		if !o.Yes {
			next = append(next, at) // refused, or it never happened
		}
		if o.Yes || o.Unknown {
			if n, ok := at.take(o, quorum); ok && (o.Do != doForge) {
				next = append(next, n)
			}
		}
	}
	return next
}

// ends are what may become of an approval without anybody here.
var ends = map[gate.State][]gate.State{
	gate.Pending:   {gate.Expired, gate.Cancelled, gate.Void},
	gate.Approved:  {gate.Lapsed, gate.Cancelled, gate.Void},
	gate.Executing: {gate.OutcomeUnknown, gate.Executed},
}

func (s standing) aged() []standing {
	out := []standing{s}
	for _, end := range ends[s.State] {
		if s.State == gate.Executing && (end == gate.Executed) != s.silent {
			continue
		}
		n := s
		n.State = end
		out = append(out, n)
	}
	return out
}

// take is what a yes makes of the approval.
func (s standing) take(o *op, quorum int) (standing, bool) {
	switch o.Do {
	case doDecide:
		return s.decide(o, quorum)
	case doConsume:
		if s.attempt == o.Attempt && s.attempt != "" {
			return s, s.State == gate.Executing
		}
		ok := s.State == gate.Approved
		s.State, s.attempt, s.silent = gate.Executing, o.Attempt, o.Silent
		return s, ok
	case doReport:
		ok := s.attempt == o.Attempt && slices.Contains([]gate.State{gate.Executing, gate.OutcomeUnknown, o.Outcome}, s.State)
		s.State = o.Outcome
		return s, ok
	case doSettle:
		ok := s.State == gate.OutcomeUnknown || s.State == o.Outcome
		s.State = o.Outcome
		return s, ok
	case doRead: // the parent has settled what nobody knew
		return s, s.attempt == o.Attempt && (s.State == o.State || s.State == gate.OutcomeUnknown && o.State == gate.Failed)
	}
	return s, false
}

// decide: the same press counts once, an approval only while people are asked.
func (s standing) decide(o *op, quorum int) (standing, bool) {
	i := slices.Index(people, o.Person)
	if s.votes[i] == o.Nonce || s.denied[i] == o.Nonce {
		return s, true
	}
	if o.Choice == gate.Deny {
		switch s.State {
		case gate.Pending:
			s.State = gate.Denied
		case gate.Approved:
			s.State = gate.Revoked
		default:
			return s, false
		}
		s.denied[i] = o.Nonce
		return s, true
	}
	if s.State != gate.Pending {
		return s, false
	}
	s.votes[i] = o.Nonce
	n := 0
	for _, v := range s.votes {
		if v != "" {
			n++
		}
	}
	if n >= quorum {
		s.State = gate.Approved
	}
	return s, true
}
