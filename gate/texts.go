package gate

import (
	"fmt"
	"strings"
	"time"
)

// Limits of what texts repeat, in characters.
const (
	MaxWords = 500 // of a person: a reason, a question
	maxShown = 80  // of a name
)

// Clock says how texts write times. The zero value writes every time with its
// date, in UTC.
type Clock struct {
	Now time.Time      // the store's; times of the same day need no date
	In  *time.Location // whose clock; nil means UTC, and says so
}

// Time returns t as "03:27 UTC", with the weekday or the date if it is not today.
func (c Clock) Time(t time.Time) string {
	in, layout := c.In, "15:04"
	if in == nil {
		in, layout = time.UTC, "15:04 UTC"
	}
	t, now := t.In(in), c.Now.In(in)
	switch away := t.Sub(now); {
	case t.Year() == now.Year() && t.YearDay() == now.YearDay():
		return t.Format(layout)
	case away > 0 && away < 6*24*time.Hour:
		return t.Format("Monday " + layout)
	default:
		return t.Format("2 Jan 2006 " + layout)
	}
}

// Span returns d as people say it: "2.1 s", "45 s", "15 min", "24 h", "3 days".
func Span(d time.Duration) string {
	switch {
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f s", max(d, 0).Seconds())
	case d < 2*time.Minute:
		return fmt.Sprintf("%.0f s", d.Seconds())
	case d < 2*time.Hour:
		return fmt.Sprintf("%.0f min", d.Minutes())
	case d < 48*time.Hour:
		return fmt.Sprintf("%.0f h", d.Hours())
	default:
		return fmt.Sprintf("%.0f days", d.Hours()/24)
	}
}

// Outcome is what an agent is told about. Either Reason names why its call is
// blocked, or State says where its approval stands; an Outcome that says
// neither is a failure of the gate.
type Outcome struct {
	Reason        Reason // of a block
	State         State  // of the approval; with Reason, the one it is in
	Mode          Mode   // of a Pending one
	Executor      string // RequesterRuns, empty for the same, or who runs it
	Discretionary bool   // asked by the agent's own judgement

	Tool string
	ID   ID     // empty where there is no approval
	New  ID     // the successor that asks again; empty if none
	Who  string // display name of who decided or asks; empty for "A person"
	Said string // a person's reason, or of a Pending one Who's open question; of a Failed one the tool's first line

	Expires   time.Time     // of the question
	RunBy     time.Time     // of an approved one
	Waited    time.Duration // how long an expired one was asked
	RunWithin time.Duration // how long a lapsed one might have been run
	Clock     Clock
}

const (
	stopHere = " Final. Do not retry, reword or split it, or reach the same effect another way. Tell the user."
	outage   = " This is an outage, not a denial. Do not retry in a loop or look for another way. Tell the user; try again only when told it is back."
	never    = "BLOCKED, NOT RUN. Policy never allows this call; nobody was asked and nobody can approve it." + stopHere
	uncarded = "NOT RUN. Nobody could be asked about {tool} ({id}): no chat took the question." + outage
	refused  = "NOTHING CHANGED. This answer does not count ({id}); the call stands as it was."
)

