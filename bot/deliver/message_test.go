package deliver

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/approvalbot/approvalbot/gate"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// denied is an approval that Ann has denied, and the entry of the log that says so.
func denied() (gate.Entry, *gate.View) {
	at := time.Date(2026, 11, 5, 3, 27, 0, 0, time.UTC)
	a := gate.Approval{
		ID: "apr_01JBXYZ0000000000000000001", Mode: gate.Deferred, State: gate.Denied, Rev: 3,
		Subject: gate.Subject{
			Call: gate.Call{Server: "k8s-eu", Tool: "kubectl_delete", Target: "pod/web", Args: json.RawMessage(`{"token":"abc"}`)},
			Rule: "prod-kubectl", Version: "9f2c", Executor: gate.RequesterRuns, Callback: "https://ci.example.com/hooks/7",
			Requester: gate.Requester{Key: "hermes", Agent: "claude", Run: "r7", Session: "s1", Person: "cy"},
		},
		Created: at.Add(-time.Minute), Expires: at.Add(time.Hour), Ended: at,
		Reason: gate.ReasonDenied, By: "Ann", Note: "not <now>", Predecessor: "apr_01JBXYZ0000000000000000000",
	}
	e := gate.Entry{
		Pos: "17-0.4", N: 4, ID: a.ID, Event: gate.EventDecided, From: gate.Pending, To: gate.Denied, By: "Ann", At: at,
		Note: `{"choice":"deny","voter":{"id":"slack:T1/U1"}}`,
	}
	return e, &gate.View{Snapshot: gate.Snapshot{Approval: a, Now: at}, Ruling: gate.Ruling{Text: "Denied."}}
}

func TestMessages(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*gate.Entry, *gate.View){
		"denied": func(*gate.Entry, *gate.View) {},
		"executed": func(e *gate.Entry, v *gate.View) {
			e.Event, e.From, e.To, e.By = gate.EventReported, gate.Executing, gate.Executed, "hermes"
			v.State, v.Approval.Reason, v.Note, v.Result, v.Outcome = gate.Executed, "", "deleted 1 pod", "deleted 1 pod\nin 2 s", "unreported"
		},
		"approved, and moved on since": func(e *gate.Entry, v *gate.View) {
			e.To = gate.Approved
			v.State, v.Rev, v.Approval.Reason, v.Note, v.Result = gate.Failed, 6, "", "no such pod", "no such pod"
		},
		"revoked, with a successor": func(e *gate.Entry, v *gate.View) {
			e.Event, e.From, e.To, e.By = gate.EventRevoked, gate.Approved, gate.Revoked, ""
			v.State, v.Approval.Reason, v.Note, v.Successor = gate.Revoked, gate.ReasonPolicyChanged, "", "apr_01JBXYZ0000000000000000002"
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, v := denied()
			change(&e, v)
			body, err := fit(message(e, v))
			if err != nil {
				t.Fatal(err)
			}
			if bytes.Contains(body, []byte("U1")) || bytes.Contains(body, []byte("abc")) || bytes.Contains(body, []byte("hooks/7")) {
				t.Errorf("it says too much: %s", body)
			}
			golden(t, strings.ReplaceAll(strings.ReplaceAll(name, ",", ""), " ", "-"), body)
		})
	}
}

func golden(t *testing.T, name string, body []byte) {
	t.Helper()
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, body, "", "  "); err != nil {
		t.Fatal(err)
	}
	file := "testdata/" + name + ".json"
	if *update {
		if err := os.WriteFile(file, pretty.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), pretty.String()); diff != "" {
		t.Errorf("%s (-update rewrites it):\n%s", file, diff)
	}
}

// TestMessagesStayUnderTheirLimit: whatever an agent and a tool say, at its longest
// and in what JSON makes the most of.
func TestMessagesStayUnderTheirLimit(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		of           string // characters
		args, result int    // how many
		cut          bool
	}{
		"little is left whole":       {"a", 5000, gate.MaxResult, false},
		"long arguments go first":    {"a", 15_000, gate.MaxResult, true},
		"then the result":            {"\u2028", 20_000, gate.MaxResult, true},
		"the longest arguments":      {"<", gate.MaxArgs, 10, true},
		"signs of four bytes do too": {"😀", 100, gate.MaxResult, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, v := denied()
			long := func(n int) string { return strings.Repeat(row.of, n) }
			name := long(gate.MaxName / len(row.of))
			v.Call.Server, v.Call.Tool, v.Call.Target, v.Rule = name, name, name, nil
			v.Requester = gate.Requester{Key: "hermes", Agent: long(256), Run: long(256), Session: long(256), Person: long(256)}
			v.Note, v.Result, v.Ruling.Text = long(gate.MaxWords), long(row.result), long(1000)
			m := message(e, v)
			m.Data.Args = json.RawMessage(`"` + long(row.args) + `"`)
			m.Data.Now.AgentText = v.Ruling.Text
			body, err := fit(m)
			if err != nil || len(body) >= maxBody || !json.Valid(body) {
				t.Fatalf("%d bytes, %v", len(body), err)
			}
			if cut := bytes.Contains(body, []byte(`"cut":true`)); cut != row.cut {
				t.Errorf("cut: %t, want %t, in %d bytes", cut, row.cut, len(body))
			}
		})
	}
}

func TestArgumentsAreSentAsPeopleMaySeeThem(t *testing.T) {
	t.Parallel()
	inBubble(t, func(o *office) {
		with := o.hook("with", func(c *HookConfig) { c.IncludeArgs = true })
		without := o.hook("without")
		o.asks()
		out := o.outbox()
		o.asks()
		defer o.runs(out)()
		o.passes(3e9)
		d := with.all()[0].msg.Data
		if args := string(d.Args); strings.Contains(args, "abc") || !strings.Contains(args, `"n":1`) || !d.Redacted {
			o.Errorf("it was sent %s, want what is redacted covered", args)
		}
		if d := without.all()[0].msg.Data; d.Args != nil {
			o.Errorf("the other was sent %s", d.Args)
		}
	})
}
