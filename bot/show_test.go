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

// shows shows a card in ann's direct messages.
func (o *office) shows(d *bot.Dispatcher, id gate.ID) channels.Ref {
	o.Helper()
	ref, err := d.ShowTo(o.Context(), id, gate.Conversation{Place: "fake:@ann"})
	if err != nil {
		o.Fatalf("ShowTo = %v", err)
	}
	return ref
}

func TestShowTo(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(*office){
		"a card is shown besides, can be pressed and is kept up to date": func(o *office) {
			defer o.dispatches("a", o.named())()
			s := o.asks("held")
			o.passes(2 * time.Second)
			ref := o.shows(o.dispatcher("b", o.named()), s.ID) // another replica, that draws nothing else
			if ref.Place != "fake:D1" || !slices.Equal(o.posted(s.ID), []string{"fake:D1 2", "fake:ops 1"}) {
				o.Errorf("it is at %+v, and kept of it is %q", ref, o.posted(s.ID))
			}
			c := &bot.Clicks{Gate: o.gate, Cards: o.store, Log: slog.New(slog.DiscardHandler)}
			if got := c.Press(o.Context(), channels.Click{Approval: s.ID, Ref: ref, Voter: ann, Choice: gate.Deny}); !strings.HasPrefix(got, "Recorded. Denied by ann") {
				o.Errorf("told %q", got)
			}
			o.passes(3 * time.Second)
			for _, m := range o.fake.Messages() {
				if m.Card.Live() || !strings.HasPrefix(m.Card.Line, "Denied by ann") {
					o.Errorf("in %s it says %q", m.Place, m.Card.Line)
				}
			}
		},
		"one that is there is no second time": func(o *office) {
			d := o.dispatcher("a", o.named())
			defer o.runs(d)()
			s := o.asks("held")
			first, second := o.shows(d, s.ID), o.shows(d, s.ID)
			o.passes(2 * time.Second)
			if n := len(o.fake.Messages()); first != second || n != 2 {
				o.Errorf("it is at %+v and at %+v, with %d cards", first, second, n)
			}
		},
		"one that comes before the card for all takes its place nowhere": func(o *office) {
			s := o.asks("held")
			d := o.dispatcher("a", o.named(), routes("fake:acme/ops"))
			o.shows(d, s.ID)
			defer o.runs(d)()
			o.passes(3 * time.Second)
			if got := o.places(s.ID); !slices.Equal(got, []string{"fake:D1", "fake:C1"}) {
				o.Errorf("shown in %q", got)
			}
		},
		"where the approvers themselves are to be shown it, that one is it": func(o *office) {
			o.fake.Breaks(nowhereBut("fake:D1"))
			d := o.dispatcher("a", o.named(), func(d *bot.Dispatcher) {
				d.Direct = func(context.Context, *gate.View) []gate.Conversation {
					return []gate.Conversation{{Place: "fake:@ann"}}
				}
			})
			s := o.asks("held")
			o.shows(d, s.ID)
			defer o.runs(d)()
			o.passes(3 * time.Second)
			if m := o.card(s.ID); m.Place != "fake:D1" || o.state(s.ID).State != gate.Pending {
				o.Errorf("shown in %s, and it is %s", m.Place, o.state(s.ID).State)
			}
			if posted, err := o.store.Posted(o.Context(), s.ID); err != nil || len(posted) != 1 || posted[0].Beside {
				o.Errorf("kept of it: %+v, %v", posted, err)
			}
		},
		"one that was deleted is shown again": func(o *office) {
			s := o.asks("held")
			d := o.dispatcher("a", o.named())
			gone := o.shows(d, s.ID)
			o.fake.Remove(gone)
			if ref := o.shows(d, s.ID); ref == gone || len(o.fake.Messages()) != 1 {
				o.Errorf("it is at %+v again, with %d cards", ref, len(o.fake.Messages()))
			}
		},
		"one that is out of date is drawn anew": func(o *office) {
			s := o.asks("two")
			d := o.dispatcher("a", o.named())
			o.shows(d, s.ID)
			o.presses(s, ann, gate.Approve)
			o.shows(d, s.ID)
			if m := o.card(s.ID); m.Card.Line != "Waiting for 1 of 2 (sre)" {
				o.Errorf("it says %q", m.Card.Line)
			}
		},
		"where another writer has the cards it waits for its turn": func(o *office) {
			s := o.asks("held")
			if ok, err := o.store.Draw(o.Context(), s.ID, "another", 3*time.Second); !ok || err != nil {
				o.Fatalf("Draw = %t, %v", ok, err)
			}
			start := time.Now()
			o.shows(o.dispatcher("a", o.named()), s.ID)
			if took := time.Since(start); took < 3*time.Second || took > 5*time.Second {
				o.Errorf("it came after %v", took)
			}
		},
		"it waits no longer than whoever asked": func(o *office) {
			s := o.asks("held")
			if ok, err := o.store.Draw(o.Context(), s.ID, "another", time.Minute); !ok || err != nil {
				o.Fatalf("Draw = %t, %v", ok, err)
			}
			ctx, cancel := context.WithTimeout(o.Context(), 2*time.Second)
			defer cancel()
			_, err := o.dispatcher("a", o.named()).ShowTo(ctx, s.ID, gate.Conversation{Place: "fake:@ann"})
			if err == nil || len(o.fake.Messages()) != 0 || len(o.posted(s.ID)) != 0 {
				o.Errorf("ShowTo = %v, with %d cards and %q", err, len(o.fake.Messages()), o.posted(s.ID))
			}
		},
		"what was decided is not shown": func(o *office) {
			s := o.asks("held")
			o.presses(s, ann, gate.Deny)
			_, err := o.dispatcher("a", o.named()).ShowTo(o.Context(), s.ID, gate.Conversation{Place: "fake:@ann"})
			if gate.KindOf(err) != gate.Conflict || !strings.HasPrefix(gate.PublicText(err), "There is nothing to press any more: Denied by ann") {
				o.Errorf("ShowTo = %v", err)
			}
			if n := len(o.fake.Messages()); n != 0 {
				o.Errorf("%d cards", n)
			}
		},
		"one whose post was never answered is found": func(o *office) {
			o.fake.Breaks(func(op, _ string, n int) channeltest.Fault {
				switch {
				case op == "post" && n == 1:
					return channeltest.Fault{Lost: trouble(channels.Unknown, 0)}
				case op == "find" && n == 1:
					return channeltest.Fault{Err: trouble(channels.Out, 0)}
				}
				return channeltest.Fault{}
			})
			s := o.asks("held")
			d := o.dispatcher("a", findingNamed{o.named()})
			if _, err := d.ShowTo(o.Context(), s.ID, gate.Conversation{Place: "fake:@ann"}); err == nil {
				o.Error("it says that it is shown")
			}
			if ref := o.shows(d, s.ID); ref.Message != "1" || len(o.fake.Messages()) != 1 {
				o.Errorf("it is at %+v, with %d cards", ref, len(o.fake.Messages()))
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
