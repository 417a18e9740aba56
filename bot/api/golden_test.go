package api_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/approvalbot/approvalbot/bot/client"
	"github.com/approvalbot/approvalbot/bot/wire"
	"github.com/approvalbot/approvalbot/gate"
)

var update = flag.Bool("update", false, "write golden files")

// outcome is one way a call can end, and how to bring it there. It returns what
// the agent is told.
type outcome struct {
	name string
	of   func(t *testing.T, s *scene) wire.Answer
}

// scene is a replica, what its policy can become, and its store: in memory, or on
// a server of its own.
type scene struct {
	*replica
	cfg    *gate.PolicyConfig
	store  gate.Store
	server *redisServer
}

func (s *scene) check(t *testing.T, change func(*wire.CheckRequest)) wire.CheckAnswer {
	t.Helper()
	r := ask("held")
	change(&r)
	a, err := s.as(t, "hermes").Check(t.Context(), r, 0)
	if refused, ok := errors.AsType[*client.Error](err); ok {
		return wire.CheckAnswer{Answer: refused.Answer, Approval: refused.Approval}
	}
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func (s *scene) tool(t *testing.T, tool string) wire.CheckAnswer {
	t.Helper()
	return s.check(t, func(r *wire.CheckRequest) { r.Call.Tool = tool })
}

// see reads how it stands, as the opener.
func (s *scene) see(t *testing.T, id string) wire.ApprovalAnswer {
	t.Helper()
	a, err := s.as(t, "hermes").Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// becomes waits for a state that time brings.
func (s *scene) becomes(t *testing.T, id, state string) wire.Answer {
	t.Helper()
	var a wire.ApprovalAnswer
	eventually(t, func() bool { a = s.see(t, id); return a.State == state })
	return a.Answer
}

func (s *scene) approved(t *testing.T, tool string) wire.ApprovalAnswer {
	t.Helper()
	a := s.tool(t, tool)
	s.vote(t, "ann-cli", a.Approval, "approve")
	return s.see(t, a.Approval.ID)
}

func (s *scene) consume(t *testing.T, a wire.ApprovalAnswer, change func(*wire.ConsumeRequest)) wire.Answer {
	t.Helper()
	r := wire.ConsumeRequest{Token: a.Token, AttemptID: client.NewAttempt(), Call: ask(a.Call.Tool).Call}
	change(&r)
	yes, err := s.as(t, "hermes").Consume(t.Context(), a.ID, r)
	if refused, ok := errors.AsType[*client.Error](err); ok {
		return refused.Answer
	}
	if err != nil {
		t.Fatal(err)
	}
	return yes.Answer
}

func (s *scene) report(t *testing.T, outcome, note string) wire.Answer {
	t.Helper()
	a := s.approved(t, "held")
	s.consume(t, a, asIs)
	done, err := s.as(t, "hermes").Report(t.Context(), a.ID, wire.OutcomeRequest{Outcome: outcome, Token: a.Token, Note: note})
	if err != nil {
		t.Fatal(err)
	}
	return done.Answer
}

// reload changes the policy under an approved call and consumes it.
func (s *scene) reload(t *testing.T, tool string) wire.Answer {
	t.Helper()
	a := s.approved(t, tool)
	s.cfg.ToolGate.Rules = append([]gate.RuleConfig{
		{Name: "tighter", Match: gate.MatchConfig{Tool: tool}, Action: "ask", Quorum: &gate.QuorumConfig{Total: 2}},
	}, s.cfg.ToolGate.Rules...)
	if err := s.gate.SetPolicy(t.Context(), newPolicy(t, s.cfg, s.keys), "test"); err != nil {
		t.Fatal(err)
	}
	s.gate.Beat(t.Context(), t.Name()+s.url)
	return s.consume(t, a, asIs)
}

func asIs(*wire.ConsumeRequest) {}

func args(object string) func(*wire.CheckRequest) {
	return func(r *wire.CheckRequest) { r.Call.Args = json.RawMessage(object) }
}

var outcomes = []outcome{
	{"undesignated", func(t *testing.T, s *scene) wire.Answer { return s.tool(t, "free").Answer }},
	{"floor", func(t *testing.T, s *scene) wire.Answer { return s.tool(t, "drop_db").Answer }},
	{"rule denies", func(t *testing.T, s *scene) wire.Answer { return s.tool(t, "never").Answer }},
	{"waiting inline", func(t *testing.T, s *scene) wire.Answer { return s.tool(t, "held").Answer }},
	{"staged", func(t *testing.T, s *scene) wire.Answer { return s.tool(t, "staged").Answer }},
	{"unattended with an origin is staged", func(t *testing.T, s *scene) wire.Answer {
		no := false
		return s.check(t, func(r *wire.CheckRequest) { r.Requester.Attended, r.Origin = &no, &wire.Place{Place: "slack:C0PROD"} }).Answer
	}},
	{"a question", func(t *testing.T, s *scene) wire.Answer {
		a := s.tool(t, "held")
		s.vote(t, "ann-cli", a.Approval, "needs_more_context")
		return s.see(t, a.Approval.ID).Answer
	}},
	{"one of two", func(t *testing.T, s *scene) wire.Answer {
		a := s.tool(t, "two")
		s.vote(t, "ann-cli", a.Approval, "approve")
		return s.see(t, a.Approval.ID).Answer
	}},
	{"approved", func(t *testing.T, s *scene) wire.Answer { return s.approved(t, "held").Answer }},
	{"approved, seen by an approver", func(t *testing.T, s *scene) wire.Answer {
		a, err := s.as(t, "bo-cli").Get(t.Context(), s.approved(t, "held").ID)
		if err != nil || a.Token != "" {
			t.Errorf("token %q, %v; want none", a.Token, err)
		}
		return a.Answer
	}},
	{"consumed", func(t *testing.T, s *scene) wire.Answer { return s.consume(t, s.approved(t, "held"), asIs) }},
	{"consumed by a check", func(t *testing.T, s *scene) wire.Answer {
		a := s.approved(t, "held")
		return s.check(t, func(r *wire.CheckRequest) { r.Token, r.AttemptID = a.Token, client.NewAttempt() }).Answer
	}},
	{"executing", func(t *testing.T, s *scene) wire.Answer {
		a := s.approved(t, "held")
		s.consume(t, a, asIs)
		return s.see(t, a.ID).Answer
	}},
	{"executed", func(t *testing.T, s *scene) wire.Answer { return s.report(t, "executed", "") }},
	{"failed", func(t *testing.T, s *scene) wire.Answer { return s.report(t, "failed", "exit status 3") }},
	{"spent", func(t *testing.T, s *scene) wire.Answer {
		a := s.approved(t, "held")
		s.consume(t, a, asIs)
		return s.consume(t, a, asIs)
	}},
	{"another call's token", func(t *testing.T, s *scene) wire.Answer {
		return s.consume(t, s.approved(t, "held"), func(r *wire.ConsumeRequest) { r.Call.Target = "other" })
	}},
	{"a forged token", func(t *testing.T, s *scene) wire.Answer {
		return s.consume(t, s.approved(t, "held"), func(r *wire.ConsumeRequest) { r.Token = r.Token[:len(r.Token)-4] + "AAAA" })
	}},
	{"denied", func(t *testing.T, s *scene) wire.Answer {
		a := s.tool(t, "held")
		s.vote(t, "ann-cli", a.Approval, "deny")
		return s.see(t, a.Approval.ID).Answer
	}},
	{"expired", func(t *testing.T, s *scene) wire.Answer {
		return s.becomes(t, s.tool(t, "brief").Approval.ID, "expired")
	}},
	{"cancelled", func(t *testing.T, s *scene) wire.Answer {
		a, err := s.as(t, "hermes").Cancel(t.Context(), s.tool(t, "held").Approval.ID, "not needed")
		if err != nil {
			t.Fatal(err)
		}
		return a.Answer
	}},
	{"lapsed", func(t *testing.T, s *scene) wire.Answer {
		return s.becomes(t, s.approved(t, "hasty").ID, "lapsed")
	}},
	{"revoked", func(t *testing.T, s *scene) wire.Answer {
		a := s.approved(t, "held")
		if _, err := s.as(t, "bo-cli").Revoke(t.Context(), a.ID, "wrong cluster"); err != nil {
			t.Fatal(err)
		}
		return s.see(t, a.ID).Answer
	}},
	{"session ended", func(t *testing.T, s *scene) wire.Answer {
		a := s.tool(t, "held")
		if err := s.as(t, "hermes").EndSession(t.Context(), "s1"); err != nil {
			t.Fatal(err)
		}
		return s.see(t, a.Approval.ID).Answer
	}},
	{"policy changed, inline", func(t *testing.T, s *scene) wire.Answer { return s.reload(t, "held") }},
	{"policy changed, staged", func(t *testing.T, s *scene) wire.Answer { return s.reload(t, "staged") }},
	{"granted", func(t *testing.T, s *scene) wire.Answer {
		a := s.tool(t, "granted").Approval
		if _, err := s.as(t, "ann-cli").Decide(t.Context(), a.ID, wire.DecideRequest{Decision: "approve", Scope: "session", Digest: a.Digest}); err != nil {
			t.Fatal(err)
		}
		return s.tool(t, "granted").Answer
	}},
	{"bypassed", func(t *testing.T, s *scene) wire.Answer {
		if err := s.as(t, "root").SetBypass(t.Context(), "s1", wire.BypassRequest{Key: "hermes", For: "1h"}); err != nil {
			t.Fatal(err)
		}
		return s.tool(t, "held").Answer
	}},
	{"a key that names another call", func(t *testing.T, s *scene) wire.Answer {
		s.check(t, func(r *wire.CheckRequest) { r.IdempotencyKey = "k" })
		return s.check(t, func(r *wire.CheckRequest) { r.IdempotencyKey, r.Call.Target = "k", "other" }).Answer
	}},
	{"a number that is rounded", func(t *testing.T, s *scene) wire.Answer { return s.check(t, args(`{"n":9007199254740993}`)).Answer }},
	{"arguments that are no object", func(t *testing.T, s *scene) wire.Answer { return s.check(t, args(`[]`)).Answer }},
	{"a claim it may not make", func(t *testing.T, s *scene) wire.Answer {
		return s.check(t, func(r *wire.CheckRequest) { r.Origin = &wire.Place{Place: "slack:D1"} }).Answer
	}},
	{"no such approval", func(t *testing.T, s *scene) wire.Answer {
		return s.send(t, "hermes", http.MethodGet, "/v1/approvals/"+unknownApproval, "").answer(t).Answer
	}},
	{"too many waiting", func(t *testing.T, s *scene) wire.Answer {
		for range 100 {
			s.tool(t, "held")
		}
		return s.tool(t, "held").Answer
	}},
	{"asked by its own judgement", func(t *testing.T, s *scene) wire.Answer { return s.propose(t, "").Answer }},
	{"its own judgement, agreed", func(t *testing.T, s *scene) wire.Answer { return s.propose(t, "approve").Answer }},
	{"its own judgement, denied", func(t *testing.T, s *scene) wire.Answer { return s.propose(t, "deny").Answer }},
}

// troubles are outcomes that want a server that is stopped or tampered with.
var troubles = []outcome{
	{"no report in time", func(t *testing.T, s *scene) wire.Answer {
		a := s.approved(t, "held")
		s.consume(t, a, asIs)
		s.edit(t, "a:"+a.ID, "ru", 1) // the time to report by, long ago
		return s.see(t, a.ID).Answer
	}},
	{"the clock ran back", func(t *testing.T, s *scene) wire.Answer {
		a := s.approved(t, "held")
		s.edit(t, "meta", "hi", time.Now().Add(time.Hour).UnixMilli()) // the highest time seen
		return s.consume(t, a, asIs)
	}},
	{"replicas disagree", func(t *testing.T, s *scene) wire.Answer {
		a := s.approved(t, "held")
		if _, err := s.store.Heartbeat(t.Context(), "another", "another policy"); err != nil {
			t.Fatal(err)
		}
		return s.consume(t, a, asIs)
	}},
	{"the store is away", func(t *testing.T, s *scene) wire.Answer {
		s.server.stop(t)
		return s.tool(t, "held").Answer
	}},
	{"the store is away, for a call that nobody gates", func(t *testing.T, s *scene) wire.Answer {
		s.server.stop(t)
		return s.tool(t, "free").Answer
	}},
	{"approved before a fail-over", func(t *testing.T, s *scene) wire.Answer {
		a := s.approved(t, "held")
		s.server.stop(t)
		s.server.start(t)
		return s.consume(t, a, asIs)
	}},
	{"votes were tampered with", func(t *testing.T, s *scene) wire.Answer {
		a := s.tool(t, "two").Approval
		s.vote(t, "ann-cli", a, "approve")
		s.edit(t, "a:"+a.ID, "st", "approved", "dt", time.Now().UnixMilli(), "rb", time.Now().Add(time.Hour).UnixMilli())
		return s.consume(t, s.see(t, a.ID), asIs)
	}},
}

// edit changes a record behind the back of the store.
func (s *scene) edit(t *testing.T, key string, fields ...any) {
	t.Helper()
	db := s.server.client()
	defer func() { _ = db.Close() }()
	if err := db.HSet(t.Context(), "approvalbot:{default}:"+key, fields...).Err(); err != nil {
		t.Fatal(err)
	}
}

func (s *scene) propose(t *testing.T, decision string) wire.ApprovalAnswer {
	t.Helper()
	r := ask("held")
	a, err := s.as(t, "hermes").Propose(t.Context(), wire.ProposeRequest{Call: r.Call, Requester: r.Requester}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if decision != "" {
		s.vote(t, "ann-cli", a.Approval, decision)
	}
	return s.see(t, a.Approval.ID)
}

var (
	anID   = regexp.MustCompile(`apr_[0-9A-Z]{26}`)
	aTime  = regexp.MustCompile(`(\w+day )?\d\d:\d\d UTC`)
	aShort = regexp.MustCompile(`\d+\.\d s`)
)

// mayRun are the outcomes that let a call run.
var mayRun = []string{
	"undesignated", "granted", "bypassed", "consumed", "consumed by a check",
	"the store is away, for a call that nobody gates",
}

// told is an answer as it is kept, without what differs from run to run.
func told(name string, a wire.Answer) string {
	text := anID.ReplaceAllString(a.AgentText, "apr_…")
	text = aShort.ReplaceAllString(aTime.ReplaceAllString(text, "03:27"), "1.0 s")
	return fmt.Sprintf("%s\n\t%s %s, then %s\n\t%s\n", name, a.Verdict, a.Reason, a.Next, text)
}

func TestWhatAgentsAreTold(t *testing.T) {
	t.Parallel()
	answers := make([]string, len(outcomes)+len(troubles))
	t.Run("outcomes", func(t *testing.T) {
		for i, o := range slices.Concat(outcomes, troubles) {
			t.Run(o.name, func(t *testing.T) {
				t.Parallel()
				s := &scene{cfg: rules()}
				s.cfg.ToolGate.Rules = append(s.cfg.ToolGate.Rules,
					gate.RuleConfig{Name: "brief", Match: gate.MatchConfig{Tool: "brief"}, Action: "ask", Mode: "inline", InlineTimeout: &gate.InlineTimeoutConfig{After: "1s", Then: "deny"}},
					gate.RuleConfig{Name: "hasty", Match: gate.MatchConfig{Tool: "hasty"}, Action: "ask", Mode: "inline", RunWithin: "1s"},
				)
				if i < len(outcomes) {
					s.store = memory(t)
				} else {
					s.server = startRedis(t)
					s.store = s.server.open(t)
				}
				s.replica = start(t, s.store, s.cfg)
				a := o.of(t, s)
				if mayRun := slices.Contains(mayRun, o.name); mayRun != (a.Verdict == "allow") {
					t.Errorf("%s: %+v", o.name, a)
				}
				answers[i] = told(o.name, a)
			})
		}
	})
	got, file := strings.Join(answers, "\n"), filepath.Join("testdata", "answers.golden")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("agents are told something else (-want +got); -update takes it:\n%s", diff)
	}
}
