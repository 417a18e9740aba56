package slacktest

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// args are the arguments of a call: what is nested is JSON.
type args map[string]string

// maxBody is more than any call needs.
const maxBody = 1 << 20

// readArgs makes one kind of arguments from a form and from JSON: strings, where
// what is nested is JSON again. The query is not looked at.
func readArgs(r *http.Request) (args, error) {
	kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	raw, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	switch {
	case err != nil:
		return args{}, refuse("request_timeout")
	case r.Method != http.MethodPost:
		return args{}, refuse("invalid_post_type")
	case kind == "application/json":
		return jsonArgs(raw)
	case kind == "application/x-www-form-urlencoded":
		return formArgs(raw)
	case kind == "" && len(raw) > 0:
		return args{}, refuse("missing_post_type")
	case len(raw) > 0:
		return args{}, refuse("invalid_post_type")
	}
	return args{}, nil
}

func formArgs(raw []byte) (args, error) {
	a := args{}
	form, err := url.ParseQuery(string(raw))
	if err != nil {
		return a, refuse("invalid_form_data")
	}
	for k := range form {
		a[k] = form.Get(k)
	}
	return a, nil
}

func jsonArgs(raw []byte) (args, error) {
	a, fields := args{}, map[string]json.RawMessage{}
	if len(raw) == 0 {
		return a, nil
	}
	if !json.Valid(raw) {
		return a, refuse("invalid_json")
	}
	if json.Unmarshal(raw, &fields) != nil {
		return a, refuse("json_not_object")
	}
	for k, v := range fields {
		var text string
		switch {
		case string(v) == "null":
		case json.Unmarshal(v, &text) == nil:
			a[k] = text
		default:
			a[k] = string(v)
		}
	}
	return a, nil
}

// has tells an empty argument, which may clear something, from none.
func (a args) has(key string) bool { _, ok := a[key]; return ok }

func (a args) truth(key string) bool { return a[key] == "true" || a[key] == "1" }
