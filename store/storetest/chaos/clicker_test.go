//go:build linux

package chaos

import (
	"context"
	"time"

	"github.com/approvalbot/approvalbot/gate"
)

// click presses buttons of the cards that stand in the chat, or of the list of what
// is pending, as people do: mostly in good faith, at times twice, of another call, or
// too late.
func (p *process) click(ctx context.Context) {
	var presses []gate.Decision
	for ctx.Err() == nil {
		p.dawdle(ctx, 60*time.Millisecond)
		look := p.pending
		if p.one(2) {
			look = p.world.cards
		}
		cards, err := look(ctx)
		if err != nil || len(cards) == 0 {
			continue
		}
		c := cards[p.draw(len(cards))]
		if p.one(15) {
			p.mend(ctx, c.Approval)
		}
		d := gate.Decision{ID: c.Approval, Voter: p.voter(), Choice: gate.Approve, Digest: c.Digest, Nonce: unique()}
		switch n := p.draw(100); {
		case n < 10 && len(presses) > 0:
			d = presses[p.draw(len(presses))]
		case n < 13:
			d.Digest[0]++
		case !c.Approve && n > 18: // to take back is rare
			continue
		case n < 20:
			d.Choice = gate.Deny
		}
		presses = append(presses, d)
		p.press(ctx, &d)
	}
}

// pending is what a console shows while the chat shows nothing.
func (p *process) pending(ctx context.Context) (cards []drawn, err error) {
	page, err := p.store.List(ctx, gate.Query{State: gate.Pending, Limit: 20})
	for i := range page.Rows {
		cards = append(cards, drawn{Approval: page.Rows[i].ID, Digest: page.Rows[i].Digest, Approve: true})
	}
	return cards, err
}

func (p *process) voter() gate.Voter { return person(people[p.draw(len(people))]).Voter("api") }

// press presses, and once more if nobody knows what became of it.
func (p *process) press(ctx context.Context, d *gate.Decision) {
	c := call{Do: doDecide, ID: d.ID, Digest: d.Digest.Hex(), Person: d.Voter.Person, Choice: d.Choice, Nonce: d.Nonce}
	for range 2 {
		told := p.rec.do(c, func() answer {
			t, err := p.Decide(ctx, *d)
			a := told(err)
			a.State = t.Approval.State
			return a
		})
		if !told.Unknown || ctx.Err() != nil {
			return
		}
	}
}

// mend settles an outcome that nobody knows, or has the call asked again.
func (p *process) mend(ctx context.Context, id gate.ID) {
	v := p.voter()
	if p.one(2) {
		p.rec.do(call{Do: doSettle, ID: id, Outcome: gate.Failed}, func() answer { return told(p.Settle(ctx, id, v, gate.Failed, "")) })
		return
	}
	p.rec.do(call{Do: doRerun, ID: id}, func() answer {
		next, err := p.Rerun(ctx, id, v)
		a := told(err)
		a.Names = next
		return a
	})
}
