package bot_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/approvalbot/approvalbot/bot"
	"github.com/approvalbot/approvalbot/channels"
	"github.com/approvalbot/approvalbot/gate"
	"github.com/approvalbot/approvalbot/gate/secret"
)

// shown types show and returns the card that comes of it.
func (c *counter) shown(v gate.Voter, s *gate.Snapshot) *channels.Card {
	c.Helper()
	a := c.types(v, "show "+string(s.ID))
	if a.Card == nil {
		c.Fatalf("shown %q, want a card", a.Lines)
	}
	return a.Card
}

func (c *counter) state(id gate.ID) *gate.Snapshot {
	c.Helper()
	s, err := c.store.Get(c.Context(), id)
	if err != nil {
		c.Fatal(err)
	}
	return &s
}

func pressed(s *gate.Snapshot, v gate.Voter, proof string) channels.Click {
	return channels.Click{Approval: s.ID, Ref: channels.Ref{Place: "slack:C1", Message: "1"}, Proof: proof, Voter: v, Choice: gate.Approve, Nonce: "n " + v.ID}
}

// TestAPrivateCardDecidesOnce presses on what show has shown.
func TestAPrivateCardDecidesOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCounter(t)
		defer func() { _ = c.store.Close() }()
		s := c.asks("two_a", nil)
		first, second := c.shown(ada, s), c.shown(bob, s)
		press := func(k channels.Click, want string, beside bool) {
			t.Helper()
			a := c.commands.Press(t.Context(), k)
			if len(a.Lines) == 0 || !strings.HasPrefix(a.Lines[0], want) || a.Beside != beside {
				t.Errorf("told %q, beside %t; want %q, %t", a.Lines, a.Beside, want, beside)
			}
			if !beside && (a.Card == nil || a.Card.Live() || a.Card.Proof != "") {
				t.Errorf("after %q the card is %+v; want it without buttons", want, a.Card)
			}
		}
		press(pressed(s, ada, first.Proof), "Recorded (1 of 2).", false)
		press(pressed(s, ada, first.Proof), "Recorded (1 of 2).", false) // the platform delivers it twice
		again := pressed(s, ada, first.Proof)
		again.Nonce = "another"
		press(again, "You already approved this; others must too.", false)
		press(pressed(s, bob, second.Proof), "Recorded. Approved by bob, waiting to run until", false)
		late := pressed(s, bob, second.Proof)
		late.Nonce = "another"
		press(late, "bob already approved this at", false)
		if got := c.state(s.ID); got.State != gate.Approved || len(got.Votes) != 2 {
			t.Errorf("it is %s with %d votes", got.State, len(got.Votes))
		}
	})
}

// TestWhoseProofCounts presses with proofs that are not the presser's. None counts
// and none uses up anything: the real one counts afterwards.
func TestWhoseProofCounts(t *testing.T) {
	t.Parallel()
	const notYours, tooOld = "This card was not made for you, or not for this call.", "This card is more than 30 minutes old."
	for name, tt := range map[string]struct {
		proof func(c *counter, s, other *gate.Snapshot) string
		after time.Duration
		want  string
	}{
		"of another person":          {proof: func(c *counter, s, _ *gate.Snapshot) string { return c.shown(ada, s).Proof }, want: notYours},
		"of another approval":        {proof: func(c *counter, _, other *gate.Snapshot) string { return c.shown(bob, other).Proof }, want: notYours},
		"of half an hour ago":        {proof: func(c *counter, s, _ *gate.Snapshot) string { return c.shown(bob, s).Proof }, after: 30 * time.Minute, want: tooOld},
		"of a moment before that":    {proof: func(c *counter, s, _ *gate.Snapshot) string { return c.shown(bob, s).Proof }, after: 30*time.Minute - 5*time.Second},
		"that is cut":                {proof: func(c *counter, s, _ *gate.Snapshot) string { p := c.shown(bob, s).Proof; return p[:len(p)-2] }, want: notYours},
		"that somebody made up":      {proof: func(*counter, *gate.Snapshot, *gate.Snapshot) string { return "zzzzzz.AAAA" }, want: notYours},
		"that is no proof":           {proof: func(*counter, *gate.Snapshot, *gate.Snapshot) string { return "." }, want: notYours},
		"of another call":            {proof: otherCall, want: notYours},
		"of another server":          {proof: otherServer, want: notYours},
		"none, on a card of nowhere": {proof: func(*counter, *gate.Snapshot, *gate.Snapshot) string { return "" }, want: "This is not a card of an approval here."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := newCounter(t)
				defer func() { _ = c.store.Close() }()
				s, other := c.asks("kubectl_a", nil), c.asks("kubectl_b", nil)
				k := pressed(s, bob, tt.proof(c, s, other))
				passes(tt.after)
				a := c.commands.Press(t.Context(), k)
				if tt.want == "" {
					if got := c.state(s.ID).State; got != gate.Approved {
						t.Errorf("told %q, and it is %s", a.Lines, got)
					}
					return
				}
				if !strings.HasPrefix(a.Lines[0], tt.want) || a.Card != nil || !a.Beside {
					t.Errorf("told %q with card %v, beside %t; want %q beside it", a.Lines, a.Card, a.Beside, tt.want)
				}
				if got := c.state(s.ID); got.State != gate.Pending || len(got.Votes) != 0 {
					t.Errorf("it is %s with %d votes", got.State, len(got.Votes))
				}
				k.Proof = c.shown(bob, s).Proof
				c.commands.Press(t.Context(), k)
				if got := c.state(s.ID).State; got != gate.Approved {
					t.Errorf("with a proof of their own it is %s", got)
				}
			})
		})
	}
}

