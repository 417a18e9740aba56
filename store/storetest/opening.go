package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/approvalbot/approvalbot/gate"
)

var opening = tests{
	"an opened approval is pending and is what was given": func(k *kit) {
		o := k.question(inline(15*time.Minute), expires(72*time.Hour), runBy("ops"))
		_, err := k.Open(k.Context(), o)
		k.ok(err)
		s := k.get(o.ID)
		if diff := cmp.Diff(o.Subject, s.Subject); diff != "" {
			k.Errorf("the subject changed (-given +got):\n%s", diff)
		}
		want := gate.Approval{
			ID: o.ID, Subject: s.Subject, Mode: gate.Inline, State: gate.Pending, Rev: 1, Incarnation: s.Incarnation,
			Created: s.Created, InlineUntil: s.Created.Add(15 * time.Minute), Expires: s.Created.Add(15*time.Minute + 72*time.Hour),
		}
		if diff := cmp.Diff(want, s.Approval); diff != "" {
			k.Errorf("Get (-want +got):\n%s", diff)
		}
		if s.Created.IsZero() || s.Now.Before(s.Created) || s.Stale() || s.Doubtful {
			k.Errorf("created %v, now %v, stale %t, doubtful %t", s.Created, s.Now, s.Stale(), s.Doubtful)
		}
		if k.pending() != 1 {
			k.Errorf("%d are pending, want 1", k.pending())
		}
	},
	"what was denied is known when the same call is asked about again": func(k *kit) {
		approved := k.open()
		k.approve(approved)
		denied := k.open()
		if s := k.get(denied); s.Refused != "" {
			k.Errorf("refused before as %s, which was approved", s.Refused)
		}
		k.deny(denied)
		if s := k.get(k.open()); s.Refused != denied {
			k.Errorf("refused before as %q, want %s", s.Refused, denied)
		}
		if s := k.get(k.open(otherCall)); s.Refused != "" {
			k.Errorf("another call was refused before as %s", s.Refused)
		}
	},
	"an inline question that silence denies expires with its wait": func(k *kit) {
		s := k.get(k.open(inline(time.Minute), func(o *gate.Opening) { o.InlineDeny = true }))
		if want := s.Created.Add(time.Minute); !s.Expires.Equal(want) || !s.InlineUntil.Equal(want) {
			k.Errorf("expires %v, inline until %v; want both %v", s.Expires, s.InlineUntil, want)
		}
	},
	"the same id is opened once": func(k *kit) {
		o := k.question()
		k.ok(second(k.Open(k.Context(), o)))
		k.repeats(o.ID, func() error {
			got, err := k.Open(k.Context(), o)
			if !got.Created {
				k.Error("the repeated Open says that somebody else opened it")
			}
			return err
		})
		otherCall(&o)
		o.Digest, _ = o.Call.Digest()
		k.refuses(o.ID, gate.Conflict, gate.ReasonDigestMismatch, func() error { return second(k.Open(k.Context(), o)) })
	},
	"an idempotency key names one call, in every state": func(k *kit) {
		key := func(o *gate.Opening) { o.Key = "deploy-42" }
		id := k.open(key)
		again := func() { k.repeats(id, func() error { return k.finds(id, k.question(key)) }) }
		again()
		k.deny(id)
		again()
		k.refuses(id, gate.Conflict, gate.ReasonDigestMismatch, func() error {
			return second(k.Open(k.Context(), k.question(key, otherCall)))
		})
		found, err := k.Find(k.Context(), alice.Key, "deploy-42")
		if found != id || err != nil {
			k.Errorf("Find = %s, %v; want %s", found, err, id)
		}
	},
	"an idempotency key belongs to one API key": func(k *kit) {
		k.open(func(o *gate.Opening) { o.Key = "deploy-42" })
		k.open(func(o *gate.Opening) { o.Key, o.Requester.Key = "deploy-42", "other" })
		if _, err := k.Find(k.Context(), "third", "deploy-42"); !errors.Is(err, gate.NotFound) {
			k.Errorf("Find of another's key = %v, want NotFound", err)
		}
	},
	"without a key and without joining each opening is its own": func(k *kit) {
		if a, b := k.open(), k.open(); a == b {
			k.Errorf("two openings share %s", a)
		}
	},
	"joining finds an open approval of the same requester, session and digest": func(k *kit) {
		join := func(o *gate.Opening) { o.Join = true }
		id := k.open()
		k.repeats(id, func() error { return k.finds(id, k.question(join)) })
		k.approve(id)
		k.repeats(id, func() error { return k.finds(id, k.question(join)) })
		k.open(join, otherCall)
		k.open(join, session("s-2"))
		k.open(join, func(o *gate.Opening) { o.Requester.Agent = "codex" })
		k.open(join, discretionary)
		k.consume(id)
		k.open(join)
	},
	"joining finds the newest": func(k *kit) {
		old, id := k.open(), k.open()
		k.deny(old)
		k.ok(k.finds(id, k.question(func(o *gate.Opening) { o.Join = true })))
	},
	"one requester has no more than the cap pending": func(k *kit) {
		capped := func(o *gate.Opening) { o.Cap = 2 }
		first := k.open(capped)
		k.open(capped)
		full := func() {
			k.Helper()
			k.refuses(first, gate.TooMany, gate.ReasonRateLimited, func() error { return second(k.Open(k.Context(), k.question(capped))) })
		}
		full()
		full() // a refusal counts nothing
		k.open(capped, func(o *gate.Opening) { o.Requester.Person = "bob" })
		k.open(func(o *gate.Opening) { o.Cap = 3 })
		full()
	},
	"the cap is free again when a question ends, however it ends": func(k *kit) {
		for how, end := range map[string]func(gate.ID){
			"denied":   k.deny,
			"approved": func(id gate.ID) { k.approve(id) },
			"cancelled": func(id gate.ID) {
				k.ok(k.Withdraw(k.Context(), id, gate.Withdrawal{Event: gate.EventCancel, Reason: gate.ReasonCancelled}))
			},
		} {
			capped := func(o *gate.Opening) { o.Cap, o.Requester.Person = 1, how }
			end(k.open(capped))
			end(k.open(capped))
		}
	},
	"the cap is free again when a question expires": func(k *kit) {
		capped := func(o *gate.Opening) { o.Cap = 1 }
		k.open(capped, expires(k.Brief))
		k.Advance(k.T, k.Brief)
		k.sweep()
		k.open(capped)
	},
	"an ended session opens nothing inline": func(k *kit) {
		k.ok(k.EndSession(k.Context(), alice.Key, "s-1", "hermes"))
		_, err := k.Open(k.Context(), k.question(inline(time.Minute)))
		if !errors.Is(err, gate.Conflict) || gate.ReasonOf(err) != gate.ReasonCancelled {
			k.Errorf("Open = %v (%s), want a Conflict (cancelled)", err, gate.ReasonOf(err))
		}
		k.open()
		k.open(inline(time.Minute), session("s-2"))
		k.open(inline(time.Minute), func(o *gate.Opening) { o.Requester.Key = "other" })
	},
	"what nothing could move on is not opened": func(k *kit) {
		for name, spoil := range map[string]func(*gate.Opening){
			"no id":                   func(o *gate.Opening) { o.ID = "" },
			"an endless id":           func(o *gate.Opening) { o.ID = gate.ID(strings.Repeat("x", 65)) },
			"no digest":               func(o *gate.Opening) { o.Digest = gate.Digest{} },
			"no tool":                 func(o *gate.Opening) { o.Call.Tool = "" },
			"no executor":             func(o *gate.Opening) { o.Executor = "" },
			"no expiry":               func(o *gate.Opening) { o.ExpiresIn = 0 },
			"no mode":                 func(o *gate.Opening) { o.Mode = "" },
			"inline for no time":      func(o *gate.Opening) { o.Mode = gate.Inline },
			"arguments without limit": func(o *gate.Opening) { o.Call.Args = make([]byte, gate.MaxArgs+1) },
			"an intent without limit": func(o *gate.Opening) { o.Intent = strings.Repeat("x", 17<<10) },
			"a mode of another world": func(o *gate.Opening) { o.Mode = "sideways" },
			"a requester without end": func(o *gate.Opening) { o.Requester.Agent = strings.Repeat("x", 17<<10) },
		} {
			o := k.question()
			spoil(&o)
			if _, err := k.Open(k.Context(), o); !errors.Is(err, gate.Invalid) {
				k.Errorf("%s: Open = %v, want Invalid", name, err)
			}
		}
	},
	"a successor takes over, once": func(k *kit) {
		id := k.open(func(o *gate.Opening) { o.Key = "deploy-42" })
		o := k.question(k.replacing(id, gate.EventVoided, gate.ReasonVoid), func(o *gate.Opening) { o.Cap = 1 })
		got, err := k.Open(k.Context(), o)
		if err != nil || !got.Created {
			k.Fatalf("Open = %+v, %v", got, err)
		}
		old := k.state(id, gate.Void)
		if old.Successor != o.ID || old.Reason != gate.ReasonVoid || old.Ended.IsZero() {
			k.Errorf("the replaced one has successor %q, reason %q, ended %v", old.Successor, old.Reason, old.Ended)
		}
		if s := k.state(o.ID, gate.Pending); s.Predecessor != id {
			k.Errorf("predecessor = %q, want %s", s.Predecessor, id)
		}
		if found, err := k.Find(k.Context(), alice.Key, "deploy-42"); found != o.ID {
			k.Errorf("the key names %s, %v; want the successor", found, err)
		}
		k.repeats(o.ID, func() error { return second(k.Open(k.Context(), o)) })
		late := k.question(func(l *gate.Opening) {
			l.Replaces, l.ReplacedBy, l.ReplaceWhy, l.ReplaceRev = id, gate.EventVoided, gate.ReasonVoid, o.ReplaceRev
		})
		k.repeats(id, func() error { return k.finds(o.ID, late) })
		if k.pending() != 1 {
			k.Errorf("%d are pending, want 1", k.pending())
		}
	},
	"a policy that changed revokes what was approved, not what is pending": func(k *kit) {
		id := k.open()
		k.refuses(id, gate.Conflict, gate.ReasonAlreadyDecided, func() error {
			return second(k.Open(k.Context(), k.question(k.replacing(id, gate.EventRevoked, gate.ReasonPolicyChanged))))
		})
		k.approve(id)
		o := k.question(k.replacing(id, gate.EventRevoked, gate.ReasonPolicyChanged))
		k.ok(second(k.Open(k.Context(), o)))
		if s := k.state(id, gate.Revoked); s.Reason != gate.ReasonPolicyChanged || s.Successor != o.ID {
			k.Errorf("reason %q, successor %q", s.Reason, s.Successor)
		}
	},
	"only an approval as it was looked at is replaced": func(k *kit) {
		id := k.open()
		replace := k.replacing(id, gate.EventVoided, gate.ReasonVoid)
		k.vote(id, k.ballot(id, gate.Approve, ""))
		k.refuses(id, gate.Conflict, gate.ReasonAlreadyDecided, func() error {
			err := second(k.Open(k.Context(), k.question(replace)))
			if !errors.Is(err, gate.ErrMoved) {
				k.Errorf("Open = %v, want ErrMoved", err)
			}
			return err
		})
		k.deny(id)
		k.refuses(id, gate.Conflict, gate.ReasonDenied, func() error {
			return second(k.Open(k.Context(), k.question(k.replacing(id, gate.EventVoided, gate.ReasonVoid))))
		})
		if got := k.ids(gate.Query{}); !slices.Equal(got, []gate.ID{id}) {
			k.Errorf("there are %v, want %s alone", got, id)
		}
	},
	"racing replacers make one successor": func(k *kit) {
		id := k.open()
		replace := k.replacing(id, gate.EventVoided, gate.ReasonVoid)
		made := race(8, func(int) error {
			got, err := k.Open(k.Context(), k.question(replace))
			if err == nil && !got.Created {
				err = errors.New("found")
			}
			return err
		})
		if made["<nil>"] != 1 || made["found"] != 7 {
			k.Errorf("got %v, want one made and seven who found it", made)
		}
	},
	"nobody knows what was never opened": func(k *kit) {
		ctx, id := k.Context(), newID()
		for name, f := range map[string]func() error{
			"Get":      func() error { return second(k.Get(ctx, id)) },
			"Vote":     func() error { return second(k.Vote(ctx, id, gate.Ballot{Settles: gate.Denied})) },
			"Ask":      func() error { return k.Ask(ctx, id, 1, gate.Question{Text: "why?"}) },
			"Answer":   func() error { return k.Answer(ctx, id, 1, "so") },
			"Consume":  func() error { return second(k.Consume(ctx, id, gate.Consumption{Attempt: newAttempt()})) },
			"Report":   func() error { return k.Report(ctx, id, gate.Report{Outcome: gate.Executed}) },
			"Withdraw": func() error { return k.Withdraw(ctx, id, gate.Withdrawal{Event: gate.EventCancel}) },
			"Defer":    func() error { return k.Defer(ctx, id) },
			"Renew":    func() error { return second(k.Renew(ctx, id, "w", 1, time.Hour, time.Hour)) },
			"Release":  func() error { return k.Release(ctx, id, "w", 1) },
			"Open": func() error {
				return second(k.Open(ctx, k.question(func(o *gate.Opening) { o.Replaces, o.ReplacedBy = id, gate.EventVoided })))
			},
		} {
			if err := f(); !errors.Is(err, gate.NotFound) || gate.ReasonOf(err) != gate.ReasonNotFound {
				k.Errorf("%s = %v, want NotFound", name, err)
			}
		}
	},
}

// finds opens o and wants the approval id instead.
func (k *kit) finds(id gate.ID, o gate.Opening) error {
	got, err := k.Open(k.Context(), o)
	if err == nil && (got.ID != id || got.Created) {
		err = fmt.Errorf("opened %+v, want %s found", got, id)
	}
	return err
}

// replacing says that an opening takes the place of id as it is now.
func (k *kit) replacing(id gate.ID, how gate.Event, why gate.Reason) func(*gate.Opening) {
	k.Helper()
	rev := k.get(id).Rev
	return func(o *gate.Opening) { o.Replaces, o.ReplacedBy, o.ReplaceWhy, o.ReplaceRev = id, how, why, rev }
}

func second[T any](_ T, err error) error { return err }
