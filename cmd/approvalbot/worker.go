package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/approvalbot/approvalbot/bot/execute"
	"github.com/approvalbot/approvalbot/gate"
)

// workerFlags are what a worker is told.
type workerFlags struct {
	queues  []string
	command string
	id      string
	atOnce  int
	timeout time.Duration
}

func newWorker(p process) *cobra.Command {
	f := workerFlags{atOnce: 1}
	c := &cobra.Command{
		Use: "worker --queue NAME (--exec CMD | -- PROGRAM [ARG...])", Short: "run approved calls of a queue on this machine",
		Long: `Takes approved calls of one or more queues and runs a program for each, once. A
queue is an executor that the server's config says is run by workers; the API key
has the role worker and lists it.

The program gets the arguments of the call on standard input, the bytes that
people saw, and in its environment:

  APPROVALBOT_ID, APPROVALBOT_ATTEMPT      the approval, and this dispatch of it
  APPROVALBOT_SERVER, _TOOL, _TARGET       what is called
  APPROVALBOT_DIGEST                       of the call
  APPROVALBOT_SESSION_ID, APPROVALBOT_RUN  of the agent, if it said so

Exit code 0 means executed, any other failed; what it printed is the result. With
--exec it runs in a shell: quote the variables, agents chose what is in them.

A call that was started is never started again. If the worker dies meanwhile, people
are asked what became of it. On Ctrl-C nothing new is taken, and what runs has 10
seconds to finish.`,
		Example: "  approvalbot worker --queue batch --exec ./run.sh\n  approvalbot worker --queue deploy --at-once 4 -- /usr/local/bin/deploy --from-approval",
		Args:    cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			program, err := f.program(args)
			if err != nil {
				return err
			}
			return work(cmd.Context(), p, f, program)
		},
	}
	flags := c.Flags()
	flags.StringArrayVar(&f.queues, "queue", nil, "queue to take calls from; may be given more than once")
	flags.StringVar(&f.command, "exec", "", "shell command that runs each call")
	flags.StringVar(&f.id, "id", "", "name of this worker in the audit log; the host's if not given")
	flags.IntVar(&f.atOnce, "at-once", f.atOnce, "calls of each queue to run at the same time")
	flags.DurationVar(&f.timeout, "timeout", 0, "stop a call that takes longer; 15m if not given")
	return c
}

var workerID = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// program is what runs a call. It gets none of the variables that are approvalbot's
// own: the key is among them.
func (f *workerFlags) program(args []string) (*execute.Program, error) {
	switch {
	case len(f.queues) == 0:
		return nil, errors.New("--queue: name the queue to take calls from")
	case f.command != "" && len(args) > 0:
		return nil, errors.New("--exec and a program after -- are both given; keep one")
	case f.command == "" && len(args) == 0:
		return nil, errors.New("say what runs a call: --exec CMD, or -- PROGRAM [ARG...]")
	case f.atOnce < 1 || f.atOnce > 256:
		return nil, errors.New("--at-once: want 1 to 256")
	case f.timeout < 0:
		return nil, errors.New("--timeout: want a time such as 10m")
	}
	argv := args
	if f.command != "" {
		argv = []string{"/bin/sh", "-c", f.command}
	}
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return nil, fmt.Errorf("the program cannot be run: %w", err)
	}
	argv[0] = path
	var env []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "APPROVALBOT_") {
			env = append(env, v)
		}
	}
	return &execute.Program{Argv: argv, Env: env}, nil
}

// claimHeld is how long the server holds a worker that has nothing to do.
const claimHeld = 25 * time.Second

// work runs calls until it is interrupted.
func work(ctx context.Context, p process, f workerFlags, program *execute.Program) error {
	c, err := connect(p)
	if err != nil {
		return err
	}
	gates := &execute.Remote{Client: c, Wait: claimHeld}
	log := newLog(p)
	owner := f.owner()
	if err := admitted(ctx, gates, f.queues, owner); err != nil {
		return err
	}
	log.InfoContext(ctx, "waiting for approved calls", "queues", strings.Join(f.queues, ","), "worker", owner)
	at := make(chan struct{})
	close(at) // a claim waits by itself
	var all sync.WaitGroup
	for _, q := range f.queues {
		r := &execute.Runner{
			Name: q, Owner: owner, Executor: program, Gate: gates, Timeout: f.timeout, AtOnce: f.atOnce, Ready: at, Log: log,
		}
		all.Go(func() { r.Run(ctx) })
	}
	all.Wait()
	return nil
}

// owner is unlike that of any other worker, and of this one's last life.
func (f *workerFlags) owner() string {
	name := f.id
	if name == "" {
		name, _ = os.Hostname()
	}
	name = strings.Trim(workerID.ReplaceAllString(name, "-"), "-")
	return replicaName(name[:min(len(name), 20)])
}

// admitted asks once before waiting, so that a wrong key or queue is an error now and
// not a line in a log for ever.
func admitted(ctx context.Context, gates *execute.Remote, queues []string, owner string) error {
	for _, q := range queues {
		asks := *gates
		asks.Wait = 0
		w, err := asks.Claim(ctx, q, owner, owner, time.Minute)
		if err != nil && gate.KindOf(err) != gate.Unavailable {
			return explainRefusal(err)
		}
		if w != nil {
			_ = asks.Release(ctx, w)
		}
	}
	return nil
}
