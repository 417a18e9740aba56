package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/approvalbot/approvalbot/bot/client"
	"github.com/approvalbot/approvalbot/bot/console"
	"github.com/approvalbot/approvalbot/bot/wire"
	"github.com/approvalbot/approvalbot/gate"
	"github.com/approvalbot/approvalbot/gate/secret"
)

// play is the demo's agent: it makes four calls as a real agent would, over HTTP
// and with a key of its own, and says in plain words what becomes of each.
type play struct {
	screen
	tty   bool // progress may overwrite its line
	agent *client.Client
	you   *client.Client // approves by itself; nil: somebody does in the browser
	base  string
	link  *console.DemoLink
}

// margin is where everything about a call begins.
const margin = "        "

// The four calls.
var (
	readCalendar = wire.Call{Tool: "calendar_list", Args: json.RawMessage(`{"day":"today"}`)}
	deletePod    = wire.Call{Server: "k8s-eu", Tool: "kubectl_delete", Target: "pod/web-7f9c", Args: json.RawMessage(`{"namespace":"prod","kind":"pod","name":"web-7f9c"}`)}
	sendEmail    = wire.Call{Tool: "send_email", Target: "customers@example.com", Args: json.RawMessage(`{"subject":"Maintenance tonight","body":"We restart the web tier at 02:00 UTC."}`)}
	dropTable    = wire.Call{Tool: "db_drop_table", Target: "orders", Args: json.RawMessage(`{"table":"orders","cascade":true}`)}
)

func newPlay(p process, base string, keys map[string]secret.String, link *console.DemoLink) (*play, error) {
	d := &play{screen: newScreen(p), tty: p.outTTY, base: base, link: link}
	var err error
	if d.agent, err = client.New(base, keys[demoAgent]); err != nil || link != nil {
		return d, err
	}
	d.you, err = client.New(base, keys[demoApprover])
	return d, err
}

