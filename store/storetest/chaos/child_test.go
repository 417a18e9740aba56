//go:build linux

package chaos

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	mathrand "math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/approvalbot/approvalbot/bot"
	"github.com/approvalbot/approvalbot/gate"
	"github.com/approvalbot/approvalbot/gate/secret"
	"github.com/approvalbot/approvalbot/store"
)

// role is what a re-executed test binary reads from its environment: it is one
// process of a history then and runs no tests.
type role struct {
	Kind  string // server, worker, clicker or requester
	Name  string
	Seed  uint64
	Life  int64        // how many of this name were killed before
	Store store.Config // through the network
	World string       // URL of what is outside: the downstream and the chat
	Dir   string       // for its history
	Begun int64        // when the history began, monotonic
	Jump  time.Duration
	Owner string // of leases
	Mute  bool   // some calls are never reported; after half a minute that is taken for success
}

const roleEnv = "APPROVALBOT_CHAOS_ROLE"

// Times, short enough for a history of some seconds.
const (
	lease    = time.Second
	reportIn = 1500 * time.Millisecond
	jobEvery = 70 * time.Millisecond
)

// play is the life of one process, until the parent kills it, closes its stdin or
// is gone.
func play(env string) error {
	var r role
	if err := json.Unmarshal([]byte(env), &r); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background()) //nolint:forbidigo // the root of this process
	defer stop()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	f, err := os.OpenFile(filepath.Join(r.Dir, fmt.Sprintf("%s-%d.jsonl", r.Name, r.Life)), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	db := open(ctx, r.Store)
	if db == nil {
		return nil
	}
	defer db.Close()
	p, err := newProcess(&r, db, f)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	p.run(ctx)
	return nil
}

// open tries until the network and Redis let it through.
func open(ctx context.Context, c store.Config) *store.Redis {
	for ctx.Err() == nil {
		if db, err := store.Open(ctx, c); err == nil {
			return db
		}
		pause(ctx, 50*time.Millisecond)
	}
	return nil
}

// process is what every role has.
type process struct {
	*gate.Gate
	role
	store gate.Store
	rec   *recorder
	world *world
	log   *slog.Logger
	hub   *bot.Hub

	mu  sync.Mutex
	rng *mathrand.Rand
}

func newProcess(r *role, db *store.Redis, f io.Writer) (*process, error) {
	log := slog.New(slog.DiscardHandler)
	p := &process{
		role: *r, store: believing{db, r.Jump}, rec: &recorder{w: f}, world: &world{url: r.World}, log: log,
		hub: bot.NewHub(db, log), rng: mathrand.New(mathrand.NewPCG(r.Seed, uint64(r.Life))),
	}
	var err error
	p.Gate, err = newGate(p.store, p.hub)
	return p, err
}

func (p *process) run(ctx context.Context) {
	var wg sync.WaitGroup
	wg.Go(func() { p.hub.Run(ctx) })
	wg.Go(func() {
		switch p.Kind {
		case "server":
			p.serve(ctx)
		case "worker":
			p.work(ctx)
		case "clicker":
			p.click(ctx)
		case "requester":
			p.request(ctx)
		}
	})
	wg.Wait()
}

// draw is a random number below n; the same seed draws the same in the same order.
func (p *process) draw(n int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.rng.IntN(n)
}

// one in n.
func (p *process) one(n int) bool { return p.draw(n) == 0 }

func (p *process) dawdle(ctx context.Context, most time.Duration) {
	pause(ctx, time.Duration(p.draw(int(most))))
}

// unique is 128 bits that nobody has drawn before: also not an earlier life of
// the same seed.
func unique() string {
	b := make([]byte, 16)
	_, _ = rand.Read(b)
	return hex.EncodeToString(b)
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// believing is a store for a process whose own clock has jumped: it takes the
// store's time for another than it is.
type believing struct {
	gate.Store
	jump time.Duration
}

// Heartbeat implements gate.Replicas.
func (b believing) Heartbeat(ctx context.Context, replica string, v gate.Version) (gate.Pulse, error) {
	p, err := b.Store.Heartbeat(ctx, replica, v)
	p.Now = p.Now.Add(b.jump)
	return p, err
}

// Who takes part.
const (
	hermes = "hermes" // asks
	ops    = "ops"    // runs
)

var people = []string{"ann", "bo", "cy"}

var asker = gate.Principal{Key: hermes, Roles: []gate.Role{gate.RoleAgent}}

func person(name string) gate.Principal {
	return gate.Principal{Key: name, Person: name, Roles: []gate.Role{gate.RoleApprover}}
}

func newGate(s gate.Store, w gate.Watcher) (*gate.Gate, error) {
	p, problems := newPolicy()
	if len(problems) > 0 {
		return nil, fmt.Errorf("policy: %v", problems)
	}
	keys, err := gate.NewKeyring(secret.New(strings.Repeat("k", gate.MinServerKey)))
	if err != nil {
		return nil, err
	}
	return gate.New(s, keys, w, p, slog.New(slog.DiscardHandler)), nil
}

// quorums of the rules, by the first word of a tool's name.
var quorums = map[string]int{"one": 1, "now": 1, "two": 2, "staged": 1, "pair": 2}

func quorumOf(tool string) int {
	word, _, _ := strings.Cut(tool, "_")
	return quorums[word]
}

func newPolicy() (*gate.Policy, []gate.Problem) {
	keys := []gate.Principal{asker}
	for _, name := range people {
		keys = append(keys, person(name))
	}
	rule := func(name, mode, executor, then string) gate.RuleConfig {
		r := gate.RuleConfig{
			Name: name, Match: gate.MatchConfig{Tool: name + "_*"}, Mode: mode, Executor: executor,
			Quorum: &gate.QuorumConfig{Total: quorums[name]}, ExpiresIn: "4s", RunWithin: "2s",
		}
		if then != "" {
			r.InlineTimeout = &gate.InlineTimeoutConfig{After: "1s", Then: then}
		}
		return r
	}
	return gate.NewPolicy(&gate.PolicyConfig{
		OnUndeliverable: "defer",
		ToolGate: &gate.ToolGateConfig{DefaultMode: "deferred", Rules: []gate.RuleConfig{
			rule("one", "inline", "", "defer"), rule("now", "inline", "", "deny"), rule("two", "deferred", "", ""),
			rule("staged", "deferred", ops, ""), rule("pair", "deferred", ops, ""),
		}},
	}, gate.ApproversConfig{}, nil, keys, nil, gate.Executor{Name: ops})
}
