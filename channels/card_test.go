package channels_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/approvalbot/approvalbot/channels"
	"github.com/approvalbot/approvalbot/gate"
)

var update = flag.Bool("update", false, "write golden files")

// now is the moment at which the cards of these tests are drawn.
var now = time.Date(2026, 3, 4, 3, 12, 0, 0, time.UTC)

// rule is a rule of a policy, as NewPolicy makes it.
func rule(t *testing.T, c gate.RuleConfig) *gate.Rule {
	t.Helper()
	c.Name, c.Match = "prod-kubectl", gate.MatchConfig{Tool: "*"}
	approvers := gate.ApproversConfig{Default: []string{"sre"}, Groups: map[string]gate.GroupConfig{"sre": {Keys: []string{"ann", "bo"}}}}
	people := []gate.PersonConfig{{Name: "ann", Keys: []string{"ann"}}, {Name: "bo", Keys: []string{"bo"}}}
	keys := []gate.Principal{{Key: "ann", Person: "ann", Roles: []gate.Role{gate.RoleApprover}}, {Key: "bo", Person: "bo", Roles: []gate.Role{gate.RoleApprover}}}
	p, problems := gate.NewPolicy(&gate.PolicyConfig{ToolGate: &gate.ToolGateConfig{Rules: []gate.RuleConfig{c}}}, approvers, people, keys, nil)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return p.Rules()[0]
}

// anything is a platform that lets every id pass.
type anything struct{ gate.Platform }

func (anything) Check(gate.IDKind, string) error { return nil }
func (anything) Named(string) bool               { return false }

// onSlack is a group of people on Slack.
func onSlack(t *testing.T) *gate.Group {
	t.Helper()
	approvers := gate.ApproversConfig{Default: []string{"oncall"}, Groups: map[string]gate.GroupConfig{"oncall": {SlackUserGroups: []string{"S0ONCALL"}, SlackUsers: []string{"U0ANN", "T2/U0BO"}}}}
	rules := []gate.RuleConfig{{Name: "r", Match: gate.MatchConfig{Tool: "*"}}}
	p, problems := gate.NewPolicy(&gate.PolicyConfig{ToolGate: &gate.ToolGateConfig{Rules: rules}}, approvers, nil, nil, map[string]gate.Platform{gate.Slack: anything{}})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return p.Rules()[0].Groups[0]
}

// view is a pending question of hermes, for two people to answer.
func view(t *testing.T, args string) *gate.View {
	t.Helper()
	r := rule(t, gate.RuleConfig{Quorum: &gate.QuorumConfig{Total: 2}})
	v := &gate.View{Rule: r, Progress: r.Progress(nil)}
	v.Now = now
	v.Approval = gate.Approval{
		ID: "apr_01JNV4X3T2E6Q1Y5Z8A9B0C1D2", State: gate.Pending, Rev: 1, Mode: gate.Inline,
		Created: now, InlineUntil: now.Add(15 * time.Minute), Expires: now.Add(72 * time.Hour),
	}
	v.Subject = gate.Subject{
		Call:      gate.Call{Server: "k8s", Tool: "kubectl_apply", Target: "prod/web", Args: json.RawMessage(args)},
		Rule:      r.Name,
		Version:   r.Version,
		Requester: gate.Requester{Key: "hermes", Agent: "claude", Run: "run-7", Session: "s1", Person: "cy"},
		Intent:    "scale the shop back up", Executor: gate.RequesterRuns,
	}
	v.Digest, _ = v.Call.Digest()
	return v
}

func draw(v *gate.View) *channels.Card {
	return channels.NewCard(v, channels.Context{Args: v.Call.Args, Review: "#review", Link: "https://approvals.example.com/console/approvals/apr_1"})
}

