package main

import (
	"context"
	"fmt"
	"net"
	"strings"

	"github.com/approvalbot/approvalbot/gate"
	"github.com/approvalbot/approvalbot/gate/secret"
)

const justKeys = `
keys:
  - {name: hermes, roles: [agent], hash_file: hermes.sha256}
  - {name: ann, roles: [approver], person: ann, hash_file: ann.sha256}
`

// bound is the address that serve listens at.
func bound(l *lab) string {
	log := newLogbook()
	ctx, cancel := context.WithCancel(l.t.Context())
	l.t.Cleanup(cancel)
	args := []string{"serve", "--config", l.path("approvalbot.yaml"), "--store", "memory"}
	go run(ctx, process{args: args, env: func(string) string { return "" }, err: log})
	host, _, err := net.SplitHostPort(log.await(l.t, "serving")["listen"].(string))
	if err != nil {
		l.t.Fatal(err)
	}
	return host
}

// signer says which of the keys of a lab signs, and how many verify.
func signer(l *lab) string {
	other, err := gate.NewKeyring(secret.New(strings.Repeat("0", gate.MinServerKey)))
	if err != nil {
		l.t.Fatal(err)
	}
	fps := l.cfg.Keyring.Fingerprints()
	return fmt.Sprintf("other %v of %d", fps[0] == other.Fingerprints()[0], len(fps))
}

var serverRows = []keyRow{
	{"listen", "@people\nlisten: 127.0.0.1:0", "@people\nlisten: 127.0.0.2:0", bound, [2]string{"127.0.0.1", "127.0.0.2"}},
	{"public_url", "@people", "@people\npublic_url: https://approvals.example.com", cookie, [2]string{"approvalbot-session=", "__Host-approvalbot-session="}},
	{"key_file", justKeys + "key_file: server.key", justKeys + "key_file: other.key", signer, [2]string{"other false of 1", "other true of 1"}},
	{"key", justKeys + "key: ${ONE}", justKeys + "key: ${TWO}", func(l *lab) string {
		one, _ := gate.NewKeyring(secret.New("a secret from the environment: ONE"))
		return fmt.Sprint(one.Fingerprints()[0] == l.cfg.Keyring.Fingerprints()[0])
	}, [2]string{"true", "false"}},
	{"verify_key_files", "@people", "@people\nverify_key_files: [other.key]", signer, [2]string{"of 1", "of 2"}},
}

// may says what a key is taken for, and what it may say of itself.
func may(l *lab) string {
	if l.cfg == nil {
		return l.problems
	}
	k, ok := l.cfg.APIKeys.Authenticate(l.keys["hermes"].Reveal())
	if !ok {
		return "unknown"
	}
	says := func(r gate.Requester, place string) string {
		if _, err := k.Claim(r, gate.Conversation{Place: place}); err != nil {
			return "no"
		}
		return "yes"
	}
	return fmt.Sprintf("%s %v person=%s origin=%s other=%s", k.Principal.Key, k.Roles, says(gate.Requester{Person: "cy"}, ""), says(gate.Requester{}, "slack:C1"), says(gate.Requester{}, "slack:D1"))
}

func hermes(fields string) string {
	return "key_file: server.key\nkeys:\n  - {hash_file: hermes.sha256, " + fields + "}\n"
}

const gated = "@people\napprovals: {tool_gate: {rules: [{name: r, match: {tool: x}, mode: inline%s}]}}\n"

// with is a config file whose one rule has these further fields.
func with(fields string) string {
	if fields != "" {
		fields = ", " + fields
	}
	return fmt.Sprintf(gated, fields)
}

