// Command approvalbot holds tool calls of agents until people agree to them.
//
// Package main is the command line, the config file's way into the parts, and
// the wiring: wire.go is the only place that names concrete parts.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/term"
)

func main() {
	quietLibraries()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, process{
		args: os.Args[1:], env: os.Getenv,
		in: os.Stdin, out: os.Stdout, err: os.Stderr,
		inTTY: isTTY(os.Stdin), outTTY: isTTY(os.Stdout), errTTY: isTTY(os.Stderr),
	})
	stop()
	os.Exit(code)
}

func isTTY(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// process is what the operating system gives a program; tests pass their own.
type process struct {
	args     []string
	env      func(string) string
	in       io.Reader
	out, err io.Writer

	inTTY, outTTY, errTTY bool // a person is there
}

// Exit codes. Failures are 2, also a mistyped command: agent harnesses read 2
// from a hook as "do not run the call" and may go on after any other code, so a
// typo in a hook's settings must not open the gate. (A Go panic exits 2 too.)
// Only what waits for people tells more, in the codes of sysexits.h.
const (
	exitOK          = 0
	exitBlock       = 2
	exitUnreachable = 69 // the service, or its store
	exitInternal    = 70
	exitNoDecision  = 75 // expired, withdrawn, or nobody decided in time
	exitDenied      = 77
	exitConfig      = 78 // no address or key, or a key that the service does not take
)

// exitError ends the process with a code of its own.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

// run is main without the process around it.
func run(ctx context.Context, p process) int {
	root := newRoot(p) //nolint:contextcheck // cobra hands it on
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	var exit *exitError
	if !errors.As(err, &exit) {
		exit = &exitError{exitBlock, err}
	}
	if text := exit.Error(); text != "" {
		fmt.Fprintf(p.err, "%s: %s\n", cmd.CommandPath(), text)
	}
	return exit.code
}
