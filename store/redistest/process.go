//go:build unix

package redistest

import (
	"os/exec"
	"runtime"
	"syscall"
)

// process is a running program.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
	err  error         // how, after done
}

// start runs a program that dies with this process. On Linux that holds for the
// thread that started it, so that thread waits for it and does nothing else.
func start(line []string) (*process, error) {
	p := &process{cmd: exec.Command(line[0], line[1:]...), done: make(chan struct{})}
	diesWithUs(p.cmd)
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			p.err = p.cmd.Wait()
			close(p.done)
		}
	}()
	return p, <-started
}

// signal sends signals in turn; one that has ended gets none.
func (p *process) signal(all ...syscall.Signal) {
	for _, sig := range all {
		_ = p.cmd.Process.Signal(sig)
	}
}

func (p *process) wait() error {
	<-p.done
	return p.err
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}
