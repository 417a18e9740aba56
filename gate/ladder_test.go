package gate_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/approvalbot/approvalbot/gate"
)

func TestLadder(t *testing.T) {
	t.Parallel()

	with := func(change func(*gate.Request)) func(string) gate.Request {
		return func(tool string) gate.Request { r := ask(tool); change(&r); return r }
	}
	unattended := with(func(r *gate.Request) { r.Requester.Attended = false })
	tests := map[string]struct {
		policy func(*gate.PolicyConfig)
		ask    func(string) gate.Request
		tool   string
		want   gate.Verdict
		reason gate.Reason
	}{
		"a call no rule names passes":                        {nil, ask, "list", gate.Allow, gate.RungUndesignated},
		"an allow rule lets it pass":                         {nil, ask, "read_file", gate.Allow, gate.RungUndesignated},
		"the floor blocks":                                   {nil, ask, "db.drop_table", gate.Block, gate.ReasonFloorDenied},
		"a deny rule blocks":                                 {nil, ask, "format_disk", gate.Block, gate.ReasonRuleDenied},
		"a named tool asks":                                  {nil, ask, "send_email", gate.Ask, gate.RungAsk},
		"a glob asks":                                        {nil, ask, "delete_file", gate.Ask, gate.RungAsk},
		"a glob is case-sensitive":                           {nil, ask, "Delete_file", gate.Allow, gate.RungUndesignated},
		"disabled lets everything pass, the floor too":       {func(p *gate.PolicyConfig) { p.ToolGate.Enabled = new(bool) }, ask, "db.drop_table", gate.Allow, gate.RungDisabled},
		"off lets a designated call pass":                    {func(p *gate.PolicyConfig) { p.Mode = "off" }, ask, "send_email", gate.Allow, gate.RungOff},
		"the floor comes before off":                         {func(p *gate.PolicyConfig) { p.Mode = "off" }, ask, "db.drop_table", gate.Block, gate.ReasonFloorDenied},
		"a deny rule comes before off":                       {func(p *gate.PolicyConfig) { p.Mode = "off" }, ask, "format_disk", gate.Block, gate.ReasonRuleDenied},
		"an undesignated call is never asked for a mode":     {func(p *gate.PolicyConfig) { p.Unattended = "deny" }, unattended, "list", gate.Allow, gate.RungUndesignated},
		"unattended: deny blocks what nobody waits for":      {func(p *gate.PolicyConfig) { p.Unattended = "deny" }, unattended, "send_email", gate.Block, gate.ReasonUnattended},
		"default_action ask holds what nobody named":         {func(p *gate.PolicyConfig) { p.ToolGate.DefaultAction = "ask" }, ask, "list", gate.Ask, gate.RungAsk},
		"default_action deny blocks what nobody named":       {func(p *gate.PolicyConfig) { p.ToolGate.DefaultAction = "deny" }, ask, "list", gate.Block, gate.ReasonRuleDenied},
		"an unattended call is deferred if nothing is said":  {nil, unattended, "send_email", gate.Ask, gate.RungAsk},
		"a number that is not exact is refused, not rounded": {nil, with(func(r *gate.Request) { r.Call.Args = json.RawMessage(`{"id":9007199254740993}`) }), "send_email", gate.Block, gate.ReasonNumberNotExact},
		"duplicate keys are refused when the call is held":   {nil, with(func(r *gate.Request) { r.Call.Args = json.RawMessage(`{"a":1,"a":2}`) }), "send_email", gate.Block, gate.ReasonInvalidArguments},
		"a name with a control character is refused":         {nil, with(func(r *gate.Request) { r.Call.Target = "prod\u0000" }), "list", gate.Block, gate.ReasonInvalidArguments},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			cfg := world()
			if tt.policy != nil {
				tt.policy(cfg)
			}
			b := setup(t, cfg)
			got, _ := b.Check(t.Context(), tt.ask(tt.tool))
			if got.Verdict != tt.want || got.Reason != tt.reason {
				t.Errorf("Check = %s (%s), want %s (%s)", got.Verdict, got.Reason, tt.want, tt.reason)
			}
			if got.Verdict == gate.Block && (got.Text == "" || got.Next != gate.NextStop) {
				t.Errorf("a block says %q, next %s", got.Text, got.Next)
			}
		})
	}
}

