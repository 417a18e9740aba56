package api_test

import (
	"context"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/approvalbot/approvalbot/bot/api"
	"github.com/approvalbot/approvalbot/gate"
)

type apiConfig = api.Config

var aTail = regexp.MustCompile(`id=(\d+) .* cmd=xread`)

// killTails cuts the connections that read the log, four times a second.
func killTails(ctx context.Context, stop <-chan struct{}, db *redis.Client) {
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		list, err := db.ClientList(ctx).Result()
		if err != nil {
			continue
		}
		for _, m := range aTail.FindAllStringSubmatch(list, -1) {
			db.ClientKillByFilter(ctx, "ID", m[1])
		}
	}
}

// BenchmarkClickToWake measures from the decide call, and from the moment the
// vote is in the store, to the return of the one who waits for it, beside others
// who wait for something else. Its yardstick is a bare PUBLISH that comes out of
// a Subscribe on the same server, once before each click: a machine that was idle
// in between is as slow to wake for the one as for the other.
func BenchmarkClickToWake(b *testing.B) {
	for _, others := range []int{100, 10_000} {
		b.Run(strconv.Itoa(others), func(b *testing.B) {
			server := startRedis(b)
			s := &votes{Store: server.open(b)}
			r := start(b, s, rules())
			bareRound := server.publishing(b)
			leave := r.crowd(b, others)
			defer leave()
			var bare, click, commit []time.Duration
			for b.Loop() {
				from, in, back := r.click(b, s, func() { bare = append(bare, bareRound()) })
				click, commit = append(click, back.Sub(from)), append(commit, back.Sub(in))
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(micros(bare, 50), "bare-p50-µs")
			b.ReportMetric(micros(click, 50), "click-p50-µs")
			b.ReportMetric(micros(click, 99), "click-p99-µs")
			b.ReportMetric(micros(commit, 50), "commit-p50-µs")
			b.ReportMetric(micros(commit, 50)/micros(bare, 50), "commit/bare")
			b.ReportMetric(micros(click, 50)/micros(bare, 50), "click/bare")
		})
	}
}

// votes is a store that remembers when the last vote went to it.
type votes struct {
	gate.Store
	at atomic.Int64
}

func (s *votes) Vote(ctx context.Context, id gate.ID, b gate.Ballot) (gate.VoteResult, error) {
	s.at.Store(time.Now().UnixNano())
	return s.Store.Vote(ctx, id, b)
}

func agent() gate.Principal { return gate.Principal{Key: "hermes", Roles: []gate.Role{gate.RoleAgent}} }

func (r *replica) openHere(b *testing.B) *gate.Snapshot {
	b.Helper()
	ruling, err := r.gate.Check(b.Context(), gate.Request{
		Call: gate.Call{Tool: "held"}, Requester: gate.Requester{Key: "hermes", Attended: true, Agent: "a"},
	})
	if err != nil {
		b.Fatal(err)
	}
	return ruling.Approval
}

// crowd parks others, who wait for something else.
func (r *replica) crowd(b *testing.B, n int) (leave func()) {
	b.Helper()
	idle := r.openHere(b)
	ctx, cancel := context.WithCancel(b.Context())
	var all sync.WaitGroup
	for range n {
		all.Go(func() { _, _ = r.gate.Await(ctx, agent(), idle.ID, idle.Rev) })
		if r.hub.Waiting()%100 == 0 {
			runtime.Gosched()
		}
	}
	eventually(b, func() bool { return r.hub.Waiting() == n })
	return func() {
		cancel()
		all.Wait()
	}
}

// click lets one wait and another decide, after something else has been done. It
// returns when the decision was made, when it went to the store, and when the one
// who waits knew.
func (r *replica) click(b *testing.B, s *votes, before func()) (from, in, back time.Time) {
	b.Helper()
	opened := r.openHere(b)
	waiting, known := r.hub.Waiting(), make(chan time.Time, 1)
	go func() {
		v, err := r.gate.Await(b.Context(), agent(), opened.ID, opened.Rev)
		if err != nil || v.State != gate.Approved {
			b.Errorf("%s, %v; want approved", v.State, err)
		}
		known <- time.Now()
	}()
	eventually(b, func() bool { return r.hub.Waiting() > waiting })
	before()
	from = time.Now()
	voter := gate.Voter{ID: "key:ann-cli", Name: "ann", Person: "ann", Surface: "api", Login: "key"}
	if _, err := r.gate.Decide(b.Context(), gate.Decision{ID: opened.ID, Voter: voter, Choice: gate.Approve, Digest: opened.Digest}); err != nil {
		b.Fatal(err)
	}
	return from, time.Unix(0, s.at.Load()), <-known
}

// publishing returns what measures a PUBLISH until a Subscribe has received it.
func (s *redisServer) publishing(b *testing.B) (round func() time.Duration) {
	b.Helper()
	db := s.client()
	sub := db.Subscribe(b.Context(), "bare")
	b.Cleanup(func() { _, _ = sub.Close(), db.Close() })
	if _, err := sub.Receive(b.Context()); err != nil {
		b.Fatal(err)
	}
	return func() time.Duration {
		from, heard := time.Now(), make(chan struct{})
		go func() {
			defer close(heard)
			if _, err := sub.ReceiveMessage(b.Context()); err != nil {
				b.Error(err)
			}
		}()
		if err := db.Publish(b.Context(), "bare", "x").Err(); err != nil {
			b.Fatal(err)
		}
		<-heard
		return time.Since(from)
	}
}

// micros is a percentile in microseconds.
func micros(all []time.Duration, percent int) float64 {
	sorted := slices.Sorted(slices.Values(all))
	return float64(sorted[(len(sorted)-1)*percent/100].Microseconds())
}
