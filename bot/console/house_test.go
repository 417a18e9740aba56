package console_test

import (
	"context"
	"crypto/rand"
	"html"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/approvalbot/approvalbot/bot"
	"github.com/approvalbot/approvalbot/bot/console"
	"github.com/approvalbot/approvalbot/gate"
	"github.com/approvalbot/approvalbot/gate/secret"
	"github.com/approvalbot/approvalbot/store"
)

// house is a console on a real gate and store, in memory.
type house struct {
	t    *testing.T
	gate *gate.Gate
	hub  *bot.Hub
	keys map[string]string // bearer by name
	seal *gate.Keyring
	url  string

	browser *browser // in tests that have one

	mu   sync.Mutex
	gone map[string]bool // keys taken out of the configuration
	log  strings.Builder // of the console
}

// rules: ann, bo and cy are sre; hermes asks.
var rules = []gate.RuleConfig{
	{Name: "prod-kubectl", Match: gate.MatchConfig{Tool: "kubectl_*"}, Quorum: &gate.QuorumConfig{Total: 2}, Scopes: []string{"once", "session", "always"}},
	{Name: "data-loss", Match: gate.MatchConfig{Tool: "db_*"}, Risk: "high", DenyReason: "required", Redact: []string{"args.password"}},
	{Name: "mail", Match: gate.MatchConfig{Tool: "send_email"}},
	{Name: "deploys", Match: gate.MatchConfig{Tool: "deploy"}, Mode: "deferred", Risk: "medium", Scopes: []string{"once", "session"}},
	{Name: "owners-only", Match: gate.MatchConfig{Tool: "rotate_*"}, Approvers: []string{"owners"}},
}

func newHouse(t *testing.T, change ...func(*console.Config)) *house {
	t.Helper()
	h := &house{t: t, keys: map[string]string{}, gone: map[string]bool{}}
	keys := h.makeKeys()
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	st, err := store.OpenMemory(ctx, store.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(); running.Wait(); _ = st.Close() })

	quiet := slog.New(slog.DiscardHandler)
	h.seal, err = gate.NewKeyring(secret.New(rand.Text() + rand.Text()))
	if err != nil {
		t.Fatal(err)
	}
	h.hub = bot.NewHub(st, quiet)
	h.gate = gate.New(st, h.seal, h.hub, h.policy(rules), quiet)
	running.Go(func() { h.hub.Run(ctx) })
	running.Go(func() { h.gate.Run(ctx, "replica") })
	h.gate.Beat(ctx, "replica")
	h.serve(ctx, keys, change)
	return h
}

func (h *house) serve(ctx context.Context, keys *bot.Keys, change []func(*console.Config)) {
	cfg := console.Config{
		Inbox: h.gate, Grants: h.gate, Wake: h.hub, Seal: h.seal, Log: slog.New(slog.NewTextHandler(h, nil)),
		Login: func(bearer string) (gate.Principal, bool) {
			k, ok := keys.Authenticate(bearer)
			if !ok {
				return gate.Principal{}, false
			}
			return k.Principal, true
		},
		Holder: func(name string) (gate.Principal, bool) {
			for _, p := range keys.Principals() {
				if p.Key == name && !h.isGone(name) {
					return p, true
				}
			}
			return gate.Principal{}, false
		},
	}
	for _, f := range change {
		f(&cfg)
	}
	c, err := console.New(cfg)
	if err != nil {
		h.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(ctx)
	server := httptest.NewUnstartedServer(c)
	server.Config.BaseContext = func(net.Listener) context.Context { return ctx }
	server.Start()
	h.url = server.URL
	h.t.Cleanup(func() { stop(); server.Close() })
}

func (h *house) makeKeys() *bot.Keys {
	var configs []bot.KeyConfig
	for name, role := range map[string]string{"hermes": "agent", "ann-cli": "approver", "bo-cli": "approver", "cy-cli": "approver", "audit": "auditor"} {
		bearer, hash := bot.NewKey()
		h.keys[name] = bearer.Reveal()
		k := bot.KeyConfig{Name: name, Roles: []string{role}, Hash: hash}
		if role == "approver" {
			k.Person = strings.TrimSuffix(name, "-cli")
		}
		configs = append(configs, k)
	}
	keys, problems := bot.NewKeys(configs)
	if len(problems) > 0 {
		h.t.Fatal(problems)
	}
	return keys
}

func (h *house) policy(rules []gate.RuleConfig) *gate.Policy {
	h.t.Helper()
	person := func(name string) gate.Principal {
		return gate.Principal{Key: name + "-cli", Person: name, Roles: []gate.Role{gate.RoleApprover}}
	}
	p, problems := gate.NewPolicy(
		&gate.PolicyConfig{ToolGate: &gate.ToolGateConfig{DefaultMode: "inline", Rules: rules}},
		gate.ApproversConfig{Default: []string{"sre"}, Groups: map[string]gate.GroupConfig{
			"sre": {Keys: []string{"ann-cli", "bo-cli", "cy-cli"}}, "owners": {Keys: []string{"cy-cli"}},
		}},
		nil, []gate.Principal{person("ann"), person("bo"), person("cy"), {Key: "hermes", Roles: []gate.Role{gate.RoleAgent}}}, nil)
	if len(problems) > 0 {
		h.t.Fatal(problems)
	}
	return p
}

// Write takes the console's log.
func (h *house) Write(b []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.log.Write(b)
}

func (h *house) logged() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.log.String()
}

