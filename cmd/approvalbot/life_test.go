package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/approvalbot/approvalbot/bot/client"
	"github.com/approvalbot/approvalbot/bot/wire"
	"github.com/approvalbot/approvalbot/gate"
)

func call(tool string) wire.Call { return wire.Call{Tool: tool, Args: json.RawMessage(`{"n":1}`)} }

// hold has the agent ask about a call that waits for people.
func (s *testServer) hold(c wire.Call) *wire.Approval {
	s.t.Helper()
	attended := true
	r, err := s.client("hermes").Check(s.t.Context(), wire.CheckRequest{Call: c, Requester: wire.Requester{Agent: "hermes", Session: "s1", Attended: &attended}}, 0)
	if err != nil {
		s.t.Fatal(err)
	}
	if r.Approval == nil {
		s.t.Fatalf("%s was not held: %+v", c.Tool, r)
	}
	return r.Approval
}

// consume has the agent spend the approval of a call.
func (s *testServer) consume(id string, c wire.Call) (wire.CheckAnswer, error) {
	s.t.Helper()
	agent := s.client("hermes")
	a, err := agent.Get(s.t.Context(), id)
	if err != nil {
		s.t.Fatal(err)
	}
	return agent.Consume(s.t.Context(), id, wire.ConsumeRequest{Token: a.Token, AttemptID: client.NewAttempt(), Call: c})
}

// TestAskApproveWait is the main job at a shell: somebody asks, it shows among
// what is pending, another looks at it and says yes, and the one who waits knows.
func TestAskApproveWait(t *testing.T) {
	t.Parallel()
	s := newHome(t, oneRule).serve("--store", "memory")
	agent, ann := s.as("hermes"), s.as("ann")

	asked := agent.run(t, "request", "--tool", "held", "--args", `{"n":1}`, "--session", "s1", "-o", "json", "--key", "k1")
	wantCode(t, asked, exitOK)
	id := fromJSON[wire.CheckAnswer](t, asked.out).Approval.ID

	pending := ann.run(t, "pending")
	wantText(t, pending.out, "1 pending\n", id[len(id)-gate.ShownID:], "held", "hermes")

	waited := make(chan result, 1)
	go func() { waited <- agent.run(t, "wait", id) }()

	looks := ann
	looks.in, looks.inTTY = "y\n", true
	approved := looks.run(t, "approve", strings.ToLower(id[len(id)-gate.ShownID:]))
	wantCode(t, approved, exitOK)
	wantText(t, approved.err, id, `"n": 1`, "Approve exactly this call, once? [y/N]")
	wantText(t, approved.out, "Recorded. Approved by ann, waiting to run until")

	r := <-waited
	wantCode(t, r, exitOK)
	wantText(t, r.out, id, "Approved by ann")
	wantText(t, ann.run(t, "pending").out, "0 pending\n")
	wantText(t, ann.run(t, "show", id).out, "votes", "ann approve")

	again := agent.run(t, "request", "--tool", "held", "--args", `{"n":1}`, "--session", "s1", "-o", "json", "--key", "k1")
	if got := fromJSON[wire.CheckAnswer](t, again.out); got.Token == "" || got.Next != "consume" {
		t.Errorf("the same key did not get the token: %+v", got.Answer)
	}
}

