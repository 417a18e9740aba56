package gate

import (
	"slices"
	"time"
)

// Facts is what a policy may look at: a call that passes Validate, and who asks
// when. It is for one goroutine; arguments are parsed when the first condition
// needs them.
type Facts struct {
	Call      *Call
	Requester *Requester
	Now       time.Time // in the store's clock

	parsed bool
	args   map[string]any
	err    error
}

func (f *Facts) parse() error {
	if !f.parsed {
		f.args, f.err = parseArgs(f.Call.RawArgs(), false)
		f.parsed = true
	}
	return f.err
}

// Policy is a checked configuration; NewPolicy makes it. It is safe for concurrent
// use, and changes in nothing but what Pin tells it.
type Policy struct {
	version       Version
	disabled, off bool

	unattended, onUndeliverable Fallback

	floor         []*glob
	rules         []*Rule
	index         *index
	otherwise     *Rule // for calls that no rule matches; nil lets them pass
	discretionary *Rule

	forceDeferred, allowInline []*glob
	defaultMode                Mode

	people   *people
	warnings []Problem
}

// Warnings returns what is allowed but hardly meant.
func (p *Policy) Warnings() []Problem { return slices.Clone(p.warnings) }

// Version is the fingerprint of the whole policy, for replicas to compare.
func (p *Policy) Version() Version { return p.version }

// Disabled reports whether there is no gate.
func (p *Policy) Disabled() bool { return p.disabled }

// Off reports whether designated calls pass without asking.
func (p *Policy) Off() bool { return p.off }

// Rules returns the effective rules in their order, for people to read.
func (p *Policy) Rules() []*Rule {
	rules := slices.Clone(p.rules)
	if p.otherwise != nil {
		rules = append(rules, p.otherwise)
	}
	return rules
}

// Floor reports whether the call is denied before every bypass.
func (p *Policy) Floor(f *Facts) bool { return matchAny(p.floor, f.Call.Tool) }

// Rule returns the first effective rule that matches, or nil: nobody gates the
// call. Only rules and require_approval gate; force_deferred and allow_inline
// choose how a gated call is asked about.
func (p *Policy) Rule(f *Facts) *Rule {
	if i := p.index.first(p.rules, f); i < len(p.rules) {
		return p.rules[i]
	}
	return p.otherwise
}

// Discretionary returns the rule for questions that agents ask by their own
// judgement. If there are no default approvers nobody can answer them.
func (p *Policy) Discretionary() *Rule { return p.discretionary }

// ModeOf chooses how a question is asked; denied means not at all. A caller may
// only ask for deferred, and a call that nobody waits for is never inline.
func (p *Policy) ModeOf(r *Rule, tool string, attended, wantsDeferred bool) (m Mode, denied bool) {
	switch {
	case !attended:
		return Deferred, p.unattended == FallbackDeny
	case wantsDeferred, matchAny(p.forceDeferred, tool):
		return Deferred, false
	case r.Mode != "":
		return r.Mode, false
	case matchAny(p.allowInline, tool):
		return Inline, false
	default:
		return p.defaultMode, false
	}
}

// OnUndeliverable says what becomes of a question that no chat could show.
func (p *Policy) OnUndeliverable() Fallback { return p.onUndeliverable }

// Unattended says what becomes of a gated call that nobody waits for.
func (p *Policy) Unattended() Fallback { return p.unattended }
