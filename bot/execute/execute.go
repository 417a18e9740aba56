// Package execute runs approved calls without their agent, in one of several ways:
// a signed webhook, a tool of an MCP server, a command of this machine.
//
//	Executor.Prepare ─▶ Dispatch ─▶ the approval is consumed ─▶ Dispatch.Run ─▶ Result
//
// All that can fail before anything happens fails in Prepare. After that there are
// three ends and no fourth: executed, failed, and nobody knows. What may have taken
// effect is never run again, but for a webhook whose rule says retry_safe.
package execute

import (
	"context"
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/approvalbot/approvalbot/gate"
)

// Job is one approved call, about to be dispatched.
type Job struct {
	ID        gate.ID // also the Idempotency-Key: an approval is dispatched at most once
	Attempt   string  // 32 hex digits
	Call      gate.Call
	Digest    gate.Digest
	Rule      string
	Requester gate.Requester
	By        string // who settled it, for people
	Retry     bool   // the rule says retry_safe: the same attempt may be sent again
}

// Executor runs calls in one way. It is safe for concurrent use.
type Executor interface {
	// Prepare does everything that can fail before anything happens: looks up,
	// connects, fills in templates. An error means that nothing was sent; the call is
	// given back and tried again later, unless it is a *Refusal: then the call can
	// never run this way.
	Prepare(ctx context.Context, j *Job) (Dispatch, error)
}

// Dispatch is a call that is ready to go. Exactly one of Run and Drop is called, once.
type Dispatch interface {
	Run(ctx context.Context) Result // ctx ends at the execution time-out or when the process must stop
	Drop()                          // lets go of what Prepare holds
}

// Result is how a dispatch ended. The zero value is an unknown outcome.
type Result struct {
	Outcome gate.State // gate.Executed, gate.Failed, or "": nobody knows
	Text    string     // what the tool said, or why nobody knows; bounded by MaxText, not yet cleaned or redacted
}

// Refusal is the error of a call that cannot run this way; trying again would not
// help.
type Refusal struct{ Public string }

func (e *Refusal) Error() string { return e.Public }

// MaxText is how many bytes a Result's text has at most.
const MaxText = 64 << 10

func executed(text string) Result { return Result{gate.Executed, clip(text)} }

func failed(text string) Result { return Result{gate.Failed, clip(text)} }

// unknown is for what may have taken effect; why says what went wrong.
func unknown(why string) Result { return Result{Text: clip("it may have taken effect: " + why)} }

// reason says why something ended with err, under ctx.
func reason(ctx context.Context, err error) string {
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return "the time was up"
	case ctx.Err() != nil:
		return "this server was stopped"
	case errors.Is(err, context.DeadlineExceeded):
		return "it took too long"
	}
	return err.Error()
}

// clip makes valid text of at most MaxText bytes.
func clip(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= MaxText {
		return text
	}
	const more = " […]"
	end := MaxText - len(more)
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + more
}
