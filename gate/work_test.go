package gate_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/approvalbot/approvalbot/gate"
	"github.com/approvalbot/approvalbot/gate/secret"
)

// shop is a world in which staged calls are run by the executor ops.
func shop(t *testing.T) *bundle {
	t.Helper()
	b := setup(t, world())
	b.governed(t, shopRules())
	return b
}

func shopRules() *gate.PolicyConfig {
	cfg := world()
	cfg.ToolGate.Rules = append([]gate.RuleConfig{
		{Name: "ops", Match: gate.MatchConfig{Tool: "ops_*"}, Mode: "deferred", Executor: "ops", RetrySafe: true, Redact: []string{"args.password", "args.list"}},
		{Name: "live", Match: gate.MatchConfig{Tool: "live_*"}, Mode: "inline", Executor: "ops"},
	}, cfg.ToolGate.Rules...)
	return cfg
}

// governed puts rules in force that may name the executor ops.
func (b *bundle) governed(t *testing.T, cfg *gate.PolicyConfig) {
	t.Helper()
	p, problems := gate.NewPolicy(cfg,
		gate.ApproversConfig{Default: []string{"sre"}, Groups: map[string]gate.GroupConfig{"sre": {Keys: []string{"ann", "bo"}}}},
		nil, []gate.Principal{person("ann"), person("bo"), agent("hermes")}, nil, gate.Executor{Name: "ops", Resends: true})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	if err := b.SetPolicy(t.Context(), p, "test"); err != nil {
		t.Fatal(err)
	}
	b.Beat(t.Context(), "replica")
}

// staged is an approved call that waits for ops.
func (b *bundle) staged(args string) *gate.Snapshot {
	b.t.Helper()
	r := ask("ops_restart")
	r.Call.Args = json.RawMessage(args)
	s := b.check(r).Approval
	b.decided(press(s, "ann", gate.Approve))
	return s
}

func (b *bundle) claimed(owner string) *gate.Work {
	b.t.Helper()
	w, err := b.Claim(b.t.Context(), "ops", owner, attempt(), time.Minute)
	if err != nil || w == nil {
		b.t.Fatalf("Claim = %v, %v", w, err)
	}
	return w
}

func start(w *gate.Work, owner string) gate.Spending {
	return gate.Spending{Principal: owner, ID: w.ID, Token: w.Token, Attempt: attempt(), Call: w.Call}
}

func TestAStagedCallIsItsExecutorsToRun(t *testing.T) {
	t.Parallel()

	b := shop(t)
	s := b.staged(`{}`)
	v, err := b.Get(t.Context(), agent("hermes"), s.ID)
	if err != nil || v.Ruling.Token.Set() || v.Ruling.Next != gate.NextStop || !strings.Contains(v.Ruling.Text, "approvalbot runs exactly this call") {
		t.Errorf("the opener was answered %+v, %v; want no token", v.Ruling, err)
	}
	w := b.claimed("w1")
	if !w.Retry || w.Digest != s.Digest {
		t.Errorf("claimed %+v", w)
	}
	if got, err := b.Consume(t.Context(), start(w, "hermes")); got.Verdict == gate.Allow || err == nil {
		t.Errorf("the opener consumed with the worker's token: %s, %v", got.Verdict, err)
	}
	if got, err := b.Consume(t.Context(), start(w, "w1")); got.Verdict != gate.Allow {
		t.Errorf("Consume = %s (%s), %v", got.Verdict, got.Reason, err)
	}
}

func TestWhoWaitsRunsTheCallByItself(t *testing.T) {
	t.Parallel()

	b := shop(t)
	c := b.approved("live_restart")
	if w, err := b.Claim(t.Context(), "ops", "w1", attempt(), time.Minute); w != nil || err != nil {
		t.Errorf("a worker claimed it: %v, %v", w, err)
	}
	if got, err := b.Consume(t.Context(), c); got.Verdict != gate.Allow {
		t.Errorf("Consume = %s (%s), %v", got.Verdict, got.Reason, err)
	}
	s := b.opened("live_again")
	b.pass(16 * time.Minute) // nobody waits any more
	b.decided(press(b.get(s.ID), "ann", gate.Approve))
	if w := b.claimed("w1"); w.ID != s.ID {
		t.Errorf("claimed %s, want %s", w.ID, s.ID)
	}
}

