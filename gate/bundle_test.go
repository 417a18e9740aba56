package gate_test

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/approvalbot/approvalbot/gate"
	"github.com/approvalbot/approvalbot/gate/secret"
	"github.com/approvalbot/approvalbot/store"
)

// bundle is a gate on the real scripts, with a clock that the test moves.
type bundle struct {
	*gate.Gate
	t     *testing.T
	store *store.Redis
	redis *miniredis.Miniredis
	keys  *gate.Keyring
	now   time.Time
}

// world is what most tests start from: ann, bo and cy may approve, hermes asks.
func world() *gate.PolicyConfig {
	return &gate.PolicyConfig{ToolGate: &gate.ToolGateConfig{
		DefaultMode: "inline",
		Deny:        []string{"db.drop_*"},
		Rules: []gate.RuleConfig{
			{Name: "never", Match: gate.MatchConfig{Tool: "format_disk"}, Action: "deny"},
			{Name: "free", Match: gate.MatchConfig{Tool: "read_*"}, Action: "allow"},
			{Name: "two", Match: gate.MatchConfig{Tool: "kubectl_*"}, Quorum: &gate.QuorumConfig{Total: 2}, Scopes: []string{"once", "session", "always"}},
			{Name: "staged", Match: gate.MatchConfig{Tool: "stage_*"}, Mode: "deferred"},
			{Name: "own", Match: gate.MatchConfig{Tool: "own_*"}, Approvers: []string{"requester", "sre"}},
			{Name: "why", Match: gate.MatchConfig{Tool: "why_*"}, DenyReason: "required"},
			{Name: "impatient", Match: gate.MatchConfig{Tool: "quick_*"}, InlineTimeout: &gate.InlineTimeoutConfig{After: "1m", Then: "deny"}},
			{Name: "scoped", Match: gate.MatchConfig{Tool: "scoped_*"}, Scopes: []string{"once", "session", "always"}},
		},
		RequireApproval: []string{"send_email", "delete_*"},
	}}
}

func policy(t *testing.T, cfg *gate.PolicyConfig) *gate.Policy {
	t.Helper()
	p, problems := gate.NewPolicy(cfg,
		gate.ApproversConfig{Default: []string{"sre"}, Groups: map[string]gate.GroupConfig{"sre": {Keys: []string{"ann", "bo", "cy"}}}},
		[]gate.PersonConfig{{Name: "ann", Keys: []string{"ann", "ann-agent"}}, {Name: "bo", Keys: []string{"bo"}}, {Name: "cy", Keys: []string{"cy"}}},
		[]gate.Principal{
			person("ann"), person("bo"), person("cy"),
			{Key: "hermes", Roles: []gate.Role{gate.RoleAgent}},
			{Key: "ann-agent", Roles: []gate.Role{gate.RoleAgent}},
		}, nil)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return p
}

func person(name string) gate.Principal {
	return gate.Principal{Key: name, Person: name, Roles: []gate.Role{gate.RoleApprover}}
}

func agent(name string) gate.Principal {
	return gate.Principal{Key: name, Roles: []gate.Role{gate.RoleAgent}}
}

var admin = gate.Principal{Key: "root", Roles: []gate.Role{gate.RoleAdmin}}

// nobody is a watcher whose waiters are never woken: they look again by time.
type nobody struct{}

func (nobody) Watch(gate.ID) (<-chan struct{}, func()) { return nil, func() {} }

