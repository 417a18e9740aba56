//go:build unix

package history

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/approvalbot/approvalbot/gate"
)

// line is one line of a history: a client is about to call the store, or has its
// answer. A call whose answer is missing may have happened, at any time later.
type line struct {
	Op     int64   // of that client
	At     int64   // monotonic
	Call   *call   `json:",omitempty"`
	Answer *answer `json:",omitempty"`
}

// call is one call of the store; what else is set depends on the method.
type call struct {
	Method      string
	ID          gate.ID           `json:",omitempty"`
	Key         string            `json:",omitempty"`
	Opening     *gate.Opening     `json:",omitempty"`
	Ballot      *gate.Ballot      `json:",omitempty"`
	Consumption *gate.Consumption `json:",omitempty"`
	Report      *gate.Report      `json:",omitempty"`
	Withdrawal  *gate.Withdrawal  `json:",omitempty"`
	Decision    *gate.Decision    `json:",omitempty"`
}

// What the gate says, on top of what the store says. The model knows nothing of
// these: they are many calls of the store.
const (
	dispatch = "dispatch"
	press    = "press"
)

// answer is a refusal or a yes with what it says.
type answer struct {
	No       *refusal       `json:",omitempty"`
	Opened   *gate.Opened   `json:",omitempty"`
	Found    gate.ID        `json:",omitempty"`
	Seen     *seen          `json:",omitempty"`
	Consumed *gate.Consumed `json:",omitempty"`
	Allowed  bool           `json:",omitempty"`
}

type refusal struct {
	Kind   gate.Kind
	Reason gate.Reason
	Moved  bool // it is gate.ErrMoved
}

// seen is what a reader saw of an approval.
type seen struct {
	ID      gate.ID
	State   gate.State
	Rev     int64
	Digest  gate.Digest
	Mode    gate.Mode
	Reason  gate.Reason
	Votes   ballotBox
	Attempt string
	Due     int64 // ms of the store's clock, when time moves it; 0 if that does not show
	Started int64
}

// ballotBox is the last press of each voter, comparable for the model.
type ballotBox [len(people)]string

// people may approve.
var people = [...]string{"ann", "bo", "cy"}

func (b ballotBox) with(v *gate.Vote) ballotBox {
	if i := slices.Index(people[:], v.Voter.Person); i >= 0 {
		b[i] = string(v.Choice) + " " + v.Nonce
	}
	return b
}

// pressBox is every press of each voter that was taken, in lines.
type pressBox [len(people)]string

func (b pressBox) with(v *gate.Vote) pressBox {
	if i := slices.Index(people[:], v.Voter.Person); i >= 0 {
		b[i] += pressLine(v)
	}
	return b
}

func (b pressBox) has(v *gate.Vote) bool {
	i := slices.Index(people[:], v.Voter.Person)
	return i >= 0 && strings.Contains(b[i], pressLine(v))
}

func pressLine(v *gate.Vote) string { return string(v.Choice) + " " + v.Nonce + "\n" }

func see(s *gate.Snapshot) *seen {
	out := &seen{
		ID: s.ID, State: s.State, Rev: s.Rev, Digest: s.Digest, Mode: s.Approval.Mode, Reason: s.Approval.Reason,
		Attempt: s.Attempt, Started: millis(s.Started),
	}
	for i := range s.Votes {
		out.Votes = out.Votes.with(&s.Votes[i])
	}
	switch {
	case s.State == gate.Pending && s.Approval.Mode == gate.Inline:
		out.Due = millis(s.InlineUntil)
	case s.State == gate.Pending:
		out.Due = millis(s.Expires)
	case s.State == gate.Approved:
		out.Due = millis(s.RunBy)
	}
	return out
}

