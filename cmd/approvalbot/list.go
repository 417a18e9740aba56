package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/approvalbot/approvalbot/bot/client"
	"github.com/approvalbot/approvalbot/gate"
)

func newPending(p process) *cobra.Command {
	q := client.Query{State: string(gate.Pending), Limit: 50}
	c := &cobra.Command{
		Use: "pending", Short: "list what waits for people, most urgent first",
		Example: "  approvalbot pending\n  approvalbot pending --rule prod-kubectl --limit 200 -o json", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := connect(p)
			if err != nil {
				return err
			}
			page, err := c.List(cmd.Context(), q)
			if err != nil {
				return explainRefusal(err)
			}
			if asJSON(cmd) {
				return printJSON(p.out, page)
			}
			return newScreen(p).pendingPage(page, time.Now())
		},
	}
	f := c.Flags()
	f.StringVar(&q.Rule, "rule", "", "only of this rule")
	f.StringVar(&q.Tool, "tool", "", "only of this tool")
	f.StringVar(&q.Requester, "requester", "", "only of the API key of this name; an agent may list its own")
	f.IntVar(&q.Limit, "limit", q.Limit, "how many, at most 200")
	return c
}

// known are the states in which a short id is looked for by those who only look.
var known = []gate.State{""}

func newShow(p process) *cobra.Command {
	return &cobra.Command{
		Use: "show ID", Short: "show one approval, with its exact arguments",
		Example: "  approvalbot show 4F9K2M\n  approvalbot show apr_01JZ3V5YB8Q4T7R2N6WXKD4F9K -o json", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return show(cmd.Context(), p, args[0], asJSON(cmd)) },
	}
}

func show(ctx context.Context, p process, short string, jsonOut bool) error {
	c, err := connect(p)
	if err != nil {
		return err
	}
	id, err := resolve(ctx, c, short, known)
	if err != nil {
		return err
	}
	a, err := c.Get(ctx, id)
	if err != nil {
		return explainRefusal(err)
	}
	if jsonOut {
		return printJSON(p.out, a)
	}
	return newScreen(p).approval(&a.Approval, a.Reason, time.Now())
}
