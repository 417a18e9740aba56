package gate_test

import (
	"encoding/json"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/approvalbot/approvalbot/gate"
	"github.com/approvalbot/approvalbot/gate/secret"
)

func TestConsume(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		tool   string
		before func(*bundle, *gate.Spending)
		kind   gate.Kind
		why    gate.Reason // empty: allowed
		after  gate.State
	}{
		"the opener's token spends it":           {after: gate.Executing},
		"key order and white space do not count": {before: func(_ *bundle, c *gate.Spending) { c.Call.Args = json.RawMessage(" {\"namespace\" : \"prod\"} ") }, after: gate.Executing},
		"other arguments do not":                 {before: func(_ *bundle, c *gate.Spending) { c.Call.Args = json.RawMessage(`{"namespace":"dev"}`) }, kind: gate.Conflict, why: gate.ReasonDigestMismatch, after: gate.Approved},
		"another tool does not":                  {before: func(_ *bundle, c *gate.Spending) { c.Call.Tool = "send_mail" }, kind: gate.Conflict, why: gate.ReasonDigestMismatch, after: gate.Approved},
		"another target does not":                {before: func(_ *bundle, c *gate.Spending) { c.Call.Target = "prod/db" }, kind: gate.Conflict, why: gate.ReasonDigestMismatch, after: gate.Approved},
		"another agent does not":                 {before: func(_ *bundle, c *gate.Spending) { c.Principal = "ann-agent" }, kind: gate.Forbidden, why: gate.ReasonGateError, after: gate.Approved},
		"a forged token does not": {before: func(_ *bundle, c *gate.Spending) {
			c.Token = secret.New(c.Token.Reveal()[:len(c.Token.Reveal())-4] + "AAAA")
		}, kind: gate.Forbidden, why: gate.ReasonNotFound, after: gate.Approved},
		"rubbish does not":                       {before: func(_ *bundle, c *gate.Spending) { c.Token = secret.New("abt1.x") }, kind: gate.Invalid, why: gate.ReasonNotFound, after: gate.Approved},
		"an attempt id of another form does not": {before: func(_ *bundle, c *gate.Spending) { c.Attempt = "1" }, kind: gate.Invalid, why: gate.ReasonGateError, after: gate.Approved},
		"too late is lapsed":                     {before: func(b *bundle, _ *gate.Spending) { b.pass(6 * time.Minute) }, kind: gate.Conflict, why: gate.ReasonLapsed, after: gate.Lapsed},
		"a staged one may wait a day":            {tool: "stage_x", before: func(b *bundle, _ *gate.Spending) { b.pass(23 * time.Hour) }, after: gate.Executing},
		"a revoked one is revoked":               {before: func(b *bundle, c *gate.Spending) { b.decided(press(b.get(c.ID), "bo", gate.Deny)) }, kind: gate.Conflict, why: gate.ReasonRevoked, after: gate.Revoked},
		"a cancelled one is cancelled":           {before: func(b *bundle, c *gate.Spending) { cancelled(b, b.get(c.ID)) }, kind: gate.Conflict, why: gate.ReasonCancelled, after: gate.Cancelled},
		"a clock that stepped back is doubtful":  {before: func(b *bundle, _ *gate.Spending) { b.pass(-time.Minute) }, kind: gate.Unavailable, why: gate.ReasonClockDoubtful, after: gate.Approved},
		"two seconds back are forgiven":          {before: func(b *bundle, _ *gate.Spending) { b.pass(-time.Second) }, after: gate.Executing},
		"votes that were edited void it": {before: func(b *bundle, c *gate.Spending) {
			b.edit(c.ID, `"choice":"approve"`, `"choice":"approve" `, "ann", "bo")
		}, kind: 0, why: gate.ReasonVoid, after: gate.Void},
		"a vote that was added void it":   {before: func(b *bundle, c *gate.Spending) { b.forge(c.ID) }, kind: 0, why: gate.ReasonVoid, after: gate.Void},
		"votes that were removed void it": {before: func(b *bundle, c *gate.Spending) { b.redis.Del("approvalbot:{default}:v:" + string(c.ID)) }, kind: 0, why: gate.ReasonVoid, after: gate.Void},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			b := setup(t, world())
			if tt.tool == "" {
				tt.tool = "send_email"
			}
			c := b.approved(tt.tool)
			if tt.before != nil {
				tt.before(b, &c)
			}
			got, err := b.Consume(t.Context(), c)
			switch {
			case tt.why == "" && (got.Verdict != gate.Allow || err != nil):
				t.Errorf("Consume = %s (%s), %v; want allow", got.Verdict, got.Reason, err)
			case tt.why != "" && got.Verdict != gate.Block:
				t.Errorf("Consume = %s, want block", got.Verdict)
			case tt.why != "" && tt.kind != 0:
				wantRefused(t, err, tt.kind, tt.why)
			case got.Reason != tt.why && tt.why != "":
				t.Errorf("Consume = %s, want %s", got.Reason, tt.why)
			}
			if s := b.state(c.ID); s != tt.after {
				t.Errorf("state = %s, want %s", s, tt.after)
			}
		})
	}
}

