package execute_test

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// play is this program as a command that is run, and returns its exit code.
func play(part string) int {
	verb, rest, _ := strings.Cut(part, " ")
	switch verb {
	case "echo":
		echo()
	case "say":
		fmt.Print(rest)
	case "deaf":
		_ = os.Stdin.Close()
		fmt.Print("did not listen")
	case "long":
		fmt.Print(strings.Repeat("x", 1_000_000))
	case "fail":
		fmt.Print("some output")
		fmt.Fprint(os.Stderr, "first\nthe last line\n")
		code, _ := strconv.Atoi(rest)
		return code
	case "grumble":
		fmt.Print("not today")
		return 1
	case "rant":
		fmt.Fprint(os.Stderr, strings.Repeat("no ", 1_000_000))
		return 1
	case "die":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	case "sleep":
		forever()
	case "family":
		family(rest)
	case "mcp":
		return playMCP()
	case "child":
		child(rest)
	}
	return 0
}

func echo() {
	in, _ := io.ReadAll(os.Stdin)
	dir, _ := os.Getwd()
	env := os.Environ()
	slices.Sort(env)
	fmt.Printf("%q\n%s\n%s\n%s", os.Args[1:], dir, strings.Join(env, "\n"), in)
}

// family starts a child that would live for ever.
func family(how string) {
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), "PLAY=child "+how)
	if how != "leave" {
		c.Stdout = os.Stdout
	}
	ready, _ := c.StderrPipe()
	if c.Start() != nil {
		return
	}
	_, _ = ready.Read(make([]byte, 1)) // until it ignores what it is told
	fifo, err := os.OpenFile(os.Getenv("FIFO"), os.O_WRONLY, 0)
	if err != nil {
		return
	}
	fmt.Fprintln(fifo, c.Process.Pid)
	_ = fifo.Close()
	fmt.Print("child")
	if how == "wait" || how == "stubborn" {
		_ = c.Wait()
	}
}

func child(how string) {
	if how == "stubborn" {
		signal.Ignore(syscall.SIGTERM)
	}
	fmt.Fprint(os.Stderr, ".")
	forever()
}

// forever waits for a signal that nobody sends.
func forever() {
	never := make(chan os.Signal, 1)
	signal.Notify(never, syscall.SIGUSR1)
	<-never
}
