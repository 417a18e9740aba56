package deliver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/approvalbot/approvalbot/bot"
	"github.com/approvalbot/approvalbot/bot/webhook"
	"github.com/approvalbot/approvalbot/bot/wire"
	"github.com/approvalbot/approvalbot/gate"
	"github.com/approvalbot/approvalbot/gate/secret"
	"github.com/approvalbot/approvalbot/store"
)

// office is a gate on a store in memory, with hooks that only note what they are
// sent. It lives in a bubble of synctest.
type office struct {
	*testing.T
	gate  *gate.Gate
	store *store.Redis
	hooks *Hooks
	logs  *logs
}

// receiver notes what it is sent and answers what a test says.
type receiver struct {
	mu     sync.Mutex
	got    []sent
	answer func(ctx context.Context, n int) (answer, error) // of the nth from 1; nil: 204
}

type sent struct {
	id  string
	at  time.Time
	msg wire.Message
}

func (r *receiver) send(ctx context.Context, m webhook.Message) (answer, error) {
	var msg wire.Message
	if err := json.Unmarshal(m.Body, &msg); err != nil {
		panic(err)
	}
	r.mu.Lock()
	r.got = append(r.got, sent{m.ID, time.Now(), msg})
	n := len(r.got)
	r.mu.Unlock()
	if r.answer == nil {
		return answer{status: 204}, nil
	}
	return r.answer(ctx, n)
}

func (r *receiver) all() []sent {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]sent(nil), r.got...)
}

// told is what it was told, in short: "requested pending, decided approved".
func (r *receiver) told() string {
	var all []string
	for _, s := range r.all() {
		all = append(all, strings.TrimPrefix(s.msg.Type, "approval.")+" "+s.msg.Data.State)
	}
	return strings.Join(all, ", ")
}

func always(status int) func(context.Context, int) (answer, error) {
	return func(context.Context, int) (answer, error) { return answer{status: status}, nil }
}

// inBubble runs a test with an office in a bubble of synctest.
func inBubble(t *testing.T, test func(*office)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(t)
		test(o)
		if err := o.store.Close(); err != nil {
			t.Error(err)
		}
	})
}

func newOffice(t *testing.T) *office {
	t.Helper()
	keys, err := gate.NewKeyring(secret.New(strings.Repeat("k", gate.MinServerKey)))
	if err != nil {
		t.Fatal(err)
	}
	s, err := store.OpenMemory(t.Context(), store.Config{Fingerprints: keys.Fingerprints()})
	if err != nil {
		t.Fatal(err)
	}
	o := &office{T: t, store: s, hooks: &Hooks{}, logs: &logs{}}
	o.gate = gate.New(s, keys, bot.NewHub(s, slog.New(slog.DiscardHandler)), o.policy(), slog.New(slog.DiscardHandler))
	o.gate.Beat(t.Context(), "r")
	return o
}

func (o *office) policy() *gate.Policy {
	o.Helper()
	p, problems := gate.NewPolicy(
		&gate.PolicyConfig{ToolGate: &gate.ToolGateConfig{Rules: []gate.RuleConfig{
			{Name: "prod", Match: gate.MatchConfig{Tool: "held"}, Redact: []string{"args.token"}, RunWithin: "1h", ExpiresIn: "2h"},
			{Name: "dev", Match: gate.MatchConfig{Tool: "dev"}},
		}}},
		gate.ApproversConfig{Default: []string{"sre"}, Groups: map[string]gate.GroupConfig{"sre": {Keys: []string{"ann"}}}}, nil,
		[]gate.Principal{{Key: "ann", Person: "ann", Roles: []gate.Role{gate.RoleApprover}}}, nil,
	)
	if len(problems) > 0 {
		o.Fatal(problems)
	}
	return p
}

// hook adds a hook.
func (o *office) hook(name string, change ...func(*HookConfig)) *receiver {
	r, c := &receiver{}, HookConfig{Name: name, On: kinds}
	for _, f := range change {
		f(&c)
	}
	h := &hook{HookConfig: c, to: r}
	for _, text := range c.Rules {
		g, err := gate.NewGlob(text)
		if err != nil {
			o.Fatal(err)
		}
		h.rules = append(h.rules, g)
	}
	o.hooks.all = append(o.hooks.all, h)
	return r
}