// byReason is what an agent is told about a call that is blocked. {…} is filled
// in; the part after | is said only where a person or a tool said something.
var byReason = map[Reason]string{
	ReasonDenied:             "DENIED, NOT RUN. {who} refused {tool} ({id}). Final. Do not retry, reword or split it, or reach the same effect another way. Tell the user; continue with work that does not need it.| Approver's reason: \"{said}\"",
	ReasonExpired:            "NOT RUN. Nobody decided on {tool} in {time} ({id}). Silence is not consent. Do not reach the same effect another way. Ask again only if the user tells you to.",
	ReasonCancelled:          "CANCELLED, NOT RUN. The request to run {tool} ({id}) was withdrawn; nobody denied it. Do not reach the same effect another way. Ask again only if the user tells you to.",
	ReasonUndeliverable:      uncarded,
	ReasonChannelUnavailable: uncarded,
	ReasonLapsed:             "NOT RUN. {tool} was approved ({id}) but not started within {run_within}; that approval no longer counts. If still needed, repeat the identical call once; a person will be asked again.",
	ReasonRevoked:            "REVOKED, NOT RUN. {who} took back the approval of {tool} ({id}) before it ran." + stopHere + "| Their reason: \"{said}\"",
	ReasonPolicyChanged:      "NOT RUN. Policy changed after {id} was approved; it no longer counts. If still needed, repeat the identical call once; policy will rule on it again.",
	ReasonVoid:               "VOID. The approval store failed over; {id} no longer counts. The call may or may not have run. Do not repeat it or work around it. Tell the user.",
	ReasonSpent:              "NOT RUN AGAIN. The approval of {tool} ({id}) is used up; one approval runs one call once. Do not repeat the call. Tell the user; ask again only if the user tells you to.",
	ReasonFenced:             "NOT RUN. Your hold on {tool} ({id}) ran out or passed to another worker. Do not run it; claim again.",
	ReasonDigestMismatch:     "NOT RUN. This call is not the one that was shown to people ({id}); an approval covers exactly one call, and it is not used up. Repeat that call unchanged, or ask for this one by itself.",
	ReasonNumberNotExact:     "NOT RUN. A number in this call has no exact form, so nobody was asked. Write it with fewer digits or as text, if the tool takes that.",
	ReasonInvalidArguments:   "NOT RUN. This call is malformed or too large, so nobody was asked. Its arguments are one JSON object without duplicate keys. Correct it and call again.",
	ReasonNotFound:           "NOT RUN. There is no such approval. Do not guess ids. Tell the user.",
	ReasonFloorDenied:        never,
	ReasonRuleDenied:         never,
	ReasonUnattended:         "BLOCKED, NOT RUN. Policy lets {tool} run only while somebody attends; nobody was asked." + stopHere,
	ReasonFrozen:             "NOT RUN. An operator has frozen approvals; nobody was asked about {tool}. Do not retry in a loop or look for another way. Tell the user; try again only when told they are open again.",
	ReasonCooldown:           "NOT RUN. This call was refused a short while ago; nobody was asked again." + stopHere,
	ReasonRateLimited:        "NOT RUN. Too many calls wait for people already, or come too fast; nobody was asked about {tool}. Do not retry in a loop or look for another way. Tell the user; wait until some are decided.",
	ReasonStoreUnavailable:   "NOT RUN. approvalbot cannot reach its store." + outage,
	ReasonPolicyUnavailable:  "NOT RUN. approvalbot has no policy that all its replicas agree on; nothing is used up." + outage,
	ReasonClockDoubtful:      "NOT RUN. The clock of approvalbot's store went backwards; nothing is used up." + outage,
	ReasonGateError:          "NOT RUN. approvalbot failed while ruling on this call, and a failure never allows." + outage,
	ReasonAlreadyDecided:     "TOO LATE. {id} is settled; nothing changed. Look at its state before you go on.",
	// These answer people's credentials, which agents do not hold.
	ReasonSelfApproval: refused, ReasonNotApprover: refused, ReasonReasonRequired: refused,
	ReasonScopeNotAllowed: refused, ReasonStepUpRequired: refused, ReasonTooManyQuestions: refused,
	ReasonIdentityUnavailable: refused, ReasonIdentityUnclear: refused,
}

// byKind is what an agent is told about a request that failed for no reason that
// has words of its own.
var byKind = map[Kind]string{
	Internal:    byReason[ReasonGateError],
	Invalid:     "NOT RUN. The request is malformed, or says what its API key may not say; nobody was asked. Do not look for another way. Tell the user.",
	Forbidden:   "NOT RUN. This API key may not do that; nothing changed. Do not look for another way. Tell the user.",
	NotFound:    byReason[ReasonNotFound],
	Conflict:    "NOTHING CHANGED. That does not count any more. Look at the state of the approval before you go on.",
	TooMany:     "NOT RUN. Too many requests at once; nobody was asked. Do not retry in a loop or look for another way. Tell the user; wait.",
	Unavailable: byReason[ReasonStoreUnavailable],
}

