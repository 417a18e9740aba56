package store

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/approvalbot/approvalbot/gate"
	"github.com/approvalbot/approvalbot/store/redistest"
)

// TestLostReplies takes approvals through whole lives while the first reply to
// each call is lost. Every call must succeed, and the log must show each move
// once: what was asked twice was done once.
func TestLostReplies(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for name, f := range map[string]redistest.Loss{"the connection breaks": redistest.Hangup, "the reply never comes": redistest.Silence} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := redistest.StartProxy(t, server.Addr)
			s, err := Open(t.Context(), Config{Redis: Server{Addrs: []string{p.Addr}}, Durability: Strict, Space: strings.ToLower(rand.Text())})
			if err != nil {
				t.Fatal(err)
			}
			defer shut(t, s)
			calls := 0
			lossy := func(what string, call func() error) {
				t.Helper()
				calls++
				p.LoseNext(f)
				if err := call(); err != nil {
					t.Errorf("%s = %v", what, err)
				}
			}
			ctx := t.Context()
			r := gate.Requester{Key: "hermes", Session: "s"}
			open := func(o gate.Opening) gate.Snapshot {
				t.Helper()
				o.ID, o.Mode, o.ExpiresIn = gate.ID("apr_"+rand.Text()), gate.Deferred, time.Hour
				o.Call, o.Requester = gate.Call{Tool: "t"}, r
				o.Digest, _ = o.Call.Digest()
				var got gate.Opened
				lossy("Open", func() (err error) { got, err = s.Open(ctx, o); return err })
				if got.ID != o.ID || !got.Created {
					t.Errorf("Open = %+v", got)
				}
				return read(t, s, o.ID)
			}
			vote := func(a gate.Snapshot, settles gate.State, c gate.Choice, g *gate.Grant) gate.Snapshot {
				t.Helper()
				lossy("Vote", func() error {
					_, err := s.Vote(ctx, a.ID, gate.Ballot{
						Rev: a.Rev, Digest: a.Digest, Settles: settles, RunFor: time.Hour, Grant: g,
						Vote: gate.Vote{Voter: gate.Voter{ID: "u"}, Choice: c, Nonce: rand.Text()},
					})
					return err
				})
				return read(t, s, a.ID)
			}
			consume := func(a gate.Snapshot, principal string) string {
				t.Helper()
				attempt := rand.Text()
				lossy("Consume", func() error {
					_, err := s.Consume(ctx, a.ID, gate.Consumption{
						Rev: a.Rev, Digest: a.Digest, Principal: principal, Attempt: attempt, Fence: a.Fence, Policy: "p", WillReport: true, ReportIn: time.Hour,
					})
					return err
				})
				return attempt
			}
			lossy("Heartbeat", func() error { _, err := s.Heartbeat(ctx, "r", "p"); return err })

			a := open(gate.Opening{Subject: gate.Subject{Executor: gate.RequesterRuns}})
			lossy("Ask", func() error { return s.Ask(ctx, a.ID, a.Rev, gate.Question{By: "Ann", Text: "why?"}) })
			lossy("Answer", func() error { return s.Answer(ctx, a.ID, a.Rev+1, "so") })
			a = vote(read(t, s, a.ID), "", gate.Deny, nil)
			g := gate.Grant{ID: "grt_1", Approval: a.ID, Scope: gate.Always, Requester: r, Expires: a.Now.Add(time.Hour), Incarnation: a.Incarnation, MaxUses: 1, MAC: []byte{1}}
			a = vote(a, gate.Approved, gate.Approve, &g)
			lossy("UseGrant", func() error { return s.UseGrant(ctx, g, "p", a.Digest) })
			attempt := consume(a, r.Key)
			lossy("Report", func() error {
				return s.Report(ctx, a.ID, gate.Report{Principal: r.Key, Attempt: attempt, Outcome: gate.Executed})
			})

			b := open(gate.Opening{Subject: gate.Subject{Executor: "ops"}})
			vote(b, gate.Approved, gate.Approve, nil)
			lease := func() {
				var id gate.ID
				lossy("Lease", func() (err error) { id, _, _, err = s.Lease(ctx, "ops", "w", rand.Text(), time.Hour); return err })
				if id != b.ID {
					t.Errorf("leased %q, want %s", id, b.ID)
				}
			}
			lease()
			lossy("Release", func() error { return s.Release(ctx, b.ID, "w", 1) })
			lease()
			consume(read(t, s, b.ID), "w")

			c := open(gate.Opening{Subject: gate.Subject{Executor: gate.RequesterRuns}})
			lossy("Withdraw", func() error {
				return s.Withdraw(ctx, c.ID, gate.Withdrawal{Event: gate.EventCancel, Reason: gate.ReasonCancelled})
			})
			lossy("RevokeGrant", func() error { return s.RevokeGrant(ctx, g.ID, "ann") })
			lossy("Once", func() error {
				first, err := s.Once(ctx, "trigger", time.Hour)
				if !first {
					t.Error("whose first answer was lost is no longer the first")
				}
				return err
			})
			if again, err := s.Once(ctx, "trigger", time.Hour); again || err != nil {
				t.Errorf("another was the first too, %v", err)
			}
			lossy("EndSession", func() error { return s.EndSession(ctx, r.Key, "s", "ann") })
			if p.Lost() < calls {
				t.Errorf("%d replies of %d calls were lost", p.Lost(), calls)
			}
			checkOnce(t, s)
		})
	}
}

