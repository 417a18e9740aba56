package gate

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	gobwas "github.com/gobwas/glob"
)

// glob matches whole names, byte for byte as they came: * ? [a-z] [abc] [!…]
// {a,b}. What shells read in different ways is refused instead of guessed.
// A nil glob matches everything.
type glob struct {
	text string
	alts []alternative // its braces, written out
}

// Glob is a pattern as policies have them, for others who match names. The zero
// value matches nothing.
type Glob struct{ g *glob }

// NewGlob compiles a pattern.
func NewGlob(text string) (Glob, error) {
	g, err := compileGlob(text)
	return Glob{g}, err
}

// Match reports whether the whole name matches.
func (g Glob) Match(name string) bool { return g.g != nil && g.g.match(name) }

// alternative is a pattern without braces.
type alternative struct {
	prefix  string          // what every match begins with
	pattern *gobwas.Pattern // nil: the prefix is the whole name
}

// maxAlternatives bounds what braces may multiply to, maxStars what matching
// one name may cost.
const (
	maxAlternatives = 128
	maxStars        = 6
)

func compileGlob(text string) (*glob, error) {
	if text == "" {
		return nil, errors.New("empty pattern; leave it out, or write *")
	}
	if len(text) > 4*MaxName || !utf8.ValidString(text) {
		return nil, errors.New("pattern too long, or not UTF-8")
	}
	if strings.Contains(text, `\`) {
		return nil, errors.New(`\ is not supported; write [*] for a literal star`)
	}
	if err := checkClasses(text); err != nil {
		return nil, err
	}
	expanded, err := expand(text)
	if err != nil {
		return nil, err
	}
	g := &glob{text: text, alts: make([]alternative, len(expanded))}
	for i, s := range expanded {
		if g.alts[i], err = compileAlternative(s); err != nil {
			return nil, err
		}
	}
	return g, nil
}

// String returns the pattern as written, empty for one that matches everything.
func (g *glob) String() string {
	if g == nil {
		return ""
	}
	return g.text
}

// match reports whether the whole name matches.
func (g *glob) match(name string) bool {
	if g == nil {
		return true
	}
	for _, a := range g.alts {
		if a.match(name) {
			return true
		}
	}
	return false
}

func (a alternative) match(name string) bool {
	if a.pattern == nil {
		return name == a.prefix
	}
	return a.pattern.Match(name)
}

func matchAny(globs []*glob, name string) bool {
	return slices.ContainsFunc(globs, func(g *glob) bool { return g.match(name) })
}

// expand writes out the first braces and, recursively, the rest.
func expand(s string) ([]string, error) {
	from := strings.IndexAny(s, "{}")
	if from < 0 {
		return []string{s}, nil
	}
	parts, to := split(s[from:])
	if to < 0 {
		return nil, fmt.Errorf("unmatched %q", s[from])
	}
	var all []string
	for _, part := range parts {
		// from+to is behind the closing brace, so every round has one pair less.
		more, err := expand(s[:from] + part + s[from+to:])
		if err != nil {
			return nil, err
		}
		if all = append(all, more...); len(all) > maxAlternatives {
			return nil, fmt.Errorf("braces make more than %d alternatives; write several rules", maxAlternatives)
		}
	}
	return all, nil
}

// split returns the parts of the braces that s begins with, and where they end;
// -1 if they do not.
func split(s string) (parts []string, end int) {
	depth, start := 0, 1
	for i := range len(s) {
		switch c := s[i]; {
		case c == '{':
			depth++
		case c == ',' && depth == 1:
			parts, start = append(parts, s[start:i]), i+1
		case c == '}' && depth == 1:
			return append(parts, s[start:i]), i + 1
		case c == '}':
			depth--
		}
		if depth < 1 { // s begins with a closing brace
			break
		}
	}
	return nil, -1
}

func compileAlternative(s string) (alternative, error) {
	if strings.Count(s, "*") > maxStars {
		return alternative{}, fmt.Errorf("more than %d stars", maxStars)
	}
	meta := strings.IndexAny(s, "*?[")
	if meta < 0 {
		return alternative{prefix: s}, nil
	}
	p, err := gobwas.Compile(s)
	return alternative{prefix: s[:meta], pattern: p}, err
}

// checkClasses refuses every [class] that is not one range or a plain list.
func checkClasses(s string) error {
	for {
		open := strings.IndexAny(s, "[]")
		if open < 0 {
			return nil
		}
		end := strings.IndexByte(s[open:], ']')
		if s[open] == ']' || end < 0 {
			return fmt.Errorf("unmatched %q", s[open])
		}
		if err := checkClass(s[open+1 : open+end]); err != nil {
			return err
		}
		s = s[open+end+1:]
	}
}

func checkClass(class string) error {
	if strings.HasPrefix(class, "^") {
		return errors.New("[^…] is not supported; write [!…]")
	}
	chars := []rune(strings.TrimPrefix(class, "!"))
	switch {
	case len(chars) == 0:
		return errors.New("empty [] class")
	case strings.ContainsAny(class, "[{,}"):
		return errors.New("[ { , } cannot be inside a class")
	case len(chars) == 3 && chars[1] == '-':
		if chars[0] > chars[2] {
			return fmt.Errorf("[%s] runs backwards", class)
		}
	case slices.Contains(chars[1:], '-'):
		return errors.New("a class is one range [a-z], or characters [abc] with any - first; write several as {[a-z],[0-9]}")
	}
	return nil
}
