package gate

import (
	"slices"
	"time"
)

// ID names an approval: "apr_" and a ULID, so that ids sort by time of birth.
type ID string

// State is where an approval stands. The zero value is no state at all, so a
// forgotten field can never read as Approved.
type State string

// The states; moves below says how one follows another.
const (
	Pending        State = "pending"         // waits for people
	Approved       State = "approved"        // quorum reached, not yet dispatched
	Leased         State = "leased"          // an executor holds it for a while, not yet dispatched
	Executing      State = "executing"       // dispatched; its token is spent
	Executed       State = "executed"        // reported done, or not going to be reported
	Failed         State = "failed"          // reported failed
	OutcomeUnknown State = "outcome_unknown" // dispatched, and no report came in time
	Denied         State = "denied"          // an approver said no
	Expired        State = "expired"         // nobody decided in time
	Cancelled      State = "cancelled"       // withdrawn by its requester, its session's end, or for want of a card
	Lapsed         State = "lapsed"          // approved, never dispatched within run_within
	Revoked        State = "revoked"         // taken back by a person or by a changed policy
	Void           State = "void"            // another incarnation of the store, or votes that do not add up
)

// Event names a move in the log, for hubs, cards and auditors.
type Event string

// The events that move an approval or belong to its life.
const (
	EventOpened   Event = "opened"
	EventVoted    Event = "voted"    // a vote that did not settle
	EventDecided  Event = "decided"  // a vote that settled
	EventDeferred Event = "deferred" // the inline time-out passed: pending, but nobody waits
	EventAsked    Event = "asked"    // an approver needs more context
	EventAnswered Event = "answered"
	EventExpired  Event = "expired"
	EventLapsed   Event = "lapsed"
	EventCancel   Event = "cancelled"
	EventRevoked  Event = "revoked"
	EventVoided   Event = "voided"
	EventLeased   Event = "leased"
	EventReleased Event = "released" // given back, or the lease ran out
	EventConsumed Event = "consumed"
	EventReported Event = "reported"
	EventUnknown  Event = "unknown" // no report came in time, or it says that nobody knows
	EventRerun    Event = "rerun"   // of an unknown outcome: people are asked whether to run it again
)

// The events that move no approval.
const (
	EventAllowed       Event = "allowed"  // a designated call passed without asking: off, bypass or grant
	EventRefused       Event = "refused"  // somebody tried what they may not
	EventSecurity      Event = "security" // what should not happen by accident: a second spending, a forged vote
	EventGranted       Event = "granted"
	EventGrantUsed     Event = "grant_used"
	EventGrantRevoked  Event = "grant_revoked"
	EventSessionEnded  Event = "session_ended"
	EventSessionBypass Event = "session_bypass"
	EventPolicyLoaded  Event = "policy_loaded"
	EventRuleUsed      Event = "rule_used" // for the first time in this version: what approvals rest on
	EventClockReset    Event = "clock_reset"
	EventFailedOver    Event = "failed_over" // the store has another incarnation
	EventDurability    Event = "durability"  // its level was changed
)

// moves is the state machine: what each state may become, and by which event.
// The Lua scripts of package store enforce it; storetest checks that they and
// this table agree. A state that maps to itself takes the event without moving.
var moves = map[State]map[State][]Event{
	"": {Pending: {EventOpened}},
	Pending: {
		Pending:   {EventVoted, EventDeferred, EventAsked, EventAnswered},
		Approved:  {EventDecided},
		Denied:    {EventDecided},
		Expired:   {EventExpired},
		Cancelled: {EventCancel},
		Void:      {EventVoided},
	},
	Approved: {
		Leased:    {EventLeased},
		Executing: {EventConsumed},
		Cancelled: {EventCancel},
		Lapsed:    {EventLapsed},
		Revoked:   {EventRevoked},
		Void:      {EventVoided},
	},
	Leased: {
		Approved:  {EventReleased},
		Executing: {EventConsumed},
		Cancelled: {EventCancel},
		Lapsed:    {EventLapsed},
		Revoked:   {EventRevoked},
		Void:      {EventVoided},
	},
	Executing: {
		Executed:       {EventReported},
		Failed:         {EventReported},
		OutcomeUnknown: {EventUnknown},
	},
	OutcomeUnknown: {
		OutcomeUnknown: {EventRerun},
		Executed:       {EventReported},
		Failed:         {EventReported},
	},
	Executed: {}, Failed: {}, Denied: {}, Expired: {},
	Cancelled: {}, Lapsed: {}, Revoked: {}, Void: {},
}