func TestNoGateSectionAllowsEverything(t *testing.T) {
	t.Parallel()

	b := setup(t, nil)
	if got := b.check(ask("send_email")); got.Verdict != gate.Allow || got.Reason != gate.RungDisabled {
		t.Errorf("Check = %+v, want allow, disabled", got)
	}
	if n := len(b.log()); n != 0 {
		t.Errorf("%d log entries, want none", n)
	}
}

func TestStoreDown(t *testing.T) {
	t.Parallel()

	b := setup(t, world())
	b.redis.Close()

	if got := b.check(ask("list")); got.Verdict != gate.Allow {
		t.Errorf("an undesignated call = %s, want allow: it needs no store", got.Verdict)
	}
	start := time.Now()
	got, err := b.Check(t.Context(), ask("send_email"))
	if got.Verdict != gate.Block || got.Reason != gate.ReasonStoreUnavailable {
		t.Errorf("a designated call = %s (%s), want block, store_unavailable", got.Verdict, got.Reason)
	}
	wantRefused(t, err, gate.Unavailable, gate.ReasonStoreUnavailable)
	if took := time.Since(start); took > 2*time.Second {
		t.Errorf("the block took %s, want under 2 s", took)
	}
}

func TestOffPassesWhileTheStoreIsAwayAndIsAuditedAfterwards(t *testing.T) {
	t.Parallel()

	cfg := world()
	cfg.Mode = "off"
	b := setup(t, cfg)
	b.redis.SetError("LOADING not yet")
	if got, err := b.Check(t.Context(), ask("send_email")); got.Verdict != gate.Allow || err != nil {
		t.Errorf("Check = %s, %v; want allow", got.Verdict, err)
	}
	b.redis.SetError("")
	b.audited(gate.EventAllowed, "off")
}

func TestIdempotencyKeys(t *testing.T) {
	t.Parallel()

	b := setup(t, world())
	keyed := ask("send_email")
	keyed.Key = "k1"
	first := b.check(keyed)

	t.Run("the same key and call find the same approval", func(t *testing.T) {
		again := b.check(keyed)
		if again.Approval.ID != first.Approval.ID || again.Reason != gate.RungKey {
			t.Errorf("again = %s (%s), want %s (key)", again.Approval.ID, again.Reason, first.Approval.ID)
		}
	})
	t.Run("another call under the same key is refused", func(t *testing.T) {
		other := keyed
		other.Call.Args = json.RawMessage(`{"namespace":"dev"}`)
		got, err := b.Check(t.Context(), other)
		wantRefused(t, err, gate.Conflict, gate.ReasonDigestMismatch)
		if got.Verdict != gate.Block {
			t.Errorf("verdict = %s, want block", got.Verdict)
		}
	})
	t.Run("another API key's key is its own", func(t *testing.T) {
		other := keyed
		other.Requester.Key = "ann-agent"
		if got := b.check(other); got.Approval.ID == first.Approval.ID {
			t.Error("two API keys share an approval")
		}
	})
	t.Run("without a key each check asks anew", func(t *testing.T) {
		if one, two := b.opened("send_email"), b.opened("send_email"); one.ID == two.ID {
			t.Error("two checks share an approval")
		}
	})
	t.Run("join finds the open one of the same session", func(t *testing.T) {
		join := ask("delete_file")
		join.Join = true
		one := b.check(join).Approval.ID
		if two := b.check(join).Approval.ID; one != two {
			t.Errorf("join opened %s beside %s", two, one)
		}
		join.Requester.Session = "s2"
		if other := b.check(join).Approval.ID; other == one {
			t.Error("join crossed sessions")
		}
	})
}

