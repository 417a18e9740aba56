//go:build unix

package history

import (
	"fmt"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/approvalbot/approvalbot/gate"
)

// state is all that decides what one approval may answer. The zero value is one
// that was not opened yet. It is comparable.
type state struct {
	gate.State
	id        gate.ID
	rev       int64
	digest    gate.Digest
	opener    string
	mode      gate.Mode
	deny      bool          // silence of an inline one denies
	expiresIn time.Duration // of the question, once it is deferred
	due       span          // when time moves it
	votes     ballotBox
	presses   pressBox
	reason    gate.Reason // why it ended
	attempt   string      // the one dispatch
	consumer  string
	started   int64 // ms of the store's clock; 0 if nobody has told
	reports   bool
}

// span is when something is due: nobody but the store knows its clock in the
// middle of a call. The zero value is never.
type span struct{ lo, hi int64 }

// clock relates the store's clock to that of the histories.
type clock struct {
	offset int64 // what the store's is ahead
	slack  int64 // how far both may be apart otherwise
}

func (c clock) of(ms int64) int64 { return ms*int64(time.Millisecond) - c.offset }

// in is the span that is d after the moment at which o takes effect.
func (o *op) in(d time.Duration) span {
	return span{o.from + int64(d), plus(o.to, d)}
}

func (s span) plus(d time.Duration) span { return span{s.lo + int64(d), plus(s.hi, d)} }

func plus(at int64, d time.Duration) int64 { return at + min(int64(d), forever-at) }

// model is one approval as gate's table of moves has it, and what the store must
// answer by it.
func model(c clock) porcupine.Model {
	m := porcupine.NondeterministicModel{
		Init: func() []any { return []any{state{}} },
		Step: func(s, in, _ any) []any {
			var next []any
			for _, n := range s.(state).after(in.(*op), c) {
				next = append(next, n)
			}
			return next
		},
		DescribeOperation: func(in, _ any) string { return in.(*op).String() },
		DescribeState:     func(s any) string { return fmt.Sprint(s) },
	}
	return m.ToModel()
}

// after returns what the approval may be after o has been answered as it was;
// nothing if it can not have been.
func (s state) after(o *op, c clock) []state {
	var next []state
	if o.answer == nil {
		next = append(next, s) // it never happened
	}
	for _, at := range s.aged(o, c) {
		yes, no := at.take(o, c)
		switch {
		case o.answer == nil || o.answer.No == nil:
			next = append(next, yes...)
		case slices.Contains(no, *o.answer.No):
			next = append(next, at)
		}
	}
	return next
}

// move makes a move of gate's table.
func (s state) move(e gate.Event, to gate.State) (state, bool) {
	if !s.Takes(e, to) {
		return s, false
	}
	s.State, s.rev, s.due = to, s.rev+1, span{}
	return s, true
}

// aged returns what time may have made of the approval when o took effect: it
// must have moved what was due before o began, and cannot have moved what was
// due after o had its answer.
func (s state) aged(o *op, c clock) (out []state) {
	for {
		if s.due == (span{}) {
			return append(out, s)
		}
		if o.from <= plus(s.due.hi, time.Duration(c.slack)) {
			out = append(out, s)
		}
		if o.to < s.due.lo-c.slack {
			return out
		}
		s = s.tick()
	}
}

// tick is the move that time makes.
func (s state) tick() state {
	due := s.due
	for _, m := range []struct {
		event  gate.Event
		to     gate.State
		reason gate.Reason
		when   bool
	}{
		{gate.EventDeferred, gate.Pending, "", s.mode == gate.Inline && !s.deny},
		{gate.EventExpired, gate.Expired, gate.ReasonExpired, s.mode == gate.Deferred || s.deny},
		{gate.EventLapsed, gate.Lapsed, gate.ReasonLapsed, true},
		{gate.EventUnknown, gate.OutcomeUnknown, "", s.reports},
		{gate.EventReported, gate.Executed, "", s.State == gate.Executing && !s.reports},
	} {
		if next, ok := s.move(m.event, m.to); ok && m.when {
			next.reason = m.reason
			if m.event == gate.EventDeferred {
				next.mode, next.due = gate.Deferred, due.plus(s.expiresIn)
			}
			return next
		}
	}
	panic(fmt.Sprintf("time does not move %+v", s))
}

