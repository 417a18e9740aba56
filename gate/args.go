package gate

import (
	"bytes"
	"encoding/json"
	"errors"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/gowebpki/jcs"
)

// parseArgs reads arguments as strictly as their digest needs: one object, no
// duplicate keys, no damaged text, and every limit kept. A lenient reader could
// see another call than the tool does. Numbers become int64, uint64 or float64;
// with exact set, one that canonical JSON would change is refused.
func parseArgs(raw json.RawMessage, exact bool) (map[string]any, error) {
	if len(raw) > MaxArgs {
		return nil, badArgs("arguments: more than 256 KiB", nil)
	}
	if !utf8.Valid(raw) || !json.Valid(raw) || !pairedSurrogates(raw) {
		return nil, badArgs("arguments: not valid JSON", nil)
	}
	p := argParser{dec: json.NewDecoder(bytes.NewReader(raw)), exact: exact}
	p.dec.UseNumber()
	v, err := p.value(0)
	if err != nil {
		return nil, err
	}
	object, ok := v.(map[string]any)
	if !ok {
		return nil, badArgs("arguments: want one JSON object", nil)
	}
	return object, nil
}

type argParser struct {
	dec     *json.Decoder
	exact   bool
	members int
}

func (p *argParser) value(depth int) (any, error) {
	t, err := p.dec.Token()
	if err != nil {
		return nil, badArgs("arguments: not valid JSON", err)
	}
	switch t := t.(type) {
	case json.Delim:
		if depth == MaxDepth {
			return nil, badArgs("arguments: nested more than 64 deep", nil)
		}
		if t == '{' {
			return p.object(depth + 1)
		}
		return p.array(depth + 1)
	case json.Number:
		return p.number(string(t))
	default:
		return t, nil
	}
}

func (p *argParser) object(depth int) (any, error) {
	object := map[string]any{}
	for p.dec.More() {
		t, err := p.dec.Token()
		key, ok := t.(string)
		if err != nil || !ok {
			return nil, badArgs("arguments: not valid JSON", err)
		}
		if _, twice := object[key]; twice {
			return nil, badArgs("arguments: duplicate key", nil)
		}
		if p.members++; p.members > MaxMembers {
			return nil, badArgs("arguments: more than 10,000 members", nil)
		}
		if object[key], err = p.value(depth); err != nil {
			return nil, err
		}
	}
	_, err := p.dec.Token()
	return object, err
}

func (p *argParser) array(depth int) (any, error) {
	array := []any{}
	for p.dec.More() {
		v, err := p.value(depth)
		if err != nil {
			return nil, err
		}
		array = append(array, v)
	}
	_, err := p.dec.Token()
	return array, err
}

func (p *argParser) number(n string) (any, error) {
	if p.exact && !exactNumber(n) {
		return nil, errNotExact
	}
	if i, err := strconv.ParseInt(n, 10, 64); err == nil {
		return i, nil
	}
	if u, err := strconv.ParseUint(n, 10, 64); err == nil {
		return u, nil
	}
	f, err := strconv.ParseFloat(n, 64)
	if err != nil {
		return nil, errNotExact
	}
	return f, nil
}

var errNotExact error = &Error{
	Kind: Invalid, Reason: ReasonNumberNotExact, Op: "gate.Digest",
	Public: "arguments: a number that JSON readers round; send it as a string",
}

// exactNumber reports whether canonical JSON keeps the value of n. Its numbers
// are doubles: 9007199254740993 would become …992, and two calls one digest.
func exactNumber(n string) bool {
	if len(n) > 64 {
		return false
	}
	if i := strings.IndexAny(n, "eE"); i >= 0 { // a bound for big.Rat
		if e, err := strconv.Atoi(n[i+1:]); err != nil || e > 308 || e < -324 {
			return false
		}
	} else if len(n) <= 15 && !strings.Contains(n, ".") {
		return true
	}
	f, err := strconv.ParseFloat(n, 64)
	if err != nil {
		return false
	}
	canonical, err := jcs.NumberToJSON(f)
	if err != nil {
		return false
	}
	a, ok := new(big.Rat).SetString(n)
	b, ok2 := new(big.Rat).SetString(canonical)
	return ok && ok2 && a.Cmp(b) == 0
}

// pairedSurrogates reports whether every \ud800…\udfff escape is half of a pair;
// encoding/json would replace a lone one without a word.
func pairedSurrogates(raw []byte) bool {
	if !bytes.Contains(raw, []byte(`\ud`)) && !bytes.Contains(raw, []byte(`\uD`)) {
		return true
	}
	_, err := jcs.Transform(raw)
	return err == nil
}

func badArgs(public string, cause error) error {
	if e, ok := errors.AsType[*Error](cause); ok {
		return e
	}
	return &Error{Kind: Invalid, Reason: ReasonInvalidArguments, Op: "gate.Digest", Public: public, Err: cause}
}