func (d *play) run(ctx context.Context) error {
	if err := d.welcome(); err != nil {
		return err
	}
	for _, act := range []func(context.Context) error{d.free, d.held, d.staged} {
		if err := act(ctx); err != nil {
			return err
		}
	}
	if d.you != nil {
		return d.line("\nThat was all: four calls, two approvals, each run once.")
	}
	if err := d.line("\nThat was all. The console stays open until you press Ctrl-C.\nNext: approvalbot config example > approvalbot.yaml"); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// welcome fits the link, which is long, on one line of 80 columns.
func (d *play) welcome() error {
	first, what := "The demo decides by itself, on "+d.base, "A demo agent makes four calls."
	if d.you == nil {
		first, what = d.styled(bold, "Open ")+d.link.URL(d.base), "There you approve or deny what a demo agent asks for."
	}
	return d.line("%s\n%s\nState is in memory, so nothing survives. Ctrl-C ends the demo.", first, what)
}

// free is the call that nobody gates.
func (d *play) free(ctx context.Context) error {
	r, err := d.ask(ctx, "1 of 4", readCalendar, true)
	if err != nil || r.Verdict != string(gate.Allow) {
		return unexpected(r, err)
	}
	return d.tell(green, "Ran at once. No rule names this tool, so nobody was asked.")
}

// held is the call that its agent waits for.
func (d *play) held(ctx context.Context) error {
	r, err := d.ask(ctx, "2 of 4", deletePod, true)
	if err != nil || r.Approval == nil {
		return unexpected(r, err)
	}
	if err := d.tell(yellow, "Held by rule %s. The agent waits for the answer.", r.Approval.Rule); err != nil {
		return err
	}
	return d.settle(ctx, r.Approval.ID, deletePod)
}

// staged is the call that its agent does not wait for. Meanwhile it tries one
// that policy never allows.
func (d *play) staged(ctx context.Context) error {
	r, err := d.ask(ctx, "3 of 4", sendEmail, false)
	if err != nil || r.Approval == nil {
		return unexpected(r, err)
	}
	if err := d.tell(yellow, "Staged by rule %s. The agent does not wait; it goes on with other work.", r.Approval.Rule); err != nil {
		return err
	}
	if err := d.floor(ctx); err != nil {
		return err
	}
	if err := d.heading("3 again", sendEmail); err != nil {
		return err
	}
	return d.settle(ctx, r.Approval.ID, sendEmail)
}

// floor is the call that nobody can approve.
func (d *play) floor(ctx context.Context) error {
	r, err := d.ask(ctx, "4 of 4", dropTable, true)
	if err != nil || r.Reason != string(gate.ReasonFloorDenied) {
		return unexpected(r, err)
	}
	return d.tell(red, "Blocked. It is on the deny list: nobody was asked, and nobody can approve it.")
}

func (d *play) ask(ctx context.Context, number string, c wire.Call, attended bool) (wire.CheckAnswer, error) {
	if err := d.heading(number, c); err != nil {
		return wire.CheckAnswer{}, err
	}
	return d.agent.Check(ctx, wire.CheckRequest{
		Call: c, Intent: "part of the demo",
		Requester: wire.Requester{Agent: demoAgent, Session: "demo", Attended: &attended},
	}, 0)
}

// settle waits until people have decided, and runs the call if they said yes.
func (d *play) settle(ctx context.Context, id string, c wire.Call) error {
	a, err := d.decision(ctx, id)
	if err != nil {
		return err
	}
	if a.Next != string(gate.NextConsume) {
		return d.tell(red, "%s. It did not run.\nThe agent is told: %s", standing(&a.Approval, a.Reason, time.Now()), gate.Clean(a.AgentText))
	}
	if err := d.tell(green, "Approved by %s.", gate.Clean(a.By)); err != nil {
		return err
	}
	return d.runOnce(ctx, &a, c)
}

// decision waits as an agent does, on the line. Who presses does so meanwhile.
func (d *play) decision(ctx context.Context, id string) (a wire.ApprovalAnswer, err error) {
	text := margin + "waiting for you to decide in the browser"
	group, ctx := errgroup.WithContext(ctx)
	if d.you != nil {
		text = margin + "waiting for the demo to decide by itself"
		group.Go(func() error { return d.press(ctx, id) })
	}
	show := newProgress(d.out, d.tty, text)
	defer show.end()
	group.Go(func() (err error) {
		a, err = decided(ctx, d.agent, id, show)
		return err
	})
	err = group.Wait()
	return a, err
}

// press approves as a person would: it looks at the call, and decides on that.
func (d *play) press(ctx context.Context, id string) error {
	seen, err := d.you.Get(ctx, id)
	if err != nil {
		return err
	}
	_, err = d.you.Decide(ctx, id, wire.DecideRequest{Decision: string(gate.Approve), Digest: seen.Digest})
	return err
}

// runOnce spends the token, runs the call, reports, and shows that the token is
// worth nothing any more.
func (d *play) runOnce(ctx context.Context, a *wire.ApprovalAnswer, c wire.Call) error {
	spend := wire.ConsumeRequest{Token: a.Token, AttemptID: client.NewAttempt(), Call: c}
	yes, err := d.agent.Consume(ctx, a.ID, spend)
	if err != nil || yes.Verdict != string(gate.Allow) {
		return unexpected(yes, err)
	}
	done := wire.OutcomeRequest{Outcome: string(gate.Executed), Token: a.Token, AttemptID: spend.AttemptID}
	if _, err := d.agent.Report(ctx, a.ID, done); err != nil {
		return err
	}
	if err := d.tell(green, "The agent spent its token, and exactly this call ran, once."); err != nil {
		return err
	}
	spend.AttemptID = client.NewAttempt()
	again, err := d.agent.Consume(ctx, a.ID, spend)
	refused, ok := errors.AsType[*client.Error](err)
	if !ok || refused.Code != string(gate.ReasonSpent) {
		return unexpected(again, err)
	}
	return d.tell(plain, "It tried the same token again: refused (%s).", gate.Clean(refused.Code))
}

// unexpected ends the demo: what it shows would not be true.
func unexpected(r wire.CheckAnswer, err error) error {
	if err != nil {
		return err
	}
	return fmt.Errorf("unexpected answer: %s, %s", gate.Clean(r.Verdict), gate.Clean(r.Reason))
}

func (d *play) heading(number string, c wire.Call) error {
	on := ""
	if c.Target != "" {
		on = " on " + c.Target
	}
	summary, _ := gate.Summary(c.Args)
	if err := d.line("\n%-8s%s", number, d.styled(bold, c.Tool+on)); err != nil {
		return err
	}
	return d.tell(dim, "%s", summary)
}

// tell prints a sentence below a heading.
func (d *play) tell(st style, format string, args ...any) error {
	text := wrap(fmt.Sprintf(format, args...), max(d.width-len(margin), 0))
	return d.line("%s%s", margin, d.styled(st, strings.ReplaceAll(text, "\n", "\n"+margin)))
}