var peopleRows = []keyRow{
	{"keys[].name", hermes("name: a, roles: [agent]"), hermes("name: b, roles: [agent]"), may, [2]string{"a [agent]", "b [agent]"}},
	{"keys[].roles", hermes("name: a, roles: [agent]"), hermes("name: a, roles: [auditor]"), may, [2]string{"[agent]", "[auditor]"}},
	{"keys[].person", with(""), strings.Replace(with(""), "@people", justKeys+"  - {name: bo, roles: [approver], person: ann, hash_file: bo.sha256}\nkey_file: server.key", 1), func(l *lab) string {
		a := l.askAs(gate.Requester{Key: "hermes", Person: "ann", Attended: true}, "x").Approval
		return l.vote(a, "bo", gate.Approve, gate.Once)
	}, [2]string{"approved", "self_approval"}},
	{"keys[].asserts", hermes("name: a, roles: [agent]"), hermes("name: a, roles: [agent], asserts: [person]"), may, [2]string{"person=no", "person=yes"}},
	{
		"keys[].conversations", hermes(`name: a, roles: [agent], asserts: [origin], conversations: ["slack:C*"]`),
		hermes(`name: a, roles: [agent], asserts: [origin], conversations: ["slack:*"]`), may,
		[2]string{"origin=yes other=no", "origin=yes other=yes"},
	},
	{"keys[].hash_file", hermes("name: a, roles: [agent]"), strings.Replace(hermes("name: a, roles: [agent]"), "hermes.sha256", "ann.sha256", 1), may, [2]string{"a [agent]", "unknown"}},

	{"people[].name", "@people\npeople: [{name: ann}, {name: bo}]", "@people\npeople: [{name: ann}, {name: bob}]", loaded, [2]string{"taken", "refused: "}},
	{
		"people[].keys", with("quorum: 2") + "people: [{name: ann}, {name: bo}, {name: cy, keys: [hermes]}]", with("quorum: 2") + "people: [{name: ann, keys: [hermes]}, {name: bo}]",
		approvedBy("ann", "bo"),
		[2]string{"approved", "pending"},
	},
	{
		"approvers.default", with("") + "approvers: {default: [one], groups: {one: {keys: [ann]}, two: {keys: [bo]}}}",
		with("") + "approvers: {default: [two], groups: {one: {keys: [ann]}, two: {keys: [bo]}}}", approvedBy("ann"),
		[2]string{"approved", "not_approver"},
	},
	{
		"approvers.groups.*.keys", with("") + "approvers: {default: [one], groups: {one: {keys: [ann, bo]}}}",
		with("") + "approvers: {default: [one], groups: {one: {keys: [bo]}}}", approvedBy("ann"),
		[2]string{"approved", "not_approver"},
	},
}

const toolGate = "@people\napprovals: {tool_gate: {require_approval: [x]%s}}\n"

func toolGated(fields string) string { return fmt.Sprintf(toolGate, fields) }

func unattended(l *lab) string {
	r := l.askAs(gate.Requester{Key: "hermes"}, "x")
	return fmt.Sprintf("%s %s", r.Verdict, r.Reason)
}

func undelivered(l *lab) string {
	a := l.asked()
	if err := l.gate().Undeliverable(l.t.Context(), a.ID); err != nil {
		l.t.Fatal(err)
	}
	v, err := l.gate().Get(l.t.Context(), l.principal("ann"), a.ID)
	if err != nil {
		l.t.Fatal(err)
	}
	return fmt.Sprintf("%s %s", v.State, v.Approval.Mode)
}

var policyRows = []keyRow{
	{"approvals.mode", toolGated(""), strings.Replace(toolGated(""), "{tool_gate", "{mode: off, tool_gate", 1), ruling("x"), [2]string{"ask", "allow off"}},
	{"approvals.unattended", toolGated(""), strings.Replace(toolGated(""), "{tool_gate", "{unattended: deny, tool_gate", 1), unattended, [2]string{"ask ask", "block unattended"}},
	{"approvals.on_undeliverable", with(""), strings.Replace(with(""), "{tool_gate", "{on_undeliverable: defer, tool_gate", 1), undelivered, [2]string{"cancelled", "pending deferred"}},
	{"approvals.tool_gate.enabled", toolGated(""), toolGated(", enabled: false"), ruling("x"), [2]string{"ask", "allow disabled"}},
	{"approvals.tool_gate.require_approval", toolGated(""), strings.Replace(toolGated(""), "[x]", "[y]", 1), ruling("x"), [2]string{"ask", "allow undesignated"}},
	{"approvals.tool_gate.default_mode", toolGated(""), toolGated(", default_mode: inline"), ruling("x"), [2]string{"ask deferred", "ask inline"}},
	{"approvals.tool_gate.force_deferred", toolGated(", default_mode: inline"), toolGated(", default_mode: inline, force_deferred: [x]"), ruling("x"), [2]string{"ask inline", "ask deferred"}},
	{"approvals.tool_gate.allow_inline", toolGated(""), toolGated(", allow_inline: [x]"), ruling("x"), [2]string{"ask deferred", "ask inline"}},
	{"approvals.tool_gate.deny", toolGated(""), toolGated(", deny: [x]"), ruling("x"), [2]string{"ask", "block floor_denied"}},
	{"approvals.tool_gate.default_action", toolGated(""), toolGated(", default_action: ask"), ruling("y"), [2]string{"allow undesignated", "ask deferred by default_action"}},
}

