package gate

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files")

var noon = time.Date(2026, 3, 4, 3, 12, 0, 0, time.UTC) // a Wednesday

// told is an outcome with every part filled in.
func told(change func(*Outcome)) Outcome {
	o := Outcome{
		Tool: "delete_index", ID: "apr_01", Who: "Ann", Mode: Deferred, Executor: RequesterRuns,
		Expires: noon.Add(15 * time.Minute), RunBy: noon.Add(20 * time.Minute), Waited: 15 * time.Minute, RunWithin: 5 * time.Minute,
		Clock: Clock{Now: noon},
	}
	change(&o)
	return o
}

func TestAgentTexts(t *testing.T) {
	t.Parallel()
	state := func(s State) func(*Outcome) { return func(o *Outcome) { o.State = s } }
	rows := []struct {
		name   string
		change func(*Outcome)
	}{
		{"pending, inline", func(o *Outcome) { o.State, o.Mode = Pending, Inline }},
		{"staged, requester runs it", state(Pending)},
		{"staged, executor", func(o *Outcome) { o.State, o.Executor, o.Expires = Pending, "ops", noon.Add(72*time.Hour) }},
		{"question", func(o *Outcome) { o.State, o.Said = Pending, "Which\ncluster?" }},
		{"approved, requester runs it", state(Approved)},
		{"approved, executor", func(o *Outcome) { o.State, o.Executor = Leased, "ops" }},
		{"executing", state(Executing)},
		{"executed", state(Executed)},
		{"failed", func(o *Outcome) { o.State, o.Said = Failed, "exit status 1" }},
		{"failed, nothing said", state(Failed)},
		{"outcome unknown", state(OutcomeUnknown)},
		{"outcome unknown, asked to run again", func(o *Outcome) { o.State, o.Reason = OutcomeUnknown, ReasonSpent }},
		{"outcome unknown, run again if people agree", func(o *Outcome) { o.State, o.Reason, o.New = OutcomeUnknown, ReasonSpent, "apr_02" }},
		{"denied with a reason", func(o *Outcome) { o.State, o.Said = Denied, "wrong cluster,\u202e use \"staging\"" }},
		{"denied without a reason, by nobody named", func(o *Outcome) { o.State, o.Who = Denied, "" }},
		{"revoked by a person", func(o *Outcome) { o.State, o.Said = Revoked, "too late in the day" }},
		{"policy changed, asked again", func(o *Outcome) { o.State, o.Reason, o.New = Revoked, ReasonPolicyChanged, "apr_02" }},
		{"void, asked again", func(o *Outcome) { o.State, o.New = Void, "apr_02" }},
		{"cancelled for want of a card", func(o *Outcome) { o.State, o.Reason = Cancelled, ReasonUndeliverable }},
		{"opinion, pending", func(o *Outcome) { o.State, o.Discretionary = Pending, true }},
		{"opinion, approved", func(o *Outcome) { o.State, o.Discretionary, o.Said = Approved, true, "go ahead" }},
		{"opinion, denied", func(o *Outcome) { o.State, o.Discretionary, o.Said = Denied, true, "no" }},
		{"blocked without an approval", func(o *Outcome) { o.Reason, o.ID = ReasonUndeliverable, "" }},
		{"nothing known", func(o *Outcome) { *o = Outcome{} }},
	}
	for _, r := range reasons {
		rows = append(rows, struct {
			name   string
			change func(*Outcome)
		}{"reason " + string(r), func(o *Outcome) { o.Reason = r }})
	}
	var b strings.Builder
	for _, row := range rows {
		text := AgentText(told(row.change))
		fmt.Fprintf(&b, "%s:\n  %s\n", row.name, text)
		if strings.ContainsAny(text, "{|}") || text == "" {
			t.Errorf("%s: %q has something left to fill in", row.name, text)
		}
	}
	golden(t, "testdata/texts.golden", b.String())
}

// reasons are all that block; needs_more_context is told as a question.
var reasons = []Reason{
	ReasonDenied, ReasonExpired, ReasonCancelled, ReasonUndeliverable, ReasonLapsed, ReasonRevoked, ReasonPolicyChanged,
	ReasonVoid, ReasonSpent, ReasonFenced, ReasonDigestMismatch, ReasonNumberNotExact, ReasonInvalidArguments,
	ReasonNotFound, ReasonSelfApproval, ReasonNotApprover, ReasonReasonRequired, ReasonScopeNotAllowed,
	ReasonStepUpRequired, ReasonTooManyQuestions, ReasonIdentityUnavailable, ReasonIdentityUnclear, ReasonAlreadyDecided,
	ReasonFloorDenied, ReasonRuleDenied, ReasonUnattended, ReasonFrozen, ReasonCooldown, ReasonRateLimited,
	ReasonStoreUnavailable, ReasonChannelUnavailable, ReasonPolicyUnavailable, ReasonClockDoubtful, ReasonGateError,
}

