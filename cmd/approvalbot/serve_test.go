package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/approvalbot/approvalbot/bot/client"
	"github.com/approvalbot/approvalbot/bot/wire"
	"github.com/approvalbot/approvalbot/gate"
)

func TestServeRefuses(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name   string
		config string
		flags  []string
		says   []string
	}{
		{"no store, and names the three there are", oneRule, nil, []string{"no store is chosen", "redis: {addrs:", "--store embedded", "--store memory"}},
		{"a store that does not exist", oneRule, []string{"--store", "etcd"}, []string{`"etcd" is unknown`}},
		{"a Redis that is not there", oneRule + "\nstore: {redis: {addrs: [\"127.0.0.1:1\"]}}", nil, []string{"serve: redis 127.0.0.1:1: ", "connection refused"}},
		{"a place that cannot be listened at", oneRule, []string{"--store", "memory", "--listen", "192.0.2.1:1"}, []string{"192.0.2.1:1"}},
		{"a broken policy, with every mistake and where it is", `
approvals:
  mode: maual
  tool_gate:
    require_approval: ["a[b"]
    rules:
      - {name: r, match: {tool: x, when: "args.n =="}, aprovers: [sre]}
`, []string{"--store", "memory"}, []string{"4 mistakes", "approvalbot.yaml:9:9: approvals.mode", ":11:24: ", ":13:42: ", "aprovers: no such key"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			h := newHome(t, row.config)
			r := shell{}.run(t, append([]string{"serve", "--config", h.path("approvalbot.yaml"), "--listen", "127.0.0.1:0"}, row.flags...)...)
			wantCode(t, r, exitBlock)
			wantText(t, r.err, row.says...)
			if strings.Contains(r.err, `"serving"`) {
				t.Errorf("it says %s", r.err)
			}
		})
	}
	t.Run("no server key on Redis", func(t *testing.T) {
		t.Parallel()
		h := newHome(t)
		h.write("approvalbot.yaml", "store: {redis: {addrs: [\"127.0.0.1:1\"]}}")
		wantText(t, shell{}.run(t, "serve", "--config", h.path("approvalbot.yaml")).err, "keys server")
	})
}

func TestStartLine(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name, config string
		gate         string
		loud         bool
	}{
		{"a gate that holds", oneRule, "on", false},
		{"no gate section is said loudly", "", "disabled", true},
		{"a gate that is off is said loudly", "approvals: {mode: off, tool_gate: {require_approval: [x]}}", "off", true},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			h := newHome(t, row.config, "store: memory")
			log := newLogbook()
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan int, 1)
			go func() {
				done <- run(ctx, process{args: []string{"serve", "--config", h.path("approvalbot.yaml"), "--listen", "127.0.0.1:0"}, env: func(string) string { return "" }, out: io.Discard, err: log})
			}()
			line := log.await(t, "serving")
			for _, fact := range []string{"listen", "store", "durability", "policy", "rules", "replica"} {
				if line[fact] == nil {
					t.Errorf("nothing about %s in %v", fact, line)
				}
			}
			if line["gate"] != row.gate {
				t.Errorf("gate %v, want %s", line["gate"], row.gate)
			}
			if row.loud {
				log.await(t, "NO CALL IS HELD")
			}
			log.await(t, "the store is in memory: nothing survives")
			cancel()
			if code := <-done; code != exitOK {
				t.Errorf("exit %d after an interrupt", code)
			}
		})
	}
}

// TestDrain: a server that stops answers those who are parked, at once, and is
// not ready meanwhile.
func TestDrain(t *testing.T) {
	t.Parallel()
	s := newHome(t, oneRule).serve("--store", "memory")
	agent := s.client("hermes")
	attended := true
	answered := make(chan wire.CheckAnswer, 1)
	go func() {
		r, err := agent.Check(t.Context(), wire.CheckRequest{Call: call("held"), Requester: wire.Requester{Attended: &attended}}, time.Minute)
		if err != nil {
			t.Error(err)
		}
		answered <- r
	}()
	look := time.NewTicker(25 * time.Millisecond) // under the rate limit of a key
	defer look.Stop()
	for deadline := time.Now().Add(patience); fromJSON[wire.ListAnswer](t, s.as("ann").run(t, "pending", "-o", "json").out).Pending == 0; <-look.C {
		if time.Now().After(deadline) {
			t.Fatal("never asked")
		}
	}
	began := time.Now()
	s.stop()
	if r := <-answered; r.Verdict != "ask" || r.Next != "wait" {
		t.Errorf("the parked caller was told %+v", r.Answer)
	}
	if code := <-s.done; code != exitOK {
		t.Errorf("exit %d", code)
	}
	if took := time.Since(began); took > drainTime {
		t.Errorf("draining took %s", took)
	}
	s.log.await(t, "draining")
}

