// Package channels is what a chat platform must do to carry approvals: show a
// Card, redraw it, and hand over the presses of its buttons. It holds no
// platform's words; slack and mattermost, each in its own package below, do.
//
// A Card is made from what the store holds and nothing else, so the same state
// always draws the same card, whoever draws it and however often.
package channels
