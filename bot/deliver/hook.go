package deliver

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/approvalbot/approvalbot/bot/webhook"
	"github.com/approvalbot/approvalbot/gate"
)

// HookConfig is one entry of `hooks:`.
type HookConfig struct {
	Name        string         `yaml:"name"`
	On          Words          `yaml:"on"` // requested, decided, executed; one word or a list
	Webhook     webhook.Config `yaml:"webhook"`
	IncludeArgs bool           `yaml:"include_args"` // as people may see them
	Rules       []string       `yaml:"rules"`        // globs of names; empty: any
}

// Words is one word, or a list of them.
type Words []string

// UnmarshalYAML reads either.
func (w *Words) UnmarshalYAML(decode func(any) error) error {
	var one string
	if decode(&one) == nil {
		*w = Words{one}
		return nil
	}
	var all []string
	if err := decode(&all); err != nil {
		return errors.New("want a word, or a list like [decided, executed]")
	}
	*w = all
	return nil
}

// hook is a receiver of the config file.
type hook struct {
	HookConfig

	to    sender
	rules []gate.Glob
}

// wants reports whether a hook hears of such a thing under a rule.
func (h *hook) wants(what, rule string) bool {
	return slices.Contains(h.On, what) &&
		(len(h.rules) == 0 || slices.ContainsFunc(h.rules, func(g gate.Glob) bool { return g.Match(rule) }))
}

// Hooks are the hooks of a config file. They never change while the process runs.
type Hooks struct{ all []*hook }

// NewHooks checks hooks and reports everything that is wrong with them.
func NewHooks(configs []HookConfig) (*Hooks, []gate.Problem) {
	hs := &Hooks{}
	var problems []gate.Problem
	for i, c := range configs {
		h, wrong := newHook(c)
		if hs.named(c.Name) != nil {
			wrong = append(wrong, gate.Problem{Path: "name", Text: "another hook has this name already"})
		}
		for _, p := range wrong {
			problems = append(problems, gate.Problem{Path: fmt.Sprintf("hooks[%d].%s", i, p.Path), Text: p.Text})
		}
		hs.all = append(hs.all, h)
	}
	return hs, problems
}

func (hs *Hooks) named(name string) *hook {
	i := slices.IndexFunc(hs.all, func(h *hook) bool { return h.Name == name })
	if i < 0 {
		return nil
	}
	return hs.all[i]
}

var hookName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

func newHook(c HookConfig) (*hook, []gate.Problem) {
	h := &hook{HookConfig: c}
	var problems []gate.Problem
	bad := func(field, text string) { problems = append(problems, gate.Problem{Path: field, Text: text}) }
	if !hookName.MatchString(c.Name) {
		bad("name", "want at most 64 letters, digits, dots, dashes and underscores")
	}
	if len(c.On) == 0 || slices.ContainsFunc(c.On, func(w string) bool { return !slices.Contains(kinds, w) }) {
		bad("on", "want of "+strings.Join(kinds, ", "))
	}
	for i, text := range c.Rules {
		g, err := gate.NewGlob(text)
		if err != nil {
			bad(fmt.Sprintf("rules[%d]", i), err.Error())
		}
		h.rules = append(h.rules, g)
	}
	to, wrong := newSender(c.Webhook)
	for _, p := range wrong {
		bad("webhook."+p.Path, p.Text)
	}
	h.to = to
	return h, problems
}

// maxTimeout bounds one request; what is taken from the outbox is leased for longer.
const maxTimeout = 30 * time.Second

// newSender makes an endpoint. Each line of what is wrong with its configuration
// begins with a key.
func newSender(c webhook.Config) (sender, []gate.Problem) {
	var problems []gate.Problem
	if d, err := time.ParseDuration(c.Timeout); err == nil && d > maxTimeout {
		problems = append(problems, gate.Problem{Path: "timeout", Text: fmt.Sprintf("want at most %s: a receiver notes a message and answers, then works on it", maxTimeout)})
	}
	end, err := webhook.New(c)
	if err != nil {
		for line := range strings.Lines(err.Error()) {
			field, text, _ := strings.Cut(strings.TrimSpace(line), ": ")
			problems = append(problems, gate.Problem{Path: field, Text: text})
		}
		return nil, problems
	}
	return endpoint{end}, problems
}

// CheckCallbacks reports what is wrong with what callbacks under a prefix are sent
// with.
func CheckCallbacks(c webhook.Config) []gate.Problem {
	_, problems := newSender(c)
	return problems
}