func (b *bundle) get(id gate.ID) *gate.Snapshot {
	b.t.Helper()
	s, err := b.store.Get(b.t.Context(), id)
	if err != nil {
		b.t.Fatal(err)
	}
	return &s
}

// edit changes the votes of an approval by hand, as somebody who can write
// Redis would: it renames the voters.
func (b *bundle) edit(id gate.ID, old, to, from, as string) {
	b.t.Helper()
	key := "approvalbot:{default}:v:" + string(id)
	fields, err := b.redis.HKeys(key)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, f := range fields {
		v := b.redis.HGet(key, f)
		b.redis.HDel(key, f)
		b.redis.HSet(key, strings.ReplaceAll(f, from, as), strings.ReplaceAll(strings.ReplaceAll(v, old, to), from, as))
	}
}

// forge writes a second vote beside the genuine one.
func (b *bundle) forge(id gate.ID) {
	b.t.Helper()
	key := "approvalbot:{default}:v:" + string(id)
	fields, err := b.redis.HKeys(key)
	if err != nil || len(fields) != 1 {
		b.t.Fatal(fields, err)
	}
	b.redis.HSet(key, "person:bo", strings.ReplaceAll(b.redis.HGet(key, fields[0]), "ann", "bo"))
}

func TestHandMadeApprovalCannotBeConsumed(t *testing.T) {
	t.Parallel()

	// Somebody who can write Redis but lacks the server key writes the state
	// and the votes by hand, and guesses what a token looks like.
	b := setup(t, world())
	victim := b.approved("send_email")
	s := b.opened("delete_file")
	row, votes := "approvalbot:{default}:a:"+string(s.ID), "approvalbot:{default}:v:"
	b.redis.HSet(row, "st", "approved", "rb", "99999999999999", "dt", "1")
	fields, _ := b.redis.HKeys(votes + string(victim.ID))
	for _, f := range fields {
		b.redis.HSet(votes+string(s.ID), f, b.redis.HGet(votes+string(victim.ID), f))
	}
	// The opener even gets a token: the server signs what the row says.
	c := b.spending(s.ID)
	got, err := b.Consume(t.Context(), c)
	if got.Verdict != gate.Block || got.Reason != gate.ReasonVoid || err != nil {
		t.Errorf("Consume = %s (%s), %v; want block, void", got.Verdict, got.Reason, err)
	}
	if got.Approval == nil || got.Approval.Successor == "" {
		t.Error("nobody is asked again")
	}
	b.audited(gate.EventSecurity, "quorum")
}

func TestFiftyConsumersOneYes(t *testing.T) {
	t.Parallel()

	b := setup(t, world())
	c := b.approved("send_email")
	var yes, spent atomic.Int32
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			c := c
			c.Attempt = attempt()
			got, err := b.Consume(t.Context(), c)
			switch {
			case got.Verdict == gate.Allow && err == nil:
				yes.Add(1)
			case got.Reason == gate.ReasonSpent:
				spent.Add(1)
			default:
				t.Errorf("Consume = %s (%s), %v", got.Verdict, got.Reason, err)
			}
		})
	}
	wg.Wait()
	if yes.Load() != 1 || spent.Load() != 49 {
		t.Errorf("%d yes, %d spent; want 1 and 49", yes.Load(), spent.Load())
	}
	b.audited(gate.EventSecurity, "spent")
}

func TestTheSameAttemptGetsTheSameYesForAWhile(t *testing.T) {
	t.Parallel()

	b := setup(t, world())
	c := b.approved("send_email")
	for range 3 {
		if got, err := b.Consume(t.Context(), c); got.Verdict != gate.Allow {
			t.Fatalf("Consume = %s (%s), %v; want the same yes", got.Verdict, got.Reason, err)
		}
		b.pass(10 * time.Second)
	}
	b.pass(time.Second)
	_, err := b.Consume(t.Context(), c)
	wantRefused(t, err, gate.Conflict, gate.ReasonSpent)
}