func TestEveryReasonHasAText(t *testing.T) {
	t.Parallel()
	src, err := os.ReadFile("errors.go")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{string(ReasonNeedsMoreContext): true}
	for _, r := range reasons {
		known[string(r)] = true
		if byReason[r] == "" {
			t.Errorf("%s: an agent is told nothing", r)
		}
	}
	for line := range strings.Lines(string(src)) {
		decl, value, ok := strings.Cut(line, ` Reason = "`)
		if value, _, _ = strings.Cut(value, `"`); ok && strings.HasPrefix(decl, "\tReason") && !known[value] {
			t.Errorf("%s: new reason, no text", value)
		}
	}
}

func TestAgentTextsSayAPersonsWordsLastAndNoMoreThanTheRule(t *testing.T) {
	t.Parallel()
	o := told(func(o *Outcome) { o.State, o.Said = Denied, strings.Repeat("é", 500) })
	if text := AgentText(o); !strings.HasSuffix(text, `"`+o.Said+`"`) {
		t.Errorf("a reason of 500 characters is not repeated word for word at the end: %s", text)
	}
	o.Said += "!"
	_, note, _ := strings.Cut(AgentText(o), `"`)
	if n := utf8.RuneCountInString(note) - 1; n > MaxWords || !strings.Contains(note, "more characters") {
		t.Errorf("a longer one has %d characters: %s", n, note)
	}
	o.Said, o.Who = "{tool} {id} | $1 %s", "{said}"
	if text := AgentText(o); !strings.HasSuffix(text, `Approver's reason: "{tool} {id} | $1 %s"`) || !strings.Contains(text, "{said} refused") {
		t.Errorf("what people say is read as a template: %s", text)
	}
	o.Tool = strings.Repeat("t", MaxName)
	if text := AgentText(o); strings.Contains(text, o.Tool) {
		t.Error("a long tool name pushes the rest away")
	}
}

func TestTimes(t *testing.T) {
	t.Parallel()
	tokyo := time.FixedZone("JST", 9*60*60)
	for name, row := range map[string]struct {
		clock Clock
		at    time.Time
		want  string
	}{
		"today":                               {Clock{Now: noon}, noon.Add(15 * time.Minute), "03:27 UTC"},
		"earlier today":                       {Clock{Now: noon}, noon.Add(-time.Hour), "02:12 UTC"},
		"this week":                           {Clock{Now: noon}, noon.Add(30 * time.Hour), "Thursday 09:12 UTC"},
		"a weekday that could be two of them": {Clock{Now: noon}, noon.Add(7 * 24 * time.Hour), "11 Mar 2026 03:12 UTC"},
		"yesterday":                           {Clock{Now: noon}, noon.Add(-24 * time.Hour), "3 Mar 2026 03:12 UTC"},
		"on somebody's own clock":             {Clock{Now: noon, In: tokyo}, noon, "12:12"},
		"by an unset clock":                   {Clock{}, noon, "4 Mar 2026 03:12 UTC"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := row.clock.Time(row.at); got != row.want {
				t.Errorf("got %q, want %q", got, row.want)
			}
		})
	}
	for d, want := range map[time.Duration]string{
		-time.Second: "0.0 s", 2100 * time.Millisecond: "2.1 s", 12 * time.Second: "12 s", 5 * time.Minute: "5 min",
		90 * time.Minute: "90 min", 24 * time.Hour: "24 h", 72 * time.Hour: "3 days",
	} {
		if got := Span(d); got != want {
			t.Errorf("Span(%v) = %q, want %q", d, got, want)
		}
	}
}

