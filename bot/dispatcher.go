package bot

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/approvalbot/approvalbot/channels"
	"github.com/approvalbot/approvalbot/gate"
)

// Approvals is what the dispatcher asks of the gate.
type Approvals interface {
	Get(ctx context.Context, p gate.Principal, id gate.ID) (gate.View, error)
	List(ctx context.Context, p gate.Principal, q gate.Query) (gate.Page, error)
	Undeliverable(ctx context.Context, id gate.ID) error
}

// Dispatcher shows approvals in chats. It follows the log: whatever happened to
// an approval, its cards are drawn anew from what the store holds by then, so
// that of many changes the newest is shown. One replica at a time does it, and what
// it leaves when it dies another takes over: an entry is settled only when its card
// is drawn.
type Dispatcher struct {
	Cards    gate.Cards
	Gate     Approvals
	Channels map[string]channels.Channel // by name

	Route     func(*gate.View) []gate.Conversation                  // where a card may go, the best first
	Also      func(*gate.View) []gate.Conversation                  // one in each further chat that a card is copied to; may be nil
	Direct    func(context.Context, *gate.View) []gate.Conversation // the approvers themselves, if no conversation takes it
	Operators []gate.Conversation                                   // who is told what is wrong
	Card      func(*gate.View) *channels.Card
	Outages   *Outages // may be nil

	Replica string
	Log     *slog.Logger

	mu      sync.Mutex
	lanes   map[string]*lane
	changed chan move
	work    sync.WaitGroup
}

// How the dispatcher works.
const (
	followBatch  = 64
	followBlock  = time.Second
	abandoned    = 5 * time.Second  // without a sign of life, then another replica follows, and takes over what one had
	drawFor      = 15 * time.Second // one writer has a card for that long
	resolveFor   = drawFor / 3      // a platform is waited for to say which conversation is meant
	giveUpInline = time.Minute      // then an inline question nobody was shown is undeliverable
	turnEvery    = time.Second      // of one conversation
	turnBurst    = 4
	firstRedraw  = time.Second
	lastRedraw   = 30 * time.Second
	reportEvery  = time.Hour // about the same
)

// follower is what the replica draws that follows the log: one at a time, so that
// cards come in the order of what they show.
const follower gate.ID = "log"

// drawer is who reads approvals to draw them.
var drawer = gate.Principal{Key: "approvalbot", Roles: []gate.Role{gate.RoleAuditor}}

// Run draws cards until ctx ends.
func (d *Dispatcher) Run(ctx context.Context) {
	defer d.work.Wait()
	defer func() { _ = d.Cards.Drawn(context.WithoutCancel(ctx), follower, d.Replica) }() // else its time runs out
	d.work.Go(func() { d.Outages.probe(ctx, d.Channels) })
	d.work.Go(func() { d.follow(ctx) })
	retry := firstRetry
	var entries []gate.Entry
	for ctx.Err() == nil {
		leads, err := d.Cards.Draw(ctx, follower, d.Replica, abandoned)
		if err == nil && !leads {
			pause(ctx, followBlock)
			continue
		}
		if err == nil && len(entries) == 0 { // else these could not be sorted
			entries, err = d.Cards.Follow(ctx, d.Replica, followBatch, followBlock, abandoned)
		}
		if err == nil {
			err = d.sort(ctx, entries)
		}
		if err == nil {
			entries, retry = nil, firstRetry
			continue
		}
		if ctx.Err() == nil {
			d.Log.WarnContext(ctx, "cards are not drawn: the log cannot be followed", "err", err, "retry_in", retry)
			pause(ctx, jitter(retry))
			retry = min(2*retry, lastRetry)
		}
	}
}

// sort puts each approval into the lane of the conversation where its card is,
// or will be.
func (d *Dispatcher) sort(ctx context.Context, entries []gate.Entry) error {
	var order []gate.ID
	of := map[gate.ID][]gate.Entry{}
	for _, e := range entries {
		if e.ID == "" || e.To == "" { // nothing has moved
			if err := d.Cards.Settle(ctx, e); err != nil {
				return err
			}
			continue
		}
		if of[e.ID] == nil {
			order = append(order, e.ID)
		}
		of[e.ID] = append(of[e.ID], e)
	}
	for _, id := range order {
		place, err := d.place(ctx, id)
		if err != nil {
			return err // all of it is sorted again, which does no harm
		}
		d.add(ctx, place, &job{id: id, entries: of[id]})
	}
	return nil
}

