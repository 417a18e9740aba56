//go:build unix

package embedded

import (
	"errors"
	"os"
	"syscall"
)

var errLocked = errors.New("locked")

// flock locks a file at once, or says errLocked.
func flock(file *os.File) error {
	err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return errLocked
	}
	return err
}

// apart puts the server into a group of processes of its own: Ctrl-C on a terminal is
// for approvalbot, which needs the server until its last request is answered.
func apart() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func terminate(p *os.Process) error { return p.Signal(syscall.SIGTERM) }
