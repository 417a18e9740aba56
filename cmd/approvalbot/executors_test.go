package main

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/approvalbot/approvalbot/bot"
	"github.com/approvalbot/approvalbot/bot/webhook"
	"github.com/approvalbot/approvalbot/bot/wire"
)

// opsSecret signs what the executor ops sends.
const opsSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// downstream is what runs calls, and counts them by approval.
type downstream struct {
	*httptest.Server

	mu     sync.Mutex
	ran    map[string]int // by Idempotency-Key
	bodies map[string][]byte
	bad    []string
	hold   map[string]chan struct{} // by tool: not answered before
}

func newDownstream(t *testing.T) *downstream {
	t.Helper()
	d := &downstream{ran: map[string]int{}, bodies: map[string][]byte{}, hold: map[string]chan struct{}{}}
	d.Server = httptest.NewServer(d)
	t.Cleanup(func() {
		d.Close()
		for _, b := range d.bad {
			t.Error(b)
		}
	})
	return d
}

func (d *downstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	key, errKey := webhook.ParseKey(opsSecret)
	err = cmp.Or(err, errKey, webhook.Verify(r.Header, time.Now(), body, key))
	var order struct {
		Data struct {
			Tool string `json:"tool"`
		} `json:"data"`
	}
	err = cmp.Or(err, json.Unmarshal(body, &order))
	d.mu.Lock()
	if err != nil {
		d.bad = append(d.bad, err.Error())
	}
	id := r.Header.Get("Idempotency-Key")
	d.ran[id]++
	d.bodies[id] = body
	hold := d.hold[order.Data.Tool]
	d.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-r.Context().Done():
		}
	}
	_, _ = io.WriteString(w, "restarted 3 pods\nlogged in with hunter2\n")
}

// count is how often a call was run, and with which body.
func (d *downstream) count(id string) (int, string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ran[id], string(d.bodies[id])
}

// stalls makes a tool answer only when it is let go.
func (d *downstream) stalls(t *testing.T, tool string) (release func()) {
	t.Helper()
	until := make(chan struct{})
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hold[tool] = until
	release = sync.OnceFunc(func() { close(until) })
	t.Cleanup(release)
	return release
}

// opsCall is one whose bytes must arrive as they are.
func opsCall(tool string) wire.Call {
	return wire.Call{Server: "k8s", Tool: tool, Target: "prod/web", Args: json.RawMessage(`{"b": 1, "a":"<é>",  "password":"hunter2"}`)}
}

// TestAnApprovedCallRunsWithoutItsAgent: the agent has gone, a person presses Approve,
// and the call runs, exactly once, by whichever process is there.
func TestAnApprovedCallRunsWithoutItsAgent(t *testing.T) {
	t.Parallel()
	s := newTeam(t, 2)
	c := opsCall("ops_restart")
	a := s.asksFor(c, "")
	if !strings.Contains(a.Executor, "ops") {
		t.Errorf("its executor is %q", a.Executor)
	}
	s.press(annOnSlack, s.card("C0REVIEW01", a, "Waiting for"), "approve")
	card := s.card("C0REVIEW01", a, "Ran ")
	s.golden("ran-by-executor", card)
	n, body := s.ops.count(a.ID)
	if n != 1 || !strings.Contains(body, `{"b": 1, "a":"<é>",  "password":"hunter2"}`) {
		t.Errorf("it ran %d times, with %s", n, body)
	}
	got, err := s.agent().Get(t.Context(), a.ID)
	if err != nil || got.State != "executed" || got.Result != "restarted 3 pods\nlogged in with [redacted]" || got.Token != "" {
		t.Errorf("the API says %s: %q, %v", got.State, got.Result, err)
	}
	soon(t, "the result in the thread", func() bool {
		for _, m := range s.slack.Messages("C0REVIEW01") {
			if m.ThreadTS == card.TS && strings.Contains(m.Read(), "restarted 3 pods") && !strings.Contains(m.Read(), "hunter2") {
				return true
			}
		}
		return false
	})
	for _, r := range s.all {
		if r.log.holds("hunter2") || r.log.holds(opsSecret) {
			t.Error("a log holds a secret")
		}
	}
}

