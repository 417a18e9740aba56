package gate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"
)

// config is as much of the file as a policy is made of.
type config struct {
	Approvals *PolicyConfig   `yaml:"approvals"`
	Approvers ApproversConfig `yaml:"approvers"`
	People    []PersonConfig  `yaml:"people"`
}

// keys of every test: three approvers, of whom two are one person, and an agent.
var keys = []Principal{
	{Key: "ann-cli", Roles: []Role{RoleApprover}, Person: "ann"},
	{Key: "ann-web", Roles: []Role{RoleApprover}, Person: "ann"},
	{Key: "bob-cli", Roles: []Role{RoleApprover}},
	{Key: "hermes", Roles: []Role{RoleAgent}},
}

func load(t testing.TB, text string) (*Policy, []Problem) {
	t.Helper()

	var c config
	if err := yaml.UnmarshalWithOptions([]byte(text), &c, yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	return NewPolicy(c.Approvals, c.Approvers, c.People, keys, nil, Executor{"ops", true}, Executor{"batch", false})
}

func mustLoad(t testing.TB, text string) *Policy {
	t.Helper()

	p, problems := load(t, text)
	for _, problem := range problems {
		t.Error(problem)
	}
	if p == nil {
		t.FailNow()
	}
	return p
}

// gate is a policy with the given tool_gate.
func gate(lines string) string {
	return "approvals:\n  tool_gate:\n    " + strings.ReplaceAll(strings.TrimSpace(lines), "\n", "\n    ")
}

func call(tool string) *Facts { return facts(Call{Server: "k8s-1", Tool: tool}) }

const published = `
approvals:
  tool_gate:
    require_approval:
      - send_email      # exact name
      - delete_*        # glob
    default_mode: deferred    # or inline
    force_deferred: [send_email]
    allow_inline: [delete_file]
`

func TestThePublishedExampleTurnsTheGateOn(t *testing.T) {
	t.Parallel()

	p := mustLoad(t, published)
	if p.Disabled() || p.Off() {
		t.Fatal("the gate is off")
	}
	if len(p.Warnings()) > 0 {
		t.Errorf("warnings: %v", p.Warnings())
	}
	tests := map[string]struct {
		tool string
		rule string
		mode Mode
	}{
		"an exact name is deferred":         {"send_email", "send_email", Deferred},
		"a glob holds with the default":     {"delete_dir", "delete_*", Deferred},
		"a name of that glob may be inline": {"delete_file", "delete_*", Inline},
		"other names are nobody's business": {"read_file", "", ""},
		"case is not folded":                {"Delete_file", "", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			r := p.Rule(call(tt.tool))
			if r == nil {
				if tt.rule != "" {
					t.Errorf("no rule, want %q", tt.rule)
				}
				return
			}
			if m, denied := p.ModeOf(r, tt.tool, true, false); r.Name != tt.rule || r.Action != ActionAsk || m != tt.mode || denied {
				t.Errorf("rule %q %s, mode %s, denied %t; want %q, mode %s", r.Name, r.Action, m, denied, tt.rule, tt.mode)
			}
		})
	}
}

func TestOnlySayingSoTurnsTheGateOff(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		text          string
		disabled, off bool
	}{
		"no section":                  {`people: []`, true, false},
		"no tool gate":                {`approvals: {mode: manual}`, true, false},
		"said so":                     {gate(`enabled: false`), true, false},
		"an empty tool gate is one":   {gate(`{}`), false, false},
		"enabled":                     {gate(`enabled: true`), false, false},
		"mode off, bare":              {"approvals: {mode: off, tool_gate: {}}", false, true},
		"mode off, quoted":            {`approvals: {mode: "off", tool_gate: {}}`, false, true},
		"mode false":                  {"approvals: {mode: false, tool_gate: {}}", false, true},
		"mode without a value":        {"approvals: {mode: , tool_gate: {}}", false, false},
		"mode manual":                 {"approvals: {mode: manual, tool_gate: {}}", false, false},
		"nothing said about the mode": {"approvals: {tool_gate: {}}", false, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			p := mustLoad(t, tt.text)
			if p.Disabled() != tt.disabled || p.Off() != tt.off {
				t.Errorf("disabled %t, off %t; want %t, %t", p.Disabled(), p.Off(), tt.disabled, tt.off)
			}
		})
	}
}

