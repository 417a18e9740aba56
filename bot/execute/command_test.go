package execute_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/approvalbot/approvalbot/bot/execute"
	"github.com/approvalbot/approvalbot/gate"
)

// TestMain lets this program be what commands run: with PLAY set it does as told.
func TestMain(m *testing.M) {
	if part, ok := os.LookupEnv("PLAY"); ok {
		os.Exit(play(part)) //nolint:forbidigo // this is a main
	}
	m.Run()
}

// command runs this program as a part of the play, with these arguments.
func command(t testing.TB, part string, argv ...string) *execute.Command {
	t.Helper()
	return commandOf(t, execute.CommandConfig{Argv: append([]string{self(t)}, argv...), SetEnv: map[string]string{"PLAY": part}})
}

func commandOf(t testing.TB, c execute.CommandConfig) *execute.Command {
	t.Helper()
	cmd, err := execute.NewCommand(c)
	if err != nil {
		t.Fatal(err)
	}
	return cmd
}

func self(t testing.TB) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func TestWhatACommandIsTold(t *testing.T) {
	t.Setenv("PASSED_ON", "yes")
	t.Setenv("KEPT_BACK", "secret")
	j := job(t)
	dir := t.TempDir()
	c := commandOf(t, execute.CommandConfig{
		Argv: []string{
			self(t), "--tool", "{tool}", "{server}", "{target}", "{id}", "{attempt}", "{digest}",
			"{args.path}", "{args.n}", "{args.deep.on}", "$HOME", "a b", "*",
		},
		Dir: dir, Env: []string{"PASSED_ON", "NOT_THERE"}, SetEnv: map[string]string{"PLAY": "echo", "SET": "a=b"},
	})
	got := run(soon(t), t, c, j)
	wants(t, got, gate.Executed, "")
	want := strings.Join([]string{
		fmt.Sprintf("%q", []string{
			"--tool", "delete_file", "files", "prod", string(j.ID), j.Attempt, j.Digest.String(),
			"/tmp/<a>&b", "1.0", "true", "$HOME", "a b", "*",
		}),
		dir,
		"APPROVALBOT_ATTEMPT=" + j.Attempt,
		"APPROVALBOT_DIGEST=" + j.Digest.String(),
		"APPROVALBOT_ID=" + string(j.ID),
		"APPROVALBOT_SERVER=files",
		"APPROVALBOT_TARGET=prod",
		"APPROVALBOT_TOOL=delete_file",
		"PASSED_ON=yes",
		"PATH=/usr/local/bin:/usr/bin:/bin",
		"PLAY=echo",
		"SET=a=b",
		args,
	}, "\n")
	if got.Text != want {
		t.Errorf("it was told\n%s\nwant\n%s", got.Text, want)
	}
}

func TestHowACommandEnds(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		part    string
		outcome gate.State
		text    string
	}{
		"well":                                 {"say done", gate.Executed, "done"},
		"well, without a word":                 {"say", gate.Executed, ""},
		"well, and reads nothing":              {"deaf", gate.Executed, "did not listen"},
		"well, and says too much":              {"long", gate.Executed, "\n[935488 more bytes]"},
		"badly":                                {"fail 3", gate.Failed, "exit code 3\nfirst\nthe last line"},
		"badly, and said it on the wrong pipe": {"grumble", gate.Failed, "exit code 1\nnot today"},
		"badly, and said very much":            {"rant", gate.Failed, "exit code 1\n"},
		"killed by somebody":                   {"die", "", "it may have taken effect: killed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wants(t, run(soon(t), t, command(t, tt.part), job(t)), tt.outcome, tt.text)
		})
	}
}

func TestOutputIsBounded(t *testing.T) {
	t.Parallel()
	c := commandOf(t, execute.CommandConfig{Argv: []string{self(t)}, SetEnv: map[string]string{"PLAY": "say 0123456789"}, MaxOutput: 4})
	wants(t, run(soon(t), t, c, job(t)), gate.Executed, "0123\n[6 more bytes]")
}

