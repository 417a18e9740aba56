package gate_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/approvalbot/approvalbot/gate"
)

func TestDecide(t *testing.T) {
	t.Parallel()

	stranger := gate.Voter{ID: "key:mallory", Name: "mallory", Person: "mallory", Surface: "api"}
	tests := map[string]struct {
		tool        string
		as          string // API key of the requester, hermes if empty
		person      string // asserted
		sessionless bool
		before      func(*bundle, *gate.Snapshot)
		press       func(*gate.Snapshot) gate.Decision
		want        gate.State
		kind        gate.Kind // of the refusal
		why         gate.Reason
	}{
		"one approval of one approves":          {tool: "send_email", press: by("ann", gate.Approve), want: gate.Approved},
		"one approval of two waits":             {tool: "kubectl_delete", press: by("ann", gate.Approve), want: gate.Pending},
		"the second person completes a two":     {tool: "kubectl_delete", before: annPressed(gate.Approve), press: by("bo", gate.Approve), want: gate.Approved},
		"the same person does not":              {tool: "kubectl_delete", before: annPressed(gate.Approve), press: by("ann", gate.Approve), want: gate.Pending, kind: gate.Conflict, why: gate.ReasonAlreadyDecided},
		"a deny vetoes after an approval":       {tool: "kubectl_delete", before: annPressed(gate.Approve), press: by("bo", gate.Deny), want: gate.Denied},
		"one may veto one's own approval":       {tool: "kubectl_delete", before: annPressed(gate.Approve), press: by("ann", gate.Deny), want: gate.Denied},
		"a late deny takes it back":             {tool: "send_email", before: annPressed(gate.Approve), press: by("bo", gate.Deny), want: gate.Revoked},
		"a denial is final":                     {tool: "send_email", before: annPressed(gate.Deny), press: by("bo", gate.Approve), want: gate.Denied, kind: gate.Conflict, why: gate.ReasonAlreadyDecided},
		"a late approval is told who won":       {tool: "send_email", before: annPressed(gate.Approve), press: by("bo", gate.Approve), want: gate.Approved, kind: gate.Conflict, why: gate.ReasonAlreadyDecided},
		"a stranger may not":                    {tool: "send_email", press: func(s *gate.Snapshot) gate.Decision { d := press(s, "ann", gate.Approve); d.Voter = stranger; return d }, want: gate.Pending, kind: gate.Forbidden, why: gate.ReasonNotApprover},
		"the person behind the key may not":     {tool: "send_email", as: "ann-agent", press: by("ann", gate.Approve), want: gate.Pending, kind: gate.Forbidden, why: gate.ReasonSelfApproval},
		"the person the agent acts for may not": {tool: "send_email", person: "ann", press: by("ann", gate.Approve), want: gate.Pending, kind: gate.Forbidden, why: gate.ReasonSelfApproval},
		"the key that asked may not": {tool: "send_email", press: func(s *gate.Snapshot) gate.Decision {
			d := press(s, "ann", gate.Approve)
			d.Voter = gate.Voter{ID: "key:hermes", Name: "hermes", Surface: "api"}
			return d
		}, want: gate.Pending, kind: gate.Forbidden, why: gate.ReasonSelfApproval},
		"another person than it acts for may": {tool: "send_email", person: "ann", press: by("bo", gate.Approve), want: gate.Approved},
		"who cannot be told from an earlier voter": {tool: "kubectl_delete", before: annPressed(gate.Approve), press: func(s *gate.Snapshot) gate.Decision {
			d := press(s, "bo", gate.Approve)
			d.Voter = gate.Voter{ID: "slack:T1/U1", Name: "bo", Surface: "slack"}
			return d
		}, want: gate.Pending, kind: gate.Forbidden, why: gate.ReasonIdentityUnclear},
		"a session scope needs a session":            {tool: "scoped_x", sessionless: true, press: scoped("ann", gate.Session), want: gate.Pending, kind: gate.Forbidden, why: gate.ReasonScopeNotAllowed},
		"a vote that was written by hand is no vote": {tool: "kubectl_delete", before: forgedVote, press: by("ann", gate.Approve), want: gate.Pending},
		"unless the rule admits the requester":       {tool: "own_call", person: "ann", press: by("ann", gate.Approve), want: gate.Approved},
		"a key nobody can name may be the asker": {tool: "send_email", person: "ann", press: func(s *gate.Snapshot) gate.Decision {
			d := press(s, "bo", gate.Approve)
			d.Voter = gate.Voter{ID: "key:unlisted"}
			return d
		}, want: gate.Pending, kind: gate.Forbidden, why: gate.ReasonIdentityUnclear},
		"another call on the screen does not count": {tool: "send_email", press: func(s *gate.Snapshot) gate.Decision { d := press(s, "ann", gate.Approve); d.Digest[0]++; return d }, want: gate.Pending, kind: gate.Conflict, why: gate.ReasonDigestMismatch},
		"a question about another call is refused": {tool: "send_email", press: func(s *gate.Snapshot) gate.Decision {
			d := press(s, "ann", gate.NeedContext)
			d.Reason, d.Digest[0] = "why?", d.Digest[0]+1
			return d
		}, want: gate.Pending, kind: gate.Conflict, why: gate.ReasonDigestMismatch},
		"a scope the rule forbids is refused":         {tool: "send_email", press: scoped("ann", gate.Always), want: gate.Pending, kind: gate.Forbidden, why: gate.ReasonScopeNotAllowed},
		"a rule may want a reason with a denial":      {tool: "why_me", press: by("ann", gate.Deny), want: gate.Pending, kind: gate.Invalid, why: gate.ReasonReasonRequired},
		"a click after expiry is refused":             {tool: "stage_x", before: waited(73 * time.Hour), press: by("ann", gate.Approve), want: gate.Expired, kind: gate.Conflict, why: gate.ReasonAlreadyDecided},
		"an overdue inline one is still decidable":    {tool: "send_email", before: waited(16 * time.Minute), press: by("ann", gate.Approve), want: gate.Approved},
		"unless its rule says deny: then it expired":  {tool: "quick_x", before: waited(2 * time.Minute), press: by("ann", gate.Approve), want: gate.Expired, kind: gate.Conflict, why: gate.ReasonAlreadyDecided},
		"no choice is no vote":                        {tool: "send_email", press: by("ann", ""), want: gate.Pending, kind: gate.Invalid, why: gate.ReasonGateError},
		"an empty question asks nothing":              {tool: "send_email", press: by("ann", gate.NeedContext), want: gate.Pending, kind: gate.Invalid, why: gate.ReasonReasonRequired},
		"one approve, one deny, then time: denied":    {tool: "kubectl_x", before: annPressed(gate.Approve), press: by("bo", gate.Deny), want: gate.Denied},
		"a cancelled one cannot be approved any more": {tool: "send_email", before: cancelled, press: by("ann", gate.Approve), want: gate.Cancelled, kind: gate.Conflict, why: gate.ReasonAlreadyDecided},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			b := setup(t, world())
			r := ask(tt.tool)
			if tt.as != "" {
				r.Requester.Key = tt.as
			}
			r.Requester.Person = tt.person
			if tt.sessionless {
				r.Requester.Session = ""
			}
			s := b.check(r).Approval
			if tt.before != nil {
				tt.before(b, s)
			}
			_, err := b.Decide(t.Context(), tt.press(s))
			if tt.why == "" && err != nil {
				t.Errorf("Decide = %v, want no refusal", err)
			}
			if tt.why != "" {
				wantRefused(t, err, tt.kind, tt.why)
				b.audited(gate.EventRefused, string(tt.why))
			}
			if got := b.state(s.ID); got != tt.want {
				t.Errorf("state = %s, want %s", got, tt.want)
			}
		})
	}
}

