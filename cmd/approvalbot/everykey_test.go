package main

import (
	"encoding"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/approvalbot/approvalbot/cmd/approvalbot/config"
)

// keyRow shows that one key of the config file does something: what is seen of a
// program with one value of it is not what is seen with the other.
type keyRow struct {
	key  string
	a, b string // config files; see lab for what stands in them
	see  func(*lab) string
	seen [2]string // what must be seen with a and with b
}

// TestEveryKeyOfTheConfigChangesBehaviour: a key that is accepted is enforced.
// A new key fails here until a row shows what it does.
func TestEveryKeyOfTheConfigChangesBehaviour(t *testing.T) {
	t.Parallel()
	rows := slices.Concat(serverRows, storeRows, peopleRows, policyRows, ruleRows, chatRows, mattermostRows, executorRows, hookRows)
	var shown []string
	for _, row := range rows {
		shown = append(shown, row.key)
		t.Run(row.key, func(t *testing.T) {
			t.Parallel()
			for i, text := range []string{row.a, row.b} {
				got := row.see(newLab(t, text))
				if !strings.Contains(got, row.seen[i]) || i == 0 && strings.Contains(got, row.seen[1]) {
					t.Errorf("with\n%s\nit is %q, want %q", text, got, row.seen[i])
				}
			}
		})
	}
	keys := keysOf(reflect.TypeFor[config.Config](), "")
	for _, key := range keys {
		if !slices.Contains(shown, key) {
			t.Errorf("no row shows that %s does anything", key)
		}
	}
	for _, key := range shown {
		if !slices.Contains(keys, key) {
			t.Errorf("there is a row for %s, which is no key", key)
		}
	}
}

// keysOf lists the keys of a type by path: a.b, list[].c, map.*.d.
func keysOf(t reflect.Type, path string) (keys []string) {
	p := reflect.PointerTo(t)
	word := p.Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
	switch {
	case p.Implements(reflect.TypeFor[yaml.InterfaceUnmarshaler]()):
		return []string{path}
	case t.Kind() == reflect.Pointer:
		return keysOf(t.Elem(), path)
	case t.Kind() == reflect.Map:
		return keysOf(t.Elem(), path+".*")
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct:
		return keysOf(t.Elem(), path+"[]")
	case t.Kind() != reflect.Struct:
		return []string{path}
	}
	if word { // it may also be said in one word
		keys = append(keys, path)
	}
	for _, f := range reflect.VisibleFields(t) {
		if name := f.Tag.Get("yaml"); !f.Anonymous && f.IsExported() && name != "-" {
			keys = append(keys, keysOf(f.Type, strings.TrimPrefix(path+"."+name, "."))...)
		}
	}
	return keys
}
