package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/approvalbot/approvalbot/bot/client"
	"github.com/approvalbot/approvalbot/bot/wire"
	"github.com/approvalbot/approvalbot/gate"
)

func newWait(p process) *cobra.Command {
	var timeout time.Duration
	c := &cobra.Command{
		Use: "wait ID", Short: "wait until people have decided",
		Long:    "Waits until people have decided on an approval, through restarts and outages of\nthe service.\n\n" + exitHelp,
		Example: "  approvalbot wait apr_01JZ3V5YB8Q4T7R2N6WXKD4F9K --timeout 30m", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := connect(p)
			if err != nil {
				return waitFailed(err)
			}
			id, err := resolve(cmd.Context(), c, args[0], known)
			if err != nil {
				return err
			}
			return wait(cmd.Context(), p, c, id, timeout, asJSON(cmd))
		},
	}
	c.Flags().DurationVar(&timeout, "timeout", 0, "give up after this long; 0 never")
	return c
}

// wait stays until people have decided, prints what they said, and fails unless
// it was yes.
func wait(ctx context.Context, p process, c *client.Client, id string, timeout time.Duration, jsonOut bool) error {
	if _, err := c.Get(ctx, id); err != nil { // from here on outages are waited out
		return waitFailed(err)
	}
	waiting, cancel := ctx, context.CancelFunc(func() {})
	if timeout > 0 {
		waiting, cancel = context.WithTimeout(ctx, timeout)
	}
	defer cancel()
	show := newProgress(p.err, p.errTTY, "waiting for people to decide on "+gate.Clean(id))
	a, err := decided(waiting, c, id, show)
	show.end()
	switch {
	case errors.Is(waiting.Err(), context.DeadlineExceeded):
		return &exitError{exitNoDecision, fmt.Errorf("nobody decided within %s; %s stays open", timeout, gate.Clean(id))}
	case ctx.Err() != nil:
		return &exitError{exitNoDecision, fmt.Errorf("interrupted; %s stays open", gate.Clean(id))}
	case err != nil:
		return waitFailed(err)
	}
	return outcome(p, &a, jsonOut)
}

// askAgain is how long a question is left alone before looking for its answer.
const askAgain = 2 * time.Second

// decided waits for the decision. Questions are shown meanwhile.
func decided(ctx context.Context, c *client.Client, id string, show *progress) (wire.ApprovalAnswer, error) {
	shown := 0
	for {
		a, err := c.Wait(ctx, id)
		if err != nil || a.Next != string(gate.NextAnswer) {
			return a, err
		}
		if n := len(a.Questions); n > shown {
			shown = n
			show.say(standing(&a.Approval, a.Reason, time.Now()) + ": approvalbot answer " + a.ID + " TEXT")
		}
		select {
		case <-ctx.Done():
			return a, ctx.Err()
		case <-time.After(askAgain):
		}
	}
}

// outcome prints a decision; its exit code says the same to programs.
func outcome(p process, a *wire.ApprovalAnswer, jsonOut bool) error {
	if jsonOut {
		if err := printJSON(p.out, a); err != nil {
			return err
		}
	} else {
		s := newScreen(p)
		if err := s.line("%s  %s", gate.Clean(a.ID), s.styled(stateStyle(a.State), standing(&a.Approval, a.Reason, time.Now()))); err != nil {
			return err
		}
	}
	if a.State == string(gate.Approved) || a.State == string(gate.Leased) || ranWithoutUs(&a.Approval) {
		return nil
	}
	code := codeOf(a.Reason)
	if staged(&a.Approval) && a.Started != "" { // people agreed; it is the tool that failed
		code = exitBlock
	}
	return &exitError{code, errors.New(gate.Clean(a.AgentText))}
}

// ranWithoutUs reports whether an executor has begun or done what people agreed to: to
// whoever waits for their decision that is yes.
func ranWithoutUs(a *wire.Approval) bool {
	return staged(a) && (a.State == string(gate.Executing) || a.State == string(gate.Executed))
}

// staged reports whether an executor runs the call.
func staged(a *wire.Approval) bool {
	return a.Executor != gate.RequesterRuns && a.Mode == string(gate.Deferred)
}

// progress is one line that shows that something goes on. Where nobody looks it
// is written once.
type progress struct {
	w     io.Writer
	tty   bool
	text  string
	since time.Time
	done  chan struct{}
	idle  chan struct{}
}

func newProgress(w io.Writer, tty bool, text string) *progress {
	s := &progress{w: w, tty: tty, text: text, since: time.Now(), done: make(chan struct{}), idle: make(chan struct{})}
	if !tty {
		fmt.Fprintln(w, text)
		close(s.idle)
		return s
	}
	go s.tick()
	return s
}

func (s *progress) tick() {
	defer close(s.idle)
	t := time.NewTicker(time.Second)
	defer t.Stop()
	for {
		fmt.Fprintf(s.w, "\r\x1b[K%s  %s", s.text, time.Since(s.since).Round(time.Second))
		select {
		case <-t.C:
		case <-s.done:
			fmt.Fprint(s.w, "\r\x1b[K")
			return
		}
	}
}

// say writes a line of its own above the progress.
func (s *progress) say(text string) {
	if s.tty {
		text = "\r\x1b[K" + text
	}
	fmt.Fprintln(s.w, text)
}

// end takes the line away.
func (s *progress) end() {
	close(s.done)
	<-s.idle
}
