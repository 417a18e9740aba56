package gate

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
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

	server, tool *glob
	when         *condition
	whenText     string
	runWithin    time.Duration
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
// it, so that an unrelated edit voids nothing. Fields with their default value
// are left out, so that a new release voids nothing either.
func (r *Rule) seal() {
	sealed := struct {
		Server    string              `json:"server,omitempty"`
		Tool      string              `json:"tool,omitempty"`
		When      string              `json:"when,omitempty"`
		Action    Action              `json:"action"`
		Mode      Mode                `json:"mode,omitempty"`
		Groups    map[string][]string `json:"groups,omitempty"`
		Requester bool                `json:"requester,omitempty"`
		Total     int                 `json:"total,omitempty"`
		Per       map[string]int      `json:"per,omitempty"`
	}{
		Server: r.server.String(), Tool: r.tool.String(), When: r.whenText, Action: r.Action, Mode: r.Mode,
		Groups: map[string][]string{}, Requester: r.AdmitsRequester, Total: r.Quorum.Total, Per: r.Quorum.Per,
	}
	if sealed.Total == 1 {
		sealed.Total = 0
	}
	for _, g := range r.Groups {
		sealed.Groups[g.Name] = g.configured
	}
	r.Version = hashJSON(sealed)
}

// hashJSON returns the bare hex SHA-256 of v, whose maps JSON sorts.
func hashJSON(v any) Version {
	b, err := json.Marshal(v)
	if err != nil {
		panic("gate: " + err.Error()) // only plain data comes here
	}
	sum := sha256.Sum256(b)
	return Version(hex.EncodeToString(sum[:]))
}

// Grants reports whether an approver may grant scope s.
func (r *Rule) Grants(s Scope) bool { return slices.Contains(r.Scopes, s) }
