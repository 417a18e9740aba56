package bot_test

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/approvalbot/approvalbot/bot"
	"github.com/approvalbot/approvalbot/channels"
	"github.com/approvalbot/approvalbot/channels/channeltest"
	"github.com/approvalbot/approvalbot/gate"
)

// named is the fake with places of several names.
func (o *office) named() channeltest.Named {
	return channeltest.Named{Fake: o.fake, Names: map[string]string{
		"fake:acme/ops": "fake:C1", "fake:acme/backup": "fake:C2", "fake:@ann": "fake:D1",
	}}
}

// routes lets cards go to some places, the best first.
func routes(places ...string) func(*bot.Dispatcher) {
	var all []gate.Conversation
	for _, p := range places {
		all = append(all, gate.Conversation{Place: p})
	}
	return func(d *bot.Dispatcher) { d.Route = func(*gate.View) []gate.Conversation { return all } }
}

// unresolved lets the first so many attempts to resolve acme/ops fail.
func unresolved(t channels.Trouble, first int) channeltest.Faults {
	failed := 0
	return func(op, at string, _ int) channeltest.Fault {
		if op == "resolve" && at == "fake:acme/ops" && failed < first {
			failed++
			return channeltest.Fault{Err: trouble(t, 0)}
		}
		return channeltest.Fault{}
	}
}

func (o *office) posted(id gate.ID) (all []string) {
	o.Helper()
	posted, err := o.store.Posted(o.Context(), id)
	if err != nil {
		o.Fatal(err)
	}
	for _, c := range posted {
		all = append(all, c.Place+" "+c.Message)
	}
	slices.Sort(all)
	return all
}

