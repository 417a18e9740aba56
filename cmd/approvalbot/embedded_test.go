package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/approvalbot/approvalbot/bot/client"
	"github.com/approvalbot/approvalbot/bot/wire"
	"github.com/approvalbot/approvalbot/gate"
	"github.com/approvalbot/approvalbot/store/embedded"
)

// newEmbedded is a home whose store is embedded.
func newEmbedded(t *testing.T) *home {
	t.Helper()
	redisServer(t)
	return newHome(t, oneRule, "store: embedded")
}

func (h *home) data() string { return h.path("approvalbot-data") }

// child is the pid of the server in the data folder; 0 while there is none.
func (h *home) child() int {
	b, _ := os.ReadFile(filepath.Join(h.data(), "server.lock"))
	pid, _ := strconv.Atoi(strings.TrimSpace(string(b)))
	return pid
}

// servers counts the processes that work in the data folder.
func (h *home) servers() (n int) {
	h.t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cwd")
	if err != nil || len(all) == 0 {
		h.t.Skip("no /proc to look at")
	}
	for _, link := range all {
		if dir, err := os.Readlink(link); err == nil && dir == h.data() {
			n++
		}
	}
	return n
}

func (h *home) at(r *replica) *testServer { return &testServer{home: h, url: r.url} }

// approvedCall is a held call that ann has approved, and the token for it.
type approvedCall struct {
	id, token string
	call      wire.Call
}

func (s *testServer) approved() approvedCall {
	s.t.Helper()
	c := wire.Call{Tool: "held", Args: fmt.Appendf(nil, `{"n":%q}`, client.NewAttempt())}
	a := s.hold(c)
	wantCode(s.t, s.as("ann").run(s.t, "approve", a.ID, "--digest", a.Digest), exitOK)
	got, err := s.client("hermes").Get(s.t.Context(), a.ID)
	if err != nil {
		s.t.Fatal(err)
	}
	return approvedCall{a.ID, got.Token, c}
}

