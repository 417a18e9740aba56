package bot_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/approvalbot/approvalbot/bot"
	"github.com/approvalbot/approvalbot/channels"
	"github.com/approvalbot/approvalbot/channels/channeltest"
	"github.com/approvalbot/approvalbot/gate"
)

func TestEveryPressIsAnswered(t *testing.T) {
	t.Parallel()
	bo := gate.Voter{ID: "key:bo", Name: "bo", Person: "bo", Surface: "api", Login: "key"}
	stranger := gate.Voter{ID: "fake:U9", Name: "mallory", Surface: "fake", Login: "platform"}
	for name, tt := range map[string]struct {
		tool  string
		by    gate.Voter
		first gate.Choice // what ann has said before
		click func(*channels.Click)
		want  string
		state gate.State
	}{
		"the first of two":               {tool: "two", by: ann, want: "Recorded (1 of 2).", state: gate.Pending},
		"the second":                     {tool: "two", by: bo, first: gate.Approve, want: "Recorded. Approved by bo, waiting to run until", state: gate.Approved},
		"a denial":                       {tool: "two", by: bo, first: gate.Approve, click: says(gate.Deny, "wrong cluster"), want: `Recorded. Denied by bo`, state: gate.Denied},
		"a question":                     {tool: "two", by: bo, click: says(gate.NeedContext, "why?"), want: "Asked. The call waits for the agent's answer.", state: gate.Pending},
		"an answer of an approver":       {tool: "two", by: bo, click: says(channels.Reply, "because"), want: "Only the person who asked for this call, or their agent, can answer.", state: gate.Pending},
		"a question without words":       {tool: "two", by: bo, click: says(gate.NeedContext, ""), want: "Write the question", state: gate.Pending},
		"the same person again":          {tool: "two", by: ann, first: gate.Approve, want: "You already approved this; others must too.", state: gate.Pending},
		"one who comes too late":         {tool: "held", by: bo, first: gate.Approve, want: "ann already approved this at", state: gate.Approved},
		"a stranger":                     {tool: "held", by: stranger, want: "You are not in sre", state: gate.Pending},
		"a card that is not ours":        {tool: "held", by: ann, click: func(k *channels.Click) { k.Ref.Message = "2" }, want: "This is not a card of an approval here.", state: gate.Pending},
		"an approval that nobody knows":  {tool: "held", by: ann, click: func(k *channels.Click) { k.Approval = "apr_01JNV4X3T2E6Q1Y5Z8A9B0C1D2" }, want: "This is not a card of an approval here.", state: gate.Pending},
		"a card of another installation": {tool: "held", by: ann, click: func(k *channels.Click) { k.Approval, k.Ours = "apr_01JNV4X3T2E6Q1Y5Z8A9B0C1D2", true }, want: "This is not a card of an approval here. Nothing was decided. If the card is new, another approvalbot uses the same app", state: gate.Pending},
		"a scope that is not allowed":    {tool: "held", by: ann, click: func(k *channels.Click) { k.Scope = gate.Always }, want: `This rule does not allow "always"`, state: gate.Pending},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				o := newOffice(t)
				defer func() { _ = o.store.Close() }()
				s := o.asks(tt.tool)
				if tt.first != "" {
					o.presses(s, ann, tt.first)
				}
				shown := gate.Posted{Place: "fake:ops", Message: "1", Rev: 1, Digest: s.Digest.Hex()}
				if err := o.store.PutPosted(t.Context(), s.ID, shown); err != nil {
					t.Fatal(err)
				}
				k := channels.Click{Approval: s.ID, Ref: channels.Ref{Place: "fake:ops", Message: "1"}, Voter: tt.by, Choice: gate.Approve, Nonce: "n"}
				if tt.click != nil {
					tt.click(&k)
				}
				c := &bot.Clicks{Gate: o.gate, Cards: o.store, Log: slog.New(slog.DiscardHandler)}
				if got := c.Press(t.Context(), k); !strings.HasPrefix(got, tt.want) {
					t.Errorf("told %q, want %q", got, tt.want)
				}
				if got := o.state(s.ID).State; got != tt.state {
					t.Errorf("it is %s, want %s", got, tt.state)
				}
			})
		})
	}
}

