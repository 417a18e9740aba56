//go:build unix

package execute

import (
	"os/exec"
	"syscall"
)

// ownGroup lets a command start in a process group of its own.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// killGroup signals all that is in it.
func killGroup(cmd *exec.Cmd, s syscall.Signal) error { return syscall.Kill(-cmd.Process.Pid, s) }
