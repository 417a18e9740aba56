package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
)

// strictJSON is the one format of requests and answers.
var strictJSON = huma.Format{
	Marshal:   func(w io.Writer, v any) error { return json.NewEncoder(w).Encode(v) },
	Unmarshal: unmarshal,
}

// notRead is for media types that are only written.
func notRead([]byte, any) error { return huma.ErrUnknownContentType }

// unmarshal reads JSON that every reader reads in the same way, or refuses it.
// encoding/json alone lets the last of two equal keys win, takes "CALL" for
// "call", and replaces damaged text: another reader could see another call.
func unmarshal(data []byte, v any) error {
	if err := strict(data); err != nil {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return malformed("the body has fields of other types than this route takes")
	}
	return nil
}

// fieldName is how all fields of the API are named. Other names cannot be told
// apart by every reader: encoding/json also folds case, and ſ into s.
var fieldName = regexp.MustCompile(`^[a-z][a-z0-9_]{0,63}$`)

// deepest is how deep a request nests outside of arguments.
const deepest = 8

// rawPath leads to the arguments of a call. They belong to the tool, so their
// names are free; the gate reads them as strictly by itself.
const rawPath = ".call.args"

// strict refuses a request that could be read in two ways.
func strict(data []byte) error {
	if !utf8.Valid(data) || !json.Valid(data) {
		return malformed("the body is not one JSON value in UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	return scan(dec, "", 0)
}

func scan(dec *json.Decoder, path string, depth int) error {
	if path == rawPath {
		var skipped json.RawMessage
		return dec.Decode(&skipped)
	}
	if depth > deepest {
		return malformed("the body is nested too deep")
	}
	token, err := dec.Token()
	if err != nil {
		return err
	}
	switch token := token.(type) {
	case string:
		// What stands for half a character in Go is refused as it is
		// decoded: other readers keep the half.
		if strings.ContainsRune(token, utf8.RuneError) {
			return malformed("the body has damaged text")
		}
	case json.Delim:
		if token == '{' {
			err = scanObject(dec, path, depth)
		} else {
			err = scanArray(dec, path, depth)
		}
		if err == nil {
			_, err = dec.Token() // its end
		}
	}
	return err
}

func scanObject(dec *json.Decoder, path string, depth int) error {
	seen := map[string]bool{}
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return err
		}
		name, _ := token.(string)
		if !fieldName.MatchString(name) {
			return malformed("the body has a field that no route has; all names are in lower case")
		}
		if seen[name] {
			return malformed("the body has a field twice")
		}
		seen[name] = true
		if err := scan(dec, path+"."+name, depth+1); err != nil {
			return err
		}
	}
	return nil
}

func scanArray(dec *json.Decoder, path string, depth int) error {
	for dec.More() {
		if err := scan(dec, path+"[]", depth+1); err != nil {
			return err
		}
	}
	return nil
}

func malformed(public string) error { return errors.New(public) }
