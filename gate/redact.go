package gate

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// parseRedact reads "args.password" or "args.*.token"; * is one level.
func parseRedact(text string) ([]string, bool) {
	path := strings.Split(text, ".")
	ok := len(path) > 1 && path[0] == "args"
	for _, step := range path {
		ok = ok && step != "" && (step == "*" || !strings.Contains(step, "*"))
	}
	return path[1:], ok
}

// overlap reports whether one of the paths leads to or through the other.
func overlap(a, b []string) bool {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] && a[i] != "*" && b[i] != "*" {
			return false
		}
	}
	return true
}

// Redacted returns arguments for display: the values that the rule redacts are
// replaced by a marker that says so and how long they are; everything else
// stays byte for byte. It is for people's eyes in every place, and must never
// reach an executor. Wrapping a value in lists does not uncover it.
func (r *Rule) Redacted(args json.RawMessage) json.RawMessage {
	if len(r.redact) == 0 || len(args) == 0 {
		return args
	}
	shown, err := redacted(args, r.redact)
	if err != nil || !json.Valid(args) { // better too little
		return mark(args)
	}
	return shown
}

// redacted replaces what the paths lead to, seen from raw.
func redacted(raw json.RawMessage, paths [][]string) (json.RawMessage, error) {
	if len(paths) == 0 {
		return raw, nil
	}
	if slices.ContainsFunc(paths, func(p []string) bool { return len(p) == 0 }) {
		return mark(raw), nil
	}
	if i := len(raw) - len(bytes.TrimLeft(raw, " \t\r\n")); i == len(raw) || raw[i] != '{' && raw[i] != '[' {
		return raw, nil
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	open, err := dec.Token()
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	copied := 0 // bytes of raw that are in out or replaced there
	for dec.More() {
		var inner [][]string
		if open == json.Delim('{') {
			key, err := dec.Token()
			if err != nil {
				return nil, err
			}
			inner = step(paths, key.(string))
		} else {
			inner = union(paths, step(paths, "*"))
		}
		var v json.RawMessage
		if err := dec.Decode(&v); err != nil {
			return nil, err
		}
		shown, err := redacted(v, inner)
		if err != nil {
			return nil, err
		}
		end := int(dec.InputOffset())
		out.Write(raw[copied : end-len(v)])
		out.Write(shown)
		copied = end
	}
	out.Write(raw[copied:])
	return out.Bytes(), nil
}

// step returns what is left of the paths that go on with key.
func step(paths [][]string, key string) (left [][]string) {
	for _, p := range paths {
		if len(p) > 0 && (p[0] == key || p[0] == "*") {
			left = append(left, p[1:])
		}
	}
	return left
}

// union keeps each path once: lists in lists must not multiply them.
func union(a, b [][]string) [][]string {
	all := slices.Clone(a)
	for _, p := range b {
		if !slices.ContainsFunc(all, func(q []string) bool { return slices.Equal(p, q) }) {
			all = append(all, p)
		}
	}
	return all
}

// mark is what is shown instead of a value.
func mark(raw json.RawMessage) json.RawMessage {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		s = string(raw)
	}
	n, plural := utf8.RuneCountInString(s), "s"
	if n == 1 {
		plural = ""
	}
	return json.RawMessage(fmt.Sprintf(`"[redacted, %d character%s]"`, n, plural))
}

var marked = regexp.MustCompile(`^\[redacted, [0-9]+ characters?\]$`)

// Covered reports whether a string of arguments for display stands for one that
// is redacted.
func Covered(value string) bool { return marked.MatchString(value) }

// covered returns what must not be repeated of an approval's arguments: each value
// that its rule redacts, as it reads and as JSON writes it. all says that nobody
// knows any more what the rule would cover.
func (g *Gate) covered(s *Snapshot) (values []string, all bool) {
	if s.Discretionary {
		return nil, false
	}
	for _, r := range g.policy.Load().Rules() {
		if r.Name == s.Rule {
			args, err := parseArgs(s.Call.RawArgs(), false)
			return spelled(leaves(args, r.redact, nil)), err != nil && len(r.redact) > 0
		}
	}
	return nil, true
}

// leaves collects what the paths lead to, seen from v. Wrapping a value in lists
// does not uncover it.
func leaves(v any, paths [][]string, found []any) []any {
	whole := slices.ContainsFunc(paths, func(p []string) bool { return len(p) == 0 })
	switch v := v.(type) {
	case map[string]any:
		for key, inner := range v {
			below := step(paths, key)
			if whole {
				below = [][]string{{}}
			}
			found = leaves(inner, below, found)
		}
	case []any:
		for _, inner := range v {
			found = leaves(inner, union(paths, step(paths, "*")), found)
		}
	default:
		if whole {
			found = append(found, v)
		}
	}
	return found
}

// leastSecret is how long a value is that can be told from other text.
const leastSecret = 4

// spelled returns the values as a tool may repeat them, long before short, so that
// none is left over because a part of it was covered first.
func spelled(values []any) (all []string) {
	for _, v := range values {
		plain := fmt.Sprint(v)
		b, _ := json.Marshal(v) // what was parsed can be written
		all = append(all, plain, strings.Trim(string(b), `"`))
	}
	all = slices.DeleteFunc(all, func(s string) bool { return utf8.RuneCountInString(s) < leastSecret })
	slices.SortFunc(all, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b)) })
	return slices.Compact(all)
}