// ErrorText is what an agent is told about a request that failed, where no
// approval or call can be named.
func ErrorText(err error) string {
	if text := byReason[ReasonOf(err)]; text != "" && ReasonOf(err) != ReasonGateError && !strings.Contains(text, "{") {
		return text
	}
	return byKind[KindOf(err)]
}

// What an agent is told about an approval that is not blocked.
const (
	textQuestion    = "QUESTION, NOT RUN YET. {who} asks about {tool} ({id}): \"{said}\" Answer it with the tool or command you were given; the call stays held until {expires}."
	textInline      = "WAITING, NOT RUN YET. A person is asked about {tool} ({id}) until {expires}. Do not call it again or reach the same effect another way; wait for the answer."
	textStaged      = "STAGED, NOT RUN YET. {tool} waits for a person until {expires} ({id}). If approved, approvalbot runs exactly this call. Do not call it again or assume it ran. Tell the user; continue with other work."
	textStagedOwn   = "STAGED, NOT RUN YET. {tool} waits for a person until {expires} ({id}). Approval alone runs nothing. Once you learn it is approved, repeat the identical call once; until then do not call it. Tell the user; continue with other work."
	textApproved    = "APPROVED, NOT RUN YET. {who} approved {tool} ({id}). approvalbot runs exactly this call. Do not call it again or assume it ran. Tell the user; continue with other work."
	textApprovedOwn = "APPROVED, NOT RUN YET. {who} approved {tool} ({id}). Approval alone runs nothing. Consume it, then run exactly this call once, by {run_by}."
	textVoidNew     = "RE-ASKED. The approval store failed over; {id} no longer counts and people are asked again as {new}. The call may or may not have run. Do not repeat it or work around it. Tell the user; wait for {new}."
	textChangedNew  = "NOT RUN. Policy changed after {id} was approved; it no longer counts. People are asked again as {new}. Do not call again; tell the user and wait for {new}."
	textRerun       = "OUTCOME UNKNOWN. {id} was started and its result was lost; it may have taken effect. A person decides whether to run it again, as {new}. Do not repeat, undo or work around it. Tell the user; wait for {new}."
	textOpinionWait = "WAITING. A person is asked about this ({id}) until {expires}. Do not go ahead until you are told yes."
	textOpinionYes  = "APPROVED. {who} agreed ({id}). This runs nothing and permits nothing by itself: a call that policy holds is still asked about.| They said: \"{said}\""
	textOpinionNo   = "DENIED. {who} said no ({id}). Final. Do not do it, reword or split it, or reach the same effect another way. Tell the user; continue with work that does not need it.| Approver's reason: \"{said}\""
)

// textStarted is what an agent is told once its call was dispatched.
var textStarted = map[State]string{
	Executing:      "STARTED. {tool} was approved and started ({id}). Do not call it again or assume how it ends.",
	Executed:       "RAN. {tool} was approved and started once ({id}); that approval is used up. Do not repeat the call.",
	Failed:         "RAN, FAILED. {tool} was approved and started ({id}), and it failed; part of it may have taken effect. Do not repeat it or work around it. Tell the user.| It said: \"{said}\"",
	OutcomeUnknown: "OUTCOME UNKNOWN. {tool} was approved and started ({id}); its result was lost. It may have taken effect. Do not repeat, undo or work around it. Tell the user; a person will settle it.",
}

// reasonOf says what it means for an agent that its approval ended in a state.
var reasonOf = map[State]Reason{
	Denied: ReasonDenied, Expired: ReasonExpired, Cancelled: ReasonCancelled,
	Lapsed: ReasonLapsed, Revoked: ReasonRevoked, Void: ReasonVoid,
}