// TestAKilledExecutorRunsNothingTwice kills the process that has sent a call and not
// heard the answer. Nobody runs it again; a person says what became of it, or asks
// others whether to.
func TestAKilledExecutorRunsNothingTwice(t *testing.T) {
	t.Parallel()
	s := newTeam(t, 1)
	release := s.ops.stalls(t, "ops_deploy")
	a := s.asksFor(opsCall("ops_deploy"), "")
	s.press(annOnSlack, s.card("C0REVIEW01", a, "Waiting for"), "approve")
	soon(t, "the call", func() bool { n, _ := s.ops.count(a.ID); return n == 1 })
	if err := s.all[0].cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = s.all[0].cmd.Wait()
	release()
	s.urls[0] = s.spawn().url
	old := s.card("C0REVIEW01", a, "result unknown: did it run?")
	s.golden("outcome-unknown", old)
	if n, _ := s.ops.count(a.ID); n != 1 {
		t.Fatalf("it ran %d times", n)
	}

	s.press(boOnSlack, old, "run_again")
	s.told(boOnSlack, "People are asked whether to run it again")
	var again wire.ApprovalAnswer
	soon(t, "the new question", func() bool {
		var err error
		again, err = s.agent().Get(t.Context(), a.ID)
		return err == nil && again.ID != a.ID
	})
	fresh := s.card("C0REVIEW01", &again.Approval, "It may already have run")
	s.press(boOnSlack, s.card("C0REVIEW01", a, "result unknown"), "did_not_run")
	s.card("C0REVIEW01", a, "did not run, says ")
	s.press(annOnSlack, fresh, "approve")
	s.card("C0REVIEW01", &again.Approval, "Ran ")
	if n, _ := s.ops.count(a.ID); n != 1 {
		t.Errorf("the old one ran %d times", n)
	}
	if n, _ := s.ops.count(again.ID); n != 1 {
		t.Errorf("the new one ran %d times", n)
	}
}

const workerConfig = `
executors: {batch: {worker: {}, timeout: 1m}}
approvals: {tool_gate: {rules: [{name: batch, match: {tool: "batch_*"}, mode: deferred, executor: batch}]}}
`

// yard is a server whose staged calls are run by workers, with the key of one.
func newYard(t *testing.T) *testServer {
	t.Helper()
	h := newHome(t)
	r := h.worker("mule", "batch")
	h.write("approvalbot.yaml", strings.Replace(people, "keys:\n", "keys:\n"+r, 1)+workerConfig)
	return h.serve("--store", "memory")
}

// worker makes a worker's key, and returns its line in the config.
func (h *home) worker(name, queue string) string {
	h.t.Helper()
	key, hash := bot.NewKey()
	h.keys[name] = key
	h.write(name+".sha256", hash)
	return "  - {name: " + name + ", roles: [worker], queues: [" + queue + "], hash_file: " + name + ".sha256}\n"
}

func (s *testServer) stagedFor(tool string) *wire.Approval {
	s.t.Helper()
	a := s.hold(wire.Call{Tool: tool, Args: json.RawMessage(`{"n": 1}`)})
	_, err := s.client("ann").Decide(s.t.Context(), a.ID, wire.DecideRequest{Decision: "approve", Digest: a.Digest})
	if err != nil {
		s.t.Fatal(err)
	}
	return a
}

func (s *testServer) ends(a *wire.Approval, state, result string) {
	s.t.Helper()
	soon(s.t, a.ID+" is "+state, func() bool {
		got, err := s.client("hermes").Get(s.t.Context(), a.ID)
		return err == nil && got.State == state && strings.Contains(got.Result, result)
	})
}