// The refusals.
var (
	moved    = refusal{Kind: gate.Conflict, Reason: gate.ReasonAlreadyDecided, Moved: true}
	missing  = refusal{Kind: gate.NotFound, Reason: gate.ReasonNotFound}
	mismatch = refusal{Kind: gate.Conflict, Reason: gate.ReasonDigestMismatch}
	spent    = refusal{Kind: gate.Conflict, Reason: gate.ReasonSpent}
	fenced   = refusal{Kind: gate.Conflict, Reason: gate.ReasonFenced}
)

// closed refuses a move that the state does not take, and says truly why.
func (s state) closed() refusal {
	r := refusal{Kind: gate.Conflict, Reason: s.reason}
	switch {
	case s.attempt != "":
		r.Reason = gate.ReasonSpent
	case s.Open():
		r.Reason = gate.ReasonAlreadyDecided
	}
	return r
}

// take says how o may end: what the approval is after a yes that says what o was
// answered, and the refusals that would be true.
func (s state) take(o *op, c clock) (yes []state, no []refusal) {
	switch {
	case o.Method == "open":
		return s.open(o)
	case o.Method == "find":
		return s.find(o)
	case s.State == "" || s.id != o.ID:
		return nil, []refusal{missing}
	}
	switch o.Method {
	case "get":
		return s.get(o, c)
	case "vote":
		return s.vote(o)
	case "consume":
		return s.consume(o)
	case "report":
		return s.report(o)
	case "withdraw":
		return s.withdraw(o)
	case "defer":
		return s.stopWaiting(o)
	}
	panic("no such method: " + o.Method)
}

// open: one approval per key and per id, whoever asks how often.
func (s state) open(o *op) (yes []state, no []refusal) {
	says := gate.Opened{ID: s.id}
	next := s
	switch n, ok := s.move(gate.EventOpened, gate.Pending); {
	case ok:
		next = n.opened(o)
		says = gate.Opened{ID: o.ID, Created: true}
	case s.id == o.ID:
		says.Created = true // the answer to the first try was lost
	case s.digest != o.Opening.Digest:
		return nil, []refusal{mismatch}
	}
	if o.answer != nil && o.answer.Opened != nil && *o.answer.Opened != says {
		return nil, nil
	}
	return []state{next}, nil
}

func (s state) opened(o *op) state {
	in := o.Opening
	s.id, s.digest, s.opener, s.mode, s.deny, s.expiresIn = o.ID, in.Digest, in.Requester.Key, in.Mode, in.InlineDeny, in.ExpiresIn
	s.due = o.in(in.ExpiresIn)
	if in.Mode == gate.Inline {
		s.due = o.in(in.InlineFor)
	}
	return s
}

func (s state) find(o *op) (yes []state, no []refusal) {
	if s.State == "" {
		return nil, []refusal{missing}
	}
	if o.answer != nil && o.answer.Found != s.id {
		return nil, nil
	}
	return []state{s}, nil
}

// get: a reader sees it as it is; what it tells of the store's clock is kept.
func (s state) get(o *op, c clock) (yes []state, no []refusal) {
	if o.answer == nil || o.answer.Seen == nil {
		return []state{s}, nil
	}
	saw := *o.answer.Seen
	is := seen{
		ID: s.id, State: s.State, Rev: s.rev, Digest: s.digest, Mode: s.mode, Reason: s.reason,
		Votes: s.votes, Attempt: s.attempt, Due: saw.Due, Started: saw.Started,
	}
	if saw != is || s.started != 0 && s.started != saw.Started || (saw.Started != 0) != (s.attempt != "") {
		return nil, nil
	}
	if saw.Due != 0 {
		at := c.of(saw.Due)
		if at < s.due.lo-c.slack || at > plus(s.due.hi, time.Duration(c.slack)) {
			return nil, nil
		}
		s.due = span{at, at}
	}
	s.started = saw.Started
	return []state{s}, nil
}

