package slack_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/approvalbot/approvalbot/channels"
	"github.com/approvalbot/approvalbot/channels/slack"
	"github.com/approvalbot/approvalbot/channels/slack/slacktest"
	"github.com/approvalbot/approvalbot/gate"
)

// reads makes a desk know how the card stands.
func (d *desk) reads(c *channels.Card) {
	d.presses.Card = func(_ context.Context, id gate.ID) (*channels.Card, error) {
		if id != card {
			return nil, errors.New("no such approval")
		}
		return c, nil
	}
}

// view is the one dialog that ada has before her.
func (d *desk) view() slacktest.View {
	d.Helper()
	views := d.slack.Views("U0AAAAAA1")
	if len(views) != 1 {
		d.Fatalf("%d dialogs are open, want one", len(views))
	}
	return views[0]
}

// fill sends the dialog off, and returns what is then shown.
func (d *desk) fill(values map[string]string) (errs map[string]string) {
	d.Helper()
	v := d.view()
	o, err := d.slack.Submit(d.Context(), slacktest.Submission{View: v.ID, Values: values})
	if err != nil || o.Warning != "" {
		d.Fatalf("Submit = %q, %v", o.Warning, err)
	}
	d.presses.Wait()
	if open := d.slack.Views("U0AAAAAA1"); len(open) > 0 {
		return open[0].Errors
	}
	return nil
}

func TestReasonsOfDenials(t *testing.T) {
	t.Parallel()
	const choose, which = "Choose a reason, or write one below.", "Write which."
	for name, tt := range map[string]struct {
		required      bool
		choice, words string
		want          string
		errs          map[string]string
	}{
		"none at all":                      {},
		"one that is chosen":               {choice: "Wrong target", want: "Wrong target"},
		"one that is written":              {words: " no ", want: "no"},
		"both":                             {choice: "Not now", words: "after the sale", want: "Not now: after the sale"},
		"another one, unsaid":              {choice: "Other", want: "Other"},
		"none, where one is wanted":        {required: true, errs: map[string]string{"choice": choose}},
		"spaces, where one is wanted":      {required: true, words: "  ", errs: map[string]string{"choice": choose}},
		"another one, where one is wanted": {required: true, choice: "Other", errs: map[string]string{"words": which}},
		"a choice, where one is wanted":    {required: true, choice: "Needs a change ticket", want: "Needs a change ticket"},
		"words, where one is wanted":       {required: true, words: "no", want: "no"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t, nil)
			c := waiting()
			c.ReasonRequired = tt.required
			d.reads(c)
			d.press("U0AAAAAA1", "deny", nil)
			errs := d.fill(map[string]string{"choice": tt.choice, "words": tt.words})
			if fmt.Sprint(errs) != fmt.Sprint(tt.errs) {
				t.Errorf("the fields say %v, want %v", errs, tt.errs)
			}
			if tt.errs == nil {
				d.wantClick(channels.Click{Choice: gate.Deny, Reason: tt.want})
				return
			}
			d.wantNone()
			if errs := d.fill(map[string]string{"choice": "Not now", "words": ""}); errs != nil {
				t.Errorf("once there is a reason: %v", errs)
			}
			d.wantClick(channels.Click{Choice: gate.Deny, Reason: "Not now"})
		})
	}
	t.Run("one that nobody could choose", func(t *testing.T) {
		t.Parallel()
		d := newDesk(t, nil)
		d.press("U0AAAAAA1", "deny", nil)
		_, err := d.slack.Submit(t.Context(), slacktest.Submission{View: d.view().ID, Mangle: func(p map[string]any) {
			p["view"].(map[string]any)["state"] = map[string]any{"values": map[string]any{"choice": map[string]any{"chosen": map[string]any{"selected_option": map[string]any{"value": "Approved by the CISO"}}}}}
		}})
		if err != nil {
			t.Fatal(err)
		}
		d.presses.Wait()
		d.wantClick(channels.Click{Choice: gate.Deny})
	})
}

