package gate_test

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/approvalbot/approvalbot/gate"
)

// granted lets ann approve a call of scoped_x with a scope.
func granted(b *bundle, scope gate.Scope) *gate.Snapshot {
	b.t.Helper()
	s := b.opened("scoped_x")
	b.decided(scoped("ann", scope)(s))
	return s
}

func TestGrants(t *testing.T) {
	t.Parallel()

	same := func(*gate.Request) {}
	tests := map[string]struct {
		scope gate.Scope
		then  func(*bundle, *gate.Snapshot)
		next  func(*gate.Request)
		holds bool
	}{
		"once persists nothing":               {scope: gate.Once, next: same},
		"session holds in that session":       {scope: gate.Session, next: same, holds: true},
		"also for other arguments on it":      {scope: gate.Session, next: func(r *gate.Request) { r.Call.Args = json.RawMessage(`{"a":1}`) }, holds: true},
		"not on another target":               {scope: gate.Session, next: func(r *gate.Request) { r.Call.Target = "prod/db" }},
		"not for another tool of that rule":   {scope: gate.Session, next: func(r *gate.Request) { r.Call.Tool = "scoped_y" }},
		"not on another server":               {scope: gate.Session, next: func(r *gate.Request) { r.Call.Server = "other" }},
		"not in another session":              {scope: gate.Session, next: func(r *gate.Request) { r.Requester.Session = "s2" }},
		"always holds in later sessions":      {scope: gate.Always, next: func(r *gate.Request) { r.Requester.Session = "s2" }, holds: true},
		"never for another agent of the key":  {scope: gate.Always, next: func(r *gate.Request) { r.Requester.Agent = "other" }},
		"never for another person":            {scope: gate.Always, next: func(r *gate.Request) { r.Requester.Person = "bo" }},
		"never for another key":               {scope: gate.Always, next: func(r *gate.Request) { r.Requester.Key = "ann-agent" }},
		"not after the session's end":         {scope: gate.Session, then: endSession, next: func(r *gate.Request) { r.Requester.Attended = false }},
		"always outlives the session's end":   {scope: gate.Always, then: endSession, next: func(r *gate.Request) { r.Requester.Session = "s2" }, holds: true},
		"not after 30 days":                   {scope: gate.Always, then: func(b *bundle, _ *gate.Snapshot) { b.pass(31 * 24 * time.Hour) }, next: same},
		"not once its approval is taken back": {scope: gate.Always, then: func(b *bundle, s *gate.Snapshot) { b.decided(press(s, "bo", gate.Deny)) }, next: same},
		"not once it is revoked":              {scope: gate.Always, then: revokeGrant, next: same},
		"not once the rule forbids the scope": {scope: gate.Always, then: func(b *bundle, _ *gate.Snapshot) { b.forbidScopes() }, next: same},
		"not once the rule asks for more":     {scope: gate.Always, then: reruled(func(r *gate.RuleConfig) { r.Quorum = &gate.QuorumConfig{Total: 2} }), next: same},
		"not once the rule has another name":  {scope: gate.Always, then: reruled(func(r *gate.RuleConfig) { r.Name = "other" }), next: same},
		"not if somebody hands it to another": {scope: gate.Always, then: func(b *bundle, _ *gate.Snapshot) { b.handGrantsOn() }, next: func(r *gate.Request) { r.Requester.Key = "ann-agent" }},
		"not if somebody edits it in Redis":   {scope: gate.Session, then: func(b *bundle, _ *gate.Snapshot) { b.widenGrants() }, next: func(r *gate.Request) { r.Call.Target = "prod/db" }},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			b := setup(t, world())
			s := granted(b, tt.scope)
			if tt.then != nil {
				tt.then(b, s)
			}
			r := ask("scoped_x")
			tt.next(&r)
			got := b.check(r)
			if tt.holds != (got.Verdict == gate.Allow && got.Reason == gate.RungGrant) {
				t.Errorf("the next call = %s (%s), want a grant to hold: %t", got.Verdict, got.Reason, tt.holds)
			}
			if !tt.holds && got.Verdict != gate.Ask {
				t.Errorf("the next call = %s (%s), want ask", got.Verdict, got.Reason)
			}
		})
	}
}

func endSession(b *bundle, _ *gate.Snapshot) {
	if err := b.EndSession(b.t.Context(), agent("hermes"), "s1"); err != nil {
		b.t.Error(err)
	}
}

