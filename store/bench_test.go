package store

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/approvalbot/approvalbot/gate"
	"github.com/approvalbot/approvalbot/store/redistest"
)

// The goals, as ratios taken in one run, because machines differ:
//
//	BenchmarkLife     ratio ≥ 0.35  whole lives against a bare compare-and-set
//	BenchmarkPage     ratio ≤ 1.5   first page of 100,000 against one of 100
//	BenchmarkMemory   B/pending ≤ 2500
//	BenchmarkExpire   10,000 due at once: all_ms ≤ 2000, longest_ms ≤ 5

func benchStore(b *testing.B, s *redistest.Server) *Redis {
	b.Helper()
	st, err := Open(b.Context(), Config{Redis: Server{Addrs: []string{s.Addr}}, Durability: Strict, Space: "default"})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { st.Close() })
	if _, err := st.Heartbeat(b.Context(), "bench", "p"); err != nil {
		b.Fatal(err)
	}
	return st
}

// benchArgs make a record of about 1.2 KB with its head and fields.
var benchArgs = []byte(fmt.Sprintf(`{"namespace":"prod","name":"web-1","manifest":%q}`, strings.Repeat("replicas: 3 ", 45)))

func benchOpening(id gate.ID) gate.Opening {
	o := gate.Opening{
		ID: id,
		Subject: gate.Subject{
			Call: gate.Call{Server: "k8s-prod", Tool: "kubectl_apply", Target: "prod/web", Args: benchArgs},
			Rule: "prod-kubectl", Version: gate.Version(strings.Repeat("9f2c", 16)),
			Requester: gate.Requester{Key: "hermes", Agent: "claude", Run: "run-7", Session: "session-1", Person: "alice"},
			Intent:    "scale the shop back up after the incident", Executor: gate.RequesterRuns,
		},
		Mode: gate.Deferred, ExpiresIn: time.Hour,
	}
	copy(o.Digest[:], "a digest of thirty-two bytes, say")
	return o
}

// live takes one approval through its whole life: four transitions.
func live(ctx context.Context, s *Redis, o gate.Opening) error {
	if _, err := s.Open(ctx, o); err != nil {
		return err
	}
	_, err := s.Vote(ctx, o.ID, gate.Ballot{
		Rev: 1, Digest: o.Digest, Settles: gate.Approved, RunFor: time.Hour,
		Vote: gate.Vote{Voter: gate.Voter{ID: "slack:T1/U1", Name: "Ann", Person: "ann"}, Groups: []string{"sre"}, Choice: gate.Approve, Nonce: "n", MAC: make([]byte, 32)},
	})
	if err != nil {
		return err
	}
	attempt := "0123456789abcdef0123456789abcdef"
	_, err = s.Consume(ctx, o.ID, gate.Consumption{
		Rev: 2, Digest: o.Digest, Principal: "hermes", Attempt: attempt, Policy: "p", WillReport: true, ReportIn: time.Hour,
	})
	if err != nil {
		return err
	}
	return s.Report(ctx, o.ID, gate.Report{Principal: "hermes", Attempt: attempt, Outcome: gate.Executed})
}

func BenchmarkLife(b *testing.B) {
	server := redistest.Start(b, "--appendonly", "no", "--save", "3600 1")
	s := benchStore(b, server)
	const callers, lives = 64, 8192
	var best float64
	for range b.N {
		before := server.Ceiling()
		rate := 4 * lives / lived(b, s, callers, lives).Seconds()
		b.ReportMetric(rate, "transitions/s")
		best = max(best, rate/max(before, server.Ceiling()))
	}
	b.ReportMetric(best, "ratio")
}

// BenchmarkScripts shows where a life's time goes in the server: the median of each script.
func BenchmarkScripts(b *testing.B) {
	server := redistest.Start(b, "--appendonly", "no", "--save", "3600 1")
	s := benchStore(b, server)
	db := server.Client()
	defer db.Close()
	db.ConfigSet(b.Context(), "slowlog-log-slower-than", "0")
	db.ConfigSet(b.Context(), "slowlog-max-len", "1000000")
	for range b.N {
		for range 200 {
			if err := live(b.Context(), s, benchOpening(gate.ID("apr_"+rand.Text()))); err != nil {
				b.Fatal(err)
			}
		}
	}
	log, err := db.SlowLogGet(b.Context(), -1).Result()
	if err != nil {
		b.Fatal(err)
	}
	took := map[string][]time.Duration{}
	for _, l := range log {
		if strings.EqualFold(l.Args[0], "evalsha") {
			took[l.Args[1]] = append(took[l.Args[1]], l.Duration)
		}
	}
	for name, sc := range map[string]*redis.Script{"open": openScript, "vote": voteScript, "consume": consumeScript, "report": reportScript} {
		all := took[sc.Hash()]
		slices.Sort(all)
		b.ReportMetric(float64(all[len(all)/2].Microseconds()), "µs/"+name)
	}
}