func TestWaitSaysHowItEnded(t *testing.T) {
	t.Parallel()
	s := newHome(t, oneRule, "    deny: [never]").serve("--store", "memory")
	agent, ann := s.as("hermes"), s.as("ann")

	t.Run("a denial is 77, with the reason", func(t *testing.T) {
		t.Parallel()
		a := s.hold(call("held"))
		wantCode(t, ann.run(t, "deny", a.ID, "--reason", "wrong cluster"), exitOK)
		r := agent.run(t, "wait", a.ID)
		wantCode(t, r, exitDenied)
		wantText(t, r.err, "DENIED, NOT RUN", "wrong cluster")
	})
	t.Run("no decision in time is 75", func(t *testing.T) {
		t.Parallel()
		r := agent.run(t, "wait", s.hold(call("held")).ID, "--timeout", "1ms")
		wantCode(t, r, exitNoDecision)
		wantText(t, r.err, "nobody decided within 1ms")
	})
	t.Run("what policy never allows is 77 at once", func(t *testing.T) {
		t.Parallel()
		r := agent.run(t, "request", "--tool", "never", "--wait")
		wantCode(t, r, exitDenied)
		wantText(t, r.err, "BLOCKED, NOT RUN")
	})
	t.Run("and 2 where nobody waits", func(t *testing.T) {
		t.Parallel()
		wantCode(t, agent.run(t, "request", "--tool", "never"), exitBlock)
	})
	t.Run("what nobody gates may run", func(t *testing.T) {
		t.Parallel()
		r := agent.run(t, "request", "--tool", "free", "--wait")
		wantCode(t, r, exitOK)
		wantText(t, r.out, "may run (undesignated)")
	})
	t.Run("what was withdrawn is 75", func(t *testing.T) {
		t.Parallel()
		a := s.hold(call("held"))
		if _, err := s.client("hermes").Cancel(t.Context(), a.ID, "not needed"); err != nil {
			t.Fatal(err)
		}
		wantCode(t, agent.run(t, "wait", a.ID), exitNoDecision)
	})
	t.Run("what has run already is used up, 77", func(t *testing.T) {
		t.Parallel()
		a := s.hold(call("held"))
		wantCode(t, ann.run(t, "approve", a.ID, "--digest", a.Digest), exitOK)
		if _, err := s.consume(a.ID, call("held")); err != nil {
			t.Fatal(err)
		}
		wantCode(t, agent.run(t, "wait", a.ID), exitDenied)
	})
	t.Run("a service that is not there is 69", func(t *testing.T) {
		t.Parallel()
		gone := agent
		gone.env = map[string]string{envURL: "http://127.0.0.1:1", envToken: "ab_x"}
		wantCode(t, gone.run(t, "request", "--tool", "held", "--wait"), exitUnreachable)
		r := gone.run(t, "request", "--tool", "held")
		wantCode(t, r, exitBlock)
		wantText(t, r.err, "no answer from http://127.0.0.1:1 (APPROVALBOT_URL says where")
	})
	t.Run("no key, and one the service does not take, is 78", func(t *testing.T) {
		t.Parallel()
		wantCode(t, shell{}.run(t, "wait", s.hold(call("held")).ID), exitConfig)
		wrong := agent
		wrong.env = map[string]string{envURL: s.url, envToken: "ab_wrong"}
		wantCode(t, wrong.run(t, "request", "--tool", "held", "--wait"), exitConfig)
	})
	t.Run("an id that does not exist is a mistake of the caller", func(t *testing.T) {
		t.Parallel()
		wantCode(t, agent.run(t, "wait", string(gate.NewID())), exitBlock)
	})
	t.Run("a proposal is answered by people, and authorises nothing", func(t *testing.T) {
		t.Parallel()
		asked := agent.run(t, "request", "--propose", "--tool", "free", "--intent", "may I?", "-o", "json")
		wantCode(t, asked, exitOK)
		a := fromJSON[wire.CheckAnswer](t, asked.out).Approval
		wantCode(t, ann.run(t, "approve", a.ID, "--digest", a.Digest), exitOK)
		r := agent.run(t, "wait", a.ID, "-o", "json")
		wantCode(t, r, exitOK)
		if got := fromJSON[wire.ApprovalAnswer](t, r.out); got.Token != "" {
			t.Error("a proposal got a token")
		}
	})
}

func TestApproveIsOnSomethingSeen(t *testing.T) {
	t.Parallel()
	s := newHome(t, oneRule).serve("--store", "memory")
	ann := s.as("ann")
	for _, row := range []struct {
		name string
		who  shell
		args []string
		says string
	}{
		{"nobody at a terminal and no digest", ann, nil, "say with --digest"},
		{"a digest of another call", ann, []string{"--digest", "sha256:" + strings.Repeat("0", 64)}, "holds another call"},
		{"a digest that is none", ann, []string{"--digest", "sha256:12"}, "64 hex digits"},
		{"an answer that is not yes", shell{env: ann.env, in: "maybe\n", inTTY: true}, nil, "nothing was decided"},
		{"no answer at all", shell{env: ann.env, inTTY: true}, nil, "nothing was decided"},
		{"a scope that the rule does not allow", shell{env: ann.env, in: "y\n", inTTY: true}, []string{"--scope", "always"}, "scope_not_allowed"},
		{"an agent's key", shell{env: s.as("hermes").env, in: "y\n", inTTY: true}, nil, "may not do that"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			a := s.hold(call("held"))
			r := row.who.run(t, append([]string{"approve", a.ID}, row.args...)...)
			wantCode(t, r, exitBlock)
			wantText(t, r.err, row.says)
			if got, err := s.client("ann").Get(t.Context(), a.ID); err != nil || got.State != "pending" {
				t.Errorf("it is %s (%v), want pending", got.State, err)
			}
		})
	}
	t.Run("who comes too late learns who decided", func(t *testing.T) {
		t.Parallel()
		a := s.hold(call("held"))
		wantCode(t, s.as("ann").run(t, "approve", a.ID, "--digest", a.Digest), exitOK)
		r := s.as("bo").run(t, "approve", a.ID, "--digest", a.Digest)
		wantCode(t, r, exitBlock)
		wantText(t, r.err, "ann already approved this at", "already_decided")
	})
}

