package gate

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/approvalbot/approvalbot/gate/secret"
)

// held is a store of one approval that must not be asked to move it.
type held struct {
	Store
	t *testing.T
	s Snapshot
}

func (h held) Get(context.Context, ID) (Snapshot, error) { return h.s, nil }

func (h held) Consume(context.Context, ID, Consumption) (Consumed, error) {
	h.t.Error("the store was asked to consume")
	return Consumed{}, nil
}

func (h held) Report(context.Context, ID, Report) error {
	h.t.Error("the store was asked to record a report")
	return nil
}

// holding is a gate on one approval, its token, and a spending of it that nothing
// is wrong with.
func holding(t *testing.T, change func(*Snapshot)) (*Gate, Spending) {
	t.Helper()
	keys, err := NewKeyring(secret.New(strings.Repeat("k", MinServerKey)))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now().Truncate(time.Millisecond)
	c := Call{Tool: "held"}
	a := Approval{
		ID:      "apr_1",
		Subject: Subject{Call: c, Requester: Requester{Key: "hermes"}, Executor: RequesterRuns},
		State:   Approved, Rev: 2, Decided: now, RunBy: now.Add(time.Hour), Incarnation: "i1",
	}
	if a.Digest, err = c.Digest(); err != nil {
		t.Fatal(err)
	}
	token := keys.mint(&a)
	s := Snapshot{Approval: a, Now: now, Incarnation: "i1"}
	change(&s)
	g := New(held{t: t, s: s}, keys, &bell{}, &Policy{}, slog.New(slog.DiscardHandler))
	return g, Spending{Principal: "hermes", ID: a.ID, Token: token, Attempt: strings.Repeat("0a", 16), Call: c}
}

// TestWhatIsRefusedBeforeTheStoreIsAsked takes one thing at a time away from a
// spending that would pass; the store would not notice any of them.
func TestWhatIsRefusedBeforeTheStoreIsAsked(t *testing.T) {
	t.Parallel()
	leased := func(s *Snapshot) { // and the token is of the lease before
		s.State, s.Executor, s.Fence, s.Lease = Leased, "ops", 1, Lease{Owner: "hermes", Until: s.RunBy}
	}
	for name, tt := range map[string]struct {
		approval func(*Snapshot)
		spending func(*Spending)
		disagree bool
		kind     Kind
		why      Reason
	}{
		"a token of another approval":    {spending: func(c *Spending) { c.ID = "apr_2" }, kind: Invalid, why: ReasonNotFound},
		"an attempt of another form":     {spending: func(c *Spending) { c.Attempt = "0A" }, kind: Invalid, why: ReasonGateError},
		"another principal":              {spending: func(c *Spending) { c.Principal = "other" }, kind: Forbidden, why: ReasonGateError},
		"another call":                   {spending: func(c *Spending) { c.Call.Tool = "other" }, kind: Conflict, why: ReasonDigestMismatch},
		"the token of an earlier lease":  {approval: leased, kind: Conflict, why: ReasonFenced},
		"the token of another decision":  {approval: func(s *Snapshot) { s.Decided = s.Decided.Add(time.Second) }, kind: Conflict, why: ReasonVoid},
		"the token of another life":      {approval: func(s *Snapshot) { s.Approval.Incarnation, s.Incarnation = "i2", "i2" }, kind: Conflict, why: ReasonVoid},
		"replicas that do not agree":     {disagree: true, kind: Unavailable, why: ReasonPolicyUnavailable},
		"one that another asks in place": {approval: func(s *Snapshot) { s.State, s.Approval.Reason, s.Successor = Revoked, ReasonPolicyChanged, "apr_2" }, kind: Conflict, why: ReasonPolicyChanged},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tt.approval == nil {
				tt.approval = func(*Snapshot) {}
			}
			g, c := holding(t, tt.approval)
			if tt.spending != nil {
				tt.spending(&c)
			}
			if tt.disagree {
				g.others.Store(1)
			}
			r, err := g.Consume(t.Context(), c)
			if r.Verdict != Block || KindOf(err) != tt.kind || ReasonOf(err) != tt.why {
				t.Errorf("Consume = %s, %v (%s); want block, %v (%s)", r.Verdict, err, ReasonOf(err), tt.kind, tt.why)
			}
		})
	}
}