func TestWorkerCommand(t *testing.T) {
	t.Parallel()
	s := newYard(t)
	ctx, stop := context.WithCancel(t.Context())
	log, done := newLogbook(), make(chan int, 1)
	sh := s.as("mule")
	go func() {
		done <- run(ctx, process{
			args: []string{"worker", "--queue", "batch", "--exec", `cat; echo; echo "$APPROVALBOT_TOOL $APPROVALBOT_TOKEN"; [ "$APPROVALBOT_TOOL" = batch_ok ]`},
			env:  func(k string) string { return sh.env[k] }, in: strings.NewReader(""), out: io.Discard, err: log,
		})
		log.close()
	}()
	log.await(t, "waiting for approved calls")
	good, bad := s.stagedFor("batch_ok"), s.stagedFor("batch_bad")
	s.ends(good, "executed", `{"n": 1}`+"\nbatch_ok")
	s.ends(bad, "failed", "exit code 1")
	wantText(t, s.as("ann").run(t, "show", good.ID).out, "Ran ", "what came of it\n    {\"n\": 1}\n    batch_ok")
	wantCode(t, s.as("hermes").run(t, "wait", good.ID), exitOK)
	failed := s.as("hermes").run(t, "wait", bad.ID)
	wantCode(t, failed, exitBlock)
	wantText(t, failed.err, "RAN, FAILED.")
	stop()
	if code := <-done; code != 0 {
		t.Errorf("exit code %d", code)
	}
	if log.holds(s.keys["mule"].Reveal()) || log.holds("abt1.") {
		t.Error("the log holds a secret")
	}
}

func TestWorkerCommandRefuses(t *testing.T) {
	t.Parallel()
	s := newYard(t)
	for name, tt := range map[string]struct {
		as   string
		args []string
		want string
	}{
		"no queue":                {"mule", []string{"--exec", "x"}, "--queue: name the queue"},
		"nothing to run":          {"mule", []string{"--queue", "batch"}, "say what runs a call"},
		"two things to run":       {"mule", []string{"--queue", "batch", "--exec", "x", "--", "y"}, "keep one"},
		"a program nobody has":    {"mule", []string{"--queue", "batch", "--", "no-such-program"}, "cannot be run"},
		"another queue":           {"mule", []string{"--queue", "ops", "--exec", "x"}, "may not run the calls of this executor"},
		"a key that is no worker": {"hermes", []string{"--queue", "batch", "--exec", "x"}, "see its roles"},
		"none at a time":          {"mule", []string{"--queue", "batch", "--exec", "x", "--at-once", "0"}, "--at-once"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := s.as(tt.as).run(t, append([]string{"worker"}, tt.args...)...)
			wantCode(t, r, 2)
			wantText(t, r.err, tt.want)
		})
	}
}

// TestAKilledWorkerLeavesAnUnknownOutcome kills a worker while its program runs.
func TestAKilledWorkerLeavesAnUnknownOutcome(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	line := h.worker("mule", "batch")
	h.write("approvalbot.yaml", strings.Replace(people, "keys:\n", "keys:\n"+line, 1)+strings.Replace(workerConfig, "1m", "1s", 1))
	s := h.serve("--store", "memory")
	marks := h.path("marks")
	cmd := exec.Command(os.Args[0], "worker", "--queue", "batch", "--timeout", "1s", "--exec", `echo "x$APPROVALBOT_TOKEN" >> `+marks+"; sleep 3")
	cmd.Env = append(os.Environ(), asProgram+"=1", envURL+"="+s.url, envToken+"="+s.keys["mule"].Reveal())
	log := newLogbook()
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	log.await(t, "waiting for approved calls")
	a := s.stagedFor("batch_long")
	soon(t, "the program", func() bool { b, _ := os.ReadFile(marks); return len(b) > 0 })
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	s.ends(a, "outcome_unknown", "")
	if b, _ := os.ReadFile(marks); string(b) != "x\n" {
		t.Errorf("it ran once, without the worker's key, if this is one x: %q", b)
	}
}