func otherCall(c *counter, s, _ *gate.Snapshot) string {
	d := s.Digest
	d[0]++
	return c.keys.ProveCard(s.ID, d, bob.ID, s.Now.Add(gate.ProofLife))
}

func otherServer(c *counter, s, _ *gate.Snapshot) string {
	keys, err := gate.NewKeyring(secret.New(strings.Repeat("x", gate.MinServerKey)))
	if err != nil {
		c.Fatal(err)
	}
	return keys.ProveCard(s.ID, s.Digest, bob.ID, s.Now.Add(gate.ProofLife))
}

// TestAProofGivesNoRight presses with a genuine proof as somebody who may see the
// call and not decide on it.
func TestAProofGivesNoRight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCounter(t)
		defer func() { _ = c.store.Close() }()
		s := c.asks("kubectl_a", nil)
		if card := c.shown(zoe, s); card.Live() || card.Proof != "" {
			t.Errorf("who asked is shown buttons: %+v", card)
		}
		a := c.commands.Press(t.Context(), pressed(s, zoe, c.keys.ProveCard(s.ID, s.Digest, zoe.ID, s.Now.Add(time.Minute))))
		if a.Lines[0] != gate.PressSelf || c.state(s.ID).State != gate.Pending {
			t.Errorf("told %q, and it is %s", a.Lines, c.state(s.ID).State)
		}
		c.commands.Clicks.Private = nil
		if got := c.commands.Clicks.Press(t.Context(), pressed(s, ada, c.keys.ProveCard(s.ID, s.Digest, ada.ID, s.Now.Add(time.Minute)))); !strings.HasPrefix(got, "This is not a card of an approval here.") {
			t.Errorf("where there are no private cards: told %q", got)
		}
	})
}

// TestADenialOfAPrivateCardSaysWhy has a rule that wants a reason.
func TestADenialOfAPrivateCardSaysWhy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCounter(t)
		defer func() { _ = c.store.Close() }()
		s := c.asks("db_drop", nil)
		k := pressed(s, dora, c.shown(dora, s).Proof)
		k.Choice = gate.Deny
		if a := c.commands.Press(t.Context(), k); !a.Beside || !strings.HasPrefix(a.Lines[0], "Say why") {
			t.Errorf("told %q, beside %t", a.Lines, a.Beside)
		}
		k.Reason = "wrong cluster"
		if a := c.commands.Press(t.Context(), k); a.Beside || !strings.HasPrefix(a.Lines[0], "Recorded. Denied by dora") || a.Card.Live() {
			t.Errorf("told %q, beside %t", a.Lines, a.Beside)
		}
	})
}

// crowd is a desk of any number of pending approvals.
type crowd struct {
	bot.Desk
	policy *gate.Policy
	rows   int
	lists  int
	err    error
}

func (c *crowd) Policy() *gate.Policy { return c.policy }
func (c *crowd) Shown(s *gate.Snapshot) (args json.RawMessage, covered bool) {
	return s.Call.Args, false
}

func (c *crowd) Get(context.Context, gate.Principal, gate.ID) (gate.View, error) {
	return gate.View{}, &gate.Error{Kind: gate.Unavailable, Reason: gate.ReasonStoreUnavailable}
}

func (c *crowd) List(ctx context.Context, _ gate.Principal, q gate.Query) (gate.Page, error) {
	if c.err != nil {
		return gate.Page{}, c.err
	}
	if c.lists++; c.rows < 0 { // the store does not answer
		<-ctx.Done()
		return gate.Page{}, &gate.Error{Kind: gate.Unavailable, Reason: gate.ReasonStoreUnavailable, Err: ctx.Err()}
	}
	from := 0
	_, _ = fmt.Sscan(q.Cursor, &from)
	p := gate.Page{Now: time.Unix(0, 0)}
	for i := from; i < min(from+q.Limit, c.rows); i++ {
		p.Rows = append(p.Rows, gate.Approval{
			ID:      gate.ID(fmt.Sprintf("apr_01JNV4X3T2E6Q1Y5Z8A9B%05d", i)),
			Subject: gate.Subject{Call: gate.Call{Tool: "db_\u202edrop<!channel>"}, Rule: "db", Requester: gate.Requester{Key: "hermes", Agent: "<@U1>\u200b"}},
			State:   gate.Pending, Expires: time.Unix(int64(3600+i), 0), Mode: gate.Deferred,
		})
	}
	if from+q.Limit < c.rows {
		p.Next = fmt.Sprint(from + q.Limit)
	}
	return p, nil
}

