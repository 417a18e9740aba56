package console

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/approvalbot/approvalbot/gate"
)

// token is a piece of the shown arguments. Each string stands alone, so that
// right-to-left letters in one cannot move what is beside it.
type token struct {
	Kind string // key, string or rest
	Text string
}

// part is text of a token, or a run of spaces in it, which is drawn: a command
// must not hide behind a gap.
type part struct {
	Text string
	Gap  bool
}

var gap = regexp.MustCompile(` {3,}`)

// Parts splits the token at its gaps.
func (t token) Parts() (out []part) {
	at := 0
	for _, m := range gap.FindAllStringIndex(t.Text, -1) {
		out = append(out, part{t.Text[at:m[0]], false}, part{t.Text[m[0]:m[1]], true})
		at = m[1]
	}
	return append(out, part{t.Text[at:], false})
}

// arguments is what the page shows of a call's arguments.
type arguments struct {
	Tokens     []token
	Characters int
	Lines      int
	Escapes    bool // something in them cannot be seen as itself
	Redacted   bool // the rule hides some values from people
	Withheld   bool // nobody knows which values to hide
}

// Long reports whether the box may be too small to show them at once.
func (a arguments) Long() bool { return a.Lines > 20 || a.Characters > 1500 }

// Size is "213,402 characters in 12 lines".
func (a arguments) Size() string {
	lines := "lines"
	if a.Lines == 1 {
		lines = "line"
	}
	return fmt.Sprintf("%s characters in %d %s", thousands(a.Characters), a.Lines, lines)
}

func thousands(n int) string {
	digits := strconv.Itoa(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// argumentsOf shows a call's arguments in full. What to redact is in the rule; if
// that is gone from the policy nothing is shown, rather than a secret.
func argumentsOf(a *gate.Approval, rule *gate.Rule) arguments {
	if rule == nil {
		return arguments{Withheld: true}
	}
	raw := a.Call.RawArgs()
	shown := rule.Redacted(raw)
	text := gate.Pretty(shown)
	return arguments{
		Tokens: tokens(text), Characters: len([]rune(text)), Lines: strings.Count(text, "\n") + 1,
		Escapes:  strings.Contains(text, `\u`) || strings.Contains(text, `\x`),
		Redacted: !slices.Equal(shown, raw),
	}
}

// tokens splits what gate.Pretty has made of JSON at its strings.
func tokens(text string) (out []token) {
	for text != "" {
		start := strings.IndexByte(text, '"')
		if start < 0 {
			return append(out, token{"rest", text})
		}
		if start > 0 {
			out = append(out, token{"rest", text[:start]})
		}
		end := start + quotedLen(text[start:])
		kind := "string"
		if strings.HasPrefix(text[end:], ":") {
			kind = "key"
		}
		out = append(out, token{kind, text[start:end]})
		text = text[end:]
	}
	return out
}

// quotedLen is the length of the quoted string that s begins with.
func quotedLen(s string) int {
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(s)
}
