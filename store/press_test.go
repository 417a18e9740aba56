package store

import (
	"strings"
	"testing"
	"time"

	"github.com/approvalbot/approvalbot/gate"
)

// A press that was taken comes again after the same person's later press.
func TestAnEarlierPressOfTheSamePersonComesAgain(t *testing.T) {
	t.Parallel()
	s, err := OpenMemory(t.Context(), Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	o := gate.Opening{
		ID: "apr_1", Mode: gate.Deferred, ExpiresIn: time.Hour,
		Subject: gate.Subject{Call: gate.Call{Tool: "t"}, Requester: gate.Requester{Key: "k"}, Executor: gate.RequesterRuns},
	}
	o.Digest, _ = o.Call.Digest()
	if _, err := s.Open(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	press := func(rev int64, c gate.Choice, settles gate.State, nonce string) error {
		_, err := s.Vote(t.Context(), o.ID, gate.Ballot{
			Rev: rev, Digest: o.Digest, Settles: settles, RunFor: time.Hour,
			Vote: gate.Vote{Voter: gate.Voter{ID: "u"}, Choice: c, Nonce: nonce},
		})
		return err
	}
	if err := press(1, gate.Approve, "", "first"); err != nil {
		t.Fatal(err)
	}
	if err := press(2, gate.Deny, gate.Denied, "second"); err != nil {
		t.Fatal(err)
	}
	if err := press(1, gate.Approve, "", "first"); err != nil {
		t.Errorf("the first press again = %v, want its first answer", err)
	}
}

// What was pressed holds an address that lets its owner answer: it is not kept for
// longer than that is good for.
func TestAKeptPressIsForgottenInTheEnd(t *testing.T) {
	t.Parallel()
	s, db := openServer(t)
	if err := s.Press(t.Context(), "slack", []byte("x")); err != nil {
		t.Fatal(err)
	}
	if left := db.TTL(t.Context(), s.space.key("pr:slack")).Val(); left <= 0 || left > 30*time.Minute {
		t.Errorf("it is kept for %v", left)
	}
}

// Two replicas share what was done; spaces do not. What it was the store cannot tell
// anybody.
func TestWhatIsDoneOnceIsKeptAsAHashForItsTime(t *testing.T) {
	t.Parallel()
	s, db := openServer(t)
	const what = "trigger of ann"
	if first, err := s.Once(t.Context(), what, time.Minute); !first || err != nil {
		t.Fatalf("Once = %t, %v", first, err)
	}
	key := s.space.key("o:" + fingerprint("once", what))
	if left := db.PTTL(t.Context(), key).Val(); left <= 0 || left > time.Minute {
		t.Errorf("it is kept for %v", left)
	}
	for _, k := range db.Keys(t.Context(), "*").Val() {
		if strings.Contains(k, "ann") || !strings.HasPrefix(k, s.space.key("")) {
			t.Errorf("key %q tells what was done, or is outside of the space", k)
		}
	}
}