// told is a card as the golden file keeps it.
func told(name string, c *channels.Card) string {
	var b strings.Builder
	line := func(label, text string) {
		if text != "" {
			fmt.Fprintf(&b, "\t%-8s %s\n", label, strings.ReplaceAll(text, "\n", "\n\t         "))
		}
	}
	fmt.Fprintf(&b, "%s\n", name)
	line("phone", c.Notification)
	for _, m := range c.Mention {
		line("mention", fmt.Sprint(m))
	}
	line("title", c.Title)
	line("tool", c.Tool)
	line("target", c.Target)
	line("server", c.Server)
	line("risk", c.Risk)
	for _, f := range c.Facts {
		if name == "waiting inline" || f.Name == "Agent" || f.Name == "Decided by" { // the others are the same
			line("fact", f.Name+": "+f.Value)
		}
	}
	line("intent", c.Intent)
	line("args", c.Args)
	line("diff", c.Diff)
	line("warning", c.Warning)
	line("refused", c.Refused)
	line("asked", c.Dialogue)
	if c.Settled {
		line("settled", "yes")
	}
	line("line", c.Line)
	line("result", c.Result)
	line("silence", c.Silence)
	line("confirm", c.Confirm)
	for _, s := range c.Scopes {
		line("scope", s.Name+": "+s.Covers+", "+s.Lasts)
	}
	var buttons []string
	for name, live := range map[string]bool{"1 approve": c.Approve, "2 deny": c.Deny, "3 ask": c.Ask, "4 answer": c.Answer, "5 take back": c.TakeBack, "6 it ran, it did not run": c.Unsettled, "7 run it again": c.Again} {
		if live {
			buttons = append(buttons, name)
		}
	}
	line("buttons", strings.Join(sorted(buttons), ", "))
	return b.String()
}