func TestCheckWithATokenConsumes(t *testing.T) {
	t.Parallel()

	b := setup(t, world())
	c := b.approved("stage_x")
	r := ask("stage_x")
	r.Token, r.Attempt = c.Token, c.Attempt
	if got := b.check(r); got.Verdict != gate.Allow || got.Reason != gate.RungToken || got.Next != gate.NextRun {
		t.Errorf("first = %+v, want allow", got)
	}
	r.Attempt = attempt()
	if got := b.check(r); got.Verdict != gate.Block || got.Reason != gate.ReasonSpent {
		t.Errorf("second = %s (%s), want block, spent", got.Verdict, got.Reason)
	}
}

func TestATokenRulesAlone(t *testing.T) {
	t.Parallel()

	b := setup(t, world())
	granted := b.opened("scoped_x")
	b.decided(scoped("ann", gate.Session)(granted))
	if got := b.check(ask("scoped_x")); got.Reason != gate.RungGrant {
		t.Fatalf("the grant does not hold: %+v", got)
	}
	r := ask("scoped_x")
	r.Token, r.Attempt = b.spending(granted.ID).Token, attempt()
	b.check(r)
	r.Attempt = attempt()
	if got := b.check(r); got.Verdict != gate.Block || got.Reason != gate.ReasonSpent {
		t.Errorf("a spent token beside a grant = %s (%s), want block, spent", got.Verdict, got.Reason)
	}
}

func TestPolicyChangedAfterApproval(t *testing.T) {
	t.Parallel()

	tighten := func(b *bundle) {
		b.t.Helper()
		cfg := world()
		cfg.ToolGate.Rules = append([]gate.RuleConfig{{Name: "tight", Match: gate.MatchConfig{Tool: "*"}, Quorum: &gate.QuorumConfig{Total: 2}}}, cfg.ToolGate.Rules...)
		if err := b.SetPolicy(b.t.Context(), policy(b.t, cfg), "test"); err != nil {
			b.t.Fatal(err)
		}
		b.Beat(b.t.Context(), "replica")
	}
	t.Run("an inline one is revoked", func(t *testing.T) {
		t.Parallel()

		b := setup(t, world())
		c := b.approved("send_email")
		tighten(b)
		got, err := b.Consume(t.Context(), c)
		if got.Verdict != gate.Block || got.Reason != gate.ReasonPolicyChanged || err != nil {
			t.Errorf("Consume = %s (%s), %v; want block, policy_changed", got.Verdict, got.Reason, err)
		}
		if s := b.get(c.ID); s.State != gate.Revoked || s.Successor != "" {
			t.Errorf("%s with successor %q, want revoked without", s.State, s.Successor)
		}
	})
	t.Run("a staged one is asked again", func(t *testing.T) {
		t.Parallel()

		b := setup(t, world())
		c := b.approved("stage_x")
		tighten(b)
		got, err := b.Consume(t.Context(), c)
		if got.Verdict != gate.Block || got.Reason != gate.ReasonPolicyChanged || err != nil {
			t.Errorf("Consume = %s (%s), %v; want block, policy_changed", got.Verdict, got.Reason, err)
		}
		s := b.get(c.ID)
		if s.State != gate.Revoked || s.Successor == "" || b.state(s.Successor) != gate.Pending {
			t.Errorf("%s with successor %q, want revoked with a pending one", s.State, s.Successor)
		}
		if !strings.HasPrefix(got.Text, "NOT RUN. Policy changed") || !strings.Contains(got.Text, string(s.Successor)) {
			t.Errorf("the agent hears %q", got.Text)
		}
	})
	t.Run("the floor revokes too", func(t *testing.T) {
		t.Parallel()

		b := setup(t, world())
		c := b.approved("stage_x")
		cfg := world()
		cfg.ToolGate.Deny = []string{"stage_*"}
		if err := b.SetPolicy(t.Context(), policy(t, cfg), "test"); err != nil {
			t.Fatal(err)
		}
		b.Beat(t.Context(), "replica")
		got, _ := b.Consume(t.Context(), c)
		if got.Verdict != gate.Block || b.state(c.ID) != gate.Revoked || b.get(c.ID).Successor != "" {
			t.Errorf("Consume = %s (%s), state %s; want block, revoked, nobody asked again", got.Verdict, got.Reason, b.state(c.ID))
		}
	})
}

