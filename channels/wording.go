package channels

import (
	"fmt"
	"slices"
	"strings"

	"github.com/approvalbot/approvalbot/gate"
)

// maxRisk is how much of a risk is shown, in characters.
const maxRisk = 40

// Whither says where the call goes and how bad that may be, each name in at most n
// characters, and whether that hides any of it.
func (c *Card) Whither(n int) (text string, hides bool) {
	name := func(s string) string {
		s, cut := gate.Cut(s, n)
		hides = hides || cut
		return s
	}
	var lines []string
	if c.Tool != "" {
		lines = append(lines, "The tool is "+name(c.Tool))
	}
	switch {
	case c.Target != "" && c.Server != "":
		lines = append(lines, fmt.Sprintf("on %s (server %s)", name(c.Target), name(c.Server)))
	case c.Target != "":
		lines = append(lines, "on "+name(c.Target))
	case c.Server != "":
		lines = append(lines, "on server "+name(c.Server))
	}
	if c.Risk != "" {
		risk, _ := gate.Cut(c.Risk, maxRisk)
		lines = append(lines, "Risk: "+risk)
	}
	return strings.Join(lines, "\n"), hides
}

// Hidden says what the reader of a card does not see of the call: not all of it, or
// not all that it changes.
func (c *Card) Hidden(some, changes bool) string {
	var notes []string
	if c.Redacted {
		notes = append(notes, "Some values are covered.")
	}
	where := "Show all"
	if c.Link != "" {
		where += " or Open"
	}
	switch {
	case some && c.Approve:
		notes = append(notes, "Not all of it fits here: press "+where+" before you approve.")
	case some:
		notes = append(notes, "Not all of it fits here: press "+where+".")
	case changes:
		notes = append(notes, "Of what it changes not all fits above; these are all of the arguments.")
	}
	return strings.Join(notes, " ")
}

// Question is what is asked before an approval for longer counts: what would pass
// without asking, by each scope that is offered.
func (c *Card) Question(offered []Choice) string {
	lines := []string{"Later calls then pass without asking:"}
	if c.Confirm != "" {
		lines = append([]string{c.Confirm}, lines...)
	}
	same := !slices.ContainsFunc(offered, func(s Choice) bool { return s.Covers != offered[0].Covers })
	for _, s := range offered {
		if same {
			return strings.Join(append(lines, s.Covers), "\n")
		}
		lines = append(lines, s.Name+": "+s.Covers)
	}
	return strings.Join(lines, "\n")
}

// Part is one text of a call, for a view of all of it.
type Part struct{ Name, Head, Text string }

// Parts are all that a card says of a call, first of all the arguments.
func (c *Card) Parts() []Part {
	return slices.DeleteFunc([]Part{
		{"args", "Arguments", c.Args},
		{"diff", "What it changes", c.Diff},
		{"intent", "In the agent's own words", c.Intent},
		{"dialogue", "Questions", c.Dialogue},
	}, func(p Part) bool { return p.Text == "" && p.Name != "args" })
}
