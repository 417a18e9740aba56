package store

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/approvalbot/approvalbot/gate"
)

// refusals says what each code of a script means to a caller. CLOSED and MOVED
// are told in refused.
var refusals = map[string]gate.Error{
	"MISSING":   {Kind: gate.NotFound, Reason: gate.ReasonNotFound, Public: "no such approval"},
	"DIGEST":    {Kind: gate.Conflict, Reason: gate.ReasonDigestMismatch, Public: "this is not the call that was asked about"},
	"FULL":      {Kind: gate.TooMany, Reason: gate.ReasonRateLimited, Public: "too many approvals of this requester wait already; wait until some are settled"},
	"ENDED":     {Kind: gate.Conflict, Reason: gate.ReasonCancelled, Public: "this session is over"},
	"STALE":     {Kind: gate.Conflict, Reason: gate.ReasonVoid, Public: "the store has failed over since; this no longer counts"},
	"CLOCK":     {Kind: gate.Unavailable, Reason: gate.ReasonClockDoubtful, Public: "the store's clock ran back; nothing can be decided until an admin has looked at it"},
	"POLICY":    {Kind: gate.Unavailable, Reason: gate.ReasonPolicyUnavailable, Public: "replicas run different policies; nothing was spent, try again in a moment"},
	"FENCED":    {Kind: gate.Conflict, Reason: gate.ReasonFenced, Public: "this call is not, or no longer, yours to run"},
	"QUESTIONS": {Kind: gate.TooMany, Reason: gate.ReasonTooManyQuestions, Public: "enough questions were asked about this; decide on what is known"},
	"UNASKED":   {Kind: gate.Conflict, Reason: gate.ReasonAlreadyDecided, Public: "no question waits for an answer"},
	"GONE":      {Kind: gate.Conflict, Reason: gate.ReasonRevoked, Public: "this permission does not hold any more"},
}

// refused turns a script's code into an error. A code nobody knows is a bug and
// refuses like any other.
func refused(op, code string, r reply) error {
	switch code {
	case "MOVED":
		return gate.ErrMoved
	case "CLOSED":
		return closed(op, gate.State(r.str(0)), gate.Reason(r.str(1)))
	}
	if e, ok := refusals[code]; ok {
		e.Op = op
		return &e
	}
	return &gate.Error{Op: op, Err: fmt.Errorf("script answered %q", code)}
}

// closed refuses a move that the approval's state does not take.
func closed(op string, s gate.State, why gate.Reason) error {
	e := &gate.Error{Kind: gate.Conflict, Reason: why, Op: op, Public: "this approval is " + strings.ReplaceAll(string(s), "_", " ")}
	switch s {
	case gate.Executing, gate.Executed, gate.Failed, gate.OutcomeUnknown:
		e.Reason, e.Public = gate.ReasonSpent, "this approval has been used already"
	case gate.Pending, gate.Approved, gate.Leased:
		e.Reason = gate.ReasonAlreadyDecided
		if s == gate.Pending {
			e.Public = "this approval is not decided yet"
		}
	default: // ended before it was dispatched
	}
	return e
}

// unavailable wraps what went wrong between here and Redis. An error inside a
// script is a bug or a damaged record: trying again does not help.
func unavailable(op string, err error) error {
	var answer redis.Error
	if errors.As(err, &answer) && (strings.HasPrefix(answer.Error(), "ERR ") || strings.HasPrefix(answer.Error(), "WRONGTYPE ")) {
		return &gate.Error{Op: op, Err: err}
	}
	text := "approvals are unavailable, try again"
	if errors.Is(err, errUnconfirmed) {
		text = "not confirmed by all replicas of the store: nothing runs on it until it is; look, then try again"
	} else if lost(err) && !errors.Is(err, context.Canceled) {
		text = "approvals are unavailable, and it is not known whether this was done; look, then try again"
	}
	return &gate.Error{Kind: gate.Unavailable, Reason: gate.ReasonStoreUnavailable, Op: op, Public: text, Err: err}
}

func invalid(op, public string) error {
	return &gate.Error{Kind: gate.Invalid, Op: op, Public: public}
}
