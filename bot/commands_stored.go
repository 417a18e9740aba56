package bot

import (
	"context"
	"errors"

	"github.com/approvalbot/approvalbot/channels"
	"github.com/approvalbot/approvalbot/gate"
)

// What somebody is told who would find nothing to press in an answer.
const (
	sentToYou  = "Its buttons are in your direct messages with me."
	sentNoCard = "I could not send you its card just now. Try again in a moment."
	noMessages = "I cannot write to you directly, so there is nothing for you to press. Decide where its card is, or ask an administrator of this chat to let me write direct messages."
	cardIsHere = "Its card is here."
)

// send takes the buttons from the card in an answer, because nobody could check what
// comes of them, and sends whoever asked a card that is written down; false: it
// should, and could not. One who has nothing to press is sent none.
func (q *inquiry) send(ctx context.Context, answer *channels.Answer) bool {
	c := answer.Card
	pressable := c.Approve || c.Deny || c.Ask || c.TakeBack || c.Unsettled || c.Again
	c.Settle()
	if c.Answer = false; !pressable { // an answer is typed
		return true
	}
	link, err := q.Stored[q.voter.Surface](ctx, c.Approval, q.voter)
	if err == nil {
		answer.Rows = append(answer.Rows, channels.Row{Approval: c.Approval, Lines: []string{sentToYou}, Link: link})
		return true
	}
	q.Log.WarnContext(ctx, "somebody could not be sent a card", "approval", string(c.Approval), "to", q.voter.ID, "err", err)
	answer.Lines = append(answer.Lines, unsent(err))
	if link := q.link(ctx, c.Approval); link != "" {
		answer.Rows = append(answer.Rows, channels.Row{Approval: c.Approval, Lines: []string{cardIsHere}, Link: link})
	}
	return false
}

// unsent says why somebody was sent no card, and what to do.
func unsent(err error) string {
	if e, ok := errors.AsType[*channels.Error](err); ok {
		if passing(e) {
			return sentNoCard
		}
		return noMessages
	}
	if kind := gate.KindOf(err); kind == gate.Internal || kind == gate.Unavailable {
		return sentNoCard
	}
	return gate.PublicText(err)
}

// link is where the card of an approval is in the chat that is typed in.
func (q *inquiry) link(ctx context.Context, id gate.ID) string {
	if of := q.Links[q.voter.Surface]; of != nil {
		return of(ctx, id)
	}
	return ""
}