// vote: of what was counted and shown, and the same press counts once.
func (s state) vote(o *op) (yes []state, no []refusal) {
	b := o.Ballot
	if s.presses.has(&b.Vote) {
		return []state{s}, nil
	}
	event, to, reason := gate.EventDecided, b.Settles, gate.Reason("")
	switch b.Settles {
	case "":
		event, to = gate.EventVoted, gate.Pending
	case gate.Denied:
		reason = gate.ReasonDenied
	case gate.Revoked:
		event, reason = gate.EventRevoked, gate.ReasonRevoked
	}
	next, ok := s.move(event, to)
	if b.Rev != s.rev {
		no = append(no, moved)
	}
	if !ok {
		no = append(no, s.closed())
	}
	if b.Digest != s.digest {
		no = append(no, mismatch)
	}
	if len(no) > 0 {
		return nil, no
	}
	next.votes, next.presses, next.reason = s.votes.with(&b.Vote), s.presses.with(&b.Vote), reason
	switch to {
	case gate.Pending:
		next.due = s.due
	case gate.Approved:
		next.due = o.in(b.RunFor)
	}
	return []state{next}, nil
}

// consume: one attempt gets a yes, from approved, for the call that was
// approved; the same attempt gets it again.
func (s state) consume(o *op) (yes []state, no []refusal) {
	in := o.Consumption
	same := s.attempt == in.Attempt && s.digest == in.Digest && s.consumer == in.Principal
	next, ok := s.move(gate.EventConsumed, gate.Executing)
	switch {
	case s.State == gate.Executing && same:
		return s.began(o, true), nil
	case s.attempt != "":
		return nil, []refusal{spent}
	}
	if !ok {
		no = append(no, s.closed())
	}
	if in.Principal != s.opener {
		no = append(no, fenced)
	}
	if in.Rev != s.rev {
		no = append(no, moved)
	}
	if in.Digest != s.digest {
		no = append(no, mismatch)
	}
	if len(no) > 0 {
		return nil, no
	}
	next.attempt, next.consumer, next.reports, next.due = in.Attempt, in.Principal, in.WillReport, o.in(in.ReportIn)
	return next.began(o, false), nil
}

// began holds the yes of a consume against what is known. A repeated yes says
// so; a first one may, because the store repeats a call whose reply was lost.
func (s state) began(o *op, again bool) []state {
	if o.answer == nil || o.answer.Consumed == nil {
		return []state{s}
	}
	got := o.answer.Consumed
	if at := millis(got.Started); s.started != 0 && s.started != at || again && !got.Replayed {
		return nil
	}
	s.started = millis(got.Started)
	return []state{s}
}

// report: by the attempt that was dispatched, once. A report of what was not
// dispatched means that a consume was lost: it must not run any more.
func (s state) report(o *op) (yes []state, no []refusal) {
	in := o.Report
	next, ok := s.move(gate.EventReported, in.Outcome)
	mine := s.consumer == in.Principal && (in.Attempt == "" || in.Attempt == s.attempt)
	switch {
	case in.Person != "" && s.State == in.Outcome:
		return []state{s}, nil
	case in.Person != "" && s.State != gate.OutcomeUnknown:
		return nil, []refusal{s.closed()}
	case in.Person != "":
		return []state{next}, nil
	case s.attempt == "":
		if next, ok := s.move(gate.EventCancel, gate.Cancelled); ok {
			next.reason = gate.ReasonCancelled
			return []state{next}, nil
		}
		return []state{s}, nil
	case !mine:
		return nil, []refusal{fenced}
	case ok:
		return []state{next}, nil
	case s.State != in.Outcome:
		return nil, []refusal{spent}
	}
	return []state{s}, nil
}

func (s state) withdraw(o *op) (yes []state, no []refusal) {
	in := o.Withdrawal
	end := map[gate.Event]gate.State{
		gate.EventCancel: gate.Cancelled, gate.EventRevoked: gate.Revoked, gate.EventVoided: gate.Void,
	}[in.Event]
	if s.State == end && s.reason == in.Reason {
		return []state{s}, nil
	}
	next, ok := s.move(in.Event, end)
	if !ok {
		return nil, []refusal{s.closed()}
	}
	next.reason = in.Reason
	return []state{next}, nil
}

func (s state) stopWaiting(o *op) (yes []state, no []refusal) {
	next, ok := s.move(gate.EventDeferred, gate.Pending)
	if !ok {
		return nil, []refusal{s.closed()}
	}
	if s.mode == gate.Deferred {
		return []state{s}, nil
	}
	next.mode, next.due = gate.Deferred, o.in(s.expiresIn)
	return []state{next}, nil
}