func TestWhatNoReportMaySay(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(*Reporting)
		kind   Kind
	}{
		"a token of another approval": {func(r *Reporting) { r.ID = "apr_2" }, Invalid},
		"no outcome":                  {func(r *Reporting) { r.Outcome = "" }, Invalid},
		"a state that is no outcome":  {func(r *Reporting) { r.Outcome = Cancelled }, Invalid},
		"an attempt of another form":  {func(r *Reporting) { r.Attempt = "0A" }, Invalid},
		"a token of somebody else":    {func(r *Reporting) { r.Principal = "other" }, Forbidden},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, c := holding(t, func(s *Snapshot) { s.State = Executing })
			r := Reporting{Principal: c.Principal, ID: c.ID, Token: c.Token, Attempt: c.Attempt, Outcome: Executed}
			tt.change(&r)
			if err := g.Report(t.Context(), r); KindOf(err) != tt.kind {
				t.Errorf("Report = %v, want %v", err, tt.kind)
			}
		})
	}
}

// failedOver is a store whose grants are of an earlier life.
type failedOver struct {
	Store
	grant Grant
	put   *Grant
}

func (f *failedOver) Grants(context.Context) ([]Grant, error) { return []Grant{f.grant}, nil }
func (f *failedOver) Standing(context.Context, Requester) (Holdings, error) {
	return Holdings{Incarnation: "i2"}, nil
}
func (f *failedOver) PutGrant(_ context.Context, g Grant, _ string) error { f.put = &g; return nil }

func TestAConfirmedGrantIsOfThePresentLife(t *testing.T) {
	t.Parallel()
	g, _ := holding(t, func(*Snapshot) {})
	f := &failedOver{grant: Grant{ID: "grt_1", Scope: Always, Tool: "held", Incarnation: "i1"}}
	g.keys.signGrant(&f.grant)
	g.store = f
	if err := g.ConfirmGrant(t.Context(), Principal{Key: "ann", Roles: []Role{RoleApprover}}, "grt_1"); err != nil {
		t.Fatal(err)
	}
	if f.put == nil || f.put.Incarnation != "i2" || !g.keys.grantGenuine(f.put) {
		t.Errorf("put %+v, want it signed for i2", f.put)
	}
}

// standing is a store of what holds for everyone.
type standing struct {
	Store
	holds Holdings
	used  []string
}

func (s *standing) Standing(context.Context, Requester) (Holdings, error) { return s.holds, nil }

func (s *standing) UseGrant(_ context.Context, g Grant, _ Version, _ Digest) error {
	s.used = append(s.used, g.ID)
	if g.ID == "grt_1" {
		return conflict(ReasonSpent, "used up")
	}
	return nil
}

func TestAGrantThatIsUsedUpLeavesTheNext(t *testing.T) {
	t.Parallel()
	g, _ := holding(t, func(*Snapshot) {})
	c := &check{policy: &Policy{}, rule: &Rule{Name: "r", Scopes: []Scope{Always}}, Request: Request{Call: Call{Tool: "held"}}}
	now := time.Now()
	s := &standing{holds: Holdings{Now: now, Incarnation: "i1"}}
	for _, id := range []string{"grt_1", "grt_2"} {
		gr := Grant{ID: id, Scope: Always, Rule: "r", Tool: "held", Expires: now.Add(time.Hour), Incarnation: "i1"}
		g.keys.signGrant(&gr)
		s.holds.Grants = append(s.holds.Grants, gr)
	}
	g.store, c.holdings = s, s.holds
	r, ruled, err := g.grant(t.Context(), c)
	if r.Verdict != Allow || !ruled || err != nil || len(s.used) != 2 {
		t.Errorf("grant = %s, %t, %v after %v; want allow by the second", r.Verdict, ruled, err, s.used)
	}
}

