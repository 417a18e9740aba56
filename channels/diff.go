package channels

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/aymanbagabas/go-udiff"

	"github.com/approvalbot/approvalbot/gate"
)

// edited are the names under which tools say what a text was and what it becomes.
var edited = [][2]string{
	{"old_string", "new_string"},
	{"old_str", "new_str"},
	{"old_text", "new_text"},
	{"oldText", "newText"},
	{"old", "new"},
	{"before", "after"},
	{"original", "updated"},
}

// Limits of what is compared: beyond them only the arguments are shown.
const (
	maxEdits     = 5
	maxEditBytes = 64 << 10 // of each side
	maxEditLines = 5000     // of each side
)

// Diff returns how arguments, as people may see them, change texts: a unified diff
// of the first few pairs of strings that are named like an old and a new one, in
// the order of the arguments. Everything in it is visible, line by line. It is empty
// if there is nothing to compare, and what is covered is not compared.
func Diff(args json.RawMessage) string {
	if !json.Valid(args) {
		return ""
	}
	var d differ
	d.walk(args)
	return strings.TrimSuffix(strings.Join(d.found, ""), "\n")
}

// differ collects diffs.
type differ struct {
	found []string
}

// walk looks for pairs in a JSON value, outer ones first.
func (d *differ) walk(raw json.RawMessage) {
	raw = bytes.TrimLeft(raw, " \t\r\n")
	if len(d.found) == maxEdits || len(raw) == 0 || raw[0] != '{' && raw[0] != '[' {
		return
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	_, _ = dec.Token() // the JSON is valid, so nothing here fails
	var inner []json.RawMessage
	texts := map[string]string{}
	for dec.More() {
		key := ""
		if raw[0] == '{' {
			t, _ := dec.Token()
			key, _ = t.(string)
		}
		var v json.RawMessage
		_ = dec.Decode(&v)
		inner = append(inner, v)
		if raw[0] == '{' && named(key) && bytes.HasPrefix(v, []byte(`"`)) {
			var text string
			_ = json.Unmarshal(v, &text)
			texts[key] = text
		}
	}
	for _, names := range edited {
		d.compare(names, texts)
	}
	for _, v := range inner {
		d.walk(v)
	}
}

func named(key string) bool {
	return slices.ContainsFunc(edited, func(names [2]string) bool { return names[0] == key || names[1] == key })
}

// compare adds the diff of two texts, if both are there and there is one.
func (d *differ) compare(names [2]string, texts map[string]string) {
	old, had := texts[names[0]]
	now, has := texts[names[1]]
	if !had || !has || len(d.found) == maxEdits || tooLong(old) || tooLong(now) || gate.Covered(old) || gate.Covered(now) {
		return
	}
	if !strings.HasSuffix(old, "\n") && !strings.HasSuffix(now, "\n") { // else it is said twice that none is there
		old, now = old+"\n", now+"\n"
	}
	// It looks for the fewest differences up to a hundred; what is beyond them it
	// takes for wholly changed, so that no text costs much time.
	unified, err := udiff.ToUnified(names[0], names[1], old, udiff.Lines(old, now), udiff.DefaultContextLines)
	if err != nil || unified == "" {
		return
	}
	d.found = append(d.found, inert(unified))
}

func tooLong(text string) bool {
	return len(text) > maxEditBytes || strings.Count(text, "\n") > maxEditLines
}

// noNewline is no line of a text: those have a character before them.
const noNewline = `\ No newline at end of file`

// inert makes each line of a diff visible. The first character of a line says what
// kind it is, so that no text can pretend to be another kind.
func inert(unified string) string {
	var b strings.Builder
	for line := range strings.Lines(unified) {
		if line = strings.TrimSuffix(line, "\n"); line != noNewline {
			line = gate.Visible(line)
		}
		fmt.Fprintln(&b, line)
	}
	return b.String()
}