func TestTheFirstRuleThatMatchesRules(t *testing.T) {
	t.Parallel()

	p := mustLoad(t, gate(`
deny: ["db.drop_*", "*.wipe"]
require_approval: [delete_*, get_secret]
default_action: deny
rules:
  - {name: read, match: {tool: "get_*"}, action: allow}
  - {name: prod, match: {server: "k8s-*", tool: "kubectl_{delete,apply}", when: 'args.namespace == "prod"'}}
  - {name: dev, match: {server: "k8s-*", tool: "kubectl_*", when: 'has(args.namespace) && args.namespace == "dev"'}, action: allow}
  - {match: {server: "k8s-*", tool: kubectl_exec}, action: deny}
  - {name: shell, match: {tool: "*sh"}}
  - {name: vault, match: {server: "vault-?"}, action: deny}
`))
	tests := map[string]struct{ server, tool, args, want string }{
		"an allow rule passes":                       {"", "get_secret", `{}`, "read"},
		"a condition that holds":                     {"k8s-1", "kubectl_apply", `{"namespace":"prod"}`, "prod"},
		"a condition that does not":                  {"k8s-1", "kubectl_apply", `{"namespace":"dev"}`, "dev"},
		"a condition that fails asks":                {"k8s-1", "kubectl_apply", `{"namespace":["dev"]}`, "prod"},
		"a condition that fails never allows":        {"k8s-1", "kubectl_get", `{"namespace":["dev"]}`, "default_action"},
		"a name made from the match":                 {"k8s-1", "kubectl_exec", `{}`, "k8s-*/kubectl_exec"},
		"another server is another call":             {"K8S-1", "kubectl_exec", `{}`, "default_action"},
		"a tool glob that begins with a star":        {"", "bash", `{}`, "shell"},
		"a rule for a whole server":                  {"vault-1", "read", `{}`, "vault"},
		"the lists come after the rules":             {"", "delete_x", `{}`, "delete_*"},
		"what no rule matches is for default_action": {"", "read", `{}`, "default_action"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			f := facts(Call{Server: tt.server, Tool: tt.tool, Args: []byte(tt.args)})
			if r := p.Rule(f); r == nil || r.Name != tt.want {
				t.Errorf("rule %v, want %q", r, tt.want)
			}
		})
	}
	for tool, want := range map[string]bool{"db.drop_table": true, "x.wipe": true, "db.drop": false, "DB.drop_table": false} {
		if got := p.Floor(call(tool)); got != want {
			t.Errorf("floor of %s = %t, want %t", tool, got, want)
		}
	}
}

func TestGlobsWorkInEveryList(t *testing.T) {
	t.Parallel()

	p := mustLoad(t, gate(`
deny: ["a?_*"]
require_approval: ["[b-d]_{x,y}"]
force_deferred: ["b_{x,y}"]
allow_inline: ["[!b]_x"]
`))
	if !p.Floor(call("ab_c")) || p.Floor(call("a_c")) {
		t.Error("deny takes no globs")
	}
	for tool, want := range map[string]Mode{"b_x": Deferred, "b_y": Deferred, "c_x": Inline, "c_y": Deferred} {
		r := p.Rule(call(tool))
		if r == nil {
			t.Fatalf("require_approval takes no globs: %s", tool)
		}
		if m, _ := p.ModeOf(r, tool, true, false); m != want {
			t.Errorf("mode of %s is %s, want %s", tool, m, want)
		}
	}
}