func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// recorder is the store as a client has it: every call of what the model knows
// is written down before and after. Some deadlines are cut so short that time
// takes part; gate never sees the difference.
type recorder struct {
	gate.Store
	w    io.Writer
	n    atomic.Int64
	pace atomic.Int64 // how long a call takes, in nanoseconds

	mu    sync.Mutex
	rng   *rand.Rand
	past  []func()          // calls made, to be repeated word for word
	bells map[gate.ID]int64 // when they are due
}

// monotonic is a clock that all processes of one machine share, in nanoseconds.
func monotonic() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(err)
	}
	return ts.Nano()
}

// recorded makes one call and writes it down. It also keeps it, for repeat.
func recorded[T any](r *recorder, c call, f func() (T, error)) (T, error) {
	r.mu.Lock()
	r.past = append(r.past, func() { _, _ = once(r, c, f) })
	r.mu.Unlock()
	return once(r, c, f)
}

func once[T any](r *recorder, c call, f func() (T, error)) (T, error) {
	op := r.n.Add(1)
	start := monotonic()
	r.write(line{Op: op, At: start, Call: &c})
	v, err := f()
	end := monotonic()
	r.write(line{Op: op, At: end, Answer: answered(v, err)})
	r.pace.Add((end - start - r.pace.Load()) / 8)
	return v, err
}

func (r *recorder) write(l line) {
	b, err := json.Marshal(l)
	if err == nil {
		_, err = r.w.Write(append(b, '\n')) // one write: a killed client leaves no half lines but the last
	}
	if err != nil {
		panic(err)
	}
}

func answered(v any, err error) *answer {
	if err != nil {
		return &answer{No: &refusal{gate.KindOf(err), gate.ReasonOf(err), err == gate.ErrMoved}} //nolint:errorlint // the sentinel itself
	}
	switch v := v.(type) {
	case gate.Opened:
		return &answer{Opened: &v}
	case gate.ID:
		return &answer{Found: v}
	case gate.Snapshot:
		return &answer{Seen: see(&v)}
	case gate.Consumed:
		return &answer{Consumed: &v}
	case gate.Ruling:
		return &answer{Allowed: v.Verdict == gate.Allow}
	}
	return &answer{}
}

// repeat makes a call of the last few once more, as a client does that lost its
// answer.
func (r *recorder) repeat() {
	r.mu.Lock()
	last := min(len(r.past), 200)
	var again func()
	if last > 0 {
		again = r.past[len(r.past)-1-r.rng.IntN(last)]
	}
	r.mu.Unlock()
	if again != nil {
		again()
	}
}

// hasten cuts most deadlines short, to what some calls take, so that time comes
// between them on a slow machine and on a fast one.
func (r *recorder) hasten(d time.Duration) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if d == 0 || r.rng.IntN(3) == 0 {
		return d
	}
	calls := time.Duration(3 + r.rng.IntN(60))
	return max(calls*time.Duration(r.pace.Load()), 5*time.Millisecond).Truncate(time.Millisecond)
}

// hesitate lets others, or time, come between what a client has read and what it
// does about it: now and then a client acts just when the bell rings.
func (r *recorder) hesitate(ctx context.Context, id gate.ID) {
	pace := time.Duration(r.pace.Load())
	r.mu.Lock()
	left := time.Duration(r.bells[id] - monotonic())
	toBell := left > 0 && left < 100*pace && r.rng.IntN(4) != 0
	d := time.Duration(max(r.rng.IntN(12)-8, 0)) * pace
	if toBell {
		d = left + time.Duration(r.rng.IntN(4_000)-1_000)*time.Microsecond
	}
	r.mu.Unlock()
	pause(ctx.Done(), d)
}

// ring notes when an approval will be due, by what a reader saw.
func (r *recorder) ring(s *gate.Snapshot) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if due := see(s).Due; due != 0 && r.bells != nil {
		r.bells[s.ID] = monotonic() + int64(time.UnixMilli(due).Sub(s.Now))
	}
}

type none struct{}

