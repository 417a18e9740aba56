package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/approvalbot/approvalbot/bot/wire"
	"github.com/approvalbot/approvalbot/gate"
)

// shortVersion is enough of a policy's fingerprint to compare replicas by eye.
func shortVersion(p *gate.Policy) string { return string(p.Version())[:12] }

// policySummary says what a policy does; that it does nothing is said loudly.
func policySummary(p *gate.Policy) string {
	switch {
	case p.Disabled():
		return "THE GATE IS DISABLED: every call passes"
	case p.Off():
		return plural(len(p.Rules()), "rule") + ", BUT approvals.mode IS OFF: every call passes that the floor does not deny"
	}
	return plural(len(p.Rules()), "rule")
}

func newPolicy(p process) *cobra.Command {
	c := group("policy", "check, explain and test a policy", newCheck(p, "check", "policy"), newPolicyExplain(p), newPolicyTest(p))
	c.Example = "  approvalbot policy check approvalbot.yaml\n  approvalbot policy explain --config approvalbot.yaml --tool delete_file\n  approvalbot policy test cases.yaml --config approvalbot.yaml"
	return c
}

func newPolicyTest(p process) *cobra.Command {
	var file string
	c := &cobra.Command{
		Use: "test cases.yaml", Short: "run a table of cases against a policy",
		Long: `Runs a list of cases against the policy of a config file. Only what expect names
is compared; it fails if any case does.

  - name: deleting in prod is asked about
    call: {server: k8s-eu, tool: kubectl_delete, args: {namespace: prod}}
    requester: {agent: hermes, attended: true}
    expect: {verdict: ask, rule: prod-kubectl, mode: inline}
  - name: dropping a database is never allowed
    call: {tool: db.drop_all}
    expect: {verdict: block, reason: floor_denied}`,
		Example: "  approvalbot policy test cases.yaml --config approvalbot.yaml", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return testPolicy(p, file, args[0], asJSON(cmd)) },
	}
	configFlag(c, &file)
	return c
}

func testPolicy(p process, file, cases string, jsonOut bool) error {
	g, err := offlineGate(p, file)
	if err != nil {
		return err
	}
	rows, err := readCases(cases)
	if err != nil {
		return err
	}
	var results []caseResult
	failed := 0
	for _, c := range rows {
		r := c.test(g)
		results = append(results, r)
		if !r.OK {
			failed++
		}
	}
	if jsonOut {
		err = printJSON(p.out, results)
	} else {
		err = newScreen(p).report(results, failed)
	}
	if err == nil && failed > 0 {
		return fmt.Errorf("%d of %s failed", failed, plural(len(results), "case"))
	}
	return err
}

// offlineGate is a gate for dry runs: it has a policy and nothing else.
func offlineGate(p process, file string) (*gate.Gate, error) {
	cfg, err := loadConfig(p, file)
	if err != nil {
		return nil, err
	}
	return gate.New(nil, nil, nil, cfg.Policy, nil), nil
}

func newPolicyExplain(p process) *cobra.Command {
	var (
		file string
		f    callFlags
	)
	c := &cobra.Command{
		Use: "explain", Short: "would this call be held, by which rule, and who could approve it",
		Long: `Says what would become of a call, without asking anybody. With --config the policy
of that file rules, and no server is needed; else the one of the server at
APPROVALBOT_URL. Grants, bypasses and tokens are not looked at.`,
		Example: "  approvalbot policy explain --tool kubectl_delete --args '{\"namespace\":\"prod\"}'\n  approvalbot policy explain --config approvalbot.yaml --tool delete_file --attended",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			call, err := f.call(p.in)
			if err != nil {
				return err
			}
			var w wire.Would
			if cmd.Flags().Changed("config") {
				w, err = explainOffline(p, file, &f, call)
			} else {
				w, err = explainOnline(cmd.Context(), p, &f, call)
			}
			if err != nil {
				return err
			}
			if asJSON(cmd) {
				return printJSON(p.out, w)
			}
			return newScreen(p).explained(w)
		},
	}
	f.bind(c)
	c.Flags().BoolVar(&f.attended, "attended", false, "somebody waits for the answer")
	configFlag(c, &file)
	return c
}

func explainOffline(p process, file string, f *callFlags, call gate.Call) (wire.Would, error) {
	g, err := offlineGate(p, file)
	if err != nil {
		return wire.Would{}, err
	}
	e, err := g.Explain(gate.Request{
		Call: call, Mode: f.mode(),
		Requester: gate.Requester{Agent: f.agent, Session: f.session, Person: f.person, Attended: f.attended},
	})
	if err != nil {
		return wire.Would{}, errors.New(gate.PublicText(err))
	}
	w := wire.Would{Verdict: string(e.Verdict), Rung: string(e.Rung), Reason: string(e.Reason), Mode: string(e.Mode)}
	if e.Rule != nil {
		w.Rule = e.Rule.Name
		if e.Verdict == gate.Ask {
			w.Approvers, w.Quorum = approversOf(e.Rule), e.Rule.Quorum.Needed()
		}
	}
	return w, nil
}

func explainOnline(ctx context.Context, p process, f *callFlags, call gate.Call) (wire.Would, error) {
	c, err := connect(p)
	if err != nil {
		return wire.Would{}, err
	}
	e, err := c.Explain(ctx, wire.ExplainRequest{
		Call: wired(call), Mode: string(f.mode()),
		Requester: wire.Requester{Agent: f.agent, Session: f.session, Person: f.person, Attended: &f.attended},
	})
	if err != nil {
		return wire.Would{}, explainRefusal(err)
	}
	return e.Would, nil
}

func approversOf(r *gate.Rule) []string {
	var names []string
	for _, g := range r.Groups {
		names = append(names, g.Name)
	}
	if r.AdmitsRequester {
		names = append(names, gate.RequesterWord)
	}
	return names
}

// explained prints a dry run in words.
func (s screen) explained(w wire.Would) error {
	head, st := "It would be blocked.", red
	switch gate.Verdict(w.Verdict) {
	case gate.Allow:
		head, st = "It would run at once.", green
	case gate.Ask:
		head, st = "It would be held until people approve it.", yellow
	case gate.Block:
	}
	if err := s.line("%s", s.styled(st, head)); err != nil {
		return err
	}
	who := ""
	if w.Quorum > 0 {
		who = fmt.Sprintf("%d of %s", w.Quorum, gate.Clean(strings.Join(w.Approvers, ", ")))
	}
	return s.fields(
		field{"because", because(w), plain}, field{"rule", gate.Clean(w.Rule), plain},
		field{"mode", gate.Clean(w.Mode), plain}, field{"approvers", who, plain},
	)
}

// because says in words why a call would be ruled on as it would.
func because(w wire.Would) string {
	rung := gate.Reason(w.Rung)
	switch {
	case rung == gate.RungUndesignated && w.Rule == "":
		return "no rule matches it"
	case rung == gate.RungUndesignated && w.Reason != "":
		return "its rule denies it"
	case rung == gate.RungUndesignated:
		return "its rule allows it"
	}
	return rungText[rung]
}

var rungText = map[gate.Reason]string{
	gate.RungDisabled: "the gate is disabled",
	gate.RungFloor:    "it is on the deny list, the floor",
	gate.RungOff:      "approvals.mode is off",
	gate.RungMode:     "nobody attends, and unattended calls are denied",
	gate.RungAsk:      "its rule asks",
}