func TestListsThatOnlyChooseAModeGateNothing(t *testing.T) {
	t.Parallel()

	p := mustLoad(t, gate(`
require_approval: [send_*]
force_deferred: [send_email, wipe, "wipe_*", "[s]*"]
allow_inline: ["{send,drop}_sms", drop]
`))
	for _, tool := range []string{"wipe", "wipe_disk", "drop"} {
		if r := p.Rule(call(tool)); r != nil {
			t.Errorf("%s is held by %s", tool, r.Name)
		}
	}
	var got []string
	for _, w := range p.Warnings() {
		got = append(got, w.Path)
	}
	want := []string{
		"approvals.tool_gate.force_deferred[1]", "approvals.tool_gate.force_deferred[2]", "approvals.tool_gate.allow_inline[1]",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
	if p := mustLoad(t, gate("default_action: ask\nforce_deferred: [wipe]")); len(p.Warnings()) > 0 {
		t.Errorf("default_action holds everything, yet: %v", p.Warnings())
	}
}

func TestModeIsChosenInOrder(t *testing.T) {
	t.Parallel()

	const lists = `
require_approval: ["*"]
force_deferred: [forced, both]
allow_inline: [allowed, both, deferred_rule]
rules:
  - {match: {tool: forced}, mode: inline}
  - {match: {tool: inline_rule}, mode: inline}
  - {match: {tool: deferred_rule}, mode: deferred}
`
	tests := map[string]struct {
		more             string
		tool             string
		attended, wanted bool
		want             Mode
		denied           bool
	}{
		"nobody waits":                             {"", "inline_rule", false, false, Deferred, false},
		"nobody waits, whatever the default":       {"\n    default_mode: inline", "allowed", false, false, Deferred, false},
		"nobody waits, and that is denied":         {"\n  unattended: deny", "inline_rule", false, false, Deferred, true},
		"somebody waits, so nothing is denied":     {"\n  unattended: deny", "inline_rule", true, false, Inline, false},
		"nobody waits comes before a wish":         {"\n  unattended: deny", "forced", false, true, Deferred, true},
		"the caller's wish beats an inline rule":   {"", "inline_rule", true, true, Deferred, false},
		"forced beats the rule":                    {"", "forced", true, false, Deferred, false},
		"forced beats allowed":                     {"", "both", true, false, Deferred, false},
		"the rule beats allowed":                   {"", "deferred_rule", true, false, Deferred, false},
		"the rule beats the default":               {"", "inline_rule", true, false, Inline, false},
		"allowed beats the default":                {"", "allowed", true, false, Inline, false},
		"the default is deferred":                  {"", "other", true, false, Deferred, false},
		"the default may be inline":                {"\n    default_mode: inline", "other", true, false, Inline, false},
		"no wish makes a deferred default inline":  {"", "other", true, true, Deferred, false},
		"a forced one stays so whatever the lists": {"\n    default_mode: inline", "forced", true, false, Deferred, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			p := mustLoad(t, gate(lists)+tt.more)
			r := p.Rule(call(tt.tool))
			m, denied := p.ModeOf(r, tt.tool, tt.attended, tt.wanted)
			if m != tt.want || denied != tt.denied {
				t.Errorf("mode %s, denied %t; want %s, %t", m, denied, tt.want, tt.denied)
			}
		})
	}
}

