package store

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/approvalbot/approvalbot/gate"
	"github.com/approvalbot/approvalbot/store/redistest"
)

// openServer is a store on a server of its own, and a plain client beside it.
func openServer(t *testing.T) (*Redis, *redis.Client) {
	t.Helper()
	server := redistest.Start(t)
	s, err := Open(t.Context(), Config{Redis: Server{Addrs: []string{server.Addr}}, Durability: Strict})
	if err != nil {
		t.Fatal(err)
	}
	db := server.Client()
	t.Cleanup(func() { shut(t, s); db.Close() })
	return s, db
}

// TestRowsStayListpacks pins what halves the memory of an approval: no value of
// a row is longer than 64 bytes, however long the names are that it tells of.
func TestRowsStayListpacks(t *testing.T) {
	t.Parallel()
	told, err := os.ReadFile("keys.go")
	if err != nil {
		t.Fatal(err)
	}
	s, db := openServer(t)
	long := strings.Repeat("n", gate.MaxName)
	o := gate.Opening{
		ID: gate.ID("apr_" + strings.Repeat("0", 26)), Mode: gate.Inline, ExpiresIn: time.Hour, InlineFor: time.Hour,
		Subject: gate.Subject{
			Call: gate.Call{Server: long, Tool: long, Target: long, Args: []byte(`{"a":"` + long + `"}`)},
			Rule: long, Version: gate.Version(strings.Repeat("f", 64)), Executor: long, Intent: strings.Repeat("i", 8000),
			Requester: gate.Requester{Key: long, Agent: long, Run: long, Session: long, Person: long},
		},
		Key: long,
	}
	o.Digest, _ = o.Call.Digest()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		row := s.space.key("a:" + string(o.ID))
		if got := db.ObjectEncoding(t.Context(), row).Val(); got != "listpack" {
			t.Errorf("the row is a %s, want a listpack", got)
		}
		fields := db.HGetAll(t.Context(), row).Val()
		for f, v := range fields {
			if len(v) > maxValue || len(f) != 2 {
				t.Errorf("field %s has %d bytes", f, len(v))
			}
			if !strings.Contains(string(told), f+" ") {
				t.Errorf("field %s is not told of in keys.go", f)
			}
		}
	}
	_, err = s.Heartbeat(t.Context(), long, "p")
	check(errors.Join(err, second(s.Open(t.Context(), o))))
	check(s.Defer(t.Context(), o.ID))
	check(second(s.Vote(t.Context(), o.ID, gate.Ballot{
		Rev: 2, Digest: o.Digest, Settles: gate.Approved, RunFor: time.Hour,
		Vote: gate.Vote{Voter: gate.Voter{ID: long, Name: long}, Choice: gate.Approve, Nonce: long, Reason: long},
	})))
	owner := strings.Repeat("w", maxValue)
	_, fence, ok, err := s.Lease(t.Context(), long, owner, long, time.Hour)
	check(err)
	if !ok {
		t.Fatal("nothing to lease")
	}
	attempt := strings.Repeat("a", maxValue)
	check(second(s.Consume(t.Context(), o.ID, gate.Consumption{Rev: 4, Digest: o.Digest, Principal: owner, Attempt: attempt, Fence: fence, Policy: "p", ReportIn: time.Hour})))
	check(s.Report(t.Context(), o.ID, gate.Report{Principal: owner, Attempt: attempt, Outcome: gate.Failed, Note: long + long, Result: long + "\n" + long}))
	if a := read(t, s, o.ID); a.By != long || a.Note != long+long || a.Result != long+"\n"+long || a.Requester != o.Requester || a.Rule != long {
		t.Errorf("long texts were cut: %+v", a.Subject)
	}
}

// TestWhatEndedIsForgottenWhole pins that no key of an ended approval stays.
func TestWhatEndedIsForgottenWhole(t *testing.T) {
	t.Parallel()
	s, db := openServer(t)
	a := approvedNow(t, s)
	if err := s.Withdraw(t.Context(), a.ID, gate.Withdrawal{Event: gate.EventCancel, Reason: gate.ReasonCancelled, By: "x", Note: "y"}); err != nil {
		t.Fatal(err)
	}
	if err := s.PutPosted(t.Context(), a.ID, gate.Posted{Place: "slack:C1", Message: "1.2", Rev: 1}); err != nil {
		t.Fatal(err)
	}
	before := len(db.Keys(t.Context(), s.space.key("*")).Val())
	s.retention = 0
	if _, _, err := s.Sweep(t.Context(), 10); err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, k := range db.Keys(t.Context(), s.space.key("*")).Val() {
		left = append(left, strings.TrimPrefix(k, s.space.key("")))
	}
	slices.Sort(left)
	if want := []string{"log", "meta"}; !slices.Equal(left, want) {
		t.Errorf("left: %v, want %v", left, want)
	}
	if before < 8 {
		t.Errorf("only %d keys were there to forget", before)
	}
}

