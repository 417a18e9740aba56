package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/approvalbot/approvalbot/bot/wire"
	"github.com/approvalbot/approvalbot/gate"
)

// moment reads a time of the API; what is none is the zero time.
func moment(s string) time.Time {
	t, _ := time.Parse(time.RFC3339Nano, s)
	return t
}

// due is when silence decides about a pending approval, or when it stops being
// waited for.
func due(a *wire.Approval) time.Time {
	if t := moment(a.InlineUntil); !t.IsZero() && a.Mode == string(gate.Inline) {
		return t
	}
	return moment(a.Expires)
}

const dueSoon = 10 * time.Minute

// pendingPage prints how many wait, then those on the page, most urgent first.
func (s screen) pendingPage(l wire.ListAnswer, now time.Time) error {
	rows := slices.SortedFunc(slices.Values(l.Approvals), func(a, b wire.Approval) int { return due(&a).Compare(due(&b)) })
	soon := 0
	for i := range rows {
		if due(&rows[i]).Sub(now) <= dueSoon {
			soon++
		}
	}
	count := fmt.Sprintf("%d pending", max(l.Pending, len(rows)))
	if soon > 0 {
		count += fmt.Sprintf(", %d due in 10 min", soon)
	}
	if len(rows) < l.Pending {
		count += fmt.Sprintf("; these are %d of them", len(rows))
	}
	for _, n := range l.Notices {
		if err := s.line("%s", s.styled(yellow, gate.Clean(n))); err != nil {
			return err
		}
	}
	if err := s.line("%s", s.styled(bold, count)); err != nil || len(rows) == 0 {
		return err
	}
	table := make([][]cell, len(rows))
	for i := range rows {
		table[i] = pendingRow(&rows[i], now)
	}
	return s.table([]string{"ID", "DUE", "MODE", "AGENT", "RULE", "CALL"}, table)
}

func pendingRow(a *wire.Approval, now time.Time) []cell {
	urgency := plain
	if due(a).Sub(now) <= dueSoon {
		urgency = yellow
	}
	return []cell{
		{gate.ShortID(a.ID), bold},
		{when(due(a), now), urgency},
		{gate.Clean(a.Mode), plain},
		{brief(agentOf(a), 16), plain},
		{brief(a.Rule, 20), dim},
		{callLine(a), cyan},
	}
}

// brief is text that somebody else chose, cleaned and cut.
func brief(s string, n int) string {
	runes := []rune(gate.Clean(s))
	if len(runes) <= n {
		return string(runes)
	}
	return string(runes[:n-1]) + "…"
}

func agentOf(a *wire.Approval) string { return cmp.Or(a.Requester.Agent, a.Requester.Key) }

func callLine(a *wire.Approval) string {
	line := gate.Visible(a.Call.Tool)
	if a.Call.Target != "" {
		line += " on " + gate.Visible(a.Call.Target)
	}
	return line
}

// approval prints everything that an approver needs to see of one approval.
func (s screen) approval(a *wire.Approval, reason string, now time.Time) error {
	if err := s.line("%s  %s", s.styled(bold, a.ID), s.styled(stateStyle(a.State), standing(a, reason, now))); err != nil {
		return err
	}
	if err := s.fields(approvalFields(a, now)...); err != nil {
		return err
	}
	if err := s.arguments(a); err != nil {
		return err
	}
	if err := s.votes(a.Votes, now); err != nil {
		return err
	}
	if err := s.questions(a.Questions); err != nil {
		return err
	}
	return s.result(a)
}

// result is what the tool said, or why nobody knows.
func (s screen) result(a *wire.Approval) error {
	if a.Result == "" {
		return nil
	}
	return s.line("\n  %s\n    %s", s.styled(dim, "what came of it"), strings.ReplaceAll(gate.VisibleLines(a.Result), "\n", "\n    "))
}