// spend is what the agent is told who wants to run an approved call now.
func (s *testServer) spend(a approvedCall) string {
	s.t.Helper()
	got, err := s.client("hermes").Consume(s.t.Context(), a.id, wire.ConsumeRequest{Token: a.token, AttemptID: client.NewAttempt(), Call: a.call})
	if refused, ok := errors.AsType[*client.Error](err); ok {
		return refused.Code
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return got.Verdict
}

// kill kills a server as it is killed when memory runs out.
func (r *replica) kill(t *testing.T) {
	t.Helper()
	if err := r.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = r.cmd.Wait()
}

// TestAKilledServeLosesNothing: what was approved may run, what was spent stays spent,
// and no server is left over.
func TestAKilledServeLosesNothing(t *testing.T) {
	t.Parallel()
	h := newEmbedded(t)
	r := h.spawn()
	s := h.at(r)
	approved, spent := s.approved(), s.approved()
	if got := s.spend(spent); got != "allow" {
		t.Fatalf("told %s", got)
	}
	r.kill(t)

	r = h.spawn()
	if n := h.servers(); n != 1 {
		t.Errorf("%d servers in the data folder, want 1", n)
	}
	s = h.at(r)
	if got := s.spend(spent); got != string(gate.ReasonSpent) {
		t.Errorf("what was spent before is told %s", got)
	}
	if got := s.spend(approved); got != "allow" {
		t.Errorf("what was approved before is told %s", got)
	}
}

// killChild kills the child and keeps it from coming back, until it is let.
func (h *home) killChild() (let func()) {
	h.t.Helper()
	lock, err := os.OpenFile(filepath.Join(h.data(), "server.lock"), os.O_RDWR, 0)
	if err != nil {
		h.t.Fatal(err)
	}
	soon(h.t, "the child is killed", func() bool {
		_ = syscall.Kill(h.child(), syscall.SIGKILL)
		return syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil
	})
	return func() { _ = lock.Close() }
}

func TestAKilledChildComesBack(t *testing.T) {
	t.Parallel()
	h := newEmbedded(t)
	r := h.spawn()
	s := h.at(r)
	approved := s.approved()

	let := h.killChild()
	r.log.await(t, "THE EMBEDDED STORE ENDED")
	attended := true
	c, err := s.client("hermes").Check(t.Context(), wire.CheckRequest{Call: call("held"), Requester: wire.Requester{Attended: &attended}}, 0)
	if err != nil || c.Verdict != "block" || c.Reason != string(gate.ReasonStoreUnavailable) {
		t.Errorf("a held call meanwhile: %+v, %v", c.Answer, err)
	}
	if got := s.spend(approved); got != string(gate.ReasonStoreUnavailable) {
		t.Errorf("an approved call meanwhile is told %s", got)
	}
	free, err := s.client("hermes").Check(t.Context(), wire.CheckRequest{Call: call("free")}, 0)
	if err != nil || free.Verdict != "allow" {
		t.Errorf("a call that nobody gates: %+v, %v", free.Answer, err)
	}
	let()

	r.log.await(t, "the embedded store answers")
	if got := s.spend(approved); got != "allow" {
		t.Errorf("afterwards it is told %s", got)
	}
}

func TestServeEndsItsChild(t *testing.T) {
	t.Parallel()
	h := newEmbedded(t)
	r := h.spawn()
	approved := h.at(r).approved()
	child := h.child()
	ours, err := syscall.Getpgid(r.cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if its, err := syscall.Getpgid(child); err != nil || its == ours {
		t.Errorf("Ctrl-C reaches the child too: group %d (%v)", its, err)
	}
	if err := r.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := r.cmd.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
	if err := syscall.Kill(child, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("the child: %v, want gone", err)
	}
	if r.log.holds("THE EMBEDDED STORE ENDED") {
		t.Error("the child ended before serve was done with it")
	}
	s := h.at(h.spawn())
	if got := s.spend(approved); got != "allow" {
		t.Errorf("after a restart it is told %s", got)
	}
}

func TestOneServeOnOneFolder(t *testing.T) {
	t.Parallel()
	h := newEmbedded(t)
	r := h.spawn()
	config := []string{"--config", h.path("approvalbot.yaml")}
	owned := fmt.Sprintf("another approvalbot (pid %d) uses the data folder %s", r.cmd.Process.Pid, h.data())
	for _, args := range [][]string{{"serve", "--listen", "127.0.0.1:0"}, {"store", "durability", "strict"}} {
		got := shell{}.run(t, append(args, config...)...)
		wantCode(t, got, exitBlock)
		wantText(t, got.err, owned)
	}
	wantCode(t, shell{}.run(t, append([]string{"store", "reset-clock"}, config...)...), exitOK)
	approved := h.at(r).approved()
	if got := h.at(r).spend(approved); got != "allow" {
		t.Errorf("after the commands a call is told %s", got)
	}
}

// TestStoreCommandsRunTheChildForThemselves, and take it along.
func TestStoreCommandsRunTheChildForThemselves(t *testing.T) {
	t.Parallel()
	h := newEmbedded(t)
	config := []string{"--config", h.path("approvalbot.yaml")}
	wantCode(t, shell{}.run(t, append([]string{"store", "durability", "strict"}, config...)...), exitOK)
	wantCode(t, shell{}.run(t, append([]string{"store", "reset-clock"}, config...)...), exitOK)
	if n := h.servers(); n != 0 {
		t.Errorf("%d servers are left", n)
	}
	if level := h.serve().log; !level.holds(`"durability":"strict"`) {
		t.Error("serve does not start with the level that the command stored")
	}
}

func TestServeEmbeddedByTheFlag(t *testing.T) {
	t.Parallel()
	redisServer(t)
	h := newHome(t, oneRule, "store: {redis: {addrs: [\"127.0.0.1:1\"]}}")
	s := h.serve("--store", "embedded")
	for _, want := range []string{`"store":"embedded in ` + h.data(), `"durability":"standard"`} {
		if !s.log.holds(want) {
			t.Errorf("its start line is without %s", want)
		}
	}
	s.stop()
	if code := <-s.done; code != exitOK {
		t.Errorf("exit %d", code)
	}
}

func TestServeEmbeddedWithoutAServerInstalled(t *testing.T) {
	t.Parallel()
	h := newHome(t, oneRule)
	cmd := exec.Command(os.Args[0], "serve", "--store", "embedded", "--config", h.path("approvalbot.yaml"))
	cmd.Env = []string{asProgram + "=1", "PATH=" + t.TempDir()}
	out, err := cmd.CombinedOutput()
	if ended, ok := errors.AsType[*exec.ExitError](err); !ok || ended.ExitCode() != exitBlock {
		t.Errorf("it ended with %v", err)
	}
	wantText(t, string(out), "no redis-server or valkey-server on the PATH; install one", "--store memory")
	if _, err := os.Stat(h.data()); err == nil {
		t.Error("a data folder was made")
	}
}

// TestAStoreThatRefusesTakesItsServerAlong: another key, for one.
func TestAStoreThatRefusesTakesItsServerAlong(t *testing.T) {
	t.Parallel()
	h := newEmbedded(t)
	s := h.serve()
	s.stop()
	<-s.done
	h.write("server.key", newServerKey())
	got := shell{}.run(t, "serve", "--config", h.path("approvalbot.yaml"))
	wantCode(t, got, exitBlock)
	wantText(t, got.err, "belongs to another server key")
	if n := h.servers(); n != 0 {
		t.Errorf("%d servers are left", n)
	}
	server, err := embedded.Start(t.Context(), h.data(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Close(); err != nil {
		t.Error(err)
	}
}