func newKeyring(t *testing.T, keys ...string) *gate.Keyring {
	t.Helper()
	var all []secret.String
	for _, k := range keys {
		all = append(all, secret.New(strings.Repeat(k, gate.MinServerKey)))
	}
	k, err := gate.NewKeyring(all[0], all[1:]...)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func setup(t *testing.T, cfg *gate.PolicyConfig) *bundle {
	t.Helper()
	server := miniredis.RunT(t)
	b := &bundle{t: t, redis: server, keys: newKeyring(t, "k"), now: time.Now().Truncate(time.Second)}
	server.SetTime(b.now)
	var err error
	b.store, err = store.New(store.Config{
		Redis: store.Server{Addrs: []string{server.Addr()}}, Durability: store.Standard,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.store.Close() })
	b.Gate = b.on(policy(t, cfg), b.keys)
	return b
}

// on is another replica, on the same store.
func (b *bundle) on(p *gate.Policy, keys *gate.Keyring) *gate.Gate {
	g := gate.New(b.store, keys, nobody{}, p, slog.New(slog.DiscardHandler))
	ctx, stop := context.WithCancel(context.Background()) //nolint:forbidigo // it outlives no test: Cleanup stops it
	done := make(chan struct{})
	go func() { defer close(done); g.Run(ctx, "replica") }()
	b.t.Cleanup(func() { stop(); <-done })
	g.Beat(ctx, "replica")
	return g
}

// pass lets time pass in the store.
func (b *bundle) pass(d time.Duration) {
	b.now = b.now.Add(d)
	b.redis.SetTime(b.now)
}

func call(tool string) gate.Call {
	return gate.Call{Server: "k8s", Tool: tool, Target: "prod/web", Args: json.RawMessage(`{"namespace":"prod"}`)}
}

func ask(tool string) gate.Request {
	return gate.Request{Call: call(tool), Requester: gate.Requester{Key: "hermes", Agent: "hermes", Session: "s1", Attended: true}}
}

func (b *bundle) check(r gate.Request) gate.Ruling {
	b.t.Helper()
	ruling, err := b.Check(b.t.Context(), r)
	if err != nil {
		b.t.Fatalf("Check(%s) = %v", r.Call.Tool, err)
	}
	return ruling
}

// opened asks about a call and returns the approval.
func (b *bundle) opened(tool string) *gate.Snapshot {
	b.t.Helper()
	r := b.check(ask(tool))
	if r.Verdict != gate.Ask || r.Approval == nil {
		b.t.Fatalf("Check(%s) = %+v, want ask", tool, r)
	}
	return r.Approval
}

func press(s *gate.Snapshot, who string, c gate.Choice) gate.Decision {
	return gate.Decision{ID: s.ID, Voter: person(who).Voter("api"), Choice: c, Digest: s.Digest, Nonce: rand.Text()}
}

func (b *bundle) decided(d gate.Decision) gate.Tally {
	b.t.Helper()
	tally, err := b.Decide(b.t.Context(), d)
	if err != nil {
		b.t.Fatalf("Decide(%s by %s) = %v", d.Choice, d.Voter.ID, err)
	}
	return tally
}

// approved asks about a call, lets ann approve it, and returns what its opener
// may now spend.
func (b *bundle) approved(tool string) gate.Spending {
	b.t.Helper()
	s := b.opened(tool)
	b.decided(press(s, "ann", gate.Approve))
	return b.spending(s.ID)
}

func (b *bundle) spending(id gate.ID) gate.Spending {
	b.t.Helper()
	v, err := b.Get(b.t.Context(), agent("hermes"), id)
	if err != nil || v.Ruling.Next != gate.NextConsume {
		b.t.Fatalf("Get(%s) = %+v, %v; want next consume", id, v.Ruling, err)
	}
	return gate.Spending{Principal: "hermes", ID: id, Token: v.Ruling.Token, Attempt: attempt(), Call: v.Call}
}

func attempt() string {
	var b [16]byte
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

func (b *bundle) state(id gate.ID) gate.State {
	b.t.Helper()
	s, err := b.store.Get(b.t.Context(), id)
	if err != nil {
		b.t.Fatal(err)
	}
	return s.State
}

// wantRefused checks that err says why.
func wantRefused(t *testing.T, err error, kind gate.Kind, why gate.Reason) {
	t.Helper()
	if !errors.Is(err, kind) || gate.ReasonOf(err) != why {
		t.Errorf("error = %v (%v), want %v (%s)", err, gate.ReasonOf(err), kind, why)
	}
}

// log returns the events of the audit log that have reached the store.
func (b *bundle) log() []gate.Entry {
	b.t.Helper()
	entries, err := b.store.Read(b.t.Context(), "", 10_000, 0)
	if err != nil {
		b.t.Fatal(err)
	}
	return entries
}

// audited waits until the log holds an event with a note, which is written
// behind the answer.
func (b *bundle) audited(e gate.Event, note string) {
	b.t.Helper()
	pos := ""
	for b.t.Context().Err() == nil {
		entries, err := b.store.Read(b.t.Context(), pos, 100, time.Second)
		if err != nil {
			b.t.Fatal(err)
		}
		if len(entries) == 0 {
			b.t.Fatalf("no %s entry with %q in the log", e, note)
		}
		for _, got := range entries {
			pos = got.Pos
			if got.Event == e && strings.Contains(got.Note, note) {
				return
			}
		}
	}
}
