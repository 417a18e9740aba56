package gate

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/approvalbot/approvalbot/gate/secret"
)

// scripted is a store of one approval whose reads the test follows.
type scripted struct {
	Store
	get func() Snapshot
}

func (s scripted) Get(context.Context, ID) (Snapshot, error) { return s.get(), nil }

// bell is a watcher with one waiter.
type bell struct{ ring chan struct{} }

func (b *bell) Watch(ID) (<-chan struct{}, func()) {
	b.ring = make(chan struct{}, 1)
	return b.ring, func() {}
}

func waiting(rev int64) Snapshot {
	now := time.Now()
	return Snapshot{Now: now, Approval: Approval{
		ID: "a", State: Pending, Mode: Inline, Rev: rev, InlineUntil: now.Add(time.Hour), Expires: now.Add(2 * time.Hour),
	}}
}

func TestAwaitSeesAChangeDuringTheFirstRead(t *testing.T) {
	t.Parallel()

	synctest.Test(t, func(t *testing.T) {
		var b bell
		rev := int64(1)
		g := New(scripted{get: func() Snapshot {
			read := waiting(rev)
			if rev == 1 { // the vote lands just after our read
				rev = 2
				b.ring <- struct{}{} // a nil channel, and so a deadlock, if nobody watches yet
			}
			return read
		}}, nil, &b, &Policy{disabled: true}, slog.New(slog.DiscardHandler))
		s, err := g.Await(t.Context(), Principal{}, "a", 1)
		if err != nil || s.Rev != 2 {
			t.Errorf("Await = revision %d, %v; want 2", s.Rev, err)
		}
	})
}

func TestAwaitLooksAgainWhenTimeIsUp(t *testing.T) {
	t.Parallel()

	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		g := New(scripted{get: func() Snapshot {
			s := waiting(1)
			s.InlineUntil = start.Add(time.Hour)
			if time.Since(start) >= time.Hour {
				s.Rev = 2
			}
			return s
		}}, nil, &bell{}, &Policy{disabled: true}, slog.New(slog.DiscardHandler))
		s, err := g.Await(t.Context(), Principal{}, "a", 1)
		if err != nil || s.Rev != 2 || time.Since(start) > time.Hour+time.Second {
			t.Errorf("Await = revision %d after %s, %v; want 2 after an hour", s.Rev, time.Since(start), err)
		}
	})
}

