package api

import (
	"bytes"
	"encoding/json"
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/approvalbot/approvalbot/bot/wire"
)

func TestStrictRefusesWhatReadersReadInDifferentWays(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		body string
		ok   bool
	}{
		"a plain call, with its arguments":        {`{"call":{"tool":"x","args":{"a":1}},"requester":{}}`, true},
		"white space around the document":         {" \n{\"call\":{\"tool\":\"x\"},\"requester\":{}}\t", true},
		"an escaped name of a field is that name": {`{"c\u0061ll":{"tool":"x"},"requester":{}}`, true},
		"other names in the arguments":            {`{"call":{"tool":"x","args":{"A":1,"a":2,"ſ":3,"":4}},"requester":{}}`, true},
		"a field twice":                           {`{"call":{"tool":"x"},"call":{"tool":"y"},"requester":{}}`, false},
		"a field twice, further in":               {`{"call":{"tool":"x","tool":"y"},"requester":{}}`, false},
		"the arguments twice":                     {`{"call":{"tool":"x","args":{},"args":{"a":1}},"requester":{}}`, false},
		"a field twice, once escaped":             {`{"call":{"tool":"x","t\u006fol":"y"},"requester":{}}`, false},
		"a field in another case":                 {`{"CALL":{"tool":"x"},"requester":{}}`, false},
		"a field in two cases":                    {`{"call":{"tool":"x","Tool":"y"},"requester":{}}`, false},
		"a long s, which Go folds into s":         {`{"call":{"tool":"x","ſerver":"y"},"requester":{}}`, false},
		"a Kelvin sign, which Go folds into k":    {`{"call":{"tool":"x"},"requester":{},"to\u212aen":"y"}`, false},
		"an unknown field":                        {`{"call":{"tool":"x"},"requester":{},"tokn":"y"}`, false},
		"something behind":                        {`{"call":{"tool":"x"},"requester":{}}{}`, false},
		"half a character":                        {`{"call":{"tool":"x\ud800"},"requester":{}}`, false},
		"a byte that is not UTF-8":                {"{\"call\":{\"tool\":\"x\xff\"},\"requester\":{}}", false},
		"arguments elsewhere":                     {`{"args":{"A":1},"call":{"tool":"x"},"requester":{}}`, false},
		"a comment":                               {`{/**/"call":{"tool":"x"},"requester":{}}`, false},
		"too deep":                                {`{"call":` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + `}`, false},
		"a list":                                  {`[]`, false},
		"another type":                            {`{"call":{"tool":1},"requester":{}}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var r wire.CheckRequest
			if err := unmarshal([]byte(tt.body), &r); (err == nil) != tt.ok {
				t.Errorf("unmarshal = %v; want ok %v", err, tt.ok)
			}
		})
	}
}

// FuzzStrict looks for a body that is taken, though a reader that lets the first
// of two equal fields win, or that minds case, would read something else.
func FuzzStrict(f *testing.F) {
	for _, seed := range []string{
		`{"call":{"server":"s","tool":"x","target":"t","args":{"a":[1,"\u0041",{"b":null}]}},"requester":{"agent":"a","attended":true}}`,
		`{"call":{"tool":"x","args_b64":"e30="},"requester":{},"origin":{"place":"p"},"token":"t","will_report":false}`,
		`{"call":{"tool":"x","Tool":"y"},"requester":{}}`, `{"call":{"tool":"x"},"call":{"tool":"y"}}`, `{"ſ":1}`, `{"call":{"tool":"\ud83d\ude00"}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var got wire.CheckRequest
		if unmarshal(body, &got) != nil {
			return
		}
		first, err := readFirst(json.NewDecoder(bytes.NewReader(body)))
		if err != nil {
			t.Fatalf("taken, but not JSON: %v", err)
		}
		object, ok := first.(map[string]any)
		if !ok {
			if first == nil {
				return
			}
			t.Fatalf("taken, but no object: %s", body)
		}
		if call, ok := object["call"].(map[string]any); ok {
			sameText(t, call, "tool", got.Call.Tool)
			sameText(t, call, "server", got.Call.Server)
			sameText(t, call, "target", got.Call.Target)
			sameArgs(t, body, call, got.Call.Args)
		} else if !reflect.DeepEqual(got.Call, wire.Call{}) {
			t.Fatalf("a call that is not there: %+v", got.Call)
		}
		sameText(t, object, "token", got.Token)
		sameText(t, object, "idempotency_key", got.IdempotencyKey)
	})
}

func sameText(t *testing.T, object map[string]any, field, got string) {
	t.Helper()
	if want, _ := object[field].(string); want != got {
		t.Fatalf("%s: we read %q, another reader %q", field, got, want)
	}
}

// sameArgs checks that the arguments are bytes of the body, and those of the field.
func sameArgs(t *testing.T, body []byte, call map[string]any, got json.RawMessage) {
	t.Helper()
	want, given := call["args"]
	if !given && got == nil {
		return
	}
	if !bytes.Contains(body, got) {
		t.Fatalf("arguments %s were changed on the way from %s", got, body)
	}
	again, err := readFirst(json.NewDecoder(bytes.NewReader(got)))
	if err != nil || !reflect.DeepEqual(again, want) {
		t.Fatalf("arguments: we read %v, another reader %v", again, want)
	}
}

// readFirst reads a value as a reader does that keeps the first of equal fields.
func readFirst(dec *json.Decoder) (any, error) {
	token, err := dec.Token()
	if err != nil {
		return nil, err
	}
	switch token {
	case json.Delim('{'):
		object := map[string]any{}
		for dec.More() {
			name, err := dec.Token()
			if err != nil {
				return nil, err
			}
			value, err := readFirst(dec)
			if err != nil {
				return nil, err
			}
			if _, twice := object[name.(string)]; !twice {
				object[name.(string)] = value
			}
		}
		_, err = dec.Token()
		return object, ignoreEOF(err)
	case json.Delim('['):
		list := []any{}
		for dec.More() {
			value, err := readFirst(dec)
			if err != nil {
				return nil, err
			}
			list = append(list, value)
		}
		_, err = dec.Token()
		return list, ignoreEOF(err)
	}
	return token, nil
}

func ignoreEOF(err error) error {
	if err == io.EOF { //nolint:errorlint // the sentinel itself
		return nil
	}
	return err
}