func says(c gate.Choice, text string) func(*channels.Click) {
	return func(k *channels.Click) { k.Choice, k.Reason = c, text }
}

// TestAPressAnswersForWhatItsCardShowed presses a card that was drawn when
// another call stood on it.
func TestAPressAnswersForWhatItsCardShowed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(t)
		defer func() { _ = o.store.Close() }()
		s := o.asks("held")
		other := s.Digest
		other[0]++
		if err := o.store.PutPosted(t.Context(), s.ID, gate.Posted{Place: "fake:ops", Message: "1", Rev: 1, Digest: other.Hex()}); err != nil {
			t.Fatal(err)
		}
		c := &bot.Clicks{Gate: o.gate, Cards: o.store, Log: slog.New(slog.DiscardHandler)}
		got := c.Press(t.Context(), channels.Click{Approval: s.ID, Ref: channels.Ref{Place: "fake:ops", Message: "1"}, Voter: ann, Choice: gate.Approve})
		if !strings.HasPrefix(got, "This is not the call you were shown.") || o.state(s.ID).State != gate.Pending {
			t.Errorf("told %q, and it is %s", got, o.state(s.ID).State)
		}
	})
}

// TestAButtonAnswersForTheCallItWasDrawnFor presses buttons that say what they were
// drawn for, as their channel has verified.
func TestAButtonAnswersForTheCallItWasDrawnFor(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		choice gate.Choice
		same   bool // as on the card
		want   string
		state  gate.State
	}{
		"the call on the card": {choice: gate.Approve, same: true, want: "Recorded. Approved by ann", state: gate.Approved},
		"another call":         {choice: gate.Approve, want: "This is not the call you were shown.", state: gate.Pending},
		"another, to deny":     {choice: gate.Deny, want: "This is not the call you were shown.", state: gate.Pending},
		"another, to answer":   {choice: channels.Reply, want: "This is not the call you were shown.", state: gate.Pending},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				o := newOffice(t)
				defer func() { _ = o.store.Close() }()
				s := o.asks("held")
				if err := o.store.PutPosted(t.Context(), s.ID, gate.Posted{Place: "fake:ops", Message: "1", Rev: 1, Digest: s.Digest.Hex()}); err != nil {
					t.Fatal(err)
				}
				k := channels.Click{Approval: s.ID, Ref: channels.Ref{Place: "fake:ops", Message: "1"}, Voter: ann, Choice: tt.choice, Reason: "so", Digest: s.Digest}
				if !tt.same {
					k.Digest[31]++
				}
				c := &bot.Clicks{Gate: o.gate, Cards: o.store, Log: slog.New(slog.DiscardHandler)}
				if got := c.Press(t.Context(), k); !strings.HasPrefix(got, tt.want) || o.state(s.ID).State != tt.state {
					t.Errorf("told %q, and it is %s; want %q, %s", got, o.state(s.ID).State, tt.want, tt.state)
				}
			})
		})
	}
}

// TestAPlantedCardDecidesNothing presses what somebody else has posted with the
// buttons of a card, in its own conversation: before its post was answered, and
// after.
func TestAPlantedCardDecidesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(t)
		defer func() { _ = o.store.Close() }()
		s := o.asks("held")
		c := &bot.Clicks{Gate: o.gate, Cards: o.store, Log: slog.New(slog.DiscardHandler)}
		press := func(message string, ours bool) string {
			return c.Press(t.Context(), channels.Click{
				Approval: s.ID, Ref: channels.Ref{Place: "fake:ops", Message: message}, Ours: ours, Digest: s.Digest, Voter: ann, Choice: gate.Approve, Nonce: message,
			})
		}
		var early []string
		stop := o.dispatches("a", &slowPost{Fake: o.fake, press: func() { early = append(early, press("planted", false), press("1", false)) }})
		o.passes(10 * time.Second)
		early = append(early, press("planted", false))
		for i, got := range early {
			if !strings.HasPrefix(got, "This is not a card of an approval here. Nothing was decided.") {
				t.Errorf("press %d is told %q", i, got)
			}
		}
		posted, err := o.store.Posted(t.Context(), s.ID)
		if err != nil || len(posted) != 1 || posted[0].Message != "1" || o.state(s.ID).State != gate.Pending {
			t.Errorf("its cards are %+v, %v, and it is %s; want the one, pending", posted, err, o.state(s.ID).State)
		}
		if got := press("1", false); !strings.HasPrefix(got, "Recorded. Approved by ann") {
			t.Errorf("the genuine press afterwards is told %q", got)
		}
		stop()
	})
}

