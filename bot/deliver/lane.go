package deliver

import "time"

// How much one receiver gets at once, of one replica. One that is down takes no more
// than that away from the others.
const (
	atOnce  = 4
	busyFor = 5 * time.Second // then what found no room is looked at again
)

// lane is the way to one receiver: a hook, or the host of callbacks.
type lane struct {
	busy  int
	until time.Time // it rests
	gone  bool
}

// entry says whether a message may go now.
type entry struct {
	gone bool
	wait time.Duration // zero: it may, and has to leave
}

func (o *Outbox) enter(name string) entry {
	o.mu.Lock()
	defer o.mu.Unlock()
	l := o.lane(name)
	switch rest := time.Until(l.until); {
	case l.gone:
		return entry{gone: true}
	case rest > 0:
		return entry{wait: rest}
	case l.busy == atOnce:
		return entry{wait: busyFor}
	}
	l.busy++
	return entry{}
}

func (o *Outbox) leave(name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lane(name).busy--
}

// rest lets nothing pass for a while.
func (o *Outbox) rest(name string, d time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if until := time.Now().Add(d); until.After(o.lane(name).until) {
		o.lane(name).until = until
	}
}

// close lets nothing pass any more, and reports whether that is new.
func (o *Outbox) close(name string) (first bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	l := o.lane(name)
	first, l.gone = !l.gone, true
	return first
}

// lane is called with mu held. There are as many as hooks and hosts of prefixes.
func (o *Outbox) lane(name string) *lane {
	if o.lanes[name] == nil {
		o.lanes[name] = &lane{}
	}
	return o.lanes[name]
}
