//go:build unix

package history

import (
	"strings"
	"testing"

	"github.com/approvalbot/approvalbot/gate"
)

// story is what the log tells of one approval.
type story struct {
	states   []gate.State // by revision, from 1
	approved bool
	attempt  string // that was dispatched
}

// readLog holds what is true of every log at every time and needs no model:
// numbers without gaps, moves of the table only, each story in one piece, and no
// dispatch without an approval or after another dispatch.
func readLog(t *testing.T, entries []gate.Entry) map[gate.ID]*story {
	t.Helper()
	all := map[gate.ID]*story{}
	for i, e := range entries {
		if e.N != int64(i+1) {
			t.Fatalf("log: entry %d has number %d", i+1, e.N)
		}
		if i > 0 && e.At.Before(entries[i-1].At) {
			t.Errorf("log: entry %d is older than the one before", e.N)
		}
		if e.To == "" {
			continue
		}
		s := all[e.ID]
		if s == nil {
			s = &story{}
			all[e.ID] = s
		}
		s.add(t, e)
	}
	return all
}

func (s *story) add(t *testing.T, e gate.Entry) {
	t.Helper()
	var was gate.State
	if n := len(s.states); n > 0 {
		was = s.states[n-1]
	}
	if was != e.From {
		t.Errorf("log: %s went from %q, but it was %q", e.ID, e.From, was)
	}
	if !e.From.Takes(e.Event, e.To) {
		t.Errorf("log: %s took %q from %q to %q, which is not in the table", e.ID, e.Event, e.From, e.To)
	}
	s.states = append(s.states, e.To)
	s.approved = s.approved || e.Event == gate.EventDecided && e.To == gate.Approved
	if e.Event != gate.EventConsumed {
		return
	}
	if !s.approved {
		t.Errorf("log: %s was dispatched, but never approved", e.ID)
	}
	if s.attempt != "" {
		t.Errorf("log: %s was dispatched twice", e.ID)
	}
	s.attempt = strings.TrimPrefix(e.Note, "attempt ")
}

// holdAgainst holds everything anybody was told against the log: what a reader
// saw at a revision, and which attempt got a yes.
func holdAgainst(t *testing.T, log map[gate.ID]*story, ops []*op) {
	t.Helper()
	attempts := map[string]bool{}
	for _, o := range ops {
		if o.Method == "consume" {
			attempts[o.Consumption.Attempt] = true
		}
		s := log[o.ID]
		if o.answer == nil || o.answer.No != nil {
			continue
		}
		switch saw := o.answer.Seen; {
		case saw != nil && (s == nil || saw.Rev > int64(len(s.states)) || s.states[saw.Rev-1] != saw.State):
			t.Errorf("log: somebody saw %s as %s at revision %d, the log says otherwise", o.ID, saw.State, saw.Rev)
		case (o.answer.Consumed != nil || o.answer.Allowed) && (s == nil || s.attempt != o.Consumption.Attempt):
			t.Errorf("log: attempt %s of %s was told to run, the log says otherwise", o.Consumption.Attempt, o.ID)
		}
	}
	for id, s := range log {
		if s.attempt != "" && !attempts[s.attempt] {
			t.Errorf("log: %s was dispatched for attempt %s, which nobody made", id, s.attempt)
		}
	}
}

// holdPresses holds that the same press is the same decision: once it was taken,
// it is told so however often it comes and whatever happened since, unless its
// voter has decided something else.
func holdPresses(t *testing.T, ops []*op) {
	t.Helper()
	type voter struct {
		gate.ID
		person string
	}
	taken, voted := map[voter][]*op{}, map[voter][]*op{} // or nobody knows; who takes back votes, too
	for _, o := range ops {
		switch {
		case o.answer != nil && o.answer.No != nil:
		case o.Method == press:
			v := voter{o.ID, o.Decision.Voter.Person}
			taken[v] = append(taken[v], o)
		case o.Method == "vote":
			v := voter{o.ID, o.Ballot.Vote.Voter.Person}
			voted[v] = append(voted[v], o)
		}
	}
	for _, o := range ops {
		if o.Method != press || o.answer == nil || o.answer.No == nil {
			continue
		}
		before, changed := false, false
		for _, p := range taken[voter{o.ID, o.Decision.Voter.Person}] {
			before = before || p.Decision.Nonce == o.Decision.Nonce && p.to < o.from
		}
		for _, p := range voted[voter{o.ID, o.Decision.Voter.Person}] {
			changed = changed || p.Ballot.Vote.Nonce != o.Decision.Nonce && p.from < o.to
		}
		if before && !changed {
			t.Errorf("%s: press %s was taken, and refused when it came again: %v", o.ID, o.Decision.Nonce, *o.answer.No)
		}
	}
}

// holdTimes holds what is stored in the end against its own deadlines.
func holdTimes(t *testing.T, s *gate.Snapshot) {
	t.Helper()
	switch {
	case !s.Decided.IsZero() && !s.Decided.Before(s.Expires):
		t.Errorf("%s was decided at %v, but expired at %v", s.ID, s.Decided, s.Expires)
	case !s.Started.IsZero() && !s.Started.Before(s.RunBy):
		t.Errorf("%s was dispatched at %v, but had to be by %v", s.ID, s.Started, s.RunBy)
	case s.State == gate.Expired && s.Ended.Before(s.Expires), s.State == gate.Lapsed && s.Ended.Before(s.RunBy):
		t.Errorf("%s is %s since %v, before its time", s.ID, s.State, s.Ended)
	}
}
