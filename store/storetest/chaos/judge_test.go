//go:build linux

package chaos

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/approvalbot/approvalbot/gate"
)

// judge holds everything against everything. It marks the test as failed for each
// promise that was broken.
func (h *history) judge() {
	h.Helper()
	ops, err := readAll(h.dir)
	if err != nil {
		h.Fatal(err)
	}
	h.end.log = h.log()
	c := newCourt(ops, h.end, &h.site.topology)
	c.sit()
	h.count(ops)
	h.stats.forgiven = c.forgiven
	h.Logf("%s", h.stats.String())
	for _, v := range c.violations {
		h.Errorf("violation: %s", v)
	}
	h.write("violations.txt", strings.Join(c.violations, "\n"))
}

// log reads all of the store's log.
func (h *history) log() (all []gate.Entry) {
	h.Helper()
	for pos := ""; ; {
		entries, err := h.db.Read(h.Context(), pos, 1000, 0)
		if err != nil {
			h.Fatal(err)
		}
		if len(entries) == 0 {
			return all
		}
		all = append(all, entries...)
		pos = entries[len(entries)-1].Pos
	}
}

// write keeps a text beside the history.
func (h *history) write(name, text string) {
	if err := os.WriteFile(filepath.Join(h.dir, name), []byte(text), 0o600); err != nil {
		h.Error(err)
	}
}

func (h *history) count(ops []*op) {
	h.stats.ops, h.stats.approvals, h.stats.dispatched = len(ops), len(h.end.approvals), len(h.end.ran)
	for _, s := range h.end.approvals {
		if s.Predecessor != "" {
			h.stats.successors++
		}
	}
}

// court knows all that happened, and says what should not have.
type court struct {
	ending
	ops      []*op
	of       map[gate.ID][]*op
	keeps    bool // Redis lost nothing that it acknowledged
	confirms bool // nor any decision or dispatch

	violations []string
	forgiven   int
}

func newCourt(ops []*op, end ending, top *topology) *court {
	c := &court{ending: end, ops: ops, of: map[gate.ID][]*op{}, keeps: top.keeps(), confirms: top.confirms()}
	for _, o := range ops {
		c.of[o.ID] = append(c.of[o.ID], o)
	}
	return c
}

func (c *court) blame(format string, args ...any) {
	c.violations = append(c.violations, fmt.Sprintf(format, args...))
}

// known is blame for what is known not to be kept yet. CHAOS_STRICT=1 forgives none.
func (c *court) known(format string, args ...any) {
	if os.Getenv("CHAOS_STRICT") != "" {
		c.blame(format, args...)
		return
	}
	c.forgiven++
}

func (c *court) sit() {
	c.atMostOnce()
	c.asApproved()
	c.neverDenied()
	c.refusedSpendsNothing()
	c.holderDispatches()
	c.allEnd()
	c.logFollowsTable()
	if c.confirms {
		c.noDecisionIsLost()
		c.noDispatchIsLost()
	}
	if !c.keeps {
		return
	}
	c.storedAsRan()
	c.cardsAgree()
	c.linearize()
}

// atMostOnce: whatever was lost, no approval is dispatched twice.
func (c *court) atMostOnce() {
	by := map[gate.ID]ran{}
	for _, r := range c.ran {
		if first, twice := by[r.ID]; twice {
			c.blame("%s was dispatched twice: attempt %s by %s, attempt %s by %s", r.ID, first.Attempt, first.By, r.Attempt, r.By)
		}
		by[r.ID] = r
	}
}
