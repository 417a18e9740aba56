//go:build unix

package history

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/approvalbot/approvalbot/gate"
	"github.com/approvalbot/approvalbot/gate/secret"
	"github.com/approvalbot/approvalbot/store"
)

// role is what a re-executed test binary reads from its environment: it is a
// client then and runs no tests.
type role struct {
	Seed    uint64
	Client  int
	Store   string // through the bad network
	Counter string // around it, for what is no part of the history
	File    string // to write the history to
	Ops     int64  // of all clients together
}

// counterKey counts the operations of all clients.
const counterKey = "operations"

const (
	roleEnv = "APPROVALBOT_HISTORY_CLIENT"
	workers = 4  // of each client
	perOne  = 40 // operations until the next approval comes
	window  = 5  // approvals that are worked on at a time
)

// play is the life of one client process: until enough is done, the parent is
// gone, or the parent kills it.
func play(env string) error {
	var r role
	if err := json.Unmarshal([]byte(env), &r); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background()) //nolint:forbidigo // the root of this process
	defer stop()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // ends with the parent
		stop()
	}()
	f, err := os.OpenFile(r.File, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	db, err := open(ctx, r.Store)
	if err != nil {
		return err
	}
	defer db.Close()
	counter := redis.NewClient(&redis.Options{Network: "unix", Addr: r.Counter})
	defer counter.Close()

	rec := &recorder{Store: db, w: f, rng: rand.New(rand.NewPCG(r.Seed, uint64(r.Client)<<8)), bells: map[gate.ID]int64{}}
	g, err := newGate(rec)
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	wg.Go(func() { g.Run(ctx, fmt.Sprint("replica-", r.Client)) })
	fmt.Println("ready") // the parent may kill from now on
	var working sync.WaitGroup
	known := &memory{of: map[int64]held{}}
	for i := range workers {
		w := &worker{
			Gate: g, store: rec, counter: counter, ops: r.Ops, known: known,
			rng: rand.New(rand.NewPCG(r.Seed, uint64(r.Client)<<8+1+uint64(i))),
		}
		working.Go(func() { w.work(ctx) })
	}
	working.Wait()
	stop()
	wg.Wait()
	return nil
}

// open tries until the bad network lets it through.
func open(ctx context.Context, addr string) (db *store.Redis, err error) {
	for range 20 {
		db, err = store.Open(ctx, store.Config{Redis: store.Server{Addrs: []string{addr}}, Durability: store.Strict, Fingerprints: []string{"k"}})
		if err == nil {
			return db, nil
		}
	}
	return nil, err
}

const hermes = "hermes"

func newGate(s gate.Store) (*gate.Gate, error) {
	p, problems := newPolicy()
	if len(problems) > 0 {
		return nil, fmt.Errorf("policy: %v", problems)
	}
	keys, err := gate.NewKeyring(secret.New(strings.Repeat("k", gate.MinServerKey)))
	if err != nil {
		return nil, err
	}
	return gate.New(s, keys, nobody{}, p, slog.New(slog.DiscardHandler)), nil
}

func newPolicy() (*gate.Policy, []gate.Problem) {
	keys := []gate.Principal{{Key: hermes, Roles: []gate.Role{gate.RoleAgent}}}
	for _, name := range people {
		keys = append(keys, person(name))
	}
	return gate.NewPolicy(&gate.PolicyConfig{
		OnUndeliverable: "defer",
		ToolGate: &gate.ToolGateConfig{DefaultMode: "inline", Rules: []gate.RuleConfig{
			{Name: "one", Match: gate.MatchConfig{Tool: "one_*"}},
			{Name: "two", Match: gate.MatchConfig{Tool: "two_*"}, Quorum: &gate.QuorumConfig{Total: 2}},
			{Name: "three", Match: gate.MatchConfig{Tool: "three_*"}, Quorum: &gate.QuorumConfig{Total: 3}},
			{Name: "deny", Match: gate.MatchConfig{Tool: "now_*"}, InlineTimeout: &gate.InlineTimeoutConfig{After: "1m", Then: "deny"}},
		}},
	}, gate.ApproversConfig{}, nil, keys, nil)
}

func person(name string) gate.Principal {
	return gate.Principal{Key: name, Person: name, Roles: []gate.Role{gate.RoleApprover}}
}

// nobody is a watcher: clients here wait for nothing.
type nobody struct{}

func (nobody) Watch(gate.ID) (<-chan struct{}, func()) { return nil, func() {} }