func by(who string, c gate.Choice) func(*gate.Snapshot) gate.Decision {
	return func(s *gate.Snapshot) gate.Decision { return press(s, who, c) }
}

func scoped(who string, scope gate.Scope) func(*gate.Snapshot) gate.Decision {
	return func(s *gate.Snapshot) gate.Decision {
		d := press(s, who, gate.Approve)
		d.Scope = scope
		return d
	}
}

func annPressed(c gate.Choice) func(*bundle, *gate.Snapshot) {
	return func(b *bundle, s *gate.Snapshot) { b.t.Helper(); b.decided(press(s, "ann", c)) }
}

// forgedVote takes what bo said to another call for an approval of this one.
func forgedVote(b *bundle, s *gate.Snapshot) {
	b.t.Helper()
	other := b.opened("kubectl_scale")
	b.decided(press(other, "bo", gate.Approve))
	votes := "approvalbot:{default}:v:"
	b.redis.HSet(votes+string(s.ID), "person:bo", b.redis.HGet(votes+string(other.ID), "person:bo"))
	if n := len(b.get(s.ID).Votes); n != 1 {
		b.t.Fatalf("%d votes lie there, want the forged one", n)
	}
}

func TestProgressCountsOnlyVotesThatAreSigned(t *testing.T) {
	t.Parallel()

	b := setup(t, world())
	s := b.opened("kubectl_delete")
	forgedVote(b, s)
	v, err := b.Get(t.Context(), person("ann"), s.ID)
	if err != nil || v.Progress.Have != 0 || v.Progress.Need != 2 {
		t.Errorf("progress %+v, %v; want none of two", v.Progress, err)
	}
	b.decided(press(s, "ann", gate.Approve))
	if v, err = b.Get(t.Context(), agent("hermes"), s.ID); err != nil || v.Progress.Have != 1 {
		t.Errorf("progress %+v, %v; want one of two", v.Progress, err)
	}
}