// TestForgettingGoesOnAtOnce pins that a sweep which could not forget everything
// asks for the next one now, and not when something is due.
func TestForgettingGoesOnAtOnce(t *testing.T) {
	t.Parallel()
	s, db := openServer(t)
	s.retention = 0
	for i := range sweepBatch + 1 {
		db.ZAdd(t.Context(), s.space.key("done"), redis.Z{Score: 1, Member: fmt.Sprint("apr_", i)})
	}
	if _, next, err := s.Sweep(t.Context(), sweepBatch); next != time.Millisecond || err != nil {
		t.Errorf("with more to forget: next in %v, %v; want at once", next, err)
	}
	if _, next, err := s.Sweep(t.Context(), sweepBatch); next != 0 || err != nil {
		t.Errorf("with nothing left: next in %v, %v; want none", next, err)
	}
}

func TestATamperedRecordIsNotShown(t *testing.T) {
	t.Parallel()
	s, db := openServer(t)
	for name, tamper := range map[string]func(id string){
		"other arguments":   func(id string) { db.Set(t.Context(), s.space.key("x:"+id), `{"harmless":true}`, 0) },
		"no arguments":      func(id string) { db.Set(t.Context(), s.space.key("x:"+id), `{"a":1}`, 0) },
		"another tool":      func(id string) { db.Set(t.Context(), s.space.key("h:"+id), `{"tool":"read"}`, 0) },
		"no head":           func(id string) { db.Del(t.Context(), s.space.key("h:"+id)) },
		"another digest":    func(id string) { db.HSet(t.Context(), s.space.key("a:"+id), "dg", strings.Repeat("0", 64)) },
		"half a digest":     func(id string) { db.HSet(t.Context(), s.space.key("a:"+id), "dg", "00") },
		"a broken vote":     func(id string) { db.HSet(t.Context(), s.space.key("v:"+id), "u", "x {") },
		"a broken question": func(id string) { db.RPush(t.Context(), s.space.key("q:"+id), "q1 {") },
		"another type": func(id string) {
			db.Del(t.Context(), s.space.key("v:"+id))
			db.Set(t.Context(), s.space.key("v:"+id), "x", 0)
		},
	} {
		a := approvedNow(t, s)
		tamper(string(a.ID))
		if _, err := s.Get(t.Context(), a.ID); gate.KindOf(err) != gate.Internal || err == nil {
			t.Errorf("%s: Get = %v, want an Internal error", name, err)
		}
	}
}

