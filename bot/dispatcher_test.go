package bot_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/approvalbot/approvalbot/bot"
	"github.com/approvalbot/approvalbot/channels"
	"github.com/approvalbot/approvalbot/channels/channeltest"
	"github.com/approvalbot/approvalbot/gate"
	"github.com/approvalbot/approvalbot/gate/secret"
	"github.com/approvalbot/approvalbot/store"
)

// office is a gate on a store in memory, with a chat whose cards a dispatcher
// draws. It lives in a bubble of synctest.
type office struct {
	*testing.T
	gate  *gate.Gate
	store *store.Redis
	fake  *channeltest.Fake
}

var ann = gate.Voter{ID: "key:ann", Name: "ann", Person: "ann", Surface: "api", Login: "key"}

func newOffice(t *testing.T) *office {
	t.Helper()
	keys, err := gate.NewKeyring(secret.New(strings.Repeat("k", gate.MinServerKey)))
	if err != nil {
		t.Fatal(err)
	}
	s, err := store.OpenMemory(t.Context(), store.Config{Fingerprints: keys.Fingerprints()})
	if err != nil {
		t.Fatal(err)
	}
	hub := bot.NewHub(s, slog.New(slog.DiscardHandler))
	o := &office{T: t, store: s, fake: &channeltest.Fake{}}
	o.gate = gate.New(s, keys, hub, o.policy(2), slog.New(slog.DiscardHandler))
	o.gate.Beat(t.Context(), "r")
	return o
}

// policy holds some tools, one of them until so many have approved.
func (o *office) policy(two int) *gate.Policy {
	o.Helper()
	p, problems := gate.NewPolicy(
		&gate.PolicyConfig{ToolGate: &gate.ToolGateConfig{DefaultMode: "inline", RequireApproval: []string{"held"}, ForceDeferred: []string{"staged"}, Rules: []gate.RuleConfig{
			{Name: "two", Match: gate.MatchConfig{Tool: "two"}, Quorum: &gate.QuorumConfig{Total: two}},
			{Name: "staged", Match: gate.MatchConfig{Tool: "staged"}},
		}}},
		gate.ApproversConfig{Default: []string{"sre"}, Groups: map[string]gate.GroupConfig{"sre": {Keys: []string{"ann", "bo", "cy"}}}}, nil,
		[]gate.Principal{approver("ann"), approver("bo"), approver("cy")}, nil,
	)
	if len(problems) > 0 {
		o.Fatal(problems)
	}
	return p
}

func approver(name string) gate.Principal {
	return gate.Principal{Key: name, Person: name, Roles: []gate.Role{gate.RoleApprover}}
}

// dispatches runs a replica's dispatcher until stop is called.
func (o *office) dispatches(replica string, c channels.Channel, change ...func(*bot.Dispatcher)) (stop func()) {
	o.Helper()
	return o.runs(o.dispatcher(replica, c, change...))
}

// dispatcher is one that does not run.
func (o *office) dispatcher(replica string, c channels.Channel, change ...func(*bot.Dispatcher)) *bot.Dispatcher {
	d := &bot.Dispatcher{
		Cards: o.store, Gate: o.gate, Channels: map[string]channels.Channel{"fake": c}, Replica: replica,
		Log: slog.New(slog.DiscardHandler),
		Route: func(*gate.View) []gate.Conversation {
			return []gate.Conversation{{Place: "fake:ops"}, {Place: "fake:backup"}}
		},
		Card: func(v *gate.View) *channels.Card { return channels.NewCard(v, channels.Context{Args: v.Call.Args}) },
	}
	for _, f := range change {
		f(d)
	}
	return d
}

func (o *office) runs(d *bot.Dispatcher) (stop func()) {
	ctx, cancel := context.WithCancel(o.Context())
	done := make(chan struct{})
	go func() { defer close(done); d.Run(ctx) }()
	return func() { cancel(); <-done }
}