func waited(d time.Duration) func(*bundle, *gate.Snapshot) {
	return func(b *bundle, _ *gate.Snapshot) { b.pass(d) }
}

func cancelled(b *bundle, s *gate.Snapshot) {
	if err := b.Cancel(b.t.Context(), agent("hermes"), s.ID, ""); err != nil {
		b.t.Error(err)
	}
}

func TestTheSamePressCountsOnce(t *testing.T) {
	t.Parallel()

	b := setup(t, world())
	s := b.opened("kubectl_delete")
	d := press(s, "ann", gate.Approve)
	first, second := b.decided(d), b.decided(d)
	if got := first.Progress.String(); got != "1 of 2 (sre)" || second.Progress.String() != got {
		t.Errorf("waiting for %s, then %s; want 1 of 2 (sre) twice", first.Progress, second.Progress)
	}
	if n := len(second.Approval.Votes); n != 1 {
		t.Errorf("%d votes, want 1", n)
	}
}

func TestThePressThatSettledItMayComeAgain(t *testing.T) {
	t.Parallel()

	b := setup(t, world())
	s := b.opened("send_email")
	d := press(s, "ann", gate.Approve)
	for range 2 {
		if tally := b.decided(d); !tally.Settled || tally.Approval.State != gate.Approved {
			t.Errorf("told %s, settled %t; want approved twice", tally.Approval.State, tally.Settled)
		}
	}
	other := d
	other.Choice = gate.Deny // the same nonce, but another button
	if tally := b.decided(other); tally.Approval.State != gate.Revoked {
		t.Errorf("state = %s, want revoked", tally.Approval.State)
	}
}

func TestAPressThatWasTakenBackIsToldSo(t *testing.T) {
	t.Parallel()

	b := setup(t, world())
	s := b.opened("send_email")
	d := press(s, "ann", gate.Approve)
	b.decided(d)
	if _, err := b.Revoke(t.Context(), s.ID, d.Voter, "wrong cluster"); err != nil {
		t.Fatal(err)
	}
	_, err := b.Decide(t.Context(), d)
	wantRefused(t, err, gate.Conflict, gate.ReasonAlreadyDecided)
	if got := b.state(s.ID); got != gate.Revoked {
		t.Errorf("state = %s, want revoked", got)
	}
}

