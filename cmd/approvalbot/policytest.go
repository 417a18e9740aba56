package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/approvalbot/approvalbot/gate"
)

// policyCase is one row of a table of cases: a call, and what the policy must
// say to it. Only what expect names is compared.
type policyCase struct {
	Name      string        `yaml:"name"`
	Call      caseCall      `yaml:"call"`
	Requester caseRequester `yaml:"requester"`
	Mode      string        `yaml:"mode"` // deferred: the caller asks for it
	Expect    ruled         `yaml:"expect"`
}

type caseCall struct {
	Server string         `yaml:"server"`
	Tool   string         `yaml:"tool"`
	Target string         `yaml:"target"`
	Args   map[string]any `yaml:"args"`
}

type caseRequester struct {
	Key      string `yaml:"key"`
	Agent    string `yaml:"agent"`
	Session  string `yaml:"session"`
	Person   string `yaml:"person"`
	Attended bool   `yaml:"attended"`
}

// ruled is what the policy says to a call.
type ruled struct {
	Verdict string `yaml:"verdict" json:"verdict"`
	Reason  string `yaml:"reason"  json:"reason,omitempty"` // of a block, or the rung
	Rule    string `yaml:"rule"    json:"rule,omitempty"`
	Mode    string `yaml:"mode"    json:"mode,omitempty"`
}

// caseResult is how one case went.
type caseResult struct {
	Name string   `json:"name"`
	OK   bool     `json:"ok"`
	Diff []string `json:"diff,omitempty"`
}

func readCases(path string) ([]policyCase, error) {
	b, err := os.ReadFile(path) //nolint:gosec // the file that the caller names
	if err != nil {
		return nil, err
	}
	var cases []policyCase
	if err := yaml.UnmarshalWithOptions(b, &cases, yaml.DisallowUnknownField()); err != nil {
		return nil, fmt.Errorf("%s:\n%s", path, yaml.FormatError(err, false, true))
	}
	if len(cases) == 0 {
		return nil, fmt.Errorf("%s: no cases; want a list of {name, call, requester, expect}", path)
	}
	return cases, nil
}

// test runs one case against the policy of g.
func (c policyCase) test(g *gate.Gate) caseResult {
	r := caseResult{Name: c.Name}
	if c.Name == "" {
		r.Name = c.Call.Tool
	}
	got, err := c.ask(g)
	if err != nil {
		r.Diff = []string{err.Error()}
		return r
	}
	for _, f := range []struct{ name, want, got string }{
		{"verdict", c.Expect.Verdict, got.Verdict},
		{"rule", c.Expect.Rule, got.Rule},
		{"mode", c.Expect.Mode, got.Mode},
		{"reason", c.Expect.Reason, got.Reason},
	} {
		if f.want != "" && f.want != f.got {
			r.Diff = append(r.Diff, fmt.Sprintf("%-8s want %s, got %s", f.name, gate.Clean(f.want), orNone(f.got)))
		}
	}
	if c.Expect == (ruled{}) {
		r.Diff = []string{"expects nothing; say which verdict, rule, mode or reason"}
	}
	r.OK = len(r.Diff) == 0
	return r
}

func (c policyCase) ask(g *gate.Gate) (ruled, error) {
	args, err := json.Marshal(c.Call.Args)
	if err != nil {
		return ruled{}, fmt.Errorf("args: %w", err)
	}
	if c.Call.Args == nil {
		args = nil
	}
	q := c.Requester
	return explainCall(g, gate.Request{
		Call:      gate.Call{Server: c.Call.Server, Tool: c.Call.Tool, Target: c.Call.Target, Args: args},
		Requester: gate.Requester{Key: q.Key, Agent: q.Agent, Session: q.Session, Person: q.Person, Attended: q.Attended},
		Mode:      gate.Mode(c.Mode),
	})
}

// explainCall is gate.Explain as words. A call that is malformed is blocked, as
// the server would.
func explainCall(g *gate.Gate, r gate.Request) (ruled, error) {
	if err := r.Call.Validate(); err != nil {
		return ruled{}, err
	}
	e, _ := g.Explain(r) // its error is in the reason
	out := ruled{Verdict: string(e.Verdict), Reason: string(e.Reason), Mode: string(e.Mode)}
	if out.Reason == "" {
		out.Reason = string(e.Rung)
	}
	if e.Rule != nil {
		out.Rule = e.Rule.Name
	}
	return out, nil
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return gate.Clean(s)
}

// report prints the cases that failed, and how many there were.
func (s screen) report(results []caseResult, failed int) error {
	for _, r := range results {
		if r.OK {
			continue
		}
		err := s.line("%s  %s\n      %s", s.styled(red, "FAIL"), gate.Clean(r.Name), strings.Join(r.Diff, "\n      "))
		if err != nil {
			return err
		}
	}
	if failed > 0 {
		return nil
	}
	return s.line("%s", s.styled(green, "ok: "+plural(len(results), "case")))
}