func TestLeasesAreFenced(t *testing.T) {
	t.Parallel()

	late := func(b *bundle) (old, fresh *gate.Work) {
		b.staged(`{}`)
		old = b.claimed("w1")
		b.pass(2 * time.Minute)
		return old, b.claimed("w2")
	}
	tests := map[string]struct {
		do  func(b *bundle, old *gate.Work) error
		why gate.Reason
	}{
		"it does not start": {func(b *bundle, old *gate.Work) error {
			_, err := b.Consume(b.t.Context(), start(old, "w1"))
			return err
		}, ""},
		"it does not start under the name of the new holder": {func(b *bundle, old *gate.Work) error {
			_, err := b.Consume(b.t.Context(), start(old, "w2"))
			return err
		}, gate.ReasonFenced},
		"it renews nothing": {func(b *bundle, old *gate.Work) error {
			_, err := b.Renew(b.t.Context(), old, time.Minute, time.Hour)
			return err
		}, gate.ReasonFenced},
		"it gives nothing back": {func(b *bundle, old *gate.Work) error {
			return b.Release(b.t.Context(), old)
		}, gate.ReasonFenced},
		"it is not taken for the holder by name": {func(b *bundle, old *gate.Work) error {
			_, err := b.Held(b.t.Context(), "w2", old.ID, old.Token)
			return err
		}, gate.ReasonFenced},
		"it reports nothing": {func(b *bundle, old *gate.Work) error {
			return b.Report(b.t.Context(), gate.Reporting{Principal: "w2", ID: old.ID, Token: old.Token, Outcome: gate.Executed})
		}, gate.ReasonFenced},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			b := shop(t)
			old, fresh := late(b)
			err := tt.do(b, old)
			if err == nil || tt.why != "" && gate.ReasonOf(err) != tt.why {
				t.Errorf("error = %v (%s), want %s", err, gate.ReasonOf(err), tt.why)
			}
			if got, err := b.Consume(t.Context(), start(fresh, "w2")); got.Verdict != gate.Allow {
				t.Errorf("the holder's Consume = %s, %v", got.Verdict, err)
			}
		})
	}
}

func TestLeasesAreRenewedAndGivenBackByTheirHolder(t *testing.T) {
	t.Parallel()

	b := shop(t)
	b.staged(`{}`)
	w := b.claimed("w1")
	until, err := b.Renew(t.Context(), w, time.Hour, time.Hour)
	if err != nil || !until.After(w.Lease.Until) {
		t.Errorf("Renew = %s, %v; it was %s", until, err, w.Lease.Until)
	}
	forged := secret.New(w.Token.Reveal() + "A")
	if _, err := b.Held(t.Context(), "w1", w.ID, forged); gate.KindOf(err) != gate.Forbidden {
		t.Errorf("a forged token is believed: %v", err)
	}
	if _, err := b.Held(t.Context(), "w2", w.ID, w.Token); gate.ReasonOf(err) != gate.ReasonFenced {
		t.Errorf("another worker holds it: %v", err)
	}
	held, err := b.Held(t.Context(), "w1", w.ID, w.Token)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Release(t.Context(), held); err != nil {
		t.Error(err)
	}
	if again := b.claimed("w2"); again.ID != w.ID || again.Fence != w.Fence+1 {
		t.Errorf("claimed %s with fence %d", again.ID, again.Fence)
	}
}

func TestWhatHasChangedIsNotRun(t *testing.T) {
	t.Parallel()

	tests := map[string]func(*gate.PolicyConfig){
		"another executor": func(c *gate.PolicyConfig) { c.ToolGate.Rules[0].Executor, c.ToolGate.Rules[0].RetrySafe = "", false },
		"a larger quorum":  func(c *gate.PolicyConfig) { c.ToolGate.Rules[0].Quorum = &gate.QuorumConfig{Total: 2} },
		"a floor since":    func(c *gate.PolicyConfig) { c.ToolGate.Deny = []string{"ops_*"} },
		"the rule is gone": func(c *gate.PolicyConfig) { c.ToolGate.Rules = c.ToolGate.Rules[1:] },
		"the rule says deny": func(c *gate.PolicyConfig) {
			c.ToolGate.Rules[0] = gate.RuleConfig{Name: "ops", Match: gate.MatchConfig{Tool: "ops_*"}, Action: "deny"}
		},
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			b := shop(t)
			b.staged(`{}`)
			w := b.claimed("w1")
			cfg := shopRules()
			change(cfg)
			b.governed(t, cfg)
			got, err := b.Consume(t.Context(), start(w, "w1"))
			if got.Verdict == gate.Allow || got.Reason != gate.ReasonPolicyChanged {
				t.Errorf("Consume = %s (%s), %v; want policy_changed", got.Verdict, got.Reason, err)
			}
			if state := b.state(w.ID); state != gate.Revoked {
				t.Errorf("it is %s, want revoked", state)
			}
		})
	}
}