func TestShortIDs(t *testing.T) {
	t.Parallel()
	s := newHome(t, oneRule).serve("--store", "memory")
	ann := s.as("ann")
	a, b := s.hold(call("held")), s.hold(call("held"))

	t.Run("match the end and the beginning in any case, not the middle", func(t *testing.T) {
		t.Parallel()
		for short, want := range map[string]bool{"4F9K": true, "d4f9k": true, "01jz3v": true, "apr_01JZ3V": true, "Q4T7": false} {
			if gate.Names(short, "apr_01JZ3V5YB8Q4T7R2N6WXKD4F9K") != want {
				t.Errorf("%s: want %v", short, want)
			}
		}
	})
	t.Run("name one", func(t *testing.T) {
		t.Parallel()
		wantText(t, ann.run(t, "show", a.ID[len(a.ID)-8:]).out, a.ID)
	})
	t.Run("that name several decide nothing and list them", func(t *testing.T) {
		t.Parallel()
		r := ann.run(t, "deny", a.ID[4:9]) // born in the same minute
		wantCode(t, r, exitBlock)
		wantText(t, r.err, "names 2 approvals; nothing was done", a.ID, b.ID)
		if n := fromJSON[wire.ListAnswer](t, ann.run(t, "pending", "-o", "json").out).Pending; n != 2 {
			t.Errorf("%d are pending, want 2", n)
		}
	})
	t.Run("that name none, or too many", func(t *testing.T) {
		t.Parallel()
		wantText(t, ann.run(t, "show", "ZZZZZZ").err, `is named by "ZZZZZZ"`)
		wantText(t, ann.run(t, "show", "ZZ").err, "at least 4 characters")
	})
	t.Run("are not for keys that may not list", func(t *testing.T) {
		t.Parallel()
		wantText(t, s.as("hermes").run(t, "wait", "ZZZZZZ").err, "give the whole id")
	})
}

func TestQuestionsAndAnswers(t *testing.T) {
	t.Parallel()
	s := newHome(t, oneRule).serve("--store", "memory")
	a := s.hold(call("held"))
	_, err := s.client("ann").Decide(t.Context(), a.ID, wire.DecideRequest{Decision: "needs_more_context", Reason: "which pod?", Digest: a.Digest})
	if err != nil {
		t.Fatal(err)
	}
	wantText(t, s.as("ann").run(t, "show", a.ID).out, "ann asks", "which pod?", "no answer yet")
	r := s.as("hermes").run(t, "answer", a.ID, "web-7f9c")
	wantCode(t, r, exitOK)
	wantText(t, r.out, "Answered.")
	wantText(t, s.as("ann").run(t, "show", a.ID).out, "web-7f9c  (the agent's own words)")
}

func TestGrants(t *testing.T) {
	t.Parallel()
	s := newHome(t, strings.Replace(oneRule, "mode: inline", "mode: inline, scopes: [once, session]", 1)).serve("--store", "memory")
	ann := s.as("ann")
	wantText(t, ann.run(t, "grants", "list").out, "no grants")

	a := s.hold(call("held"))
	wantText(t, ann.run(t, "approve", a.ID, "--digest", a.Digest, "--scope", "session").out, "granted for session")
	looks := ann
	looks.in, looks.inTTY = "n\n", true
	wantText(t, looks.run(t, "approve", s.hold(wire.Call{Tool: "held", Target: "pod/x"}).ID, "--scope", "session").err,
		"Approve this call, and any held on pod/x until the session ends? [y/N]")
	wantText(t, ann.run(t, "grants", "list").out, "session", "held, exactly one call", "ann", "hermes")

	grants := fromJSON[[]wire.Grant](t, ann.run(t, "grants", "list", "-o", "json").out)
	short := grants[0].ID[len(grants[0].ID)-gate.ShownID:]
	wantCode(t, ann.run(t, "grants", "confirm", short), exitOK)
	wantCode(t, ann.run(t, "grants", "revoke", short), exitOK)
	wantText(t, ann.run(t, "grants", "list").out, "no grants")
	wantText(t, ann.run(t, "grants", "revoke", short).err, "no grant is named")
}