func TestPressesWithoutANonceAreNotTheSame(t *testing.T) {
	t.Parallel()

	b := setup(t, world())
	s := b.opened("kubectl_delete")
	d := press(s, "ann", gate.Approve)
	d.Nonce = ""
	b.decided(d)
	_, err := b.Decide(t.Context(), d)
	wantRefused(t, err, gate.Conflict, gate.ReasonAlreadyDecided)
}

func TestTwoPressesAtOnceSettleOnce(t *testing.T) {
	t.Parallel()

	for range 20 {
		b := setup(t, world())
		s := b.opened("send_email")
		var wg sync.WaitGroup
		var won atomic.Int32
		for _, d := range []gate.Decision{press(s, "ann", gate.Approve), press(s, "bo", gate.Approve), press(s, "cy", gate.Approve)} {
			wg.Go(func() {
				_, err := b.Decide(t.Context(), d)
				switch {
				case err == nil:
					won.Add(1)
				case !errors.Is(err, gate.Conflict) || !strings.Contains(gate.PublicText(err), "already approved this at"):
					t.Errorf("a loser got %v", err)
				}
			})
		}
		wg.Wait()
		if won.Load() != 1 {
			t.Fatalf("%d presses settled it, want 1", won.Load())
		}
	}
}

func TestQuestions(t *testing.T) {
	t.Parallel()

	b := setup(t, world())
	s := b.opened("send_email")
	question := press(s, "ann", gate.NeedContext)
	question.Reason = "which\ncluster?"
	b.decided(question)

	v, err := b.Get(t.Context(), agent("hermes"), s.ID)
	if err != nil || v.Ruling.Next != gate.NextAnswer || !strings.Contains(v.Ruling.Text, "which cluster?") {
		t.Errorf("Get = next %s %q, %v; want answer with the question on one line", v.Ruling.Next, v.Ruling.Text, err)
	}
	if !v.Expires.Equal(s.Expires) {
		t.Error("a question moved the deadline")
	}
	wantRefused(t, b.Answer(t.Context(), agent("ann-agent"), s.ID, "prod"), gate.Forbidden, gate.ReasonGateError)
	if err := b.Answer(t.Context(), agent("hermes"), s.ID, "prod"); err != nil {
		t.Error(err)
	}
	wantRefused(t, b.Answer(t.Context(), agent("hermes"), s.ID, "again"), gate.Conflict, gate.ReasonAlreadyDecided)

	for range 4 {
		question.Nonce = attempt()
		b.decided(question)
		if err := b.Answer(t.Context(), agent("hermes"), s.ID, "prod"); err != nil {
			t.Error(err)
		}
	}
	question.Nonce = attempt()
	_, err = b.Decide(t.Context(), question)
	wantRefused(t, err, gate.TooMany, gate.ReasonTooManyQuestions)
	b.decided(press(s, "bo", gate.Approve))
}

func TestDenyReasonReachesTheAgent(t *testing.T) {
	t.Parallel()

	b := setup(t, world())
	s := b.opened("send_email")
	d := press(s, "ann", gate.Deny)
	d.Reason = "wrong cluster\u202e, use staging"
	b.decided(d)
	v, err := b.Get(t.Context(), agent("hermes"), s.ID)
	if err != nil || !strings.HasSuffix(v.Ruling.Text, `"wrong cluster, use staging"`) {
		t.Errorf("the agent hears %q, %v", v.Ruling.Text, err)
	}
}

// tightens wants two for mail from now on, under a rule of its own.
func (b *bundle) tightens() {
	b.t.Helper()
	tight := world()
	tight.ToolGate.Rules = append([]gate.RuleConfig{{Name: "mail", Match: gate.MatchConfig{Tool: "send_*"}, Quorum: &gate.QuorumConfig{Total: 2}}}, tight.ToolGate.Rules...)
	if err := b.SetPolicy(b.t.Context(), policy(b.t, tight), "test"); err != nil {
		b.t.Fatal(err)
	}
	b.Beat(b.t.Context(), "replica")
}

