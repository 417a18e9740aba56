//go:build linux

package chaos

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"
)

// child is a process of a history. Its methods are for one goroutine.
type child struct {
	role
	t      *testing.T
	cmd    *exec.Cmd
	stdin  io.Closer
	stdout io.Reader
	stderr bytes.Buffer
	done   chan struct{} // closed when it has ended
	err    error         // how, after done
}

// start runs the process. It dies with the thread that started it, which
// therefore waits for it and does nothing else.
func (c *child) start() {
	c.t.Helper()
	program, err := os.Executable()
	if err != nil {
		c.t.Fatal(err)
	}
	env, err := json.Marshal(c.role)
	if err != nil {
		c.t.Fatal(err)
	}
	c.cmd = exec.Command(program)
	c.cmd.Env = append(os.Environ(), roleEnv+"="+string(env), "GOMAXPROCS=2")
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	c.stderr.Reset()
	c.cmd.Stderr = &c.stderr
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		c.t.Fatal(err)
	}
	if c.stdout, err = c.cmd.StdoutPipe(); err != nil {
		c.t.Fatal(err)
	}
	started := make(chan error)
	c.done = make(chan struct{})
	go func() {
		runtime.LockOSThread()
		err := c.cmd.Start()
		started <- err
		if err == nil {
			c.err = c.cmd.Wait()
			close(c.done)
		}
	}()
	if err := <-started; err != nil {
		c.t.Fatal(err)
	}
}

func (c *child) signal(s syscall.Signal) { _ = c.cmd.Process.Signal(s) }

// kill ends the process as kill -9 does.
func (c *child) kill() {
	c.signal(syscall.SIGKILL)
	<-c.done
	c.fell()
}

// rest lets the process finish what it is at, and end.
func (c *child) rest() {
	c.signal(syscall.SIGCONT)
	c.stdin.Close()
	<-c.done
	c.fell()
}

// fell says if the process ended by a mistake of its own.
func (c *child) fell() {
	if c.err != nil && c.cmd.ProcessState.ExitCode() != -1 { // -1: by a signal
		c.t.Errorf("%s: %v\n%s", c.Name, c.err, c.stderr.String())
	}
}

// replace kills the process and starts its next life, whose clock may be wrong.
func (c *child) replace(jump time.Duration) {
	c.kill()
	c.Life++
	c.Jump = jump
	c.start()
}
