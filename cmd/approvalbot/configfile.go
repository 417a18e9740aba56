package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/approvalbot/approvalbot/cmd/approvalbot/config"
)

const defaultConfig = "approvalbot.yaml"

func configFlag(c *cobra.Command, file *string) {
	c.Flags().StringVarP(file, "config", "c", defaultConfig, "config file")
	_ = c.MarkFlagFilename("config", "yaml", "yml")
}

// loadConfig reads a config file. Doubts about it are printed; mistakes are all
// in the error.
func loadConfig(p process, file string) (*config.Loaded, error) {
	cfg, problems := config.Load(file, p.env)
	if cfg == nil {
		return nil, mistakes(file, problems)
	}
	return cfg, printProblems(p.err, problems)
}

func printProblems(w io.Writer, problems []config.Problem) error {
	for _, b := range problems {
		if _, err := fmt.Fprintln(w, b); err != nil {
			return err
		}
	}
	return nil
}

// mistakes is an error of all problems, one a line.
func mistakes(file string, problems []config.Problem) error {
	var errs []error
	n := 0
	for _, b := range problems {
		errs = append(errs, errors.New(b.String()))
		if !b.Warning {
			n++
		}
	}
	return fmt.Errorf("%s: %s\n%w", file, plural(n, "mistake"), errors.Join(errs...))
}

func plural(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}

func newConfig(p process) *cobra.Command {
	c := group("config", "check a config file, or print an example", newCheck(p, "check", "config"), newConfigExample(p))
	c.Example = "  approvalbot config example > approvalbot.yaml\n  approvalbot config check approvalbot.yaml"
	return c
}

func newConfigExample(p process) *cobra.Command {
	return &cobra.Command{
		Use: "example", Short: "print a config file with every key, and what each does",
		Example: "  approvalbot config example > approvalbot.yaml", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if asJSON(cmd) {
				return printJSON(p.out, map[string]string{"example": config.Example})
			}
			_, err := io.WriteString(p.out, config.Example)
			return err
		},
	}
}

// checked is what `config check -o json` prints.
type checked struct {
	OK       bool             `json:"ok"`
	Problems []checkedProblem `json:"problems"`
	Policy   string           `json:"policy,omitempty"`
	Rules    int              `json:"rules"`
}

type checkedProblem struct {
	File    string `json:"file"`
	Line    int    `json:"line"`
	Column  int    `json:"column"`
	Path    string `json:"path,omitempty"`
	Text    string `json:"text"`
	Warning bool   `json:"warning,omitempty"`
}

// newCheck is both `config check` and `policy check`: the policy is a part of
// the file, and a mistake in any part keeps a server from starting.
func newCheck(p process, use, of string) *cobra.Command {
	var file string
	c := &cobra.Command{
		Use: use + " [file]", Short: "report every mistake in a config file, with its line and what to do",
		Example: fmt.Sprintf("  approvalbot %s check approvalbot.yaml", of), Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				file = args[0]
			}
			cfg, problems := config.Load(file, p.env)
			if asJSON(cmd) {
				return checkJSON(p.out, cfg, problems)
			}
			if cfg == nil {
				return mistakes(file, problems)
			}
			if err := printProblems(p.out, problems); err != nil {
				return err
			}
			s := newScreen(p)
			return s.line("%s", s.styled(green, fmt.Sprintf("%s is good: policy %s, %s", file, shortVersion(cfg.Policy), policySummary(cfg.Policy))))
		},
	}
	configFlag(c, &file)
	return c
}

func checkJSON(w io.Writer, cfg *config.Loaded, problems []config.Problem) error {
	out := checked{OK: cfg != nil, Problems: []checkedProblem{}}
	for _, b := range problems {
		out.Problems = append(out.Problems, checkedProblem{b.File, b.Line, b.Col, b.Path, b.Text, b.Warning})
	}
	if cfg != nil {
		out.Policy, out.Rules = string(cfg.Policy.Version()), len(cfg.Policy.Rules())
	}
	if err := printJSON(w, out); err != nil || out.OK {
		return err
	}
	return &exitError{exitBlock, errors.New("")}
}
