// Package storetest is the contract of gate.Store as tests. A store is right if
// Run and RunFailOver pass; a bug that they let through is a missing line here.
package storetest

import (
	"crypto/rand"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/approvalbot/approvalbot/gate"
)

// Store is an empty store under test. Stores do not disturb each other.
type Store struct {
	gate.Store

	// Brief is a time that tests let pass: long enough for a few calls before it
	// ends, short enough to wait for.
	Brief time.Duration

	// Advance lets time pass for the store. It skips the test if that takes a
	// clock that can be set and this store's cannot; d may be negative then.
	Advance func(t *testing.T, d time.Duration)

	// FailOver gives the store another incarnation, as a restart or a fail-over
	// of the primary does. Only RunFailOver needs it.
	FailOver func(t *testing.T)

	// ResetClock takes the clock for true again after it was set back.
	ResetClock func(t *testing.T)
}

// New returns a store and cleans up by t.Cleanup.
type New func(t *testing.T) *Store

// Run checks all of the contract that needs no fail-over.
func Run(t *testing.T, n New) {
	t.Helper()
	run(t, n, opening, voting, dispatching, leasing, unknowns, standing, reading, ageing, cards, deliveries)
	t.Run("every state takes exactly the events of the table", func(t *testing.T) {
		t.Parallel()
		testEveryMove(t, n)
	})
}

// RunFailOver checks what becomes of approvals when the store has another
// incarnation. New must fill in FailOver.
func RunFailOver(t *testing.T, n New) {
	t.Helper()
	run(t, n, failingOver)
}

// tests are the lines of one part of the contract, named by what they say.
type tests map[string]func(*kit)

func run(t *testing.T, n New, parts ...tests) {
	t.Helper()
	for _, part := range parts {
		for name, test := range part {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				k := newKit(t, n)
				test(k)
				k.checkLog()
			})
		}
	}
}

// kit is a store with the handles that tests need.
type kit struct {
	*testing.T
	*Store
}

// policy is what all replicas run unless a test says otherwise.
const policy = gate.Version("4b7d")

func newKit(t *testing.T, n New) *kit {
	t.Helper()
	k := &kit{T: t, Store: n(t)}
	k.beat("replica-1", policy)
	return k
}

func (k *kit) beat(replica string, p gate.Version) gate.Pulse {
	k.Helper()
	pulse, err := k.Heartbeat(k.Context(), replica, p)
	if err != nil {
		k.Fatalf("Heartbeat = %v", err)
	}
	return pulse
}

var alice = gate.Requester{Key: "hermes", Agent: "claude", Run: "r-7", Session: "s-1", Person: "alice", Attended: true}

func newID() gate.ID { return gate.ID("apr_" + rand.Text()) }

// question is a deferred approval for the requester to run, waiting an hour.
func (k *kit) question(change ...func(*gate.Opening)) gate.Opening {
	k.Helper()
	o := gate.Opening{
		ID: newID(),
		Subject: gate.Subject{
			Call:      gate.Call{Server: "k8s-prod", Tool: "kubectl_delete", Target: "prod/web", Args: []byte(`{"name": "web-1",  "n":1.0}`)},
			Rule:      "prod-kubectl",
			Version:   "9f2c",
			Requester: alice,
			Origin:    gate.Conversation{Place: "slack:C0PROD", Thread: "17.3"},
			Intent:    "the pod hangs \u202e and must go",
			Executor:  gate.RequesterRuns,
			Callback:  "https://ci.example.com/hooks/7",
		},
		Mode: gate.Deferred, ExpiresIn: time.Hour,
	}
	for _, c := range change {
		c(&o)
	}
	d, err := o.Call.Digest()
	if err != nil {
		k.Fatalf("Digest = %v", err)
	}
	o.Digest = d
	return o
}

func inline(d time.Duration) func(*gate.Opening) {
	return func(o *gate.Opening) { o.Mode, o.InlineFor = gate.Inline, d }
}

func expires(d time.Duration) func(*gate.Opening) { return func(o *gate.Opening) { o.ExpiresIn = d } }