func TestPolicyTightenedWhilePending(t *testing.T) {
	t.Parallel()

	b := setup(t, world())
	s := b.opened("send_email")
	b.tightens()

	_, err := b.Decide(t.Context(), press(s, "ann", gate.Approve))
	wantRefused(t, err, gate.Conflict, gate.ReasonPolicyChanged)
	v, err := b.Get(t.Context(), agent("hermes"), s.ID)
	if err != nil || v.Predecessor != s.ID || v.State != gate.Pending || v.Subject.Rule != "mail" {
		t.Errorf("the opener follows to %s of rule %s in %s, %v; want a pending successor under mail", v.ID, v.Subject.Rule, v.State, err)
	}
	if got := b.state(s.ID); got != gate.Void {
		t.Errorf("state = %s, want void", got)
	}
	_, err = b.Decide(t.Context(), press(s, "ann", gate.Approve))
	wantRefused(t, err, gate.Conflict, gate.ReasonVoid)
	if text := gate.PublicText(err); !strings.Contains(text, string(v.ID)) {
		t.Errorf("the next press is told %q, which does not name %s", text, v.ID)
	}
}

func TestNothingIsAskedAgainWhileReplicasDisagree(t *testing.T) {
	t.Parallel()

	b := setup(t, world())
	s := b.opened("send_email")
	if _, err := b.store.Heartbeat(t.Context(), "another replica", b.Policy().Version()); err != nil {
		t.Fatal(err)
	}
	b.tightens()
	_, err := b.Decide(t.Context(), press(s, "ann", gate.Approve))
	wantRefused(t, err, gate.Unavailable, gate.ReasonPolicyUnavailable)
	if got := b.state(s.ID); got != gate.Pending {
		t.Errorf("state = %s, want pending", got)
	}
}

// TestWhatAnApprovalRestsOn changes one thing between the question and the
// decision: either it ends the question, or it does not touch it.
func TestWhatAnApprovalRestsOn(t *testing.T) {
	t.Parallel()

	rule := func(b *gate.PolicyConfig, name string) *gate.RuleConfig {
		i := slices.IndexFunc(b.ToolGate.Rules, func(r gate.RuleConfig) bool { return r.Name == name })
		return &b.ToolGate.Rules[i]
	}
	first := func(r gate.RuleConfig) func(*gate.PolicyConfig) {
		return func(p *gate.PolicyConfig) { p.ToolGate.Rules = slices.Insert(p.ToolGate.Rules, 0, r) }
	}
	in := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	for name, tt := range map[string]struct {
		always func(*gate.PolicyConfig) // in force from the beginning
		then   func(*gate.PolicyConfig)
		alone  bool // nobody waits for the call
		ends   bool
		again  bool // people are asked again under what is in force now
	}{
		"nothing":               {then: func(*gate.PolicyConfig) {}},
		"how long it waits":     {then: func(p *gate.PolicyConfig) { rule(p, "staged").ExpiresIn = "1h" }},
		"how many must say yes": {then: func(p *gate.PolicyConfig) { rule(p, "staged").Quorum = &gate.QuorumConfig{Total: 2} }, ends: true, again: true},
		"the name of its rule":  {then: func(p *gate.PolicyConfig) { rule(p, "staged").Name = "later" }, ends: true, again: true},
		"whether it is asked at all": {then: func(p *gate.PolicyConfig) {
			*rule(p, "staged") = gate.RuleConfig{Name: "staged", Match: gate.MatchConfig{Tool: "stage_*"}, Action: "allow"}
		}, ends: true},
		"a rule before it denies":             {then: first(gate.RuleConfig{Name: "no", Match: gate.MatchConfig{Tool: "stage_*"}, Action: "deny"}), ends: true},
		"the floor":                           {then: func(p *gate.PolicyConfig) { p.ToolGate.Deny = append(p.ToolGate.Deny, "stage_*") }, ends: true},
		"a deny rule whose time has come":     {always: first(gate.RuleConfig{Name: "no", Match: gate.MatchConfig{Tool: "stage_*", When: "now > timestamp('" + in + "')"}, Action: "deny"}), ends: true},
		"an ask rule whose time is over":      {always: first(gate.RuleConfig{Name: "day", Match: gate.MatchConfig{Tool: "stage_*", When: "now < timestamp('" + in + "')"}, Mode: "deferred"})},
		"calls that nobody waits for may ask": {then: func(p *gate.PolicyConfig) { p.Unattended = "deny" }, alone: true, ends: true},
		"but this one is waited for":          {then: func(p *gate.PolicyConfig) { p.Unattended = "deny" }},
		"a process that gates nothing at all": {then: func(p *gate.PolicyConfig) { p.ToolGate.Enabled = new(bool) }, ends: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			before, after := world(), world()
			if tt.always != nil {
				tt.always(before)
				tt.always(after)
			}
			if tt.then != nil {
				tt.then(after)
			}
			b := setup(t, before)
			r := ask("stage_x")
			r.Requester.Attended = !tt.alone
			s := b.check(r).Approval
			b.pass(2 * time.Hour)
			b.Gate = b.on(policy(t, after), b.keys) // restarted
			_, err := b.Decide(t.Context(), press(s, "ann", gate.Approve))
			if again := b.get(s.ID).Successor != ""; again != tt.again {
				t.Errorf("people are asked again: %t, want %t", again, tt.again)
			}
			if tt.ends {
				wantRefused(t, err, gate.Conflict, gate.ReasonPolicyChanged)
			} else if err != nil {
				t.Errorf("Decide = %v, want no refusal", err)
			}
		})
	}
}