func (r *recorder) Open(ctx context.Context, o gate.Opening) (gate.Opened, error) {
	o.ExpiresIn, o.InlineFor = r.hasten(o.ExpiresIn), r.hasten(o.InlineFor)
	return recorded(r, call{Method: "open", ID: o.ID, Key: o.Key, Opening: &o}, func() (gate.Opened, error) { return r.Store.Open(ctx, o) })
}

func (r *recorder) Find(ctx context.Context, apiKey, key string) (gate.ID, error) {
	return recorded(r, call{Method: "find", Key: key}, func() (gate.ID, error) { return r.Store.Find(ctx, apiKey, key) })
}

func (r *recorder) Get(ctx context.Context, id gate.ID) (gate.Snapshot, error) {
	s, err := once(r, call{Method: "get", ID: id}, func() (gate.Snapshot, error) { return r.Store.Get(ctx, id) })
	if err == nil {
		r.ring(&s)
	}
	return s, err
}

func (r *recorder) Vote(ctx context.Context, id gate.ID, b gate.Ballot) (gate.VoteResult, error) {
	b.RunFor = r.hasten(b.RunFor)
	r.hesitate(ctx, id)
	return recorded(r, call{Method: "vote", ID: id, Ballot: &b}, func() (gate.VoteResult, error) { return r.Store.Vote(ctx, id, b) })
}

func (r *recorder) Consume(ctx context.Context, id gate.ID, c gate.Consumption) (gate.Consumed, error) {
	c.ReportIn = r.hasten(c.ReportIn)
	r.hesitate(ctx, id)
	return recorded(r, call{Method: "consume", ID: id, Consumption: &c}, func() (gate.Consumed, error) { return r.Store.Consume(ctx, id, c) })
}

func (r *recorder) Report(ctx context.Context, id gate.ID, p gate.Report) error {
	_, err := recorded(r, call{Method: "report", ID: id, Report: &p}, func() (none, error) { return none{}, r.Store.Report(ctx, id, p) })
	return err
}

func (r *recorder) Withdraw(ctx context.Context, id gate.ID, w gate.Withdrawal) error {
	_, err := recorded(r, call{Method: "withdraw", ID: id, Withdrawal: &w}, func() (none, error) { return none{}, r.Store.Withdraw(ctx, id, w) })
	return err
}

func (r *recorder) Defer(ctx context.Context, id gate.ID) error {
	_, err := recorded(r, call{Method: "defer", ID: id}, func() (none, error) { return none{}, r.Store.Defer(ctx, id) })
	return err
}

// op is a call with its answer, nil if nobody knows what became of it.
type op struct {
	call
	client   int
	answer   *answer
	from, to int64
}

// reads reports whether the call changes nothing.
func (o *op) reads() bool { return o.Method == "get" || o.Method == "find" }

// forever is when a call without an answer has returned.
const forever = math.MaxInt64

// read returns all that the clients of a run have written, by invocation.
func read(dir string) ([]*op, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	if err != nil {
		return nil, err
	}
	var all []*op
	for client, file := range files {
		ops, err := readFile(file, client)
		if err != nil {
			return nil, err
		}
		all = append(all, ops...)
	}
	slices.SortStableFunc(all, func(a, b *op) int { return cmp.Compare(a.from, b.from) })
	return all, nil
}

func readFile(file string, client int) ([]*op, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	calls := map[int64]*op{}
	var all []*op
	for in := bufio.NewReader(f); ; {
		text, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) { // what follows the last end of line was being written
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		var l line
		if err := json.Unmarshal(text, &l); err != nil {
			return nil, err
		}
		switch {
		case l.Call != nil:
			calls[l.Op] = &op{call: *l.Call, client: client, from: l.At, to: forever}
			all = append(all, calls[l.Op])
		case l.Answer.known():
			calls[l.Op].answer, calls[l.Op].to = l.Answer, l.At
		}
	}
}

// known reports whether an answer says what happened.
func (a *answer) known() bool {
	return a.No == nil || a.No.Kind != gate.Unavailable || a.No.Reason != gate.ReasonStoreUnavailable
}
