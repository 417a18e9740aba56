package slack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	api "github.com/slack-go/slack"

	"github.com/approvalbot/approvalbot/channels"
	"github.com/approvalbot/approvalbot/gate"
)

// The full view shows all that a card says of a call, on pages of a modal.
const (
	callbackFull = "full"
	actBack      = "page_back"
	actOn        = "page_on"
)

// Limits of a page. Slack takes 250 KB of a view, as it is sent, and 100 blocks.
const (
	maxPiece     = 2900 // characters of one block
	maxPage      = 40_000
	maxPageBytes = 200_000
)

// piece is one block of a page.
type piece struct {
	part  string // which of the parts it is of, "args" or another
	head  string // what that is for people
	first bool   // of its part
	text  string
}

// pages are all that a card says, first of all the arguments. Whoever reads the
// pieces of a part one after the other has read it exactly.
func pages(c *channels.Card) (all [][]piece) {
	chars, bytes := maxPage, maxPageBytes // nothing has room on no page
	for _, part := range c.Parts() {
		for i, text := range gate.Pieces(part.Text, maxPiece) {
			moreChars, moreBytes := utf8.RuneCountInString(text), encoded(text)
			if chars+moreChars > maxPage || bytes+moreBytes > maxPageBytes {
				all = append(all, nil)
				chars, bytes = 0, 0
			}
			chars, bytes = chars+moreChars, bytes+moreBytes
			last := &all[len(all)-1]
			*last = append(*last, piece{part.Name, part.Head, i == 0, text})
		}
	}
	return all
}

// encoded is how many bytes a text has in what is sent.
func encoded(text string) int {
	raw, err := json.Marshal(text)
	if err != nil { // strings always can be
		return maxPageBytes
	}
	return len(raw)
}

// fullView draws one page, the nearest if there is none of that number.
func fullView(c *channels.Card, w where) (api.ModalViewRequest, error) {
	return drawPage(c, pages(c), w)
}

func drawPage(c *channels.Card, all [][]piece, w where) (api.ModalViewRequest, error) {
	w.Page = max(0, min(w.Page, len(all)-1))
	metadata, err := json.Marshal(w)
	if err != nil {
		return api.ModalViewRequest{}, err
	}
	blocks := []api.Block{section(head(c)), small(fmt.Sprintf("Page %d of %d · Call %s", w.Page+1, len(all), c.Digest.Short()))}
	if c.Redacted {
		blocks = append(blocks, small("Some values are covered."))
	}
	for i, p := range all[w.Page] {
		switch {
		case p.first:
			blocks = append(blocks, section(p.head+":"))
		case i == 0:
			blocks = append(blocks, section(p.head+", continued:"))
		}
		blocks = append(blocks, preformatted(fmt.Sprintf("%s:%d", p.part, i), p.text))
	}
	var row []api.BlockElement
	if w.Page > 0 {
		row = append(row, button(c, actBack, "Previous"))
	}
	if w.Page < len(all)-1 {
		row = append(row, button(c, actOn, "Next"))
	}
	if row != nil {
		blocks = append(blocks, api.NewActionBlock(fmt.Sprintf("page:%d", w.Page), row...))
	}
	return api.ModalViewRequest{
		Type: api.VTModal, CallbackID: callbackFull, PrivateMetadata: string(metadata),
		Title: plain("The whole call", maxOption), Close: plain("Close", maxOption), Blocks: api.Blocks{BlockSet: blocks},
	}, nil
}

const unread = "The call could not be read just now; press again."

// openFull shows the first page, behind the answer to Slack.
func (p *Presses) openFull(ctx context.Context, in *interaction, k channels.Click) {
	p.behind(ctx, in, func(ctx context.Context) {
		c := p.read(ctx, k.Approval)
		if c == nil {
			p.tell(ctx, in, k.Ref, unread)
			return
		}
		p.show(ctx, in, k, func() (api.ModalViewRequest, error) { return fullView(c, in.place(k)) })
	})
}

// turn shows another page in the place of the one whose button was pressed. If that
// is not there any more, somebody has turned it already.
func (p *Presses) turn(ctx context.Context, in *interaction, action string) error {
	w, err := in.where()
	if err != nil || in.View.Callback != callbackFull {
		return errors.New("payload: a view that is not ours")
	}
	if w.Ref.Message != "" { // else the card is in a view, and so is what is said about it
		in.at = spot{user: in.User.ID, channel: conversation(w.Ref.Place)}
	}
	w.Page++
	if action == actBack {
		w.Page -= 2
	}
	p.behind(ctx, in, func(ctx context.Context) {
		c := p.read(ctx, w.Approval)
		if c == nil {
			p.tell(ctx, in, w.Ref, unread)
			return
		}
		view, err := fullView(c, w)
		if err == nil {
			_, err = p.Slack.client().UpdateViewContext(ctx, view, "", in.View.Hash, in.View.ID)
		}
		if refused, ok := errors.AsType[api.SlackErrorResponse](err); ok && refused.Err == "hash_conflict" {
			return
		}
		if err != nil {
			p.Log.WarnContext(ctx, "a page could not be turned", "approval", string(w.Approval), "err", err)
			p.tell(ctx, in, w.Ref, "The page could not be turned; press again.")
		}
	})
	return nil
}
