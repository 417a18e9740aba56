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
	since map[string]time.Time // by channel
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
	silent := err != nil && (t == channels.Out || t == channels.Unknown || t == channels.Busy && after == 0)
	o.mu.Lock()
	defer o.mu.Unlock()
	was, out := o.since[name]
	switch {
	case silent && !out:
		if o.since == nil {
			o.since = map[string]time.Time{}
		}
		o.since[name] = time.Now()
		o.Log.Warn("a chat is out", "channel", name, "err", err)
	case !silent && out:
		delete(o.since, name)
		o.Log.Info("a chat is back", "channel", name, "was_out_for", time.Since(was))
	}
}

// Down sets what a channel knows of itself without a call: that nothing of it
// arrives any more, or, with an empty why, that it does again.
func (o *Outages) Down(name, why string) {
	var err error
	if why != "" {
		err = &channels.Error{Op: name, Trouble: channels.Out, Err: fmt.Errorf("%s", why)}
	}
	o.saw(name, err)
}

func (o *Outages) now() map[string]time.Time {
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
		for name := range o.now() {
			if p, ok := all[name].(channels.Prober); ok && ctx.Err() == nil {
				o.saw(name, p.Probe(ctx))
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
	since := o.now()
	for _, name := range slices.Sorted(maps.Keys(since)) {
		out := time.Since(since[name])
		if out < outageAfter {
			continue
		}
		undelivered := "some cards"
		if n, err := o.undelivered(ctx); err == nil {
			undelivered = n
		}
		all = append(all, fmt.Sprintf("%s unreachable for %s, %s undelivered: decide here", strings.ToUpper(name[:1])+name[1:], gate.Span(out), undelivered))
	}
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
