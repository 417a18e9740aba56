package storetest

import (
	"crypto/rand"
	"errors"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/approvalbot/approvalbot/gate"
)

// grant is one that an approval of now gives alice.
func (k *kit) grant(id gate.ID, scope gate.Scope) *gate.Grant {
	k.Helper()
	s := k.get(id)
	return &gate.Grant{
		ID: "grt_" + rand.Text(), Approval: id, Scope: scope, Requester: s.Requester, Rule: s.Rule, Version: s.Version,
		Server: s.Call.Server, Tool: s.Call.Tool, Target: s.Call.Target, Digest: s.Digest, By: "Ann",
		Created: s.Now, Expires: s.Now.Add(time.Hour), Incarnation: s.Incarnation, MAC: []byte{7, 8, 9},
	}
}

// granted approves a question with a grant and returns it.
func (k *kit) granted(scope gate.Scope, change ...func(*gate.Grant)) gate.Grant {
	k.Helper()
	id := k.open()
	b := k.ballot(id, gate.Approve, gate.Approved)
	b.Vote.Scope, b.Grant = scope, k.grant(id, scope)
	for _, c := range change {
		c(b.Grant)
	}
	if r := k.vote(id, b); r.SessionEnded {
		k.Fatal("the session is over")
	}
	return *b.Grant
}

func (k *kit) use(g gate.Grant) error {
	return k.UseGrant(k.Context(), g, policy, g.Digest)
}

func (k *kit) holdings(r gate.Requester) gate.Holdings {
	k.Helper()
	h, err := k.Standing(k.Context(), r)
	k.ok(err)
	return h
}

func (k *kit) gone(g gate.Grant) {
	k.Helper()
	k.unusable(g, gate.Conflict, gate.ReasonRevoked)
	if h := k.holdings(g.Requester); len(h.Grants) != 0 {
		k.Errorf("the requester still holds %+v", h.Grants)
	}
}

func (k *kit) unusable(g gate.Grant, kind gate.Kind, reason gate.Reason) {
	k.Helper()
	pos := k.tail()
	if err := k.use(g); !errors.Is(err, kind) || gate.ReasonOf(err) != reason {
		k.Errorf("UseGrant = %v (%s), want %v (%s)", err, gate.ReasonOf(err), kind, reason)
	}
	if es := k.entries(pos); len(es) > 0 {
		k.Errorf("the refusal wrote %+v", es)
	}
}

