package gate

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestGlob(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		pattern, name string
		want          bool
	}{
		"an exact name matches itself":                    {"send_email", "send_email", true},
		"an exact name is the whole name":                 {"send_email", "send_email_now", false},
		"case matters":                                    {"send_email", "Send_Email", false},
		"a star matches nothing too":                      {"delete_*", "delete_", true},
		"a star matches any end":                          {"delete_*", "delete_file", true},
		"a star does not reach before the beginning":      {"delete_*", "undelete_file", false},
		"a star crosses dots and slashes":                 {"db*", "db.x/y", true},
		"a question mark is one character":                {"v?", "vé", true},
		"a question mark is not none":                     {"v?", "v", false},
		"a range matches inside":                          {"[a-c]x", "bx", true},
		"a range does not match outside":                  {"[a-c]x", "dx", false},
		"a list matches its members":                      {"[-_]x", "-x", true},
		"a list with a dash is not a range":               {"[-az]x", "mx", false},
		"a negated class matches others":                  {"[!a-c]x", "dx", true},
		"a negated class does not match its own":          {"[!a-c]x", "ax", false},
		"a literal star is written as a class":            {"a[*]", "a*", true},
		"a literal star is no wildcard":                   {"a[*]", "ab", false},
		"braces list alternatives":                        {"kubectl_{delete,apply}", "kubectl_apply", true},
		"braces match nothing else":                       {"kubectl_{delete,apply}", "kubectl_get", false},
		"braces may hold wildcards":                       {"{delete_*,drop_?}", "drop_x", true},
		"braces may be nested":                            {"a{b,c{d,e}}f", "acef", true},
		"nested braces stay apart":                        {"a{b,c{d,e}}f", "abdf", false},
		"an empty alternative makes the rest optional":    {"get{,_all}", "get", true},
		"several classes are written as alternatives":     {"{[a-z],[0-9]}", "7", true},
		"a comma outside braces is itself":                {"a,b", "a,b", true},
		"two composed forms of a letter stay two letters": {"caf\u00e9", "cafe\u0301", false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			g, err := compileGlob(tt.pattern)
			if err != nil {
				t.Fatal(err)
			}
			if got := g.match(tt.name); got != tt.want {
				t.Errorf("%q matches %q = %t, want %t", tt.pattern, tt.name, got, tt.want)
			}
		})
	}
}

func TestGlobRefusesWhatCouldBeReadInTwoWays(t *testing.T) {
	t.Parallel()

	tests := map[string]struct{ pattern, hint string }{
		"a negation by circumflex":      {"[^a]", "[!…]"},
		"an unclosed brace":             {"{a,b", "unmatched '{'"},
		"an unopened brace":             {"a}b{c}", "unmatched '}'"},
		"a brace too many":              {"{a}}", "unmatched '}'"},
		"an unclosed bracket":           {"[ab", "unmatched '['"},
		"an unopened bracket":           {"ab]", "unmatched ']'"},
		"an empty class":                {"[]", "empty"},
		"an empty negated class":        {"[!]", "empty"},
		"a range that runs backwards":   {"[z-a]", "backwards"},
		"two ranges in one class":       {"[a-zA-Z]", "{[a-z],[0-9]}"},
		"a dash at the end":             {"[a-]", "first"},
		"a bracket in a class":          {"[[]", "inside"},
		"braces that cut a class":       {"{[a,b]}", "inside"},
		"a class across braces":         {"[{0]}", "inside"},
		"a backslash":                   {`a\*`, "[*]"},
		"nothing":                       {"", "empty"},
		"more alternatives than anyone": {strings.Repeat("{a,b}", 8), "alternatives"},
		"more stars than anyone":        {strings.Repeat("a*", 7), "stars"},
		"broken text":                   {"a\xff", "UTF-8"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			_, err := compileGlob(tt.pattern)
			if err == nil || !strings.Contains(err.Error(), tt.hint) {
				t.Errorf("compileGlob(%q) = %v, want an error with %q", tt.pattern, err, tt.hint)
			}
		})
	}
}

// reference is an independent reading of the pattern language: one pass over
// the characters, into a regular expression. It accepts more than compileGlob.
func reference(pattern string) (*regexp.Regexp, error) {
	var re strings.Builder
	re.WriteString(`(?s)\A(?:`)
	depth, class := 0, false
	for i, c := range pattern {
		switch {
		case class && c == ']':
			re.WriteString("]")
			class = false
		case class && c == '-':
			// literal at the beginning, else the middle of a range
			if before := pattern[i-1]; before == '[' || before == '!' && pattern[i-2] == '[' {
				re.WriteString(`\-`)
			} else {
				re.WriteString("-")
			}
		case class && c == '!' && pattern[i-1] == '[':
			re.WriteString("^")
		case class:
			fmt.Fprintf(&re, `\x{%x}`, c)
		case c == '*':
			re.WriteString(".*")
		case c == '?':
			re.WriteString(".")
		case c == '[':
			re.WriteString("[")
			class = true
		case c == '{':
			re.WriteString("(?:")
			depth++
		case c == '}':
			re.WriteString(")")
			depth--
		case c == ',' && depth > 0:
			re.WriteString("|")
		default:
			re.WriteString(regexp.QuoteMeta(string(c)))
		}
	}
	return regexp.Compile(re.String() + `)\z`)
}

func FuzzGlobAgreesWithRegexp(f *testing.F) {
	for _, s := range [][2]string{
		{"send_*", "send_email"},
		{"{a*,b?}[!x-z]", "abc"},
		{"[-a]{b,{c,d*}e}*f", "-cef"},
		{"a{,b}[*?]", "ab*"},
		{"*a*b*c?", "xaybzcd"},
		{"[!-a]**?", "é"},
		{"[!!]{[a-b],[c]}", "!c"},
	} {
		f.Add(s[0], s[1])
	}
	f.Fuzz(func(t *testing.T, pattern, name string) {
		g, err := compileGlob(pattern)
		if err != nil || !utf8.ValidString(name) || len(name) > MaxName {
			return
		}
		re, err := reference(pattern)
		if err != nil {
			t.Fatalf("compileGlob accepts %q, the reference does not: %v", pattern, err)
		}
		if got, want := g.match(name), re.MatchString(name); got != want {
			t.Fatalf("%q matches %q = %t, the reference says %t", pattern, name, got, want)
		}
		for _, a := range g.alts {
			if a.match(name) && !strings.HasPrefix(name, a.prefix) {
				t.Fatalf("%q matches %q, which does not begin with %q", pattern, name, a.prefix)
			}
		}
	})
}

func TestNoNameMakesAGlobSlow(t *testing.T) {
	t.Parallel()

	for _, pattern := range []string{strings.Repeat("*a", maxStars) + "b", strings.Repeat("*?", maxStars) + "b", strings.Repeat("*[ab]", maxStars) + "c"} {
		g, err := compileGlob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		g.match(strings.Repeat("a", MaxName))
		if d := time.Since(start); d > 100*time.Millisecond {
			t.Errorf("%q took %s", pattern, d)
		}
	}
}