// outbox opens one of another replica.
func (o *office) outbox(change ...func(*Config)) *Outbox {
	o.Helper()
	c := Config{
		Store: o.store, Gate: o.gate, Hooks: o.hooks, Log: slog.New(slog.NewJSONHandler(o.logs, nil)),
		Callbacks: func(string, string) (webhook.Config, error) { return webhook.Config{}, errors.New("no callbacks here") },
	}
	for _, f := range change {
		f(&c)
	}
	out, err := Open(o.Context(), c)
	if err != nil {
		o.Fatal(err)
	}
	return out
}

// runs runs outboxes until stop is called.
func (o *office) runs(all ...*Outbox) (stop func()) {
	ctx, cancel := context.WithCancel(o.Context())
	var done sync.WaitGroup
	for _, out := range all {
		done.Go(func() { out.Run(ctx) })
	}
	return func() { cancel(); done.Wait() }
}

// sends sends what is owed by now until stop is called, and reads no further: then
// days pass at once.
func (o *office) sends(out *Outbox) (stop func()) {
	o.Helper()
	for out.at != o.tail() {
		if err := out.step(o.Context()); err != nil {
			o.Fatal(err)
		}
	}
	out.every = time.Hour
	ctx, cancel := context.WithCancel(o.Context())
	done := make(chan struct{})
	go func() { defer close(done); out.send(ctx); out.work.Wait() }()
	return func() { cancel(); <-done }
}

func (o *office) tail() string {
	o.Helper()
	pos, err := o.store.Tail(o.Context())
	if err != nil {
		o.Fatal(err)
	}
	return pos
}

// passes lets time pass, and whatever is due in it happen.
func (o *office) passes(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func (o *office) asks(change ...func(*gate.Request)) *gate.Snapshot {
	o.Helper()
	r := gate.Request{
		Call:      gate.Call{Server: "k8s", Tool: "held", Target: "prod/web", Args: json.RawMessage(`{"token":"abc","n":1}`)},
		Requester: gate.Requester{Key: "hermes", Agent: "claude", Session: "s1"},
	}
	for _, f := range change {
		f(&r)
	}
	got, err := o.gate.Check(o.Context(), r)
	if err != nil || got.Approval == nil {
		o.Fatalf("Check = %+v, %v", got, err)
	}
	return got.Approval
}

func dev(r *gate.Request) { r.Call.Tool = "dev" }

func (o *office) decides(a *gate.Snapshot, choice gate.Choice) {
	o.Helper()
	ann := gate.Voter{ID: "key:ann", Name: "Ann", Person: "ann", Surface: "api", Login: "key"}
	if _, err := o.gate.Decide(o.Context(), gate.Decision{ID: a.ID, Voter: ann, Choice: choice, Digest: a.Digest, Scope: gate.Once, Reason: "as agreed"}); err != nil {
		o.Fatal(err)
	}
}

// dispatches spends an approval, as its requester.
func (o *office) dispatches(a *gate.Snapshot) gate.Spending {
	o.Helper()
	v, err := o.gate.Get(o.Context(), gate.Principal{Key: "hermes"}, a.ID)
	if err != nil {
		o.Fatal(err)
	}
	s := gate.Spending{Principal: "hermes", ID: a.ID, Token: v.Ruling.Token, Attempt: strings.Repeat("0a", 16), Call: a.Call}
	if r, err := o.gate.Consume(o.Context(), s); err != nil || r.Verdict != gate.Allow {
		o.Fatalf("Consume = %+v, %v", r, err)
	}
	return s
}

func (o *office) reports(s gate.Spending, outcome gate.State, note string) {
	o.Helper()
	err := o.gate.Report(o.Context(), gate.Reporting{Principal: s.Principal, ID: s.ID, Token: s.Token, Attempt: s.Attempt, Outcome: outcome, Note: note})
	if err != nil {
		o.Fatal(err)
	}
}

// sweeps lets the store notice what time has settled.
func (o *office) sweeps() {
	o.Helper()
	if _, _, err := o.store.Sweep(o.Context(), 10); err != nil {
		o.Fatal(err)
	}
}

// logs keeps what is logged.
type logs struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// count is how many lines say something.
func (l *logs) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.b.String(), text)
}
