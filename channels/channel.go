package channels

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/approvalbot/approvalbot/gate"
)

// Channel shows cards to people. Implementations are safe for concurrent use and
// return within the deadline of ctx. Their errors are of type *Error. A place may
// have several names, as far as the channel is a Resolver.
type Channel interface {
	// Name is how places of this channel begin: "slack" of "slack:C0PROD".
	Name() string

	// Post shows a card in a conversation and returns where it is, for Update and
	// as every press names it. Posting twice may show it twice: the caller keeps
	// the Ref.
	Post(ctx context.Context, to gate.Conversation, c *Card) (Ref, error)

	// Update redraws the card at ref. Where the message is gone, or the platform
	// forbids changing it any more, the error is Frozen.
	Update(ctx context.Context, ref Ref, c *Card) error

	// Say writes a text, in a thread if to has one.
	Say(ctx context.Context, to gate.Conversation, text string) error
}

// Resolver is a Channel whose places have several names: that of a conversation
// beside its id, a person for the direct messages with them.
type Resolver interface {
	// Resolve returns the one name of a conversation: the Place of what Post
	// returns there, and of every press. It opens direct messages where there are
	// none yet. It is asked often, and remembers.
	Resolve(ctx context.Context, c gate.Conversation) (gate.Conversation, error)
}

// Finder is a Channel that can look for a card whose Post was never answered.
type Finder interface {
	// Find returns the card of an approval in a conversation; found is false if
	// it is certain that there is none.
	Find(ctx context.Context, in gate.Conversation, id gate.ID) (ref Ref, found bool, err error)
}

// Prober is a Channel that can be asked whether it works.
type Prober interface {
	Probe(ctx context.Context) error
}

// Paced is a Channel that takes only so many updates over all its conversations
// together: one every so often, and some at once.
type Paced interface {
	UpdatePace() (every time.Duration, burst int)
}

// Ref is where a card is. Only the channel that made it reads it.
type Ref struct {
	Place   string `json:"place"`
	Message string `json:"message"`
	Thread  string `json:"thread,omitempty"` // that the message is in
}

// Below is where an answer to the card goes.
func (r Ref) Below() gate.Conversation {
	return gate.Conversation{Place: r.Place, Thread: cmp.Or(r.Thread, r.Message)}
}

// Trouble is what kept a card from being delivered. The zero value is a mistake
// that no second try mends.
type Trouble int

// The troubles.
const (
	Broken  Trouble = iota // the request itself is refused
	Busy                   // the same delivery may succeed later
	Nowhere                // this conversation takes none: archived, not invited
	Frozen                 // this message cannot be changed any more
	Unknown                // nobody knows whether it arrived
	Out                    // the whole channel takes nothing until somebody mends it: a revoked token
)

// Error is a failed delivery.
type Error struct {
	Op      string // "slack.Post"
	Trouble Trouble
	After   time.Duration // with Busy: the platform said not before; zero if it said nothing
	Err     error
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %v", e.Op, e.Err) }
func (e *Error) Unwrap() error { return e.Err }

// TroubleOf returns what an error of a Channel means. One that is none of its
// own counts as Unknown: it may have arrived.
func TroubleOf(err error) (t Trouble, after time.Duration) {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Trouble, e.After
	}
	return Unknown, 0
}

// ClickFunc does what a press asks for and returns what only the presser sees.
type ClickFunc func(context.Context, Click) (reply string)

// TryFunc is a ClickFunc that also says why a press did not count.
type TryFunc func(context.Context, Click) (reply string, refused error)

// Reply is the choice of a Click that answers an approver's question, which is no
// vote.
const Reply gate.Choice = "answer"

// Choices of a Click about a call whose outcome nobody knows, which are no votes
// either.
const (
	Ran      gate.Choice = "ran"
	NotRun   gate.Choice = "did_not_run"
	RunAgain gate.Choice = "run_again" // asks whether to
)

// Click is a press of a button on a card, or what was typed into its dialog. The
// channel has checked that it comes from the platform.
type Click struct {
	Approval gate.ID
	Digest   gate.Digest // of the call that the button was drawn for, as the channel has verified; zero: it says nothing
	Ref      Ref         // of the card that was pressed
	Ours     bool        // this bot and nobody else has posted the card: the platform vouches for it, or the channel has looked
	Proof    string      // of a private one, as it was drawn; empty for a stored one
	Voter    gate.Voter  // by the platform's stable id
	Choice   gate.Choice
	Scope    gate.Scope
	Reason   string // of a denial; or the question, or the answer
	Nonce    string // the same for a press that the platform delivers twice
}