func TestCards(t *testing.T) {
	t.Parallel()
	const args = `{"namespace":"prod","replicas":3}`
	cases := []struct {
		name string
		of   func(*testing.T) *gate.View
	}{
		{"waiting inline", func(t *testing.T) *gate.View { return view(t, args) }},
		{"nobody knows whether it ran", func(t *testing.T) *gate.View {
			v := view(t, args)
			v.State, v.Started, v.Result = gate.OutcomeUnknown, v.Now, "no answer within 30 s"
			return v
		}},
		{"nobody knows, and people are asked again", func(t *testing.T) *gate.View {
			v := view(t, args)
			v.State, v.Started, v.Successor = gate.OutcomeUnknown, v.Now, "apr_02"
			return v
		}},
		{"to be run again", func(t *testing.T) *gate.View {
			v := view(t, args)
			v.Rerun, v.Predecessor = true, "apr_00"
			return v
		}},
		{"staged", func(t *testing.T) *gate.View {
			v := view(t, args)
			v.Mode, v.InlineUntil = gate.Deferred, time.Time{}
			return v
		}},
		{"one of two", func(t *testing.T) *gate.View {
			v := view(t, args)
			v.Progress = v.Rule.Progress([]gate.QualifiedVote{{Identity: "person:ann", Groups: []string{"sre"}}})
			return v
		}},
		{"asked", func(t *testing.T) *gate.View {
			v := view(t, args)
			v.Questions = []gate.Question{{By: "Ann", Text: "why now?"}}
			return v
		}},
		{"asked for the third time", func(t *testing.T) *gate.View {
			v := view(t, args)
			v.Questions = []gate.Question{{By: "Bo", Text: "which?", Answer: "that one"}, {By: "Bo", Text: "sure?", Answer: "yes"}, {By: "Ann", Text: "why now?"}}
			return v
		}},
		{"answered", func(t *testing.T) *gate.View {
			v := view(t, args)
			v.Questions = []gate.Question{{By: "Ann", Text: "why now?", Answer: "the shop is down <!channel>\u202e"}}
			return v
		}},
		{"who is called", func(t *testing.T) *gate.View {
			v := view(t, args)
			v.Rule.Mention = []*gate.Group{onSlack(t)}
			return v
		}},
		{"nobody is called any more", func(t *testing.T) *gate.View {
			v := view(t, args)
			v.Rule.Mention, v.State, v.By, v.Decided = []*gate.Group{onSlack(t)}, gate.Denied, "Ann", now
			return v
		}},
		{"names that are too long for a title", func(t *testing.T) *gate.View {
			v := view(t, args)
			v.Call.Tool, v.Requester.Agent = "delete_"+strings.Repeat("x", 80)+"_all", "agent_"+strings.Repeat("y", 50)+"_seven"
			return v
		}},
		{"an edit", func(t *testing.T) *gate.View {
			return view(t, `{"path":"deploy.yaml","old_string":"replicas: 3\nimage: shop:1\n","new_string":"replicas: 30\nimage: shop:1\n"}`)
		}},
		{"refused before", func(t *testing.T) *gate.View {
			v := view(t, args)
			v.Refused = &gate.Approval{State: gate.Denied, By: "Bo", Decided: now.Add(-20 * time.Hour), Note: "wrong cluster"}
			return v
		}},
		{"high risk, scopes", func(t *testing.T) *gate.View {
			v := view(t, args)
			v.Rule = rule(t, gate.RuleConfig{Risk: "high", Scopes: []string{"once", "session", "always"}})
			return v
		}},
		{"scopes without a session", func(t *testing.T) *gate.View {
			v := view(t, args)
			v.Rule, v.Requester.Session = rule(t, gate.RuleConfig{Scopes: []string{"once", "session", "always"}}), ""
			return v
		}},
		{"after a fail-over", func(t *testing.T) *gate.View { v := view(t, args); v.FailedOver = now.Add(-time.Minute); return v }},
		{"its rule has changed", func(t *testing.T) *gate.View { v := view(t, args); v.Rule, v.Progress = nil, gate.Progress{}; return v }},
		{"the agent's own question", func(t *testing.T) *gate.View { v := view(t, args); v.Discretionary = true; return v }},
		{"approved", func(t *testing.T) *gate.View {
			v := view(t, args)
			v.State, v.By, v.Decided, v.RunBy = gate.Approved, "Bo", now, now.Add(5*time.Minute)
			return v
		}},
		{"running", func(t *testing.T) *gate.View {
			v := view(t, args)
			v.State, v.By, v.Started = gate.Executing, "Bo", now
			return v
		}},
		{"denied", func(t *testing.T) *gate.View {
			v := view(t, args)
			v.State, v.By, v.Decided, v.Note = gate.Denied, "Ann", now, "wrong cluster"
			return v
		}},
		{"hostile", func(t *testing.T) *gate.View {
			v := view(t, `{"a":"<!channel> <https://evil.example|Approve> \u202egnp.exe `+"`x`"+`"}`)
			v.Call.Tool, v.Requester.Agent, v.Intent = "rm\u200b", "claude\u202e", "line one\nBUTTON: <@U1>"
			return v
		}},
	}
	var all []string
	for _, tt := range cases {
		all = append(all, told(tt.name, draw(tt.of(t))))
	}
	got, file := strings.Join(all, "\n"), filepath.Join("testdata", "cards.golden")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("cards say something else (-want +got); -update takes it:\n%s", diff)
	}
}

// TestTheSameStateDrawsTheSameCard pins that a card comes of the state alone.
func TestTheSameStateDrawsTheSameCard(t *testing.T) {
	t.Parallel()
	v := view(t, `{"a":1}`)
	if diff := cmp.Diff(draw(v), draw(v)); diff != "" {
		t.Errorf("two draws differ:\n%s", diff)
	}
}

// TestNothingIsHiddenUnsaid cuts a body of any length: either all of it is there,
// or the card says that something is not, and how much.
func TestNothingIsHiddenUnsaid(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 50, 3000, 100_000} {
		v := view(t, fmt.Sprintf(`{"a":%q}`, strings.Repeat("é", n)))
		c := draw(v)
		text, hides := c.Body(2900)
		if len([]rune(text)) > 2900 {
			t.Errorf("%d characters of body, want at most 2,900", len([]rune(text)))
		}
		if hides != strings.Contains(text, "more characters") || !hides && text != c.Args {
			t.Errorf("%d characters: hides %t, and shows %.80q", n, hides, text)
		}
	}
}

func sorted(s []string) []string { slices.Sort(s); return s }
