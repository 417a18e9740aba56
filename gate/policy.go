package gate

import "time"

// Facts is what a policy may look at. It is for one goroutine: arguments are
// parsed when the first condition needs them.
type Facts struct {
	Call      *Call
	Requester *Requester
	Now       time.Time // in the store's clock
}

// Policy is a checked configuration. It is immutable and safe for concurrent use.
type Policy struct{}

// NewPolicy checks a configuration and reports everything that is wrong with
// it at once; the policy is nil then. A nil cfg is a gate that is disabled.
func NewPolicy(cfg *PolicyConfig, approvers ApproversConfig, people []PersonConfig, keys []Principal) (*Policy, []Problem) {
	return nil, nil
}

// Warnings returns what is allowed but hardly meant.
func (p *Policy) Warnings() []Problem { return nil }

// Version is the fingerprint of the whole policy, for replicas to compare.
func (p *Policy) Version() Version { return "" }

// Disabled reports whether there is no gate.
func (p *Policy) Disabled() bool { return false }

// Off reports whether designated calls pass without asking.
func (p *Policy) Off() bool { return false }

// Floor reports whether the call is denied before everything else.
func (p *Policy) Floor(f *Facts) bool { return true }

// Rule returns the first effective rule that matches, or nil: nobody gates the call.
func (p *Policy) Rule(f *Facts) *Rule { return nil }

// Discretionary returns the rule for questions that agents ask by their own judgement.
func (p *Policy) Discretionary() *Rule { return nil }

// ModeOf chooses how the question is asked; denied means not at all.
func (p *Policy) ModeOf(r *Rule, tool string, attended, wantsDeferred bool) (m Mode, denied bool) {
	return Deferred, true
}

// OnUndeliverable says what becomes of a question that no chat could show.
func (p *Policy) OnUndeliverable() Fallback { return FallbackDeny }

// Unattended says what becomes of a call that nobody waits for.
func (p *Policy) Unattended() Fallback { return FallbackDefer }

// PersonOf returns the person that a key belongs to, empty if nobody knows.
func (p *Policy) PersonOf(key string) string { return "" }