// TestADialogThatMustBeFilledInOverASocket has the answer that shows errors go the
// same way as the acknowledgement.
func TestADialogThatMustBeFilledInOverASocket(t *testing.T) {
	t.Parallel()
	inOffice(t, slacktest.Config{}, func(o *office) {
		c := waiting()
		c.ReasonRequired = true
		presses := &slack.Presses{
			Slack: o.channel(slacktest.AppToken), Log: slog.New(slog.NewTextHandler(o, nil)),
			Press: func(context.Context, channels.Click) string { return "Recorded." },
			Card:  func(context.Context, gate.ID) (*channels.Card, error) { return c, nil },
		}
		s := o.socket()
		s.To.Interactive = presses.Receive
		o.run(s)
		o.open(2)
		if _, err := o.slack.Click(o.Context(), slacktest.Click{User: "U0AAAAAA1", Channel: ops, TS: o.card.Message, Action: "deny"}); err != nil {
			o.Fatal(err)
		}
		presses.Wait()
		views := o.slack.Views("U0AAAAAA1")
		if len(views) != 1 {
			o.Fatalf("%d dialogs", len(views))
		}
		outcome, err := o.slack.Submit(o.Context(), slacktest.Submission{View: views[0].ID})
		if err != nil || outcome.Warning != "" {
			o.Fatalf("Submit = %q, %v", outcome.Warning, err)
		}
		presses.Wait()
		if views := o.slack.Views("U0AAAAAA1"); len(views) != 1 || views[0].Errors["choice"] == "" || len(o.slack.Ephemerals("U0AAAAAA1")) != 0 {
			o.Errorf("the dialog is %+v", views)
		}
	})
}

// TestDialogsSayWhatTheyAreAbout opens each on a card, on one that cannot be read,
// and on one that is settled meanwhile.
func TestDialogsSayWhatTheyAreAbout(t *testing.T) {
	t.Parallel()
	for _, action := range []string{"deny", "ask", "answer"} {
		shown := func(c *channels.Card) { c.Answer = true }
		t.Run(action+", on a card", func(t *testing.T) {
			t.Parallel()
			d := newDesk(t, shown)
			c := waiting()
			c.Target, c.Server, c.Answer = "prod/web", "k8s", true
			c.Line = `Ann asks: "why?", waiting for the agent's answer`
			d.reads(c)
			d.press("U0AAAAAA1", action, nil)
			if got := d.view().Read(); !strings.Contains(got, "claude wants to run held\non prod/web (server k8s)") || strings.Contains(got, "why?") != (action == "answer") {
				t.Errorf("the dialog reads\n%s", got)
			}
		})
		t.Run(action+", on one that cannot be read", func(t *testing.T) {
			t.Parallel()
			d := newDesk(t, shown)
			d.presses.Card = func(context.Context, gate.ID) (*channels.Card, error) { return nil, errors.New("the store is away") }
			d.press("U0AAAAAA1", action, nil)
			if got := d.view().Read(); strings.Contains(got, "held") {
				t.Errorf("the dialog reads\n%s", got)
			}
		})
		t.Run(action+", on one that is settled", func(t *testing.T) {
			t.Parallel()
			d := newDesk(t, shown)
			d.reads(&channels.Card{Line: "Approved by Bo, waiting to run until 03:32", Settled: true, TakeBack: true})
			d.press("U0AAAAAA1", action, nil)
			if n := len(d.slack.Views("U0AAAAAA1")); n != 0 {
				t.Error("there is a dialog")
			}
			d.wantNone()
			if got := d.told("U0AAAAAA1"); got != "Approved by Bo, waiting to run until 03:32" {
				t.Errorf("told %q", got)
			}
		})
	}
	t.Run("a card that is read for too long", func(t *testing.T) {
		t.Parallel()
		inOffice(t, slacktest.Config{}, func(o *office) {
			presses := &slack.Presses{
				Slack: o.channel(slacktest.AppToken), Log: slog.New(slog.NewTextHandler(o, nil)),
				Card: func(ctx context.Context, _ gate.ID) (*channels.Card, error) { <-ctx.Done(); return nil, ctx.Err() },
			}
			s := o.socket()
			s.To.Interactive = presses.Receive
			o.run(s)
			o.open(2)
			start := time.Now()
			if _, err := o.slack.Click(o.Context(), slacktest.Click{User: "U0AAAAAA1", Channel: ops, TS: o.card.Message, Action: "deny"}); err != nil {
				o.Fatal(err)
			}
			presses.Wait()
			if took := time.Since(start); took > 1500*time.Millisecond || len(o.slack.Views("U0AAAAAA1")) != 1 {
				o.Errorf("after %v %d dialogs are open", took, len(o.slack.Views("U0AAAAAA1")))
			}
		})
	})
}

