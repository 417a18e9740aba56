package gate

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// maxQuorum bounds the places of a quorum; more people are a mistake.
const maxQuorum = 100

const gatePath = "approvals.tool_gate"

// builder makes a policy and collects everything that is wrong on the way.
type builder struct {
	*Policy
	cfg       ToolGateConfig
	keys      map[string]Principal
	groups    map[string]*Group
	fallback  []string // groups of rules that name none
	taken     map[string]string
	executors []Executor
	problems  []Problem
	complains map[string]bool // groups already reported as empty
}

// NewPolicy checks a configuration and reports everything that is wrong with it
// at once; the policy is nil then. Without cfg or its tool_gate the gate is
// disabled. Keys are all configured keys: groups name them, and without an
// approvers section every approver key may approve. Chats are the configured
// platforms by name, executors those that rules may name.
func NewPolicy(cfg *PolicyConfig, approvers ApproversConfig, people []PersonConfig, keys []Principal, chats map[string]Platform, executors ...Executor) (*Policy, []Problem) {
	b := &builder{
		Policy: &Policy{people: newPeople(chats)}, executors: executors,
		keys: map[string]Principal{}, groups: map[string]*Group{},
		taken: map[string]string{}, complains: map[string]bool{},
	}
	if cfg == nil {
		cfg = &PolicyConfig{}
	}
	gate := cfg.ToolGate
	b.disabled = gate == nil || gate.Enabled != nil && !*gate.Enabled
	if gate != nil {
		b.cfg = *gate
	}
	b.readPeople(people, keys)
	b.readGroups(approvers)
	b.readChoices(cfg)
	b.readRules()
	if len(b.problems) > 0 {
		return nil, b.problems
	}
	b.index = newIndex(b.rules)
	b.warnUngated("force_deferred", b.cfg.ForceDeferred)
	b.warnUngated("allow_inline", b.cfg.AllowInline)
	b.version = b.fingerprint(cfg, approvers, people)
	return b.Policy, nil
}

func (b *builder) problem(path, format string, args ...any) {
	b.problems = append(b.problems, Problem{path, fmt.Sprintf(format, args...)})
}

func (b *builder) warn(path, format string, args ...any) {
	b.warnings = append(b.warnings, Problem{path, fmt.Sprintf(format, args...)})
}

func (b *builder) readChoices(cfg *PolicyConfig) {
	b.off = word(b, "approvals.mode", string(cfg.Mode), "manual", "off") == "off"
	b.unattended = word(b, "approvals.unattended", cfg.Unattended, FallbackDefer, FallbackDeny)
	b.onUndeliverable = word(b, "approvals.on_undeliverable", cfg.OnUndeliverable, FallbackDeny, FallbackDefer)
	b.defaultMode = word(b, gatePath+".default_mode", b.cfg.DefaultMode, Deferred, Inline)
	b.floor = b.globs(gatePath+".deny", b.cfg.Deny)
	b.forceDeferred = b.globs(gatePath+".force_deferred", b.cfg.ForceDeferred)
	b.allowInline = b.globs(gatePath+".allow_inline", b.cfg.AllowInline)
}

// readRules makes the effective rules: those listed, then require_approval,
// then what default_action says.
func (b *builder) readRules() {
	for i, c := range b.cfg.Rules {
		path := fmt.Sprintf("%s.rules[%d]", gatePath, i)
		if c.Match == (MatchConfig{}) {
			b.problem(path+".match", `says nothing; to match every call write {tool: "*"}`)
		}
		b.rules = append(b.rules, b.rule(path, c))
	}
	for i, tool := range b.cfg.RequireApproval {
		path := fmt.Sprintf("%s.require_approval[%d]", gatePath, i)
		if tool == "" {
			b.problem(path, "is empty; name a tool, or write * for all")
			continue
		}
		b.rules = append(b.rules, b.listed(path, tool))
	}
	action := word(b, gatePath+".default_action", b.cfg.DefaultAction, ActionAllow, ActionAsk, ActionDeny)
	if action != ActionAllow {
		b.otherwise = b.rule(gatePath+".default_action", RuleConfig{Name: defaultActionName, Action: string(action)})
	}
	b.discretionary = &Rule{Name: discretionaryName, Action: ActionAsk}
	b.who("approvers.default", RuleConfig{}, b.discretionary)
	b.how("", RuleConfig{}, b.discretionary)
	b.discretionary.seal()
}

// listed is the rule of one entry of require_approval.
func (b *builder) listed(path, tool string) *Rule {
	r := &Rule{Name: shorten(tool), Action: ActionAsk, tool: b.glob(path, tool)}
	b.take(path, r.Name)
	b.who(path, RuleConfig{}, r)
	b.how(path, RuleConfig{}, r)
	r.seal()
	return r
}