// AgentText returns the sentences for the model about o: the state first,
// because hosts cut, and a person's words last. They never hold the token, the
// arguments or a rule's name.
func AgentText(o Outcome) string {
	text, withSaid, _ := strings.Cut(o.template(), "|")
	said, who, ref := words(o.Said), name(o.Who), ""
	if said != "" {
		text += withSaid
	}
	if who == "" {
		who = "A person"
	}
	if o.ID != "" {
		ref = " (" + string(o.ID) + ")"
	}
	return strings.NewReplacer( // one pass: nothing filled in is read again
		" ({id})", ref, "{id}", string(o.ID), "{new}", string(o.New), "{tool}", name(o.Tool), "{who}", who,
		"{said}", said, "{expires}", o.Clock.Time(o.Expires), "{run_by}", o.Clock.Time(o.RunBy),
		"{time}", Span(o.Waited), "{run_within}", Span(o.RunWithin),
	).Replace(text)
}

func (o Outcome) template() string {
	reason := o.Reason
	if o.State == OutcomeUnknown && o.New != "" {
		return textRerun
	}
	if text := textStarted[o.State]; text != "" && (reason == ReasonSpent || reason == "") {
		return text
	}
	if _, blocks := byReason[reason]; !blocks {
		reason = reasonOf[o.State]
	}
	switch {
	case reason == ReasonVoid && o.New != "":
		return textVoidNew
	case reason == ReasonPolicyChanged && o.New != "":
		return textChangedNew
	case reason == ReasonDenied && o.Discretionary:
		return textOpinionNo
	case reason != "":
		return byReason[reason]
	}
	own := o.Executor == RequesterRuns || o.Executor == ""
	switch o.State {
	case Pending:
		return o.pending(own)
	case Approved, Leased:
		switch {
		case o.Discretionary:
			return textOpinionYes
		case own:
			return textApprovedOwn
		}
		return textApproved
	default:
		return byReason[ReasonGateError]
	}
}

func (o Outcome) pending(own bool) string {
	switch {
	case words(o.Said) != "":
		return textQuestion
	case o.Discretionary:
		return textOpinionWait
	case o.Mode == Inline:
		return textInline
	case own:
		return textStagedOwn
	}
	return textStaged
}

// name and words keep what people and agents call things to one short line.
func name(s string) string  { s, _ = Cut(Clean(s), maxShown); return s }
func words(s string) string { s, _ = Cut(Clean(s), MaxWords); return s }

// Progress says how many approvals are in and how many it takes, and of which
// groups more are wanted. The zero value is nobody's.
type Progress struct {
	Have, Need int
	Groups     []string
}

// String returns what is still waited for: "1 of 2 (sre)"; empty for the zero
// value.
func (p Progress) String() string {
	if p.Need == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d (%s)", p.Need-p.Have, p.Need, strings.Join(p.Groups, ", "))
}

// Notification returns the line that a phone shows: who wants what by when,
// never the arguments. by is when silence decides.
func Notification(a *Approval, by time.Time, p Progress, c Clock) string {
	target := ""
	if a.Call.Target != "" {
		target = " on " + name(a.Call.Target)
	}
	return fmt.Sprintf("Approval needed: %s → %s%s, by %s (%d/%d)", name(a.Requester.Agent), name(a.Call.Tool), target, c.Time(by), p.Have, p.Need)
}

// Silence says what happens if nobody decides by then: nothing runs, or, if
// until is not zero, the call stays open in a place for longer.
func Silence(by, until time.Time, place string, c Clock) string {
	if until.IsZero() {
		return fmt.Sprintf("If nobody decides by %s: not run.", c.Time(by))
	}
	return fmt.Sprintf("If nobody decides by %s: it stays open in %s until %s.", c.Time(by), name(place), c.Time(until))
}