func TestReplicasWithDifferentPoliciesConsumeNothing(t *testing.T) {
	t.Parallel()

	b := setup(t, world())
	c := b.approved("send_email")
	other := world()
	other.ToolGate.RequireApproval = append(other.ToolGate.RequireApproval, "more_*")
	p := policy(t, other)
	if _, err := b.store.Heartbeat(t.Context(), "another replica", p.Version()); err != nil {
		t.Fatal(err)
	}
	_, err := b.Consume(t.Context(), c)
	wantRefused(t, err, gate.Unavailable, gate.ReasonPolicyUnavailable)
	if got := b.state(c.ID); got != gate.Approved {
		t.Fatalf("state = %s, want approved: nothing burned", got)
	}
	if _, err := b.store.Heartbeat(t.Context(), "another replica", b.Policy().Version()); err != nil {
		t.Fatal(err)
	}
	if got, err := b.Consume(t.Context(), c); got.Verdict != gate.Allow {
		t.Errorf("after they agree: %s (%s), %v; want allow", got.Verdict, got.Reason, err)
	}
}

func TestKeyRotationWithTokensOut(t *testing.T) {
	t.Parallel()

	b := setup(t, world())
	c := b.approved("send_email")
	rotated := b.on(b.Policy(), newKeyring(t, "n", "k"))
	if got, err := rotated.Consume(t.Context(), c); got.Verdict != gate.Allow {
		t.Errorf("a token of the old key = %s (%s), %v; want allow", got.Verdict, got.Reason, err)
	}
	c = b.approved("send_email")
	gone := b.on(b.Policy(), newKeyring(t, "n"))
	if got, _ := gone.Consume(t.Context(), c); got.Verdict != gate.Block {
		t.Errorf("a token of a key that is gone = %s, want block", got.Verdict)
	}
}

func TestReports(t *testing.T) {
	t.Parallel()

	type world_ struct {
		*bundle
		gate.Spending
	}
	report := func(w world_, attempt string, o gate.State) error {
		return w.Report(w.t.Context(), gate.Reporting{Principal: "hermes", ID: w.ID, Token: w.Token, Attempt: attempt, Outcome: o, Note: "done"})
	}
	tests := map[string]struct {
		noReport bool
		do       func(world_) error
		want     gate.State
		outcome  string
		kind     gate.Kind
	}{
		"done":           {do: func(w world_) error { return report(w, w.Attempt, gate.Executed) }, want: gate.Executed},
		"failed is kept": {do: func(w world_) error { return report(w, w.Attempt, gate.Failed) }, want: gate.Failed},
		"twice the same is once": {do: func(w world_) error {
			_ = report(w, w.Attempt, gate.Executed)
			return report(w, w.Attempt, gate.Executed)
		}, want: gate.Executed},
		"another attempt is not believed":   {do: func(w world_) error { return report(w, attempt(), gate.Executed) }, want: gate.Executing, kind: gate.Conflict},
		"without its attempt it is kept so": {do: func(w world_) error { return report(w, "", gate.Executed) }, want: gate.Executed, outcome: "reported_without_attempt"},
		"a late one settles the unknown":    {do: func(w world_) error { w.pass(time.Hour); return report(w, w.Attempt, gate.Executed) }, want: gate.Executed},
		"no report leaves it unknown":       {do: func(w world_) error { w.pass(16 * time.Minute); return nil }, want: gate.OutcomeUnknown},
		"a person settles the unknown": {do: func(w world_) error {
			w.pass(16 * time.Minute)
			w.get(w.ID)
			return w.Settle(w.t.Context(), w.ID, person("bo").Voter("api"), gate.Failed, "saw it")
		}, want: gate.Failed, outcome: "settled"},
		"a stranger does not": {do: func(w world_) error {
			w.pass(16 * time.Minute)
			return w.Settle(w.t.Context(), w.ID, gate.Voter{ID: "key:x"}, gate.Failed, "")
		}, want: gate.OutcomeUnknown, kind: gate.Forbidden},
		"who cannot report is done in 30 s": {noReport: true, do: func(w world_) error { w.pass(31 * time.Second); return nil }, want: gate.Executed, outcome: "unreported"},
		"a forged token reports nothing": {do: func(w world_) error {
			w.Token = secret.New(w.Token.Reveal() + "A")
			return report(w, w.Attempt, gate.Executed)
		}, want: gate.Executing, kind: gate.Forbidden},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			b := setup(t, world())
			c := b.approved("send_email")
			c.NoReport = tt.noReport
			if got, err := b.Consume(t.Context(), c); got.Verdict != gate.Allow {
				t.Fatal(got, err)
			}
			err := tt.do(world_{b, c})
			if (err != nil) != (tt.kind != 0) || err != nil && gate.KindOf(err) != tt.kind {
				t.Errorf("error = %v, want kind %v", err, tt.kind)
			}
			if s := b.get(c.ID); s.State != tt.want || s.Outcome != tt.outcome {
				t.Errorf("state = %s (%s), want %s (%s)", s.State, s.Outcome, tt.want, tt.outcome)
			}
		})
	}
}

