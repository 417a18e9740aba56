package bot

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/approvalbot/approvalbot/channels"
	"github.com/approvalbot/approvalbot/gate"
)

// showAgain is how long somebody who asked for a card waits for another writer.
const showAgain = 300 * time.Millisecond

// ShowTo shows the card of an approval to somebody who asked for it, in a
// conversation besides those where it is, and returns where. It can be pressed and
// is kept up to date as the others are; one that is there already is brought up to
// date, and no other is posted. Any replica may be asked. While another writer has
// the cards, ShowTo waits for its turn.
func (d *Dispatcher) ShowTo(ctx context.Context, id gate.ID, to gate.Conversation) (channels.Ref, error) {
	for {
		ref, err := d.showTo(ctx, id, to)
		if !errors.Is(err, errTaken) {
			return ref, err
		}
		if pause(ctx, jitter(showAgain)); ctx.Err() != nil {
			return ref, err
		}
	}
}

func (d *Dispatcher) showTo(ctx context.Context, id gate.ID, to gate.Conversation) (channels.Ref, error) {
	p := pen{Dispatcher: d, id: id, writer: rand.Text(), beside: true}
	if err := p.hold(ctx); err != nil {
		return channels.Ref{}, err
	}
	defer func() { _ = d.Cards.Drawn(context.WithoutCancel(ctx), id, p.writer) }() // else its time runs out

	v, err := d.Gate.Get(ctx, drawer, id)
	if err != nil {
		return channels.Ref{}, err
	}
	if p.view, p.card = &v, d.Card(&v); !p.card.Live() {
		return channels.Ref{}, &gate.Error{Kind: gate.Conflict, Reason: gate.ReasonAlreadyDecided, Op: "bot.ShowTo", Public: "There is nothing to press any more: " + p.card.Line + "."}
	}
	if to, err = p.resolve(ctx, to); err != nil {
		return channels.Ref{}, err
	}
	posted, err := p.posted(ctx)
	if err != nil {
		return channels.Ref{}, err
	}
	if err := p.confirm(ctx, posted, to); err != nil {
		return channels.Ref{}, err
	}
	return p.postTo(ctx, to, posted)
}

// confirm draws anew what is written down as standing in a conversation: somebody
// may have deleted it there, and would look for it in vain.
func (p *pen) confirm(ctx context.Context, posted []gate.Posted, in gate.Conversation) error {
	for i := range posted {
		c, channel := &posted[i], p.channel(in.Place)
		if c.Place != in.Place || c.Message == "" || c.Frozen || channel == nil {
			continue
		}
		if err := p.update(ctx, channel, c); err != nil {
			return err
		}
		c.Rev, c.Digest = p.view.Rev, p.card.Digest.Hex()
		if err := p.Cards.PutPosted(ctx, p.id, *c); err != nil {
			return err
		}
	}
	return nil
}
