package embedded

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"time"
)

//go:embed redis.conf
var config string

// keep runs the server, again and again, until ctx ends. If the first one never
// answered it gives up: what is wrong with that is for whoever starts approvalbot.
func (s *Server) keep(ctx context.Context) {
	runtime.LockOSThread() // see attributes
	defer close(s.ended)
	for pause := leastPause; ; pause = min(2*pause, mostPause) {
		began := time.Now()
		s.err = s.live(ctx)
		if ctx.Err() != nil || !s.hasAnswered() {
			return
		}
		if time.Since(began) > livedLong {
			pause = leastPause
		}
		s.log.ErrorContext(ctx, "THE EMBEDDED STORE ENDED: held calls are refused until it is back", "err", s.err, "again_in", pause.String())
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// stopFor is how long a server may take to end before it is killed. All is on its disk
// already.
const stopFor = 10 * time.Second

// live runs the server for one life, and says why that ended.
func (s *Server) live(ctx context.Context) error {
	alone, err := s.folder.alone(ctx)
	if err != nil {
		return err
	}
	defer alone.Close() // the server has its copy by then
	said := &voice{warn: func(line string) { s.pass(ctx, line) }}
	cmd := exec.CommandContext(ctx, s.program.Path, "-") //nolint:gosec // it is on the operator's PATH
	cmd.Dir, cmd.SysProcAttr = s.folder.path, attributes()
	cmd.Stdin = strings.NewReader(config + "\nrequirepass " + s.folder.password.Reveal() + "\n")
	cmd.Stdout, cmd.Stderr = said, said
	cmd.ExtraFiles = []*os.File{alone}
	cmd.Cancel, cmd.WaitDelay = func() error { return terminate(cmd.Process) }, stopFor
	if err := cmd.Start(); err != nil {
		return err
	}
	if err := errors.Join(note(alone, cmd.Process.Pid), alone.Close()); err != nil {
		s.log.WarnContext(ctx, "the pid of the embedded store is not noted", "err", err)
	}
	watched, done := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() {
		if s.answers(watched) {
			said.forget()
			s.log.InfoContext(ctx, "the embedded store answers", "program", s.program.String(), "pid", cmd.Process.Pid, "dir", s.folder.path)
		}
	})
	err = cmd.Wait()
	done()
	watch.Wait()
	return fmt.Errorf("%s ended (%w)%s", s.program, orNoReason(err), said)
}

// pass puts a warning of the server into the log. That it ends is none when it is told to.
func (s *Server) pass(ctx context.Context, line string) {
	if ctx.Err() == nil {
		s.log.WarnContext(ctx, "the embedded store says", "line", line)
	}
}

var errNoReason = errors.New("by itself")

func orNoReason(err error) error {
	if err == nil {
		return errNoReason
	}
	return err
}

// answers waits until the server does, and reports whether it did.
func (s *Server) answers(ctx context.Context) bool {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for s.folder.ping(ctx) != nil {
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
	}
	if !s.hasAnswered() {
		close(s.ready)
	}
	return true
}

func (s *Server) hasAnswered() bool {
	select {
	case <-s.ready:
		return true
	default:
		return false
	}
}
