package execute_test

import (
	"encoding/json"
	"testing"

	"github.com/approvalbot/approvalbot/bot/execute"
)

// FuzzSaysError: an object that encoding/json can read says error exactly if one of
// its members does, and nothing makes the reader fall over.
func FuzzSaysError(f *testing.F) {
	for _, seed := range []string{`{"error":"no"}`, `{"isError":true}`, `{"error":null}`, `{"a":{"error":1}}`, `[`, `{"error"`, "{\xff"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, answer []byte) {
		got := execute.SaysError(answer)
		var all map[string]json.RawMessage
		if json.Unmarshal(answer, &all) != nil || all == nil {
			return
		}
		value, has := all["error"]
		want := has && string(value) != "null" && string(value) != "false" && string(value) != "0" && string(value) != `""`
		if want = want || string(all["isError"]) == "true"; want && !got {
			t.Errorf("%q is an error", answer)
		}
	})
}