// passes lets time pass, and whatever is due in it happen.
func (o *office) passes(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func (o *office) asks(tool string) *gate.Snapshot {
	o.Helper()
	r, err := o.gate.Check(o.Context(), gate.Request{
		Call: gate.Call{Tool: tool}, Requester: gate.Requester{Key: "hermes", Agent: "claude", Attended: tool != "staged"},
	})
	if err != nil || r.Approval == nil {
		o.Fatalf("Check = %+v, %v", r, err)
	}
	return r.Approval
}

// asksFrom is an inline call that came from a conversation.
func (o *office) asksFrom(origin gate.Conversation) *gate.Snapshot {
	o.Helper()
	r, err := o.gate.Check(o.Context(), gate.Request{
		Call: gate.Call{Tool: "held"}, Requester: gate.Requester{Key: "hermes", Agent: "claude", Attended: true}, Origin: origin,
	})
	if err != nil || r.Approval == nil {
		o.Fatalf("Check = %+v, %v", r, err)
	}
	return r.Approval
}

// places are the conversations in which an approval is shown.
func (o *office) places(id gate.ID) (all []string) {
	for _, m := range o.fake.Messages() {
		if m.Card.Approval == id {
			all = append(all, m.Place)
		}
	}
	return all
}

// nowhereBut lets only some conversations take cards.
func nowhereBut(places ...string) channeltest.Faults {
	return func(op, place string, _ int) channeltest.Fault {
		if op == "post" && !slices.Contains(places, place) {
			return channeltest.Fault{Err: trouble(channels.Nowhere, 0)}
		}
		return channeltest.Fault{}
	}
}

// probed is a Fake that can be asked whether it works.
type probed struct{ *channeltest.Fake }

func (p probed) Probe(ctx context.Context) error {
	return p.Say(ctx, gate.Conversation{Place: "fake:probe"}, "?")
}

func (o *office) presses(s *gate.Snapshot, v gate.Voter, c gate.Choice) {
	o.Helper()
	if _, err := o.gate.Decide(o.Context(), gate.Decision{ID: s.ID, Voter: v, Choice: c, Digest: s.Digest}); err != nil {
		o.Fatalf("Decide = %v", err)
	}
}

// ran is a call that was approved, dispatched, and reported to have ended so.
func (o *office) ran(tool string, outcome gate.State, said string) *gate.Snapshot {
	o.Helper()
	o.gate.Beat(o.Context(), "a")
	s := o.asks(tool)
	o.presses(s, ann, gate.Approve)
	v, err := o.gate.Get(o.Context(), gate.Principal{Key: "hermes", Roles: []gate.Role{gate.RoleAgent}}, s.ID)
	if err != nil {
		o.Fatal(err)
	}
	attempt := strings.Repeat("0a", 16)
	if r, err := o.gate.Consume(o.Context(), gate.Spending{Principal: "hermes", Token: v.Ruling.Token, Attempt: attempt, Call: s.Call}); r.Verdict != gate.Allow {
		o.Fatalf("Consume = %s, %v", r.Verdict, err)
	}
	err = o.gate.Report(o.Context(), gate.Reporting{Principal: "hermes", ID: s.ID, Token: v.Ruling.Token, Attempt: attempt, Outcome: outcome, Result: said})
	if err != nil {
		o.Fatal(err)
	}
	return s
}

// unknown is one of which nobody knows how it ended.
func (o *office) unknown(tool string) *gate.Snapshot {
	return o.ran(tool, gate.OutcomeUnknown, "no answer")
}

// card is the one card of an approval.
func (o *office) card(id gate.ID) channeltest.Message {
	o.Helper()
	var mine []channeltest.Message
	for _, m := range o.fake.Messages() {
		if m.Card.Approval == id {
			mine = append(mine, m)
		}
	}
	if len(mine) != 1 {
		o.Fatalf("%s has %d cards, want one", id, len(mine))
	}
	return mine[0]
}

func trouble(t channels.Trouble, after time.Duration) error {
	return &channels.Error{Op: "fake", Trouble: t, After: after, Err: errors.New("refused")}
}

// also copies cards to another chat.
func also(other *channeltest.Fake) func(*bot.Dispatcher) {
	return func(d *bot.Dispatcher) {
		d.Channels["other"] = other
		d.Also = func(*gate.View) []gate.Conversation {
			return []gate.Conversation{{Place: "fake:ops"}, {Place: "other:ops"}}
		}
	}
}

// closed is a conversation that takes nothing any more.
func closed(where string) channeltest.Faults {
	return func(op, place string, _ int) channeltest.Fault {
		switch {
		case place != where:
			return channeltest.Fault{}
		case op == "update":
			return channeltest.Fault{Err: trouble(channels.Frozen, 0)}
		}
		return channeltest.Fault{Err: trouble(channels.Nowhere, 0)}
	}
}

func always(err error) channeltest.Faults {
	return func(string, string, int) channeltest.Fault { return channeltest.Fault{Err: err} }
}

// once is a fault of the first post.
func once(f channeltest.Fault) channeltest.Faults {
	return func(op, _ string, n int) channeltest.Fault {
		if op == "post" && n == 1 {
			return f
		}
		return channeltest.Fault{}
	}
}

func TestDispatcher(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(*office){
		"a question is shown, and redrawn when it is decided": func(o *office) {
			defer o.dispatches("a", o.fake)()
			s := o.asks("held")
			o.passes(2 * time.Second)
			if m := o.card(s.ID); !m.Card.Approve || m.Place != "fake:ops" {
				o.Errorf("shown in %s, to approve: %t", m.Place, m.Card.Approve)
			}
			if posted, err := o.store.Posted(o.Context(), s.ID); err != nil || len(posted) != 1 || posted[0].Digest != s.Digest.Hex() {
				o.Errorf("kept of it: %+v, %v; want one card with its digest", posted, err)
			}
			o.presses(s, ann, gate.Deny)
			o.passes(2 * time.Second)
			if m := o.card(s.ID); m.Card.Live() || !strings.HasPrefix(m.Card.Line, "Denied by ann") {
				o.Errorf("afterwards it says %q, live %t", m.Card.Line, m.Card.Live())
			}
		},
		"what was opened while nobody drew is shown later": func(o *office) {
			s := o.asks("held")
			defer o.dispatches("a", o.fake)()
			o.passes(2 * time.Second)
			o.card(s.ID)
		},
		"what was decided before anybody drew needs no card": func(o *office) {
			s := o.asks("held")
			o.presses(s, ann, gate.Deny)
			defer o.dispatches("a", o.fake)()
			o.passes(5 * time.Second)
			if n := len(o.fake.Messages()); n != 0 {
				o.Errorf("%d cards, want none", n)
			}
		},
		"two replicas post one card": func(o *office) {
			defer o.dispatches("a", o.fake)()
			defer o.dispatches("b", o.fake)()
			s := o.asks("two")
			o.presses(s, ann, gate.Approve)
			o.passes(10 * time.Second)
			if m := o.card(s.ID); m.Card.Line != "Waiting for 1 of 2 (sre)" {
				o.Errorf("it says %q", m.Card.Line)
			}
		},
		"a busy platform is obeyed": func(o *office) {
			o.fake.Breaks(once(channeltest.Fault{Err: trouble(channels.Busy, 20*time.Second)}))
			defer o.dispatches("a", o.fake)()
			start := time.Now()
			s := o.asks("held")
			o.passes(30 * time.Second)
			if m := o.card(s.ID); m.At.Sub(start) < 20*time.Second {
				o.Errorf("posted after %v, which is too soon", m.At.Sub(start))
			}
		},
		"what fails is tried again soon, and where it was": func(o *office) {
			o.fake.Breaks(func(op, _ string, n int) channeltest.Fault {
				if op == "post" && n <= 3 {
					return channeltest.Fault{Err: trouble(channels.Busy, 0)}
				}
				return channeltest.Fault{}
			})
			defer o.dispatches("a", o.fake)()
			s := o.asks("held")
			o.passes(15 * time.Second)
			if m := o.card(s.ID); m.Place != "fake:ops" {
				o.Errorf("shown in %s", m.Place)
			}
		},
		"a conversation that takes none leaves it to the next": func(o *office) {
			o.fake.Breaks(func(op, place string, _ int) channeltest.Fault {
				if op == "post" && place == "fake:ops" {
					return channeltest.Fault{Err: trouble(channels.Nowhere, 0)}
				}
				return channeltest.Fault{}
			})
			defer o.dispatches("a", o.fake)()
			s := o.asks("held")
			o.passes(2 * time.Second)
			if m := o.card(s.ID); m.Place != "fake:backup" {
				o.Errorf("shown in %s", m.Place)
			}
		},
		"an inline question that can be shown nowhere is undeliverable": func(o *office) {
			o.fake.Breaks(always(trouble(channels.Nowhere, 0)))
			defer o.dispatches("a", o.fake)()
			s := o.asks("held")
			o.passes(3 * time.Second)
			if got := o.state(s.ID); got.State != gate.Cancelled || got.Approval.Reason != gate.ReasonUndeliverable {
				o.Errorf("%s, %s; want cancelled, undeliverable", got.State, got.Approval.Reason)
			}
		},
		"one whose platform is away is given up after a minute": func(o *office) {
			o.fake.Breaks(always(trouble(channels.Busy, 0)))
			defer o.dispatches("a", o.fake)()
			s := o.asks("held")
			o.passes(30 * time.Second)
			if got := o.state(s.ID); got.State != gate.Pending {
				o.Errorf("%s after 30 s, want it to wait", got.State)
			}
			o.passes(70 * time.Second)
			if got := o.state(s.ID); got.Approval.Reason != gate.ReasonUndeliverable {
				o.Errorf("%s, %s after 100 s; want undeliverable", got.State, got.Approval.Reason)
			}
		},
		"a staged one is tried for as long as it lives": func(o *office) {
			o.fake.Breaks(always(trouble(channels.Nowhere, 0)))
			defer o.dispatches("a", o.fake)()
			s := o.asks("staged")
			o.passes(5 * time.Minute)
			o.fake.Breaks(nil)
			o.passes(time.Minute)
			o.card(s.ID)
		},
		"a card whose post was never answered is found": func(o *office) {
			o.fake.Breaks(once(channeltest.Fault{Lost: trouble(channels.Unknown, 0)}))
			defer o.dispatches("a", channeltest.Finding{Fake: o.fake})()
			s := o.asks("held")
			o.passes(5 * time.Second)
			o.card(s.ID)
			o.presses(s, ann, gate.Deny)
			o.passes(5 * time.Second)
			if m := o.card(s.ID); m.Card.Live() {
				o.Error("it was not redrawn")
			}
		},
		"where nobody can look, another is posted": func(o *office) {
			o.fake.Breaks(once(channeltest.Fault{Lost: trouble(channels.Unknown, 0)}))
			defer o.dispatches("a", o.fake)()
			o.asks("held")
			o.passes(5 * time.Second)
			if n := len(o.fake.Messages()); n != 2 {
				o.Errorf("%d cards, want two", n)
			}
		},
		"one that dies before it knows leaves a note, and the next looks": func(o *office) {
			posting := make(chan struct{})
			o.fake.Breaks(func(op, _ string, n int) channeltest.Fault {
				if op == "post" && n == 1 {
					close(posting)
					return channeltest.Fault{Lost: trouble(channels.Unknown, 0)}
				}
				if op == "find" && n == 1 {
					return channeltest.Fault{Err: trouble(channels.Busy, 0)}
				}
				return channeltest.Fault{}
			})
			stop := o.dispatches("a", channeltest.Finding{Fake: o.fake})
			s := o.asks("staged")
			<-posting
			stop()
			defer o.dispatches("b", channeltest.Finding{Fake: o.fake})()
			o.passes(3 * time.Minute)
			o.card(s.ID)
			o.presses(s, ann, gate.Deny)
			o.passes(5 * time.Second)
			if m := o.card(s.ID); m.Card.Live() {
				o.Error("it was not redrawn")
			}
		},
		"one that dies before it knows leaves no live card, though nothing is to be shown any more": func(o *office) {
			posting := make(chan struct{})
			o.fake.Breaks(func(op, _ string, n int) channeltest.Fault {
				if op == "post" && n == 1 {
					close(posting)
					return channeltest.Fault{Lost: trouble(channels.Unknown, 0)}
				}
				if op == "find" && n == 1 {
					return channeltest.Fault{Err: trouble(channels.Busy, 0)}
				}
				return channeltest.Fault{}
			})
			stop := o.dispatches("a", channeltest.Finding{Fake: o.fake})
			s := o.asks("staged")
			<-posting
			stop()
			o.presses(s, ann, gate.Deny)
			defer o.dispatches("b", channeltest.Finding{Fake: o.fake})()
			o.passes(3 * time.Minute)
			if m := o.card(s.ID); m.Card.Live() {
				o.Errorf("it says %q", m.Card.Line)
			}
			if posted, err := o.store.Posted(o.Context(), s.ID); err != nil || len(posted) != 1 || posted[0].Message == "" {
				o.Errorf("written down: %+v, %v", posted, err)
			}
		},
		"a card that cannot be looked for yet is not posted again": func(o *office) {
			o.fake.Breaks(func(op, _ string, n int) channeltest.Fault {
				switch {
				case op == "post" && n == 1:
					return channeltest.Fault{Lost: trouble(channels.Unknown, 0)}
				case op == "find" && n <= 4:
					return channeltest.Fault{Err: trouble(channels.Busy, 0)}
				}
				return channeltest.Fault{}
			})
			defer o.dispatches("a", channeltest.Finding{Fake: o.fake})()
			s := o.asks("held")
			o.passes(30 * time.Second)
			o.card(s.ID)
		},
		"a replica that dies leaves its cards to the others": func(o *office) {
			first := &channeltest.Fake{}
			first.Breaks(always(trouble(channels.Busy, time.Second)))
			stop := o.dispatches("a", first)
			s := o.asks("staged")
			o.passes(2 * time.Second)
			stop() // in the middle of it
			defer o.dispatches("b", o.fake)()
			o.passes(2 * time.Minute)
			o.card(s.ID)
		},
		"one that asks again in another's place takes over its card": func(o *office) {
			defer o.dispatches("a", o.fake)()
			s := o.asks("two")
			o.passes(2 * time.Second)
			before := o.card(s.ID)
			if err := o.gate.SetPolicy(o.Context(), o.policy(3), "test"); err != nil {
				o.Fatal(err)
			}
			o.gate.Beat(o.Context(), "r")
			_, err := o.gate.Decide(o.Context(), gate.Decision{ID: s.ID, Voter: ann, Choice: gate.Approve, Digest: s.Digest})
			after := o.state(s.ID)
			if gate.ReasonOf(err) != gate.ReasonPolicyChanged || after.Successor == "" {
				o.Fatalf("Decide = %v, successor %q", err, after.Successor)
			}
			o.passes(3 * time.Second)
			if m := o.card(after.Successor); m.Ref != before.Ref || m.Drawn != 2 || m.Card.Line != "Waiting for 3 of 3 (sre)" || len(o.fake.Messages()) != 1 {
				o.Errorf("its card is %v and says %q; want it where the other was, %v", m.Ref, m.Card.Line, before.Ref)
			}
		},
		"where no conversation takes it, the approvers are shown it themselves": func(o *office) {
			o.fake.Breaks(nowhereBut("fake:D1", "fake:D2", "fake:oncall"))
			defer o.dispatches("a", o.fake, func(d *bot.Dispatcher) {
				d.Direct = func(context.Context, *gate.View) []gate.Conversation {
					return []gate.Conversation{{Place: "fake:D0"}, {Place: "fake:D1"}, {Place: "fake:D2"}}
				}
				d.Operators = []gate.Conversation{{Place: "fake:oncall"}, {Place: "fake:ops"}}
			})()
			s := o.asks("held")
			o.passes(3 * time.Second)
			o.asks("held")
			o.passes(3 * time.Second)
			if got := o.places(s.ID); !slices.Equal(got, []string{"fake:D1", "fake:D2"}) {
				o.Errorf("shown in %q", got)
			}
			o.presses(s, ann, gate.Deny)
			o.passes(3 * time.Second)
			for _, m := range o.fake.Messages() {
				if m.Card.Approval == s.ID && m.Card.Live() {
					o.Errorf("in %s it can still be pressed", m.Place)
				}
			}
			var said []string // each trouble once, although two cards had it, and none where it is
			for _, text := range o.fake.Said() {
				said = append(said, text[:strings.Index(text, ": fake: refused")])
			}
			if diff := cmp.Diff([]string{
				"fake:oncall: No card can be posted in fake:ops",
				"fake:oncall: No card can be posted in fake:backup",
				"fake:ops: No card can be posted in fake:backup",
			}, said); diff != "" {
				o.Errorf("operators were told (-want +got):\n%s", diff)
			}
		},
		"what the tool said is below the card, once": func(o *office) {
			defer o.dispatches("a", o.fake)()
			s := o.ran("held", gate.Failed, "exit status 1\nno space left")
			o.passes(3 * time.Second)
			m := o.card(s.ID)
			if len(m.Replies) != 1 || !strings.Contains(m.Replies[0], "failed") || !strings.HasSuffix(m.Replies[0], "\nexit status 1\nno space left") {
				o.Errorf("below it: %q", m.Replies)
			}
			o.passes(time.Minute)
			if m := o.card(s.ID); len(m.Replies) != 1 || m.Card.Live() {
				o.Errorf("below it: %q; live %t", m.Replies, m.Card.Live())
			}
		},
		"a call that may have run keeps its card beside that of the new question": func(o *office) {
			defer o.dispatches("a", o.fake)()
			s := o.unknown("held")
			o.passes(3 * time.Second)
			if m := o.card(s.ID); !m.Card.Unsettled || !m.Card.Again {
				o.Errorf("its card says %q, with buttons %t, %t", m.Card.Line, m.Card.Unsettled, m.Card.Again)
			}
			again, err := o.gate.Rerun(o.Context(), s.ID, ann)
			if err != nil {
				o.Fatal(err)
			}
			o.passes(3 * time.Second)
			if m := o.card(s.ID); !m.Card.Unsettled || m.Card.Again {
				o.Errorf("the old card says %q, with buttons %t, %t", m.Card.Line, m.Card.Unsettled, m.Card.Again)
			}
			if m := o.card(again); !m.Card.Approve || !strings.Contains(m.Card.Warning, "may already have run") {
				o.Errorf("the new card warns %q", m.Card.Warning)
			}
			if err := o.gate.Settle(o.Context(), s.ID, ann, gate.Executed, ""); err != nil {
				o.Fatal(err)
			}
			o.passes(3 * time.Second)
			if m := o.card(s.ID); m.Card.Live() || !strings.Contains(m.Card.Line, "ran, says ann") {
				o.Errorf("the old card says %q", m.Card.Line)
			}
			if m := o.card(again); m.Card.Live() {
				o.Errorf("the new card still has buttons: %q", m.Card.Line)
			}
		},
		"a question that nobody waits for any more is also shown where such stay": func(o *office) {
			defer o.dispatches("a", o.fake, func(d *bot.Dispatcher) {
				d.Route = func(v *gate.View) []gate.Conversation {
					if v.Mode == gate.Inline {
						return []gate.Conversation{v.Origin}
					}
					return []gate.Conversation{{Place: "fake:review"}}
				}
			})()
			s := o.asksFrom(gate.Conversation{Place: "fake:incident", Thread: "7"})
			o.passes(3 * time.Second)
			if m := o.card(s.ID); m.Place != "fake:incident" || m.Thread != "7" {
				o.Errorf("shown in %s, thread %q", m.Place, m.Thread)
			}
			o.passes(16 * time.Minute)
			if _, _, err := o.store.Sweep(o.Context(), 10); err != nil {
				o.Fatal(err)
			}
			o.passes(3 * time.Second)
			if got := o.places(s.ID); !slices.Equal(got, []string{"fake:incident", "fake:review"}) {
				o.Errorf("shown in %q", got)
			}
			o.presses(s, ann, gate.Approve)
			o.passes(3 * time.Second)
			for _, m := range o.fake.Messages() {
				if m.Card.Approve || !m.Card.TakeBack {
					o.Errorf("in %s it says %q", m.Place, m.Card.Line)
				}
			}
			if n := len(o.fake.Messages()); n != 2 {
				o.Errorf("%d cards", n)
			}
		},
		"a chat that is out is waited for, and others are told": func(o *office) {
			outages := &bot.Outages{List: o.store.List, Posted: o.store.Posted, Log: slog.New(slog.DiscardHandler)}
			o.fake.Breaks(always(trouble(channels.Out, 0)))
			defer o.dispatches("a", probed{o.fake}, func(d *bot.Dispatcher) { d.Outages = outages })()
			s := o.asks("staged")
			o.passes(10 * time.Second)
			if got := outages.Notices(o.Context()); len(got) != 0 {
				o.Errorf("after 10 s: %q, want nothing yet", got)
			}
			o.passes(6 * time.Minute)
			if got := outages.Notices(o.Context()); len(got) != 1 || got[0] != "Fake unreachable for 6 min, 1 card undelivered: decide here" {
				o.Errorf("told %q", got)
			}
			note := gate.Posted{Place: "fake:ops", Rev: 1, Digest: s.Digest.Hex()} // that it was about to be shown is not that it is
			if err := o.store.PutPosted(o.Context(), s.ID, note); err != nil {
				o.Fatal(err)
			}
			if got := outages.Notices(o.Context()); len(got) != 1 || !strings.Contains(got[0], "1 card undelivered") {
				o.Errorf("told %q", got)
			}
			o.presses(s, ann, gate.Deny) // there, so nothing is left to draw, and nothing would notice that it is back
			o.passes(2 * time.Minute)
			if got := outages.Notices(o.Context()); len(got) != 1 {
				o.Errorf("told %q", got)
			}
			o.fake.Breaks(nil)
			o.passes(time.Minute)
			if got := outages.Notices(o.Context()); len(got) != 0 {
				o.Errorf("when it is back: %q", got)
			}
		},
		"an inline question in a chat that is out is given up after a minute": func(o *office) {
			o.fake.Breaks(always(trouble(channels.Out, 0)))
			defer o.dispatches("a", o.fake)()
			s := o.asks("held")
			o.passes(30 * time.Second)
			if got := o.state(s.ID); got.State != gate.Pending {
				o.Errorf("%s after 30 s, want it to wait", got.State)
			}
			o.passes(70 * time.Second)
			if got := o.state(s.ID); got.Approval.Reason != gate.ReasonUndeliverable {
				o.Errorf("%s, %s after 100 s; want undeliverable", got.State, got.Approval.Reason)
			}
		},
		"what waits in a conversation that is no more is shown elsewhere": func(o *office) {
			var d *bot.Dispatcher
			defer o.dispatches("a", o.fake, func(it *bot.Dispatcher) { d = it })()
			s, other := o.asks("held"), o.asks("held")
			o.presses(other, ann, gate.Deny)
			o.passes(3 * time.Second)
			o.fake.Breaks(nowhereBut("fake:backup"))
			d.Left("fake:ops")
			o.passes(3 * time.Second)
			if got := o.places(s.ID); !slices.Equal(got, []string{"fake:ops", "fake:backup"}) {
				o.Errorf("shown in %q", got)
			}
			if posted, err := o.store.Posted(o.Context(), s.ID); err != nil || len(posted) != 1 || posted[0].Place != "fake:backup" {
				o.Errorf("kept of it: %+v, %v", posted, err)
			}
		},
		"a card elsewhere stays when a conversation is no more": func(o *office) {
			var d *bot.Dispatcher
			defer o.dispatches("a", o.fake, func(it *bot.Dispatcher) { d = it })()
			s := o.asks("held")
			o.passes(3 * time.Second)
			d.Left("fake:backup")
			o.passes(3 * time.Second)
			o.card(s.ID)
			if posted, err := o.store.Posted(o.Context(), s.ID); err != nil || len(posted) != 1 || posted[0].Place != "fake:ops" {
				o.Errorf("kept of it: %+v, %v", posted, err)
			}
		},
		"while a conversation may still take it, nobody is written to directly": func(o *office) {
			o.fake.Breaks(func(op, place string, _ int) channeltest.Fault {
				if op == "post" && place != "fake:D1" {
					return channeltest.Fault{Err: trouble(channels.Busy, time.Second)}
				}
				return channeltest.Fault{}
			})
			defer o.dispatches("a", o.fake, func(d *bot.Dispatcher) {
				d.Direct = func(context.Context, *gate.View) []gate.Conversation { return []gate.Conversation{{Place: "fake:D1"}} }
			})()
			o.asks("held")
			o.passes(20 * time.Second)
			if n := len(o.fake.Messages()); n != 0 {
				o.Errorf("%d cards", n)
			}
		},
		"a chat that is out beside a conversation that is gone is waited for": func(o *office) {
			o.fake.Breaks(func(op, place string, _ int) channeltest.Fault {
				if place == "fake:ops" {
					return channeltest.Fault{Err: trouble(channels.Out, 0)}
				}
				return channeltest.Fault{Err: trouble(channels.Nowhere, 0)}
			})
			defer o.dispatches("a", o.fake)()
			s := o.asks("held")
			o.passes(30 * time.Second)
			if got := o.state(s.ID); got.State != gate.Pending {
				o.Errorf("%s, %s after 30 s, want it to wait", got.State, got.Approval.Reason)
			}
		},
		"what became of a card in a thread is said in that thread": func(o *office) {
			defer o.dispatches("a", o.fake, func(d *bot.Dispatcher) {
				d.Route = func(v *gate.View) []gate.Conversation { return []gate.Conversation{v.Origin} }
			})()
			s := o.asksFrom(gate.Conversation{Place: "fake:incident", Thread: "7"})
			o.passes(3 * time.Second)
			o.fake.Breaks(func(op, _ string, _ int) channeltest.Fault {
				if op == "update" {
					return channeltest.Fault{Err: trouble(channels.Frozen, 0)}
				}
				return channeltest.Fault{}
			})
			o.presses(s, ann, gate.Deny)
			o.passes(3 * time.Second)
			if said := o.fake.Said(); len(said) != 1 || !strings.HasPrefix(said[0], "fake:incident: Denied by ann") {
				o.Errorf("said %q", said)
			}
		},
		"a conversation with another id keeps its cards": func(o *office) {
			var d *bot.Dispatcher
			defer o.dispatches("a", o.fake, func(it *bot.Dispatcher) { d = it })()
			s := o.asks("held")
			o.passes(3 * time.Second)
			was := o.card(s.ID)
			d.Renamed("fake:ops", "fake:shared")
			o.passes(3 * time.Second)
			posted, err := o.store.Posted(o.Context(), s.ID)
			if err != nil || len(posted) != 1 || posted[0].Place != "fake:shared" || posted[0].Message != was.Message {
				o.Errorf("kept of it: %+v, %v", posted, err)
			}
			if n := len(o.fake.Messages()); n != 1 {
				o.Errorf("%d cards", n)
			}
		},
		"what was drawn is settled": func(o *office) {
			stop := o.dispatches("a", o.fake)
			o.asks("held")
			o.presses(o.asks("held"), ann, gate.Deny)
			o.passes(5 * time.Second)
			stop()
			if left, err := o.store.Follow(o.Context(), "b", 100, 0, 0); len(left) != 0 || err != nil {
				o.Errorf("left over: %v, %v", left, err)
			}
		},
		"where nothing is taken any more a question is shown elsewhere": func(o *office) {
			defer o.dispatches("a", o.fake)()
			s := o.asks("two")
			o.passes(2 * time.Second)
			o.fake.Breaks(closed("fake:ops"))
			o.presses(s, ann, gate.Approve)
			o.passes(5 * time.Second)
			posted, err := o.store.Posted(o.Context(), s.ID)
			if err != nil || len(posted) != 1 || posted[0].Place != "fake:backup" {
				o.Errorf("kept of it: %+v, %v", posted, err)
			}
			if got := o.places(s.ID); len(got) != 2 || got[1] != "fake:backup" {
				o.Errorf("it is shown in %q", got)
			}
		},
		"where nothing is taken any more what became of it is said elsewhere": func(o *office) {
			defer o.dispatches("a", o.fake)()
			s := o.asks("held")
			o.passes(2 * time.Second)
			o.fake.Breaks(closed("fake:ops"))
			o.presses(s, ann, gate.Deny)
			o.passes(5 * time.Second)
			want := "fake:backup: claude wants to run held (" + string(s.ID) + "). Denied by ann"
			if said := o.fake.Said(); len(said) != 1 || !strings.HasPrefix(said[0], want) {
				o.Errorf("said %q, want %q", said, want)
			}
			if n := len(o.places(s.ID)); n != 1 {
				o.Errorf("%d cards", n)
			}
		},
		"a staged call that came from a conversation is shown once": func(o *office) {
			defer o.dispatches("a", o.fake)()
			r, err := o.gate.Check(o.Context(), gate.Request{
				Call: gate.Call{Tool: "staged"}, Requester: gate.Requester{Key: "hermes", Agent: "claude"}, Origin: gate.Conversation{Place: "fake:incident"},
			})
			if err != nil {
				o.Fatal(err)
			}
			o.passes(5 * time.Second)
			if m := o.card(r.Approval.ID); m.Drawn != 1 {
				o.Errorf("it was drawn %d times", m.Drawn)
			}
		},
		"approvers on another chat see it there too, and every copy is settled": func(o *office) {
			other := &channeltest.Fake{}
			defer o.dispatches("a", o.fake, also(other))()
			s := o.asks("two")
			o.passes(3 * time.Second)
			o.presses(s, ann, gate.Approve)
			o.passes(3 * time.Second)
			if n := len(other.Messages()); n != 1 || len(o.places(s.ID)) != 1 {
				o.Fatalf("%d cards there and %d here", n, len(o.places(s.ID)))
			}
			o.presses(s, gate.Voter{ID: "key:bo", Name: "bo", Person: "bo"}, gate.Deny)
			o.passes(3 * time.Second)
			for _, m := range append(other.Messages(), o.fake.Messages()...) {
				if !strings.HasPrefix(m.Card.Line, "Denied by bo") {
					o.Errorf("in %s it says %q", m.Place, m.Card.Line)
				}
			}
		},
		"where a chat shows it in another conversation, that is its card": func(o *office) {
			o.fake.Breaks(func(op, _ string, n int) channeltest.Fault {
				if op == "post" && n == 1 {
					return channeltest.Fault{Err: trouble(channels.Nowhere, 0)}
				}
				return channeltest.Fault{}
			})
			other := &channeltest.Fake{}
			defer o.dispatches("a", o.fake, also(other))()
			s := o.asks("two")
			o.passes(3 * time.Second)
			o.presses(s, ann, gate.Approve)
			o.passes(3 * time.Second)
			if got := o.places(s.ID); len(got) != 1 || got[0] != "fake:backup" || len(other.Messages()) != 1 {
				o.Errorf("it is shown in %q, and %d times there", got, len(other.Messages()))
			}
		},
		"a chat that is out keeps no copy in another from being settled": func(o *office) {
			other := &channeltest.Fake{}
			defer o.dispatches("a", o.fake, also(other))()
			s := o.asks("held")
			o.passes(3 * time.Second)
			o.fake.Breaks(always(trouble(channels.Out, 0)))
			o.presses(s, ann, gate.Deny)
			o.passes(3 * time.Second)
			if m := other.Messages(); len(m) != 1 || !strings.HasPrefix(m[0].Card.Line, "Denied by ann") {
				o.Errorf("there are %+v", m)
			}
		},
		"a copy that no conversation takes is none, and the first card stays": func(o *office) {
			other := &channeltest.Fake{}
			other.Breaks(always(trouble(channels.Nowhere, 0)))
			defer o.dispatches("a", o.fake, also(other))()
			s := o.asks("held")
			o.passes(30 * time.Second)
			o.card(s.ID)
			if n := other.Calls("post"); n != 1 {
				o.Errorf("%d tries", n)
			}
		},
		"a card that is found after a while is brought up to date": func(o *office) {
			o.fake.Breaks(func(op, _ string, n int) channeltest.Fault {
				if op == "post" && n == 1 {
					return channeltest.Fault{Lost: trouble(channels.Unknown, 0)}
				}
				if op == "find" && n == 1 {
					return channeltest.Fault{Err: trouble(channels.Busy, time.Minute)}
				}
				return channeltest.Fault{}
			})
			s := o.asks("two")
			defer o.dispatches("a", channeltest.Finding{Fake: o.fake})()
			o.passes(2 * time.Second)
			o.presses(s, ann, gate.Approve)
			o.passes(3 * time.Minute)
			if m := o.card(s.ID); !strings.Contains(m.Card.Line, "1 of 2") || m.Card.Rev != o.state(s.ID).Rev {
				o.Errorf("it says %q, of revision %d", m.Card.Line, m.Card.Rev)
			}
		},
		"a card that cannot be changed any more is answered below it": func(o *office) {
			defer o.dispatches("a", o.fake)()
			s := o.asks("held")
			o.passes(2 * time.Second)
			o.fake.Breaks(func(op, _ string, _ int) channeltest.Fault {
				if op == "update" {
					return channeltest.Fault{Err: trouble(channels.Frozen, 0)}
				}
				return channeltest.Fault{}
			})
			o.presses(s, ann, gate.Approve)
			o.passes(5 * time.Second)
			if m := o.card(s.ID); len(m.Replies) != 1 || !strings.HasPrefix(m.Replies[0], "Approved by ann") {
				o.Errorf("below it: %q", m.Replies)
			}
			o.presses(s, ann, gate.Deny)
			o.passes(5 * time.Second)
			if m := o.card(s.ID); len(m.Replies) != 2 || !strings.HasPrefix(m.Replies[1], "Taken back by ann") || o.fake.Calls("update") != 1 {
				o.Errorf("below it: %q after %d tries to change it", m.Replies, o.fake.Calls("update"))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				o := newOffice(t)
				defer func() { _ = o.store.Close() }()
				test(o)
			})
		})
	}
}