func (b *builder) rule(path string, c RuleConfig) *Rule {
	r := &Rule{Name: c.Name, Action: word(b, path+".action", c.Action, ActionAsk, ActionAllow, ActionDeny)}
	if r.Name == "" {
		r.Name = shorten(defaultName(c.Match))
	}
	if len(r.Name) > maxRuleName || !utf8.ValidString(r.Name) || strings.ContainsFunc(r.Name, unicode.IsControl) {
		b.problem(path+".name", "longer than %d bytes, or with control characters; shorten it", maxRuleName)
	}
	b.take(path, r.Name)
	b.match(path+".match", c.Match, r)
	b.redaction(path+".redact", c, r)
	if r.Action == ActionAsk {
		b.who(path, c, r)
		b.how(path, c, r)
	} else {
		b.asksNobody(path, c)
	}
	r.seal()
	return r
}

func (b *builder) take(path, name string) {
	if other, ok := b.taken[name]; ok {
		b.problem(path+".name", "rule name %q is taken by %s; give it one of its own, grants and the audit log go by it", name, other)
		return
	}
	b.taken[name] = path
}

func defaultName(m MatchConfig) string {
	name := cmp.Or(m.Tool, "*")
	if m.Server != "" {
		name = m.Server + "/" + name
	}
	return name
}

// shorten cuts a name to what rules may have; a fingerprint keeps it unique.
func shorten(name string) string {
	if len(name) <= maxRuleName {
		return name
	}
	hash, _ := fingerprint(name)
	tail := "~" + string(hash)[:8]
	return strings.ToValidUTF8(name[:maxRuleName-len(tail)], "") + tail
}

func (b *builder) match(path string, m MatchConfig, r *Rule) {
	if m.Server != "" {
		r.server = b.glob(path+".server", m.Server)
	}
	if m.Tool != "" {
		r.tool = b.glob(path+".tool", m.Tool)
	}
	r.whenText = strings.TrimSpace(m.When)
	if r.whenText == "" {
		return
	}
	when, err := compileWhen(r.whenText)
	if err != nil {
		b.problem(path+".when", "%v", err)
		return
	}
	r.when = when
	if when.warning != "" {
		then := "matches"
		if r.Action == ActionAllow {
			then = "does not match"
		}
		b.warn(path+".when", "where %s is absent the rule %s; if that is not meant, test it with has() first", when.warning, then)
	}
}

// who reads who may approve, and checks that they could.
func (b *builder) who(path string, c RuleConfig, r *Rule) {
	names, at := c.Approvers, path+".approvers"
	if len(names) == 0 {
		names, at = b.fallback, "" // reported where it is written
	}
	known := b.askable(at, names)
	for _, name := range slices.Compact(slices.Sorted(slices.Values(names))) {
		if name == RequesterWord {
			r.AdmitsRequester = true
		} else if g, ok := b.groups[name]; ok {
			r.Groups = append(r.Groups, g)
		}
	}
	r.Quorum = b.quorum(path+".quorum", c.Quorum, r)
	if known && len(names) > 0 && r.Quorum.Needed() > 0 {
		b.reachable(path+".quorum", r)
	}
}

// askable reports groups that do not exist or have nobody in them.
func (b *builder) askable(path string, names []string) bool {
	ok := true
	for i, name := range names {
		if name == RequesterWord {
			continue
		}
		g, exists := b.groups[name]
		if !exists {
			ok = false
			if path != "" {
				b.problem(fmt.Sprintf("%s[%d]", path, i), "no group is named %q; add it under approvers.groups, or correct the name", name)
			}
			continue
		}
		if ids, complete := g.Listed(); len(ids) == 0 && complete {
			ok = false
			if !b.complains[name] {
				b.complains[name] = true
				b.problem("approvers.groups."+name, "has nobody in it who could approve; list somebody")
			}
		}
	}
	return ok
}

func (b *builder) quorum(path string, c *QuorumConfig, r *Rule) Quorum {
	if c == nil {
		return Quorum{Total: 1}
	}
	q := Quorum{Total: c.Total, Per: c.Per}
	if q.Per == nil && (q.Total < 1 || q.Total > maxQuorum) {
		b.problem(path, "%d is no quorum; want 1 to %d", q.Total, maxQuorum)
		return Quorum{}
	}
	for _, name := range slices.Sorted(maps.Keys(q.Per)) {
		if n := q.Per[name]; n < 1 || n > maxQuorum {
			b.problem(path+"."+name, "%d is no quorum; want 1 to %d", n, maxQuorum)
			return Quorum{}
		}
		if !slices.Contains(r.groupNames(), name) {
			b.problem(path+"."+name, "the rule does not ask %q; add it to approvers, or take it out here", name)
			return Quorum{}
		}
	}
	if q.Needed() < 1 {
		b.problem(path, "asks for nobody; want a number, or a number per group")
	}
	return q
}