func TestLateReportAfterAFailOver(t *testing.T) {
	t.Parallel()

	// The consume was lost with the old primary; here the approval became void
	// and people are asked again. Then the agent reports that it ran.
	b := setup(t, world())
	c := b.approved("stage_x")
	b.redis.Del("approvalbot:{default}:v:" + string(c.ID))
	got, err := b.Consume(t.Context(), c)
	if err != nil || got.Approval.Successor == "" {
		t.Fatalf("Consume = %+v, %v; want a successor", got, err)
	}
	next := got.Approval.Successor
	err = b.Report(t.Context(), gate.Reporting{Principal: "hermes", ID: c.ID, Token: c.Token, Attempt: c.Attempt, Outcome: gate.Executed})
	if err != nil {
		t.Errorf("Report = %v, want it recorded", err)
	}
	if got := b.state(next); got != gate.Cancelled {
		t.Errorf("the successor is %s, want cancelled: it must not run a second time", got)
	}
	b.audited(gate.EventSecurity, "reported executed but void")
}

func TestAStagedCallAndAGrantThatAppearsLater(t *testing.T) {
	t.Parallel()

	b := setup(t, world())
	r := ask("scoped_x")
	r.Key, r.Mode = "k1", gate.Deferred
	staged := b.check(r)
	granted(b, gate.Session)
	if got := b.check(r); got.Verdict != gate.Ask || got.Approval.ID != staged.Approval.ID {
		t.Errorf("the same key = %s (%s), want still ask about %s", got.Verdict, got.Reason, staged.Approval.ID)
	}
	b.decided(press(staged.Approval, "bo", gate.Approve))
	if got, err := b.Consume(t.Context(), b.spending(staged.Approval.ID)); got.Verdict != gate.Allow {
		t.Errorf("Consume = %s (%s), %v; want allow: rungs of grants are not run again", got.Verdict, got.Reason, err)
	}
	r.Key = "k2"
	if got := b.check(r); got.Reason != gate.RungGrant {
		t.Errorf("a new key = %s (%s), want the grant", got.Verdict, got.Reason)
	}
}

func TestAnOverdueInlineQuestionAndItsWaiterComingBack(t *testing.T) {
	t.Parallel()

	b := setup(t, world())
	s := b.opened("send_email")
	b.pass(20 * time.Minute)
	v, err := b.Get(t.Context(), agent("hermes"), s.ID)
	if err != nil || v.State != gate.Pending || v.Approval.Mode != gate.Deferred || v.Ruling.Next != gate.NextStop {
		t.Errorf("Get = %s %s, next %s, %v; want a pending staged one", v.State, v.Approval.Mode, v.Ruling.Next, err)
	}
	if want := s.InlineUntil.Add(72 * time.Hour); !v.Expires.Equal(want) {
		t.Errorf("it expires %s, want %s", v.Expires, want)
	}
	b.decided(press(s, "ann", gate.Approve))
	if got, err := b.Consume(t.Context(), b.spending(s.ID)); got.Verdict != gate.Allow {
		t.Errorf("the waiter comes back: %s (%s), %v; want allow", got.Verdict, got.Reason, err)
	}
}

func TestRevokeRacingConsume(t *testing.T) {
	t.Parallel()

	for range 20 {
		b := setup(t, world())
		c := b.approved("send_email")
		deny := press(b.get(c.ID), "bo", gate.Deny)
		var allowed, revoked bool
		var wg sync.WaitGroup
		wg.Go(func() { got, _ := b.Consume(t.Context(), c); allowed = got.Verdict == gate.Allow })
		wg.Go(func() { _, err := b.Decide(t.Context(), deny); revoked = err == nil })
		wg.Wait()
		if allowed == revoked {
			t.Fatalf("dispatched %t, revoked %t; want exactly one", allowed, revoked)
		}
	}
}

func TestSessionEndRacingDecide(t *testing.T) {
	t.Parallel()

	for range 20 {
		b := setup(t, world())
		s := b.opened("send_email")
		var wg sync.WaitGroup
		wg.Go(func() { endSession(b, nil) })
		wg.Go(func() { _, _ = b.Decide(t.Context(), press(s, "ann", gate.Approve)) })
		wg.Wait()
		if got := b.state(s.ID); got != gate.Cancelled && got != gate.Revoked {
			t.Fatalf("state = %s, want cancelled or revoked: nothing of an ended session runs inline", got)
		}
	}
}