func TestArgumentsOfARuleThatIsGoneAreCovered(t *testing.T) {
	t.Parallel()

	b := setup(t, world())
	s := b.opened("stage_x")
	if args, covered := b.Shown(s); covered || string(args) != `{"namespace":"prod"}` {
		t.Errorf("shown %s, covered %t; want all of it", args, covered)
	}
	gone := world()
	gone.ToolGate.Rules = slices.DeleteFunc(gone.ToolGate.Rules, func(r gate.RuleConfig) bool { return r.Name == "staged" })
	if args, covered := b.on(policy(t, gone), b.keys).Shown(s); !covered || strings.Contains(string(args), "prod") {
		t.Errorf("shown %s, covered %t; want nobody to see what the rule may have covered", args, covered)
	}
}

func TestCommentEditVoidsNothing(t *testing.T) {
	t.Parallel()

	b := setup(t, world())
	s := b.opened("send_email")
	same := world()
	same.ToolGate.Rules = append(same.ToolGate.Rules, gate.RuleConfig{Name: "later", Match: gate.MatchConfig{Tool: "other_*"}})
	if err := b.SetPolicy(t.Context(), policy(t, same), "test"); err != nil {
		t.Fatal(err)
	}
	b.decided(press(s, "ann", gate.Approve))
}

func TestReloadCannotTurnTheGateOff(t *testing.T) {
	t.Parallel()

	b := setup(t, world())
	off, disabled := world(), world()
	off.Mode = "off"
	disabled.ToolGate.Enabled = new(bool)
	for _, cfg := range []*gate.PolicyConfig{off, disabled, nil} {
		if err := b.SetPolicy(t.Context(), policy(t, cfg), "test"); err == nil {
			t.Error("a reload turned the gate off")
		}
	}
	if got := b.check(ask("send_email")); got.Verdict != gate.Ask {
		t.Errorf("Check = %s, want ask: the old policy stays", got.Verdict)
	}
}

func TestProposalsAuthoriseNothing(t *testing.T) {
	t.Parallel()

	b := setup(t, world())
	everything := world()
	everything.ToolGate.RequireApproval = []string{"*"}
	g := b.on(policy(t, everything), b.keys)
	r, err := g.Propose(t.Context(), ask("send_email"))
	if err != nil || r.Verdict != gate.Ask || !r.Approval.Discretionary {
		t.Fatalf("Propose = %+v, %v", r, err)
	}
	_, err = b.Decide(t.Context(), scoped("ann", gate.Always)(r.Approval))
	wantRefused(t, err, gate.Forbidden, gate.ReasonScopeNotAllowed)
	b.decided(press(r.Approval, "ann", gate.Approve))
	v, err := b.Get(t.Context(), agent("hermes"), r.Approval.ID)
	if err != nil || v.Ruling.Token.Set() || v.Ruling.Next != gate.NextStop || v.State != gate.Approved {
		t.Errorf("after approval: next %s, token %t, %s, %v; want stop without a token", v.Ruling.Next, v.Ruling.Token.Set(), v.State, err)
	}
	if got := b.check(ask("send_email")); got.Verdict != gate.Ask {
		t.Errorf("the call itself = %s, want ask", got.Verdict)
	}
}