// StateLine says in one line how it stands with an approval. That it was
// approved and that it ran are different lines.
func StateLine(a *Approval, p Progress, c Clock) string {
	at, by, note := c.Time(a.Ended), name(a.By), quoted(a.Note)
	switch a.State {
	case Pending:
		if a.Asked() {
			return asks(a) + ", waiting for the agent's answer"
		}
		if p.Need == 0 {
			return "Waiting for a decision"
		}
		return "Waiting for " + p.String()
	case Approved, Leased:
		if a.Discretionary {
			return fmt.Sprintf("Approved by %s %s", by, c.Time(a.Decided))
		}
		return fmt.Sprintf("Approved by %s, waiting to run until %s", by, c.Time(a.RunBy))
	case Executing:
		return "Running since " + c.Time(a.Started)
	case Executed:
		if a.Outcome == "settled" {
			return fmt.Sprintf("Started %s, ran, says %s%s", c.Time(a.Started), name(a.SettledBy), note)
		}
		if a.Outcome == "unreported" {
			return fmt.Sprintf("Ran %s, result not reported", c.Time(a.Started))
		}
		return fmt.Sprintf("Ran %s, ok (%s)", c.Time(a.Started), Span(a.Ended.Sub(a.Started)))
	case Failed:
		if a.Outcome == "settled" {
			return fmt.Sprintf("Started %s, did not run, says %s%s", c.Time(a.Started), name(a.SettledBy), note)
		}
		return fmt.Sprintf("Ran %s, failed%s", c.Time(a.Started), strings.ReplaceAll(note, `"`, ""))
	case OutcomeUnknown:
		return fmt.Sprintf("Started %s, result unknown: did it run?%s", c.Time(a.Started), strings.Replace(again(a), "; a", " A", 1))
	case Denied:
		return fmt.Sprintf("Denied by %s %s%s", by, c.Time(a.Decided), note)
	case Expired:
		return fmt.Sprintf("Expired %s, nobody decided, not run", at)
	case Cancelled:
		if a.Reason == ReasonUndeliverable {
			return "Cancelled, no card could be posted, not run"
		}
		return "Cancelled by the agent"
	case Lapsed:
		return fmt.Sprintf("Approved by %s, never run", by)
	case Revoked:
		if a.Reason == ReasonPolicyChanged {
			return "Revoked: policy changed" + again(a)
		}
		return fmt.Sprintf("Taken back by %s %s, not run%s", by, at, note)
	case Void:
		if a.FailedOver.IsZero() {
			return "Void: Redis failed over" + again(a)
		}
		return "Void: Redis failed over at " + c.Time(a.FailedOver) + again(a)
	default:
		return "State unknown, not run"
	}
}

// Dialogue says what approvers have asked and what they were answered: the last
// of it, and how much there was. A question that still waits is in the state line.
func Dialogue(a *Approval) string {
	n := len(a.Questions)
	if n == 0 {
		return ""
	}
	var lines []string
	if n > 1 {
		lines = append(lines, fmt.Sprintf("%d questions were asked; the last:", n))
	}
	if !a.Asked() {
		lines = append(lines, asks(a))
		if answer := Clean(a.Questions[n-1].Answer); answer != "" {
			lines = append(lines, "Answer: \""+answer+"\"")
		}
	}
	return strings.Join(lines, "\n")
}

// asks is the last question.
func asks(a *Approval) string {
	q := a.Questions[len(a.Questions)-1]
	return name(q.By) + " asks" + quoted(q.Text)
}

// RefusedBefore says that the same call was denied before, by whom, when and why;
// nothing if it was not.
func RefusedBefore(a *Approval, c Clock) string {
	if a == nil {
		return ""
	}
	return "The same call was refused before: " + StateLine(a, Progress{}, c)
}

func again(a *Approval) string {
	if a.Successor == "" {
		return ""
	}
	return "; asked again below"
}

func quoted(s string) string {
	if s = words(s); s == "" {
		return ""
	}
	return `: "` + s + `"`
}

