package bot

import (
	"context"

	"github.com/approvalbot/approvalbot/gate"
)

// move is what has become of a conversation: it has another name, or with an empty
// one it shows no card any more.
type move struct{ from, to string }

// Left says that nothing is shown in a conversation any more: it was archived, or
// the bot was taken out of it. What waits there is shown elsewhere.
func (d *Dispatcher) Left(place string) { d.moved(move{from: place}) }

// Renamed says that a conversation has another id.
func (d *Dispatcher) Renamed(from, to string) { d.moved(move{from, to}) }

func (d *Dispatcher) moved(m move) {
	select {
	case d.moves() <- m:
	default: // so many at once nobody can follow; presses and updates find out by themselves
		d.Log.Warn("a conversation changed, and its cards stay as they are", "from", m.from, "to", m.to)
	}
}

// maxMoves is how many conversations may wait for their cards to be looked after.
const maxMoves = 64

func (d *Dispatcher) moves() chan move {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.changed == nil {
		d.changed = make(chan move, maxMoves)
	}
	return d.changed
}

// follow looks after the cards of conversations that changed.
func (d *Dispatcher) follow(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case m := <-d.moves():
			if err := d.resettle(ctx, m); err != nil && ctx.Err() == nil {
				d.Log.WarnContext(ctx, "the cards of a conversation that changed were not looked after", "from", m.from, "to", m.to, "err", err)
			}
		}
	}
}

// unsettled are the states in which an approval's card still changes.
var unsettled = []gate.State{gate.Pending, gate.Approved, gate.Leased, gate.Executing, gate.OutcomeUnknown}

func (d *Dispatcher) resettle(ctx context.Context, m move) error {
	for _, state := range unsettled {
		for q := (gate.Query{State: state, Limit: 100}); ; {
			page, err := d.Gate.List(ctx, drawer, q)
			if err != nil {
				return err
			}
			for i := range page.Rows {
				if err := d.transfer(ctx, page.Rows[i].ID, m); err != nil {
					return err
				}
			}
			if q.Cursor = page.Next; page.Next == "" {
				break
			}
		}
	}
	return nil
}

// transfer writes down where the cards of an approval are now, and has it shown
// again if that is nowhere.
func (d *Dispatcher) transfer(ctx context.Context, id gate.ID, m move) error {
	posted, err := d.Cards.Posted(ctx, id)
	if err != nil {
		return err
	}
	for _, c := range posted {
		if c.Place != m.from {
			continue
		}
		gone := c
		gone.Rev = 0
		if c.Place = m.to; m.to != "" {
			err = d.Cards.PutPosted(ctx, id, c)
		}
		if err == nil {
			err = d.Cards.PutPosted(ctx, id, gone)
		}
		if err != nil {
			return err
		}
		place, err := d.place(ctx, id)
		if err != nil {
			return err
		}
		d.add(ctx, place, &job{id: id})
	}
	return nil
}
