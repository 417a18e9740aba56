package storetest

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/approvalbot/approvalbot/gate"
)

// race runs f n times at once and counts what came out.
func race(n int, f func(i int) error) map[string]int {
	var (
		wg  sync.WaitGroup
		mu  sync.Mutex
		out = map[string]int{}
	)
	for i := range n {
		wg.Go(func() {
			err := f(i)
			mu.Lock()
			defer mu.Unlock()
			out[fmt.Sprint(err)]++
		})
	}
	wg.Wait()
	return out
}

var voting = tests{
	"a vote that settles nothing is kept": func(k *kit) {
		id := k.open()
		b := k.ballot(id, gate.Approve, "")
		k.vote(id, b)
		s := k.state(id, gate.Pending)
		if diff := cmp.Diff([]gate.Vote{b.Vote}, s.Votes); diff != "" {
			k.Errorf("votes (-cast +kept):\n%s", diff)
		}
		if s.Rev != 2 || !s.Decided.IsZero() {
			k.Errorf("rev %d, decided %v; want 2 and not", s.Rev, s.Decided)
		}
	},
	"an approval says who, when, and until when it may run": func(k *kit) {
		id := k.open()
		b := k.ballot(id, gate.Approve, gate.Approved)
		b.RunFor = 5 * time.Minute
		k.vote(id, b)
		s := k.state(id, gate.Approved)
		if s.Decided.Before(s.Created) || !s.RunBy.Equal(s.Decided.Add(5*time.Minute)) {
			k.Errorf("decided %v, run by %v", s.Decided, s.RunBy)
		}
		if s.By != "Ann" || s.Note != "because" || s.Reason != "" || !s.Ended.IsZero() {
			k.Errorf("by %q, note %q, reason %q, ended %v", s.By, s.Note, s.Reason, s.Ended)
		}
		if k.pending() != 0 {
			k.Errorf("%d are pending, want none", k.pending())
		}
	},
	"a denial says who and why": func(k *kit) {
		id := k.open()
		k.deny(id)
		s := k.state(id, gate.Denied)
		if s.By != "Ann" || s.Note != "because" || s.Reason != gate.ReasonDenied || s.Decided.IsZero() || s.Ended.IsZero() {
			k.Errorf("by %q, note %q, reason %q, decided %v, ended %v", s.By, s.Note, s.Reason, s.Decided, s.Ended)
		}
	},
	"the log names voter, groups and what was shown": func(k *kit) {
		id := k.open()
		pos := k.tail()
		b := k.ballot(id, gate.Deny, gate.Denied)
		k.vote(id, b)
		e := k.entries(pos)[0]
		want := gate.Entry{
			Pos: e.Pos, N: e.N, At: e.At, ID: id, Event: gate.EventDecided, From: gate.Pending, To: gate.Denied, By: "Ann",
			Digest: b.Digest.Hex(), Note: e.Note,
		}
		if diff := cmp.Diff(want, e); diff != "" || e.At.IsZero() {
			k.Errorf("entry (-want +got):\n%s", diff)
		}
		for _, fact := range []string{"slack:T1/U1", "ann", "sre", "deny", "platform"} {
			if !strings.Contains(e.Note, fact) {
				k.Errorf("note %q does not tell %q", e.Note, fact)
			}
		}
	},
	"the same press counts once, whatever happened since": func(k *kit) {
		id := k.open()
		b := k.ballot(id, gate.Approve, gate.Approved)
		k.vote(id, b)
		again := func() error { return second(k.Vote(k.Context(), id, b)) }
		k.repeats(id, again)
		k.consume(id)
		k.repeats(id, again)
	},
	"a press of the same name with another choice is another vote": func(k *kit) {
		id := k.open()
		b := k.ballot(id, gate.Approve, "")
		k.vote(id, b)
		no := k.ballot(id, gate.Deny, gate.Denied)
		no.Vote.Nonce = b.Vote.Nonce
		k.vote(id, no)
		k.state(id, gate.Denied)
	},
	"a person has one vote, the last": func(k *kit) {
		id := k.open()
		k.vote(id, k.ballot(id, gate.Approve, ""))
		k.vote(id, by(k.ballot(id, gate.Approve, ""), "bob"))
		b := k.ballot(id, gate.Deny, "")
		b.Vote.Voter.ID, b.Vote.Voter.Surface = "mattermost:u9", "mattermost" // ann elsewhere
		k.vote(id, b)
		if s := k.get(id); len(s.Votes) != 2 {
			k.Errorf("%d votes, want 2", len(s.Votes))
		}
	},
	"a vote counted on an older revision is not taken": func(k *kit) {
		id := k.open()
		old := k.ballot(id, gate.Approve, gate.Approved)
		k.vote(id, by(k.ballot(id, gate.Approve, ""), "bob"))
		k.refuses(id, gate.Conflict, gate.ReasonAlreadyDecided, func() error {
			err := second(k.Vote(k.Context(), id, old))
			if err != gate.ErrMoved { //nolint:errorlint // callers compare the sentinel itself
				k.Errorf("Vote = %v, want ErrMoved", err)
			}
			return err
		})
	},
	"a vote for what was not shown is not taken": func(k *kit) {
		id := k.open()
		b := k.ballot(id, gate.Approve, gate.Approved)
		b.Digest = k.question(otherCall).Digest
		k.refuses(id, gate.Conflict, gate.ReasonDigestMismatch, func() error { return second(k.Vote(k.Context(), id, b)) })
	},
	"a late vote is refused though nobody swept": func(k *kit) {
		id := k.open(expires(k.Brief))
		b := k.ballot(id, gate.Approve, gate.Approved)
		k.Advance(k.T, k.Brief)
		if _, err := k.Vote(k.Context(), id, b); !errors.Is(err, gate.Conflict) {
			k.Errorf("late vote = %v, want Conflict", err)
		}
		if s := k.state(id, gate.Expired); len(s.Votes) != 0 || s.Reason != gate.ReasonExpired {
			k.Errorf("%d votes, reason %q", len(s.Votes), s.Reason)
		}
	},
	"racing votes settle once": func(k *kit) {
		id := k.open()
		b := k.ballot(id, gate.Approve, gate.Approved)
		got := race(16, func(i int) error {
			settle := by(b, fmt.Sprint("person", i))
			if i%2 == 1 {
				settle.Settles, settle.Vote.Choice = gate.Denied, gate.Deny
			}
			return second(k.Vote(k.Context(), id, settle))
		})
		if got["<nil>"] != 1 || got[gate.ErrMoved.Error()] != 15 {
			k.Errorf("got %v, want one winner", got)
		}
	},
	"a late denial takes an approval back": func(k *kit) {
		for _, bring := range []func() gate.ID{
			func() gate.ID { id := k.open(); k.approve(id); return id },
			func() gate.ID { id := k.open(runBy("ops")); k.approve(id); k.lease("ops", "w"); return id },
		} {
			id := bring()
			k.vote(id, by(k.ballot(id, gate.Deny, gate.Revoked), "bob"))
			if s := k.state(id, gate.Revoked); s.By != "bob" || s.Reason != gate.ReasonRevoked || s.Ended.IsZero() || len(s.Votes) != 2 {
				k.Errorf("by %q, reason %q, ended %v, %d votes", s.By, s.Reason, s.Ended, len(s.Votes))
			}
		}
	},
	"a vote settles only what it can": func(k *kit) {
		id := k.open()
		k.refuses(id, gate.Conflict, gate.ReasonAlreadyDecided, func() error {
			return second(k.Vote(k.Context(), id, k.ballot(id, gate.Deny, gate.Revoked)))
		})
		k.refuses(id, gate.Invalid, gate.ReasonGateError, func() error {
			return second(k.Vote(k.Context(), id, k.ballot(id, gate.Approve, gate.Executing)))
		})
		k.approve(id)
		for _, settles := range []gate.State{"", gate.Approved, gate.Denied} {
			k.refuses(id, gate.Conflict, gate.ReasonAlreadyDecided, func() error {
				return second(k.Vote(k.Context(), id, by(k.ballot(id, gate.Approve, settles), "bob")))
			})
		}
		k.consume(id)
		k.refuses(id, gate.Conflict, gate.ReasonSpent, func() error {
			return second(k.Vote(k.Context(), id, by(k.ballot(id, gate.Deny, gate.Revoked), "bob")))
		})
	},
	"a discretionary approval ends approved": func(k *kit) {
		id := k.open(discretionary, func(o *gate.Opening) { o.Executor = "ops" })
		s := k.approve(id)
		if s.Ended.IsZero() || !s.RunBy.IsZero() || s.Stale() {
			k.Errorf("ended %v, run by %v, stale %t", s.Ended, s.RunBy, s.Stale())
		}
		k.noLease("ops")
		k.refuses(id, gate.Conflict, gate.ReasonAlreadyDecided, func() error {
			return second(k.Consume(k.Context(), id, k.consumption(id)))
		})
		k.refuses(id, gate.Conflict, gate.ReasonAlreadyDecided, func() error {
			return second(k.Vote(k.Context(), id, by(k.ballot(id, gate.Deny, gate.Revoked), "bob")))
		})
		if _, next, err := k.Sweep(k.Context(), 100); next != 0 || err != nil {
			k.Errorf("the next move is due in %v, %v; want none", next, err)
		}
		if got := k.ids(gate.Query{State: gate.Approved}); len(got) != 1 {
			k.Errorf("approved: %v, want it listed", got)
		}
	},
	"questions and answers are kept in their order": func(k *kit) {
		id := k.open()
		k.ok(k.Ask(k.Context(), id, k.get(id).Rev, gate.Question{By: "Ann", Text: "which pod?"}))
		k.ok(k.Ask(k.Context(), id, k.get(id).Rev, gate.Question{By: "Bob", Text: "why now?"}))
		if s := k.get(id); !s.Asked() || s.State != gate.Pending {
			k.Errorf("asked %t, state %s", s.Asked(), s.State)
		}
		k.ok(k.Answer(k.Context(), id, k.get(id).Rev, "web-1, it hangs"))
		k.ok(k.Ask(k.Context(), id, k.get(id).Rev, gate.Question{By: "Ann", Text: "sure?"}))
		s := k.get(id)
		want := []gate.Question{
			{By: "Ann", Text: "which pod?", Answer: "web-1, it hangs"},
			{By: "Bob", Text: "why now?", Answer: "web-1, it hangs"},
			{By: "Ann", Text: "sure?"},
		}
		for i := range s.Questions {
			if at := s.Questions[i].At; at.Before(s.Created) || at.After(s.Now) {
				k.Errorf("question %d asked at %v", i, at)
			}
			s.Questions[i].At = time.Time{}
		}
		if diff := cmp.Diff(want, s.Questions); diff != "" {
			k.Errorf("questions (-want +got):\n%s", diff)
		}
	},
	"a repeated question or answer is the same one": func(k *kit) {
		id := k.open()
		rev := k.get(id).Rev
		ask := func() error { return k.Ask(k.Context(), id, rev, gate.Question{By: "Ann", Text: "why?"}) }
		k.ok(ask())
		k.repeats(id, ask)
		answer := func() error { return k.Answer(k.Context(), id, rev+1, "so") }
		k.ok(answer())
		k.repeats(id, answer)
		k.deny(id)
		k.repeats(id, answer)
	},
	"nobody is asked a sixth time": func(k *kit) {
		id := k.open()
		for i := range 5 {
			k.ok(k.Ask(k.Context(), id, k.get(id).Rev, gate.Question{By: "Ann", Text: fmt.Sprint("why ", i)}))
			k.ok(k.Answer(k.Context(), id, k.get(id).Rev, "so"))
		}
		k.refuses(id, gate.TooMany, gate.ReasonTooManyQuestions, func() error {
			return k.Ask(k.Context(), id, k.get(id).Rev, gate.Question{By: "Ann", Text: "why 5"})
		})
	},
	"questions and answers come in time, to what was read": func(k *kit) {
		id := k.open()
		rev := k.get(id).Rev
		k.refuses(id, gate.Conflict, gate.ReasonAlreadyDecided, func() error { return k.Answer(k.Context(), id, rev, "unasked") })
		k.refuses(id, gate.Conflict, gate.ReasonAlreadyDecided, func() error {
			return k.Ask(k.Context(), id, rev+1, gate.Question{By: "Ann", Text: "why?"})
		})
		k.ok(k.Ask(k.Context(), id, rev, gate.Question{By: "Ann", Text: "why?"}))
		k.refuses(id, gate.Conflict, gate.ReasonAlreadyDecided, func() error { return k.Answer(k.Context(), id, rev, "so") })
		k.deny(id)
		k.refuses(id, gate.Conflict, gate.ReasonDenied, func() error { return k.Answer(k.Context(), id, k.get(id).Rev, "so") })
		k.refuses(id, gate.Conflict, gate.ReasonDenied, func() error {
			return k.Ask(k.Context(), id, k.get(id).Rev, gate.Question{By: "Bob", Text: "what?"})
		})
	},
	"a question does not move the deadline": func(k *kit) {
		id := k.open(expires(k.Brief))
		before := k.get(id).Expires
		k.ok(k.Ask(k.Context(), id, k.get(id).Rev, gate.Question{By: "Ann", Text: "why?"}))
		if after := k.get(id).Expires; !after.Equal(before) {
			k.Errorf("expires %v, before %v", after, before)
		}
		k.Advance(k.T, k.Brief)
		if err := k.Answer(k.Context(), id, k.get(id).Rev, "so"); !errors.Is(err, gate.Conflict) || gate.ReasonOf(err) != gate.ReasonExpired {
			k.Errorf("late answer = %v, want a Conflict (expired)", err)
		}
	},
	"deferring stops the wait and starts the long deadline": func(k *kit) {
		id := k.open(inline(time.Minute), expires(time.Hour))
		k.ok(k.Defer(k.Context(), id))
		s := k.state(id, gate.Pending)
		if s.Mode != gate.Deferred || !s.InlineUntil.IsZero() || s.Expires.Before(s.Created.Add(time.Hour)) || s.Expires.After(s.Now.Add(time.Hour)) {
			k.Errorf("mode %s, inline until %v, expires %v (created %v)", s.Mode, s.InlineUntil, s.Expires, s.Created)
		}
		k.repeats(id, func() error { return k.Defer(k.Context(), id) })
		k.deny(id)
		k.refuses(id, gate.Conflict, gate.ReasonDenied, func() error { return k.Defer(k.Context(), id) })
	},
	"a withdrawal says why, once": func(k *kit) {
		w := gate.Withdrawal{Event: gate.EventCancel, Reason: gate.ReasonUndeliverable, By: "approvalbot", Note: "no card"}
		id := k.open()
		k.ok(k.Withdraw(k.Context(), id, w))
		if s := k.state(id, gate.Cancelled); s.Reason != w.Reason || s.By != w.By || s.Note != w.Note || s.Ended.IsZero() {
			k.Errorf("reason %q, by %q, note %q, ended %v", s.Reason, s.By, s.Note, s.Ended)
		}
		k.repeats(id, func() error { return k.Withdraw(k.Context(), id, w) })
		w.Reason = gate.ReasonCancelled
		k.refuses(id, gate.Conflict, gate.ReasonUndeliverable, func() error { return k.Withdraw(k.Context(), id, w) })
		w.Event = gate.EventConsumed
		k.refuses(id, gate.Invalid, gate.ReasonGateError, func() error { return k.Withdraw(k.Context(), id, w) })
	},
}