// What a command has started goes with it, also if it does not want to.
func TestNothingOutlivesACommand(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		part    string
		stop    bool // while it runs
		outcome gate.State
		text    string
	}{
		"that is over": {"family leave", false, gate.Executed, "child"},
		"that is over, with a child on its pipes": {"family talk", false, gate.Executed, "child"},
		"that is stopped":                         {"family wait", true, "", "because this server was stopped"},
		"that does not want to stop":              {"family stubborn", true, "", "because this server was stopped"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(soon(t))
			defer cancel()
			fifo := filepath.Join(t.TempDir(), "fifo")
			if err := syscall.Mkfifo(fifo, 0o600); err != nil {
				t.Fatal(err)
			}
			pid := make(chan int, 1)
			go func() { pid <- readPID(fifo) }()
			c := commandOf(t, execute.CommandConfig{Argv: []string{self(t)}, SetEnv: map[string]string{"PLAY": tt.part, "FIFO": fifo}})
			result := make(chan execute.Result, 1)
			d, err := c.Prepare(ctx, job(t))
			if err != nil {
				t.Fatal(err)
			}
			go func() { result <- d.Run(ctx) }()
			child := <-pid
			if tt.stop {
				cancel()
			}
			wants(t, <-result, tt.outcome, tt.text)
			gone(t, child)
		})
	}
}

func readPID(fifo string) int {
	f, err := os.Open(fifo)
	if err != nil {
		return 0
	}
	defer f.Close()
	line, _ := bufio.NewReader(f).ReadString('\n')
	pid, _ := strconv.Atoi(strings.TrimSpace(line))
	return pid
}

// gone waits until a process has ended, be it that nobody has buried it.
func gone(t *testing.T, pid int) {
	t.Helper()
	if pid == 0 {
		t.Fatal("there was no child")
	}
	for end := time.Now().Add(time.Minute); ; {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || strings.Contains(string(stat), ") Z ") {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("it is still there: %s", stat)
		}
	}
}

func TestACommandThatTakesTooLong(t *testing.T) {
	t.Parallel()
	d, err := command(t, "sleep").Prepare(soon(t), job(t))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	got := d.Run(ctx)
	wants(t, got, "", "it may have taken effect: stopped after")
	wants(t, got, "", "because the time was up")
}

func TestACommandThatDoesNotStart(t *testing.T) {
	t.Parallel()
	path := file(t, "#!/nowhere/at/all\n", 0o700)
	c := commandOf(t, execute.CommandConfig{Argv: []string{path}})
	wants(t, run(soon(t), t, c, job(t)), gate.Failed, "not started")

	ctx, cancel := context.WithCancel(t.Context())
	d, err := command(t, "say done").Prepare(ctx, job(t))
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	wants(t, d.Run(ctx), gate.Failed, "not started: this server was stopped")

	if err := os.Chmod(path, 0o720); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Prepare(soon(t), job(t)); err == nil || !strings.Contains(err.Error(), "chmod go-w") {
		t.Errorf("a program that others can change by now: %v", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Prepare(soon(t), job(t)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a program that is gone: %v", err)
	}
	d.Drop()
}

func TestArgumentsThatCannotBe(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ argument, args, says string }{
		"an option":                  {"{args.flag}", `{"flag":"--force"}`, "{args.flag} begins with"},
		"a short option":             {"{args.flag}", `{"flag":"-"}`, "begins with"},
		"a number below nothing":     {"{args.n}", `{"n":-1}`, "begins with"},
		"a NUL":                      {"{args.a}", `{"a":"x\u0000y"}`, "holds a NUL"},
		"nothing":                    {"{args.a}", `{"a":""}`, "is empty"},
		"null":                       {"{args.a}", `{"a":null}`, "is no text, number or boolean"},
		"a list":                     {"{args.a}", `{"a":[1]}`, "is no text, number or boolean"},
		"an object":                  {"{args.a}", `{"a":{"b":1}}`, "is no text, number or boolean"},
		"what is not there":          {"{args.b}", `{"a":1}`, "is not in the arguments"},
		"what is spelt otherwise":    {"{args.A}", `{"a":1}`, "is not in the arguments"},
		"what is in no object":       {"{args.a.b}", `{"a":1}`, "is not in the arguments"},
		"very much":                  {"{args.a}", `{"a":"` + strings.Repeat("x", 65<<10) + `"}`, "is longer than"},
		"no target":                  {"{target}", `{}`, "{target} is empty"},
		"a server that is an option": {"{server}", `{}`, "{server} begins with"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := job(t)
			j.Call = gate.Call{Server: "-rf", Tool: "t", Args: []byte(tt.args)}
			_, err := command(t, "say done", tt.argument).Prepare(soon(t), j)
			if r, ok := errors.AsType[*execute.Refusal](err); !ok || !strings.Contains(r.Public, tt.says) {
				t.Errorf("it says %v; want a refusal with %q", err, tt.says)
			}
		})
	}
}