func TestAnAnswerIsTyped(t *testing.T) {
	t.Parallel()
	d := newDesk(t, func(c *channels.Card) { c.Ask, c.Answer = false, true })
	d.press("U0AAAAAA1", "answer", nil)
	d.submit("the shop is down")
	d.wantClick(channels.Click{Choice: channels.Reply, Reason: "the shop is down"})
}

func TestAScopeIsChosen(t *testing.T) {
	t.Parallel()
	for _, scope := range []gate.Scope{gate.Session, gate.Always} {
		t.Run(string(scope), func(t *testing.T) {
			t.Parallel()
			d := newDesk(t, func(c *channels.Card) {
				c.Scopes = []channels.Choice{
					{Scope: gate.Once, Name: "Once"},
					{Scope: gate.Session, Name: "This session", Covers: strings.Repeat("x", 200), Lasts: "a while"},
					{Scope: gate.Always, Name: "Always", Covers: strings.Repeat("x", 200), Lasts: "for ever"},
				}
			})
			d.press("U0AAAAAA1", "approve_for", func(k *slacktest.Click) { k.Option = string(scope) })
			d.wantClick(channels.Click{Choice: gate.Approve, Scope: scope})
		})
	}
}

// TestTheFullViewIsLeafedThrough reads all pages, there and back, as a person would.
func TestTheFullViewIsLeafedThrough(t *testing.T) {
	t.Parallel()
	d := newDesk(t, func(c *channels.Card) { c.Args = strings.Repeat("x", 5000) })
	var args strings.Builder
	for i := range 12_000 {
		fmt.Fprintf(&args, "line %d <!channel>\n", i)
	}
	c := waiting()
	c.Args = args.String()
	d.reads(c)
	d.press("U0AAAAAA1", "full", nil)
	d.wantNone()
	var first slacktest.Outcome
	turn := func(action string, times int) {
		t.Helper()
		k := slacktest.Click{User: "U0AAAAAA1", View: d.view().ID, Action: action}
		clicks := make([]slacktest.Click, times)
		for i := range clicks {
			clicks[i] = k
		}
		outcomes, err := d.slack.ClickAll(t.Context(), clicks...)
		if err != nil {
			t.Fatal(err)
		}
		d.presses.Wait()
		if len(first.Payload) == 0 {
			first = outcomes[0]
		}
	}
	var all strings.Builder
	pages := 1
	for ; ; pages++ {
		text := d.view().Read()
		for line := range strings.Lines(text) {
			if rest, ok := strings.CutPrefix(line, "| "); ok {
				all.WriteString(rest)
			}
		}
		if !strings.Contains(text, "[Next]") {
			break
		}
		turn("page_on", 2) // a double click turns one page
	}
	if all.String() != c.Args {
		t.Errorf("%d pages have %d bytes, and are not the %d of the card", pages, all.Len(), len(c.Args))
	}
	if pages < 5 {
		t.Errorf("%d pages", pages)
	}
	last := d.view().Read()
	d.slack.Replay(t.Context(), first, "") // a press that comes late turns nothing
	d.presses.Wait()
	if d.view().Read() != last {
		t.Error("a press of the first page has turned the last")
	}
	for range pages - 1 {
		turn("page_back", 1)
	}
	if got := d.view().Read(); !strings.Contains(got, "Page 1 of") || strings.Contains(got, "[Previous]") {
		t.Errorf("back at the first page:\n%.300s", got)
	}
	if got := d.told("U0AAAAAA1"); got != "" {
		t.Errorf("told %q", got)
	}
	d.slack.FailNext("views.update", slacktest.ServerError)
	turn("page_on", 1)
	if got := d.told("U0AAAAAA1"); got != "The page could not be turned; press again." {
		t.Errorf("told %q", got)
	}
	d.presses.Card = func(context.Context, gate.ID) (*channels.Card, error) { return nil, errors.New("the store is away") }
	turn("page_on", 1)
	if got := d.told("U0AAAAAA1"); !strings.HasSuffix(got, "The call could not be read just now; press again.") {
		t.Errorf("told %q", got)
	}
}

