package embedded

import "syscall"

// attributes of the server's process. When the thread that started it ends, it is told
// to end as well: it does not outlive approvalbot. (Elsewhere the next start ends it.)
func attributes() *syscall.SysProcAttr {
	a := apart()
	a.Pdeathsig = syscall.SIGTERM
	return a
}