// spans tells how long a question is asked, and until when it is waited for.
func spans(l *lab) string {
	a := l.asked()
	return fmt.Sprintf("open %s waited %s", a.Expires.Sub(a.Created), a.InlineUntil.Sub(a.Created))
}

func runWithin(l *lab) string {
	a := l.asked()
	l.vote(a, "ann", gate.Approve, gate.Once)
	v, err := l.gate().Get(l.t.Context(), l.principal("ann"), a.ID)
	if err != nil {
		l.t.Fatal(err)
	}
	return v.RunBy.Sub(v.Decided).String()
}

func voted(choice gate.Choice, scope gate.Scope) func(*lab) string {
	return func(l *lab) string { return l.vote(l.asked(), "ann", choice, scope) }
}

func shownArgs(l *lab) string {
	args, _ := l.gate().Shown(l.asked())
	return string(args)
}

const rules = "approvals.tool_gate.rules[]."

// of is a config file with a rule of these fields, and one that asks about the rest.
func of(fields string) string {
	return "@people\napprovals: {tool_gate: {default_action: ask, rules: [{" + fields + "}]}}\n"
}

const groups = "approvers: {default: [one], groups: {one: {keys: [ann]}, two: {keys: [bo]}}}"

var ruleRows = []keyRow{
	{rules + "name", of("name: r, match: {tool: x}"), of("name: s, match: {tool: x}"), ruling("x"), [2]string{"by r", "by s"}},
	{rules + "match.server", of("name: r, match: {server: here}"), of("name: r, match: {server: there}"), ruling("x"), [2]string{"by r", "by default_action"}},
	{rules + "match.tool", of("name: r, match: {tool: x}"), of("name: r, match: {tool: y}"), ruling("x"), [2]string{"by r", "by default_action"}},
	{rules + "match.when", of(`name: r, match: {when: 'args.env == "prod"'}`), of(`name: r, match: {when: 'args.env == "dev"'}`), ruling("x"), [2]string{"by r", "by default_action"}},
	{rules + "action", of("name: r, match: {tool: x}"), of("name: r, match: {tool: x}, action: deny"), ruling("x"), [2]string{"by r", "block rule_denied"}},
	{rules + "mode", of("name: r, match: {tool: x}, mode: inline"), of("name: r, match: {tool: x}, mode: deferred"), ruling("x"), [2]string{"inline", "deferred"}},
	{rules + "approvers", with("approvers: [one]") + groups, with("approvers: [two]") + groups, approvedBy("ann"), [2]string{"approved", "not_approver"}},
	{rules + "quorum", with(""), with("quorum: 2"), approvedBy("ann"), [2]string{"approved", "pending"}},
	{rules + "expires_in", with(""), with("expires_in: 90m"), spans, [2]string{"open 72h15m0s", "open 1h45m0s"}},
	{rules + "run_within", with(""), with("run_within: 7m"), runWithin, [2]string{"5m0s", "7m0s"}},
	{rules + "inline_timeout.after", with(""), with("inline_timeout: {after: 7m}"), spans, [2]string{"waited 15m0s", "waited 7m0s"}},
	{rules + "inline_timeout.then", with("inline_timeout: {then: defer}"), with("inline_timeout: {then: deny}"), spans, [2]string{"open 72h15m0s", "open 15m0s"}},
	{rules + "scopes", with(""), with("scopes: [once, session]"), voted(gate.Approve, gate.Session), [2]string{"scope_not_allowed", "approved"}},
	{rules + "deny_reason", with(""), with("deny_reason: required"), voted(gate.Deny, ""), [2]string{"denied", "reason_required"}},
	{rules + "redact", with(""), with("redact: [args.token]"), shownArgs, [2]string{`"abc"`, "redacted"}},
	{
		rules + "risk", of(`name: r, match: {when: 'args.env == "x"'}, redact: [args.env]`),
		of(`name: r, match: {when: 'args.env == "x"'}, redact: [args.env], risk: high`), loaded,
		[2]string{"taken", "refused: "},
	},
}