func TestEverythingWrongIsReportedAtOnce(t *testing.T) {
	t.Parallel()

	_, problems := load(t, `
approvals:
  mode: manuel
  unattended: ask
  on_undeliverable: allow
  tool_gate:
    deny: ["[^a]"]
    default_mode: both
    default_action: block
    require_approval: ["", "a{b", dup]
    force_deferred: ["x]"]
    allow_inline: ["[z-a]"]
    rules:
      - {name: dup, match: {tool: x}}
      - {match: {}}
      - {name: cel, match: {tool: "[]", server: "[", when: args.x}, action: maybe, mode: sometimes}
      - name: numbers
        match: {tool: n}
        expires_in: 0s
        run_within: -1m
        inline_timeout: {after: soon, then: allow}
        quorum: 0
        scopes: [session, forever]
        deny_reason: yes please
        risk: extreme
        redact: [password, "args.p*"]
      - {name: groups, match: {tool: g}, approvers: [nobody, empty]}
      - {name: crowd, match: {tool: c}, approvers: [sre], quorum: 3}
      - {name: seats, match: {tool: s}, approvers: [sre, owners], quorum: {sre: 1, owners: 2}}
      - {name: alone, match: {tool: a}, approvers: [requester], quorum: 2}
      - {name: stranger, match: {tool: t}, approvers: [sre], quorum: {owners: 1}}
      - {name: none, match: {tool: o}, quorum: {}}
      - {name: minus, match: {tool: m}, quorum: {sre: -1}}
      - {name: pass, match: {tool: p}, action: allow, redact: [args.x], risk: high}
      - {name: high, match: {tool: h, when: 'args.user.name == "root"'}, risk: high, redact: [args.user, args.*.name, args.pass]}
      - {name: any, match: {tool: i, when: 'args[call.tool] == 1'}, risk: high, redact: [args.x]}
      - {name: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa, match: {tool: l}}
approvers:
  default: [sre, unknown]
  groups:
    sre: {keys: [ann-cli, ann-web, bob-cli, carl-cli, hermes]}
    owners: {keys: [ann-cli]}
    empty: {}
    requester: {keys: [ann-cli]}
people:
  - {name: ann, keys: [bob-cli, zoe]}
  - {name: eve, keys: [ann-cli]}
  - {name: ann}
`)
	got := map[string]string{}
	for _, p := range problems {
		got[p.Path] = p.Text
	}
	want := map[string]string{
		"approvals.mode":                                    `"manuel" is unknown; want manual or off`,
		"approvals.unattended":                              `want defer or deny`,
		"approvals.on_undeliverable":                        `want deny or defer`,
		"approvals.tool_gate.deny[0]":                       `write [!…]`,
		"approvals.tool_gate.default_mode":                  `want deferred or inline`,
		"approvals.tool_gate.default_action":                `want allow or ask or deny`,
		"approvals.tool_gate.require_approval[0]":           `name a tool`,
		"approvals.tool_gate.require_approval[1]":           `unmatched '{'`,
		"approvals.tool_gate.require_approval[2].name":      `taken by approvals.tool_gate.rules[0]`,
		"approvals.tool_gate.force_deferred[0]":             `unmatched ']'`,
		"approvals.tool_gate.allow_inline[0]":               `backwards`,
		"approvals.tool_gate.rules[1].match":                `{tool: "*"}`,
		"approvals.tool_gate.rules[2].match.tool":           `empty`,
		"approvals.tool_gate.rules[2].match.server":         `unmatched '['`,
		"approvals.tool_gate.rules[2].match.when":           `want a bool`,
		"approvals.tool_gate.rules[2].action":               `want ask or allow or deny`,
		"approvals.tool_gate.rules[2].mode":                 `want inline or deferred`,
		"approvals.tool_gate.rules[3].expires_in":           `want one such as`,
		"approvals.tool_gate.rules[3].run_within":           `want one such as`,
		"approvals.tool_gate.rules[3].inline_timeout.after": `want one such as`,
		"approvals.tool_gate.rules[3].inline_timeout.then":  `want defer or deny`,
		"approvals.tool_gate.rules[3].inline_timeout":       `never asks inline`,
		"approvals.tool_gate.rules[3].quorum":               `want 1 to 100`,
		"approvals.tool_gate.rules[3].scopes[1]":            `want once or session or always`,
		"approvals.tool_gate.rules[3].scopes":               `once is missing`,
		"approvals.tool_gate.rules[3].deny_reason":          `want optional or required`,
		"approvals.tool_gate.rules[3].risk":                 `want low or medium or high`,
		"approvals.tool_gate.rules[3].redact[0]":            `want args.password`,
		"approvals.tool_gate.rules[3].redact[1]":            `want args.password`,
		"approvals.tool_gate.rules[4].approvers[0]":         `no group is named "nobody"`,
		"approvers.groups.empty":                            `has nobody in it`,
		"approvals.tool_gate.rules[5].quorum":               `takes 3 people, which can never be: sre lists 2`,
		"approvals.tool_gate.rules[6].quorum":               `owners lists 1, sre lists 2`,
		"approvals.tool_gate.rules[7].quorum":               `takes 2 people`,
		"approvals.tool_gate.rules[8].quorum.owners":        `does not ask "owners"`,
		"approvals.tool_gate.rules[9].quorum":               `asks for nobody`,
		"approvals.tool_gate.rules[10].quorum.sre":          `want 1 to 100`,
		"approvals.tool_gate.rules[11]":                     `asks nobody`,
		"approvals.tool_gate.rules[12].redact[0]":           `decides by args.user.name`,
		"approvals.tool_gate.rules[12].redact[1]":           `decides by args.user.name`,
		"approvals.tool_gate.rules[13].redact[0]":           `decides by args.*`,
		"approvals.tool_gate.rules[14].name":                `longer than 64`,
		"approvers.default[1]":                              `no group is named "unknown"`,
		"approvers.groups.sre.keys[3]":                      `no key is named "carl-cli"`,
		"approvers.groups.sre.keys[4]":                      `has not the role approver`,
		"approvers.groups.requester":                        `no name for a group`,
		"people[0].keys[1]":                                 `no key is named "zoe"`,
		"people[1].keys[0]":                                 `belongs to "ann" already`,
		"people[2].name":                                    `is taken`,
	}
	for path, hint := range want {
		if text, ok := got[path]; !ok || !strings.Contains(text, hint) {
			t.Errorf("%s: got %q, want %q", path, text, hint)
		}
		delete(got, path)
	}
	for path, text := range got {
		t.Errorf("unexpected problem %s: %s", path, text)
	}
}

