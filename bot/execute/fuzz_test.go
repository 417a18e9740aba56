package execute_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/approvalbot/approvalbot/bot/execute"
	"github.com/approvalbot/approvalbot/gate"
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

// FuzzArgv: an argument that is accepted is either itself, or nothing but a value that
// no program takes for an option.
func FuzzArgv(f *testing.F) {
	for _, seed := range []string{"{tool}", "{args.a}", "--x", "{{", "{args.a.b}", "{}", "a{tool}", "{args.}"} {
		f.Add(seed, "-x", "v")
	}
	path := self(f)
	f.Fuzz(func(t *testing.T, text, tool, value string) {
		raw, err := json.Marshal(map[string]any{"a": value, "b": map[string]string{"c": value}})
		if err != nil {
			return
		}
		argv, err := execute.Fill([]string{path, text}, &execute.Job{Call: gate.Call{Tool: tool, Args: raw}})
		if err != nil {
			return
		}
		if len(argv) != 2 || argv[0] != path || strings.ContainsRune(argv[1], 0) {
			t.Fatalf("%q becomes %q", text, argv)
		}
		if argv[1] != text && (!strings.HasPrefix(text, "{") || !strings.HasSuffix(text, "}") || argv[1] == "" || argv[1][0] == '-') {
			t.Errorf("%q becomes %q", text, argv[1])
		}
	})
}
