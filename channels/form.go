package channels

import (
	"slices"
	"strings"

	"github.com/approvalbot/approvalbot/gate"
)

// Form is what a chat asks for, in a dialog, before something is done.
type Form struct {
	Choice               gate.Choice
	Title, Label, Submit string
	Reasons              []string // to choose from, instead of words or before them
	Most                 int      // characters of words
	Live                 func(*Card) bool
}

// other is the reason that says nothing without words.
const other = "Other"

// The forms.
var (
	DenyForm = Form{
		Choice: gate.Deny, Title: "Deny", Label: "In your own words. The agent is told.", Submit: "Deny this call",
		Reasons: []string{"Wrong target", "Not now", "Needs a change ticket", "I cannot tell what this does", "Should not be done by an agent", other},
		Most:    gate.MaxWords - 40, Live: func(c *Card) bool { return c.Deny },
	}
	AskForm = Form{
		Choice: gate.NeedContext, Title: "Ask the agent", Label: "What should it answer?", Submit: "Ask",
		Most: gate.MaxWords, Live: func(c *Card) bool { return c.Ask },
	}
	AnswerForm = Form{
		Choice: Reply, Title: "Answer", Label: "Your answer", Submit: "Answer",
		Most: min(gate.MaxAnswer, 3000), Live: func(c *Card) bool { return c.Answer },
	}
)

// Lacks is what is wrong with a form that was sent: about the choice, or about the
// words. Empty is nothing.
type Lacks struct{ Chosen, Words string }

// Reason is what was chosen and typed, and what it lacks where the rule wants a
// reason.
func (f *Form) Reason(chosen, words string, required bool) (text string, lacks Lacks) {
	words = strings.TrimSpace(words)
	if !slices.Contains(f.Reasons, chosen) {
		chosen = ""
	}
	switch {
	case required && words == "" && chosen == "":
		return "", Lacks{Chosen: "Choose a reason, or write one below."}
	case required && words == "" && chosen == other:
		return "", Lacks{Words: "Write which."}
	case words == "" || chosen == "":
		return chosen + words, Lacks{}
	}
	return chosen + ": " + words, Lacks{}
}

// Why is the label of the choice of reasons.
func Why(required bool) string {
	if required {
		return "Why? This rule wants a reason: choose one, write one, or both."
	}
	return "Why?"
}
