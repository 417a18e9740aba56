package execute

import (
	"bytes"
	"encoding/json"
	"slices"
)

// saysError reports whether what a tool answered is a JSON object that says of
// itself that it is an error: {"error": …} or {"isError": true}. An error of null,
// false, 0 or "" is none. Of an object that was cut off, what came is looked at.
func saysError(answer []byte) bool {
	d := json.NewDecoder(bytes.NewReader(answer))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return false
	}
	for d.More() {
		name, err := d.Token()
		var value json.RawMessage
		if err != nil || d.Decode(&value) != nil {
			return false
		}
		if name == "error" && !slices.Contains(noError, string(value)) || name == "isError" && string(value) == "true" {
			return true
		}
	}
	return false
}

var noError = []string{"null", "false", "0", `""`}
