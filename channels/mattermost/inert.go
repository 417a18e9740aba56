package mattermost

import (
	"regexp"
	"strings"
	"unicode"

	"github.com/approvalbot/approvalbot/gate"
)

// Mattermost takes text for Markdown, and looks in it for people to call, addresses
// to link and pictures to load. Nothing of that happens in code.

// inert shows one line of text as it is. What could be taken for more than words is
// shown as code, and all of the line with it, so that nobody wonders why.
func inert(s string) string {
	s = strings.TrimSpace(strings.ReplaceAll(s, "\n", " "))
	if s == "" || plain(s) {
		return s
	}
	return code(s)
}

// bold shows one line as it is, and stronger. Code is not put in bold: the web app looks
// for the end of that first, and would find it in the code.
func bold(s string) string {
	s = inert(s)
	if s == "" || s[0] == '`' {
		return s
	}
	return "**" + s + "**"
}

// plain reports whether Mattermost has nothing to find in a line, wherever that
// stands. It is stricter than it need be: names of machines look like addresses.
func plain(s string) bool {
	for i, r := range s {
		switch {
		case unicode.IsLetter(r), unicode.IsMark(r):
		case i == 0 && !unicode.IsDigit(r):
			return false // a list, a heading, a quotation
		case unicode.IsDigit(r), strings.ContainsRune(` ,;()"'/%·→…–-.:?+_`, r):
		default:
			return false
		}
	}
	return !suspicious.MatchString(s)
}

// suspicious are two blanks, which would be one; names of machines and addresses;
// emoji and emoticons; numbered lists and rules; and underscores that are not inside a
// word.
var suspicious = regexp.MustCompile(`  |[.:]\pL|\pL:\S|[.:]\S*/|/\S*[.:]|^/|\s/|//` +
	`|:\S*:|[:;][-']?[()/|]|^\d+[.)]|--|(?i)www|(?-i)(?:^|[^A-Za-z0-9])_|_(?:[^A-Za-z0-9]|$)`)

// code is a line in which nothing is parsed.
func code(s string) string {
	tick := strings.Repeat("`", longestRun(s)+1)
	if len(tick) == 1 {
		return tick + s + tick
	}
	return tick + " " + s + " " + tick
}

// fence is text of any number of lines in which nothing is parsed.
func fence(s string) string {
	mark := strings.Repeat("`", max(3, longestRun(s)+1))
	return mark + "\n" + s + "\n" + mark
}

// longestRun is how many backticks are in a row.
func longestRun(s string) (longest int) {
	run := 0
	for _, r := range s {
		if run++; r != '`' {
			run = 0
		}
		longest = max(longest, run)
	}
	return longest
}

// codeLines is text of any number of lines as code, line by line. Phones show four
// lines of a fence, and of each what fits, without a sign that there is more; this they
// wrap. What is blank is left out.
func codeLines(s string) string {
	var out []string
	for line := range strings.Lines(s) {
		if line = strings.TrimRight(line, "\n"); strings.TrimSpace(line) != "" {
			out = append(out, code(line))
		}
	}
	return strings.Join(out, "\n")
}

// lines shows text of several lines, each as it is, in at most n characters.
func lines(s string, n int) string {
	s, _ = gate.Cut(s, n)
	var out []string
	for line := range strings.Lines(s) {
		if line = inert(line); line != "" {
			out = append(out, line)
		}
	}
	return strings.Join(out, "\n")
}