func TestPlacesOfSeveralNames(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(*office){
		"a card is written down under the one name of its place": func(o *office) {
			defer o.dispatches("a", o.named(), routes("fake:acme/ops"))()
			s := o.asks("held")
			o.passes(2 * time.Second)
			if got := o.posted(s.ID); !slices.Equal(got, []string{"fake:C1 1"}) {
				o.Errorf("kept of it: %q", got)
			}
			o.presses(s, ann, gate.Deny)
			o.passes(2 * time.Second)
			if m := o.card(s.ID); m.Card.Live() || m.Drawn != 2 {
				o.Errorf("decided, it says %q", m.Card.Line)
			}
		},
		"a press that comes before the post was answered finds it": func(o *office) {
			s := o.asks("held")
			c := &bot.Clicks{Gate: o.gate, Cards: o.store, Log: slog.New(slog.DiscardHandler)}
			var told string
			slow := slowNamed{o.named(), func() {
				told = c.Press(o.Context(), channels.Click{Approval: s.ID, Ref: channels.Ref{Place: "fake:C1", Message: "1"}, Ours: true, Voter: ann, Choice: gate.Deny})
			}}
			defer o.dispatches("a", slow, routes("fake:acme/ops"))()
			o.passes(10 * time.Second)
			if !strings.HasPrefix(told, "Recorded. Denied by ann") {
				o.Errorf("told %q", told)
			}
			if m := o.card(s.ID); m.Card.Live() {
				o.Errorf("the card says %q", m.Card.Line)
			}
		},
		"what cannot be resolved yet waits, and is posted once": func(o *office) {
			for i, t := range []channels.Trouble{channels.Busy, channels.Unknown} {
				o.fake.Breaks(unresolved(t, 3))
				stop := o.dispatches("a", o.named(), routes("fake:acme/ops", "fake:acme/backup"))
				s := o.asks("staged")
				o.passes(20 * time.Second)
				if got := o.places(s.ID); !slices.Equal(got, []string{"fake:C1"}) {
					o.Errorf("%d: shown in %q", i, got)
				}
				stop()
			}
		},
		"where a chat is out, another takes it": func(o *office) {
			o.fake.Breaks(unresolved(channels.Out, 100))
			defer o.dispatches("a", o.named(), routes("fake:acme/ops", "fake:acme/backup"))()
			s := o.asks("held")
			o.passes(5 * time.Second)
			if got := o.places(s.ID); !slices.Equal(got, []string{"fake:C2"}) {
				o.Errorf("shown in %q", got)
			}
		},
		"a name that is none leaves it to the next, and operators are told once": func(o *office) {
			o.fake.Breaks(unresolved(channels.Nowhere, 100))
			defer o.dispatches("a", o.named(), routes("fake:acme/ops", "fake:acme/backup"), func(d *bot.Dispatcher) {
				d.Operators = []gate.Conversation{{Place: "fake:acme/ops"}, {Place: "fake:oncall"}}
			})()
			first, second := o.asks("held"), o.asks("held")
			o.passes(5 * time.Second)
			for _, s := range []*gate.Snapshot{first, second} {
				if got := o.places(s.ID); !slices.Equal(got, []string{"fake:C2"}) {
					o.Errorf("shown in %q", got)
				}
			}
			if said := o.fake.Said(); len(said) != 1 || !strings.HasPrefix(said[0], "fake:oncall: No card can be posted in fake:acme/ops: ") {
				o.Errorf("operators were told %q", said)
			}
		},
		"operators are not told through the place that fails, whatever it is called": func(o *office) {
			o.fake.Breaks(nowhereBut("fake:C2"))
			defer o.dispatches("a", o.named(), routes("fake:C1", "fake:C2"), func(d *bot.Dispatcher) {
				d.Operators = []gate.Conversation{{Place: "fake:acme/ops"}, {Place: "fake:acme/backup"}}
			})()
			o.asks("held")
			o.passes(5 * time.Second)
			if said := o.fake.Said(); len(said) != 1 || !strings.HasPrefix(said[0], "fake:C2: No card can be posted in fake:C1: ") {
				o.Errorf("operators were told %q", said)
			}
		},
		"approvers themselves are shown it by whatever leads to them": func(o *office) {
			o.fake.Breaks(nowhereBut("fake:D1"))
			defer o.dispatches("a", o.named(), routes("fake:acme/ops"), func(d *bot.Dispatcher) {
				d.Direct = func(context.Context, *gate.View) []gate.Conversation {
					return []gate.Conversation{{Place: "fake:@ann"}}
				}
			})()
			s := o.asks("held")
			o.passes(5 * time.Second)
			if got := o.posted(s.ID); !slices.Equal(got, []string{"fake:D1 1"}) {
				o.Errorf("kept of it: %q", got)
			}
		},
		"a question that stays where its call came from is shown there once": func(o *office) {
			defer o.dispatches("a", o.named(), func(d *bot.Dispatcher) {
				d.Route = func(v *gate.View) []gate.Conversation {
					if v.Mode == gate.Inline {
						return []gate.Conversation{v.Origin}
					}
					return []gate.Conversation{{Place: "fake:acme/backup"}, {Place: "fake:acme/ops"}}
				}
			})()
			s := o.asksFrom(gate.Conversation{Place: "fake:C1", Thread: "7"})
			o.passes(2 * time.Second)
			o.fake.Breaks(unresolved(channels.Unknown, 3))
			o.passes(16 * time.Minute)
			if _, _, err := o.store.Sweep(o.Context(), 10); err != nil {
				o.Fatal(err)
			}
			o.passes(time.Minute)
			if m := o.card(s.ID); m.Card.Line == "" || m.Drawn < 2 {
				o.Errorf("drawn %d times, it says %q", m.Drawn, m.Card.Line)
			}
		},
		"a card whose post was never answered is found under the one name": func(o *office) {
			o.fake.Breaks(once(channeltest.Fault{Lost: trouble(channels.Unknown, 0)}))
			defer o.dispatches("a", findingNamed{o.named()}, routes("fake:acme/ops"))()
			s := o.asks("held")
			o.passes(5 * time.Second)
			if m := o.card(s.ID); m.Place != "fake:C1" {
				o.Errorf("it is in %s", m.Place)
			}
		},
		"a name that is slow to resolve holds nothing else up": func(o *office) {
			defer o.dispatches("a", slowToResolve{o.named()}, func(d *bot.Dispatcher) {
				d.Route = func(v *gate.View) []gate.Conversation {
					if v.Call.Tool == "staged" {
						return []gate.Conversation{{Place: "fake:acme/ops"}}
					}
					return []gate.Conversation{{Place: "fake:acme/backup"}}
				}
			})()
			slow, quick := o.asks("staged"), o.asks("held")
			o.passes(2 * time.Second)
			if o.posted(quick.ID) == nil || len(o.posted(slow.ID)) != 0 {
				o.Errorf("after 2 s: %q and %q", o.posted(quick.ID), o.posted(slow.ID))
			}
		},
		"a question whose place is never known is given up after a minute": func(o *office) {
			defer o.dispatches("a", slowToResolve{o.named()}, routes("fake:acme/ops"))()
			s := o.asks("held")
			o.passes(2 * time.Minute)
			if got := o.state(s.ID); got.Approval.Reason != gate.ReasonUndeliverable {
				o.Errorf("%s, %s; want undeliverable", got.State, got.Approval.Reason)
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

// slowNamed is a slowPost whose places have several names.
type slowNamed struct {
	channeltest.Named
	press func()
}

func (s slowNamed) Post(ctx context.Context, to gate.Conversation, c *channels.Card) (channels.Ref, error) {
	ref, err := s.Named.Post(ctx, to, c)
	s.press()
	<-time.After(2 * time.Second)
	return ref, err
}

// findingNamed can look for cards besides.
type findingNamed struct{ channeltest.Named }

func (f findingNamed) Find(ctx context.Context, in gate.Conversation, id gate.ID) (channels.Ref, bool, error) {
	return channeltest.Finding{Fake: f.Fake}.Find(ctx, in, id)
}

// slowToResolve never says what acme/ops is.
type slowToResolve struct{ channeltest.Named }

func (s slowToResolve) Resolve(ctx context.Context, c gate.Conversation) (gate.Conversation, error) {
	if c.Place == "fake:acme/ops" {
		<-ctx.Done()
		return c, ctx.Err()
	}
	return s.Named.Resolve(ctx, c)
}