// place is the conversation whose turn a card takes first; "" if it has none. Before
// there is a card it goes by the name that it is configured by: whoever follows the
// log asks no platform for another one, and waits for none.
func (d *Dispatcher) place(ctx context.Context, id gate.ID) (string, error) {
	posted, err := d.Cards.Posted(ctx, id)
	if err != nil {
		return "", err
	}
	if len(posted) > 0 {
		return posted[0].Place, nil
	}
	v, err := d.Gate.Get(ctx, drawer, id)
	if gate.KindOf(err) == gate.NotFound {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	if to := d.Route(&v); len(to) > 0 {
		return to[0].Place, nil
	}
	return "", nil
}

// job is an approval whose cards may have to be drawn, and why.
type job struct {
	id      gate.ID
	entries []gate.Entry
	tries   int
}

// lane draws the cards of one conversation one after the other, in the order in
// which their approvals changed.
type lane struct{ queue []*job }

func (d *Dispatcher) add(ctx context.Context, place string, j *job) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.lanes == nil {
		d.lanes = map[string]*lane{}
	}
	l := d.lanes[place]
	if l == nil {
		l = &lane{}
		d.lanes[place] = l
		d.work.Go(func() { d.drive(ctx, place, l) })
	}
	if i := slices.IndexFunc(l.queue, func(o *job) bool { return o.id == j.id }); i >= 0 {
		l.queue[i].entries = append(l.queue[i].entries, j.entries...) // it shows the newest anyway
		return
	}
	l.queue = append(l.queue, j)
}

// next takes the first job of a lane; an empty lane ends.
func (d *Dispatcher) next(place string, l *lane) *job {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(l.queue) == 0 {
		delete(d.lanes, place)
		return nil
	}
	j := l.queue[0]
	l.queue = l.queue[1:]
	return j
}

func (d *Dispatcher) drive(ctx context.Context, place string, l *lane) {
	for j := d.next(place, l); j != nil; j = d.next(place, l) {
		if ctx.Err() != nil {
			continue // others take over what is left
		}
		err := d.draw(ctx, j.id)
		if err == nil {
			err = d.Cards.Settle(ctx, j.entries...)
		}
		if err == nil || ctx.Err() != nil {
			continue
		}
		wait := min(firstRedraw<<min(j.tries, 10), lastRedraw)
		j.tries++
		if !errors.Is(err, errTaken) {
			d.Log.WarnContext(ctx, "card not drawn", "approval", string(j.id), "err", err, "retry_in", wait)
		}
		d.work.Go(func() {
			if pause(ctx, jitter(wait)); ctx.Err() == nil {
				d.add(ctx, place, j)
			}
		})
	}
}

// report tells the operators once in a while what is wrong, but not where it is.
func (d *Dispatcher) report(ctx context.Context, about, text string) {
	for _, to := range d.Operators {
		channel := d.channel(to.Place)
		if channel == nil || to.Place == about {
			continue
		}
		if err := d.tell(ctx, channel, to, about, text); err != nil {
			d.Log.WarnContext(ctx, "operators could not be told", "place", to.Place, "about", about, "err", err)
		}
	}
}

func (d *Dispatcher) tell(ctx context.Context, channel channels.Channel, to gate.Conversation, about, text string) error {
	at, err := d.resolve(ctx, to)
	if err != nil {
		return err
	}
	if same, err := d.resolve(ctx, gate.Conversation{Place: about}); err == nil && same.Place == at.Place {
		return nil
	}
	wait, err := d.Cards.Turn(ctx, "report:"+to.Place+":"+about, reportEvery, 1)
	if err == nil && wait == 0 {
		err = channel.Say(ctx, at, text)
	}
	return err
}

// resolve returns the one name under which cards of a conversation are written
// down, and by which presses name it. It may ask the platform.
func (d *Dispatcher) resolve(ctx context.Context, c gate.Conversation) (gate.Conversation, error) {
	r, ok := d.channel(c.Place).(channels.Resolver)
	if !ok {
		return c, nil
	}
	soon, cancel := context.WithTimeout(ctx, resolveFor)
	defer cancel()
	at, err := r.Resolve(soon, c)
	if err != nil && ctx.Err() == nil {
		d.Outages.saw(c.Place, err)
	}
	return at, err
}

// channel is the one that a place belongs to, nil if there is none.
func (d *Dispatcher) channel(place string) channels.Channel {
	name, _, _ := strings.Cut(place, ":")
	return d.Channels[name]
}
