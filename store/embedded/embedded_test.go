package embedded

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
)

// asOwner makes this test binary a program that owns the data folder it names.
const asOwner = "EMBEDDED_TEST_AS_OWNER_OF"

func TestMain(m *testing.M) {
	logging.Disable()
	if dir := os.Getenv(asOwner); dir != "" {
		ctx := context.Background() //nolint:forbidigo // this is a main
		if _, err := Start(ctx, dir, slog.New(slog.DiscardHandler)); err != nil {
			panic(err)
		}
		fmt.Println("started")
		select {}
	}
	m.Run()
}

// patience is how long a test waits for what must come.
const patience = 30 * time.Second

// needServer skips a test on a machine without one.
func needServer(t *testing.T) {
	t.Helper()
	if _, err := Find(t.Context()); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
}

func start(t *testing.T, dir string) *Server {
	t.Helper()
	needServer(t)
	s, err := Start(t.Context(), dir, slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// do gives the server a command.
func (s *Server) do(t *testing.T, args ...any) (string, error) {
	t.Helper()
	c := s.folder.client()
	defer func() { _ = c.Close() }()
	got, err := c.Do(t.Context(), args...).Result()
	if err != nil {
		return "", err
	}
	return fmt.Sprint(got), nil
}

func (s *Server) mustDo(t *testing.T, args ...any) string {
	t.Helper()
	got, err := s.do(t, args...)
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return got
}

// pid is that of the server that has the folder.
func pid(t *testing.T, dir string) int {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, serverLock))
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func runs(pid int) bool { return syscall.Kill(pid, 0) == nil }

func soon(t *testing.T, what string, is func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); !is(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("not in time: %s", what)
		}
	}
}

func TestServerIsPrivateAndKeepsEachChange(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "not", "there")
	s := start(t, dir)
	for name, want := range map[string]string{"appendonly": "yes", "appendfsync": "always", "maxmemory-policy": "noeviction", "save": "", "port": "0"} {
		c := s.folder.client()
		got := c.ConfigGet(t.Context(), name).Val()
		_ = c.Close()
		if diff := cmp.Diff(map[string]string{name: want}, got); diff != "" {
			t.Error(diff)
		}
	}
	for name, want := range map[string]os.FileMode{".": 0o700, socketFile: 0o700, passwordFile: 0o600} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v; want %v", name, info.Mode(), err, want)
		}
	}
	stranger := redis.NewClient(&redis.Options{Network: "unix", Addr: s.Socket(), MaxRetries: -1})
	defer stranger.Close()
	if err := stranger.Ping(t.Context()).Err(); err == nil || !strings.Contains(err.Error(), "NOAUTH") {
		t.Errorf("without a password: %v", err)
	}
	args, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid(t, dir)))
	if err == nil && bytes.Contains(args, []byte(s.folder.password.Reveal())) {
		t.Error("the password is in the list of processes")
	}
}