func TestResultsAreBoundedAndCovered(t *testing.T) {
	t.Parallel()

	const args = `{"password":"hunter2 \"x\"","list":[{"a":["sesame"]},12345],"name":"shop"}`
	tests := map[string]struct {
		said    string
		want    []string
		without []string
	}{
		"a secret of the call":              {"logged in with hunter2 \"x\" to shop", []string{"[redacted]", "shop"}, []string{"hunter2"}},
		"a secret as JSON writes it":        {`{"password":"hunter2 \"x\""}`, []string{"[redacted]"}, []string{"hunter2"}},
		"a secret in lists, and a number":   {"sesame 12345 done", []string{"done"}, []string{"sesame", "12345"}},
		"what would hide or reorder itself": {"ok\u202e\x1b[31m", []string{`ok\u202e`}, []string{"\u202e", "\x1b"}},
		"too much":                          {strings.Repeat("x", 3*gate.MaxResult), []string{"more characters"}, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			b := shop(t)
			b.staged(args)
			w := b.claimed("w1")
			c := start(w, "w1")
			if _, err := b.Consume(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			err := b.Report(t.Context(), gate.Reporting{
				Principal: "w1", ID: w.ID, Token: w.Token, Attempt: c.Attempt, Outcome: gate.Executed, Result: tt.said,
			})
			if err != nil {
				t.Fatal(err)
			}
			got := b.get(w.ID)
			for _, want := range tt.want {
				if !strings.Contains(got.Result, want) {
					t.Errorf("result %q lacks %q", got.Result, want)
				}
			}
			for _, secret := range tt.without {
				if strings.Contains(got.Result+got.Note, secret) {
					t.Errorf("result %q, note %q: %q is in it", got.Result, got.Note, secret)
				}
			}
			if n := len([]rune(got.Result)); n > gate.MaxResult {
				t.Errorf("%d characters", n)
			}
		})
	}
}

func TestNothingIsToldWhereTheRuleIsGone(t *testing.T) {
	t.Parallel()

	b := shop(t)
	b.staged(`{"password":"hunter2"}`)
	w := b.claimed("w1")
	c := start(w, "w1")
	if _, err := b.Consume(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	cfg := shopRules()
	cfg.ToolGate.Rules = cfg.ToolGate.Rules[1:]
	b.governed(t, cfg)
	err := b.Report(t.Context(), gate.Reporting{Principal: "w1", ID: w.ID, Token: w.Token, Attempt: c.Attempt, Outcome: gate.Failed, Result: "hunter2 refused"})
	if got := b.get(w.ID); err != nil || got.State != gate.Failed || strings.Contains(got.Result, "hunter2") {
		t.Errorf("%s with %q, %v", got.State, got.Result, err)
	}
}

func TestRunningAgainIsANewQuestion(t *testing.T) {
	t.Parallel()

	unknown := func(t *testing.T) (*bundle, *gate.Work) {
		b := shop(t)
		b.staged(`{}`)
		w := b.claimed("w1")
		if _, err := b.Consume(t.Context(), start(w, "w1")); err != nil {
			t.Fatal(err)
		}
		b.pass(time.Hour)
		return b, w
	}
	t.Run("an approver asks, others decide, it runs once more", func(t *testing.T) {
		t.Parallel()
		b, w := unknown(t)
		id, err := b.Rerun(t.Context(), w.ID, person("bo").Voter("slack"))
		if err != nil {
			t.Fatal(err)
		}
		s := b.get(id)
		if s.State != gate.Pending || !s.Rerun || s.Predecessor != w.ID || s.Executor != "ops" {
			t.Errorf("asked again as %+v", s.Approval)
		}
		if twice, err := b.Rerun(t.Context(), w.ID, person("ann").Voter("slack")); twice != id || err != nil {
			t.Errorf("a second press = %s, %v", twice, err)
		}
		v, err := b.Get(t.Context(), agent("hermes"), w.ID)
		if err != nil || v.ID != id || !strings.HasPrefix(v.Ruling.Text, "OUTCOME UNKNOWN.") || !strings.Contains(v.Ruling.Text, string(id)) {
			t.Errorf("the opener is told %q, %v", v.Ruling.Text, err)
		}
		b.decided(press(s, "ann", gate.Approve))
		again := b.claimed("w2")
		if got, err := b.Consume(t.Context(), start(again, "w2")); got.Verdict != gate.Allow || again.ID != id {
			t.Errorf("Consume = %s, %v", got.Verdict, err)
		}
	})
	t.Run("whoever may not decide may not ask", func(t *testing.T) {
		t.Parallel()
		b, w := unknown(t)
		_, err := b.Rerun(t.Context(), w.ID, gate.Voter{ID: "key:x", Name: "x"})
		if gate.KindOf(err) != gate.Forbidden || b.get(w.ID).Successor != "" {
			t.Errorf("error = %v, want Forbidden", err)
		}
	})
	t.Run("what is known is not asked about", func(t *testing.T) {
		t.Parallel()
		b, w := unknown(t)
		b.get(w.ID)
		if err := b.Settle(t.Context(), w.ID, person("bo").Voter("api"), gate.Executed, ""); err != nil {
			t.Fatal(err)
		}
		_, err := b.Rerun(t.Context(), w.ID, person("bo").Voter("api"))
		wantRefused(t, err, gate.Conflict, gate.ReasonAlreadyDecided)
	})
	t.Run("policy that denies it by now is not asked", func(t *testing.T) {
		t.Parallel()
		b, w := unknown(t)
		cfg := shopRules()
		cfg.ToolGate.Deny = []string{"ops_*"}
		b.governed(t, cfg)
		_, err := b.Rerun(t.Context(), w.ID, person("bo").Voter("api"))
		wantRefused(t, err, gate.Conflict, gate.ReasonPolicyChanged)
	})
}
