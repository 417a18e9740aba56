package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/approvalbot/approvalbot/cmd/approvalbot/config"
	"github.com/approvalbot/approvalbot/gate"
)

func newDoctor(p process) *cobra.Command {
	c := group("doctor", "find what keeps an installation from working, and how to mend it", newDoctorAll(p), newDoctorStore(p), newDoctorSlack(p), newDoctorMattermost(p))
	c.Example = "  approvalbot doctor all --config approvalbot.yaml\n  approvalbot doctor store --config approvalbot.yaml\n  approvalbot doctor slack --config approvalbot.yaml\n  approvalbot doctor mattermost --config approvalbot.yaml --press"
	return c
}

// level is how bad it is, as programs read it. What is neither of the others fails.
type level string

const (
	fails level = "fail" // must be mended
	warns level = "warn" // works, but perhaps not as meant
	notes level = "note" // is to be known
	fine  level = "ok"
)

// seen returns the level as people see it.
func (l level) seen() (word string, st style) {
	switch l {
	case fine:
		return "ok", green
	case notes:
		return "note", cyan
	case warns:
		return "warn", yellow
	default:
		return "FAIL", red
	}
}

// finding is what one check has found.
type finding struct {
	Of    string   `json:"of,omitempty"` // "store", "slack"; empty if only one thing is looked at
	Check string   `json:"check"`
	Level level    `json:"level"`
	Text  string   `json:"text"`
	Fix   string   `json:"fix,omitempty"`
	Lines []string `json:"lines,omitempty"` // what is to be copied from
}

// examined is what `doctor -o json` prints.
type examined struct {
	OK       bool      `json:"ok"`
	Failures int       `json:"failures"`
	Warnings int       `json:"warnings"`
	Checks   []finding `json:"checks"`
}

// findings prints what is found as soon as it is, and keeps it.
type findings struct {
	screen  screen
	json    bool // at the end, all at once
	of      string
	all     []finding
	written error // the first that could not be printed
}

func (f *findings) ok(check, format string, args ...any) {
	f.add(finding{Check: check, Level: fine, Text: fmt.Sprintf(format, args...)})
}

func (f *findings) note(check, fix, format string, args ...any) {
	f.add(finding{Check: check, Level: notes, Text: fmt.Sprintf(format, args...), Fix: fix})
}

func (f *findings) warn(check, fix, format string, args ...any) {
	f.add(finding{Check: check, Level: warns, Text: fmt.Sprintf(format, args...), Fix: fix})
}

func (f *findings) fail(check, fix, format string, args ...any) {
	f.add(finding{Check: check, Level: fails, Text: fmt.Sprintf(format, args...), Fix: fix})
}

// add takes a finding. In it are names that anybody can have chosen.
func (f *findings) add(one finding) {
	one.Text, one.Fix = gate.Clean(one.Text), gate.Clean(one.Fix)
	one.Of = f.of
	f.all = append(f.all, one)
	if !f.json && f.written == nil {
		f.written = f.screen.finding(one)
	}
}

// config takes what is wrong with the config file.
func (f *findings) config(problems []config.Problem) {
	for _, b := range problems {
		const fix = "`approvalbot config example` shows every key, and what it takes"
		if b.Warning {
			b.Warning = false // the word is there already
			f.warn("config", fix, "%s", b)
			continue
		}
		f.fail("config", fix, "%s", b)
	}
}

// finish says how many things there are to mend. Any is a failure.
func (f *findings) finish(out io.Writer) error {
	sum := examined{Checks: f.all}
	for _, one := range f.all {
		switch one.Level {
		case fine, notes:
		case warns:
			sum.Warnings++
		default:
			sum.Failures++
		}
	}
	sum.OK = sum.Failures == 0
	err := f.written
	if f.json {
		err = printJSON(out, sum)
	} else if err == nil {
		err = f.screen.verdict(sum)
	}
	if err == nil && !sum.OK {
		err = &exitError{exitBlock, errors.New("")}
	}
	return err
}

const (
	checkColumn = 14 // the widest name of a check
	fixIndent   = 6
	textIndent  = fixIndent + checkColumn + 2
)

// finding prints one finding, and below it how to mend it.
func (s screen) finding(f finding) error {
	word, st := f.Level.seen()
	text := s.folded(f.Text, textIndent)
	if err := s.line("%s%s%-*s  %s", s.styled(st, word), strings.Repeat(" ", fixIndent-len(word)), checkColumn, f.Check, text); err != nil {
		return err
	}
	if f.Fix != "" {
		if err := s.line("%s%s", strings.Repeat(" ", fixIndent), s.styled(cyan, s.folded(f.Fix, fixIndent))); err != nil {
			return err
		}
	}
	for _, line := range f.Lines {
		if err := s.line("%s%s", strings.Repeat(" ", fixIndent), line); err != nil {
			return err
		}
	}
	return nil
}

// folded breaks text that begins at a column, where somebody looks.
func (s screen) folded(text string, column int) string {
	if s.width == 0 {
		return text
	}
	return strings.ReplaceAll(wrap(text, max(s.width-column, 20)), "\n", "\n"+strings.Repeat(" ", column))
}

func (s screen) verdict(sum examined) error {
	text, st := "All is well", green
	if sum.Failures > 0 {
		text, st = plural(sum.Failures, "thing")+" to mend", red
	}
	if sum.Warnings > 0 {
		text += ", " + plural(sum.Warnings, "warning")
	}
	return s.line("\n%s", s.styled(st, text+"."))
}
