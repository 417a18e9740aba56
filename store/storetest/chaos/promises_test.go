//go:build linux

package chaos

import (
	"fmt"
	"slices"
	"time"

	"github.com/approvalbot/approvalbot/gate"
)

// asApproved: enough people had approved that very call before it ran. Whoever was
// refused after a while may have been heard by a primary that is no more.
func (c *court) asApproved() {
	for _, r := range c.ran {
		who := map[string]bool{}
		for _, o := range c.of[r.ID] {
			if o.Do == doDecide && o.Choice == gate.Approve && o.Digest == r.Digest && o.from < r.At && o.mayCount() {
				who[o.Person] = true
			}
		}
		if need := quorumOf(r.Tool); len(who) < need {
			c.blame("%s was dispatched by %s with %d of %d approvals of what was run", r.ID, r.By, len(who), need)
		}
	}
}

// neverDenied: what somebody was told is denied or taken back does not run.
func (c *court) neverDenied() {
	for _, r := range c.ran {
		for _, o := range c.of[r.ID] {
			if o.Do == doDecide && o.Choice == gate.Deny && o.Yes && (o.State == gate.Denied || o.State == gate.Revoked) {
				c.blame("%s was dispatched by %s, and denied: %s", r.ID, r.By, o)
			}
		}
	}
}

// refusedSpendsNothing: the attempt that an approval was spent for was not refused.
func (c *court) refusedSpendsNothing() {
	for id, s := range c.approvals {
		if s.Attempt == "" {
			continue
		}
		fair := slices.ContainsFunc(c.of[id], func(o *op) bool {
			return o.Attempt == s.Attempt && o.Do == doConsume && o.mayCount()
		})
		if !fair {
			c.blame("%s is spent for attempt %s, which nobody made or which was refused:%s", id, s.Attempt, c.story(id))
		}
	}
	for _, o := range c.ops {
		if o.Do == doForge && o.Yes {
			c.blame("a forged consume was taken: %s", o)
		}
	}
}

// mayCount reports whether it may have happened: a refusal that took long may be the
// answer to a second try, after time had moved on.
func (o *op) mayCount() bool { return o.Yes || o.Unknown || o.to-o.from >= int64(retryAfter) }

// retryAfter is how long the store waits before it asks again, at least.
const retryAfter = 20 * time.Millisecond

// holderDispatches: of what an executor runs, only the last lease counts.
func (c *court) holderDispatches() {
	holder := map[gate.ID]string{}
	for _, e := range c.log {
		switch e.Event {
		case gate.EventLeased:
			holder[e.ID] = e.By
		case gate.EventReleased:
			delete(holder, e.ID)
		case gate.EventConsumed:
			if s := c.approvals[e.ID]; s != nil && !s.ByRequester() && holder[e.ID] != e.By {
				c.blame("%s was dispatched by %s, but leased by %q:%s", e.ID, e.By, holder[e.ID], c.story(e.ID))
			}
		}
	}
	for _, o := range c.ops {
		s := c.approvals[o.ID]
		if o.Do == doConsume && o.Yes && s != nil && s.Attempt == o.Attempt && s.Fence != o.Fence && o.Fence != noFence {
			c.blame("%s was dispatched under fence %d, but leased under %d: %s", s.ID, o.Fence, s.Fence, o)
		}
	}
}

// noFence is of whoever could not learn the fence of its lease.
const noFence = -1

// allEnd: nothing is left behind.
func (c *court) allEnd() {
	for id, s := range c.approvals {
		if !s.State.Final() {
			c.blame("%s is still %s:%s", id, s.State, c.story(id))
		}
	}
}