func TestAPartThatDiesTakesTheServerDown(t *testing.T) {
	t.Parallel()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	drained := false
	s := &server{
		log: slog.New(slog.DiscardHandler), listener: l, handler: http.NotFoundHandler(), drain: func() { drained = true },
		parts: []part{
			{"lives", func(ctx context.Context) error { <-ctx.Done(); return nil }},
			{"dies", func(context.Context) error { return nil }},
		},
	}
	if err := s.run(t.Context()); !errors.Is(err, errNoReason) || !strings.Contains(err.Error(), "dies stopped") {
		t.Errorf("got %v", err)
	}
	if !drained {
		t.Error("it did not drain")
	}
}

// promises is a store that answers so when it is looked at again.
type promises []error

func (p *promises) Recheck(context.Context) error {
	err := (*p)[0]
	*p = (*p)[1:]
	return err
}

func TestRecheckEndsOnlyOnABrokenPromise(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("appendfsync is not always any more")
		p := &promises{nil, &gate.Error{Kind: gate.Unavailable, Op: "test"}, nil, broken}
		began := time.Now()
		if err := recheck(t.Context(), p, slog.New(slog.DiscardHandler)); !errors.Is(err, broken) {
			t.Errorf("got %v", err)
		}
		if took := time.Since(began); took != 3*recheckEvery {
			t.Errorf("noticed after %s", took)
		}
	})
}

// reload changes the config file and tells the server.
func (s *testServer) reload(parts ...string) {
	s.t.Helper()
	s.config(parts...)
	if err := syscall.Kill(syscall.Getpid(), syscall.SIGHUP); err != nil {
		s.t.Fatal(err)
	}
}

// TestReload runs alone: its signal reaches every server in this process.
func TestReload(t *testing.T) { //nolint:paralleltest // see above
	t.Run("a tightened rule revokes what was approved under the old one", func(t *testing.T) {
		s := newHome(t, oneRule).serve("--store", "memory")
		a := s.hold(call("held"))
		wantCode(t, s.as("ann").run(t, "approve", a.ID, "--digest", a.Digest), exitOK)
		s.reload(strings.Replace(oneRule, "mode: inline", "mode: inline, quorum: 2", 1))
		s.log.await(t, "reloaded")
		_, err := s.consume(a.ID, call("held"))
		refused, ok := errors.AsType[*client.Error](err)
		if !ok && err != nil {
			t.Fatal(err)
		}
		if ok && refused.Code != string(gate.ReasonPolicyChanged) {
			t.Errorf("refused as %s", refused.Code)
		}
		got, err := s.client("ann").Get(t.Context(), a.ID)
		if err != nil || got.State != string(gate.Revoked) || got.Reason != string(gate.ReasonPolicyChanged) {
			t.Errorf("it is %s, %s (%v), want revoked, policy_changed", got.State, got.Reason, err)
		}
	})
	t.Run("a comment voids nothing", func(t *testing.T) {
		s := newHome(t, oneRule).serve("--store", "memory")
		a := s.hold(call("held"))
		wantCode(t, s.as("ann").run(t, "approve", a.ID, "--digest", a.Digest), exitOK)
		s.reload("# a comment", oneRule)
		s.log.await(t, "reloaded")
		if r, err := s.consume(a.ID, call("held")); err != nil || r.Verdict != "allow" {
			t.Errorf("got %+v, %v", r.Answer, err)
		}
	})
	t.Run("a broken one keeps the old policy and says so with the place", func(t *testing.T) {
		s := newHome(t, oneRule).serve("--store", "memory")
		s.reload(strings.Replace(oneRule, "tool: held", "tool: \"[held\"", 1))
		problem := s.log.await(t, "config")["problem"].(string)
		wantText(t, problem, "approvalbot.yaml:11:", "approvals.tool_gate.rules[0].match.tool")
		s.log.await(t, "RELOAD REFUSED: the old policy stays in force")
		s.hold(call("held"))
		_, ready := fetch(t, s.url+"/readyz")
		wantText(t, ready, `"degraded"`, "config file was refused")
		s.reload(oneRule)
		s.log.await(t, "reloaded")
		if _, ready = fetch(t, s.url+"/readyz"); strings.Contains(ready, "refused") {
			t.Errorf("after the next reload it is still said: %s", ready)
		}
	})
	t.Run("one that would turn the gate off is refused", func(t *testing.T) {
		s := newHome(t, oneRule).serve("--store", "memory")
		for _, off := range []string{"", "approvals: {mode: off, tool_gate: {require_approval: [held]}}"} {
			s.reload(off)
			wantText(t, s.log.await(t, "RELOAD REFUSED")["why"].(string), "would turn the gate off")
		}
		s.hold(call("held"))
	})
	t.Run("what takes a restart is named", func(t *testing.T) {
		s := newHome(t, oneRule).serve("--store", "memory")
		s.reload(oneRule, "public_url: https://approvals.example.com")
		if keys := s.log.await(t, "only a restart")["keys"].([]any); len(keys) != 1 || keys[0] != "public_url" {
			t.Errorf("named %v", keys)
		}
	})
	t.Run("a changed file is noticed without a signal", func(t *testing.T) {
		s := newHome(t, oneRule).serve("--store", "memory")
		s.config(strings.Replace(oneRule, "tool: held", "tool: other", 1))
		s.log.await(t, "reloaded")
		s.hold(call("other"))
	})
}