func TestKeyAnswersFromEveryState(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		then func(*bundle, *gate.Snapshot)
		want gate.Verdict
		why  gate.Reason
		next gate.Next
	}{
		"pending: wait":       {func(*bundle, *gate.Snapshot) {}, gate.Ask, gate.RungKey, gate.NextWait},
		"approved: the token": {func(b *bundle, s *gate.Snapshot) { b.decided(press(s, "ann", gate.Approve)) }, gate.Ask, gate.RungKey, gate.NextConsume},
		"denied: final":       {func(b *bundle, s *gate.Snapshot) { b.decided(press(s, "ann", gate.Deny)) }, gate.Block, gate.ReasonDenied, gate.NextStop},
		"question: answer it": {func(b *bundle, s *gate.Snapshot) {
			d := press(s, "ann", gate.NeedContext)
			d.Reason = "why?"
			b.decided(d)
		}, gate.Ask, gate.RungKey, gate.NextAnswer},
		"overdue inline: deferred":   {func(b *bundle, s *gate.Snapshot) { b.pass(16 * time.Minute) }, gate.Ask, gate.RungKey, gate.NextStop},
		"expired: silence is no yes": {func(b *bundle, s *gate.Snapshot) { b.pass(80 * time.Hour) }, gate.Block, gate.ReasonExpired, gate.NextStop},
		"cancelled": {func(b *bundle, s *gate.Snapshot) {
			if err := b.Cancel(b.t.Context(), agent("hermes"), s.ID, ""); err != nil {
				b.t.Error(err)
			}
		}, gate.Block, gate.ReasonCancelled, gate.NextStop},
		"undeliverable is not a denial": {func(b *bundle, s *gate.Snapshot) {
			if err := b.Undeliverable(b.t.Context(), s.ID); err != nil {
				b.t.Error(err)
			}
		}, gate.Block, gate.ReasonUndeliverable, gate.NextStop},
		"lapsed": {func(b *bundle, s *gate.Snapshot) {
			b.decided(press(s, "ann", gate.Approve))
			b.pass(6 * time.Minute)
		}, gate.Block, gate.ReasonLapsed, gate.NextStop},
		"revoked": {func(b *bundle, s *gate.Snapshot) {
			b.decided(press(s, "ann", gate.Approve))
			b.decided(press(s, "bo", gate.Deny))
		}, gate.Block, gate.ReasonRevoked, gate.NextStop},
		"executing: spent": {func(b *bundle, s *gate.Snapshot) {
			b.decided(press(s, "ann", gate.Approve))
			if _, err := b.Consume(b.t.Context(), b.spending(s.ID)); err != nil {
				b.t.Error(err)
			}
		}, gate.Block, gate.ReasonSpent, gate.NextStop},
		"outcome unknown: spent": {func(b *bundle, s *gate.Snapshot) {
			b.decided(press(s, "ann", gate.Approve))
			if _, err := b.Consume(b.t.Context(), b.spending(s.ID)); err != nil {
				b.t.Error(err)
			}
			b.pass(16 * time.Minute)
		}, gate.Block, gate.ReasonSpent, gate.NextStop},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			b := setup(t, world())
			keyed := ask("send_email")
			keyed.Key = "k1"
			s := b.check(keyed).Approval
			tt.then(b, s)
			got := b.check(keyed)
			if got.Verdict != tt.want || got.Reason != tt.why || got.Next != tt.next || got.Approval.ID != s.ID {
				t.Errorf("re-sent key = %s (%s) next %s of %s, want %s (%s) next %s of %s",
					got.Verdict, got.Reason, got.Next, got.Approval.ID, tt.want, tt.why, tt.next, s.ID)
			}
			if (got.Next == gate.NextConsume) != got.Token.Set() {
				t.Errorf("next %s with token %t", got.Next, got.Token.Set())
			}
		})
	}
}

func TestEachVersionOfARuleIsAuditedOnce(t *testing.T) {
	t.Parallel()

	b := setup(t, world())
	b.opened("send_email")
	b.opened("send_email")
	b.audited(gate.EventRuleUsed, `"tool":"send_email"`)
	other := b.on(b.Policy(), b.keys) // another replica, or the next start
	if _, err := other.Check(t.Context(), ask("send_email")); err != nil {
		t.Fatal(err)
	}
	b.opened("delete_file")
	b.audited(gate.EventRuleUsed, `"tool":"delete_*"`)
	n := 0
	for _, e := range b.log() {
		if e.Event == gate.EventRuleUsed {
			n++
		}
	}
	if n != 2 {
		t.Errorf("%d versions of rules in the log, want 2", n)
	}
}