// noted has one card.
type noted struct{ gate.Cards }

func (noted) Posted(context.Context, gate.ID) ([]gate.Posted, error) {
	return []gate.Posted{{Place: "fake:ops", Message: "1", Rev: 1, Digest: strings.Repeat("0", 64)}}, nil
}

// broken is a gate that decides nothing.
type broken struct{ err error }

func (b broken) Decide(ctx context.Context, _ gate.Decision) (gate.Tally, error) {
	if b.err == nil {
		<-ctx.Done()
		return gate.Tally{}, &gate.Error{Kind: gate.Unavailable, Reason: gate.ReasonStoreUnavailable, Err: ctx.Err()}
	}
	return gate.Tally{}, b.err
}

func (b broken) AnswerAs(context.Context, gate.Voter, gate.ID, string) error { return b.err }

func (b broken) Settle(context.Context, gate.ID, gate.Voter, gate.State, string) error { return b.err }

func (b broken) Rerun(context.Context, gate.ID, gate.Voter) (gate.ID, error) { return "", b.err }

// TestAnUnknownOutcomeIsSettledByAPress presses what is on the card of a call that
// was started and never reported.
func TestAnUnknownOutcomeIsSettledByAPress(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		by     gate.Voter
		choice gate.Choice
		want   string
		state  gate.State
		again  bool
	}{
		"it ran":          {ann, channels.Ran, "Recorded: it ran.", gate.Executed, false},
		"it did not run":  {ann, channels.NotRun, "Recorded: it did not run.", gate.Failed, false},
		"run it again":    {ann, channels.RunAgain, "People are asked whether to run it again, as apr_", gate.OutcomeUnknown, true},
		"a stranger says": {gate.Voter{ID: "fake:U9", Name: "mallory", Surface: "fake", Login: "platform"}, channels.Ran, "You are not in sre", gate.OutcomeUnknown, false},
		"a stranger asks": {gate.Voter{ID: "fake:U9", Name: "mallory", Surface: "fake", Login: "platform"}, channels.RunAgain, "You are not in sre", gate.OutcomeUnknown, false},
		"approving it":    {ann, gate.Approve, "Started ", gate.OutcomeUnknown, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				o := newOffice(t)
				defer func() { _ = o.store.Close() }()
				s := o.unknown("held")
				shown := gate.Posted{Place: "fake:ops", Message: "1", Rev: 1, Digest: s.Digest.Hex()}
				if err := o.store.PutPosted(t.Context(), s.ID, shown); err != nil {
					t.Fatal(err)
				}
				k := channels.Click{Approval: s.ID, Ref: channels.Ref{Place: "fake:ops", Message: "1"}, Voter: tt.by, Choice: tt.choice, Nonce: "n"}
				c := &bot.Clicks{Gate: o.gate, Cards: o.store, Log: slog.New(slog.DiscardHandler)}
				if got := c.Press(t.Context(), k); !strings.HasPrefix(got, tt.want) {
					t.Errorf("told %q, want %q", got, tt.want)
				}
				after, err := o.store.Get(t.Context(), s.ID)
				if err != nil || after.State != tt.state || (after.Successor != "") != tt.again {
					t.Errorf("it is %s, successor %q, %v; want %s", after.State, after.Successor, err, tt.state)
				}
			})
		})
	}
}