// failOver makes an approval one of another life of the store.
func (b *bundle) failOver(id gate.ID) {
	b.redis.HSet("approvalbot:{default}:a:"+string(id), "ep", "another")
}

func TestWhoIsAskedAgainAfterAFailOver(t *testing.T) {
	t.Parallel()

	t.Run("a held call", func(t *testing.T) {
		t.Parallel()
		b := setup(t, world())
		s := b.opened("send_email")
		b.failOver(s.ID)
		v, err := b.Get(t.Context(), agent("hermes"), s.ID)
		if err != nil || v.Predecessor != s.ID || v.State != gate.Pending || !strings.HasPrefix(v.Ruling.Text, "RE-ASKED") {
			t.Errorf("the opener follows to %s, %s, told %q, %v; want a pending successor", v.ID, v.State, v.Ruling.Text, err)
		}
		d := press(&v.Snapshot, "ann", gate.NeedContext)
		d.Reason = "why again?"
		b.decided(d)
		if v, err = b.Get(t.Context(), agent("hermes"), s.ID); err != nil || !strings.HasPrefix(v.Ruling.Text, "QUESTION") {
			t.Errorf("asked, it is told %q, %v; want the question", v.Ruling.Text, err)
		}
		if err := b.Cancel(t.Context(), agent("hermes"), s.ID, "never mind"); err != nil || b.state(v.ID) != gate.Cancelled {
			t.Errorf("cancelled by its old name: %v, and the new one is %s", err, b.state(v.ID))
		}
	})
	t.Run("a question that nobody had to ask", func(t *testing.T) {
		t.Parallel()
		b := setup(t, world())
		r, err := b.Propose(t.Context(), ask("list")) // no rule gates it
		if err != nil {
			t.Fatal(err)
		}
		b.failOver(r.Approval.ID)
		v, err := b.Get(t.Context(), agent("hermes"), r.Approval.ID)
		if err != nil || v.Predecessor != r.Approval.ID || v.State != gate.Pending || !v.Discretionary || v.Subject.Rule != r.Approval.Rule {
			t.Errorf("the opener follows to %s of %s in %s, discretionary %t, %v; want it asked again", v.ID, v.Subject.Rule, v.State, v.Discretionary, err)
		}
	})
	t.Run("nobody, where nothing is held any more", func(t *testing.T) {
		t.Parallel()
		b := setup(t, world())
		s := b.opened("send_email")
		b.failOver(s.ID)
		off := world()
		off.ToolGate.Enabled = new(bool)
		v, err := b.on(policy(t, off), b.keys).Get(t.Context(), agent("hermes"), s.ID)
		if err != nil || v.ID != s.ID || v.State != gate.Void || v.Successor != "" {
			t.Errorf("%s is %s with successor %q, %v; want it void", v.ID, v.State, v.Successor, err)
		}
	})
}

func TestManyQuestionsOfOneSession(t *testing.T) {
	t.Parallel()

	// All are the same call. Each press settles the one it was on: the older
	// first, the newest before the middle, whatever the order of asking.
	b := setup(t, world())
	var asked []*gate.Snapshot
	for range 5 {
		asked = append(asked, b.opened("send_email"))
	}
	b.decided(press(asked[1], "ann", gate.Deny))
	b.decided(press(asked[4], "ann", gate.Approve))
	cancelled(b, asked[2])
	b.decided(press(asked[0], "ann", gate.Approve))
	for i, want := range []gate.State{gate.Approved, gate.Denied, gate.Cancelled, gate.Pending, gate.Approved} {
		if got := b.state(asked[i].ID); got != want {
			t.Errorf("question %d is %s, want %s", i, got, want)
		}
	}
}