// TestNothingOfAnAgentReachesTheTerminalRaw: what an agent writes could move
// the cursor, hide itself or retype a prompt.
func TestNothingOfAnAgentReachesTheTerminalRaw(t *testing.T) {
	t.Parallel()
	s := newHome(t, "approvals: {tool_gate: {default_action: ask}}").serve("--store", "memory")
	evil := "a\x1b[2J\u009b1mb\u202ec\u200bd\x07"
	args, err := json.Marshal(map[string]string{"text": evil})
	if err != nil {
		t.Fatal(err)
	}
	attended := true
	r, err := s.client("hermes").Check(t.Context(), wire.CheckRequest{
		Call: wire.Call{Tool: "t\u202eool\u200b", Target: "x\u2066y", Args: args}, Intent: evil,
		Requester: wire.Requester{Agent: evil, Session: evil, Attended: &attended},
	}, 0)
	if err != nil {
		t.Fatal(err)
	}
	id := r.Approval.ID
	ann := s.as("ann")
	ann.in, ann.inTTY, ann.tty = "y\n", true, true
	ann.env["NO_COLOR"] = "1"
	for _, args := range [][]string{{"pending"}, {"show", id}, {"show", id, "-o", "json"}, {"pending", "-o", "json"}, {"deny", id[4:8]}, {"approve", id}} {
		got := ann.run(t, args...)
		for _, bad := range []string{"\x1b", "\x07", "\u009b", "\u202e", "\u200b", "\u2066"} {
			if strings.Contains(got.out+got.err, bad) {
				t.Errorf("%v: %q reaches the terminal in %q", args, bad, got.out+got.err)
			}
		}
	}
	wantText(t, ann.run(t, "show", id).out, `a\u001b[2J`, `b\u202ec\u200bd`, `t\u202eool\u200b`, `x\u2066y`)
}

func TestColourIsForTerminals(t *testing.T) {
	t.Parallel()
	s := newHome(t, oneRule).serve("--store", "memory")
	s.hold(call("held"))
	for _, row := range []struct {
		name   string
		tty    bool
		env    string
		colour bool
	}{
		{"a pipe gets none", false, "", false},
		{"a terminal gets colour", true, "", true},
		{"a terminal of somebody who wants none", true, "NO_COLOR", false},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			ann := s.as("ann")
			ann.tty = row.tty
			ann.env[row.env] = "1"
			if got := strings.Contains(ann.run(t, "pending").out, "\x1b["); got != row.colour {
				t.Errorf("colour is %v", got)
			}
		})
	}
}

func TestTheKeyMayBeInAFile(t *testing.T) {
	t.Parallel()
	s := newHome(t, oneRule).serve("--store", "memory")
	s.write("ann.key", s.keys["ann"].Reveal()+"\n")
	with := shell{env: map[string]string{envURL: s.url, envTokenFile: s.path("ann.key")}}
	wantCode(t, with.run(t, "pending"), exitOK)
	with.env[envToken] = "ab_other"
	wantText(t, with.run(t, "pending").err, "both set")
}

func TestPendingIsMostUrgentFirst(t *testing.T) {
	t.Parallel()
	s := newHome(t, `
approvals:
  tool_gate:
    rules:
      - {name: later, match: {tool: later}, expires_in: 24h}
      - {name: soon, match: {tool: soon}, expires_in: 5m}
`).serve("--store", "memory")
	s.hold(call("later"))
	s.hold(call("soon"))
	out := s.as("ann").run(t, "pending").out
	wantText(t, out, "2 pending, 1 due in 10 min\n")
	if strings.Index(out, "soon") > strings.Index(out, "later") {
		t.Errorf("not by urgency:\n%s", out)
	}
	wantText(t, s.as("ann").run(t, "pending", "--rule", "soon").out, "soon")
}

func TestAPageForPeopleIsAtTheRoot(t *testing.T) {
	t.Parallel()
	s := newHome(t, oneRule).serve("--store", "memory")
	for path, want := range map[string]int{"/": http.StatusSeeOther, "/console/login": http.StatusOK, "/healthz": http.StatusOK, "/readyz": http.StatusOK, "/nowhere": http.StatusNotFound} {
		if got, _ := fetch(t, s.url+path); got != want {
			t.Errorf("%s: %d, want %d", path, got, want)
		}
	}
}

// fetch is one GET, redirects not followed.
func fetch(t *testing.T, url string) (status int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(fmt.Errorf("%s: %w", url, err))
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}
