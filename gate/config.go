package gate

import (
	"errors"
	"fmt"
	"strconv"
)

// PolicyConfig is the `approvals:` section. Its words and durations stay texts
// here, so that NewPolicy can report everything that is wrong at once.
type PolicyConfig struct {
	Mode            SwitchConfig    `yaml:"mode"`             // manual | off
	Unattended      string          `yaml:"unattended"`       // defer | deny
	OnUndeliverable string          `yaml:"on_undeliverable"` // deny | defer
	ToolGate        *ToolGateConfig `yaml:"tool_gate"`
}

// ToolGateConfig says which calls are held. The lists count as rules after Rules.
type ToolGateConfig struct {
	Enabled         *bool        `yaml:"enabled"` // absent means true
	RequireApproval []string     `yaml:"require_approval"`
	DefaultMode     string       `yaml:"default_mode"` // deferred | inline
	ForceDeferred   []string     `yaml:"force_deferred"`
	AllowInline     []string     `yaml:"allow_inline"`
	Deny            []string     `yaml:"deny"` // the floor
	Rules           []RuleConfig `yaml:"rules"`
	DefaultAction   string       `yaml:"default_action"` // allow | ask | deny, for what no rule matches
}

// RuleConfig is one entry of `rules:`.
type RuleConfig struct {
	Name          string               `yaml:"name"`
	Match         MatchConfig          `yaml:"match"`
	Action        string               `yaml:"action"` // ask | allow | deny
	Mode          string               `yaml:"mode"`   // inline | deferred
	Approvers     []string             `yaml:"approvers"`
	Quorum        *QuorumConfig        `yaml:"quorum"`
	ExpiresIn     string               `yaml:"expires_in"`
	RunWithin     string               `yaml:"run_within"`
	InlineTimeout *InlineTimeoutConfig `yaml:"inline_timeout"`
	Scopes        []string             `yaml:"scopes"`      // once, session, always
	DenyReason    string               `yaml:"deny_reason"` // required | optional
	Redact        []string             `yaml:"redact"`
	Conversation  map[string]string    `yaml:"conversation"` // by platform; cards go there instead of to review
	Mention       []string             `yaml:"mention"`      // groups, on the first card
	Risk          string               `yaml:"risk"`         // low | medium | high
	Executor      string               `yaml:"executor"`     // runs a staged call; absent: the requester does
	RetrySafe     bool                 `yaml:"retry_safe"`   // the executor may send the same attempt again
}

// MatchConfig selects calls: both globs match the whole name, and When, a CEL
// condition, holds. What is left out matches everything.
type MatchConfig struct {
	Server string `yaml:"server"`
	Tool   string `yaml:"tool"`
	When   string `yaml:"when"`
}

// InlineTimeoutConfig says how long an inline question is waited for, and what
// becomes of it then.
type InlineTimeoutConfig struct {
	After string `yaml:"after"`
	Then  string `yaml:"then"` // defer | deny
}

// ApproversConfig is the `approvers:` section.
type ApproversConfig struct {
	Default []string               `yaml:"default"` // groups of rules that name none
	Groups  map[string]GroupConfig `yaml:"groups"`
}

// GroupConfig lists who belongs to a group.
type GroupConfig struct {
	Keys            []string `yaml:"keys"`             // names of approver keys
	SlackUsers      []string `yaml:"slack_users"`      // U1, or T2/U1 of another workspace
	SlackUserGroups []string `yaml:"slack_usergroups"` // S1

	MattermostUsers          []string `yaml:"mattermost_users"`           // ids, or usernames
	MattermostGroups         []string `yaml:"mattermost_groups"`          // ids of custom or LDAP groups
	MattermostChannelMembers []string `yaml:"mattermost_channel_members"` // "team/channel", or ids of channels

	Emails []string `yaml:"emails"` // addresses that a platform has verified
}

// PersonConfig joins what belongs to one human.
type PersonConfig struct {
	Name  string   `yaml:"name"`
	Keys  []string `yaml:"keys"`
	Slack []string `yaml:"slack"` // T1/U1

	Mattermost []string `yaml:"mattermost"` // ids, or usernames
	Emails     []string `yaml:"emails"`
}

// Executor is one of `executors:`, as far as rules need to know it.
type Executor struct {
	Name    string
	Resends bool // it can send the same attempt again, so retry_safe means something
}

// SwitchConfig is a word that YAML may read as a boolean: a bare `off` and
// `false` both mean "off".
type SwitchConfig string

// UnmarshalYAML reads a word or a boolean.
func (s *SwitchConfig) UnmarshalYAML(decode func(any) error) error {
	var v any
	if err := decode(&v); err != nil {
		return err
	}
	switch v := v.(type) {
	case string:
		*s = SwitchConfig(v)
	case nil: // a key without a value: the default
	default:
		*s = SwitchConfig(fmt.Sprint(v))
	}
	if *s == "false" {
		*s = "off"
	}
	return nil
}

// QuorumConfig is how many approvals it takes: a number over all groups
// together, or a number per group.
type QuorumConfig struct {
	Total int
	Per   map[string]int
}

// UnmarshalYAML reads `2` or `{sre: 1, owners: 1}`. It looks at the text of
// numbers, because decoders round 1.5 to 1.
func (q *QuorumConfig) UnmarshalYAML(decode func(any) error) error {
	var v any
	if err := decode(&v); err != nil {
		return err
	}
	per, ok := v.(map[string]any)
	if !ok {
		return wholeNumber(v, &q.Total)
	}
	q.Per = map[string]int{}
	for name, n := range per {
		var places int
		if err := wholeNumber(n, &places); err != nil {
			return err
		}
		q.Per[name] = places
	}
	return nil
}

func wholeNumber(v any, n *int) (err error) {
	if *n, err = strconv.Atoi(fmt.Sprint(v)); err != nil {
		return errors.New("quorum: want a whole number, or one per group such as {sre: 1, owners: 1}")
	}
	return nil
}

// Problem is something wrong in the configuration, or worth a warning.
type Problem struct {
	Path string // "approvals.tool_gate.rules[2].match.tool"
	Text string // what is wrong, and the fix
}

func (p Problem) String() string { return p.Path + ": " + p.Text }