// TestAnEndedSessionsGrantsEndWithItsTombstone looks into the moment when a
// large session is ended but not all that hangs on it has been taken off yet.
func TestAnEndedSessionsGrantsEndWithItsTombstone(t *testing.T) {
	t.Parallel()
	s, err := OpenMemory(t.Context(), Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer shut(t, s)
	if _, err := s.Heartbeat(t.Context(), "r", "p"); err != nil {
		t.Fatal(err)
	}
	a := approvedNow(t, s)
	r := gate.Requester{Key: "hermes", Session: "s"}
	g := gate.Grant{ID: "grt_1", Scope: gate.Session, Requester: r, Expires: a.Now.Add(time.Hour), Incarnation: a.Incarnation, MAC: []byte{1}}
	e, err := encodeGrant("", &g)
	if err != nil {
		t.Fatal(err)
	}
	s.db.HSet(t.Context(), s.space.key("g:grt_1"), "js", e.json, "mc", e.mac, "xp", e.expires, "rq", e.requester, "ss", e.session)
	if err := s.UseGrant(t.Context(), g, "p", a.Digest); err != nil {
		t.Errorf("UseGrant = %v", err)
	}
	s.db.HSet(t.Context(), s.space.key("s:"+e.session), "en", 1)
	if err := s.UseGrant(t.Context(), g, "p", a.Digest); gate.ReasonOf(err) != gate.ReasonRevoked {
		t.Errorf("UseGrant = %v, want a Conflict (revoked)", err)
	}
	if err := s.PutGrant(t.Context(), g, "ann"); gate.ReasonOf(err) != gate.ReasonRevoked {
		t.Errorf("PutGrant = %v, want a Conflict (revoked)", err)
	}
}

func TestTheListOfWhatEndedForgetsToo(t *testing.T) {
	t.Parallel()
	s, server, err := newMemory(Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer shut(t, s)
	a := approvedNow(t, s)
	if err := s.Withdraw(t.Context(), a.ID, gate.Withdrawal{Event: gate.EventCancel}); err != nil {
		t.Fatal(err)
	}
	for _, at := range []struct {
		after time.Duration
		want  int64
	}{{minRetention - time.Minute, 1}, {minRetention + time.Minute, 0}} {
		server.SetTime(a.Now.Add(at.after))
		if _, _, err := s.Sweep(t.Context(), 10); err != nil {
			t.Fatal(err)
		}
		if n := s.db.ZCard(t.Context(), s.space.key("done")).Val(); n != at.want {
			t.Errorf("after %v %d are listed, want %d", at.after, n, at.want)
		}
	}
}

// TestSweepPutsIndexesRight lets an index disagree with its rows, as after a
// partial restore: the sweep must neither stop at it nor run on it for ever.
func TestSweepPutsIndexesRight(t *testing.T) {
	t.Parallel()
	s, db := openServer(t)
	a := approvedNow(t, s)
	due, live := s.space.key("due"), s.space.key("live")
	db.ZAdd(t.Context(), due, redis.Z{Score: 1, Member: "apr_lost"}, redis.Z{Score: 2, Member: string(a.ID)})
	db.ZAdd(t.Context(), live, redis.Z{Score: 1, Member: "apr_lost"})
	db.ZAdd(t.Context(), s.space.key("pending"), redis.Z{Score: 1, Member: "apr_lost"}, redis.Z{Score: 1, Member: string(a.ID)})
	n, next, err := s.Sweep(t.Context(), 10)
	if n != 0 || next < time.Minute || err != nil {
		t.Errorf("Sweep = %d, %v, %v; want nothing settled", n, next, err)
	}
	if got := db.ZRange(t.Context(), due, 0, -1).Val(); !slices.Equal(got, []string{string(a.ID)}) {
		t.Errorf("due: %v", got)
	}
	if score := db.ZScore(t.Context(), due, string(a.ID)).Val(); int64(score) != a.RunBy.UnixMilli() {
		t.Errorf("due at %v, want %v", score, a.RunBy)
	}
	p, err := s.List(t.Context(), gate.Query{})
	if err != nil || len(p.Rows) != 1 {
		t.Errorf("List = %d rows, %v; want one", len(p.Rows), err)
	}
	if got := db.ZRange(t.Context(), s.space.key("pending"), 0, -1).Val(); len(got) != 0 {
		t.Errorf("pending: %v, want none", got)
	}
}

// TestPagesBoundTheirWork pins that no page looks at more than 1,000 approvals,
// and that the next one goes on from there.
func TestPagesBoundTheirWork(t *testing.T) {
	t.Parallel()
	s, _ := openServer(t)
	for range 1100 {
		o := gate.Opening{
			ID: gate.ID("apr_" + rand.Text()), Mode: gate.Deferred, ExpiresIn: time.Hour,
			Subject: gate.Subject{Call: gate.Call{Tool: "t"}, Executor: gate.RequesterRuns, Digest: gate.Digest{1}},
		}
		if _, err := s.Open(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	q := gate.Query{State: gate.Pending, Tool: "none"}
	p, err := s.List(t.Context(), q)
	if err != nil || len(p.Rows) != 0 || p.Next == "" || p.Pending != 1100 {
		t.Fatalf("first page: %d rows, next %q, %d pending, %v", len(p.Rows), p.Next, p.Pending, err)
	}
	q.Cursor = p.Next
	if p, err = s.List(t.Context(), q); err != nil || len(p.Rows) != 0 || p.Next != "" {
		t.Errorf("second page: %d rows, next %q, %v; want the end", len(p.Rows), p.Next, err)
	}
}

func second[T any](_ T, err error) error { return err }
