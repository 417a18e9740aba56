//go:build !unix

package embedded

import (
	"errors"
	"os"
	"syscall"
)

var errLocked = errors.New("locked")

func flock(*os.File) error {
	return errors.New("there is no embedded store on this system; name a Redis in the config file")
}

func attributes() *syscall.SysProcAttr { return nil }

func terminate(p *os.Process) error { return p.Kill() }
