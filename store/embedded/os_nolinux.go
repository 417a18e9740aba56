//go:build unix && !linux

package embedded

import "syscall"

func attributes() *syscall.SysProcAttr { return apart() }