func TestCardTexts(t *testing.T) {
	t.Parallel()
	c := Clock{Now: noon, In: time.UTC}
	at := func(min int) time.Time { return noon.Add(time.Duration(min) * time.Minute) }
	two := Progress{Have: 1, Need: 2, Groups: []string{"sre"}}
	a := Approval{By: "Bo", RunBy: at(20), Decided: at(14), Started: at(16), Ended: at(16).Add(2100 * time.Millisecond)}
	a.Requester.Agent, a.Call.Tool, a.Call.Target = "hermes", "delete_index", "prod\u202e"
	with := func(s State, change func(*Approval)) *Approval {
		b := a
		b.State = s
		if change != nil {
			change(&b)
		}
		return &b
	}
	var b strings.Builder
	say := func(what, text string) { fmt.Fprintf(&b, "%-28s %s\n", what, text) }
	say("notification", Notification(&a, at(15), Progress{Need: 1}, c))
	say("notification, no target", Notification(with("", func(a *Approval) { a.Call.Target = "" }), at(15), Progress{Need: 1}, c))
	say("silence", Silence(at(15), time.Time{}, "", c))
	say("silence, then deferred", Silence(at(15), at(30*60), "#review", c))
	for s := range moves {
		if s != "" && strings.HasPrefix(StateLine(with(s, nil), two, c), "State unknown") {
			t.Errorf("%s has no line", s)
		}
	}
	for _, row := range []struct {
		name   string
		state  State
		change func(*Approval)
	}{
		{"pending", Pending, nil},
		{"pending, asked", Pending, func(a *Approval) { a.Questions = []Question{{By: "Ann", Text: "why\nnow?"}} }},
		{"approved", Approved, nil},
		{"approved, opinion", Approved, func(a *Approval) { a.Discretionary = true }},
		{"unknown, asked again", OutcomeUnknown, func(a *Approval) { a.Successor = "apr_02" }},
		{"unknown, it ran", Executed, func(a *Approval) { a.Outcome, a.SettledBy, a.Note = "settled", "Ann", "saw it" }},
		{"unknown, it did not run", Failed, func(a *Approval) { a.Outcome, a.SettledBy = "settled", "Ann" }},
		{"leased", Leased, nil},
		{"executing", Executing, nil},
		{"executed", Executed, nil},
		{"executed, unreported", Executed, func(a *Approval) { a.Outcome = "unreported" }},
		{"failed", Failed, func(a *Approval) { a.Note = `no such index "x"` }},
		{"outcome unknown", OutcomeUnknown, nil},
		{"denied", Denied, func(a *Approval) { a.By, a.Note = "Ann", "wrong cluster" }},
		{"denied without words", Denied, nil},
		{"expired", Expired, nil},
		{"cancelled", Cancelled, nil},
		{"cancelled, undeliverable", Cancelled, func(a *Approval) { a.Reason = ReasonUndeliverable }},
		{"lapsed", Lapsed, nil},
		{"revoked", Revoked, nil},
		{"revoked, policy changed", Revoked, func(a *Approval) { a.Reason, a.Successor = ReasonPolicyChanged, "apr_02" }},
		{"void", Void, func(a *Approval) { a.FailedOver, a.Successor = noon, "apr_02" }},
		{"void, time unknown", Void, nil},
		{"no state", "", nil},
	} {
		say(row.name, StateLine(with(row.state, row.change), two, c))
	}
	why, more := Question{By: "Ann", Text: "why now?"}, Question{By: "Bo", Text: "which one?", Answer: "the second <@U1>\u202e"}
	for _, row := range []struct {
		name  string
		state State
		asked []Question
	}{
		{"dialogue, nothing asked", Pending, nil},
		{"dialogue, one question waits", Pending, []Question{why}},
		{"dialogue, the second waits", Pending, []Question{more, why}},
		{"dialogue, answered", Pending, []Question{more}},
		{"dialogue, the third answered", Pending, []Question{more, more, more}},
		{"dialogue, never answered", Denied, []Question{why}},
	} {
		say(row.name, Dialogue(with(row.state, func(a *Approval) { a.Questions = row.asked })))
	}
	late := Press{Reason: ReasonAlreadyDecided, State: Executing, Who: "Bo", At: at(14), Clock: Clock{Now: at(15), In: time.UTC}}
	say("press, recorded", PressText(Press{Progress: two}))
	say("press, approved before", PressText(late))
	late.State = Denied
	say("press, denied before", PressText(late))
	late.State = Void
	say("press, void", PressText(late))
	late.State = Pending
	say("press, just changed", PressText(late))
	say("press, not in the group", PressText(Press{Reason: ReasonNotApprover, Progress: two, Names: []string{"Ann", "Bo"}}))
	say("press, nobody to ask", PressText(Press{Reason: ReasonNotApprover, Progress: two}))
	say("press, late", PressText(Press{Reason: ReasonExpired, State: Expired, At: noon, Clock: Clock{Now: noon.Add(12 * time.Second)}}))
	say("failed over before", MayHaveRun(with(Pending, func(a *Approval) { a.FailedOver = noon }), c))
	say("started before", MayHaveRun(with(Pending, func(a *Approval) { a.Rerun, a.Predecessor = true, "apr_01" }), c))
	say("nothing before", MayHaveRun(with(Pending, nil), c))
	say("press, no such reason", PressText(Press{Reason: ReasonFenced}))
	for _, r := range slices.Sorted(maps.Keys(pressed)) {
		say("press, "+string(r), PressText(Press{Reason: r, State: Pending}))
	}
	golden(t, "testdata/card_texts.golden", b.String())
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-update rewrites it):\n%s", file, diff)
	}
}