func runBy(executor string) func(*gate.Opening) {
	return func(o *gate.Opening) { o.Executor = executor }
}
func discretionary(o *gate.Opening)        { o.Discretionary = true }
func otherCall(o *gate.Opening)            { o.Call.Args = []byte(`{"name":"db"}`) }
func session(s string) func(*gate.Opening) { return func(o *gate.Opening) { o.Requester.Session = s } }

func (k *kit) open(change ...func(*gate.Opening)) gate.ID {
	k.Helper()
	o := k.question(change...)
	got, err := k.Open(k.Context(), o)
	if err != nil || got.ID != o.ID || !got.Created {
		k.Fatalf("Open = %+v, %v; want %s created", got, err, o.ID)
	}
	return got.ID
}

func (k *kit) get(id gate.ID) gate.Snapshot {
	k.Helper()
	s, err := k.Get(k.Context(), id)
	if err != nil {
		k.Fatalf("Get(%s) = %v", id, err)
	}
	return s
}

func (k *kit) state(id gate.ID, want gate.State) gate.Snapshot {
	k.Helper()
	s := k.get(id)
	if s.State != want {
		k.Fatalf("%s is %s (%s), want %s", id, s.State, s.Reason, want)
	}
	return s
}

// ballot is ann's vote on the approval as it is now.
func (k *kit) ballot(id gate.ID, c gate.Choice, settles gate.State) gate.Ballot {
	k.Helper()
	s := k.get(id)
	return gate.Ballot{
		Rev: s.Rev, Digest: s.Digest, Settles: settles, RunFor: 24 * time.Hour,
		Vote: gate.Vote{
			Voter:  gate.Voter{ID: "slack:T1/U1", Name: "Ann", Person: "ann", Surface: "slack", Login: "platform"},
			Groups: []string{"sre"}, Choice: c, Scope: gate.Once, Reason: "because", Nonce: rand.Text(), At: s.Now, MAC: []byte{1, 2, 3},
		},
	}
}

func by(b gate.Ballot, person string) gate.Ballot {
	b.Vote.Voter.Person, b.Vote.Voter.Name = person, person
	return b
}

func (k *kit) vote(id gate.ID, b gate.Ballot) gate.VoteResult {
	k.Helper()
	r, err := k.Vote(k.Context(), id, b)
	if err != nil {
		k.Fatalf("Vote = %v", err)
	}
	return r
}

func (k *kit) approve(id gate.ID) gate.Snapshot {
	k.Helper()
	k.vote(id, k.ballot(id, gate.Approve, gate.Approved))
	return k.state(id, gate.Approved)
}

func (k *kit) approveFor(id gate.ID, d time.Duration) {
	k.Helper()
	b := k.ballot(id, gate.Approve, gate.Approved)
	b.RunFor = d
	k.vote(id, b)
}

func (k *kit) deny(id gate.ID) {
	k.Helper()
	k.vote(id, k.ballot(id, gate.Deny, gate.Denied))
}

// consumption is a proper attempt at the approval as it is now.
func (k *kit) consumption(id gate.ID) gate.Consumption {
	k.Helper()
	s := k.get(id)
	c := gate.Consumption{
		Rev: s.Rev, Digest: s.Digest, Principal: s.Requester.Key, Attempt: newAttempt(), Fence: s.Fence,
		Policy: policy, WillReport: true, ReportIn: time.Hour,
	}
	if !s.ByRequester() {
		c.Principal = s.Lease.Owner
	}
	return c
}

func newAttempt() string { return fmt.Sprintf("%032x", rand.Text()[:16]) }

func (k *kit) consume(id gate.ID) gate.Consumption {
	k.Helper()
	c := k.consumption(id)
	if got, err := k.Consume(k.Context(), id, c); err != nil || got.Replayed {
		k.Fatalf("Consume = %+v, %v; want a first yes", got, err)
	}
	return c
}

func (k *kit) lease(executor, owner string) (gate.ID, int64) {
	k.Helper()
	id, fence, ok, err := k.Lease(k.Context(), executor, owner, rand.Text(), time.Hour)
	if err != nil || !ok {
		k.Fatalf("Lease = %t, %v; want one", ok, err)
	}
	return id, fence
}

func (k *kit) noLease(executor string) {
	k.Helper()
	if id, _, ok, err := k.Lease(k.Context(), executor, "w", rand.Text(), time.Hour); ok || err != nil {
		k.Errorf("Lease = %s, %t, %v; want none", id, ok, err)
	}
}

