package gate

import (
	"errors"
	"fmt"
)

// Kind classifies a failure by what the caller can do about it. A Kind is
// itself an error, so errors.Is(err, gate.NotFound) works through any wrapping.
type Kind uint8

// The kinds; the zero value hides everything.
const (
	Internal    Kind = iota // a bug or a broken dependency; details stay in the log
	Invalid                 // the caller sent something malformed
	Forbidden               // known caller, not allowed
	NotFound                // no such approval, grant or session
	Conflict                // the approval moved on, or is not this call
	TooMany                 // a limit was reached; later it may work
	Unavailable             // try again later; the answer until then is "no"
)

var kindText = [...]string{"internal error", "invalid", "forbidden", "not found", "conflict", "too many", "unavailable"}

func (k Kind) Error() string { return kindText[k] }

// Reason is the machine-readable why of an answer: one of the closed set below,
// or on allow and ask the name of the rung that ruled.
type Reason string

// The reasons. Each is stable: agents and dashboards match on them.
const (
	ReasonDenied              Reason = "denied" // only ever said when a person denied
	ReasonExpired             Reason = "expired"
	ReasonCancelled           Reason = "cancelled"
	ReasonUndeliverable       Reason = "undeliverable"
	ReasonLapsed              Reason = "lapsed"
	ReasonRevoked             Reason = "revoked"
	ReasonPolicyChanged       Reason = "policy_changed"
	ReasonVoid                Reason = "void"
	ReasonSpent               Reason = "spent"
	ReasonFenced              Reason = "fenced"
	ReasonDigestMismatch      Reason = "digest_mismatch"
	ReasonNumberNotExact      Reason = "number_not_exact"
	ReasonInvalidArguments    Reason = "invalid_arguments"
	ReasonNotFound            Reason = "not_found"
	ReasonSelfApproval        Reason = "self_approval"
	ReasonNotApprover         Reason = "not_approver"
	ReasonReasonRequired      Reason = "reason_required"
	ReasonScopeNotAllowed     Reason = "scope_not_allowed"
	ReasonStepUpRequired      Reason = "step_up_required"
	ReasonTooManyQuestions    Reason = "too_many_questions"
	ReasonNeedsMoreContext    Reason = "needs_more_context"
	ReasonIdentityUnavailable Reason = "identity_unavailable"
	ReasonIdentityUnclear     Reason = "identity_unclear"
	ReasonAlreadyDecided      Reason = "already_decided"
	ReasonFloorDenied         Reason = "floor_denied"
	ReasonRuleDenied          Reason = "rule_denied"
	ReasonUnattended          Reason = "unattended"
	ReasonFrozen              Reason = "frozen"
	ReasonCooldown            Reason = "cooldown"
	ReasonRateLimited         Reason = "rate_limited"
	ReasonStoreUnavailable    Reason = "store_unavailable"
	ReasonChannelUnavailable  Reason = "channel_unavailable"
	ReasonPolicyUnavailable   Reason = "policy_unavailable"
	ReasonClockDoubtful       Reason = "clock_doubtful"
	ReasonGateError           Reason = "gate_error"
)

// Error carries two texts: Public may be shown to an agent, in a chat or on a
// page; everything else is for the log only.
type Error struct {
	Kind   Kind
	Reason Reason // machine-readable, may be shown; empty means gate_error
	Op     string // the failing operation, e.g. "store.Open"
	Public string // safe to show; empty means the text of Kind
	Err    error  // the cause; may be nil
}

func (e *Error) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("%s: %s: %s", e.Op, e.Kind, e.Public)
	}
	return fmt.Sprintf("%s: %s: %v", e.Op, e.Kind, e.Err)
}

// Unwrap makes both the Kind and the cause visible to errors.Is and errors.As.
func (e *Error) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Kind}
	}
	return []error{e.Kind, e.Err}
}

// KindOf returns the kind of err; an error of no known kind is Internal.
func KindOf(err error) Kind {
	if k, ok := errors.AsType[Kind](err); ok {
		return k
	}
	return Internal
}

// ReasonOf returns the reason of err, gate_error where it names none.
func ReasonOf(err error) Reason {
	if e, ok := errors.AsType[*Error](err); ok && e.Reason != "" {
		return e.Reason
	}
	return ReasonGateError
}

// PublicText returns the part of err that may leave the process.
func PublicText(err error) string {
	if e, ok := errors.AsType[*Error](err); ok && e.Public != "" {
		return e.Public
	}
	return KindOf(err).Error()
}
