package execute

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// lastWords is how long a program has to stop when it is asked to.
const lastWords = 2 * time.Second

// maxErrors is how many bytes of the end of standard error are kept.
const maxErrors = 4 << 10

// process is a program that is ready to go.
type process struct {
	argv, env []string
	dir       string
	in        []byte
	most      int // bytes of output
}

// Drop implements Dispatch: there is nothing yet.
func (*process) Drop() {}

// Run implements Dispatch.
func (p *process) Run(ctx context.Context) Result {
	start := time.Now()
	out, errs := &head{most: p.most}, &tail{most: maxErrors}
	cmd, stopped := program(ctx, p.argv)
	cmd.Env, cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = p.env, p.dir, bytes.NewReader(p.in), out, errs
	if err := cmd.Start(); err != nil {
		return failed("not started: " + reason(ctx, err))
	}
	err := cmd.Wait()
	_ = killGroup(cmd, syscall.SIGKILL) // what it has left behind
	return ended(ctx, cmd, err, stopped.Load(), time.Since(start), out, errs)
}

// program makes a command in a process group of its own. When ctx ends, the group
// is asked to stop, and is killed lastWords later. stopped says that this happened.
func program(ctx context.Context, argv []string) (cmd *exec.Cmd, stopped *atomic.Bool) {
	stopped = new(atomic.Bool)
	cmd = exec.CommandContext(ctx, argv[0], argv[1:]...) //nolint:gosec // which program is the operator's to say, and there is no shell
	ownGroup(cmd)
	cmd.WaitDelay = lastWords
	cmd.Cancel = func() error {
		stopped.Store(true)
		return killGroup(cmd, syscall.SIGTERM)
	}
	return cmd, stopped
}

// ended says how a program ended.
func ended(ctx context.Context, cmd *exec.Cmd, err error, stopped bool, took time.Duration, out *head, errs *tail) Result {
	_, exited := errors.AsType[*exec.ExitError](err)
	status, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
	switch {
	case stopped:
		return unknown(fmt.Sprintf("stopped after %s, because %s", took.Round(time.Second), reason(ctx, err)))
	case status.Signaled():
		return unknown("killed: " + status.Signal().String())
	case cmd.ProcessState.Success():
		return executed(out.String())
	case exited:
		return failed(strings.TrimSpace(fmt.Sprintf("exit code %d\n%s", cmd.ProcessState.ExitCode(), errs.or(out))))
	}
	return unknown(err.Error())
}

// head keeps the beginning of what is written, and counts the rest.
type head struct {
	most int
	kept []byte
	more int
}

func (h *head) Write(p []byte) (int, error) {
	n := min(len(p), h.most-len(h.kept))
	h.kept = append(h.kept, p[:n]...)
	h.more += len(p) - n
	return len(p), nil
}

func (h *head) String() string {
	if h.more > 0 {
		return fmt.Sprintf("%s\n[%d more bytes]", h.kept, h.more)
	}
	return strings.TrimSpace(string(h.kept))
}

// tail keeps the end of what is written: errors come last.
type tail struct {
	most int
	kept []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.kept = append(t.kept, p[max(0, len(p)-t.most):]...)
	t.kept = t.kept[max(0, len(t.kept)-t.most):]
	return len(p), nil
}

// or returns what was kept, or output if nothing was.
func (t *tail) or(output *head) string {
	if text := strings.TrimSpace(string(t.kept)); text != "" {
		return text
	}
	return output.String()
}

// bury waits until a program that was told to go has gone, and kills it if it does not.
func bury(cmd *exec.Cmd, kill func()) {
	late := time.AfterFunc(lastWords, kill)
	_ = cmd.Wait()
	late.Stop()
	kill()
	_ = killGroup(cmd, syscall.SIGKILL)
}