// Press is what a person pressed on and what came of it. An empty Reason means
// that the vote was recorded.
type Press struct {
	Reason   Reason
	State    State     // of the approval now
	Who      string    // who settled it, if it is settled
	At       time.Time // when
	Progress Progress
	Names    []string // whom to ask instead
	Clock    Clock
}

// MayHaveRun says why a call that people are asked about may have run already;
// nothing if there is no reason to think so.
func MayHaveRun(a *Approval, c Clock) string {
	switch {
	case a.Rerun:
		return fmt.Sprintf("This call was started before (%s) and nobody knows how that ended. It may already have run.", a.Predecessor)
	case !a.FailedOver.IsZero():
		return fmt.Sprintf("Redis failed over at %s; a decision may have been lost and this may already have run.", c.Time(a.FailedOver))
	}
	return ""
}

// Texts to the presser that stand alone.
const (
	PressStoreDown = "Could not record your answer (store down). Nothing was decided; press again."
	PressSelf      = "You asked for this call, so someone else must decide."
)

var pressed = map[Reason]string{
	ReasonStoreUnavailable:    PressStoreDown,
	ReasonSelfApproval:        PressSelf,
	ReasonReasonRequired:      "This rule wants a reason with every denial. Nothing was decided; deny again with one.",
	ReasonScopeNotAllowed:     "This rule does not allow that scope. Nothing was decided; approve for once.",
	ReasonStepUpRequired:      "This rule wants you to log in to the console and decide there. Nothing was decided.",
	ReasonTooManyQuestions:    "No more questions can be asked about this call. Approve or deny it.",
	ReasonNeedsMoreContext:    "A question is open. The call waits for the agent's answer.",
	ReasonIdentityUnavailable: "Could not look up who may decide. Nothing was decided; press again.",
	ReasonIdentityUnclear:     "You cannot be told apart from the requester or from another voter. Nothing was decided; ask an operator to add you to people.",
	ReasonDigestMismatch:      "This is not the call any more. Nothing was decided; open the newest card.",
	ReasonNotFound:            "There is no such approval here. Nothing was decided.",
	ReasonClockDoubtful:       "The store's clock went backwards. Nothing was decided; press again in a minute.",
	ReasonRateLimited:         "Too many presses at once. Nothing was decided; press again in a minute.",
}

// PressText is what only the presser sees. Every press gets an answer.
func PressText(p Press) string {
	text, known := pressed[p.Reason]
	switch {
	case p.Reason == "":
		return fmt.Sprintf("Recorded (%d of %d).", p.Progress.Have, p.Progress.Need)
	case known:
		return text
	case p.Reason == ReasonNotApprover && len(p.Names) > 0:
		return fmt.Sprintf("You are not in %s. Ask %s.", anyOf(p.Progress.Groups), anyOf(p.Names))
	case p.Reason == ReasonNotApprover:
		return fmt.Sprintf("You are not in %s.", anyOf(p.Progress.Groups))
	case p.Reason == ReasonAlreadyDecided, p.Reason == ReasonExpired, p.Reason == ReasonVoid:
		return late(p)
	}
	return "Could not record your answer. Nothing was decided; press again."
}

// late says what was decided before the press.
func late(p Press) string {
	switch p.State {
	case Denied:
		return fmt.Sprintf("%s already denied this at %s.", name(p.Who), p.Clock.Time(p.At))
	case Expired:
		return fmt.Sprintf("This expired %s ago; nothing ran.", Span(p.Clock.Now.Sub(p.At)))
	case Cancelled, Revoked, Void:
		return fmt.Sprintf("This is %s since %s; nothing was decided.", p.State, p.Clock.Time(p.At))
	case Approved, Leased, Executing, Executed, Failed, OutcomeUnknown, Lapsed:
		return fmt.Sprintf("%s already approved this at %s.", name(p.Who), p.Clock.Time(p.At))
	default:
		return "This has just changed. Nothing was decided; look again."
	}
}

func anyOf(names []string) string { return name(strings.Join(names, " or ")) }
