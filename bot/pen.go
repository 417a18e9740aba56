package bot

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/approvalbot/approvalbot/channels"
	"github.com/approvalbot/approvalbot/gate"
)

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
	case gate.KindOf(err) == gate.NotFound, err == nil && v.Successor != "" && v.Started.IsZero(): // its successor has its cards
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
	var failed error // of one chat; those in another are drawn all the same
	for _, c := range slices.Clone(posted) {
		if c.Message == "" { // nobody knows whether it is there
			continue
		}
		shown, err := p.redraw(ctx, c)
		if errors.Is(err, errTaken) {
			return err
		}
		failed = cmp.Or(failed, err)
		switch {
		case !shown:
			posted = slices.DeleteFunc(posted, func(o gate.Posted) bool { return o == c })
		case !c.Beside:
			there++
		}
	}
	switch moved, unknown := p.movedOn(ctx, posted); {
	case there == 0 && p.card.Live():
		err = p.post(ctx, posted)
	case moved:
		err = p.first(ctx, p.Route(p.view), posted)
	case !p.card.Live():
		err = p.strays(ctx, posted)
	default:
		err = unknown
	}
	if err == nil {
		err = p.copies(ctx)
	}
	return cmp.Or(failed, err)
}

// strays settles cards that were about to be posted when their writer died, and of
// which nothing is to be shown any more: one that is there says so.
func (p *pen) strays(ctx context.Context, posted []gate.Posted) error {
	for _, c := range posted {
		if c.Message != "" || p.channel(c.Place) == nil {
			continue
		}
		if err := p.stray(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

func (p *pen) stray(ctx context.Context, note gate.Posted) error {
	channel, found := p.channel(note.Place), false
	var ref channels.Ref
	var err error
	if finder, ok := channel.(channels.Finder); ok {
		in := p.conversation(ctx, note.Place)
		err = p.deliver(ctx, note.Place, func(ctx context.Context) (err error) {
			if ref, found, err = finder.Find(ctx, in, p.id); err != nil || !found {
				return err
			}
			return channel.Update(ctx, ref, p.card)
		})
	}
	switch {
	case err != nil && passing(err):
		return err
	case !found:
		note.Rev = 0
		return p.Cards.PutPosted(ctx, p.id, note)
	}
	note.Rev, note.Frozen = p.view.Rev, err != nil
	return p.settle(ctx, note, ref, nil)
}

// conversation is the one of a place in which cards of this approval are.
func (p *pen) conversation(ctx context.Context, place string) gate.Conversation {
	for _, to := range p.Route(p.view) {
		if at, err := p.resolve(ctx, to); err == nil && at.Place == place {
			return at
		}
	}
	return gate.Conversation{Place: place}
}

// copies shows a question in each further chat that its approvers are on, unless a
// card is there. Where no conversation takes one, those who see the first decide.
func (p *pen) copies(ctx context.Context) error {
	if p.Also == nil || p.view.State != gate.Pending {
		return nil
	}
	for _, to := range p.Also(p.view) {
		posted, err := p.Cards.Posted(ctx, p.id)
		if err != nil {
			return err
		}
		if len(posted) == 0 || slices.ContainsFunc(posted, func(c gate.Posted) bool {
			return c.Message != "" && !c.Beside && p.channel(c.Place) == p.channel(to.Place)
		}) {
			continue
		}
		if err := p.first(ctx, []gate.Conversation{to}, posted); err != nil && passing(err) {
			return err
		}
	}
	return nil
}

// movedOn reports whether a question has stopped being waited for where the call
// came from, and is not yet shown where such questions stay.
func (p *pen) movedOn(ctx context.Context, posted []gate.Posted) (bool, error) {
	if p.view.State != gate.Pending || p.view.Mode != gate.Deferred || p.view.Origin.Place == "" {
		return false, nil
	}
	stays := p.Route(p.view)
	for _, to := range stays {
		at, err := p.resolve(ctx, to)
		switch {
		case err == nil && slices.ContainsFunc(posted, func(c gate.Posted) bool { return c.Place == at.Place }):
			return false, nil
		case err != nil && passing(err): // it may be shown there
			return false, err
		}
	}
	return len(stays) > 0, nil
}

// pen is the one writer of an approval's cards.
type pen struct {
	*Dispatcher
	id     gate.ID
	writer string
	view   *gate.View
	card   *channels.Card
	beside bool // what it posts takes no other card's place
}

// hold takes the cards, or keeps them for longer.
func (p *pen) hold(ctx context.Context) error {
	ok, err := p.Cards.Draw(ctx, p.id, p.writer, drawFor)
	if err == nil && !ok {
		err = errTaken
	}
	return err
}

// resolve returns the one name of a conversation, and keeps the cards: it may have
// taken its time.
func (p *pen) resolve(ctx context.Context, to gate.Conversation) (gate.Conversation, error) {
	at, err := p.Dispatcher.resolve(ctx, to)
	if taken := p.hold(ctx); taken != nil {
		return at, taken
	}
	return at, err
}

// posted returns where the cards are. One that asks again in another's place
// takes its cards over, but for one that asks to run it again: what was started keeps
// its own.
func (p *pen) posted(ctx context.Context) ([]gate.Posted, error) {
	all, err := p.Cards.Posted(ctx, p.id)
	if err != nil || len(all) > 0 || p.view.Predecessor == "" || p.view.Rerun {
		return all, err
	}
	before, err := p.Cards.Posted(ctx, p.view.Predecessor)
	if err != nil {
		return nil, err
	}
	for _, c := range before {
		if channel := p.channel(c.Place); c.Message == "" && channel != nil { // it may be there, under the other's name
			ref, found, err := find(ctx, channel, p.conversation(ctx, c.Place), p.view.Predecessor)
			if err != nil {
				return nil, err
			}
			if found {
				c.Message, c.Thread = ref.Message, ref.Thread
			}
		}
		c.Rev = -1 // nothing of this one is drawn there yet
		if err := p.Cards.PutPosted(ctx, p.id, c); err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return all, nil
}

// redraw brings one card up to date. What became of one that cannot be changed any
// more is said below it or, where nothing is taken any more, elsewhere; shown is false
// if the question must be shown anew.
func (p *pen) redraw(ctx context.Context, c gate.Posted) (shown bool, err error) {
	channel := p.channel(c.Place)
	if c.Rev >= p.view.Rev || channel == nil {
		return true, nil
	}
	if !c.Frozen {
		if err := p.update(ctx, channel, &c); err != nil {
			return true, err
		}
	}
	if c.Frozen {
		err := p.deliver(ctx, c.Place, func(ctx context.Context) error { return channel.Say(ctx, refOf(c).Below(), p.card.Line) })
		if err != nil && passing(err) {
			return true, err
		}
		if err != nil {
			return p.lost(ctx, c, err)
		}
	}
	if err := p.tell(ctx, channel, &c); err != nil {
		return true, err
	}
	c.Rev, c.Digest = p.view.Rev, p.card.Digest.Hex()
	return true, p.Cards.PutPosted(ctx, p.id, c)
}

// tell says what the tool said below a card, once.
func (p *pen) tell(ctx context.Context, channel channels.Channel, c *gate.Posted) error {
	if p.card.Result == "" || c.Told || c.Beside {
		return nil
	}
	text := p.card.Line + "\n" + p.card.Result
	err := p.deliver(ctx, c.Place, func(ctx context.Context) error { return channel.Say(ctx, refOf(*c).Below(), text) })
	if err != nil && passing(err) {
		return err
	}
	c.Told = true // or it never can be: the card, the API and the console have it
	return nil
}

// lost gives a card up that nothing can be said about where it is: its conversation
// was archived, or the bot is not in it any more. What is settled is said elsewhere.
func (p *pen) lost(ctx context.Context, c gate.Posted, why error) (shown bool, err error) {
	p.Log.WarnContext(ctx, "a card cannot be brought up to date", "approval", string(p.id), "place", c.Place, "err", why)
	if !p.card.Settled {
		gone := c
		gone.Rev = 0
		return false, p.Cards.PutPosted(ctx, p.id, gone)
	}
	if !c.Beside {
		p.tellElsewhere(ctx, c.Place)
	}
	c.Rev, c.Digest = p.view.Rev, p.card.Digest.Hex()
	return true, p.Cards.PutPosted(ctx, p.id, c)
}

// tellElsewhere says what became of a call in the first conversation that is another
// one.
func (p *pen) tellElsewhere(ctx context.Context, than string) {
	for _, to := range p.Route(p.view) {
		channel := p.channel(to.Place)
		if channel == nil {
			continue
		}
		to, err := p.resolve(ctx, to)
		if err != nil || to.Place == than {
			continue
		}
		text := fmt.Sprintf("%s (%s). %s", p.card.Title, p.id, p.card.Line)
		if p.deliver(ctx, to.Place, func(ctx context.Context) error { return channel.Say(ctx, to, text) }) == nil {
			return
		}
	}
}

// update draws a card anew, or finds it frozen.
func (p *pen) update(ctx context.Context, channel channels.Channel, c *gate.Posted) error {
	if err := p.updates(ctx, channel); err != nil {
		return err
	}
	err := p.deliver(ctx, c.Place, func(ctx context.Context) error { return channel.Update(ctx, refOf(*c), p.card) })
	if err != nil && passing(err) {
		return err
	}
	c.Frozen = err != nil
	return nil
}

func refOf(c gate.Posted) channels.Ref {
	return channels.Ref{Place: c.Place, Message: c.Message, Thread: c.Thread}
}

// passing reports whether the same delivery may succeed later.
func passing(err error) bool {
	t, _ := channels.TroubleOf(err)
	return t == channels.Busy || t == channels.Unknown || t == channels.Out
}

// post shows the card in the first conversation that takes it, else to the
// approvers themselves. If nobody can be shown it, the policy says what becomes of
// the question: of an inline one at once, or when its caller has waited for long
// enough; a staged one is tried again for as long as it lives.
func (p *pen) post(ctx context.Context, about []gate.Posted) error {
	err := p.first(ctx, p.Route(p.view), about)
	if err == nil || !passing(err) && p.each(ctx, p.people(ctx), about) {
		return nil
	}
	waited := p.view.Now.Sub(p.view.Created)
	if p.view.Mode == gate.Inline && p.view.State == gate.Pending && (!passing(err) || waited >= giveUpInline) {
		p.report(ctx, "undeliverable", fmt.Sprintf("Nobody could be shown %s, which somebody waits for: %v.", p.id, err))
		return p.Gate.Undeliverable(ctx, p.id)
	}
	return err
}

// first posts the card in the first conversation that takes it. One that may have
// taken it ends the search: elsewhere it would be shown twice.
func (p *pen) first(ctx context.Context, places []gate.Conversation, about []gate.Posted) error {
	err := error(&channels.Error{Op: "bot.post", Trouble: channels.Nowhere, Err: errors.New("no conversation is configured for it")})
	var out error // of the channels that take nothing at all, the last
	for _, to := range places {
		if _, err = p.postTo(ctx, to, about); err == nil {
			return nil
		}
		switch t, _ := channels.TroubleOf(err); t {
		case channels.Busy, channels.Unknown:
			return err
		case channels.Out:
			out = err
		default:
			p.Log.WarnContext(ctx, "a conversation takes no card", "approval", string(p.id), "place", to.Place, "err", err)
			p.report(ctx, to.Place, fmt.Sprintf("No card can be posted in %s: %v. Approvals go elsewhere until that is mended.", to.Place, err))
		}
	}
	if out != nil {
		return out
	}
	return err
}

// people are the approvers themselves, as far as they are known.
func (p *pen) people(ctx context.Context) []gate.Conversation {
	if p.Direct == nil {
		return nil
	}
	return p.Direct(ctx, p.view)
}

// each posts the card in every one of some conversations, and reports whether one
// took it.
func (p *pen) each(ctx context.Context, places []gate.Conversation, about []gate.Posted) (shown bool) {
	for _, to := range places {
		_, err := p.postTo(ctx, to, about)
		shown = shown || err == nil
		if err != nil {
			p.Log.WarnContext(ctx, "an approver cannot be shown a card", "approval", string(p.id), "place", to.Place, "err", err)
		}
	}
	return shown
}

// postTo posts the card in one conversation, unless it is there. That it is about
// to be is written down first, under the name by which a press would come from
// there: whoever finds that and no card looks for it before posting again.
func (p *pen) postTo(ctx context.Context, to gate.Conversation, about []gate.Posted) (channels.Ref, error) {
	channel := p.channel(to.Place)
	if channel == nil {
		return channels.Ref{}, &channels.Error{Op: "bot.post", Trouble: channels.Nowhere, Err: errors.New("no such channel is configured")}
	}
	to, err := p.resolve(ctx, to)
	if err != nil {
		return channels.Ref{}, err
	}
	if i := slices.IndexFunc(about, func(c gate.Posted) bool { return c.Place == to.Place && c.Message != "" && !c.Frozen }); i >= 0 {
		return p.keep(ctx, about[i])
	}
	note := gate.Posted{Place: to.Place, Rev: p.view.Rev, Digest: p.card.Digest.Hex(), Beside: p.beside}
	if err := p.Cards.PutPosted(ctx, p.id, note); err != nil {
		return channels.Ref{}, err
	}
	i := slices.IndexFunc(about, func(c gate.Posted) bool { return c.Place == to.Place && c.Message == "" })
	lost := i >= 0
	var ref channels.Ref
	err = p.deliver(ctx, to.Place, func(ctx context.Context) (err error) {
		if lost {
			var found bool
			if ref, found, err = find(ctx, channel, to, p.id); err != nil {
				return err
			}
			if found && i >= 0 && about[i].Rev != p.view.Rev {
				return channel.Update(ctx, ref, p.card) // it shows what was then
			}
			if found {
				return nil
			}
		}
		ref, err = channel.Post(ctx, to, p.card)
		t, _ := channels.TroubleOf(err)
		lost = err != nil && t == channels.Unknown
		return err
	})
	if err != nil && (lost || errors.Is(err, errTaken)) {
		return ref, err // nobody knows whether it is there, or another writer does: the note stays
	}
	return ref, p.settle(ctx, note, ref, err)
}

// settle writes down where a card is that was about to be posted, or that it is not.
func (p *pen) settle(ctx context.Context, note gate.Posted, ref channels.Ref, err error) error {
	if err == nil {
		c := note
		c.Place, c.Message, c.Thread = ref.Place, ref.Message, ref.Thread
		err = p.Cards.PutPosted(ctx, p.id, c)
	}
	note.Rev = 0
	if undo := p.Cards.PutPosted(ctx, p.id, note); err == nil {
		err = undo
	}
	return err
}

// keep takes a card that somebody asked for as the one that is to be there.
func (p *pen) keep(ctx context.Context, c gate.Posted) (channels.Ref, error) {
	if !c.Beside || p.beside {
		return refOf(c), nil
	}
	c.Beside = false
	return refOf(c), p.Cards.PutPosted(ctx, p.id, c)
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
		if ctx.Err() == nil {
			p.Outages.saw(place, err)
		}
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

// updates waits until a channel takes another update, wherever that is.
func (p *pen) updates(ctx context.Context, channel channels.Channel) error {
	paced, ok := channel.(channels.Paced)
	if !ok {
		return nil
	}
	every, burst := paced.UpdatePace()
	return p.wait(ctx, channel.Name()+":", every, burst)
}

// turn waits for a turn in a conversation.
func (p *pen) turn(ctx context.Context, place string) error {
	return p.wait(ctx, place, turnEvery, turnBurst)
}

// wait waits for a turn, holding the cards meanwhile.
func (p *pen) wait(ctx context.Context, place string, every time.Duration, burst int) error {
	for {
		if err := p.hold(ctx); err != nil {
			return err
		}
		wait, err := p.Cards.Turn(ctx, place, every, burst)
		if err != nil || wait == 0 {
			return err
		}
		if pause(ctx, min(wait, drawFor/3)); ctx.Err() != nil {
			return ctx.Err()
		}
	}
}