func revokeGrant(b *bundle, _ *gate.Snapshot) {
	grants, err := b.Grants(b.t.Context(), person("bo"))
	if err != nil || len(grants) != 1 {
		b.t.Fatalf("Grants = %v, %v; want one", grants, err)
	}
	if err := b.RevokeGrant(b.t.Context(), person("bo"), grants[0].ID); err != nil {
		b.t.Error(err)
	}
}

func (b *bundle) forbidScopes() {
	reruled(func(r *gate.RuleConfig) { r.Scopes = nil })(b, nil)
}

// reruled changes the rule that the grant came of.
func reruled(change func(*gate.RuleConfig)) func(*bundle, *gate.Snapshot) {
	return func(b *bundle, _ *gate.Snapshot) {
		b.t.Helper()
		cfg := world()
		change(&cfg.ToolGate.Rules[7])
		if err := b.SetPolicy(b.t.Context(), policy(b.t, cfg), "test"); err != nil {
			b.t.Error(err)
		}
		b.Beat(b.t.Context(), "replica")
	}
}

// handGrantsOn puts every grant into the set of another requester, by hand.
func (b *bundle) handGrantsOn() {
	r := ask("scoped_x")
	r.Requester.Key = "ann-agent"
	s := b.check(r).Approval
	b.decided(scoped("bo", gate.Session)(s)) // so that it has a set
	var all []string
	for _, key := range b.redis.Keys() {
		if id, is := strings.CutPrefix(key, "approvalbot:{default}:g:"); is {
			all = append(all, id)
		}
	}
	for _, key := range b.redis.Keys() {
		if strings.HasPrefix(key, "approvalbot:{default}:gr:") {
			if _, err := b.redis.SAdd(key, all...); err != nil {
				b.t.Error(err)
			}
		}
	}
	own, err := b.Grants(b.t.Context(), person("bo"))
	if err != nil {
		b.t.Fatal(err)
	}
	for _, g := range own { // its own would cover the call
		if g.Requester.Key == "ann-agent" {
			b.redis.Del("approvalbot:{default}:g:" + g.ID)
		}
	}
}

// widenGrants makes every grant in Redis cover another target, by hand.
func (b *bundle) widenGrants() {
	for _, key := range b.redis.Keys() {
		if strings.HasPrefix(key, "approvalbot:{default}:g:") {
			b.redis.HSet(key, "js", strings.ReplaceAll(b.redis.HGet(key, "js"), "prod/web", "prod/db"))
		}
	}
}

func TestTheNarrowestScopeCounts(t *testing.T) {
	t.Parallel()

	b := setup(t, world())
	s := b.opened("kubectl_scale")
	b.decided(scoped("ann", gate.Always)(s))
	tally := b.decided(scoped("bo", gate.Session)(s))
	if tally.Scope != gate.Session || !tally.Settled {
		t.Errorf("granted %s, settled %t; want session", tally.Scope, tally.Settled)
	}
	s = b.opened("kubectl_delete")
	b.decided(scoped("ann", gate.Always)(s))
	if tally := b.decided(scoped("bo", gate.Once)(s)); tally.Scope != gate.Once {
		t.Errorf("granted %s, want once", tally.Scope)
	}
	s = b.opened("kubectl_patch")
	b.decided(scoped("ann", gate.Once)(s)) // the narrowest need not come last
	if tally := b.decided(scoped("bo", gate.Always)(s)); tally.Scope != gate.Once {
		t.Errorf("granted %s, want once", tally.Scope)
	}
	if grants, err := b.Grants(t.Context(), admin); err != nil || len(grants) != 1 {
		t.Errorf("%d grants, %v; want the one of the session", len(grants), err)
	}
}

func TestAGrantSomebodyEditedIsNotConfirmed(t *testing.T) {
	t.Parallel()

	b := setup(t, world())
	granted(b, gate.Session)
	grants, err := b.Grants(t.Context(), admin)
	if err != nil || len(grants) != 1 {
		t.Fatalf("%d grants, %v; want one", len(grants), err)
	}
	if err := b.ConfirmGrant(t.Context(), admin, grants[0].ID); err != nil {
		t.Error(err)
	}
	b.widenGrants()
	wantRefused(t, b.ConfirmGrant(t.Context(), admin, grants[0].ID), gate.NotFound, gate.ReasonNotFound)
}