// CanBecome reports whether an approval in state s may move to state t.
func (s State) CanBecome(t State) bool { return len(moves[s][t]) > 0 }

// Takes reports whether event e may lead from state s to state t.
func (s State) Takes(e Event, t State) bool { return slices.Contains(moves[s][t], e) }

// Final reports whether no further move is possible.
func (s State) Final() bool {
	to, known := moves[s]
	return known && len(to) == 0
}

// Open reports whether people or executors may still act on the approval
// before it is dispatched.
func (s State) Open() bool { return s == Pending || s == Approved || s == Leased }

// Mode says whether somebody waits for the answer.
type Mode string

// The modes.
const (
	Inline   Mode = "inline"   // the caller waits
	Deferred Mode = "deferred" // the call is staged and runs later
)

// RequesterRuns is the executor of calls that their requester runs itself.
const RequesterRuns = "requester"

// Conversation is a place in a chat and, where it has one, a thread in it:
// "slack:C0PROD", "mattermost:team/channel".
type Conversation struct {
	Place  string `json:"place"`
	Thread string `json:"thread,omitempty"`
}

// Subject is what an approval binds: fixed when it is opened, never changed.
// Its times are in the store's clock.
type Subject struct {
	Call          Call
	Digest        Digest
	Rule          string  // name of the effective rule
	Version       Version // of the effective rule
	Requester     Requester
	Origin        Conversation // where the call came from; zero if nowhere
	Intent        string       // the agent's own words, untrusted
	Executor      string       // of a staged call: RequesterRuns or the name of an executor
	Discretionary bool         // opened by the agent's own judgement: ends at approved, authorises nothing
	Callback      string       // address that is told what becomes of it; empty: none. Nothing signs it: where it may lead its key says, whenever it is used
}

// Approval is one held call and everything that has happened to it.
type Approval struct {
	ID ID
	Subject

	Mode  Mode
	State State
	Rev   int64 // rises with every change; the ETag of an approval

	Created     time.Time
	InlineUntil time.Time // when an inline one stops being waited for; zero if deferred
	Expires     time.Time // of the question
	RunBy       time.Time // after approval; zero before
	Decided     time.Time
	Started     time.Time // dispatched
	Ended       time.Time

	Reason Reason // why it ended as it did
	Note   string // a person's words or a report's first line, cleaned
	By     string // display name of who settled it

	Votes     []Vote
	Questions []Question

	Incarnation string    // of the store, when it was opened or last approved
	FailedOver  time.Time // not zero: opened shortly after the store failed over then
	Fence       int64
	Lease       Lease
	Attempt     string // the one dispatch, 32 hex digits
	Outcome     string // unreported, reported_without_attempt, or empty
	SettledBy   string // display name of who said what became of an unknown outcome
	Result      string // what the tool said, or why nobody knows; cleaned, redacted, ≤ MaxResult characters

	Successor   ID   // asks again in its place
	Predecessor ID   // it asks in place of
	Rerun       bool // its predecessor was dispatched, and nobody knows how that ended
	Refused     ID   // of the same call, denied within the week before
}

// Lease is an executor's time-limited hold on an approved call.
type Lease struct {
	Owner string
	Until time.Time
}

// ByRequester reports whether whoever asked dispatches the call once it is
// approved: always the caller who waits, and of a staged call where no executor is
// named.
func (a *Approval) ByRequester() bool { return a.Executor == RequesterRuns || a.Mode == Inline }

// Asked reports whether an approver's question waits for an answer.
func (a *Approval) Asked() bool {
	return a.State == Pending && len(a.Questions) > 0 && a.Questions[len(a.Questions)-1].Answer == ""
}

// Question is an approver's request for more context and the agent's answer.
type Question struct {
	By     string    `json:"by"`
	Text   string    `json:"text"`
	At     time.Time `json:"at"`
	Answer string    `json:"answer,omitempty"`
}
