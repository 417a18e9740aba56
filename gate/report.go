package gate

import (
	"context"
	"strings"

	"github.com/approvalbot/approvalbot/gate/secret"
)

// MaxResult is how much is kept of what a tool said, in characters.
const MaxResult = 4000

// Reporting is what a caller says of a dispatch.
type Reporting struct {
	Principal string
	ID        ID
	Token     secret.String
	Attempt   string // may be empty after a crash
	Outcome   State  // Executed, Failed, or OutcomeUnknown: then a person settles it
	Note      string // one line; empty: the first of Result
	Result    string // what the tool said
}

// Report records how a dispatch ended. The token proves that it was approved
// here, whatever the store has lost since.
func (g *Gate) Report(ctx context.Context, r Reporting) error {
	s, err := g.reported(ctx, &r)
	if err != nil {
		return err
	}
	result := g.shownResult(s, r.Result)
	note := words(r.Note)
	if note == "" {
		note = words(firstLine(result))
	}
	return g.store.Report(ctx, r.ID, Report{
		Principal: r.Principal, Attempt: r.Attempt, Outcome: r.Outcome, Note: note, Result: result,
	})
}

// reported checks who reports what, and reads what it is about.
func (g *Gate) reported(ctx context.Context, r *Reporting) (*Snapshot, error) {
	const op = "gate.Report"
	t, err := parseToken(r.Token)
	if err != nil {
		return nil, err
	}
	if t.id != r.ID {
		return nil, &Error{Kind: Invalid, Reason: ReasonNotFound, Op: op, Public: "token: it belongs to another approval"}
	}
	if r.Outcome != Executed && r.Outcome != Failed && r.Outcome != OutcomeUnknown {
		return nil, &Error{Kind: Invalid, Op: op, Public: "outcome: want executed, failed or outcome_unknown"}
	}
	if r.Attempt != "" && !attemptForm.MatchString(r.Attempt) {
		return nil, &Error{Kind: Invalid, Op: op, Public: "attempt_id: want 32 lower-case hex digits"}
	}
	s, err := g.store.Get(ctx, r.ID)
	if err != nil {
		return nil, err
	}
	switch {
	case !g.keys.genuine(t, s.Digest):
		g.note(Entry{Event: EventSecurity, ID: t.id, By: r.Principal, Note: "report with a token that is not genuine"})
		return nil, &Error{Kind: Forbidden, Reason: ReasonNotFound, Op: op, Public: "token: not a token of this approval"}
	case s.ByRequester() && r.Principal != s.Requester.Key:
		return nil, g.notYours(Principal{Key: r.Principal}, s.ID, "report")
	case !s.ByRequester() && t.fence != s.Fence && t.incarnation == s.Approval.Incarnation:
		return nil, &Error{Kind: Conflict, Reason: ReasonFenced, Op: op, Public: "this token is of an earlier lease"}
	}
	return &s, nil
}

// shownResult is what is kept of a tool's words: as much as people read, nothing
// that hides or reorders, and not what the rule covers in the arguments.
func (g *Gate) shownResult(s *Snapshot, text string) string {
	values, all := g.covered(s)
	if all && text != "" {
		return "[redacted: the rule of this call is gone, and with it what it covers]"
	}
	for _, v := range values {
		text = strings.ReplaceAll(text, v, "[redacted]")
	}
	text, _ = Cut(strings.TrimSpace(VisibleLines(text)), MaxResult)
	return text
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}