func TestTwoRulesGiveTwoGrants(t *testing.T) {
	t.Parallel()

	cfg := world()
	cfg.ToolGate.Rules = []gate.RuleConfig{
		{Name: "prod", Match: gate.MatchConfig{Tool: "scoped_x", When: `has(args.namespace) && args.namespace == "prod"`}, Scopes: []string{"once", "always"}},
		{Name: "else", Match: gate.MatchConfig{Tool: "scoped_x"}, Scopes: []string{"once", "always"}},
	}
	b := setup(t, cfg)
	granted(b, gate.Always)
	dev := ask("scoped_x")
	dev.Call.Args = json.RawMessage(`{"namespace":"dev"}`)
	if got := b.check(dev); got.Verdict != gate.Ask {
		t.Errorf("a call under the other rule = %s (%s), want ask", got.Verdict, got.Reason)
	}
}

func TestWithoutATargetAGrantCoversOnlyThatCall(t *testing.T) {
	t.Parallel()

	b := setup(t, world())
	r := ask("scoped_x")
	r.Call.Target = ""
	s := b.check(r).Approval
	if s.Covers() != "exactly this call" {
		t.Errorf("Covers = %q", s.Covers())
	}
	b.decided(scoped("ann", gate.Always)(s))
	if got := b.check(r); got.Verdict != gate.Allow {
		t.Errorf("the same call = %s, want allow", got.Verdict)
	}
	r.Call.Args = json.RawMessage(`{"namespace":"kube-system"}`)
	if got := b.check(r); got.Verdict != gate.Ask {
		t.Errorf("other arguments = %s, want ask", got.Verdict)
	}
}

func TestSessionEnd(t *testing.T) {
	t.Parallel()

	b := setup(t, world())
	waiting, staged := b.opened("send_email"), b.opened("stage_x")
	inline, later := b.approved("delete_file"), b.approved("stage_y")
	other := ask("send_email")
	other.Requester.Session = "s2"
	elsewhere := b.check(other).Approval

	endSession(b, nil)
	for id, want := range map[gate.ID]gate.State{
		waiting.ID: gate.Cancelled, staged.ID: gate.Pending, inline.ID: gate.Revoked,
		later.ID: gate.Approved, elsewhere.ID: gate.Pending,
	} {
		if got := b.state(id); got != want {
			t.Errorf("%s is %s, want %s", b.get(id).Call.Tool, got, want)
		}
	}
	got, err := b.Check(t.Context(), ask("send_email"))
	if got.Verdict != gate.Block {
		t.Errorf("an inline call in an ended session = %s, %v; want block", got.Verdict, err)
	}

	t.Run("a later session scope becomes once", func(t *testing.T) {
		s := ask("scoped_x")
		s.Requester.Attended = false
		r, err := b.Check(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		tally := b.decided(scoped("ann", gate.Session)(r.Approval))
		if !tally.SessionEnded || tally.Scope != gate.Once {
			t.Errorf("granted %s, told %t; want once, and the approver is told", tally.Scope, tally.SessionEnded)
		}
	})
}

func TestSessionBypass(t *testing.T) {
	t.Parallel()

	b := setup(t, world())
	wantRefused(t, b.SetBypass(t.Context(), agent("hermes"), "hermes", "s1", time.Hour), gate.Forbidden, gate.ReasonGateError)
	wantRefused(t, b.SetBypass(t.Context(), admin, "hermes", "s1", 9*time.Hour), gate.Invalid, gate.ReasonGateError)
	if err := b.SetBypass(t.Context(), admin, "hermes", "s1", time.Hour); err != nil {
		t.Fatal(err)
	}
	if got := b.check(ask("send_email")); got.Verdict != gate.Allow || got.Reason != gate.RungBypass {
		t.Errorf("in the session = %s (%s), want allow, bypass", got.Verdict, got.Reason)
	}
	b.audited(gate.EventAllowed, "set by root")
	floor, _ := b.Check(t.Context(), ask("db.drop_all"))
	if floor.Verdict != gate.Block {
		t.Errorf("the floor = %s, want block", floor.Verdict)
	}
	other := ask("send_email")
	other.Requester.Session = "s2"
	if got := b.check(other); got.Verdict != gate.Ask {
		t.Errorf("in another session = %s, want ask", got.Verdict)
	}
	other.Requester.Session, other.Requester.Key = "s1", "ann-agent"
	if got := b.check(other); got.Verdict != gate.Ask {
		t.Errorf("another key's session of that name = %s, want ask", got.Verdict)
	}
	b.pass(61 * time.Minute)
	if got := b.check(ask("send_email")); got.Verdict != gate.Ask {
		t.Errorf("afterwards = %s, want ask", got.Verdict)
	}

	for name, tamper := range map[string]func(key string){
		"longer in Redis than was said": func(key string) { b.redis.HSet(key, "bu", "99999999999999") },
		"signed longer than was said": func(key string) {
			b.redis.HSet(key, "bu", "99999999999999")
			b.redis.HSet(key, "bj", regexp.MustCompile(`"Until":"[^"]*"`).ReplaceAllString(b.redis.HGet(key, "bj"), `"Until":"2999-01-01T00:00:00Z"`))
		},
	} {
		if err := b.SetBypass(t.Context(), admin, "hermes", "s1", time.Hour); err != nil {
			t.Fatal(err)
		}
		b.pass(61 * time.Minute)
		for _, key := range b.redis.Keys() {
			if strings.HasPrefix(key, "approvalbot:{default}:s:") {
				tamper(key)
			}
		}
		if got := b.check(ask("send_email")); got.Verdict != gate.Ask {
			t.Errorf("%s = %s, want ask", name, got.Verdict)
		}
	}
	if err := b.SetBypass(t.Context(), admin, "hermes", "s1", time.Hour); err != nil {
		t.Fatal(err)
	}
	endSession(b, nil)
	deferred := ask("send_email")
	deferred.Requester.Attended = false
	if got := b.check(deferred); got.Verdict != gate.Ask {
		t.Errorf("after the session's end = %s, want ask", got.Verdict)
	}
}

// TestABypassIsOfOneSession copies one by hand to where it was not given.
func TestABypassIsOfOneSession(t *testing.T) {
	t.Parallel()

	for name, to := range map[string]struct{ key, session string }{
		"another session": {"hermes", "s2"},
		"another API key": {"ann-agent", "s1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			b := setup(t, world())
			hash := func(key, session string) string {
				t.Helper()
				before := b.redis.Keys()
				if err := b.SetBypass(t.Context(), admin, key, session, time.Hour); err != nil {
					t.Fatal(err)
				}
				for _, k := range b.redis.Keys() {
					if strings.HasPrefix(k, "approvalbot:{default}:s:") && !slices.Contains(before, k) {
						return k
					}
				}
				t.Fatal("no session was written")
				return ""
			}
			own, others := hash("hermes", "s1"), hash(to.key, to.session)
			b.redis.HSet(others, "bj", b.redis.HGet(own, "bj"))
			r := ask("send_email")
			r.Requester.Key, r.Requester.Session = to.key, to.session
			if got := b.check(r); got.Verdict != gate.Ask {
				t.Errorf("there it lets pass: %s (%s), want ask", got.Verdict, got.Reason)
			}
		})
	}
}