func TestCloseEndsTheServerAndTheNextStartFindsAll(t *testing.T) {
	t.Parallel()
	needServer(t)
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	s, err := Start(t.Context(), dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	s.mustDo(t, "SET", "a", "1")
	was := pid(t, dir)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if runs(was) {
		t.Error("the server runs on")
	}
	if _, err := Attach(t.Context(), dir); !errors.Is(err, ErrNotRunning) {
		t.Errorf("Attach = %v, want ErrNotRunning", err)
	}
	if got := start(t, dir).mustDo(t, "GET", "a"); got != "1" {
		t.Errorf("a is %q", got)
	}
}

func TestAKilledServerComesBackWithAll(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	s := start(t, dir)
	for i := range 3 {
		was := pid(t, dir)
		s.mustDo(t, "RPUSH", "list", i)
		if err := syscall.Kill(was, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		soon(t, "another server", func() bool { n := pidIn(dir); return n > 0 && n != was && s.folder.ping(t.Context()) == nil })
		if got := s.mustDo(t, "LLEN", "list"); got != strconv.Itoa(i+1) {
			t.Errorf("%s entries after %d", got, i+1)
		}
	}
}

// pidIn is 0 while it is written.
func pidIn(dir string) int {
	b, _ := os.ReadFile(filepath.Join(dir, serverLock))
	n, _ := strconv.Atoi(strings.TrimSpace(string(b)))
	return n
}

func TestOneOwner(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	s := start(t, dir)
	_, err := Start(t.Context(), dir, slog.New(slog.DiscardHandler))
	if want := fmt.Sprintf("another approvalbot (pid %d) uses the data folder", os.Getpid()); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("a second one: %v, want %s", err, want)
	}
	guest, err := Attach(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	guest.mustDo(t, "SET", "a", "1")
	if err := guest.Close(); err != nil {
		t.Error(err)
	}
	if got := s.mustDo(t, "GET", "a"); got != "1" {
		t.Error("a guest who leaves takes the server with it")
	}
}

// TestAKilledOwnerLeavesNoServer: the system ends it.
func TestAKilledOwnerLeavesNoServer(t *testing.T) {
	t.Parallel()
	needServer(t)
	if runtime.GOOS != "linux" {
		t.Skip("only Linux sees to that")
	}
	dir := filepath.Join(t.TempDir(), "data")
	owner := exec.Command(os.Args[0])
	owner.Env = append(os.Environ(), asOwner+"="+dir)
	out, err := owner.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := owner.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fscanln(out, new(string)); err != nil {
		t.Fatal(err)
	}
	guest, err := Attach(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	guest.mustDo(t, "SET", "a", "1")
	if err := errors.Join(guest.Close(), owner.Process.Kill()); err != nil {
		t.Fatal(err)
	}
	_ = owner.Wait()
	f := folder{path: dir}
	soon(t, "the system ends the server", func() bool {
		lock, _, err := f.lock(serverLock)
		_ = lock.Close()
		return err == nil
	})
	if got := start(t, dir).mustDo(t, "GET", "a"); got != "1" {
		t.Errorf("a is %q", got)
	}
}

// orphan is a server that has outlived its owner.
func orphan(t *testing.T, dir string) *exec.Cmd {
	t.Helper()
	needServer(t)
	f, owner, err := takeFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer owner.Close()
	lock, err := f.alone(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	program, _ := Find(t.Context())
	cmd := exec.Command(program.Path, "-")
	cmd.Dir, cmd.ExtraFiles = dir, []*os.File{lock}
	cmd.Stdin = strings.NewReader(config + "\nrequirepass " + f.password.Reveal() + "\n")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	if err := note(lock, cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
	soon(t, "an orphan", func() bool { return f.ping(t.Context()) == nil })
	c := f.client()
	defer c.Close()
	if err := c.Set(t.Context(), "a", "1", 0).Err(); err != nil {
		t.Fatal(err)
	}
	return cmd
}

func TestAServerThatOutlivedItsOwnerIsEndedFirst(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	cmd := orphan(t, dir)
	s := start(t, dir)
	if err := cmd.Wait(); err != nil {
		t.Errorf("it did not end by itself: %v", err)
	}
	if got := s.mustDo(t, "GET", "a"); got != "1" {
		t.Errorf("a is %q", got)
	}
}

func TestNeverTwoServersOnTheSameFiles(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	cmd := orphan(t, dir)
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil { // it hangs, and so does not end
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	f := folder{path: dir, socket: filepath.Join(dir, socketFile)}
	_, err := f.alone(ctx)
	if want := fmt.Sprintf("kill %d", cmd.Process.Pid); err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("alone = %v, want … %s", err, want)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if got := start(t, dir).mustDo(t, "GET", "a"); got != "1" {
		t.Errorf("a is %q", got)
	}
}

// TestTheServerOutlivesTheThreadThatAskedForIt: the system takes the end of the thread
// that forked it for the end of its parent.
func TestTheServerOutlivesTheThreadThatAskedForIt(t *testing.T) {
	t.Parallel()
	needServer(t)
	dir := filepath.Join(t.TempDir(), "data")
	type started struct {
		s   *Server
		err error
	}
	done := make(chan started)
	go func() {
		runtime.LockOSThread() // and so the thread ends with this function
		s, err := Start(t.Context(), dir, slog.New(slog.DiscardHandler))
		done <- started{s, err}
	}()
	got := <-done
	if got.err != nil {
		t.Fatal(got.err)
	}
	defer got.s.Close()
	was := pid(t, dir)
	for range 20 { // threads come and go, all that are idle
		var all sync.WaitGroup
		together := make(chan struct{})
		for range 32 {
			all.Go(func() { runtime.LockOSThread(); <-together })
		}
		close(together)
		all.Wait()
		got.s.mustDo(t, "PING")
	}
	if is := pid(t, dir); is != was {
		t.Errorf("the server was started again: %d, then %d", was, is)
	}
}

// files are the parts of the append-only file that grow.
func files(t *testing.T, dir string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "appendonlydir", "*.incr.aof"))
	if err != nil || len(found) != 1 {
		t.Fatalf("%v, %v", found, err)
	}
	return found[0]
}

// written is a data folder with ten entries in a list, one by one.
func written(t *testing.T) string {
	t.Helper()
	needServer(t)
	dir := filepath.Join(t.TempDir(), "data")
	s, err := Start(t.Context(), dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		s.mustDo(t, "RPUSH", "list", "entry"+strconv.Itoa(i))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestHalfAChangeAtTheEndIsDropped(t *testing.T) {
	t.Parallel()
	dir := written(t)
	file := files(t, dir)
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(file, info.Size()-5); err != nil {
		t.Fatal(err)
	}
	if got := start(t, dir).mustDo(t, "LLEN", "list"); got != "9" {
		t.Errorf("%s entries, want all but the last", got)
	}
}

func TestDamageElsewhereIsRefused(t *testing.T) {
	t.Parallel()
	dir := written(t)
	file := files(t, dir)
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, bytes.Replace(b, []byte("$6\r\nentry3"), []byte("$x\r\nentry3"), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = Start(t.Context(), dir, slog.New(slog.DiscardHandler))
	if err == nil || !strings.Contains(err.Error(), "Bad file format reading the append only file") {
		t.Errorf("Start = %v", err)
	}
	_, owner, err := takeFolder(dir)
	if err != nil {
		t.Fatalf("after a start that failed: %v", err)
	}
	_ = owner.Close()
}

func TestALongPathIsReachedThroughALink(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), strings.Repeat("long/", 40), "data")
	s := start(t, dir)
	if len(s.Socket()) > longestSocket {
		t.Errorf("a socket of %d bytes", len(s.Socket()))
	}
	guest, err := Attach(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if guest.Socket() == s.Socket() {
		t.Error("both use one link")
	}
	if err := guest.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(guest.folder.link); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its link is left behind: %v", err)
	}
	s.mustDo(t, "PING")
}

func TestStartRefusesAFolder(t *testing.T) {
	t.Parallel()
	needServer(t)
	dir := t.TempDir()
	file, open := filepath.Join(dir, "file"), filepath.Join(dir, "open")
	if err := errors.Join(os.WriteFile(file, nil, 0o600), os.Mkdir(open, 0o700), os.Chmod(open, 0o755)); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct{ dir, want string }{
		"that is a file":            {file, "cannot be made"},
		"below a file":              {filepath.Join(file, "data"), "cannot be made"},
		"that others can look into": {open, "mode 0755); chmod 0700 it"},
	} {
		if _, err := Start(t.Context(), tt.dir, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %s", name, err, tt.want)
		}
	}
	if found, err := os.ReadDir(open); err != nil || len(found) > 0 {
		t.Errorf("in the folder that was refused: %v, %v", found, err)
	}
}

func TestFind(t *testing.T) { // not parallel: it changes the PATH
	says := func(text string) string { return "#!/bin/sh\necho '" + text + "'\n" }
	for _, row := range []struct {
		name     string
		programs map[string]string
		want     string
	}{
		{"nothing is installed", nil, "there is no redis-server or valkey-server on the PATH; install one"},
		{"Redis", map[string]string{"redis-server": says("Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0")}, "redis-server 7.0.15"},
		{"Valkey", map[string]string{"valkey-server": says("Valkey server v=8.0.1 sha=00000000:0")}, "valkey-server 8.0.1"},
		{"both", map[string]string{"redis-server": says("Redis server v=10.2.0"), "valkey-server": says("Valkey server v=8.0.1")}, "redis-server 10.2.0"},
		{"an old Redis and a Valkey", map[string]string{"redis-server": says("Redis server v=6.2.7"), "valkey-server": says("Valkey server v=8.0.1")}, "valkey-server 8.0.1"},
		{"an old Redis", map[string]string{"redis-server": says("Redis server v=6.2.7")}, "is 6.2.7; want 7.0 or later: install one"},
		{"something else", map[string]string{"redis-server": says("hello")}, "does not tell its version (it says something else); want"},
		{"one that does not run", map[string]string{"redis-server": "#!/bin/sh\nexit 1\n"}, "does not tell its version (exit status 1); want"},
	} {
		t.Run(row.name, func(t *testing.T) {
			dir := t.TempDir()
			for name, text := range row.programs {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			t.Setenv("PATH", dir)
			p, err := Find(t.Context())
			got := p.String()
			if err != nil {
				got = err.Error()
			}
			if !strings.Contains(got, row.want) {
				t.Errorf("%s, want %s", got, row.want)
			}
		})
	}
}

func TestStartThatIsGivenUpLeavesNothing(t *testing.T) {
	t.Parallel()
	needServer(t)
	dir := filepath.Join(t.TempDir(), "data")
	f, owner, err := takeFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	_ = owner.Close()
	lock, err := f.alone(t.Context()) // so that no server can start
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(f.file(ownerLock)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := Start(ctx, dir, slog.New(slog.DiscardHandler))
		done <- err
	}()
	soon(t, "it has the folder", func() bool { b, _ := os.ReadFile(f.file(ownerLock)); return len(b) > 0 })
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("Start = %v, want canceled", err)
	}
	_ = lock.Close()
	start(t, dir).mustDo(t, "PING")
}

func TestVoice(t *testing.T) {
	t.Parallel()
	var warned []string
	v := &voice{warn: func(line string) { warned = append(warned, line) }}
	for _, part := range []string{
		"17:C 01 Dec 2026 17:53:50.901 # Configuration loaded\n17:M 01 Dec 2026 17:53:5",
		"0.901 # Server initialized\n17:M 01 Dec 2026 17:53:50.901 * Ready\n",
		"17:M 01 Dec 2026 17:53:50.901 # one\n17:M 01 Dec 2026 17:53:50.901 # two\n\n",
		"17:M 01 Dec 2026 17:53:50.901 # three\nsomething else\nno end",
	} {
		if n, err := v.Write([]byte(part)); n != len(part) || err != nil {
			t.Errorf("Write = %d, %v", n, err)
		}
	}
	if diff := cmp.Diff([]string{"one", "two", "three"}, warned); diff != "" {
		t.Error(diff)
	}
	if got := v.String(); got != ": two / three / something else" {
		t.Errorf("it is kept as %q", got)
	}
	v.forget()
	if got := v.String(); got != "" {
		t.Errorf("what is forgotten is %q", got)
	}
	if _, err := v.Write(bytes.Repeat([]byte("x"), longestLine)); err != nil || len(v.rest) > 0 {
		t.Errorf("%d bytes are kept of a line without an end", len(v.rest))
	}
}
