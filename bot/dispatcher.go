package bot

import (
	"context"
	"crypto/rand"
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
	Undeliverable(ctx context.Context, id gate.ID) error
}

// Dispatcher shows approvals in chats. It follows the log: whatever happened to
// an approval, its cards are drawn anew from what the store holds by then, so
// that of many changes the newest is shown. Replicas share the work, and what one
// leaves when it dies another takes over: an entry is settled only when its card
// is drawn.
type Dispatcher struct {
	Cards    gate.Cards
	Gate     Approvals
	Channels map[string]channels.Channel // by name

	Route func(*gate.View) []gate.Conversation // where a card may go, the best first
	Card  func(*gate.View) *channels.Card

	Replica string
	Log     *slog.Logger

	mu    sync.Mutex
	lanes map[string]*lane
	work  sync.WaitGroup
}

// How the dispatcher works.
const (
	followBatch  = 64
	followBlock  = time.Second
	abandoned    = time.Minute      // then another replica takes an entry over
	drawFor      = 30 * time.Second // one writer has a card for that long
	giveUpInline = time.Minute      // then an inline question nobody was shown is undeliverable
	turnEvery    = time.Second      // of one conversation
	turnBurst    = 4
	firstRedraw  = time.Second
	lastRedraw   = 30 * time.Second
)

// drawer is who reads approvals to draw them.
var drawer = gate.Principal{Key: "approvalbot", Roles: []gate.Role{gate.RoleAuditor}}

// Run draws cards until ctx ends.
func (d *Dispatcher) Run(ctx context.Context) {
	defer d.work.Wait()
	retry := firstRetry
	for ctx.Err() == nil {
		entries, err := d.Cards.Follow(ctx, d.Replica, followBatch, followBlock, abandoned)
		if err == nil {
			err = d.sort(ctx, entries)
		}
		if err == nil {
			retry = firstRetry
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
			return err // what was not sorted comes again
		}
		d.add(ctx, place, &job{id: id, entries: of[id]})
	}
	return nil
}

// place is the conversation whose turn a card takes first; "" if it has none.
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

// errTaken says that another writer draws the card at this moment.
var errTaken = errors.New("another replica draws it")

// draw brings all cards of an approval up to date, or posts the first.
func (d *Dispatcher) draw(ctx context.Context, id gate.ID) error {
	p := pen{Dispatcher: d, id: id, writer: rand.Text()}
	if err := p.hold(ctx); err != nil {
		return err
	}
	defer func() { _ = d.Cards.Drawn(context.WithoutCancel(ctx), id, p.writer) }() // else its time runs out

	v, err := d.Gate.Get(ctx, drawer, id)
	switch {
	case gate.KindOf(err) == gate.NotFound, err == nil && v.Successor != "": // its successor has its cards
		return nil
	case err != nil:
		return err
	}
	p.view, p.card = &v, d.Card(&v)
	posted, err := p.posted(ctx)
	if err != nil {
		return err
	}
	there := 0
	for _, c := range posted {
		if c.Message == "" { // nobody knows whether it is there
			continue
		}
		there++
		if err := p.redraw(ctx, c); err != nil {
			return err
		}
	}
	if there == 0 && p.card.Live() {
		return p.post(ctx, posted)
	}
	return nil
}

// pen is the one writer of an approval's cards.
type pen struct {
	*Dispatcher
	id     gate.ID
	writer string
	view   *gate.View
	card   *channels.Card
}

// hold takes the cards, or keeps them for longer.
func (p *pen) hold(ctx context.Context) error {
	ok, err := p.Cards.Draw(ctx, p.id, p.writer, drawFor)
	if err == nil && !ok {
		err = errTaken
	}
	return err
}