func TestSomebodyMustBeAbleToApprove(t *testing.T) {
	t.Parallel()

	agents := []Principal{{Key: "hermes", Roles: []Role{RoleAgent}}}
	on := &PolicyConfig{ToolGate: &ToolGateConfig{}}
	groups := map[string]GroupConfig{"sre": {Keys: []string{"ann-cli"}}}
	tests := map[string]struct {
		cfg       *PolicyConfig
		approvers ApproversConfig
		people    []PersonConfig
		keys      []Principal
		want      string // path of the one problem
	}{
		"an approver key will do":                      {on, ApproversConfig{}, nil, keys, ""},
		"no approver key and no groups":                {on, ApproversConfig{}, nil, agents, "approvers"},
		"no gate, no need":                             {nil, ApproversConfig{}, nil, agents, ""},
		"groups without a default":                     {on, ApproversConfig{Groups: groups}, nil, keys, "approvers.default"},
		"groups with a default":                        {on, ApproversConfig{Groups: groups, Default: []string{"sre"}}, nil, keys, ""},
		"a person of a key who is in no list":          {on, ApproversConfig{}, []PersonConfig{{Name: "zoe"}}, keys[:1], "people"},
		"a person of a key who is":                     {on, ApproversConfig{}, []PersonConfig{{Name: "ann"}}, keys[:1], ""},
		"a key that two entries give to two people":    {on, ApproversConfig{}, []PersonConfig{{Name: "ann", Keys: []string{"bob-cli"}}, {Name: "bob", Keys: []string{"bob-cli"}}}, keys, "people[1].keys[0]"},
		"a person who lists a key that names them too": {on, ApproversConfig{}, []PersonConfig{{Name: "ann", Keys: []string{"ann-cli"}}}, keys, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			p, problems := NewPolicy(tt.cfg, tt.approvers, tt.people, tt.keys, nil)
			var paths []string
			for _, problem := range problems {
				paths = append(paths, problem.Path)
			}
			if got := strings.Join(paths, " "); got != tt.want || (p == nil) != (tt.want != "") {
				t.Errorf("problems at %q, policy %v; want %q", got, p, tt.want)
			}
		})
	}
}

func TestWhatARuleSaysOrLeavesOut(t *testing.T) {
	t.Parallel()

	p := mustLoad(t, gate(`
rules:
  - {match: {tool: plain}}
  - name: full
    match: {tool: full}
    mode: inline
    approvers: [requester, sre, sre]
    quorum: {sre: 1, requester: 1}
    expires_in: 1h
    run_within: 2m
    inline_timeout: {after: 1m, then: deny}
    scopes: [once, always, session]
    deny_reason: required
    risk: high
`)+`
approvers: {default: [sre], groups: {sre: {keys: [ann-cli, bob-cli]}}}
people: [{name: ann}, {name: bob, keys: [bob-cli]}]
`)
	plain, full := p.Rule(call("plain")), p.Rule(call("full"))
	for _, check := range []struct {
		what      string
		got, want any
	}{
		{"name", plain.Name, "plain"},
		{"groups", plain.groupNames(), []string{"sre"}},
		{"quorum", plain.Quorum, Quorum{Total: 1}},
		{"expiry", plain.ExpiresIn, 72 * time.Hour},
		{"inline run", plain.RunFor(Inline), 5 * time.Minute},
		{"staged run", plain.RunFor(Deferred), 24 * time.Hour},
		{"inline wait", plain.InlineFor, 15 * time.Minute},
		{"then", plain.InlineThen, FallbackDefer},
		{"scopes", plain.Scopes, []Scope{Once}},
		{"session", plain.Grants(Session), false},
		{"reason", plain.ReasonRequired, false},

		{"name", full.Name, "full"},
		{"groups", full.groupNames(), []string{"sre", "requester"}},
		{"quorum", full.Quorum, Quorum{Per: map[string]int{"sre": 1, "requester": 1}}},
		{"expiry", full.ExpiresIn, time.Hour},
		{"inline run", full.RunFor(Inline), 2 * time.Minute},
		{"staged run", full.RunFor(Deferred), 2 * time.Minute},
		{"inline wait", full.InlineFor, time.Minute},
		{"then", full.InlineThen, FallbackDeny},
		{"scopes", full.Scopes, []Scope{Once, Always, Session}},
		{"session", full.Grants(Session), true},
		{"reason", full.ReasonRequired, true},
		{"risk", full.Risk, "high"},

		{"undeliverable", p.OnUndeliverable(), FallbackDeny},
		{"unattended", p.Unattended(), FallbackDefer},
		{"person of the key", p.PersonOf("key:ann-cli"), "ann"},
		{"person of the list", p.PersonOf("key:bob-cli"), "bob"},
		{"person of nobody", p.PersonOf("key:hermes"), ""},
		{"discretionary", p.Discretionary().groupNames(), []string{"sre"}},
		{"discretionary quorum", p.Discretionary().Quorum, Quorum{Total: 1}},
		{"discretionary expiry", p.Discretionary().ExpiresIn, 72 * time.Hour},
		{"rules", len(p.Rules()), 2},
	} {
		if diff := cmp.Diff(check.want, check.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", check.what, diff)
		}
	}
}

