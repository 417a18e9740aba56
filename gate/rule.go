package gate

import (
	"encoding/json"
	"time"
)

// Action is what a rule does with the calls it matches. The zero value does
// nothing good: the ladder blocks on it.
type Action string

// The actions.
const (
	ActionAllow Action = "allow"
	ActionAsk   Action = "ask"
	ActionDeny  Action = "deny"
)

// Fallback is what becomes of a question that cannot be put or waited for.
type Fallback string

// The fallbacks.
const (
	FallbackDefer Fallback = "defer"
	FallbackDeny  Fallback = "deny"
)

// Rule is one effective rule of a policy. It is immutable.
type Rule struct {
	Name    string // at most 64 bytes, unique in its policy
	Action  Action
	Version Version // changes when what an approval rests on changes

	Groups          []*Group // who may approve, sorted by name
	AdmitsRequester bool     // the person behind the call may approve too
	Quorum          Quorum

	Mode           Mode // empty: the lists and default_mode choose
	ExpiresIn      time.Duration
	InlineFor      time.Duration // how long an inline question is waited for
	InlineThen     Fallback
	Scopes         []Scope
	ReasonRequired bool // a denial must say why
	Risk           string

	runWithin time.Duration
}

// RunFor returns how long an approved call may wait to be dispatched.
func (r *Rule) RunFor(m Mode) time.Duration { return r.runWithin }

// Grants reports whether an approver may grant scope s.
func (r *Rule) Grants(s Scope) bool { return false }

// Redacted returns arguments for display, with the values that the rule
// redacts replaced by a marker. It must never reach an executor.
func (r *Rule) Redacted(args json.RawMessage) json.RawMessage { return args }
