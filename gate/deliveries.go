package gate

import (
	"context"
	"time"
)

// Deliveries is the outbox of messages to receivers outside: what they are owed
// about entries of the log, until they have it or are given up on. Nothing about
// an approval depends on it. Any number of replicas read the log for it, and send.
type Deliveries interface {
	// Owe writes down deliveries, and that the log is read for them up to an
	// entry, if from is how far it was read: both or neither. It returns how far
	// it is read now; where that is not to, another replica has read on, and
	// nothing was written. An ID that is known changes nothing. The first time
	// from is empty: what lies before to then is owed to nobody.
	Owe(ctx context.Context, from, to string, all ...Delivery) (read string, err error)

	// TakeOwed takes up to n deliveries whose time has come, and counts a try of
	// each. Nobody else gets them for lease; whoever has not said by then how the
	// try ended, of them the next one is due. It returns when more is due: zero if
	// nothing waits.
	TakeOwed(ctx context.Context, n int, lease time.Duration) (all []Delivery, next time.Duration, err error)

	// How a try ended, by whoever took it last; of any other it changes nothing.
	// Delivered and Bury are the last word, which is kept for KeepDelivered. Bury
	// returns how many were buried in that time. PutBack takes the try back.
	Delivered(ctx context.Context, d Delivery) error
	Again(ctx context.Context, d Delivery, in time.Duration) error
	PutBack(ctx context.Context, d Delivery, in time.Duration) error
	Bury(ctx context.Context, d Delivery) (dead int, err error)

	// Callbacks says what became of the messages to an approval's callback.
	Callbacks(ctx context.Context, id ID) (Callbacks, error)
}

// KeepDelivered is how long it is remembered what became of a delivery, so that
// it is not written down a second time, and people can see what is dead.
const KeepDelivered = 7 * 24 * time.Hour

// Delivery is one message that a receiver is owed.
type Delivery struct {
	ID    string // the same whenever it is sent; ≤ 64 letters, digits, _ and -
	Hook  string // whose it is; empty: the callback's of its approval
	About Entry  // what has happened; its Note is not kept
	Tries int    // with the one that was taken
}

// Callbacks is how far the messages to one callback are: of the worst of them.
type Callbacks struct {
	State DeliveryState // empty: there are none
	Tries int
}

// DeliveryState says how far a delivery is.
type DeliveryState string

// The states of deliveries, the best first.
const (
	Delivered DeliveryState = "delivered"
	Waiting   DeliveryState = "waiting" // for its next try
	Dead      DeliveryState = "dead"    // given up
)