// logFollowsTable: the log has no gap and tells of moves of the table only.
func (c *court) logFollowsTable() {
	was, spent := map[gate.ID]gate.State{}, map[gate.ID]bool{}
	for i, e := range c.log {
		if e.N != int64(i+1) {
			c.blame("log: entry %d has number %d", i+1, e.N)
			return
		}
		if e.To == "" {
			continue
		}
		if was[e.ID] != e.From || !e.From.Takes(e.Event, e.To) {
			c.blame("log: %s was %q, and took %q from %q to %q", e.ID, was[e.ID], e.Event, e.From, e.To)
		}
		if e.Event == gate.EventConsumed && spent[e.ID] {
			c.blame("log: %s was spent twice", e.ID)
		}
		was[e.ID], spent[e.ID] = e.To, spent[e.ID] || e.Event == gate.EventConsumed
	}
	for id, s := range c.approvals {
		if was[id] != s.State {
			c.blame("log: %s ends as %q, but is %q", id, was[id], s.State)
		}
	}
}

// noDecisionIsLost: what somebody was told is recorded is there in the end, unless
// they have decided otherwise since.
func (c *court) noDecisionIsLost() {
	for _, o := range c.ops {
		if o.Do != doDecide || !o.Yes {
			continue
		}
		s := c.approvals[o.ID]
		kept := s != nil && slices.ContainsFunc(s.Votes, func(v gate.Vote) bool {
			return v.Voter.Person == o.Person && (v.Nonce == o.Nonce || c.decided(s.ID, o.Person, v.Nonce))
		})
		if !kept {
			c.blame("a decision was lost: %s%s", o, c.story(o.ID))
		}
	}
}

// decided reports whether a person has pressed with that nonce.
func (c *court) decided(id gate.ID, person, nonce string) bool {
	return slices.ContainsFunc(c.of[id], func(o *op) bool { return o.Do == doDecide && o.Person == person && o.Nonce == nonce })
}

// noDispatchIsLost: what was run is stored as run.
func (c *court) noDispatchIsLost() {
	for _, r := range c.ran {
		if s := c.approvals[r.ID]; s == nil || s.Attempt != r.Attempt {
			c.blame("%s was run for attempt %s, which is not stored:%s", r.ID, r.Attempt, c.story(r.ID))
		}
	}
}

// storedAsRan: what is stored as reported was run, and ended as it was reported.
func (c *court) storedAsRan() {
	by := map[string]bool{}
	for _, r := range c.ran {
		by[r.Attempt] = true
	}
	for id, s := range c.approvals {
		if s.State == gate.Executed && s.Outcome == "" && s.SettledBy == "" && !by[s.Attempt] {
			c.blame("%s is %s, but was never run:%s", id, s.State, c.story(id))
		}
	}
	for _, o := range c.ops {
		if s := c.approvals[o.ID]; o.Do == doReport && o.Yes && (s == nil || s.State != o.Outcome) {
			c.blame("a report was lost: %s", o)
		}
	}
}

// cardsAgree: whatever stands in the chat says how its approval ended. It is known
// that a stray card, which was posted and not written down, may not.
func (c *court) cardsAgree() {
	for i := range c.cards {
		wrong := c.wrong(&c.cards[i])
		if wrong == "" {
			continue
		}
		blame := c.blame
		if c.unknown[c.cards[i].Ref] {
			blame = c.known
		}
		blame("card %+v: %s:%s", c.cards[i], wrong, c.story(c.cards[i].Approval))
	}
}

// wrong says what is wrong with a card in the end.
func (c *court) wrong(card *drawn) string {
	s := c.approvals[card.Approval]
	switch {
	case s == nil:
		return "there is no such approval"
	case card.Rev != s.Rev || card.Live:
		return fmt.Sprintf("it is %s at revision %d, successor %q", s.State, s.Rev, s.Successor)
	}
	return ""
}

// story is all that is known of an approval.
func (c *court) story(id gate.ID) (text string) {
	for _, o := range c.of[id] {
		text += fmt.Sprintf("\n\t%d %s", o.from, o)
	}
	for _, e := range c.log {
		if e.ID == id {
			text += fmt.Sprintf("\n\tlog %d %s: %s %s -> %s by %s: %s", e.N, e.At.Format("05.000"), e.Event, e.From, e.To, e.By, e.Note)
		}
	}
	return text
}