func TestUnattendedIsNeverInline(t *testing.T) {
	t.Parallel()

	// A scheduled call is deferred although an origin is attached.
	b := setup(t, world())
	r := ask("send_email")
	r.Requester.Attended = false
	r.Origin = gate.Conversation{Place: "slack:C1", Thread: "1.2"}
	got := b.check(r)
	if got.Approval.Mode != gate.Deferred || got.Next != gate.NextStop {
		t.Errorf("mode %s, next %s; want deferred, stop", got.Approval.Mode, got.Next)
	}
}

// TestWhoDecidesHearsOfTheLastDenial: the same call is asked about again.
func TestWhoDecidesHearsOfTheLastDenial(t *testing.T) {
	t.Parallel()
	b := setup(t, world())
	first := b.opened("send_email")
	d := press(first, "ann", gate.Deny)
	d.Reason = "wrong list"
	b.decided(d)
	again := b.opened("send_email")
	reader := gate.Principal{Key: "bo", Roles: []gate.Role{gate.RoleApprover}}
	v, err := b.Get(t.Context(), reader, again.ID)
	if err != nil || v.Refused == nil || v.Refused.ID != first.ID {
		t.Fatalf("an approver reads %+v, %v", v.Refused, err)
	}
	if got := gate.RefusedBefore(v.Refused, gate.Clock{Now: v.Now}); !strings.HasPrefix(got, "The same call was refused before: Denied by ann ") || !strings.HasSuffix(got, `: "wrong list"`) {
		t.Errorf("and is told %q", got)
	}
	if own, err := b.Get(t.Context(), gate.Principal{Key: "hermes"}, again.ID); err != nil || own.Refused != nil {
		t.Errorf("its agent reads %+v, %v", own.Refused, err)
	}
	b.decided(press(again, "bo", gate.Approve))
	if v, err := b.Get(t.Context(), reader, again.ID); err != nil || v.Refused != nil {
		t.Errorf("after it is decided: %+v, %v", v.Refused, err)
	}
	other := b.opened("kubectl_delete")
	if v, err := b.Get(t.Context(), reader, other.ID); err != nil || v.Refused != nil {
		t.Errorf("another call: %+v, %v", v.Refused, err)
	}
}

// doubting is a store that cannot say whether a vote is safe.
type doubting struct {
	gate.Store
	doubts bool
}

func (d *doubting) Vote(ctx context.Context, id gate.ID, b gate.Ballot) (gate.VoteResult, error) {
	res, err := d.Store.Vote(ctx, id, b)
	if err == nil && d.doubts {
		err = &gate.Error{Kind: gate.Unavailable, Reason: gate.ReasonStoreUnavailable, Public: "not confirmed by all replicas"}
	}
	return res, err
}

// TestAPressThatWasNotConfirmedIsNotCalledRecordedWhenItComesAgain: it is there, but a
// fail-over may still lose it.
func TestAPressThatWasNotConfirmedIsNotCalledRecordedWhenItComesAgain(t *testing.T) {
	t.Parallel()

	b := setup(t, world())
	st := &doubting{Store: b.store, doubts: true}
	g := gate.New(st, b.keys, nobody{}, b.Policy(), slog.New(slog.DiscardHandler))
	d := press(b.opened("send_email"), "ann", gate.Approve)
	for range 2 {
		if _, err := g.Decide(t.Context(), d); !errors.Is(err, gate.Unavailable) {
			t.Errorf("Decide = %v, want Unavailable", err)
		}
	}
	st.doubts = false
	if got, err := g.Decide(t.Context(), d); err != nil || got.Approval.State != gate.Approved || len(got.Approval.Votes) != 1 {
		t.Errorf("once it is confirmed: %s with %d votes, %v", got.Approval.State, len(got.Approval.Votes), err)
	}
}
