package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/approvalbot/approvalbot/gate"
)

// withHook is a config file with a hook of these fields and this webhook.
func withHook(fields, webhook string) string {
	return "@people\napprovals: {tool_gate: {rules: [{name: r, match: {tool: x}}, {name: s, match: {tool: y}}]}}\n" +
		"hooks: [{" + fields + ", webhook: {" + webhook + "}}]\n"
}

const (
	heard  = "name: h, on: requested"
	mailed = "url: '{hook}/one', secret_file: whsec-a, allow_cidrs: [127.0.0.1]"
)

// mail is the first message that comes once two calls were denied.
func mail(l *lab) string {
	if l.cfg == nil {
		return "refused: " + l.problems
	}
	l.runs()
	for _, tool := range []string{"x", "y"} {
		l.vote(l.ask(tool).Approval, "ann", gate.Deny, "")
	}
	got := l.hook.await(0, anything)
	d := got.msg.Data
	return fmt.Sprintf("%s at %s signed by %s. rule %s. args %s", got.msg.Type, got.path, got.signed, d.Rule, d.Args)
}

// withCallbacks is a config file whose agent has these callbacks.
func withCallbacks(fields string) string {
	return strings.Replace(withHook("name: h, on: requested", "url: https://a.example, secret_file: whsec-a"),
		"@people", strings.Replace(people, "roles: [agent]", "roles: [agent], callbacks: {"+fields+"}", 1), 1)
}

// calledBack is what the callback of a denied call is told.
func calledBack(l *lab) string {
	if l.cfg == nil {
		return "refused: " + l.problems
	}
	l.runs()
	key, _ := l.cfg.APIKeys.Authenticate(l.keys["hermes"].Reveal())
	if err := key.MayCallBack(l.hook.URL + "/one"); err != nil {
		return gate.PublicText(err)
	}
	r, err := l.gate().Check(l.t.Context(), gate.Request{
		Call: gate.Call{Tool: "x", Args: json.RawMessage(`{}`)}, Requester: gate.Requester{Key: "hermes"}, Callback: l.hook.URL + "/one",
	})
	if err != nil {
		l.t.Fatal(err)
	}
	l.vote(r.Approval, "ann", gate.Deny, "")
	got := l.hook.await(0, anything)
	return fmt.Sprintf("%s signed by %s", got.msg.Type, got.signed)
}

const backTo = "prefixes: ['{hook}/'], secret_file: whsec-a, allow_cidrs: [127.0.0.1]"

var hookRows = []keyRow{
	{"hooks[].name", withHook(heard, mailed), strings.Replace(withHook(heard, mailed), "hooks: [", "hooks: [{name: h, on: decided, webhook: {"+mailed+"}}, ", 1), loaded, [2]string{"taken", "refused: "}},
	{"hooks[].on", withHook(heard, mailed), withHook("name: h, on: decided", mailed), mail, [2]string{"approval.requested", "approval.decided"}},
	{"hooks[].rules", withHook(heard+", rules: [r]", mailed), withHook(heard+", rules: [s]", mailed), mail, [2]string{"rule r", "rule s"}},
	{"hooks[].include_args", withHook(heard+", rules: [r]", mailed), withHook(heard+", rules: [r], include_args: true", mailed), mail, [2]string{"args ", `args {"env":"prod","token":"abc"}`}},
	{"hooks[].webhook.url", withHook(heard, mailed), withHook(heard, strings.Replace(mailed, "one", "two", 1)), mail, [2]string{"at /one", "at /two"}},
	{"hooks[].webhook.secret_file", withHook(heard, mailed), withHook(heard, strings.Replace(mailed, "whsec-a", "whsec-b", 1)), mail, [2]string{"signed by a.", "signed by b."}},
	{"hooks[].webhook.previous_secret_file", withHook(heard, mailed), withHook(heard, mailed+", previous_secret_file: whsec-b"), mail, [2]string{"signed by a.", "signed by ab."}},
	{"hooks[].webhook.allow_cidrs", withHook(heard, mailed), withHook(heard, strings.Replace(mailed, ", allow_cidrs: [127.0.0.1]", "", 1)), mail, [2]string{"signed by a.", "refused: "}},
	{"hooks[].webhook.ca_file", withHook(heard, mailed), withHook(heard, mailed+", ca_file: whsec-b"), loaded, [2]string{"taken", "no certificate"}},
	{"hooks[].webhook.timeout", withHook(heard, mailed+", timeout: 30s"), withHook(heard, mailed+", timeout: 31s"), loaded, [2]string{"taken", "want at most 30s"}},

	{"keys[].callbacks.prefixes", withCallbacks(backTo), withCallbacks(strings.Replace(backTo, "{hook}/", "{hook}/other", 1)), calledBack, [2]string{"approval.decided", "may not name this address"}},
	{"keys[].callbacks.secret_file", withCallbacks(backTo), withCallbacks(strings.Replace(backTo, "whsec-a", "whsec-b", 1)), calledBack, [2]string{"signed by a", "signed by b"}},
	{"keys[].callbacks.allow_cidrs", withCallbacks(backTo), withCallbacks(strings.Replace(backTo, ", allow_cidrs: [127.0.0.1]", "", 1)), calledBack, [2]string{"approval.decided", "refused: "}},
}
