package channels_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"github.com/approvalbot/approvalbot/channels"
)

func TestDiff(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ args, want string }{
		"a changed line":                      {`{"old_string":"a\nb\nc\n","new_string":"a\nB\nc\n"}`, "--- old_string\n+++ new_string\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n"},
		"texts that end without a line's end": {`{"old":"a","new":"b"}`, "--- old\n+++ new\n@@ -1 +1 @@\n-a\n+b\n"},
		"a line's end that is new":            {`{"old":"a","new":"a\n"}`, "--- old\n+++ new\n@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n"},
		"a text that is made":                 {`{"before":"","after":"a\n"}`, "--- before\n+++ after\n@@ -0,0 +1 @@\n+a\n"},
		"a text that is emptied":              {`{"oldText":"a\n","newText":""}`, "--- oldText\n+++ newText\n@@ -1 +0,0 @@\n-a\n"},
		"the order of keys does not matter":   {`{"new_str":"b\n","x":1,"old_str":"a\n"}`, "--- old_str\n+++ new_str\n@@ -1 +1 @@\n-a\n+b\n"},
		"deep inside, in order":               {`{"edits":[{"old_text":"a","new_text":"b"},{"e":{"original":"c","updated":"d"}}]}`, "--- old_text\n+++ new_text\n@@ -1 +1 @@\n-a\n+b\n--- original\n+++ updated\n@@ -1 +1 @@\n-c\n+d\n"},
		"nothing hides in a line":             {`{"old":"a","new":"\u202e\u200b\r\t\\\u00a0"}`, "--- old\n+++ new\n@@ -1 +1 @@\n-a\n+\\u202e\\u200b\\r\\t\\\\\\u00a0\n"},
		"no text can be a head":               {`{"old":"-- a\n@@ -9 +9 @@\n\\ No newline at end of file","new":"++ b"}`, "--- old\n+++ new\n@@ -1,3 +1 @@\n--- a\n-@@ -9 +9 @@\n-\\\\ No newline at end of file\n+++ b\n"},
		"the same text":                       {`{"old":"a","new":"a"}`, ""},
		"half a pair":                         {`{"old":"a","new_string":"b"}`, ""},
		"what is no text":                     {`{"old":1,"new":"b"}`, ""},
		"pairs of two objects":                {`{"a":{"old":"a"},"b":{"new":"b"}}`, ""},
		"what is covered":                     {`{"old":"[redacted, 6 characters]","new":"b"}`, ""},
		"what will be covered":                {`{"old":"a","new":"[redacted, 1 character]"}`, ""},
		"what is too long":                    {fmt.Sprintf(`{"old":%q,"new":"b"}`, strings.Repeat("a", 65<<10)), ""},
		"what has too many lines":             {fmt.Sprintf(`{"old":%q,"new":"b"}`, strings.Repeat("a\n", 5001)), ""},
		"no more than five":                   {`[` + strings.Repeat(`{"old":"a","new":"b"},`, 8) + `{}]`, strings.Repeat("--- old\n+++ new\n@@ -1 +1 @@\n-a\n+b\n", 5)},
		"no JSON":                             {`{"old":"a","new":"b"`, ""},
		"nothing at all":                      {``, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(strings.TrimSuffix(tt.want, "\n"), channels.Diff(json.RawMessage(tt.args))); diff != "" {
				t.Errorf("Diff (-want +got):\n%s", diff)
			}
		})
	}
}

// TestADiffOfUnlikeTextsIsOne has so many differences that looking for the fewest
// would take minutes; the diff is still one that leads from the one to the other.
func TestADiffOfUnlikeTextsIsOne(t *testing.T) {
	t.Parallel()
	var old, now strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&old, "a%d\n", i%977)
		fmt.Fprintf(&now, "b%d\n", i%911)
	}
	args, err := json.Marshal(map[string]string{"old": old.String(), "new": now.String()})
	if err != nil {
		t.Fatal(err)
	}
	before, after := "", ""
	for line := range strings.Lines(channels.Diff(args) + "\n") {
		switch {
		case strings.HasPrefix(line, "---"), strings.HasPrefix(line, "+++"), strings.HasPrefix(line, "@@"):
		case line[0] == '-':
			before += line[1:]
		case line[0] == '+':
			after += line[1:]
		default:
			before, after = before+line[1:], after+line[1:]
		}
	}
	if before != old.String() || after != now.String() {
		t.Error("the diff leads from another text, or to another")
	}
}

func FuzzDiffHidesNothing(f *testing.F) {
	f.Add("a\nb", "a\nc")
	f.Add("\u202e\r\n", "\xff\\")
	f.Fuzz(func(t *testing.T, old, now string) {
		args, err := json.Marshal([]any{map[string]any{"old_str": old, "new_str": now, "deep": []string{old}}})
		if err != nil {
			t.Fatal(err)
		}
		got := channels.Diff(args)
		for _, r := range got {
			if r != '\n' && !unicode.IsPrint(r) {
				t.Errorf("%+q has %U", got, r)
			}
		}
		for line := range strings.Lines(got) {
			if !strings.ContainsAny(line[:1], "-+ @\\") {
				t.Errorf("%+q has a line %+q", got, line)
			}
		}
	})
}