func TestAListLooksAtNoMoreThanAThousand(t *testing.T) {
	t.Parallel()
	for rows, want := range map[int][]string{
		1000: {"1000 pending, 1000 for you", "Page 1 of 200."},
		1001: {"1000 pending, 1000 for you", "There are more than 1,000; only the newest of them were looked at.", "Page 1 of 200."},
		9000: {"1000 pending, 1000 for you", "There are more than 1,000; only the newest of them were looked at.", "Page 1 of 200."},
	} {
		d := &crowd{policy: counterPolicy(t), rows: rows}
		a := (&bot.Commands{Gate: d, Log: slog.New(slog.DiscardHandler)}).Run(t.Context(), channels.Command{Voter: dora})
		if fmt.Sprint(a.Lines) != fmt.Sprint(want) || d.lists > 25 || len(a.Rows) != 5 {
			t.Errorf("of %d: %q and %d rows after %d reads; want %q", rows, a.Lines, len(a.Rows), d.lists, want)
		}
		if text := fmt.Sprint(a.Rows); strings.ContainsAny(text, "\u202e\u200b") || !strings.Contains(text, `db_\u202edrop<!channel>`) {
			t.Errorf("it says %.200q", text)
		}
		if rows == 1000 {
			continue
		}
		a = (&bot.Commands{Gate: d, Log: slog.New(slog.DiscardHandler)}).Run(t.Context(), channels.Command{Voter: dora, Text: "answer 00007 because"})
		if want := "There are too many approvals to be sure"; !strings.HasPrefix(a.Lines[0], want) {
			t.Errorf("of %d an answer is told %q, want %q", rows, a.Lines, want)
		}
	}
}

func TestACommandWhileNothingAnswers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		for text, want := range map[string]string{
			"": "Could not reach the store. Try again in a moment.", "history": "Could not reach the store. Try again in a moment.",
			"show 4F9K2M": "Could not reach the store. Try again in a moment.", "answer 4F9K2M yes": "Could not reach the store. Try again in a moment.",
		} {
			d := &crowd{policy: counterPolicy(t), rows: -1}
			a := (&bot.Commands{Gate: d, Log: slog.New(slog.DiscardHandler)}).Run(t.Context(), channels.Command{Voter: dora, Text: text})
			if len(a.Lines) != 1 || a.Lines[0] != want {
				t.Errorf("%q is told %q, want %q", text, a.Lines, want)
			}
		}
		if took := time.Since(start); took > 45*time.Second {
			t.Errorf("people waited %v", took)
		}
		d := &crowd{policy: counterPolicy(t), err: errors.New("redis: secret-7")}
		a := (&bot.Commands{Gate: d, Log: slog.New(slog.DiscardHandler)}).Run(t.Context(), channels.Command{Voter: dora})
		if a.Lines[0] != "That went wrong. Try again in a moment." {
			t.Errorf("told %q", a.Lines)
		}
	})
}

func FuzzCommand(f *testing.F) {
	for _, text := range []string{"", "pending page 2 mine tool=a*", "show 4F9K2M", "answer apr_01JNV4X3T2E6Q1Y5Z8A9B0C1D2 x", "revoke grt_", "\x00 \u202e", "pending tool=" + strings.Repeat("{", 50)} {
		f.Add(text)
	}
	p := counterPolicy(f)
	f.Fuzz(func(t *testing.T, text string) {
		d := &crowd{policy: p, rows: 7}
		a := (&bot.Commands{Gate: stubborn{d}, Log: slog.New(slog.DiscardHandler)}).Run(t.Context(), channels.Command{Voter: dora, Text: text})
		if len(a.Lines) == 0 {
			t.Error("there is no answer")
		}
		for _, l := range a.Lines {
			if l != gate.Clean(l) && !strings.Contains(l, "  ") || len(l) > 4000 {
				t.Errorf("%q is told %q", text, l)
			}
		}
		for _, b := range a.Buttons { // what a button says is a command
			if again := (&bot.Commands{Gate: stubborn{d}, Log: slog.New(slog.DiscardHandler)}).Run(t.Context(), channels.Command{Voter: dora, Text: b.Command}); strings.HasPrefix(again.Lines[0], "There is no command") {
				t.Errorf("the button %q leads nowhere", b.Command)
			}
		}
	})
}

// stubborn is a desk at which nothing can be done.
type stubborn struct{ *crowd }

func (stubborn) AnswerAs(context.Context, gate.Voter, gate.ID, string) error {
	return &gate.Error{Kind: gate.Forbidden, Public: "no"}
}

func (stubborn) Grants(context.Context, gate.Principal) ([]gate.Grant, error) { return nil, nil }