var standing = tests{
	"a grant is held, used, counted and listed": func(k *kit) {
		g := k.granted(gate.Session)
		k.ok(k.use(g))
		k.ok(k.use(g))
		g.Uses = 2
		h := k.holdings(alice)
		if diff := cmp.Diff([]gate.Grant{g}, h.Grants); diff != "" {
			k.Errorf("holdings (-want +got):\n%s", diff)
		}
		if h.Bypass != nil || h.Now.IsZero() || h.Incarnation != g.Incarnation {
			k.Errorf("holdings %+v", h)
		}
		all, err := k.Grants(k.Context())
		k.ok(err)
		if diff := cmp.Diff([]gate.Grant{g}, all); diff != "" {
			k.Errorf("Grants (-want +got):\n%s", diff)
		}
		for _, r := range []gate.Requester{
			{Key: "other", Agent: alice.Agent, Person: alice.Person},
			{Key: alice.Key, Agent: "codex", Person: alice.Person},
			{Key: alice.Key, Agent: alice.Agent, Person: "bob"},
		} {
			if h := k.holdings(r); len(h.Grants) != 0 {
				k.Errorf("%+v holds alice's grant", r)
			}
		}
	},
	"a grant ends when it is used up": func(k *kit) {
		g := k.granted(gate.Always, func(g *gate.Grant) { g.MaxUses = 3 })
		got := race(10, func(int) error { return k.use(g) })
		if got["<nil>"] != 3 {
			k.Errorf("got %v, want three uses", got)
		}
		k.unusable(g, gate.Conflict, gate.ReasonRevoked)
	},
	"a grant ends when it expires, and is forgotten": func(k *kit) {
		g := k.granted(gate.Always, func(g *gate.Grant) { g.Expires = g.Created.Add(k.Brief) })
		k.Advance(k.T, k.Brief)
		k.gone(g)
		k.sweep()
		all, err := k.Grants(k.Context())
		if len(all) != 0 || err != nil {
			k.Errorf("Grants = %v, %v; want none", all, err)
		}
		k.refusesGrant(g)
	},
	"a grant ends when it is revoked, for good": func(k *kit) {
		g := k.granted(gate.Always)
		pos := k.tail()
		k.ok(k.RevokeGrant(k.Context(), g.ID, "ann"))
		if es := k.entries(pos); len(es) != 1 || es[0].Event != gate.EventGrantRevoked || es[0].By != "ann" {
			k.Errorf("log: %+v", es)
		}
		pos = k.tail()
		k.ok(k.RevokeGrant(k.Context(), g.ID, "ann"))
		if es := k.entries(pos); len(es) != 0 {
			k.Errorf("revoking again wrote %+v", es)
		}
		k.gone(g)
		k.refusesGrant(g)
	},
	"a grant ends with the approval that gave it": func(k *kit) {
		g := k.granted(gate.Always)
		b := by(k.ballot(g.Approval, gate.Deny, gate.Revoked), "bob")
		b.EndsGrants = true
		k.vote(g.Approval, b)
		k.gone(g)

		g = k.granted(gate.Always)
		k.ok(k.Withdraw(k.Context(), g.Approval, gate.Withdrawal{Event: gate.EventRevoked, Reason: gate.ReasonRevoked, By: "bob"}))
		k.gone(g)
	},
	"a grant does not end with an approval that is merely withdrawn": func(k *kit) {
		g := k.granted(gate.Always)
		k.ok(k.Withdraw(k.Context(), g.Approval, gate.Withdrawal{Event: gate.EventCancel, Reason: gate.ReasonCancelled}))
		k.ok(k.use(g))
	},
	"only the grant that was checked counts": func(k *kit) {
		g := k.granted(gate.Always)
		g.MAC = []byte{9}
		k.unusable(g, gate.Conflict, gate.ReasonRevoked)
	},
	"while replicas disagree no grant is used": func(k *kit) {
		g := k.granted(gate.Always)
		k.beat("replica-2", "77")
		k.unusable(g, gate.Unavailable, gate.ReasonPolicyUnavailable)
		k.beat("replica-2", policy)
		k.ok(k.use(g))
		if err := k.UseGrant(k.Context(), g, "77", g.Digest); gate.ReasonOf(err) != gate.ReasonPolicyUnavailable {
			k.Errorf("UseGrant under another policy = %v", err)
		}
	},
	"a confirmed grant is the same one, signed anew": func(k *kit) {
		g := k.granted(gate.Always)
		k.ok(k.use(g))
		old := g
		g.MAC = []byte{5, 5}
		k.ok(k.PutGrant(k.Context(), g, "ann"))
		k.unusable(old, gate.Conflict, gate.ReasonRevoked)
		k.ok(k.use(g))
		if h := k.holdings(alice); len(h.Grants) != 1 || h.Grants[0].Uses != 2 {
			k.Errorf("holdings %+v, want two uses", h.Grants)
		}
		pos := k.tail()
		k.ok(k.PutGrant(k.Context(), g, "ann"))
		if es := k.entries(pos); len(es) != 0 {
			k.Errorf("confirming again wrote %+v", es)
		}
	},
	"a session's end ends what hangs on it, and only that": func(k *kit) {
		pending, approved, executing := k.open(inline(time.Hour)), k.open(inline(time.Hour)), k.open(inline(time.Hour))
		deferred, elsewhere := k.open(), k.open(inline(time.Hour), session("s-2"))
		wasInline := k.open(inline(time.Hour))
		k.ok(k.Defer(k.Context(), wasInline))
		k.approve(approved)
		k.approve(executing)
		k.consume(executing)
		passing, staying := k.granted(gate.Session), k.granted(gate.Always)
		k.ok(k.PutBypass(k.Context(), k.bypass(time.Hour)))

		pos := k.tail()
		k.ok(k.EndSession(k.Context(), alice.Key, "s-1", "hermes"))
		if s := k.state(pending, gate.Cancelled); s.Reason != gate.ReasonCancelled || s.By != "hermes" {
			k.Errorf("reason %q by %q", s.Reason, s.By)
		}
		if s := k.state(approved, gate.Revoked); s.Reason != gate.ReasonRevoked {
			k.Errorf("reason %q", s.Reason)
		}
		k.state(executing, gate.Executing)
		k.state(deferred, gate.Pending)
		k.state(elsewhere, gate.Pending)
		k.state(wasInline, gate.Pending)
		k.unusable(passing, gate.Conflict, gate.ReasonRevoked)
		k.ok(k.use(staying))
		h := k.holdings(alice)
		if h.Bypass != nil || len(h.Grants) != 1 {
			k.Errorf("holdings %+v", h)
		}
		if es := k.entries(pos); es[0].Event != gate.EventSessionEnded || es[0].By != "hermes" {
			k.Errorf("log begins with %+v", es[0])
		}
		pos = k.tail()
		k.ok(k.EndSession(k.Context(), alice.Key, "s-1", "hermes"))
		if es := k.entries(pos); len(es) != 0 {
			k.Errorf("ending it again wrote %+v", es)
		}
		other := k.bypass(time.Hour)
		other.Key = "other"
		if err := k.PutBypass(k.Context(), other); err != nil {
			k.Errorf("another key's session of that name ended too: %v", err)
		}
		if err := k.EndSession(k.Context(), alice.Key, "", "hermes"); !errors.Is(err, gate.Invalid) {
			k.Errorf("ending no session = %v, want Invalid", err)
		}
	},
	"a large session ends whole": func(k *kit) {
		for range 230 {
			k.open(inline(time.Hour))
		}
		k.ok(k.EndSession(k.Context(), alice.Key, "s-1", "hermes"))
		if n := k.pending(); n != 0 {
			k.Errorf("%d are pending still", n)
		}
	},
	"after a session's end its scope is once, and the approver is told": func(k *kit) {
		id := k.open()
		k.ok(k.EndSession(k.Context(), alice.Key, "s-1", "hermes"))
		b := k.ballot(id, gate.Approve, gate.Approved)
		b.Grant = k.grant(id, gate.Session)
		if r := k.vote(id, b); !r.SessionEnded {
			k.Error("the approver is not told")
		}
		k.gone(*b.Grant)
		k.repeats(id, func() error {
			r, err := k.Vote(k.Context(), id, b)
			if !r.SessionEnded {
				k.Error("the repeated press says otherwise")
			}
			return err
		})
		id = k.open()
		b = k.ballot(id, gate.Approve, gate.Approved)
		b.Grant = k.grant(id, gate.Always)
		if r := k.vote(id, b); r.SessionEnded {
			k.Error("a grant for good fell with the session")
		}
		k.ok(k.use(*b.Grant))
	},
	"a session's end races a vote, and no grant survives": func(k *kit) {
		for i := range 20 {
			s := session(string(rune('a' + i)))
			id := k.open(s)
			b := k.ballot(id, gate.Approve, gate.Approved)
			b.Grant = k.grant(id, gate.Session)
			got := race(2, func(i int) error {
				if i == 0 {
					return second(k.Vote(k.Context(), id, b))
				}
				return k.EndSession(k.Context(), alice.Key, b.Grant.Requester.Session, "hermes")
			})
			if got["<nil>"] != 2 {
				k.Fatalf("got %v, want both done", got)
			}
			k.gone(*b.Grant)
			k.state(id, gate.Approved)
		}
	},
	"a bypass holds for its time": func(k *kit) {
		b := k.bypass(k.Brief)
		k.ok(k.PutBypass(k.Context(), b))
		if diff := cmp.Diff(&b, k.holdings(alice).Bypass); diff != "" {
			k.Errorf("bypass (-put +held):\n%s", diff)
		}
		if h := k.holdings(gate.Requester{Key: alice.Key, Session: "s-2"}); h.Bypass != nil {
			k.Error("another session holds it")
		}
		k.Advance(k.T, k.Brief)
		if h := k.holdings(alice); h.Bypass != nil {
			k.Error("it is held after its end")
		}
	},
	"a bypass is taken away by one of the past, and logged": func(k *kit) {
		k.ok(k.PutBypass(k.Context(), k.bypass(time.Hour)))
		pos := k.tail()
		k.ok(k.PutBypass(k.Context(), k.bypass(-time.Hour)))
		if h := k.holdings(alice); h.Bypass != nil {
			k.Error("it is held still")
		}
		if es := k.entries(pos); len(es) != 1 || es[0].Event != gate.EventSessionBypass || es[0].By != "root" {
			k.Errorf("log: %+v", es)
		}
	},
	"an ended session gets no bypass": func(k *kit) {
		k.ok(k.EndSession(k.Context(), alice.Key, "s-1", "hermes"))
		if err := k.PutBypass(k.Context(), k.bypass(time.Hour)); gate.ReasonOf(err) != gate.ReasonCancelled {
			k.Errorf("PutBypass = %v, want a Conflict (cancelled)", err)
		}
		if h := k.holdings(alice); h.Bypass != nil {
			k.Errorf("holdings %+v", h)
		}
	},
}

func (k *kit) refusesGrant(g gate.Grant) {
	k.Helper()
	if err := k.PutGrant(k.Context(), g, "ann"); !errors.Is(err, gate.Conflict) {
		k.Errorf("PutGrant of what is gone = %v, want Conflict", err)
	}
	k.gone(g)
}

func (k *kit) bypass(d time.Duration) gate.Bypass {
	k.Helper()
	h := k.holdings(alice)
	return gate.Bypass{Key: alice.Key, Session: alice.Session, By: "root", Until: h.Now.Add(d), Incarnation: h.Incarnation, MAC: []byte{3}}
}
