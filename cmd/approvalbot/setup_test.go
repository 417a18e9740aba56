package main

import (
	"os"
	"strings"
	"testing"

	"github.com/approvalbot/approvalbot/cmd/approvalbot/config"
)

func TestKeysNew(t *testing.T) {
	t.Parallel()
	file := t.TempDir() + "/ann.sha256"
	r := shell{}.run(t, "keys", "new", "--name", "ann", "--role", "approver", "--person", "ann", "--hash-file", file)
	wantCode(t, r, exitOK)
	if !strings.HasPrefix(r.out, "ab_") || strings.Count(r.out, "\n") != 1 {
		t.Errorf("standard output is %q, want the key alone", r.out)
	}
	if strings.Contains(r.err, strings.TrimSpace(r.out)) {
		t.Error("the key is told twice")
	}
	wantText(t, r.err, `- {name: "ann", roles: [approver], person: "ann", hash_file: "`+file+`"}`)

	again := shell{}.run(t, "keys", "new", "--name", "ann", "--role", "approver", "--person", "ann", "--hash-file", file)
	wantCode(t, again, exitBlock)
	wantText(t, again.err, "exists")
	if again.out != "" {
		t.Error("a key was printed whose hash is nowhere")
	}

	worker := shell{}.run(t, "keys", "new", "--name", "builder", "--role", "worker", "--queue", "batch")
	wantText(t, worker.err, `- {name: "builder", roles: [worker], queues: [batch], hash_file: "keys/builder.sha256"}`)
	idle := shell{}.run(t, "keys", "new", "--name", "builder", "--role", "worker")
	wantCode(t, idle, exitBlock)
	wantText(t, idle.err, "name at least one executor")
}

// TestAMadeKeyWorks goes the way of a platform engineer: keys, config, server,
// first command.
func TestAMadeKeyWorks(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	made := fromJSON[madeKey](t, shell{}.run(t, "keys", "new", "--name", "cy", "--role", "approver", "--person", "cy", "--hash-file", h.path("cy.sha256"), "-o", "json").out)
	wantCode(t, shell{}.run(t, "keys", "server", "--out", h.path("fresh.key")), exitOK)
	h.write("approvalbot.yaml", "store: memory\nkey_file: fresh.key\nkeys:\n  "+made.Config+"\n"+oneRule)
	wantCode(t, shell{}.run(t, "config", "check", h.path("approvalbot.yaml")), exitOK)
	wantText(t, shell{}.run(t, "keys", "list", "--config", h.path("approvalbot.yaml")).out, "NAME", "cy", "approver")
	s := h.serve()
	cy := shell{env: map[string]string{envURL: s.url, envToken: made.Key}}
	wantText(t, cy.run(t, "pending").out, "0 pending")
}

func TestKeysServerIsForItsOwnerAndNeverOverwritten(t *testing.T) {
	t.Parallel()
	file := t.TempDir() + "/server.key"
	r := shell{}.run(t, "keys", "server", "--out", file)
	wantCode(t, r, exitOK)
	if r.out != "" {
		t.Errorf("printed %q", r.out)
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("mode %v, %v", info, err)
	}
	was, _ := os.ReadFile(file)
	wantCode(t, shell{}.run(t, "keys", "server", "--out", file), exitBlock)
	if now, _ := os.ReadFile(file); string(now) != string(was) {
		t.Error("overwritten")
	}
	fresh := func() string { return shell{}.run(t, "keys", "server").out }
	if a, b := fresh(), fresh(); a == b || len(a) < 33 {
		t.Errorf("got %q and %q", a, b)
	}
}

func TestConfigExampleIsGood(t *testing.T) {
	t.Parallel()
	r := shell{}.run(t, "config", "example")
	wantCode(t, r, exitOK)
	if r.out != config.Example {
		t.Error("not the example")
	}
}