func TestOthersCannotReadOrList(t *testing.T) {
	t.Parallel()

	b := setup(t, world())
	s := b.opened("send_email")
	_, err := b.Get(t.Context(), agent("ann-agent"), s.ID)
	wantRefused(t, err, gate.Forbidden, gate.ReasonGateError)
	b.audited(gate.EventRefused, "read")
	_, err = b.Grants(t.Context(), agent("hermes"))
	wantRefused(t, err, gate.Forbidden, gate.ReasonGateError)
	wantRefused(t, b.RevokeGrant(t.Context(), agent("hermes"), "grt_1"), gate.Forbidden, gate.ReasonGateError)
	wantRefused(t, b.ConfirmGrant(t.Context(), agent("hermes"), "grt_1"), gate.Forbidden, gate.ReasonGateError)
	_, err = b.List(t.Context(), agent("hermes"), gate.Query{})
	wantRefused(t, err, gate.Forbidden, gate.ReasonGateError)
	b.audited(gate.EventRefused, "list")
	if page, err := b.List(t.Context(), agent("hermes"), gate.Query{Requester: "hermes"}); err != nil || len(page.Rows) != 1 {
		t.Errorf("its own = %d rows, %v; want 1", len(page.Rows), err)
	}
	if v, err := b.Get(t.Context(), person("ann"), s.ID); err != nil || v.Ruling.Token.Set() {
		t.Errorf("an approver reads it with token %t, %v", v.Ruling.Token.Set(), err)
	}
	wantRefused(t, b.Cancel(t.Context(), agent("ann-agent"), s.ID, ""), gate.Forbidden, gate.ReasonGateError)
}

func TestUndeliverableMayDefer(t *testing.T) {
	t.Parallel()

	cfg := world()
	cfg.OnUndeliverable = "defer"
	b := setup(t, cfg)
	s := b.opened("send_email")
	if err := b.Undeliverable(t.Context(), s.ID); err != nil {
		t.Fatal(err)
	}
	if got := b.get(s.ID); got.State != gate.Pending || got.Approval.Mode != gate.Deferred {
		t.Errorf("%s %s, want a pending deferred one", got.State, got.Approval.Mode)
	}
}