// ok fails the test on any error.
func (k *kit) ok(err error) {
	k.Helper()
	if err != nil {
		k.Fatalf("got %v, want no error", err)
	}
}

// refuses checks a refusal and that it changed nothing: not the approval, not the
// log.
func (k *kit) refuses(id gate.ID, kind gate.Kind, reason gate.Reason, f func() error) {
	k.Helper()
	before, tail := k.get(id), k.tail()
	err := f()
	if !errors.Is(err, kind) || gate.ReasonOf(err) != reason {
		k.Errorf("got %v (%s), want %v (%s)", err, gate.ReasonOf(err), kind, reason)
	}
	k.same(id, before, tail)
}

// repeats checks that f succeeds and changes nothing.
func (k *kit) repeats(id gate.ID, f func() error) {
	k.Helper()
	before, tail := k.get(id), k.tail()
	k.ok(f())
	k.same(id, before, tail)
}

func (k *kit) same(id gate.ID, before gate.Snapshot, tail string) {
	k.Helper()
	after := k.get(id)
	after.Now = before.Now
	if diff := cmp.Diff(before, after); diff != "" {
		k.Errorf("it changed the approval (-before +after):\n%s", diff)
	}
	if now := k.tail(); now != tail {
		k.Errorf("it wrote to the log: %+v", k.entries(tail))
	}
}

func (k *kit) tail() string {
	k.Helper()
	pos, err := k.Tail(k.Context())
	k.ok(err)
	return pos
}

// entries reads the log from pos to its end.
func (k *kit) entries(pos string) []gate.Entry {
	k.Helper()
	var all []gate.Entry
	for {
		es, err := k.Read(k.Context(), pos, 500, 0)
		k.ok(err)
		if len(es) == 0 {
			return all
		}
		all = append(all, es...)
		pos = es[len(es)-1].Pos
	}
}

// events are those of one approval after pos, without what moves nothing.
func (k *kit) events(id gate.ID, pos string) []gate.Event {
	k.Helper()
	var out []gate.Event
	for _, e := range k.entries(pos) {
		if e.ID == id && e.To != "" {
			out = append(out, e.Event)
		}
	}
	return out
}

// checkLog holds for every store at every time: numbers without gaps, and no
// move that the table of states does not have. Each approval's story is whole.
func (k *kit) checkLog() {
	k.Helper()
	at := map[gate.ID]gate.State{}
	for i, e := range k.entries("") {
		if e.N != int64(i+1) {
			k.Fatalf("log entry %d has number %d", i+1, e.N)
		}
		if e.To == "" {
			continue
		}
		if !e.From.Takes(e.Event, e.To) {
			k.Errorf("log: %s took %q from %q to %q", e.ID, e.Event, e.From, e.To)
		}
		if at[e.ID] != e.From {
			k.Errorf("log: %s went from %q, but it was %q", e.ID, e.From, at[e.ID])
		}
		at[e.ID] = e.To
	}
	for id, s := range at {
		if got, err := k.Get(k.Context(), id); err == nil && got.State != s {
			k.Errorf("%s is %s, but the log says %s", id, got.State, s)
		}
	}
}

func (k *kit) ids(q gate.Query) []gate.ID {
	k.Helper()
	var ids []gate.ID
	for {
		p, err := k.List(k.Context(), q)
		k.ok(err)
		for i := range p.Rows {
			ids = append(ids, p.Rows[i].ID)
		}
		if p.Next == "" {
			return ids
		}
		if p.Next == q.Cursor {
			k.Fatalf("List stands still at %q", p.Next)
		}
		q.Cursor = p.Next
	}
}

func (k *kit) pending() int {
	k.Helper()
	p, err := k.List(k.Context(), gate.Query{State: gate.Pending, Limit: 1})
	k.ok(err)
	return p.Pending
}

// sweep settles everything that is due.
func (k *kit) sweep() int {
	k.Helper()
	all := 0
	for {
		n, _, err := k.Sweep(k.Context(), 100)
		k.ok(err)
		if n == 0 {
			return all
		}
		all += n
	}
}