// reachable lets everybody vote who could, and looks whether that is enough.
// Groups that are not fully listed are taken to be large enough.
func (b *builder) reachable(path string, r *Rule) {
	var votes []QualifiedVote
	var listed []string
	for _, g := range r.Groups {
		ids, complete := g.Listed()
		if !complete {
			for i := range r.Quorum.Needed() {
				ids = append(ids, fmt.Sprintf("%s's %d", g.Name, i))
			}
		}
		for _, id := range ids {
			votes = append(votes, QualifiedVote{id, []string{g.Name}})
		}
		listed = append(listed, fmt.Sprintf("%s lists %d", g.Name, len(ids)))
	}
	if r.AdmitsRequester {
		votes = append(votes, QualifiedVote{"the requester", []string{RequesterWord}})
	}
	if !r.Met(votes) {
		b.problem(path, "takes %d people, which can never be: %s; ask for fewer, or list more", r.Quorum.Needed(), strings.Join(listed, ", "))
	}
}

// how reads how a question is asked.
func (b *builder) how(path string, c RuleConfig, r *Rule) {
	r.Mode = word(b, path+".mode", c.Mode, "", Inline, Deferred)
	r.ExpiresIn = b.duration(path+".expires_in", c.ExpiresIn, defaultExpiresIn)
	r.runWithin = b.duration(path+".run_within", c.RunWithin, 0)
	r.InlineFor, r.InlineThen = defaultInlineFor, FallbackDefer
	if t := c.InlineTimeout; t != nil {
		r.InlineFor = b.duration(path+".inline_timeout.after", t.After, defaultInlineFor)
		r.InlineThen = word(b, path+".inline_timeout.then", t.Then, FallbackDefer, FallbackDeny)
		if r.Mode == Deferred || r.Mode == "" && b.defaultMode == Deferred && len(b.allowInline) == 0 {
			b.problem(path+".inline_timeout", "the rule never asks inline; set mode: inline, or take it out")
		}
	}
	r.Scopes = []Scope{Once}
	for i, s := range c.Scopes {
		if scope := word(b, fmt.Sprintf("%s.scopes[%d]", path, i), s, Once, Session, Always); !r.Grants(scope) {
			r.Scopes = append(r.Scopes, scope)
		}
	}
	b.where(path, c, r)
	b.runner(path, c, r)
	if len(c.Scopes) > 0 && !slices.Contains(c.Scopes, string(Once)) {
		b.problem(path+".scopes", "once is missing; an approver may always approve just this call")
	}
	r.ReasonRequired = word(b, path+".deny_reason", c.DenyReason, "optional", "required") == "required"
	r.Risk = word(b, path+".risk", c.Risk, "", "low", "medium", "high")
}

// runner reads who runs a staged call once it is approved.
func (b *builder) runner(path string, c RuleConfig, r *Rule) {
	r.Executor, r.RetrySafe = cmp.Or(c.Executor, RequesterRuns), c.RetrySafe
	i := slices.IndexFunc(b.executors, func(e Executor) bool { return e.Name == r.Executor })
	switch {
	case r.Executor != RequesterRuns && i < 0:
		b.problem(path+".executor", "no executor is named %q; add it under executors, or take it out: then the requester runs the call", r.Executor)
	case r.Executor != RequesterRuns && r.Mode == Inline && r.InlineThen == FallbackDeny:
		b.problem(path+".executor", "only a staged call is run by an executor, and this rule stages none; take it out, or set inline_timeout: {then: defer}")
	case r.RetrySafe && (i < 0 || !b.executors[i].Resends):
		b.problem(path+".retry_safe", "only a webhook is sent again; take it out, or name an executor that is one")
	}
}

// where reads where the cards of a rule go, and whom the first one pings.
func (b *builder) where(path string, c RuleConfig, r *Rule) {
	for _, name := range slices.Sorted(maps.Keys(c.Conversation)) {
		if b.onPlatform(path+".conversation."+name, name, KindConversation, c.Conversation[name]) {
			r.Conversations = append(r.Conversations, Conversation{Place: name + ":" + c.Conversation[name]})
		}
	}
	for i, name := range c.Mention {
		g, ok := b.groups[name]
		if !ok {
			b.problem(fmt.Sprintf("%s.mention[%d]", path, i), "no group is named %q; add it under approvers.groups, or correct the name", name)
			continue
		}
		r.Mention = append(r.Mention, g)
	}
}

// asksNobody refuses what only questions have: a key that is accepted is enforced.
func (b *builder) asksNobody(path string, c RuleConfig) {
	if !reflect.DeepEqual(c, RuleConfig{Name: c.Name, Match: c.Match, Action: c.Action, Redact: c.Redact}) {
		b.problem(path, "action %s asks nobody, so it takes only name, match and redact; take the rest out, or set action: ask", c.Action)
	}
}

