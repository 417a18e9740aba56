//go:build !unix

package execute

import (
	"os/exec"
	"syscall"
)

// Where there are no process groups, what a command has started may outlive it.
func ownGroup(*exec.Cmd) {}

func killGroup(cmd *exec.Cmd, _ syscall.Signal) error { return cmd.Process.Kill() }
