package mattermosttest

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// withoutCode returns Markdown without what is code. Servers, web and mobile apps
// read it in slightly different ways, so what only some of them take for code is
// left in: fences that never end, code in quotes, by indentation, or over several
// lines. A fence ends where the first of them sees its end. The web app makes a new
// line of U+2424, and looks for the end of bold text before it looks for code, so that
// code in bold may be cut in two.
func withoutCode(text string) string {
	lines := strings.Split(strings.ReplaceAll(text, "\u2424", "\n"), "\n")
	var kept []string
	for i := 0; i < len(lines); i++ {
		if end := fenceEnd(lines[i:]); end > 0 {
			i += end
			kept = append(kept, "")
			continue
		}
		kept = append(kept, outsideBold(lines[i]))
	}
	return strings.Join(kept, "\n")
}

var fenceBegin = regexp.MustCompile("^ {0,3}(`{3,}|~{3,})([^`]*)$")

// fenceEnd returns how many lines after the first one a fence ends that begins
// there, or zero.
func fenceEnd(lines []string) int {
	m := fenceBegin.FindStringSubmatch(lines[0])
	if m == nil {
		return 0
	}
	for i, l := range lines[1:] {
		if strings.HasSuffix(strings.TrimRight(l, " \t\r"), m[1]) {
			return i + 1
		}
	}
	return 0
}

// outsideBold is a line without code, as it is read where bold comes first and where
// code does.
func outsideBold(line string) string {
	return spans(line, false) + "\n" + spans(line, true)
}

// spans cuts `code` out of a line; with bold it looks for that first, in which it starts
// anew.
func spans(line string, bold bool) string {
	var kept strings.Builder
	for line != "" {
		at := strings.IndexAny(line, "`\\*")
		if at < 0 {
			break
		}
		if line[at] == '\\' { // what comes next is not the begin of code
			next := min(at+2, len(line))
			kept.WriteString(line[:next])
			line = line[next:]
			continue
		}
		if line[at] == '*' {
			inner, behind, both := strings.Cut(strings.TrimPrefix(line[at:], "**"), "**")
			if !bold || !both || !strings.HasPrefix(line[at:], "**") {
				kept.WriteString(line[:at+1])
				line = line[at+1:]
				continue
			}
			kept.WriteString(line[:at] + spans(inner, true) + " ")
			line = behind
			continue
		}
		run := len(line[at:]) - len(strings.TrimLeft(line[at:], "`"))
		end := spanEnd(line[at+run:], run)
		kept.WriteString(line[:at])
		if end < 0 {
			kept.WriteString(line[at : at+run])
			end = 0
		}
		line = line[at+run+end:]
	}
	kept.WriteString(line)
	return kept.String()
}

// spanEnd returns what comes of text until behind the next run of that many
// backticks, or -1.
func spanEnd(text string, run int) int {
	for i := 0; i < len(text); {
		if text[i] != '`' {
			i++
			continue
		}
		n := len(text[i:]) - len(strings.TrimLeft(text[i:], "`"))
		if n == run {
			return i + n
		}
		i += n
	}
	return -1
}

// mention is an @ of either width and a name.
var mention = regexp.MustCompile(`[@＠]([A-Za-z0-9._-]*[A-Za-z0-9])`)

// mentionsIn returns the names that are called: those whose @ is not inside a word.
func mentionsIn(text string) []string {
	var all []string
	for _, m := range mention.FindAllStringSubmatchIndex(text, -1) {
		before, _ := utf8.DecodeLastRuneInString(text[:m[0]])
		if unicode.IsLetter(before) || unicode.IsNumber(before) {
			continue
		}
		all = append(all, "@"+strings.ToLower(strings.TrimLeft(text[m[2]:m[3]], "._-")))
	}
	return all
}

var (
	inline     = regexp.MustCompile(`(\\?)(!?)\[((?:[^\[\]\\]|\\.|\[[^\]]*\])*)\]\(\s*<?([^)\s>]+)`)
	definition = regexp.MustCompile(`(?m)^ {0,3}\[[^\]]+\]:\s*<?([^\s>]+)`)
	bare       = regexp.MustCompile(`(?i)\b(?:[a-z][a-z0-9+.-]*://|www\d{0,3}\.|mailto:)[^\s<>()\[\]"*` + "`" + `]+`)
	email      = regexp.MustCompile(`(?i)\b[a-z0-9._%+-]+@[a-z0-9-]+(?:\.[a-z0-9-]+)+\b`)
)

func linksIn(text string) []string {
	var all []string
	for _, m := range inline.FindAllStringSubmatch(text, -1) {
		switch {
		case m[1] != "": // \[ begins no link
		case m[2] == "":
			all = append(all, m[4])
		}
		all = append(all, linksIn(m[3])...) // what a link reads, too
	}
	rest := inline.ReplaceAllStringFunc(text, func(whole string) string {
		if whole[0] == '\\' {
			return whole
		}
		return " "
	})
	for _, m := range definition.FindAllStringSubmatch(rest, -1) {
		all = append(all, m[1])
	}
	rest = definition.ReplaceAllString(rest, " ")
	for _, u := range bare.FindAllString(rest, -1) {
		all = append(all, strings.TrimRight(u, ".,;:!?'_~"))
	}
	rest = bare.ReplaceAllString(rest, " ")
	for _, e := range email.FindAllString(rest, -1) {
		all = append(all, "mailto:"+e)
	}
	return all
}

func imagesIn(text string) []string {
	var all []string
	for _, m := range inline.FindAllStringSubmatch(text, -1) {
		if m[2] != "" {
			all = append(all, m[4])
		}
		all = append(all, imagesIn(m[3])...)
	}
	return all
}