// worker does one thing after another, on approvals that all others work on too.
type worker struct {
	*gate.Gate
	store   *recorder
	counter *redis.Client
	ops     int64
	rng     *rand.Rand
	known   *memory
}

// held is what a client knows of an approval.
type held struct {
	gate.Request
	i       int64
	id      gate.ID
	digest  gate.Digest
	token   secret.String
	attempt string // the last one made
	presses []gate.Decision
}

// memory is shared by the workers of one client, and dies with it.
type memory struct {
	mu sync.Mutex
	of map[int64]held
}

func (m *memory) recall(i int64) (held, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	h, ok := m.of[i]
	return h, ok
}

func (m *memory) learn(h held) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.of[h.i] = h
}

func (w *worker) work(ctx context.Context) {
	for ctx.Err() == nil {
		n, err := w.counter.Incr(ctx, counterKey).Result()
		if err != nil || n > w.ops {
			return
		}
		i := max(n/perOne-w.rng.Int64N(window), 0)
		if w.rng.IntN(50) == 0 {
			i = w.rng.Int64N(n/perOne + 1) // an old one
		}
		w.act(ctx, w.about(i))
		if w.rng.IntN(20) == 0 {
			pause(ctx.Done(), time.Duration(w.rng.IntN(20))*time.Millisecond)
		}
	}
}

// about is what the clients ask about for the i-th time. All know the same; two
// in three have an idempotency key, the others an id that all will choose.
func (w *worker) about(i int64) held {
	if h, ok := w.known.recall(i); ok {
		return h
	}
	h := held{i: i, Request: gate.Request{
		Call: gate.Call{
			Server: "k8s", Tool: fmt.Sprintf("%s_%d", []string{"one", "two", "three", "now", "two"}[i%5], i),
			Args: json.RawMessage(`{"namespace":"prod"}`),
		},
		Requester: gate.Requester{Key: hermes, Agent: fmt.Sprint("agent-", i), Attended: true}, // an agent of its own: none has too many waiting
	}}
	if i%4 == 0 {
		h.Request.Mode = gate.Deferred
	}
	if i%3 != 0 {
		h.Key = fmt.Sprint("key-", i)
	} else {
		h.id = gate.ID(fmt.Sprint("apr_", i))
	}
	var err error
	if h.digest, err = h.Call.Digest(); err != nil {
		panic(err) // it is a constant
	}
	return h
}

// act does something to an approval. What it is answered is in the history,
// and nobody looks at it here but to go on from it.
func (w *worker) act(ctx context.Context, h held) {
	switch n := w.rng.IntN(100); {
	case h.id == "" || n < 8:
		w.ask(ctx, h)
	case n < 33:
		w.decide(ctx, h, gate.Approve)
	case n < 34:
		w.decide(ctx, h, gate.Deny)
	case n < 40:
		w.pressAgain(ctx, h)
	case n < 66:
		w.dispatch(ctx, h)
	case n < 76:
		w.report(ctx, h)
	case n < 77:
		_ = w.Cancel(ctx, gate.Principal{Key: hermes}, h.id, "")
	case n < 78:
		_, _ = w.Revoke(ctx, h.id, w.voter(), "")
	case n < 79:
		_ = w.Undeliverable(ctx, h.id)
	case n < 81:
		_ = w.Settle(ctx, h.id, w.voter(), w.outcome(), "")
	case n < 84:
		_, _, _ = w.store.Sweep(ctx, 1+w.rng.IntN(20))
	case n < 92:
		w.force(ctx, h)
	default:
		w.store.repeat()
	}
}

func (w *worker) voter() gate.Voter { return person(people[w.rng.IntN(len(people))]).Voter("api") }

func (w *worker) outcome() gate.State {
	return []gate.State{gate.Executed, gate.Failed}[w.rng.IntN(2)]
}

// ask comes through the gate's front door, or goes straight to the store: with an
// id that everybody chooses, or with a key and an id of its own.
func (w *worker) ask(ctx context.Context, h held) {
	if h.Key == "" || w.rng.IntN(3) == 0 {
		if got, err := w.store.Open(ctx, w.opening(h)); err == nil {
			h.id = got.ID
			w.known.learn(h)
		}
		return
	}
	if r, err := w.Check(ctx, h.Request); err == nil && r.Approval != nil {
		h.id = r.Approval.ID
		w.known.learn(h)
	}
}

