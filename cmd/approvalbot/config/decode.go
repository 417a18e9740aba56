package config

import (
	"bytes"
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/approvalbot/approvalbot/gate/secret"
)

// decoder fills Go values from a YAML document and goes on after a mistake, so
// that all of them are reported at once. It knows what the config types need:
// structs, maps with text keys, lists, texts, integers, booleans, and types that
// read themselves. What YAML has beyond that (anchors, aliases, merge keys,
// tags, several documents) is refused: a policy should mean what it says where
// it says it.
type decoder struct {
	problems []Problem
	at       map[string]place               // of everything that was seen, by path
	text     func(path, text string) string // what every text becomes; nil: itself
	secret   func(path, text string) string // what every secret becomes
}

// place is a position in a file, both from 1; the zero value is none.
type place struct{ line, col int }

func placeOf(n ast.Node) place {
	switch m := n.(type) { // their own token is the first colon
	case *ast.MappingNode:
		if !m.IsFlowStyle && len(m.Values) > 0 {
			n = m.Values[0].Key
		}
	case *ast.MappingValueNode:
		n = m.Key
	}
	if t := n.GetToken(); t != nil && t.Position != nil {
		return place{t.Position.Line, t.Position.Column}
	}
	return place{1, 1}
}

func (d *decoder) bad(path string, at place, format string, args ...any) {
	d.problems = append(d.problems, Problem{Line: at.line, Col: at.col, Path: path, Text: fmt.Sprintf(format, args...)})
}

// document decodes a whole file into v, a pointer. An empty one leaves v alone.
func (d *decoder) document(src []byte, v any) {
	d.at = map[string]place{"": {1, 1}}
	src = bytes.TrimPrefix(src, []byte("\ufeff"))
	file, err := parser.ParseBytes(src, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		d.syntax(err)
		return
	}
	docs := slices.DeleteFunc(file.Docs, func(doc *ast.DocumentNode) bool { return doc.Body == nil })
	switch {
	case len(docs) == 0:
	case len(docs) > 1:
		d.bad("", placeOf(docs[1].Body), "a second document or a directive; want one document")
	case docs[0].Body.Type() != ast.NullType:
		d.value("", docs[0].Body, reflect.ValueOf(v).Elem())
	}
}

func (d *decoder) syntax(err error) {
	at, text := place{1, 1}, err.Error()
	if e, ok := errors.AsType[yaml.Error](err); ok {
		text = e.GetMessage()
		if t := e.GetToken(); t != nil && t.Position != nil {
			at = place{t.Position.Line, t.Position.Column}
		}
	}
	d.bad("", at, "not YAML: %s", text)
}

// value decodes one node.
func (d *decoder) value(path string, n ast.Node, v reflect.Value) {
	if d.at[path] == (place{}) || isScalar(n) {
		d.at[path] = placeOf(n)
	}
	if d.refused(path, n) {
		return
	}
	if v.Kind() == reflect.Pointer {
		p := reflect.New(v.Type().Elem())
		d.value(path, n, p.Elem())
		v.Set(p)
		return
	}
	switch self := v.Addr().Interface().(type) {
	case *secret.String:
		text, _ := textOf(n)
		*self = secret.New(d.secret(path, text))
		return
	case yaml.InterfaceUnmarshaler:
		if err := self.UnmarshalYAML(func(to any) error { return decodeOne(n, to) }); err != nil {
			d.bad(path, d.at[path], "%s", err)
		}
		return
	case encoding.TextUnmarshaler:
		if text, ok := textOf(n); ok {
			if err := self.UnmarshalText([]byte(text)); err != nil {
				d.bad(path, d.at[path], "%s", err)
			}
			return
		}
	}
	switch v.Kind() {
	case reflect.Struct:
		d.mapping(path, n, v, d.field)
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		d.mapping(path, n, v, d.entry)
	case reflect.Slice:
		d.list(path, n, v)
	case reflect.Interface:
		d.anything(path, n, v)
	default:
		d.plain(path, n, v)
	}
}

func isScalar(n ast.Node) bool {
	_, ok := n.(ast.ScalarNode)
	return ok && n.Type() != ast.NullType
}

// decodeOne is what a type that reads itself is given.
func decodeOne(n ast.Node, to any) error {
	d := decoder{at: map[string]place{}}
	d.value("", n, reflect.ValueOf(to).Elem())
	if len(d.problems) > 0 {
		return errors.New(d.problems[0].Text)
	}
	return nil
}

// anything decodes what no type says more about.
func (d *decoder) anything(path string, n ast.Node, v reflect.Value) {
	switch n := n.(type) {
	case *ast.SequenceNode:
		items := []any{}
		d.list(path, n, reflect.ValueOf(&items).Elem())
		v.Set(reflect.ValueOf(items))
	case ast.ScalarNode:
		v.Set(reflect.ValueOf(n.GetValue()))
	default:
		entries := map[string]any{}
		d.mapping(path, n, reflect.ValueOf(entries), d.entry)
		v.Set(reflect.ValueOf(entries))
	}
}

