package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/approvalbot/approvalbot/bot/client"
	"github.com/approvalbot/approvalbot/bot/wire"
	"github.com/approvalbot/approvalbot/gate"
)

func newGrants(p process) *cobra.Command {
	c := group(
		"grants", "list, revoke and confirm standing permissions", newGrantsList(p),
		newGrantMove(p, "revoke", "end a grant at once", (*client.Client).RevokeGrant),
		newGrantMove(p, "confirm", "let a grant count again after the store failed over", (*client.Client).ConfirmGrant),
	)
	c.Example = "  approvalbot grants list\n  approvalbot grants revoke K7TQ2M"
	return c
}

func newGrantsList(p process) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "list standing permissions", Example: "  approvalbot grants list", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := connect(p)
			if err != nil {
				return err
			}
			grants, err := c.Grants(cmd.Context())
			if err != nil {
				return explainRefusal(err)
			}
			if asJSON(cmd) {
				return printJSON(p.out, grants)
			}
			return newScreen(p).grants(grants, time.Now())
		},
	}
}

func (s screen) grants(grants []wire.Grant, now time.Time) error {
	if len(grants) == 0 {
		return s.line("no grants")
	}
	var rows [][]cell
	for i := range grants {
		g := &grants[i]
		uses := fmt.Sprint(g.Uses)
		if g.MaxUses > 0 {
			uses += fmt.Sprintf("/%d", g.MaxUses)
		}
		rows = append(rows, []cell{
			{gate.ShortID(g.ID), bold},
			{gate.Clean(g.Scope), plain},
			{when(moment(g.Expires), now), plain},
			{uses, plain},
			{brief(g.By, 16), plain},
			{brief(g.Requester.Key, 16), plain},
			{covers(g), cyan},
		})
	}
	return s.table([]string{"ID", "SCOPE", "ENDS", "USES", "BY", "FOR", "COVERS"}, rows)
}

func covers(g *wire.Grant) string {
	if g.Target == "" {
		return gate.Visible(g.Tool) + ", exactly one call " + gate.Clean(g.Digest[:min(len(g.Digest), 19)])
	}
	return "any " + gate.Visible(g.Tool) + " on " + gate.Visible(g.Target)
}

// newGrantMove is a command that does something to one grant.
func newGrantMove(p process, use, short string, do func(*client.Client, context.Context, string) error) *cobra.Command {
	return &cobra.Command{
		Use: use + " ID", Short: short, Example: "  approvalbot grants " + use + " K7TQ2M", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := connect(p)
			if err != nil {
				return err
			}
			id, err := resolveGrant(cmd.Context(), c, args[0])
			if err != nil {
				return err
			}
			if err := do(c, cmd.Context(), id); err != nil {
				return explainRefusal(err)
			}
			if asJSON(cmd) {
				return printJSON(p.out, map[string]string{"grant": id, "done": use})
			}
			return newScreen(p).line("%s: done, %s", gate.Clean(id), use)
		},
	}
}

// resolveGrant is resolve for grants, of which there are few.
func resolveGrant(ctx context.Context, c *client.Client, short string) (string, error) {
	grants, err := c.Grants(ctx)
	if err != nil {
		return "", explainRefusal(err)
	}
	var found []string
	for _, g := range grants {
		if gate.Names(short, g.ID) {
			found = append(found, gate.Clean(g.ID))
		}
	}
	switch len(found) {
	case 0:
		return "", fmt.Errorf("no grant is named by %q", gate.Clean(short))
	case 1:
		return found[0], nil
	}
	return "", fmt.Errorf("%q names %d grants; nothing was done. Give more of the id:\n  %s", gate.Clean(short), len(found), strings.Join(found, "\n  "))
}
