package execute

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// argument is one of a template. The zero value is an empty text.
type argument struct {
	text string
	from func(*Job) (string, error) // nil: text as it is
	name string                     // of what is filled in, for people
}

// maxValue is how long an argument that is filled in may be. Linux takes 128 KiB.
const maxValue = 64 << 10

// parseArgv reads a template and reports all that is wrong with it.
func parseArgv(texts []string) (all []argument, err error) {
	if len(texts) == 0 {
		return nil, errors.New("argv: want the whole path of a program, and its arguments")
	}
	if bad := checkProgram(texts[0]); bad != nil {
		err = fmt.Errorf("argv[0]: %w", bad)
	}
	all = []argument{{text: texts[0]}}
	for i, text := range texts[1:] {
		a, bad := parseArgument(text)
		if bad == nil && a.from != nil && isScript(texts[:i+1]) {
			bad = errors.New("a shell would run what the agent wrote; give it as an argument after the script")
		}
		if bad != nil {
			err = errors.Join(err, fmt.Errorf("argv[%d]: %w", i+1, bad))
		}
		all = append(all, a)
	}
	return all, err
}

var shells = []string{"sh", "bash", "dash", "zsh", "ksh", "busybox", "python", "python3", "perl", "ruby", "node"}

// isScript reports whether what follows these is a script: sh -c SCRIPT.
func isScript(before []string) bool {
	last := before[len(before)-1]
	return len(before) > 1 && slices.Contains(shells, filepath.Base(before[0])) && (last == "-c" || last == "-e")
}

// parseArgument reads one argument: a text without braces, or nothing but a name in
// braces. What is filled in is always a whole argument, so that it is plain what it
// can be taken for.
func parseArgument(text string) (argument, error) {
	if strings.ContainsRune(text, 0) {
		return argument{}, errors.New("no argument can hold a NUL")
	}
	if !strings.ContainsAny(text, "{}") {
		return argument{text: text}, nil
	}
	name, ok := strings.CutPrefix(text, "{")
	name, closed := strings.CutSuffix(name, "}")
	if !ok || !closed || strings.ContainsAny(name, "{}") {
		return argument{}, fmt.Errorf("%q: braces are for what is filled in, which is an argument of its own, like {tool} or {args.path}", text)
	}
	if path, ok := strings.CutPrefix(name, "args."); ok && !slices.Contains(strings.Split(path, "."), "") {
		return argument{name: name, from: func(j *Job) (string, error) { return lookUp(j.Call.RawArgs(), strings.Split(path, ".")) }}, nil
	}
	if get, ok := places[name]; ok {
		return argument{name: name, from: func(j *Job) (string, error) { return get(j), nil }}, nil
	}
	return argument{}, fmt.Errorf("%q: want {id}, {attempt}, {digest}, {server}, {tool}, {target} or {args.name}", text)
}

// places are what can be filled in besides arguments.
var places = map[string]func(*Job) string{
	"id":      func(j *Job) string { return string(j.ID) },
	"attempt": func(j *Job) string { return j.Attempt },
	"digest":  func(j *Job) string { return j.Digest.String() },
	"server":  func(j *Job) string { return j.Call.Server },
	"tool":    func(j *Job) string { return j.Call.Tool },
	"target":  func(j *Job) string { return j.Call.Target },
}

// fill makes the arguments of a call. Its error is a *Refusal.
func fill(template []argument, j *Job) ([]string, error) {
	argv := make([]string, len(template))
	for i, a := range template {
		if a.from == nil {
			argv[i] = a.text
			continue
		}
		value, err := a.from(j)
		if err == nil {
			err = harmless(value)
		}
		if err != nil {
			return nil, &Refusal{fmt.Sprintf("the command cannot be run: {%s} %s", a.name, err)}
		}
		argv[i] = value
	}
	return argv, nil
}

// harmless reports why a value is no argument: a program would take it for an
// option, or for none.
func harmless(value string) error {
	switch {
	case value == "":
		return errors.New("is empty")
	case strings.HasPrefix(value, "-"):
		return errors.New(`begins with "-", so that it could be taken for an option`)
	case strings.ContainsRune(value, 0):
		return errors.New("holds a NUL, which no argument can")
	case len(value) > maxValue:
		return fmt.Errorf("is longer than %d bytes", maxValue)
	}
	return nil
}

// lookUp returns a scalar of the arguments: a text, or a number or a boolean as it
// was written.
func lookUp(raw json.RawMessage, path []string) (string, error) {
	for _, name := range path {
		var object map[string]json.RawMessage
		if err := json.Unmarshal(raw, &object); err != nil {
			return "", errors.New("is not in the arguments")
		}
		inner, ok := object[name]
		if !ok {
			return "", errors.New("is not in the arguments")
		}
		raw = inner
	}
	var text string
	switch {
	case raw[0] == '"' && json.Unmarshal(raw, &text) == nil:
		return text, nil
	case raw[0] == '{', raw[0] == '[', string(raw) == "null":
		return "", errors.New("is no text, number or boolean")
	}
	return string(raw), nil
}
