package gate_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/approvalbot/approvalbot/gate"
)

// caller is an agent that knows one rule, run if allow, and otherwise does as it
// pleases. Beside it the test keeps its own short account of what people did.
type caller struct {
	*bundle
	fail func(format string, args ...any)

	ids     []gate.ID
	asked   map[gate.ID]gate.Request
	tokens  map[gate.ID]gate.Spending
	yes     map[gate.ID]bool   // approved, and nothing since that takes it back
	ran     map[gate.ID]string // the attempt that was told to run
	granted []gate.Request     // what an approver let pass for longer
}

// call asks, one way or another, and does what the answer says.
func (c *caller) call(r gate.Request) {
	got, err := c.Check(c.t.Context(), r)
	switch {
	case got.Verdict == gate.Allow:
		c.run(r, got)
	case got.Verdict == gate.Ask && err == nil:
		if _, known := c.asked[got.Approval.ID]; !known {
			c.ids, c.asked[got.Approval.ID] = append(c.ids, got.Approval.ID), r
		}
		if got.Token.Set() {
			c.tokens[got.Approval.ID] = gate.Spending{Token: got.Token, Call: r.Call}
		}
	case got.Verdict != gate.Block:
		c.fail("verdict %q, %v", got.Verdict, err)
	}
}

// run checks that what runs may run.
func (c *caller) run(r gate.Request, got gate.Ruling) {
	switch got.Reason {
	case gate.RungUndesignated:
		if r.Call.Tool != "list" {
			c.fail("%s ran as undesignated", r.Call.Tool)
		}
	case gate.RungGrant:
		for _, g := range c.granted {
			if g.Call.Tool == r.Call.Tool && g.Requester.Session == r.Requester.Session {
				return
			}
		}
		c.fail("%s ran by a grant that nobody gave", r.Call.Tool)
	case gate.RungToken:
		id := got.Approval.ID
		if !c.yes[id] {
			c.fail("%s ran, and nobody had approved it", id)
		}
		if was := c.ran[id]; was != "" && was != r.Attempt {
			c.fail("%s ran for attempts %s and %s", id, was, r.Attempt)
		}
		digest, err := r.Call.Digest()
		if err != nil || digest != got.Approval.Digest {
			c.fail("%s ran with another call than was approved", id)
		}
		c.ran[id] = r.Attempt
	default:
		c.fail("allowed by rung %q", got.Reason)
	}
}

func (c *caller) request(t *rapid.T) gate.Request {
	r := ask(rapid.SampledFrom([]string{"list", "send_email", "scoped_x", "stage_x"}).Draw(t, "tool"))
	r.Call.Args = json.RawMessage(fmt.Sprintf(`{"n":%d}`, rapid.IntRange(0, 1).Draw(t, "n")))
	r.Requester.Session = rapid.SampledFrom([]string{"s1", "s2"}).Draw(t, "session")
	r.Key = rapid.SampledFrom([]string{"", "", "k1", "k2"}).Draw(t, "key")
	r.Join = rapid.Bool().Draw(t, "join")
	return r
}

func (c *caller) some(t *rapid.T) (gate.ID, bool) {
	if len(c.ids) == 0 {
		return "", false
	}
	return rapid.SampledFrom(c.ids).Draw(t, "id"), true
}

// spend presents a token, with its own call or with another one, for a fresh
// attempt or for the last.
func (c *caller) spend(t *rapid.T) {
	id, ok := c.some(t)
	token, has := c.tokens[id]
	if !ok || !has {
		return
	}
	r := c.asked[id]
	r.Call, r.Token, r.Attempt = token.Call, token.Token, attempt()
	if c.ran[id] != "" && rapid.Bool().Draw(t, "again") {
		r.Attempt = c.ran[id]
	}
	if rapid.IntRange(0, 3).Draw(t, "other call") == 0 {
		r.Call.Args = json.RawMessage(`{"n":7}`)
	}
	c.call(r)
}

// decide lets somebody approve or deny, and remembers what came of it.
func (c *caller) decide(t *rapid.T) {
	id, ok := c.some(t)
	if !ok {
		return
	}
	d := press(c.get(id), rapid.SampledFrom([]string{"ann", "bo"}).Draw(t, "who"), gate.Approve)
	if rapid.IntRange(0, 3).Draw(t, "deny") == 0 {
		d.Choice = gate.Deny
	} else if c.asked[id].Call.Tool == "scoped_x" {
		d.Scope = rapid.SampledFrom([]gate.Scope{gate.Once, gate.Session}).Draw(t, "scope")
	}
	if _, err := c.Decide(c.t.Context(), d); err != nil {
		return
	}
	c.yes[id] = d.Choice == gate.Approve
	if d.Scope == gate.Session {
		c.granted = append(c.granted, c.asked[id])
	}
}

func TestACallerThatRunsOnlyWhatIsAllowedIsNeverWrong(t *testing.T) {
	t.Parallel()

	rapid.Check(t, func(rt *rapid.T) {
		c := &caller{
			bundle: setup(t, world()), fail: rt.Fatalf, asked: map[gate.ID]gate.Request{},
			tokens: map[gate.ID]gate.Spending{}, yes: map[gate.ID]bool{}, ran: map[gate.ID]string{},
		}
		rt.Repeat(map[string]func(*rapid.T){
			"ask":    func(rt *rapid.T) { c.call(c.request(rt)) },
			"spend":  c.spend,
			"decide": c.decide,
			"look": func(rt *rapid.T) {
				if id, ok := c.some(rt); ok {
					if v, err := c.Get(t.Context(), agent("hermes"), id); err == nil && v.Ruling.Token.Set() {
						c.tokens[id] = gate.Spending{Token: v.Ruling.Token, Call: v.Call}
					}
				}
			},
			"cancel": func(rt *rapid.T) {
				if id, ok := c.some(rt); ok && c.Cancel(t.Context(), agent("hermes"), id, "") == nil {
					c.yes[id] = false
				}
			},
			"wait": func(rt *rapid.T) {
				c.pass(time.Duration(rapid.IntRange(1, 400).Draw(rt, "seconds")) * time.Second)
			},
		})
	})
}
