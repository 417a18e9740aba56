package main

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestEveryFailureExitsTwo: a hook with a typo in its command must not let a
// call through, and agent hosts take every other code for "go on".
func TestEveryFailureExitsTwo(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name string
		args []string
		says string
	}{
		{"no command", nil, "want a command"},
		{"a mistyped command names the one that was meant", []string{"aprove", "x"}, "did you mean approve"},
		{"a mistyped command below another", []string{"policy", "chekc"}, "did you mean check"},
		{"a group without its command", []string{"keys"}, "want a command"},
		{"a command that is nowhere near", []string{"frobnicate"}, "--help"},
		{"a mistyped flag", []string{"serve", "--confg", "x"}, "unknown flag"},
		{"an argument too many", []string{"version", "x"}, "unknown command"},
		{"an argument too few", []string{"approve"}, "accepts 1 arg"},
		{"an unknown output", []string{"version", "-o", "xml"}, "want text or json"},
		{"help for what does not exist", []string{"help", "aprove"}, "did you mean approve"},
		{"help for what does not exist below another", []string{"help", "policy", "chekc"}, "did you mean check"},
		{"a config file that is not there", []string{"config", "check", "nowhere.yaml"}, "nowhere.yaml"},
		{"a server without its config file", []string{"serve", "--config", "nowhere.yaml"}, "nowhere.yaml"},
		{"a required flag that is missing", []string{"keys", "new", "--role", "agent"}, `"name" not set`},
		{"a key without a role that exists", []string{"keys", "new", "--name", "x", "--role", "boss"}, "roles"},
		{"no API key", []string{"pending"}, "APPROVALBOT_TOKEN"},
		{"arguments that are no object", []string{"request", "--tool", "x", "--args", "[]"}, "object"},
		{"a shell that does not exist", []string{"completion", "tcsh"}, "tcsh"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			r := shell{}.run(t, row.args...)
			wantCode(t, r, exitBlock)
			wantText(t, r.err, row.says)
			if r.out != "" {
				t.Errorf("a failure wrote to standard output: %q", r.out)
			}
		})
	}
}

// TestHelpIsTrue: every command is explained with an example, and every example
// is a command line that this program takes.
func TestHelpIsTrue(t *testing.T) {
	t.Parallel()
	root := newRoot(process{env: func(string) string { return "" }})
	walk(root, func(c *cobra.Command) {
		if c.Short == "" || c.Example == "" {
			t.Errorf("%s: no help or no example", c.CommandPath())
		}
		for line := range strings.Lines(c.Example) {
			takes(t, strings.TrimSpace(line))
		}
		r := shell{}.run(t, append(strings.Fields(c.CommandPath())[1:], "--help")...)
		wantCode(t, r, exitOK)
		wantText(t, r.out, c.Example)
	})
}

func walk(c *cobra.Command, visit func(*cobra.Command)) {
	visit(c)
	for _, sub := range c.Commands() {
		walk(sub, visit)
	}
}

// takes checks one line of an example against a fresh command tree.
func takes(t *testing.T, line string) {
	t.Helper()
	line = strings.TrimSuffix(strings.TrimPrefix(line, "source <("), ")")
	line, _, _ = strings.Cut(line, " > ")
	words := split(line)
	root := newRoot(process{env: func(string) string { return "" }})
	c, rest, err := root.Find(words[1:])
	if words[0] != "approvalbot" || err != nil {
		t.Errorf("example %q: %v", line, err)
		return
	}
	if err := c.ParseFlags(rest); err != nil {
		t.Errorf("example %q: %v", line, err)
		return
	}
	if err := c.ValidateRequiredFlags(); err != nil {
		t.Errorf("example %q: %v", line, err)
	}
	if err := c.ValidateArgs(c.Flags().Args()); err != nil {
		t.Errorf("example %q: %v", line, err)
	}
	if c.HasSubCommands() {
		t.Errorf("example %q: names no command", line)
	}
}

// split parts a line as a shell would, as far as examples go.
func split(line string) (words []string) {
	var quote rune
	word := ""
	for _, r := range line + " " {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word += string(r)
		case r == '\'' || r == '"':
			quote = r
		case r == ' ' && word != "":
			words, word = append(words, word), ""
		case r != ' ':
			word += string(r)
		}
	}
	return words
}

func TestCompletionKnowsTheCommands(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"bash", "zsh", "fish", "powershell"} {
		r := shell{}.run(t, "completion", name)
		wantCode(t, r, exitOK)
		wantText(t, r.out, "approvalbot")
	}
	wantText(t, shell{}.run(t, "__complete", "po").out, "policy")
}

func TestVersionIsOneLine(t *testing.T) {
	t.Parallel()
	r := shell{}.run(t, "version")
	wantCode(t, r, exitOK)
	if !strings.HasPrefix(r.out, "approvalbot ") || strings.Count(r.out, "\n") != 1 {
		t.Errorf("got %q", r.out)
	}
	if v := fromJSON[version](t, shell{}.run(t, "version", "-o", "json").out); v.Go == "" {
		t.Errorf("no Go version in %+v", v)
	}
}