func fill(b *testing.B, s *Redis, n int) {
	b.Helper()
	var next atomic.Int64
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			for next.Add(1) <= int64(n) {
				if _, err := s.Open(b.Context(), benchOpening(gate.ID("apr_"+rand.Text()))); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func BenchmarkPage(b *testing.B) {
	server := redistest.Start(b, "--appendonly", "no", "--save", "3600 1")
	median := func(s *Redis) time.Duration {
		var took []time.Duration
		for range 200 {
			start := time.Now()
			p, err := s.List(b.Context(), gate.Query{State: gate.Pending})
			if err != nil || len(p.Rows) != 50 {
				b.Fatalf("%d rows, %v", len(p.Rows), err)
			}
			took = append(took, time.Since(start))
		}
		slices.Sort(took)
		return took[len(took)/2]
	}
	small, middle, large := benchStore(b, server), benchStore(b, server), benchStore(b, server)
	fill(b, small, 100)
	fill(b, middle, 10_000)
	fill(b, large, 100_000)
	b.ResetTimer()
	for range b.N {
		base := median(small)
		b.ReportMetric(float64(base.Microseconds()), "µs/page")
		b.ReportMetric(float64(median(middle))/float64(base), "ratio-10k")
		b.ReportMetric(float64(median(large))/float64(base), "ratio-100k")
	}
}

func BenchmarkMemory(b *testing.B) {
	server := redistest.Start(b)
	s := benchStore(b, server)
	db := server.Client()
	defer db.Close()
	const n = 10_000
	for range b.N {
		before := usedMemory(b, db)
		fill(b, s, n)
		b.ReportMetric(float64(usedMemory(b, db)-before)/n, "B/pending")
	}
}

func usedMemory(b *testing.B, db *redis.Client) int {
	b.Helper()
	info, err := db.Info(b.Context(), "memory").Result()
	if err != nil {
		b.Fatal(err)
	}
	n, err := strconv.Atoi(parseInfo(info)["used_memory"])
	if err != nil {
		b.Fatal(err)
	}
	return n
}

func BenchmarkExpire(b *testing.B) {
	server := redistest.Start(b)
	db := server.Client()
	defer db.Close()
	for range b.N {
		s := benchStore(b, server)
		fill(b, s, 10_000)
		ids, err := db.ZRange(b.Context(), s.space.key("due"), 0, -1).Result()
		if err != nil {
			b.Fatal(err)
		}
		pipe := db.Pipeline()
		for _, id := range ids { // all are due at once
			pipe.HSet(b.Context(), s.space.key("a:"+id), "xp", 1)
			pipe.ZAdd(b.Context(), s.space.key("due"), redis.Z{Score: 1, Member: id})
		}
		if _, err := pipe.Exec(b.Context()); err != nil {
			b.Fatal(err)
		}
		db.ConfigSet(b.Context(), "slowlog-log-slower-than", "0")
		db.ConfigSet(b.Context(), "slowlog-max-len", "1000")
		db.SlowLogReset(b.Context())
		start, done := time.Now(), 0
		for done < len(ids) {
			n, _, err := s.Sweep(b.Context(), 100)
			if err != nil {
				b.Fatal(err)
			}
			done += n
		}
		b.ReportMetric(float64(time.Since(start).Milliseconds()), "all_ms")
		var longest []time.Duration
		slow, err := db.SlowLogGet(b.Context(), -1).Result()
		if err != nil {
			b.Fatal(err)
		}
		for _, l := range slow {
			if strings.EqualFold(l.Args[0], "evalsha") {
				longest = append(longest, l.Duration)
			}
		}
		slices.Sort(longest)
		b.ReportMetric(float64(longest[len(longest)-1].Microseconds())/1000, "longest_ms")
		b.ReportMetric(float64(longest[len(longest)/2].Microseconds())/1000, "median_ms")
	}
}

// BenchmarkConfirmed shows what replicas that confirm cost a whole life, in which
// two of four transitions wait for them.
func BenchmarkConfirmed(b *testing.B) {
	g := redistest.StartSentinel(b, redistest.Setup{Replicas: 2})
	for _, wait := range []int{0, 2} {
		for _, callers := range []int{1, 16, 64} {
			b.Run(fmt.Sprintf("wait=%d/callers=%d", wait, callers), func(b *testing.B) {
				s, err := New(Config{Redis: Server{Addrs: []string{g.Nodes[0].Addr}}, WaitReplicas: wait, WaitTimeout: map[int]string{2: "1s"}[wait]})
				if err != nil {
					b.Fatal(err)
				}
				defer s.Close()
				if _, err := s.Heartbeat(b.Context(), "bench", "p"); err != nil {
					b.Fatal(err)
				}
				const lives = 2048
				for range b.N {
					took := lived(b, s, callers, lives)
					b.ReportMetric(lives/took.Seconds(), "lives/s")
				}
			})
		}
	}
}

// lived is how long so many lives took.
func lived(b *testing.B, s *Redis, callers, lives int) time.Duration {
	b.Helper()
	var next atomic.Int64
	var wg sync.WaitGroup
	start := time.Now()
	for range callers {
		wg.Go(func() {
			for next.Add(1) <= int64(lives) {
				if err := live(b.Context(), s, benchOpening(gate.ID("apr_"+rand.Text()))); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	return time.Since(start)
}