func TestAFullViewThatCannotBeShown(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		card func(context.Context, gate.ID) (*channels.Card, error)
		want string
	}{
		"nobody can read the card": {nil, "The call could not be read just now; press again."},
		"the card cannot be read":  {func(context.Context, gate.ID) (*channels.Card, error) { return nil, errors.New("away") }, "The call could not be read just now; press again."},
		"the trigger is no more":   {func(context.Context, gate.ID) (*channels.Card, error) { return waiting(), nil }, "That took too long, and nothing was decided; press again."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t, func(c *channels.Card) { c.Args = strings.Repeat("x", 5000) })
			d.presses.Card = tt.card
			d.slack.FailNext("views.open", slacktest.Refused("expired_trigger_id"))
			d.press("U0GUEST001", "full", nil) // whoever sees the card sees the whole
			if got := d.told("U0GUEST001"); got != tt.want {
				t.Errorf("told %q, want %q", got, tt.want)
			}
		})
	}
}

// TestForgedPages has presses in views that are not the full view of an approval.
func TestForgedPages(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(view map[string]any){
		"of no approval": func(v map[string]any) { v["private_metadata"] = `{"id":"../../x"}` },
		"of nothing":     func(v map[string]any) { v["private_metadata"] = "" },
		"in a dialog":    func(v map[string]any) { v["callback_id"] = "deny" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t, func(c *channels.Card) { c.Args = strings.Repeat("x", 5000) })
			c := waiting()
			c.Args = strings.Repeat("x", 50_000)
			d.reads(c)
			d.press("U0AAAAAA1", "full", nil)
			o, err := d.slack.Click(t.Context(), slacktest.Click{User: "U0AAAAAA1", View: d.view().ID, Action: "page_on", Mangle: func(p map[string]any) {
				change(p["view"].(map[string]any))
			}})
			d.presses.Wait()
			if err != nil || o.Status == 200 || len(d.slack.Calls("views.update")) != 0 {
				t.Errorf("answered %d, %v", o.Status, err)
			}
		})
	}
}

func TestOnlyTheFirstCardCalls(t *testing.T) {
	t.Parallel()
	s := workspace(t, slacktest.Config{})
	c := channel(s)
	w := waiting()
	w.Mention = []gate.Mention{{Platform: gate.Slack, Kind: gate.KindUserGroup, ID: "S0ONCALL"}, {Platform: gate.Slack, Kind: gate.KindUser, ID: "U0AAAAAA1"}}
	w.Title, w.Intent, w.Args, w.Diff, w.Dialogue, w.Target = "<!here>", "<!channel>", "<@U0BO>", "<!everyone>", "<!channel>", "<!here>"
	w.Facts = []channels.Fact{{Name: "For", Value: "<!channel>"}}
	ref, err := c.Post(t.Context(), gate.Conversation{Place: "slack:" + ops}, w)
	if err != nil {
		t.Fatal(err)
	}
	m, _ := s.Message(ops, ref.Message)
	if got := fmt.Sprint(m.Notifies()); got != "[!subteam^S0ONCALL @U0AAAAAA1]" {
		t.Errorf("it calls %s", got)
	}
	w.Settled, w.Approve, w.Deny, w.Ask = true, false, false, false
	if err := c.Update(t.Context(), ref, w); err != nil {
		t.Fatal(err)
	}
	if m, _ = s.Message(ops, ref.Message); len(m.Notifies()) != 0 {
		t.Errorf("once settled it calls %v", m.Notifies())
	}
}