func (o *office) state(id gate.ID) gate.Snapshot {
	o.Helper()
	s, err := o.store.Get(o.Context(), id)
	if err != nil {
		o.Fatal(err)
	}
	return s
}

func TestManyCardsKeepTheirOrderAndPace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(t)
		defer func() { _ = o.store.Close() }()
		const n = 60
		var opened []gate.ID
		for range n {
			opened = append(opened, o.asks("staged").ID)
		}
		start := time.Now()
		defer o.dispatches("a", o.fake)()
		o.passes(2 * n * time.Second)
		var posted []gate.ID
		var last time.Time
		for _, m := range o.fake.Messages() {
			posted, last = append(posted, m.Card.Approval), m.At
		}
		if !slices.Equal(posted, opened) {
			t.Errorf("%d were posted, in another order or not once", len(posted))
		}
		if took := last.Sub(start); took > (n+2)*time.Second || took < (n-5)*time.Second {
			t.Errorf("the last came after %v, want about %d s", took, n)
		}
	})
}

// TestADeafChatIsKnown: cards are taken, and no press arrives.
func TestADeafChatIsKnown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(t)
		defer func() { _ = o.store.Close() }()
		outages := &bot.Outages{List: o.store.List, Posted: o.store.Posted, Log: slog.New(slog.DiscardHandler)}
		defer o.dispatches("a", probed{o.fake}, func(d *bot.Dispatcher) { d.Outages = outages })()
		outages.Deaf("fake", "the socket is closed")
		o.asks("held")
		o.passes(2 * time.Minute) // in which the card is posted, and the chat asked whether it works
		if got := outages.Notices(t.Context()); len(got) != 1 || got[0] != "Presses in Fake have not arrived for 2 min: decide here" {
			t.Errorf("told %q", got)
		}
		if n := len(o.fake.Said()); n != 0 {
			t.Errorf("it was asked %d times whether it is back, which it cannot know", n)
		}
		outages.Deaf("fake", "")
		if got := outages.Notices(t.Context()); len(got) != 0 {
			t.Errorf("told %q", got)
		}
	})
}

// paced is a Fake that takes an update every two seconds, and three at once.
type paced struct{ *channeltest.Fake }

func (paced) UpdatePace() (time.Duration, int) { return 2 * time.Second, 3 }

// TestUpdatesKeepThePaceOfTheWholeChat: many conversations at once.
func TestUpdatesKeepThePaceOfTheWholeChat(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(t)
		defer func() { _ = o.store.Close() }()
		defer o.dispatches("a", paced{o.fake}, func(d *bot.Dispatcher) {
			d.Route = func(v *gate.View) []gate.Conversation { return []gate.Conversation{{Place: "fake:" + string(v.ID)}} }
		})()
		const n = 13
		var asked []*gate.Snapshot
		for range n {
			asked = append(asked, o.asks("held"))
		}
		o.passes(3 * time.Second)
		for _, s := range asked {
			o.presses(s, ann, gate.Deny)
		}
		o.passes(10 * time.Second)
		if got := o.fake.Calls("update"); got < 6 || got > 9 {
			t.Errorf("%d updates in 10 s, want about eight", got)
		}
		o.passes(15 * time.Second)
		for _, m := range o.fake.Messages() {
			if m.Card.Live() {
				t.Errorf("%s is still live", m.Place)
			}
		}
	})
}