func TestLongNamesMadeFromTheMatchStayApart(t *testing.T) {
	t.Parallel()

	long := strings.Repeat("é", 40)
	p := mustLoad(t, gate(fmt.Sprintf("require_approval: [%sa, %sb]", long, long)))
	a, b := p.rules[0].Name, p.rules[1].Name
	if a == b || len(a) > maxRuleName || strings.ContainsRune(a, '\uFFFD') {
		t.Errorf("names %q and %q", a, b)
	}
}

func TestVersionChangesWithWhatAnApprovalRestsOn(t *testing.T) {
	t.Parallel()

	const rest = "approvers: {default: [sre], groups: {sre: {keys: [ann-cli, bob-cli]}, owners: {keys: [ann-cli]}}}\n"
	rule := func(s string) string { return gate("rules: ["+s+"]") + "\n" + rest }
	base := rule(`{name: r, match: {tool: "a*", when: "call.target == 'x'"}}`)
	tests := map[string]struct {
		text         string
		rule, policy bool // do the versions change?
	}{
		"a comment":                    {"# hello\n" + base, false, false},
		"another order of keys":        {rule(`{match: {when: "call.target == 'x'", tool: "a*"}, name: r}`), false, false},
		"another order of sections":    {rest + gate("rules: [{name: r, match: {tool: \"a*\", when: \"call.target == 'x'\"}}]"), false, false},
		"defaults that are said":       {rule(`{name: r, match: {tool: "a*", when: "call.target == 'x'"}, action: ask, quorum: 1, approvers: [sre]}`), false, true},
		"another tool":                 {rule(`{name: r, match: {tool: "b*", when: "call.target == 'x'"}}`), true, true},
		"another server":               {rule(`{name: r, match: {server: s, tool: "a*", when: "call.target == 'x'"}}`), true, true},
		"another condition":            {rule(`{name: r, match: {tool: "a*", when: "call.target == 'y'"}}`), true, true},
		"another action":               {rule(`{name: r, match: {tool: "a*", when: "call.target == 'x'"}, action: deny}`), true, true},
		"another mode":                 {rule(`{name: r, match: {tool: "a*", when: "call.target == 'x'"}, mode: inline}`), true, true},
		"another quorum":               {rule(`{name: r, match: {tool: "a*", when: "call.target == 'x'"}, quorum: 2}`), true, true},
		"a quorum per group":           {rule(`{name: r, match: {tool: "a*", when: "call.target == 'x'"}, quorum: {sre: 1}}`), true, true},
		"another group":                {rule(`{name: r, match: {tool: "a*", when: "call.target == 'x'"}, approvers: [owners]}`), true, true},
		"the requester as well":        {rule(`{name: r, match: {tool: "a*", when: "call.target == 'x'"}, approvers: [sre, requester]}`), true, true},
		"one member fewer":             {strings.Replace(base, "[ann-cli, bob-cli]", "[ann-cli]", 1), true, true},
		"members in another order":     {strings.Replace(base, "[ann-cli, bob-cli]", "[bob-cli, ann-cli]", 1), false, true},
		"a group that it does not ask": {strings.Replace(base, "owners: {keys: [ann-cli]}", "owners: {keys: [bob-cli]}", 1), false, true},
		"how long it waits":            {rule(`{name: r, match: {tool: "a*", when: "call.target == 'x'"}, expires_in: 1h}`), false, true},
		"how it looks":                 {rule(`{name: r, match: {tool: "a*", when: "call.target == 'x'"}, redact: [args.x], risk: high}`), false, true},
		"another executor":             {rule(`{name: r, match: {tool: "a*", when: "call.target == 'x'"}, executor: ops}`), true, true},
		"the executor that is default": {rule(`{name: r, match: {tool: "a*", when: "call.target == 'x'"}, executor: requester}`), false, true},
		"another rule":                 {rule(`{name: r, match: {tool: "a*", when: "call.target == 'x'"}}, {name: q, match: {tool: q}}`), false, true},
		"the floor":                    {gate("deny: [x]\nrules: [{name: r, match: {tool: \"a*\", when: \"call.target == 'x'\"}}]") + "\n" + rest, false, true},
		"the switch":                   {gate("enabled: false\nrules: [{name: r, match: {tool: \"a*\", when: \"call.target == 'x'\"}}]") + "\n" + rest, false, true},
		"off":                          {strings.Replace(base, "approvals:", "approvals:\n  mode: off", 1), false, true},
		"the person of an agent":       {base + "people: [{name: ann}, {name: bob, keys: [hermes]}]\n", false, true},
		"a person who joins two keys":  {base + "people: [{name: ann}, {name: bob, keys: [bob-cli]}]\n", false, true},
	}
	p := mustLoad(t, base)
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			other := mustLoad(t, tt.text)
			if got := other.rules[0].Version != p.rules[0].Version; got != tt.rule {
				t.Errorf("the rule's version changed: %t, want %t", got, tt.rule)
			}
			if got := other.Version() != p.Version(); got != tt.policy {
				t.Errorf("the policy's version changed: %t, want %t", got, tt.policy)
			}
		})
	}
	if v := p.rules[0].Version; len(v) != 64 || v == p.Version() {
		t.Errorf("version %q", v)
	}
	// Pinned: a release that changes it voids every approval under way.
	const pinned = "cb8458dd47b0666fe77d2f5f3aa6e12b3d64872e1138aea701ca041dabd6bac6"
	if v := p.rules[0].Version; v != pinned {
		t.Errorf("the version of an unchanged rule is now %s", v)
	}
}