func TestCommandConfig(t *testing.T) {
	t.Parallel()
	good := file(t, "#!/bin/sh\n", 0o755)
	open := t.TempDir()
	replaceable := filepath.Join(open, "run")
	if err := errors.Join(os.WriteFile(replaceable, nil, 0o755), os.Chmod(open, 0o777)); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(file(t, "", 0o777), link); err != nil {
		t.Fatal(err)
	}
	argv := func(all ...string) execute.CommandConfig {
		return execute.CommandConfig{Argv: append([]string{good}, all...)}
	}
	program := func(path string) execute.CommandConfig { return execute.CommandConfig{Argv: []string{path}} }
	for name, tt := range map[string]struct {
		config execute.CommandConfig
		says   string // empty: nothing
	}{
		"one that is right":                   {argv("--tool", "{tool}", "{args.a.b}", ""), ""},
		"all that it may say":                 {execute.CommandConfig{Argv: []string{good}, Dir: open, Env: []string{"HOME"}, SetEnv: map[string]string{"A": "b"}, MaxOutput: 10}, ""},
		"no argv":                             {execute.CommandConfig{}, "argv: want"},
		"a name without a path":               {program("sh"), "argv[0]: \"sh\": want the whole path"},
		"a path with dots":                    {program(filepath.Dir(good) + "/./file"), "want the whole path"},
		"a program that the agent chooses":    {program("{tool}"), "want the whole path"},
		"a program that is not there":         {program("/nowhere/at/all"), "no such file"},
		"a folder":                            {program("/"), "is no file"},
		"no program":                          {program(file(t, "", 0o644)), "chmod +x"},
		"one that its group can change":       {program(file(t, "", 0o775)), "chmod go-w"},
		"one that anybody can change":         {program(file(t, "", 0o757)), "chmod go-w"},
		"a link to one that anybody can":      {program(link), "chmod go-w"},
		"one that anybody can replace":        {program(replaceable), "chmod o-w " + open},
		"a placeholder with something before": {argv("--tool={tool}"), "argv[1]: \"--tool={tool}\": braces"},
		"a placeholder with something after":  {argv("{tool}.txt"), "braces"},
		"two placeholders":                    {argv("{tool}{target}"), "braces"},
		"a template of another kind":          {argv("{{.Tool}}"), "braces"},
		"an open brace":                       {argv("{tool"), "braces"},
		"a word that there is not":            {argv("x", "{person}"), "argv[2]: \"{person}\": want {id}"},
		"no word":                             {argv("{}"), "want {id}"},
		"all arguments":                       {argv("{args}"), "want {id}"},
		"a path of nothing":                   {argv("{args.}"), "want {id}"},
		"a path with a hole":                  {argv("{args.a..b}"), "want {id}"},
		"a NUL":                               {argv("a\x00b"), "NUL"},
		"a script of the agent's":             {execute.CommandConfig{Argv: []string{"/bin/sh", "-c", "{args.script}"}}, "argv[2]: a shell would run"},
		"an argument of a script":             {execute.CommandConfig{Argv: []string{"/bin/sh", "-c", "echo \"$1\"", "sh", "{args.a}"}}, ""},
		"a folder that is not there":          {execute.CommandConfig{Argv: []string{good}, Dir: "/nowhere"}, "dir: "},
		"a folder from here":                  {execute.CommandConfig{Argv: []string{good}, Dir: "."}, "dir: "},
		"a variable of no name":               {execute.CommandConfig{Argv: []string{good}, Env: []string{"A=b"}}, "env[0]: "},
		"a variable of ours":                  {execute.CommandConfig{Argv: []string{good}, SetEnv: map[string]string{"APPROVALBOT_ID": "x"}}, "set_env.APPROVALBOT_ID: "},
		"too much output":                     {execute.CommandConfig{Argv: []string{good}, MaxOutput: 1 << 20}, "max_output: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := execute.NewCommand(tt.config)
			if (err == nil) != (tt.says == "") || err != nil && !strings.Contains(err.Error(), tt.says) {
				t.Errorf("it says %v, want %q", err, tt.says)
			}
		})
	}
}

func TestAllThatIsWrongWithACommandIsReported(t *testing.T) {
	t.Parallel()
	_, err := execute.NewCommand(execute.CommandConfig{
		Argv: []string{"sh", "{x}"}, Dir: "x", Env: []string{"="}, SetEnv: map[string]string{"A": "\x00"}, MaxOutput: -1,
	})
	for _, part := range []string{"argv[0]: ", "argv[1]: ", "dir: ", "env[0]: ", "set_env.A: ", "max_output: "} {
		if err == nil || !slices.ContainsFunc(strings.Split(err.Error(), "\n"), func(line string) bool { return strings.HasPrefix(line, part) }) {
			t.Errorf("no line with %s in:\n%v", part, err)
		}
	}
}