func (h *house) isGone(key string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.gone[key]
}

// removeKey takes a key out of the configuration.
func (h *house) removeKey(key string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.gone[key] = true
}

var hermes = gate.Principal{Key: "hermes", Roles: []gate.Role{gate.RoleAgent}}

// request is a call of hermes, for cy, that the policy holds.
func request(tool, target, args string) gate.Request {
	return gate.Request{
		Call:      gate.Call{Server: "k8s-prod", Tool: tool, Target: target, Args: []byte(args)},
		Requester: gate.Requester{Key: "hermes", Agent: "deploy-bot", Run: "run-81", Session: "s-204", Person: "dora", Attended: true},
	}
}

// ask opens an approval and returns what its caller was answered.
func (h *house) ask(r gate.Request) gate.Ruling {
	h.t.Helper()
	ruling, err := h.gate.Check(h.t.Context(), r)
	if err != nil || ruling.Approval == nil {
		h.t.Fatalf("Check(%s) = %+v, %v", r.Call.Tool, ruling, err)
	}
	return ruling
}

func (h *house) open(tool, target, args string) gate.ID {
	h.t.Helper()
	return h.ask(request(tool, target, args)).Approval.ID
}

// view reads an approval as its opener.
func (h *house) view(id gate.ID) gate.View {
	h.t.Helper()
	v, err := h.gate.Get(h.t.Context(), hermes, id)
	if err != nil {
		h.t.Fatal(err)
	}
	return v
}

func (h *house) vote(who string, id gate.ID, choice gate.Choice, why string) {
	h.t.Helper()
	p := gate.Principal{Key: who + "-cli", Person: who, Roles: []gate.Role{gate.RoleApprover}}
	v := h.view(id)
	_, err := h.gate.Decide(h.t.Context(), gate.Decision{ID: v.ID, Voter: p.Voter("api"), Choice: choice, Reason: why, Digest: v.Digest, Nonce: who})
	if err != nil {
		h.t.Fatal(err)
	}
}

// visitor is a browser without scripts.
type visitor struct {
	*house
	http *http.Client
}

func (h *house) visitor() *visitor {
	jar, err := cookiejar.New(nil)
	if err != nil {
		h.t.Fatal(err)
	}
	return &visitor{h, &http.Client{Jar: jar, Timeout: 10 * time.Second}}
}

// as is a visitor who has logged in.
func (h *house) as(who string) *visitor {
	h.t.Helper()
	v := h.visitor()
	if p := v.post("/console/login", url.Values{"key": {h.keys[who]}}); p.status != http.StatusOK || !strings.Contains(p.text, "Log out") {
		h.t.Fatalf("login as %s: %d\n%s", who, p.status, p.text)
	}
	return v
}

// answer is what a visitor got, after redirects.
type answer struct {
	status int
	path   string
	header http.Header
	body   string
	text   string // what is read of it, on one line
}

var (
	tags   = regexp.MustCompile(`<[^>]*>`)
	blanks = regexp.MustCompile(`\s+`)
)

func (v *visitor) do(r *http.Request) answer {
	v.t.Helper()
	resp, err := v.http.Do(r)
	if err != nil {
		v.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		v.t.Fatal(err)
	}
	text := html.UnescapeString(tags.ReplaceAllString(string(b), " "))
	return answer{resp.StatusCode, resp.Request.URL.Path, resp.Header, string(b), blanks.ReplaceAllString(text, " ")}
}

func (v *visitor) request(method, path string, form url.Values) *http.Request {
	v.t.Helper()
	r, err := http.NewRequestWithContext(v.t.Context(), method, v.url+path, strings.NewReader(form.Encode()))
	if err != nil {
		v.t.Fatal(err)
	}
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	return r
}

func (v *visitor) get(path string) answer {
	v.t.Helper()
	return v.do(v.request(http.MethodGet, path, nil))
}

func (v *visitor) post(path string, form url.Values) answer {
	v.t.Helper()
	return v.do(v.request(http.MethodPost, path, form))
}

var hidden = regexp.MustCompile(`<input type="hidden" name="(token|digest|nonce)" value="([^"]*)">`)

// form reads what a page's forms carry.
func (a answer) form(more ...string) url.Values {
	f := url.Values{}
	for _, m := range hidden.FindAllStringSubmatch(a.body, -1) {
		f.Set(m[1], m[2])
	}
	for i := 0; i+1 < len(more); i += 2 {
		f.Set(more[i], more[i+1])
	}
	return f
}

func page(id gate.ID) string { return "/console/approvals/" + string(id) }

// press opens an approval's page and presses there.
func (v *visitor) press(id gate.ID, more ...string) answer {
	v.t.Helper()
	return v.post(page(id), v.get(page(id)).form(more...))
}