// refused reports nodes that no value may be.
func (d *decoder) refused(path string, n ast.Node) bool {
	switch n.Type() {
	case ast.AnchorType, ast.AliasType, ast.MergeKeyType:
		d.bad(path, placeOf(n), "anchors, aliases and merge keys are not read; write it out")
	case ast.TagType:
		d.bad(path, placeOf(n), "tags are not read; put a text in quotes")
	case ast.NullType:
		d.bad(path, d.at[path], "no value; give one or take the key out")
	default:
		return false
	}
	return true
}

func textOf(n ast.Node) (string, bool) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	}
	return "", false
}

func (d *decoder) plain(path string, n ast.Node, v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		if text, ok := textOf(n); ok {
			if d.text != nil {
				text = d.text(path, text)
			}
			v.SetString(text)
			return
		}
		d.bad(path, d.at[path], "want a text; put it in quotes if it is meant to be one")
	case reflect.Bool:
		if b, ok := n.(*ast.BoolNode); ok {
			v.SetBool(b.Value)
			return
		}
		d.bad(path, d.at[path], "want true or false")
	case reflect.Int:
		if i, ok := n.(*ast.IntegerNode); ok {
			if u, ok := i.Value.(uint64); ok && u < 1<<31 {
				v.SetInt(int64(u))
				return
			}
		}
		d.bad(path, d.at[path], "want a whole number that is not negative")
	default:
		panic("config: no way to read a " + v.Type().String())
	}
}

func (d *decoder) list(path string, n ast.Node, v reflect.Value) {
	seq, ok := n.(*ast.SequenceNode)
	if !ok {
		d.bad(path, d.at[path], "want a list, like [a, b]")
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(seq.Values), len(seq.Values)))
	for i, item := range seq.Values {
		d.value(fmt.Sprintf("%s[%d]", path, i), item, v.Index(i))
	}
}

// mapping hands each key and its value to each, once.
func (d *decoder) mapping(path string, n ast.Node, v reflect.Value, each func(path, key string, kv *ast.MappingValueNode, v reflect.Value)) {
	var values []*ast.MappingValueNode
	switch n := n.(type) {
	case *ast.MappingNode:
		values = n.Values
	case *ast.MappingValueNode:
		values = []*ast.MappingValueNode{n}
	default:
		d.bad(path, d.at[path], "want keys and values")
		return
	}
	seen := map[string]bool{}
	for _, kv := range values {
		at := placeOf(kv.Key)
		name, ok := kv.Key.(*ast.StringNode)
		switch {
		case d.refused(path, kv.Key):
		case !ok || strings.TrimSpace(name.Value) == "":
			d.bad(path, at, "want a text as key; put it in quotes if it is meant to be one")
		case seen[name.Value]:
			d.bad(join(path, name.Value), at, "the key %q is here already", name.Value)
		default:
			seen[name.Value] = true
			d.at[join(path, name.Value)] = at
			each(path, name.Value, kv, v)
		}
	}
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// field decodes into the field of struct v that is named key.
func (d *decoder) field(path, key string, kv *ast.MappingValueNode, v reflect.Value) {
	fields := fieldsOf(v.Type())
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.name
		if f.name == key {
			d.value(join(path, key), kv.Value, v.FieldByIndex(f.index))
			return
		}
	}
	fix := "want one of " + strings.Join(names, ", ")
	if near := nearest(key, names); near != "" {
		fix = fmt.Sprintf("did you mean %q?", near)
	}
	d.bad(join(path, key), d.at[join(path, key)], "no such key; %s", fix)
}

// entry adds one entry to map v.
func (d *decoder) entry(path, key string, kv *ast.MappingValueNode, v reflect.Value) {
	item := reflect.New(v.Type().Elem()).Elem()
	d.value(join(path, key), kv.Value, item)
	v.SetMapIndex(reflect.ValueOf(key), item)
}

type field struct {
	name  string
	index []int
}

// fieldsOf lists the keys of a struct; those of an embedded one are its own.
func fieldsOf(t reflect.Type) (all []field) {
	for _, f := range reflect.VisibleFields(t) {
		if name := f.Tag.Get("yaml"); !f.Anonymous && f.IsExported() && name != "-" {
			all = append(all, field{name, f.Index})
		}
	}
	return all
}

// nearest returns the name that key is most likely a slip of, if there is one.
func nearest(key string, names []string) (best string) {
	least := len(key)/3 + 1
	for _, name := range names {
		if d := distance(key, name); d <= least {
			best, least = name, d-1
		}
	}
	return best
}

// distance counts the letters to insert, drop or change to make b of a.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
