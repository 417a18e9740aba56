package gate

import (
	"slices"
	"time"
)

// Action is what a rule does with the calls it matches. The zero value is none.
type Action string

// The actions.
const (
	ActionAllow Action = "allow"
	ActionAsk   Action = "ask"
	ActionDeny  Action = "deny"
)

// Fallback is what becomes of a question that cannot be put, or is not waited
// for any more.
type Fallback string

// The fallbacks.
const (
	FallbackDefer Fallback = "defer"
	FallbackDeny  Fallback = "deny"
)

// What a rule says that does not say otherwise.
const (
	defaultExpiresIn  = 72 * time.Hour
	defaultInlineFor  = 15 * time.Minute
	defaultRunInline  = 5 * time.Minute
	defaultRunStaged  = 24 * time.Hour
	discretionaryName = "request_approval"
	defaultActionName = "default_action"
	maxRuleName       = 64
)

// Rule is one effective rule of a policy. It is immutable.
type Rule struct {
	Name    string // at most 64 bytes, unique in its policy
	Action  Action
	Version Version // changes with what an approval rests on: see seal

	Groups          []*Group // who may approve, sorted by name
	AdmitsRequester bool     // the person behind the call may approve too
	Quorum          Quorum

	Mode           Mode          // empty: the lists and default_mode choose
	ExpiresIn      time.Duration // of a deferred question
	InlineFor      time.Duration // how long an inline question is waited for
	InlineThen     Fallback
	Scopes         []Scope // what an approver may grant; Once is always among them
	ReasonRequired bool    // a denial must say why
	Risk           string  // low, medium, high or empty

	Executor  string // who runs its staged calls: RequesterRuns, or the name of an executor
	RetrySafe bool   // the executor may send the same attempt again until its time is over

	Conversations []Conversation // where its cards go, one of each platform
	Mention       []*Group       // who is pinged with the first card

	server, tool *glob
	when         *condition
	whenText     string
	runWithin    time.Duration
	sealed       string // what Version is the fingerprint of
	redact       [][]string
}

// RunFor returns how long an approved call may wait to be dispatched.
func (r *Rule) RunFor(m Mode) time.Duration {
	switch {
	case r.runWithin > 0:
		return r.runWithin
	case m == Inline:
		return defaultRunInline
	default:
		return defaultRunStaged
	}
}

// matches reports whether the rule applies. A condition that fails matches,
// unless that would let the call pass.
func (r *Rule) matches(f *Facts) bool {
	if !r.tool.match(f.Call.Tool) || !r.server.match(f.Call.Server) {
		return false
	}
	if r.when == nil {
		return true
	}
	holds, err := r.when.holds(f)
	if err != nil {
		return r.Action != ActionAllow
	}
	return holds
}

// seal computes the version: the fingerprint of what an approval under this
// rule rests on. How a question looks, and how long it lasts, is not part of
// it, so that an unrelated edit voids nothing.
func (r *Rule) seal() {
	groups := map[string][]string{}
	for _, g := range r.Groups {
		groups[g.Name] = g.configured
	}
	total := r.Quorum.Total
	if total == 1 {
		total = 0 // the default
	}
	r.Version, r.sealed = fingerprint(map[string]any{
		"server": r.server.String(), "tool": r.tool.String(), "when": r.whenText,
		"action": r.Action, "mode": r.Mode,
		"executor": staffed(r.Executor), "groups": groups, "requester": r.AdmitsRequester, "total": total, "per": r.Quorum.Per,
	})
}

// staffed leaves out the default: what is not said must not change a version.
func staffed(executor string) string {
	if executor == RequesterRuns {
		return ""
	}
	return executor
}

// Grants reports whether an approver may grant scope s.
func (r *Rule) Grants(s Scope) bool { return slices.Contains(r.Scopes, s) }
