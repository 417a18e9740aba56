package main

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// block is a paragraph, an item of a list, or code of several lines.
type block struct {
	Item  bool
	Lines [][]span
	Code  []string // of a fence; nil if it is none
}

// First is what a phone shows of code: four lines, none of them wrapped.
func (b block) First() []string { return b.Code[:min(len(b.Code), shown)] }

// Numbers are those that a phone puts beside them.
func (b block) Numbers() (all []int) {
	for i := range b.First() {
		all = append(all, i+1)
	}
	return all
}

// Rest is how many lines it hides.
func (b block) Rest() int { return len(b.Code) - len(b.First()) }

const shown = 4

// span is a piece of a line.
type span struct {
	Kind string // "text", "code", "link", "mention"
	Text string
	URL  string
	Bold bool
}

// markdown reads what cards are written in: paragraphs, lists, fences, and in their
// lines code, bold, links and mentions. All else that Mattermost would not show as it
// is written is an error: no card wants it, so that it came from somebody else.
func markdown(text string) (blocks []block, err error) {
	if strings.ContainsRune(text, '\u2424') {
		return nil, fmt.Errorf("the web app begins a new line at U+2424: %q", text)
	}
	var now *block // what the next line belongs to
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		if fence.MatchString(line) {
			n := slices.IndexFunc(lines[i+1:], func(l string) bool { return ends(l, line) })
			if n < 0 {
				return nil, fmt.Errorf("a fence that does not end: %q", text)
			}
			blocks, now, i = append(blocks, block{Code: lines[i+1 : i+1+n]}), nil, i+1+n
			continue
		}
		words, item := strings.CutPrefix(line, "- ")
		switch {
		case strings.TrimSpace(line) == "":
			now = nil
			continue
		case item || now == nil:
			blocks = append(blocks, block{Item: item})
			now = &blocks[len(blocks)-1]
		}
		spans, err := inline(strings.TrimSpace(words))
		if err != nil {
			return nil, err
		}
		now.Lines = append(now.Lines, spans)
	}
	return blocks, nil
}

var fence = regexp.MustCompile("^`{3,}$")

// ends reports whether a line ends a fence: more backticks do as well.
func ends(line, mark string) bool {
	line = strings.TrimSpace(line)
	return strings.HasPrefix(line, mark) && strings.Trim(line, "`") == ""
}

var (
	link   = regexp.MustCompile(`^\[([^\[\]]+)\]\((https?://[^\s()]+)\)`)
	called = regexp.MustCompile(`^@[a-z0-9._-]*[a-z0-9_-]`)
	markup = regexp.MustCompile("[*~#<>|\\\\`\\[\\]@]|__|\\b_|://|:[a-z0-9_+-]+:|(?i:www\\.)|^\\d+[.)] ")
)

// inline reads one line.
func inline(line string) (spans []span, err error) {
	bold := false
	for line != "" {
		s, rest := next(line)
		switch {
		case s.Kind == "bold":
			bold, line = !bold, rest
			continue
		case s.Kind == "text" && markup.MatchString(s.Text):
			return nil, fmt.Errorf("no app would show %q as it is: %q", markup.FindString(s.Text), line)
		case strings.HasSuffix(s.Text, "!") && strings.HasPrefix(rest, "["):
			return nil, fmt.Errorf("no app would show a picture as it is written: %q", line)
		case s.Kind != "text" && bold && strings.Contains(s.Text, "**"):
			return nil, fmt.Errorf("the web app ends what is bold within %q", s.Text)
		}
		s.Bold, line = bold, rest
		spans = append(spans, s)
	}
	if bold {
		return nil, errors.New("what is bold does not end")
	}
	return spans, nil
}

// next reads one piece of a line, and returns what comes after it.
func next(line string) (span, string) {
	if rest, ok := strings.CutPrefix(line, "**"); ok {
		return span{Kind: "bold"}, rest
	}
	if code, rest, ok := codeSpan(line); ok {
		return span{Kind: "code", Text: code}, rest
	}
	if m := link.FindStringSubmatch(line); m != nil {
		return span{Kind: "link", Text: m[1], URL: m[2]}, line[len(m[0]):]
	}
	if m := called.FindString(line); m != "" {
		return span{Kind: "mention", Text: m}, line[len(m):]
	}
	end := len(line)
	if i := strings.IndexAny(line[1:], "*`[@"); i >= 0 {
		end = i + 1
	}
	return span{Kind: "text", Text: line[:end]}, line[end:]
}

// codeSpan reads what is between two runs of just as many backticks. A blank at each
// end is there to keep backticks apart.
func codeSpan(line string) (code, rest string, ok bool) {
	run := len(line) - len(strings.TrimLeft(line, "`"))
	if run == 0 {
		return "", "", false
	}
	for i := run; i < len(line); i++ {
		n := len(line[i:]) - len(strings.TrimLeft(line[i:], "`"))
		if n != run {
			i += max(n-1, 0)
			continue
		}
		code, rest = line[run:i], line[i+n:]
		if strings.HasPrefix(code, " ") && strings.HasSuffix(code, " ") && strings.TrimSpace(code) != "" {
			code = code[1 : len(code)-1]
		}
		return code, rest, true
	}
	return "", "", false
}