func read(t *testing.T, s *Redis, id gate.ID) gate.Snapshot {
	t.Helper()
	a, err := s.Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// checkOnce wants no two lines of the log to tell the same.
func checkOnce(t *testing.T, s *Redis) {
	t.Helper()
	es, err := s.Read(t.Context(), "", 1000, 0)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[gate.Entry]bool{}
	for _, e := range es {
		e.Pos, e.N, e.At = "", 0, time.Time{}
		if seen[e] && e.Event != gate.EventLeased && e.Event != gate.EventReleased {
			t.Errorf("the log tells twice: %+v", e)
		}
		seen[e] = true
	}
}

func TestNobodyWaitsForAStoreThatIsGone(t *testing.T) {
	t.Parallel()
	s, err := New(Config{Redis: Server{Addrs: []string{filepath.Join(t.TempDir(), "nothing")}}})
	if err != nil {
		t.Fatal(err)
	}
	defer shut(t, s)
	start := time.Now()
	_, err = s.Get(t.Context(), "apr_1")
	if !errors.Is(err, gate.Unavailable) || gate.ReasonOf(err) != gate.ReasonStoreUnavailable {
		t.Errorf("Get = %v, want Unavailable", err)
	}
	if took := time.Since(start); took > 2*patience {
		t.Errorf("it took %v", took)
	}
	if strings.Contains(gate.PublicText(err), "nothing") {
		t.Errorf("the public text tells the address: %q", gate.PublicText(err))
	}
}

func TestACallerWhoLeftIsNotServed(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	p := redistest.StartProxy(t, server.Addr)
	s, err := Open(t.Context(), Config{Redis: Server{Addrs: []string{p.Addr}}, Durability: Strict})
	if err != nil {
		t.Fatal(err)
	}
	defer shut(t, s)
	tries := 0
	ctx, cancel := context.WithCancel(t.Context())
	err = s.persist(ctx, func(context.Context) error {
		tries++
		cancel()
		return io.EOF
	})
	if tries != 1 || !errors.Is(err, io.EOF) {
		t.Errorf("%d tries, %v; want one", tries, err)
	}
	if err := s.Note(ctx, gate.Entry{Event: gate.EventRefused}); !errors.Is(err, gate.Unavailable) {
		t.Errorf("Note = %v, want Unavailable", err)
	}
	if es, err := s.Read(t.Context(), "", 10, 0); len(es) != 0 || err != nil {
		t.Errorf("the log has %v, %v", es, err)
	}
}

// said is what a server answers with an error.
type said string

func (s said) Error() string { return string(s) }
func (said) RedisError()     {}

// TestAnotherServerIsAskedWhereNothingWasDone: a slot that moves and a fail-over
// cost a second try; what a server has decided does not.
func TestAnotherServerIsAskedWhereNothingWasDone(t *testing.T) {
	t.Parallel()
	s, err := New(Config{Redis: Server{Addrs: []string{"127.0.0.1:1"}, Cluster: true}})
	if err != nil {
		t.Fatal(err)
	}
	defer shut(t, s)
	for answer, want := range map[said]int{
		"MOVED 3999 127.0.0.1:6381":                               2,
		"ASK 3999 127.0.0.1:6381":                                 2,
		"TRYAGAIN Multiple keys request during rehashing of slot": 2,
		"CLUSTERDOWN The cluster is down":                         2,
		"READONLY You can't write against a read only replica.":   2,
		"MASTERDOWN Link with MASTER is down":                     2,
		"LOADING Redis is loading the dataset in memory":          2,
		"NOREPLICAS Not enough good replicas to write.":           1,
		"MISCONF Errors writing to the AOF file":                  1,
		"OOM command not allowed when used memory > 'maxmemory'.": 1,
		"ERR unknown command":                                     1,
	} {
		tries := 0
		err := s.persist(t.Context(), func(context.Context) error {
			if tries++; tries == 1 {
				return answer
			}
			return nil
		})
		if tries != want || (err == nil) != (want > 1) {
			t.Errorf("%s: %d tries, %v; want %d", answer, tries, err, want)
		}
	}
}
