package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/approvalbot/approvalbot/gate"
)

// screen writes for people. Whatever an agent or a person wrote has been through
// gate.Visible or gate.Clean before it comes here: nothing of theirs may reach a
// terminal as a control sequence.
type screen struct {
	out    io.Writer
	colour bool
	width  int // of a terminal; 0: nobody looks, cut nothing
}

func newScreen(p process) screen {
	s := screen{out: p.out, colour: p.outTTY && p.env("NO_COLOR") == "" && p.env("TERM") != "dumb"}
	if f, ok := p.out.(*os.File); ok && p.outTTY {
		s.width, _, _ = term.GetSize(int(f.Fd()))
	}
	return s
}

// style is an ANSI attribute.
type style string

const (
	plain  style = ""
	bold   style = "1"
	dim    style = "2"
	red    style = "31"
	green  style = "32"
	yellow style = "33"
	cyan   style = "36"
)

func (s screen) styled(st style, text string) string {
	if !s.colour || st == plain || text == "" {
		return text
	}
	return "\x1b[" + string(st) + "m" + text + "\x1b[0m"
}

func (s screen) line(format string, args ...any) error {
	_, err := fmt.Fprintf(s.out, format+"\n", args...)
	return err
}

// cell is one entry of a table.
type cell struct {
	text  string
	style style
}

// table writes aligned columns. On a terminal the last column is cut to fit.
func (s screen) table(head []string, rows [][]cell) error {
	all := make([][]cell, 0, len(rows)+1)
	first := make([]cell, len(head))
	for i, h := range head {
		first[i] = cell{h, dim}
	}
	all = append(append(all, first), rows...)
	widths := make([]int, len(head))
	for _, row := range all {
		for i, c := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(c.text))
		}
	}
	for _, row := range all {
		if err := s.line("%s", s.row(row, widths)); err != nil {
			return err
		}
	}
	return nil
}

func (s screen) row(row []cell, widths []int) string {
	var b strings.Builder
	used := 0
	for i, c := range row {
		if i == len(row)-1 {
			b.WriteString(s.styled(c.style, s.fit(c.text, used)))
			break
		}
		b.WriteString(s.styled(c.style, c.text))
		b.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c.text)+2))
		used += widths[i] + 2
	}
	return strings.TrimRight(b.String(), " ")
}

// fit cuts text to what is left of a line, and shows that it did.
func (s screen) fit(text string, used int) string {
	room := max(s.width-used, 10)
	if s.width == 0 || utf8.RuneCountInString(text) <= room {
		return text
	}
	runes := []rune(text)
	return string(runes[:room-1]) + "…"
}

// wrap breaks text at spaces, so that no line is longer than width; 0 breaks
// nothing.
func wrap(text string, width int) string {
	if width <= 0 {
		return text
	}
	var b strings.Builder
	for i, line := range strings.Split(text, "\n") {
		if i > 0 {
			b.WriteByte('\n')
		}
		used := 0
		for word := range strings.FieldsSeq(line) {
			n := utf8.RuneCountInString(word)
			switch {
			case used == 0:
			case used+1+n > width:
				b.WriteByte('\n')
				used = 0
			default:
				b.WriteByte(' ')
				used++
			}
			b.WriteString(word)
			used += n
		}
	}
	return b.String()
}

// field is one named fact.
type field struct {
	name  string
	text  string
	style style
}

// fields writes "name  value" lines, aligned; empty values are left out.
func (s screen) fields(pairs ...field) error {
	pairs = slices.DeleteFunc(slices.Clone(pairs), func(f field) bool { return f.text == "" })
	width := 0
	for _, f := range pairs {
		width = max(width, len(f.name))
	}
	for _, f := range pairs {
		if err := s.line("  %s%s  %s", s.styled(dim, f.name), strings.Repeat(" ", width-len(f.name)), s.styled(f.style, f.text)); err != nil {
			return err
		}
	}
	return nil
}

// when tells a time relative to the server's clock, as people read it.
func when(t, now time.Time) string {
	switch {
	case t.IsZero():
		return ""
	case t.After(now):
		return "in " + gate.Span(t.Sub(now))
	default:
		return gate.Span(now.Sub(t)) + " ago"
	}
}

// printJSON writes v indented, with everything hidden in its texts escaped: it may
// be read on a terminal too, and stays the same JSON.
func printJSON(w io.Writer, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(w, gate.Pretty(b))
	return err
}
