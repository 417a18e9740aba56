package bot

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/approvalbot/approvalbot/channels"
	"github.com/approvalbot/approvalbot/gate"
)

// Outages knows which chats are out, as this replica sees it, and says so where
// people can still decide. It is safe for concurrent use; a nil one knows nothing.
type Outages struct {
	List   func(context.Context, gate.Query) (gate.Page, error)            // what waits
	Posted func(context.Context, gate.ID) (cards []gate.Posted, err error) // where it is shown
	Log    *slog.Logger

	mu    sync.Mutex
	since map[outage]time.Time
}

// outage is what is wrong with a chat: it takes no cards or, if it is deaf, no
// press of it arrives.
type outage struct {
	channel string
	deaf    bool
}

const (
	outageAfter = 15 * time.Second // before that it is a hiccup
	probeEvery  = 30 * time.Second
	countAtMost = 200 // undelivered cards; more are "200+"
)

// saw takes what came of a call to the channel of a place. An answer is an
// answer, also one that refuses.
func (o *Outages) saw(place string, err error) {
	if o == nil {
		return
	}
	name, _, _ := strings.Cut(place, ":")
	t, after := channels.TroubleOf(err)
	if err != nil && (t == channels.Out || t == channels.Unknown || t == channels.Busy && after == 0) {
		o.set(outage{channel: name}, err.Error())
	} else {
		o.set(outage{channel: name}, "")
	}
}

// Out says why a chat takes nothing any more, before anything was tried. What is
// taken after that ends it.
func (o *Outages) Out(channel, why string) { o.set(outage{channel: channel}, why) }

// Deaf says why no press of a chat arrives any more or, with an empty why, that
// they do again.
func (o *Outages) Deaf(channel, why string) { o.set(outage{channel, true}, why) }

func (o *Outages) set(what outage, why string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	was, out := o.since[what]
	switch {
	case why != "" && !out:
		if o.since == nil {
			o.since = map[outage]time.Time{}
		}
		o.since[what] = time.Now()
		o.Log.Warn("a chat is out", "channel", what.channel, "presses_only", what.deaf, "why", why)
	case why == "" && out:
		delete(o.since, what)
		o.Log.Info("a chat is back", "channel", what.channel, "presses_only", what.deaf, "was_out_for", time.Since(was))
	}
}

func (o *Outages) now() map[outage]time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	return maps.Clone(o.since)
}

// probe asks chats that are out whether they are back, when nobody else would.
func (o *Outages) probe(ctx context.Context, all map[string]channels.Channel) {
	if o == nil {
		return
	}
	for ctx.Err() == nil {
		pause(ctx, probeEvery)
		for what := range o.now() {
			if p, ok := all[what.channel].(channels.Prober); ok && !what.deaf && ctx.Err() == nil {
				o.saw(what.channel, p.Probe(ctx))
			}
		}
	}
}

// Notices says which chats are out, for those who can decide elsewhere: "Slack
// unreachable for 6 min, 4 cards undelivered: decide here".
func (o *Outages) Notices(ctx context.Context) (all []string) {
	if o == nil {
		return nil
	}
	for what, since := range o.now() {
		out := time.Since(since)
		if out < outageAfter {
			continue
		}
		name := strings.ToUpper(what.channel[:1]) + what.channel[1:]
		if what.deaf {
			all = append(all, fmt.Sprintf("Presses in %s have not arrived for %s: decide here", name, gate.Span(out)))
			continue
		}
		undelivered, err := o.undelivered(ctx)
		if err != nil {
			undelivered = "some cards"
		}
		all = append(all, fmt.Sprintf("%s unreachable for %s, %s undelivered: decide here", name, gate.Span(out), undelivered))
	}
	slices.Sort(all)
	return all
}

// undelivered counts what waits and is shown nowhere.
func (o *Outages) undelivered(ctx context.Context) (string, error) {
	n := 0
	for q := (gate.Query{State: gate.Pending, Limit: 100}); ; {
		page, err := o.List(ctx, q)
		if err != nil {
			return "", err
		}
		for i := range page.Rows {
			cards, err := o.Posted(ctx, page.Rows[i].ID)
			if err != nil {
				return "", err
			}
			if !slices.ContainsFunc(cards, func(c gate.Posted) bool { return c.Message != "" }) {
				n++
			}
		}
		switch q.Cursor = page.Next; {
		case n >= countAtMost:
			return fmt.Sprintf("%d+ cards", countAtMost), nil
		case page.Next == "" && n == 1:
			return "1 card", nil
		case page.Next == "":
			return fmt.Sprintf("%d cards", n), nil
		}
	}
}