func approvalFields(a *wire.Approval, now time.Time) []field {
	who := gate.Clean(agentOf(a)) + " (key " + gate.Clean(a.Requester.Key) + ")"
	if a.Requester.Person != "" {
		who += " on behalf of " + gate.Clean(a.Requester.Person)
	}
	why := ""
	if a.Intent != "" {
		why = gate.Visible(a.Intent) + "  (the agent's own words)"
	}
	failedOver := ""
	if a.FailedOver != "" {
		failedOver = "the store failed over " + when(moment(a.FailedOver), now) + "; this may already have run"
	}
	if a.Rerun {
		failedOver = "it was started before, as " + gate.Clean(a.Predecessor) + ", and nobody knows how that ended; it may already have run"
	}
	return []field{
		{"tool", gate.Visible(a.Call.Tool), cyan},
		{"target", gate.Visible(a.Call.Target), cyan},
		{"server", gate.Visible(a.Call.Server), plain},
		{"asked by", who, plain},
		{"session", gate.Clean(a.Requester.Session), plain},
		{"why", why, plain},
		{"rule", gate.Clean(a.Rule), plain},
		{"mode", gate.Clean(a.Mode), plain},
		{"silence", silence(a, now), yellow},
		{"careful", failedOver, red},
		{"refused before", gate.Clean(a.Refused), yellow},
		{"asks again as", gate.Clean(a.Successor), plain},
		{"in place of", gate.Clean(a.Predecessor), plain},
		{"digest", gate.Clean(a.Digest), dim},
	}
}

// silence says what happens if nobody decides.
func silence(a *wire.Approval, now time.Time) string {
	if a.State != string(gate.Pending) {
		return ""
	}
	inline := moment(a.InlineUntil)
	if a.Mode == string(gate.Inline) && moment(a.Expires).After(inline) && inline.After(now) {
		return fmt.Sprintf("nobody waits any more %s; not run unless decided %s", when(inline, now), when(moment(a.Expires), now))
	}
	return "not run if nobody decides; that is " + when(due(a), now)
}

func (s screen) arguments(a *wire.Approval) error {
	args := a.Call.Args
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	title := "arguments"
	if a.Call.Redacted {
		title += " (some are covered by the rule)"
	}
	return s.line("\n  %s\n    %s", s.styled(dim, title), strings.ReplaceAll(gate.Pretty(args), "\n", "\n    "))
}

func (s screen) votes(votes []wire.Vote, now time.Time) error {
	for i, v := range votes {
		if i == 0 {
			if err := s.line("\n  %s", s.styled(dim, "votes")); err != nil {
				return err
			}
		}
		said := ""
		if v.Reason != "" {
			said = fmt.Sprintf(": %q", gate.Clean(v.Reason))
		}
		if err := s.line("    %s %s %s%s", gate.Clean(v.Name), gate.Clean(v.Choice), when(moment(v.At), now), said); err != nil {
			return err
		}
	}
	return nil
}

func (s screen) questions(questions []wire.Question) error {
	for i, q := range questions {
		if i == 0 {
			if err := s.line("\n  %s", s.styled(dim, "questions")); err != nil {
				return err
			}
		}
		answer := "no answer yet"
		if q.Answer != "" {
			answer = gate.Visible(q.Answer) + "  (the agent's own words)"
		}
		if err := s.line("    %s: %s\n      %s", gate.Clean(q.By), gate.Clean(q.Text), answer); err != nil {
			return err
		}
	}
	return nil
}

// standing says in one line how it stands with an approval.
func standing(a *wire.Approval, reason string, now time.Time) string {
	asked := len(a.Questions) > 0 && a.Questions[len(a.Questions)-1].Answer == ""
	if a.State == string(gate.Pending) && !asked {
		return "Waiting for " + cmp.Or(gate.Clean(a.Waiting), "people")
	}
	g := gate.Approval{
		State: gate.State(a.State), Reason: gate.Reason(reason), By: a.By, Note: a.Note, Outcome: a.Outcome, SettledBy: a.SettledBy, Successor: gate.ID(a.Successor),
		Decided: moment(a.Decided), RunBy: moment(a.RunBy), Started: moment(a.Started), Ended: moment(a.Ended), FailedOver: moment(a.FailedOver),
	}
	for _, q := range a.Questions {
		g.Questions = append(g.Questions, gate.Question{By: q.By, Text: q.Text, Answer: q.Answer})
	}
	return gate.StateLine(&g, gate.Progress{}, gate.Clock{Now: now, In: time.Local})
}

func stateStyle(state string) style {
	switch gate.State(state) {
	case gate.Pending, gate.Leased, gate.OutcomeUnknown:
		return yellow
	case gate.Approved, gate.Executing, gate.Executed:
		return green
	case gate.Denied, gate.Failed, gate.Revoked, gate.Void:
		return red
	case gate.Expired, gate.Cancelled, gate.Lapsed:
		return dim
	}
	return plain
}
