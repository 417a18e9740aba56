package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/approvalbot/approvalbot/bot/wire"
	"github.com/approvalbot/approvalbot/gate"
)

// decision is what a person says to one approval.
type decision struct {
	choice gate.Choice
	id     string
	digest string // of the call that was looked at elsewhere; empty: look at it here
	scope  string
	reason string
}

func newApprove(p process) *cobra.Command {
	d := decision{choice: gate.Approve}
	c := &cobra.Command{
		Use: "approve ID", Short: "approve a call, after looking at it",
		Long: `Shows the call and asks. Where nobody can answer, --digest says which call was
looked at; if it is not the stored one, nothing is decided. An id may be cut to its
end or beginning as long as it names one approval that waits.`,
		Example: "  approvalbot approve 4F9K2M\n  approvalbot approve apr_01JZ3V5YB8Q4T7R2N6WXKD4F9K --digest sha256:… --scope session",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			d.id = args[0]
			return decide(cmd.Context(), p, d, asJSON(cmd))
		},
	}
	c.Flags().StringVar(&d.digest, "digest", "", "of the call you looked at, sha256:…; then nobody is asked")
	c.Flags().StringVar(&d.scope, "scope", "", "once, session or always, as far as the rule allows")
	return c
}

func newDeny(p process) *cobra.Command {
	d := decision{choice: gate.Deny}
	c := &cobra.Command{
		Use: "deny ID", Short: "deny a call, or take back one that was approved and has not run",
		Example: "  approvalbot deny 4F9K2M --reason \"wrong cluster\"", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			d.id = args[0]
			return decide(cmd.Context(), p, d, asJSON(cmd))
		},
	}
	c.Flags().StringVar(&d.reason, "reason", "", "why; it reaches the agent word for word")
	c.Flags().StringVar(&d.digest, "digest", "", "of the call you looked at, sha256:…; if it is another, nothing is decided")
	return c
}

func decide(ctx context.Context, p process, d decision, jsonOut bool) error {
	c, err := connect(p)
	if err != nil {
		return err
	}
	id, err := resolve(ctx, c, d.id, decidable(d.choice))
	if err != nil {
		return err
	}
	a, err := c.Get(ctx, id)
	if err != nil {
		return explainRefusal(err)
	}
	digest, err := d.seen(p, &a)
	if err != nil {
		return err
	}
	done, err := c.Decide(ctx, id, wire.DecideRequest{
		Decision: string(d.choice), Reason: d.reason, Scope: d.scope, Digest: digest,
	})
	if err != nil {
		return explainRefusal(err)
	}
	if jsonOut {
		return printJSON(p.out, done)
	}
	return newScreen(p).decided(&done)
}

// decidable says in which states a short id is looked for.
func decidable(c gate.Choice) []gate.State {
	if c == gate.Deny {
		return []gate.State{gate.Pending, gate.Approved}
	}
	return []gate.State{gate.Pending}
}

// seen returns the digest that the decision is about: a decision is always on
// something that was seen. A denial lets nothing run, so it needs no look.
func (d decision) seen(p process, a *wire.ApprovalAnswer) (string, error) {
	switch {
	case d.digest != "":
		want, err := gate.ParseDigest(d.digest)
		if err != nil {
			return "", errors.New(gate.PublicText(err))
		}
		if want.String() != a.Digest {
			return "", fmt.Errorf("%s holds another call, %s; nothing was decided", a.ID, gate.Clean(a.Digest))
		}
	case d.choice == gate.Deny:
	case !p.inTTY:
		return "", errors.New("nobody is at the terminal to look at the call; say with --digest which one was looked at")
	default:
		return a.Digest, d.confirm(p, a)
	}
	return a.Digest, nil
}

// confirm shows the call and asks, on standard error: standard output is for the
// answer.
func (d decision) confirm(p process, a *wire.ApprovalAnswer) error {
	onErr := p
	onErr.out, onErr.outTTY = p.err, p.errTTY
	s := newScreen(onErr)
	if err := s.approval(&a.Approval, a.Reason, time.Now()); err != nil {
		return err
	}
	fmt.Fprintf(s.out, "\nApprove %s? [y/N] ", s.styled(bold, d.extent(&a.Call)))
	line, _ := bufio.NewReader(p.in).ReadString('\n')
	if answer := strings.ToLower(strings.TrimSpace(line)); answer != "y" && answer != "yes" {
		return errors.New("nothing was decided")
	}
	return nil
}

// extent says how far the approval would reach.
func (d decision) extent(c *wire.ShownCall) string {
	subject := gate.Subject{Call: gate.Call{Tool: gate.Visible(c.Tool), Target: gate.Visible(c.Target)}}
	switch gate.Scope(d.scope) {
	case gate.Session:
		return "this call, and " + subject.Covers() + " until the session ends"
	case gate.Always:
		return "this call, and " + subject.Covers() + " from now on"
	case gate.Once:
	}
	return "exactly this call, once"
}

func (s screen) decided(d *wire.DecideAnswer) error {
	line := "Recorded. " + standing(&d.Approval, d.Reason, time.Now())
	if d.Granted != "" && d.Granted != string(gate.Once) {
		line += "; granted for " + gate.Clean(d.Granted)
	}
	if d.SessionEnded {
		line += "; the session is over, so it is for once only"
	}
	return s.line("%s", s.styled(stateStyle(d.State), line))
}

func newAnswer(p process) *cobra.Command {
	return &cobra.Command{
		Use: "answer ID TEXT", Short: "answer an approver's question about your call",
		Example: "  approvalbot answer 4F9K2M \"the pod is stuck in CrashLoopBackOff since 02:10\"", Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := connect(p)
			if err != nil {
				return err
			}
			id, err := resolve(cmd.Context(), c, args[0], []gate.State{gate.Pending})
			if err != nil {
				return err
			}
			a, err := c.Answer(cmd.Context(), id, args[1])
			if err != nil {
				return explainRefusal(err)
			}
			if asJSON(cmd) {
				return printJSON(p.out, a)
			}
			return newScreen(p).line("Answered. %s", standing(&a.Approval, a.Reason, time.Now()))
		},
	}
}
