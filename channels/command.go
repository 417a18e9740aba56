package channels

import (
	"context"

	"github.com/approvalbot/approvalbot/gate"
)

// CommandFunc does what somebody typed and returns what only they see.
type CommandFunc func(context.Context, Command) Answer

// PrivateFunc does what a press on a private card asks for and returns what the
// presser sees in its place.
type PrivateFunc func(context.Context, Click) Answer

// Command is what somebody typed behind the name of a slash command, or the press
// of a button of an earlier answer. The channel has checked that it comes from the
// platform, and undone what the platform did to the text.
type Command struct {
	Voter gate.Voter // by the platform's stable id
	Text  string
	Place string // where it was typed: "slack:C0PROD"
}

// Answer is what one person alone is shown. Its texts are inert, as those of a
// Card; the channel escapes what its platform takes for markup.
type Answer struct {
	Lines   []string // above everything
	Rows    []Row
	Card    *Card    // with its buttons, if it has any: see Card.Proof
	Buttons []Button // below everything

	Beside bool // what was pressed stays as it is, and this is shown beside it
}

// Row is one approval, or one grant that came of it, in a list.
type Row struct {
	Approval gate.ID
	Lines    []string
	Link     string  // where its card is in that chat; empty if it is not known
	Button   *Button // nil: there is nothing to press
}

// Button runs a command when it is pressed, as if the presser had typed it: it
// carries no more authority than they have.
type Button struct{ Label, Command string }