func TestConfigCheck(t *testing.T) {
	t.Parallel()
	h := newHome(t, oneRule)
	for _, of := range []string{"config", "policy"} {
		r := shell{}.run(t, of, "check", h.path("approvalbot.yaml"))
		wantCode(t, r, exitOK)
		wantText(t, r.out, "is good: policy ", "2 rules")
	}
	wantCode(t, shell{}.run(t, "config", "check", "--config", h.path("approvalbot.yaml")), exitOK)
	h.config("approvals: {tool_gate: {require_approval: [x], allow_inline: [y]}}")
	wantText(t, shell{}.run(t, "policy", "check", h.path("approvalbot.yaml")).out, "warning: ", "allow_inline[0]", "is good")
	h.config()
	wantText(t, shell{}.run(t, "policy", "check", h.path("approvalbot.yaml")).out, "THE GATE IS DISABLED")
	h.config("approvals: {mode: off, tool_gate: {require_approval: [x]}}")
	wantText(t, shell{}.run(t, "policy", "check", h.path("approvalbot.yaml")).out, "approvals.mode IS OFF")

	h.config("lisen: x", "approvals: {tool_gate: {default_mode: now}}")
	r := shell{}.run(t, "policy", "check", h.path("approvalbot.yaml"), "-o", "json")
	wantCode(t, r, exitBlock)
	got := fromJSON[checked](t, r.out)
	if got.OK || len(got.Problems) != 2 || got.Problems[0].Line != 7 || got.Problems[0].Path != "lisen" {
		t.Errorf("got %+v", got)
	}
}

func TestPolicyExplain(t *testing.T) {
	t.Parallel()
	h := newHome(t, oneRule, `      - {name: "no", match: {tool: refused}, action: deny}
      - {name: "yes", match: {tool: allowed}, action: allow}
    deny: [never]`, "store: memory")
	s := h.serve()
	for _, row := range []struct {
		name string
		args []string
		says []string
	}{
		{"a call that is held", []string{"--tool", "held", "--attended"}, []string{"held until people approve", "rule       held", "mode       inline", "1 of approvers"}},
		{"a call that nobody waits for", []string{"--tool", "held"}, []string{"mode       deferred"}},
		{"a call that nobody gates", []string{"--tool", "free"}, []string{"would run at once", "no rule matches it"}},
		{"a call that a rule allows", []string{"--tool", "allowed"}, []string{"would run at once", "its rule allows it"}},
		{"a call that a rule denies", []string{"--tool", "refused"}, []string{"would be blocked", "its rule denies it"}},
		{"a call on the floor", []string{"--tool", "never"}, []string{"would be blocked", "the floor"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			offline := shell{}.run(t, append([]string{"policy", "explain", "--config", h.path("approvalbot.yaml")}, row.args...)...)
			wantCode(t, offline, exitOK)
			wantText(t, offline.out, row.says...)
			online := s.as("ann").run(t, append([]string{"policy", "explain"}, row.args...)...)
			if online.out != offline.out {
				t.Errorf("the server says\n%s\nthe file says\n%s", online.out, offline.out)
			}
		})
	}
}

func TestPolicyTest(t *testing.T) {
	t.Parallel()
	h := newHome(t, oneRule, "    deny: [never]")
	h.write("cases.yaml", `
- name: held calls are asked about
  call: {tool: held, args: {n: 1}}
  requester: {agent: hermes, attended: true}
  expect: {verdict: ask, rule: held, mode: inline}
- name: the floor
  call: {tool: never}
  expect: {verdict: block, reason: floor_denied}
- name: what nobody gates
  call: {tool: free}
  expect: {verdict: allow}
`)
	r := shell{}.run(t, "policy", "test", h.path("cases.yaml"), "--config", h.path("approvalbot.yaml"))
	wantCode(t, r, exitOK)
	wantText(t, r.out, "ok: 3 cases")

	h.write("cases.yaml", `
- name: held calls run
  call: {tool: held}
  expect: {verdict: allow, rule: other, mode: inline}
- call: {tool: free}
- {name: fine, call: {tool: free}, expect: {verdict: allow}}
`)
	r = shell{}.run(t, "policy", "test", h.path("cases.yaml"), "--config", h.path("approvalbot.yaml"))
	wantCode(t, r, exitBlock)
	wantText(t, r.out, "FAIL  held calls run", "verdict  want allow, got ask", "rule     want other, got held", "mode     want inline, got deferred", "FAIL  free", "expects nothing")
	wantText(t, r.err, "2 of 3 cases failed")

	h.write("cases.yaml", "- {name: x, cal: {tool: held}}")
	wantText(t, shell{}.run(t, "policy", "test", h.path("cases.yaml"), "--config", h.path("approvalbot.yaml")).err, "cal")
	h.write("cases.yaml", "[]")
	wantText(t, shell{}.run(t, "policy", "test", h.path("cases.yaml"), "--config", h.path("approvalbot.yaml")).err, "no cases")
}