// posted returns where the cards are. One that asks again in another's place
// takes its cards over.
func (p *pen) posted(ctx context.Context) ([]gate.Posted, error) {
	all, err := p.Cards.Posted(ctx, p.id)
	if err != nil || len(all) > 0 || p.view.Predecessor == "" {
		return all, err
	}
	before, err := p.Cards.Posted(ctx, p.view.Predecessor)
	if err != nil {
		return nil, err
	}
	for _, c := range before {
		c.Rev = -1 // nothing of this one is drawn there yet
		if err := p.Cards.PutPosted(ctx, p.id, c); err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return all, nil
}

// redraw brings one card up to date. What became of one that cannot be changed
// any more is said below it.
func (p *pen) redraw(ctx context.Context, c gate.Posted) error {
	channel := p.channel(c.Place)
	if c.Rev >= p.view.Rev || channel == nil {
		return nil
	}
	ref := channels.Ref{Place: c.Place, Message: c.Message}
	if !c.Frozen {
		err := p.deliver(ctx, c.Place, func(ctx context.Context) error { return channel.Update(ctx, ref, p.card) })
		if err != nil && passing(err) {
			return err
		}
		c.Frozen = err != nil
	}
	if c.Frozen {
		err := p.deliver(ctx, c.Place, func(ctx context.Context) error { return channel.Reply(ctx, ref, p.card.Line) })
		if err != nil && passing(err) {
			return err
		}
		if err != nil {
			p.Log.WarnContext(ctx, "a card cannot be brought up to date", "approval", string(p.id), "place", c.Place, "err", err)
		}
	}
	c.Rev, c.Digest = p.view.Rev, p.card.Digest.Hex()
	return p.Cards.PutPosted(ctx, p.id, c)
}

// passing reports whether the same delivery may succeed later.
func passing(err error) bool {
	t, _ := channels.TroubleOf(err)
	return t == channels.Busy || t == channels.Unknown
}

// post shows the card in the first conversation that takes it. If none does,
// the policy says what becomes of the question: of an inline one at once, or
// when its caller has waited for long enough; a staged one is tried again for as
// long as it lives.
func (p *pen) post(ctx context.Context, about []gate.Posted) error {
	err := error(&channels.Error{Op: "bot.post", Trouble: channels.Nowhere, Err: errors.New("no conversation is configured for it")})
	for _, to := range p.Route(p.view) {
		lost := slices.ContainsFunc(about, func(c gate.Posted) bool { return c.Place == to.Place })
		if err = p.postTo(ctx, to, lost); err == nil {
			return nil
		}
		if passing(err) {
			break // elsewhere it might be shown twice
		}
		p.Log.WarnContext(ctx, "a conversation takes no card", "approval", string(p.id), "place", to.Place, "err", err)
	}
	waited := p.view.Now.Sub(p.view.Created)
	if p.view.Mode == gate.Inline && p.view.State == gate.Pending && (!passing(err) || waited >= giveUpInline) {
		return p.Gate.Undeliverable(ctx, p.id)
	}
	return err
}

// postTo posts the card in one conversation. That it is about to be is written
// down first: whoever finds that and no card looks for it before posting again.
func (p *pen) postTo(ctx context.Context, to gate.Conversation, lost bool) error {
	channel := p.channel(to.Place)
	if channel == nil {
		return &channels.Error{Op: "bot.post", Trouble: channels.Nowhere, Err: errors.New("no such channel is configured")}
	}
	c := gate.Posted{Place: to.Place, Rev: p.view.Rev, Digest: p.card.Digest.Hex()}
	if err := p.Cards.PutPosted(ctx, p.id, c); err != nil {
		return err
	}
	var ref channels.Ref
	err := p.deliver(ctx, to.Place, func(ctx context.Context) (err error) {
		if lost {
			var found bool
			if ref, found, err = find(ctx, channel, to, p.id); found || err != nil {
				return err
			}
		}
		ref, err = channel.Post(ctx, to, p.card)
		t, _ := channels.TroubleOf(err)
		lost = err != nil && t == channels.Unknown
		return err
	})
	if err != nil && (lost || errors.Is(err, errTaken)) {
		return err // nobody knows whether it is there, or another writer does: the note stays
	}
	about := c
	about.Rev = 0
	if err == nil {
		c.Place, c.Message = ref.Place, ref.Message
		err = p.Cards.PutPosted(ctx, p.id, c)
	}
	return errors.Join(err, p.Cards.PutPosted(ctx, p.id, about))
}

// find looks for a card whose fate is unknown. On a platform that cannot look
// another one is posted; both lead to the same approval.
func find(ctx context.Context, c channels.Channel, in gate.Conversation, id gate.ID) (channels.Ref, bool, error) {
	if f, ok := c.(channels.Finder); ok {
		return f.Find(ctx, in, id)
	}
	return channels.Ref{}, false, nil
}

// deliver waits for a turn in a conversation and does something there; once more
// if the platform was busy or nothing is known.
func (p *pen) deliver(ctx context.Context, place string, do func(context.Context) error) error {
	for try := 1; ; try++ {
		if err := p.turn(ctx, place); err != nil {
			return err
		}
		err := do(ctx)
		t, after := channels.TroubleOf(err)
		if err == nil || try == 2 || t != channels.Busy && t != channels.Unknown {
			return err
		}
		if t == channels.Busy {
			if err := p.Cards.Pause(ctx, place, max(after, turnEvery)); err != nil {
				return err
			}
		}
	}
}

// turn waits for a turn, holding the cards meanwhile.
func (p *pen) turn(ctx context.Context, place string) error {
	for {
		if err := p.hold(ctx); err != nil {
			return err
		}
		wait, err := p.Cards.Turn(ctx, place, turnEvery, turnBurst)
		if err != nil || wait == 0 {
			return err
		}
		if pause(ctx, min(wait, drawFor/3)); ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// channel is the one that a place belongs to, nil if there is none.
func (d *Dispatcher) channel(place string) channels.Channel {
	name, _, _ := strings.Cut(place, ":")
	return d.Channels[name]
}
