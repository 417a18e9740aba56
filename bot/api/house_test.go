package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/approvalbot/approvalbot/bot"
	"github.com/approvalbot/approvalbot/bot/api"
	"github.com/approvalbot/approvalbot/bot/client"
	"github.com/approvalbot/approvalbot/bot/wire"
	"github.com/approvalbot/approvalbot/gate"
	"github.com/approvalbot/approvalbot/gate/secret"
	"github.com/approvalbot/approvalbot/store"
)

// serverKey is the server key of all tests here.
var serverKey = secret.New(strings.Repeat("k", gate.MinServerKey))

// rules is the policy that tests start from.
func rules() *gate.PolicyConfig {
	return &gate.PolicyConfig{ToolGate: &gate.ToolGateConfig{
		RequireApproval: []string{"held", "staged", "held_*"},
		ForceDeferred:   []string{"staged"},
		DefaultMode:     "inline",
		Deny:            []string{"drop_*"},
		Rules: []gate.RuleConfig{
			{Name: "secret", Match: gate.MatchConfig{Tool: "secret"}, Action: "ask", Mode: "inline", Redact: []string{"args.password"}},
			{Name: "granted", Match: gate.MatchConfig{Tool: "granted"}, Action: "ask", Mode: "inline", Scopes: []string{"once", "session", "always"}},
			{Name: "two", Match: gate.MatchConfig{Tool: "two"}, Action: "ask", Mode: "inline", Quorum: &gate.QuorumConfig{Total: 2}},
			{Name: "batch", Match: gate.MatchConfig{Tool: "batch_*"}, Mode: "deferred", Executor: "batch", Redact: []string{"args.password"}},
			{Name: "never", Match: gate.MatchConfig{Tool: "never"}, Action: "deny"},
		},
	}}
}

// keyConfigs are the API keys of all tests here.
func keyConfigs() []bot.KeyConfig {
	return []bot.KeyConfig{
		{Name: "hermes", Roles: []string{"agent"}, Asserts: []string{"person", "origin"}, Conversations: []string{"slack:C0*"}},
		{Name: "plain", Roles: []string{"agent"}},
		{Name: "ann-cli", Roles: []string{"approver"}, Person: "ann"},
		{Name: "bo-cli", Roles: []string{"approver"}, Person: "bo"},
		{Name: "books", Roles: []string{"auditor"}},
		{Name: "root", Roles: []string{"admin"}},
		{Name: "mule", Roles: []string{"worker"}, Queues: []string{"ops", "batch"}},
	}
}

// bearers are the keys themselves, the same in all processes of a test run.
func bearers() map[string]secret.String {
	out := map[string]secret.String{}
	for _, k := range keyConfigs() {
		out[k.Name] = secret.New("ab_" + k.Name + strings.Repeat("0", 43-len(k.Name)))
	}
	return out
}

func testKeys(t testing.TB) *bot.Keys {
	t.Helper()
	configs := keyConfigs()
	for i := range configs {
		configs[i].Hash = sha256Hex(bearers()[configs[i].Name].Reveal())
	}
	keys, problems := bot.NewKeys(configs)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return keys
}

func newPolicy(t testing.TB, cfg *gate.PolicyConfig, keys *bot.Keys) *gate.Policy {
	t.Helper()
	p, problems := gate.NewPolicy(cfg, gate.ApproversConfig{}, nil, keys.Principals(), nil, gate.Executor{Name: "batch"})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return p
}

// replica is one process of the product, but for the process.
type replica struct {
	gate *gate.Gate
	hub  *bot.Hub
	api  *api.API
	url  string
	keys *bot.Keys
}

// memory is a store of its own.
func memory(t testing.TB) *store.Redis {
	t.Helper()
	ring := ring(t)
	s, err := store.OpenMemory(t.Context(), store.Config{Fingerprints: ring.Fingerprints()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func ring(t testing.TB) *gate.Keyring {
	t.Helper()
	r, err := gate.NewKeyring(serverKey)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// start runs a replica on a store. Each change may alter its configuration.
func start(t testing.TB, s gate.Store, cfg *gate.PolicyConfig, changes ...func(*api.Config)) *replica {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	r := &replica{keys: testKeys(t), hub: bot.NewHub(s, quiet)}
	r.gate = gate.New(s, ring(t), r.hub, newPolicy(t, cfg, r.keys), quiet)
	c := api.Config{Gate: r.gate, Keys: r.keys, Log: s, Hub: r.hub, Out: quiet, PerKey: 1e6, Burst: 1e6}
	for _, change := range changes {
		change(&c)
	}
	r.api = api.New(c)
	server := httptest.NewServer(r.api)
	r.url = server.URL

	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	name := t.Name() + r.url
	r.gate.Beat(ctx, name)
	go r.hub.Run(ctx)
	go r.gate.Run(ctx, name)
	t.Cleanup(func() {
		r.api.Drain()
		server.Close()
		cancel() // not waited for: a read of the log takes up to a second to end
	})
	return r
}

// as is a client of one of the keys.
func (r *replica) as(t testing.TB, name string, more ...string) *client.Client {
	t.Helper()
	c, err := client.New(r.url, bearers()[name], client.Replicas(more...))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// reply is an HTTP answer whose body was read.
type reply struct {
	status int
	header http.Header
	body   []byte
}

// answer reads what every answer of the API has.
func (r reply) answer(t testing.TB) wire.Problem {
	t.Helper()
	var p wire.Problem
	if err := json.Unmarshal(r.body, &p); err != nil {
		t.Fatalf("not JSON: %v: %s", err, r.body)
	}
	return p
}

// send sends a raw request as one of the keys.
func (r *replica) send(t testing.TB, key, method, path, body string, headers ...string) reply {
	t.Helper()
	var in io.Reader
	if body != "" {
		in = bytes.NewBufferString(body)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, r.url+path, in)
	if err != nil {
		t.Fatal(err)
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+bearers()[key].Reveal())
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	out, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return reply{resp.StatusCode, resp.Header, out}
}

func yes() *bool { b := true; return &b }

// ask is an inline check of a tool by an attended agent.
func ask(tool string) wire.CheckRequest {
	return wire.CheckRequest{
		Call:      wire.Call{Server: "s", Tool: tool, Target: "t", Args: json.RawMessage(`{"n":1,"password":"hunter2"}`)},
		Requester: wire.Requester{Agent: "bot", Session: "s1", Attended: yes()},
	}
}

// open has an agent ask and returns the approval.
func (r *replica) open(t testing.TB, key, tool string) wire.CheckAnswer {
	t.Helper()
	a, err := r.as(t, key).Check(t.Context(), ask(tool), 0)
	if err != nil || a.Approval == nil {
		t.Fatalf("check of %s: %+v, %v; want an approval", tool, a, err)
	}
	return a
}

// vote has an approver decide.
func (r *replica) vote(t testing.TB, key string, a *wire.Approval, decision string) wire.DecideAnswer {
	t.Helper()
	d, err := r.as(t, key).Decide(t.Context(), a.ID, wire.DecideRequest{Decision: decision, Digest: a.Digest, Reason: "because"})
	if err != nil {
		t.Fatalf("%s by %s: %v", decision, key, err)
	}
	return d
}

// eventually polls what has no event to wait for.
func eventually(t testing.TB, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	limit := time.NewTimer(20 * time.Second)
	defer limit.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-limit.C:
			t.Fatal("it never came true")
		}
	}
}