func TestAwaitEndsWithItsContext(t *testing.T) {
	t.Parallel()

	synctest.Test(t, func(t *testing.T) {
		g := New(scripted{get: func() Snapshot { return waiting(1) }}, nil, &bell{}, &Policy{disabled: true}, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithTimeout(t.Context(), 25*time.Second)
		defer cancel()
		s, err := g.Await(ctx, Principal{}, "a", 1)
		if err != nil || s.State != Pending {
			t.Errorf("Await = %s, %v; want the approval as it is", s.State, err)
		}
	})
}

func TestKeyring(t *testing.T) {
	t.Parallel()

	old, fresh := secret.New(strings.Repeat("o", MinServerKey)), secret.New(strings.Repeat("f", MinServerKey))
	ring := func(current secret.String, others ...secret.String) *Keyring {
		k, err := NewKeyring(current, others...)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	before, during, after := ring(old), ring(fresh, old), ring(fresh)

	if _, err := NewKeyring(secret.New("short")); err == nil {
		t.Error("a short key is taken")
	}
	if before.Fingerprints()[0] != during.Fingerprints()[1] || before.Fingerprints()[0] == after.Fingerprints()[0] {
		t.Error("fingerprints do not name the keys")
	}
	mac := before.Sign(Pages, "a", "bc")
	for name, tt := range map[string]struct {
		by     *Keyring
		fields []string
		want   bool
	}{
		"its own key":                  {before, []string{"a", "bc"}, true},
		"a key rotated from":           {during, []string{"a", "bc"}, true},
		"a key that is gone":           {after, []string{"a", "bc"}, false},
		"the same bytes cut elsewhere": {before, []string{"ab", "c"}, false},
		"the same fields and one more": {before, []string{"a", "bc", ""}, false},
	} {
		if got := tt.by.Signed(Pages, mac, tt.fields...); got != tt.want {
			t.Errorf("%s: %t, want %t", name, got, tt.want)
		}
	}
	if before.verify(forTokens, before.sign(labels[Pages], "a"), "a") {
		t.Error("a signature for one purpose holds for another")
	}
}

// TestASignatureHoldsForOneUse keeps to the letter what other parts sign: nothing
// that merely decodes to the same counts, and nothing of another use.
func TestASignatureHoldsForOneUse(t *testing.T) {
	t.Parallel()
	k, err := NewKeyring(secret.New(strings.Repeat("k", MinServerKey)))
	if err != nil {
		t.Fatal(err)
	}
	mac := k.Sign(Buttons, "apr_1", "approve")
	for name, tt := range map[string]struct {
		use  Use
		mac  string
		want bool
	}{
		"its own":                        {Buttons, mac, true},
		"another use":                    {Dialogs, mac, false},
		"the use of pages":               {Pages, mac, false},
		"no use":                         {0, k.Sign(0, "apr_1", "approve"), false},
		"a use that nobody knows":        {99, k.Sign(99, "apr_1", "approve"), false},
		"no use, signed with no key":     {0, signature(derived{}.mac("", []string{"apr_1", "approve"})), false},
		"a line break in it":             {Buttons, mac[:10] + "\n" + mac[10:], false},
		"padding behind it":              {Buttons, mac + "=", false},
		"other bits that nobody decodes": {Buttons, lastBit(mac), false},
		"nothing":                        {Buttons, "", false},
	} {
		if got := k.Signed(tt.use, tt.mac, "apr_1", "approve"); got != tt.want {
			t.Errorf("%s: %t, want %t", name, got, tt.want)
		}
	}
	if label := labels[Pages]; label != "approvalbot console v1" {
		t.Errorf("pages are signed as %q: who is logged in would no longer be", label)
	}
}

// lastBit changes the last character in a bit that decodes to nothing.
func lastBit(mac string) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	end := len(mac) - 1
	return mac[:end] + string(alphabet[strings.IndexByte(alphabet, mac[end])^1])
}

func TestEveryFieldOfAVoteIsSigned(t *testing.T) {
	t.Parallel()

	k, err := NewKeyring(secret.New(strings.Repeat("k", MinServerKey)))
	if err != nil {
		t.Fatal(err)
	}
	fresh := func() (ID, Subject, Vote) {
		s := Subject{Rule: "r", Version: "v", Executor: RequesterRuns, Requester: Requester{Key: "k", Agent: "a", Session: "s", Person: "p"}}
		v := Vote{Voter: Voter{ID: "key:ann", Person: "ann", Surface: "api", Login: "key"}, Groups: []string{"sre"}, Choice: Approve, Scope: Once, Nonce: "n"}
		k.signVote("apr_1", &s, &v)
		return "apr_1", s, v
	}
	changes := map[string]func(*ID, *Subject, *Vote){
		"id":       func(id *ID, _ *Subject, _ *Vote) { *id = "apr_2" },
		"digest":   func(_ *ID, s *Subject, _ *Vote) { s.Digest[3]++ },
		"rule":     func(_ *ID, s *Subject, _ *Vote) { s.Rule = "x" },
		"version":  func(_ *ID, s *Subject, _ *Vote) { s.Version = "x" },
		"executor": func(_ *ID, s *Subject, _ *Vote) { s.Executor = "x" },
		"key":      func(_ *ID, s *Subject, _ *Vote) { s.Requester.Key = "x" },
		"agent":    func(_ *ID, s *Subject, _ *Vote) { s.Requester.Agent = "x" },
		"session":  func(_ *ID, s *Subject, _ *Vote) { s.Requester.Session = "x" },
		"person":   func(_ *ID, s *Subject, _ *Vote) { s.Requester.Person = "x" },
		"voter":    func(_ *ID, _ *Subject, v *Vote) { v.Voter.ID = "key:bo" },
		"human":    func(_ *ID, _ *Subject, v *Vote) { v.Voter.Person = "bo" },
		"surface":  func(_ *ID, _ *Subject, v *Vote) { v.Voter.Surface = "slack" },
		"login":    func(_ *ID, _ *Subject, v *Vote) { v.Voter.Login = "oidc" },
		"groups":   func(_ *ID, _ *Subject, v *Vote) { v.Groups = []string{"owners"} },
		"choice":   func(_ *ID, _ *Subject, v *Vote) { v.Choice = Deny },
		"scope":    func(_ *ID, _ *Subject, v *Vote) { v.Scope = Always },
		"reason":   func(_ *ID, _ *Subject, v *Vote) { v.Reason = "x" },
		"nonce":    func(_ *ID, _ *Subject, v *Vote) { v.Nonce = "x" },
	}
	if id, s, v := fresh(); !k.voteGenuine(id, &s, &v) {
		t.Fatal("an untouched vote is not genuine")
	}
	for name, change := range changes {
		id, s, v := fresh()
		if change(&id, &s, &v); k.voteGenuine(id, &s, &v) {
			t.Errorf("%s is not signed", name)
		}
	}
}
