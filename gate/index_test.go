package gate

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// TestTheIndexAgreesWithReadingTopToBottom draws rules and calls from few
// letters, so that they meet.
func TestTheIndexAgreesWithReadingTopToBottom(t *testing.T) {
	t.Parallel()

	pattern := rapid.StringMatching(`(a|b|ab|\*|\?|\[ab\]|\[!a\]|\{a,b\*\}|\{,ab\}){1,4}`)
	name := rapid.StringMatching(`[abc]{0,5}`)
	always, err := compileWhen(`args.x == 1`)
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		draw := func(label string) *glob {
			if rapid.IntRange(0, 2).Draw(t, "any") == 0 {
				return nil
			}
			g, err := compileGlob(pattern.Draw(t, label))
			if err != nil {
				t.Skip(err)
			}
			return g
		}
		rules := make([]*Rule, rapid.IntRange(0, 12).Draw(t, "rules"))
		for i := range rules {
			rules[i] = &Rule{tool: draw("tool"), server: draw("server"), Action: ActionAllow}
			if rapid.Bool().Draw(t, "conditional") {
				rules[i].when = always
			}
		}
		f := facts(Call{Server: name.Draw(t, "at"), Tool: name.Draw(t, "call"), Args: []byte(rapid.SampledFrom([]string{`{"x":1}`, `{"x":2}`, `{`}).Draw(t, "args"))})
		want := 0
		for want < len(rules) && !rules[want].matches(f) {
			want++
		}
		if got := newIndex(rules).first(rules, f); got != want {
			t.Fatalf("the index finds rule %d, reading finds %d", got, want)
		}
	})
}

// manyRules is a policy of n rules of all shapes.
func manyRules(t testing.TB, n int) *Policy {
	t.Helper()
	cfg := &PolicyConfig{ToolGate: &ToolGateConfig{Deny: []string{"db.drop_*"}}}
	for i := range n {
		m := MatchConfig{Tool: fmt.Sprintf("tool%d_*", i)}
		switch i % 4 {
		case 1:
			m = MatchConfig{Server: "k8s-*", Tool: fmt.Sprintf("svc%d_{delete,apply,scale}", i), When: `has(args.namespace) && args.namespace == "prod"`}
		case 2:
			m = MatchConfig{Server: fmt.Sprintf("srv%d-*", i), Tool: "*_delete"}
		case 3:
			m = MatchConfig{Tool: fmt.Sprintf("exact_name_%d", i)}
		}
		cfg.ToolGate.Rules = append(cfg.ToolGate.Rules, RuleConfig{Match: m})
	}
	p, problems := NewPolicy(cfg, ApproversConfig{}, nil, keys, nil)
	if len(problems) > 0 {
		t.Fatal(problems[0])
	}
	return p
}

var undesignated = call("tool_that_nobody_gates")

// BenchmarkRuleUndesignated also reports how much slower more rules are than 10.
func BenchmarkRuleUndesignated(b *testing.B) {
	var ten float64
	for _, n := range []int{10, 1_000, 10_000} {
		p := manyRules(b, n)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if p.Floor(undesignated) || p.Rule(undesignated) != nil {
					b.Fatal("designated")
				}
			}
			took := float64(b.Elapsed().Nanoseconds()) / float64(b.N)
			if n == 10 {
				ten = took
			}
			b.ReportMetric(took/ten, "times-10-rules")
		})
	}
}

func TestACallThatNobodyGatesCostsNoMemory(t *testing.T) { //nolint:paralleltest // testing.AllocsPerRun counts for the whole process
	p := manyRules(t, 1_000)
	if n := len(p.index.tool.rules[""]) + len(p.index.server.rules[""]); n > 0 {
		t.Errorf("%d rules are tried on every call", n)
	}
	if n := testing.AllocsPerRun(100, func() { p.Floor(undesignated); p.Rule(undesignated) }); n > 0 {
		t.Errorf("%.0f allocations", n)
	}
}