func TestWhatIsBrokenIsSaidWithoutItsCause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		for err, want := range map[error]string{
			nil:                           gate.PressStoreDown,
			errors.New("redis: secret-7"): "Could not record your answer. Nothing was decided; press again.",
			&gate.Error{Kind: gate.Unavailable, Reason: gate.ReasonIdentityUnavailable, Err: errors.New("secret-7")}: "Could not look up who may decide. Nothing was decided; press again.",
		} {
			c := &bot.Clicks{Gate: broken{err}, Cards: noted{}, Log: slog.New(slog.DiscardHandler)}
			if got := c.Press(t.Context(), channels.Click{Ref: channels.Ref{Place: "fake:ops", Message: "1"}}); got != want {
				t.Errorf("%v: told %q, want %q", err, got, want)
			}
		}
		if took := time.Since(start); took > 11*time.Second {
			t.Errorf("the presser waited %v", took)
		}
	})
}

// TestAPressMayComeBeforeThePostWasAnswered presses a card whose place nobody has
// stored yet: the platform showed it before it answered.
func TestAPressMayComeBeforeThePostWasAnswered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(t)
		defer func() { _ = o.store.Close() }()
		s := o.asks("held")
		c := &bot.Clicks{Gate: o.gate, Cards: o.store, Log: slog.New(slog.DiscardHandler)}
		var told string
		slow := &slowPost{Fake: o.fake, press: func() {
			told = c.Press(t.Context(), channels.Click{Approval: s.ID, Ref: channels.Ref{Place: "fake:ops", Message: "1"}, Ours: true, Voter: ann, Choice: gate.Deny, Nonce: "n"})
		}}
		stop := o.dispatches("a", slow)
		o.passes(10 * time.Second)
		stop()
		if !strings.HasPrefix(told, "Recorded. Denied by ann") {
			t.Errorf("told %q", told)
		}
		if m := o.card(s.ID); m.Card.Live() || !strings.HasPrefix(m.Card.Line, "Denied by ann") {
			t.Errorf("the card says %q, live %t", m.Card.Line, m.Card.Live())
		}
	})
}

// slowPost answers a post some time after people have seen and pressed it.
type slowPost struct {
	*channeltest.Fake
	press func()
}

func (s *slowPost) Post(ctx context.Context, to gate.Conversation, c *channels.Card) (channels.Ref, error) {
	ref, err := s.Fake.Post(ctx, to, c)
	s.press()
	<-time.After(2 * time.Second)
	return ref, err
}

// TestACardWhoseAnswerWasLostIsOne presses a card that nobody knew was there,
// beside one that everybody knows.
func TestACardWhoseAnswerWasLostIsOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(t)
		defer func() { _ = o.store.Close() }()
		o.fake.Breaks(once(channeltest.Fault{Lost: trouble(channels.Unknown, 0)}))
		defer o.dispatches("a", o.fake)()
		s := o.asks("held")
		o.passes(5 * time.Second)
		cards := o.fake.Messages()
		if len(cards) != 2 {
			t.Fatalf("%d cards, want the lost one and another", len(cards))
		}
		c := &bot.Clicks{Gate: o.gate, Cards: o.store, Log: slog.New(slog.DiscardHandler)}
		got := c.Press(t.Context(), channels.Click{Approval: s.ID, Ref: cards[0].Ref, Ours: true, Voter: ann, Choice: gate.Approve})
		if !strings.HasPrefix(got, "Recorded. Approved by ann") {
			t.Errorf("told %q", got)
		}
		o.passes(5 * time.Second)
		for _, m := range o.fake.Messages() {
			if m.Card.Approve || !strings.HasPrefix(m.Card.Line, "Approved by ann") {
				t.Errorf("card %s says %q", m.Message, m.Card.Line)
			}
		}
		elsewhere := channels.Ref{Place: "fake:other", Message: "9"}
		if got := c.Press(t.Context(), channels.Click{Approval: s.ID, Ref: elsewhere, Ours: true, Voter: ann, Choice: gate.Deny}); !strings.HasPrefix(got, "This is not a card") {
			t.Errorf("a card in a conversation without one: %q", got)
		}
	})
}