func TestABypassOfAnotherLifeLetsNothingPass(t *testing.T) {
	t.Parallel()
	g, _ := holding(t, func(*Snapshot) {})
	now := time.Now()
	b := Bypass{Key: "hermes", Session: "s", By: "root", Until: now.Add(time.Hour), Incarnation: "i1"}
	g.keys.signBypass(&b)
	for incarnation, passes := range map[string]bool{"i1": true, "i2": false} {
		g.store = &standing{holds: Holdings{Now: now, Incarnation: incarnation, Bypass: &b}}
		c := &check{rule: &Rule{}, Request: Request{Requester: Requester{Key: "hermes", Session: "s"}}}
		if _, ruled, err := g.bypass(t.Context(), c); ruled != passes || err != nil {
			t.Errorf("in %s: lets pass %t, %v; want %t", incarnation, ruled, err, passes)
		}
	}
}

func TestEveryFieldOfATokenAGrantAndABypassIsSigned(t *testing.T) {
	t.Parallel()
	k, err := NewKeyring(secret.New(strings.Repeat("k", MinServerKey)))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	a := Approval{ID: "apr_1", Subject: Subject{Digest: Digest{1}}, Fence: 1, Decided: now, Incarnation: "i"}
	minted, err := parseToken(k.mint(&a))
	if err != nil || !k.genuine(minted, a.Digest) {
		t.Fatalf("a token as it was minted is not genuine: %v", err)
	}
	for name, change := range map[string]func(*token, *Digest){
		"id":          func(t *token, _ *Digest) { t.id = "apr_2" },
		"digest":      func(_ *token, d *Digest) { d[0]++ },
		"fence":       func(t *token, _ *Digest) { t.fence++ },
		"incarnation": func(t *token, _ *Digest) { t.incarnation = "j" },
		"decided":     func(t *token, _ *Digest) { t.decided = t.decided.Add(time.Millisecond) },
	} {
		other, digest := minted, a.Digest
		if change(&other, &digest); k.genuine(other, digest) {
			t.Errorf("%s of a token is not signed", name)
		}
	}

	for name, change := range map[string]func(*Grant){
		"id": func(g *Grant) { g.ID = "x" }, "approval": func(g *Grant) { g.Approval = "x" }, "scope": func(g *Grant) { g.Scope = Always },
		"key": func(g *Grant) { g.Requester.Key = "x" }, "agent": func(g *Grant) { g.Requester.Agent = "x" },
		"session": func(g *Grant) { g.Requester.Session = "x" }, "person": func(g *Grant) { g.Requester.Person = "x" },
		"rule": func(g *Grant) { g.Rule = "x" }, "version": func(g *Grant) { g.Version = "x" }, "server": func(g *Grant) { g.Server = "x" },
		"tool": func(g *Grant) { g.Tool = "x" }, "target": func(g *Grant) { g.Target = "x" }, "digest": func(g *Grant) { g.Digest[0]++ },
		"by": func(g *Grant) { g.By = "x" }, "created": func(g *Grant) { g.Created = now }, "expires": func(g *Grant) { g.Expires = now },
		"uses": func(g *Grant) { g.MaxUses++ }, "incarnation": func(g *Grant) { g.Incarnation = "x" },
	} {
		var g Grant
		k.signGrant(&g)
		if change(&g); k.grantGenuine(&g) {
			t.Errorf("%s of a grant is not signed", name)
		}
	}

	for name, change := range map[string]func(*Bypass){
		"key": func(b *Bypass) { b.Key = "x" }, "session": func(b *Bypass) { b.Session = "x" }, "by": func(b *Bypass) { b.By = "x" },
		"until": func(b *Bypass) { b.Until = now }, "incarnation": func(b *Bypass) { b.Incarnation = "x" },
	} {
		var b Bypass
		k.signBypass(&b)
		if change(&b); k.bypassGenuine(&b) {
			t.Errorf("%s of a bypass is not signed", name)
		}
	}
}