// redaction reads what is not shown. What a dangerous rule decides by must be.
func (b *builder) redaction(path string, c RuleConfig, r *Rule) {
	for i, text := range c.Redact {
		at := fmt.Sprintf("%s[%d]", path, i)
		hidden, ok := parseRedact(text)
		if !ok {
			b.problem(at, "%q is no path; want args.password or args.*.token", text)
			continue
		}
		r.redact = append(r.redact, hidden)
		if c.Risk != "high" || r.when == nil {
			continue
		}
		for _, p := range r.when.paths {
			if overlap(hidden, p[1:]) {
				b.problem(at, "a rule with risk: high decides by %s, so approvers must see it; take it out, or match on something else", strings.Join(p, "."))
				break
			}
		}
	}
}

func (b *builder) globs(path string, texts []string) []*glob {
	globs := make([]*glob, 0, len(texts))
	for i, text := range texts {
		if g := b.glob(fmt.Sprintf("%s[%d]", path, i), text); g != nil {
			globs = append(globs, g)
		}
	}
	return globs
}

func (b *builder) glob(path, text string) *glob {
	g, err := compileGlob(text)
	if err != nil {
		b.problem(path, "%q: %v", text, err)
		return nil
	}
	return g
}

func (b *builder) duration(path, text string, fallback time.Duration) time.Duration {
	if text == "" {
		return fallback
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < time.Second {
		b.problem(path, "%q is no time span of a second or more; want one such as 90s, 15m or 72h", text)
	}
	return d
}

// word checks a word from the configuration; an empty one means the first.
func word[T ~string](b *builder, path, got string, allowed ...T) T {
	if got == "" || slices.Contains(allowed, T(got)) {
		return cmp.Or(T(got), allowed[0])
	}
	texts := []string{}
	for _, w := range allowed {
		if w != "" {
			texts = append(texts, string(w))
		}
	}
	b.problem(path, "%q is unknown; want %s", got, strings.Join(texts, " or "))
	return allowed[0]
}

// warnUngated warns of entries that choose a mode for tools that no rule can
// match: whoever wrote them may believe that they hold calls.
func (b *builder) warnUngated(list string, entries []string) {
	for i, text := range entries {
		if b.otherwise == nil && !slices.ContainsFunc(b.rules, func(r *Rule) bool { return mayMeet(r.tool, text) }) {
			b.warn(fmt.Sprintf("%s.%s[%d]", gatePath, list, i), "%q only chooses a mode, and nothing holds such a tool; add it to require_approval or to a rule", text)
		}
	}
}

// mayMeet reports whether some tool could match both patterns, as far as their
// beginnings tell.
func mayMeet(g *glob, text string) bool {
	other, err := compileGlob(text)
	if g == nil || err != nil {
		return true
	}
	for _, a := range g.alts {
		for _, o := range other.alts {
			if strings.HasPrefix(a.prefix, o.prefix) || strings.HasPrefix(o.prefix, a.prefix) {
				return true
			}
		}
	}
	return false
}

// fingerprint hashes what decides about calls.
func (b *builder) fingerprint(cfg *PolicyConfig, approvers ApproversConfig, people []PersonConfig) Version {
	keys := map[string]string{} // of approvers, and whose they are
	for name, k := range b.keys {
		if slices.Contains(k.Roles, RoleApprover) {
			keys[name] = "approver " + b.PersonOf("key:"+name)
		}
	}
	version, _ := fingerprint(map[string]any{
		"approvals": cfg, "approvers": approvers, "people": people, "keys": keys, "disabled": b.disabled,
	})
	return version
}

// fingerprint returns the bare hex SHA-256 of v as JSON, whose maps are sorted,
// and that JSON.
// Empty values are left out, so that a release that knows more fields computes
// the same: no approval is void, and old and new replicas agree.
func fingerprint(v any) (Version, string) {
	b, err := json.Marshal(v)
	var plain any
	if err == nil {
		err = json.Unmarshal(b, &plain)
	}
	if err == nil {
		b, err = json.Marshal(prune(plain))
	}
	if err != nil {
		panic("gate: " + err.Error()) // only plain data comes here
	}
	sum := sha256.Sum256(b)
	return Version(hex.EncodeToString(sum[:])), string(b)
}

// prune takes empty values out of JSON, and returns nil for what is empty then.
func prune(v any) any {
	switch v := v.(type) {
	case map[string]any:
		maps.DeleteFunc(v, func(key string, inner any) bool {
			v[key] = prune(inner)
			return v[key] == nil
		})
		if len(v) == 0 {
			return nil
		}
	case []any:
		for i := range v {
			v[i] = prune(v[i])
		}
		if len(v) == 0 {
			return nil
		}
	case string, bool, float64:
		if v == "" || v == false || v == 0.0 {
			return nil
		}
	}
	return v
}