func TestTwoRulesOnOneToolAreTwoVersions(t *testing.T) {
	t.Parallel()

	p := mustLoad(t, gate(`
rules:
  - {name: prod, match: {tool: kubectl, when: 'call.target == "prod"'}}
  - {name: rest, match: {tool: kubectl}}
`))
	prod, rest := p.rules[0], p.rules[1]
	if prod.Name == rest.Name || prod.Version == rest.Version {
		t.Error("a grant under one rule would pass for the other")
	}
}

func TestANewColleagueVoidsNothing(t *testing.T) {
	t.Parallel()

	cfg := &PolicyConfig{ToolGate: &ToolGateConfig{RequireApproval: []string{"x"}}}
	before, _ := NewPolicy(cfg, ApproversConfig{}, nil, keys[:1], nil)
	after, _ := NewPolicy(cfg, ApproversConfig{}, nil, keys, nil)
	if before.rules[0].Version != after.rules[0].Version {
		t.Error("one approver key more changed a rule that asks every approver")
	}
	if before.Version() == after.Version() {
		t.Error("replicas that know other approvers call it the same policy")
	}
	renamed, _ := NewPolicy(cfg, ApproversConfig{}, nil, []Principal{{Key: "ann-cli", Roles: []Role{RoleApprover}, Person: "zoe"}}, nil)
	if before.Version() == renamed.Version() {
		t.Error("replicas that know a key as another person's call it the same policy")
	}
}

func TestAKeyInTwoShapesIsReadOrRefused(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		quorum string
		want   QuorumConfig
		fails  bool
	}{
		"a number":          {"2", QuorumConfig{Total: 2}, false},
		"numbers per group": {"{sre: 1, owners: 2}", QuorumConfig{Per: map[string]int{"sre": 1, "owners": 2}}, false},
		"a word":            {"two", QuorumConfig{}, true},
		"a list":            {"[1, 2]", QuorumConfig{}, true},
		"half a person":     {"1.5", QuorumConfig{}, true},
		"half of a group":   {"{sre: 1.5}", QuorumConfig{}, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			var got RuleConfig
			err := yaml.UnmarshalWithOptions([]byte("quorum: "+tt.quorum), &got, yaml.Strict())
			if (err != nil) != tt.fails {
				t.Fatalf("error %v, want one: %t", err, tt.fails)
			}
			if !tt.fails {
				if diff := cmp.Diff(&tt.want, got.Quorum); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			}
		})
	}
	for _, later := range []string{"conversation", "mention", "remind", "escalate", "step_up"} {
		if yaml.UnmarshalWithOptions([]byte(later+": x"), &RuleConfig{}, yaml.Strict()) == nil {
			t.Errorf("%s is accepted, and nothing enforces it", later)
		}
	}
}

