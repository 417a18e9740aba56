package gate_test

import (
	"fmt"
	"log/slog"
	"testing"

	"github.com/approvalbot/approvalbot/gate"
)

// BenchmarkCheckUndesignated is a call that nobody gates, down the whole ladder
// in process: what every ungated call of every agent costs.
func BenchmarkCheckUndesignated(b *testing.B) {
	for _, rules := range []int{10, 1_000, 10_000} {
		b.Run(fmt.Sprintf("rules=%d", rules), func(b *testing.B) {
			cfg := &gate.PolicyConfig{ToolGate: &gate.ToolGateConfig{Deny: []string{"db.drop_*"}}}
			for i := range rules {
				cfg.ToolGate.Rules = append(cfg.ToolGate.Rules, gate.RuleConfig{
					Name: fmt.Sprint("rule-", i), Match: gate.MatchConfig{Server: "k8s-*", Tool: fmt.Sprintf("tool%d_{delete,apply}*", i)},
				})
			}
			p, problems := gate.NewPolicy(cfg, gate.ApproversConfig{}, nil, []gate.Principal{person("ann")}, nil)
			if len(problems) > 0 {
				b.Fatal(problems)
			}
			g := gate.New(nil, nil, nil, p, slog.New(slog.DiscardHandler))
			r := gate.Request{Call: gate.Call{Server: "k8s-prod", Tool: "tool77_read", Args: []byte(`{"namespace":"prod"}`)}}
			b.ReportAllocs()
			for b.Loop() {
				if got, err := g.Check(b.Context(), r); err != nil || got.Verdict != gate.Allow {
					b.Fatal(got, err)
				}
			}
		})
	}
}