func (w *worker) opening(h held) gate.Opening {
	rule := w.Policy().Rule(&gate.Facts{Call: &h.Call, Requester: &h.Requester})
	o := gate.Opening{
		ID: h.id,
		Subject: gate.Subject{
			Call: h.Call, Digest: h.digest, Rule: rule.Name, Version: rule.Version, Requester: h.Requester, Executor: gate.RequesterRuns,
		},
		Mode: gate.Inline, ExpiresIn: rule.ExpiresIn, InlineFor: rule.InlineFor, InlineDeny: rule.InlineThen == gate.FallbackDeny,
	}
	if h.Request.Mode == gate.Deferred {
		o.Mode = gate.Deferred
	}
	if o.Key = h.Key; o.Key != "" {
		o.ID = gate.NewID()
	}
	return o
}

func (w *worker) decide(ctx context.Context, h held, c gate.Choice) {
	d := gate.Decision{ID: h.id, Voter: w.voter(), Choice: c, Digest: h.digest, Nonce: w.hex()}
	h.presses = append(slices.Clone(h.presses), d)
	w.known.learn(h)
	w.press(ctx, d)
}

func (w *worker) pressAgain(ctx context.Context, h held) {
	if len(h.presses) > 0 {
		w.press(ctx, h.presses[w.rng.IntN(len(h.presses))])
	}
}

func (w *worker) press(ctx context.Context, d gate.Decision) {
	_, _ = once(w.store, call{Method: press, ID: d.ID, Decision: &d}, func() (gate.Tally, error) { return w.Decide(ctx, d) })
}

// dispatch spends the token: as another attempt, as the same again, or as one
// of another call.
func (w *worker) dispatch(ctx context.Context, h held) {
	if !h.token.Set() || w.rng.IntN(4) == 0 {
		v, err := w.Get(ctx, gate.Principal{Key: hermes}, h.id)
		if err != nil || !v.Ruling.Token.Set() {
			return
		}
		h.token = v.Ruling.Token
	}
	s := gate.Spending{Principal: hermes, Token: h.token, Attempt: h.attempt, Call: h.Call, NoReport: w.rng.IntN(4) == 0}
	if s.Attempt == "" || w.rng.IntN(2) == 0 {
		s.Attempt = w.hex()
	}
	if w.rng.IntN(20) == 0 {
		s.Call.Target = "elsewhere"
	}
	h.attempt = s.Attempt
	w.known.learn(h)
	_, _ = once(w.store, call{Method: dispatch, ID: h.id, Consumption: &gate.Consumption{Attempt: s.Attempt}}, func() (gate.Ruling, error) {
		return w.Consume(ctx, s)
	})
}

func (w *worker) report(ctx context.Context, h held) {
	r := gate.Reporting{Principal: hermes, ID: h.id, Token: h.token, Attempt: h.attempt, Outcome: w.outcome()}
	if w.rng.IntN(4) == 0 {
		r.Attempt = ""
	}
	if h.token.Set() && h.attempt != "" {
		_ = w.Report(ctx, r)
	}
}

// force goes past the gate, to ask the store for what the gate never would and
// the store must refuse.
func (w *worker) force(ctx context.Context, h held) {
	s, err := w.store.Get(ctx, h.id)
	if err != nil {
		return
	}
	c := gate.Consumption{
		Rev: s.Rev, Digest: h.digest, Principal: hermes, Attempt: w.hex(), Policy: w.Policy().Version(), WillReport: true, ReportIn: time.Minute,
	}
	r := gate.Report{Principal: hermes, Attempt: s.Attempt, Outcome: w.outcome()}
	switch w.rng.IntN(3) {
	case 0:
		c.Rev--
		r.Attempt = w.hex()
	case 1:
		c.Digest[0]++
		r.Attempt = w.hex()
	case 2:
		c.Principal, r.Principal = "mallory", "mallory"
	}
	switch {
	case s.State == gate.Executing && w.rng.IntN(2) == 0:
		_ = w.store.Report(ctx, h.id, r)
	case s.State.Open() || w.rng.IntN(2) == 0:
		_, _ = w.store.Consume(ctx, h.id, c)
	default:
		_ = w.store.Withdraw(ctx, h.id, gate.Withdrawal{Event: gate.EventRevoked, Reason: gate.ReasonRevoked})
	}
}

// hex is a fresh nonce or attempt of this worker.
func (w *worker) hex() string {
	var b [16]byte
	for i := range b {
		b[i] = byte(w.rng.Uint32())
	}
	return hex.EncodeToString(b[:])
}