// TestACardThatSlackFindsFaultWith is posted and changed all the same, with less in
// it, and why is in the log.
func TestACardThatSlackFindsFaultWith(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"invalid_blocks", "msg_blocks_too_long", "msg_too_long", "invalid_arguments", "metadata_too_large", "invalid_metadata_format"} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			s := workspace(t, slacktest.Config{})
			var log strings.Builder
			c := channel(s)
			c.Log = slog.New(slog.NewTextHandler(&log, nil))
			s.FailNext("chat.postMessage", slacktest.Refused(code))
			w := waiting()
			w.Args = "secret-7"
			ref, err := c.Post(t.Context(), gate.Conversation{Place: "slack:" + ops}, w)
			if err != nil {
				t.Fatal(err)
			}
			wantMinimal(t, s, ref)
			if calls := s.Calls("chat.postMessage"); len(calls) != 2 || (calls[1].Args["metadata"] == "") != strings.Contains(code, "metadata") {
				t.Errorf("sent with %q", calls[len(calls)-1].Args["metadata"])
			}
			if !strings.Contains(log.String(), "code="+code) || strings.Contains(log.String(), "secret-7") {
				t.Errorf("the log says %s", &log)
			}
			if err := c.Update(t.Context(), ref, w); err != nil {
				t.Fatal(err)
			}
			if m, _ := s.Message(ops, ref.Message); !strings.Contains(m.Read(), "secret-7") {
				t.Errorf("once nothing is wrong it reads\n%s", m.Read())
			}
			s.FailNext("chat.update", slacktest.Refused(code))
			if err := c.Update(t.Context(), ref, w); err != nil {
				t.Fatal(err)
			}
			wantMinimal(t, s, ref)
		})
	}
	t.Run("twice", func(t *testing.T) {
		t.Parallel()
		s := workspace(t, slacktest.Config{})
		s.Fail("chat.postMessage", 1, slacktest.Refused("invalid_blocks"))
		s.Fail("chat.postMessage", 2, slacktest.Refused("no_text"))
		_, err := channel(s).Post(t.Context(), gate.Conversation{Place: "slack:" + ops}, waiting())
		wantTrouble(t, err, channels.Broken, 0)
		if !strings.Contains(fmt.Sprint(err), "no_text; and before, a whole card: invalid_blocks") {
			t.Errorf("the error is %v", err)
		}
	})
	t.Run("and then nothing is known", func(t *testing.T) {
		t.Parallel()
		s := workspace(t, slacktest.Config{})
		s.Fail("chat.postMessage", 1, slacktest.Refused("invalid_blocks"))
		s.Fail("chat.postMessage", 2, slacktest.LostAnswer)
		_, err := channel(s).Post(t.Context(), gate.Conversation{Place: "slack:" + ops}, waiting())
		wantTrouble(t, err, channels.Unknown, 0)
		if n := len(s.Calls("chat.postMessage")); n != 2 {
			t.Errorf("%d tries", n)
		}
	})
	t.Run("what is no fault of the card is tried once", func(t *testing.T) {
		t.Parallel()
		s := workspace(t, slacktest.Config{})
		s.FailNext("chat.postMessage", slacktest.Refused("is_archived"))
		_, err := channel(s).Post(t.Context(), gate.Conversation{Place: "slack:" + ops}, waiting())
		wantTrouble(t, err, channels.Nowhere, 0)
		if n := len(s.Calls("chat.postMessage")); n != 1 {
			t.Errorf("%d tries", n)
		}
	})
}

func wantMinimal(t *testing.T, s *slacktest.Slack, ref channels.Ref) {
	t.Helper()
	m, _ := s.Message(ops, ref.Message)
	if got := m.Read(); strings.Contains(got, "secret-7") || !strings.Contains(got, "cannot be drawn here; Show all has it.") || !strings.HasSuffix(got, "[Approve] [Deny] [Show all]") {
		t.Errorf("the minimal card reads\n%s", got)
	}
}
