package store

import (
	"io/fs"
	"regexp"
	"strings"
	"testing"
)

// maxLua is how much Lua there may be, blank lines aside: it is what a reviewer
// must read to believe the store.
const maxLua = 800

func TestScriptsSayWhatTheyDoAndStaySmall(t *testing.T) {
	t.Parallel()
	files, err := fs.Glob(luaFS, "lua/*.lua")
	if err != nil {
		t.Fatal(err)
	}
	lines := 0
	for _, file := range files {
		name := strings.TrimPrefix(file, "lua/")
		src := source(strings.TrimSuffix(name, ".lua"))
		for line := range strings.Lines(src) {
			if strings.TrimSpace(line) != "" {
				lines++
			}
			if n := len([]rune(line)); n > 121 {
				t.Errorf("%s: a line of %d characters", name, n)
			}
		}
		head, _, _ := strings.Cut(src, "\n\n")
		wants := []string{`^-- ` + regexp.QuoteMeta(name) + `\b`, `(?m)^-- ARGV  `}
		if !strings.HasPrefix(name, "prelude") {
			wants = append(wants, `(?m)^-- \{OK`)
		}
		for _, want := range wants {
			if !regexp.MustCompile(want).MatchString(head) {
				t.Errorf("%s: its first comment lacks %s", name, want)
			}
		}
		for _, code := range codes(src) {
			if !strings.Contains(head, code) && !strings.Contains(source("prelude"), "--   "+code) {
				t.Errorf("%s: returns %s, which its first comment does not name", name, code)
			}
		}
	}
	if lines > maxLua {
		t.Errorf("%d lines of Lua, want at most %d", lines, maxLua)
	}
}

func TestEveryCodeOfAScriptIsMapped(t *testing.T) {
	t.Parallel()
	files, err := fs.Glob(luaFS, "lua/*.lua")
	if err != nil {
		t.Fatal(err)
	}
	returned := map[string]bool{}
	for _, file := range files {
		if strings.HasSuffix(file, "/probe.lua") {
			continue // Open tells those itself
		}
		for _, code := range codes(source(strings.TrimSuffix(strings.TrimPrefix(file, "lua/"), ".lua"))) {
			returned[code] = true
			if _, ok := refusals[code]; !ok && code != "CLOSED" && code != "MOVED" {
				t.Errorf("%s returns %s, which nothing maps to an error", file, code)
			}
		}
	}
	for code, e := range refusals {
		if !returned[code] {
			t.Errorf("no script returns %s", code)
		}
		if e.Kind == 0 || e.Reason == "" || e.Public == "" {
			t.Errorf("%s is mapped to %+v, which says too little", code, e)
		}
	}
}

var codeForm = regexp.MustCompile(`\{'([A-Z]+)'`)

func codes(src string) []string {
	var out []string
	for _, m := range codeForm.FindAllStringSubmatch(src, -1) {
		if m[1] != "OK" {
			out = append(out, m[1])
		}
	}
	return out
}
