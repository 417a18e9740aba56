package deliver

import "github.com/approvalbot/approvalbot/gate"

// What receivers are told of.
const (
	requested = "requested" // people are asked
	decided   = "decided"   // the question has ended, or its answer was taken back
	executed  = "executed"  // it is known, or known to be unknown, how the dispatch ended
)

var kinds = []string{requested, decided, executed}

// kindOf says what an entry of the log is for receivers; empty: nothing.
func kindOf(e gate.Entry) string {
	switch e.Event {
	case gate.EventOpened:
		return requested
	case gate.EventDecided, gate.EventExpired, gate.EventCancel, gate.EventRevoked, gate.EventVoided, gate.EventLapsed:
		return decided
	case gate.EventReported, gate.EventUnknown:
		return executed
	default:
		return ""
	}
}

// calledBack reports whether an approval's callback hears of it. Whoever asked knows
// that it did, but not that approvalbot asks again in its place.
func calledBack(what string, a *gate.Approval) bool {
	return a.Callback != "" && (what != requested || a.Predecessor != "")
}