// membersFunc is a look-up.
type membersFunc func(Voter) (bool, error)

func (f membersFunc) Has(_ context.Context, v Voter) (bool, error) { return f(v) }
func (membersFunc) Listed() ([]string, bool)                       { return nil, false }

func TestQualify(t *testing.T) {
	t.Parallel()

	down := membersFunc(func(Voter) (bool, error) { return true, errors.New("down") })
	ann := keyMembers{"key:ann-cli": "person:ann"}
	tests := map[string]struct {
		groups []*Group
		voter  string
		want   []string
		fails  bool
	}{
		"a member of one":                         {[]*Group{{Name: "a", Members: []Members{ann}}, {Name: "b"}}, "key:ann-cli", []string{"a"}, false},
		"a member of both":                        {[]*Group{{Name: "a", Members: []Members{ann}}, {Name: "b", Members: []Members{ann}}}, "key:ann-cli", []string{"a", "b"}, false},
		"a member of none":                        {[]*Group{{Name: "a", Members: []Members{ann}}}, "key:bob-cli", nil, false},
		"a name is no id":                         {[]*Group{{Name: "a", Members: []Members{ann}}}, "ann-cli", nil, false},
		"an id in another case":                   {[]*Group{{Name: "a", Members: []Members{ann}}}, "key:Ann-cli", nil, false},
		"nobody asked":                            {nil, "key:ann-cli", nil, false},
		"an empty group has nobody":               {[]*Group{{Name: "a"}}, "key:ann-cli", nil, false},
		"a failed look-up refuses":                {[]*Group{{Name: "a", Members: []Members{down}}}, "key:ann-cli", nil, true},
		"another group's yes outweighs it":        {[]*Group{{Name: "a", Members: []Members{down}}, {Name: "b", Members: []Members{ann}}}, "key:ann-cli", []string{"b"}, false},
		"another kind's yes outweighs it":         {[]*Group{{Name: "a", Members: []Members{down, ann}}}, "key:ann-cli", []string{"a"}, false},
		"another group's no does not outweigh it": {[]*Group{{Name: "a", Members: []Members{down}}, {Name: "b", Members: []Members{ann}}}, "key:bob-cli", nil, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			r := &Rule{Groups: tt.groups}
			got, err := r.Qualify(t.Context(), Voter{ID: tt.voter, Name: "ann-cli"})
			if diff := cmp.Diff(tt.want, got); diff != "" || (err != nil) != tt.fails {
				t.Errorf("error %v, want one: %t (-want +got):\n%s", err, tt.fails, diff)
			}
		})
	}
}

func TestExecutorsOfRules(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		rule string
		want string // path of the one problem
	}{
		"one that is there":                       {`executor: batch`, ""},
		"the requester":                           {`executor: requester`, ""},
		"one that is sent again":                  {`executor: ops, retry_safe: true`, ""},
		"one that nobody has configured":          {`executor: opz`, "executor"},
		"one for a call that is never staged":     {`executor: ops, mode: inline, inline_timeout: {then: deny}`, "executor"},
		"one for a call that is staged later":     {`executor: ops, mode: inline`, ""},
		"sent again, and there is nobody to":      {`retry_safe: true`, "retry_safe"},
		"sent again, by one that cannot":          {`executor: batch, retry_safe: true`, "retry_safe"},
		"an executor where nobody is asked":       {`action: deny, executor: ops`, "."},
		"sent again, where the requester runs it": {`executor: requester, retry_safe: true`, "retry_safe"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			_, problems := load(t, gate(`rules: [{name: r, match: {tool: a}, `+tt.rule+`}]`))
			want := strings.TrimSuffix("approvals.tool_gate.rules[0]."+tt.want, "..")
			if tt.want == "" && len(problems) > 0 || tt.want != "" && (len(problems) != 1 || problems[0].Path != want) {
				t.Errorf("problems %v, want one at %q", problems, want)
			}
		})
	}
}
