package gate

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
)

func TestDigestMatchesThePublishedVectors(t *testing.T) {
	t.Parallel()

	raw, err := os.ReadFile("../docs/digest-vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors []struct {
		Name, Server, Tool, Target, Args, Canonical, Digest string

		Refused Reason
	}
	if err := json.Unmarshal(raw, &vectors); err != nil || len(vectors) != 10 {
		t.Fatalf("%d vectors, %v", len(vectors), err)
	}
	for _, v := range vectors {
		t.Run(v.Name, func(t *testing.T) {
			t.Parallel()

			d, err := Call{Server: v.Server, Tool: v.Tool, Target: v.Target, Args: json.RawMessage(v.Args)}.Digest()
			if v.Refused != "" {
				if err == nil || ReasonOf(err) != v.Refused {
					t.Errorf("digest %s, error %v; want it refused as %s", d, err, v.Refused)
				}
				return
			}
			if err != nil || d.String() != v.Digest || sha256.Sum256([]byte(v.Canonical)) != d {
				t.Errorf("digest %s, %v; want %s of %s", d, err, v.Digest, v.Canonical)
			}
		})
	}
}

func TestDigestRefusesWhatCouldBeTwoCalls(t *testing.T) {
	t.Parallel()

	args := func(s string) Call { return Call{Tool: "t", Args: json.RawMessage(s)} }
	members := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `,"k%d":1`, i)
		}
		return "{" + b.String()[1:] + "}"
	}
	tests := map[string]struct {
		call Call
		want Reason // empty: accepted
	}{
		"a tool alone":                    {Call{Tool: "t"}, ""},
		"no tool":                         {Call{Server: "s"}, ReasonInvalidArguments},
		"a name of 256 bytes":             {Call{Tool: strings.Repeat("t", 256)}, ""},
		"a longer tool":                   {Call{Tool: strings.Repeat("t", 257)}, ReasonInvalidArguments},
		"a longer server":                 {Call{Tool: "t", Server: strings.Repeat("t", 257)}, ReasonInvalidArguments},
		"a longer target":                 {Call{Tool: "t", Target: strings.Repeat("t", 257)}, ReasonInvalidArguments},
		"a line break in a tool":          {Call{Tool: "t\n"}, ReasonInvalidArguments},
		"a C1 control in a target":        {Call{Tool: "t", Target: "\u0085"}, ReasonInvalidArguments},
		"broken text in a server":         {Call{Tool: "t", Server: "\xff"}, ReasonInvalidArguments},
		"arguments as large as they may":  {args(`{"a":"` + strings.Repeat("x", MaxArgs-8) + `"}`), ""},
		"one byte more":                   {args(`{"a":"` + strings.Repeat("x", MaxArgs-7) + `"}`), ReasonInvalidArguments},
		"as deep as they may":             {args(`{"a":` + strings.Repeat("[", 63) + strings.Repeat("]", 63) + `}`), ""},
		"one deeper":                      {args(`{"a":` + strings.Repeat("[", 64) + strings.Repeat("]", 64) + `}`), ReasonInvalidArguments},
		"as many members as they may":     {args(members(10_000)), ""},
		"one more":                        {args(members(10_001)), ReasonInvalidArguments},
		"a nested key twice":              {args(`{"a":{"b":1,"b":1}}`), ReasonInvalidArguments},
		"the same key in two objects":     {args(`{"a":{"b":1},"c":{"b":1}}`), ""},
		"keys that differ in case":        {args(`{"a":1,"A":1}`), ""},
		"null":                            {args(`null`), ReasonInvalidArguments},
		"a text":                          {args(`"{}"`), ReasonInvalidArguments},
		"white space":                     {args(` `), ReasonInvalidArguments},
		"two objects":                     {args(`{}{}`), ReasonInvalidArguments},
		"an object and a comma":           {args(`{"a":1,}`), ReasonInvalidArguments},
		"a comment":                       {args(`{"a":1/**/}`), ReasonInvalidArguments},
		"a byte order mark":               {args("\ufeff{}"), ReasonInvalidArguments},
		"broken text":                     {args("{\"a\":\"\xff\"}"), ReasonInvalidArguments},
		"a lone high surrogate":           {args(`{"a":"\ud83d"}`), ReasonInvalidArguments},
		"a lone low surrogate":            {args(`{"a":"\ude00"}`), ReasonInvalidArguments},
		"surrogates the wrong way round":  {args(`{"a":"\ude00\ud83d"}`), ReasonInvalidArguments},
		"a surrogate and a letter":        {args(`{"a":"\ud83d\u0041"}`), ReasonInvalidArguments},
		"a lone surrogate in a key":       {args(`{"\ud83d":1}`), ReasonInvalidArguments},
		"a pair":                          {args(`{"a":"\ud83d\ude00"}`), ""},
		"a pair after a pair":             {args(`{"a":"\ud83d\ude00\uD83D\uDE00"}`), ""},
		"an escaped backslash before a u": {args(`{"a":"\\ud83d"}`), ""},
		"a replacement character":         {args(`{"a":"\ufffd"}`), ""},
		"2^53":                            {args(`{"a":9007199254740992}`), ""},
		"2^53 + 1":                        {args(`{"a":9007199254740993}`), ReasonNumberNotExact},
		"the largest int64":               {args(`{"a":9223372036854775807}`), ReasonNumberNotExact},
		"a decimal longer than a double":  {args(`{"a":0.10000000000000000555}`), ReasonNumberNotExact},
		"a decimal as short as a double":  {args(`{"a":0.1}`), ""},
		"a whole number with a point":     {args(`{"a":1.0}`), ""},
		"an exponent in capitals":         {args(`{"a":1E+5}`), ""},
		"minus nothing":                   {args(`{"a":-0}`), ""},
		"1e22":                            {args(`{"a":1e22}`), ""},
		"the smallest double":             {args(`{"a":5e-324}`), ""},
		"the largest double":              {args(`{"a":1.7976931348623157e308}`), ""},
		"larger than every double":        {args(`{"a":1e400}`), ReasonNumberNotExact},
		"smaller than every double":       {args(`{"a":1e-400}`), ReasonNumberNotExact},
		"an exponent to hang on":          {args(`{"a":1e99999999999}`), ReasonNumberNotExact},
		"nothing with an exponent":        {args(`{"a":0e999999999}`), ReasonNumberNotExact},
		"more digits than anyone needs":   {args(`{"a":1` + strings.Repeat("0", 64) + `}`), ReasonNumberNotExact},
		"a number deep inside":            {args(`{"a":[{"b":[9007199254740993]}]}`), ReasonNumberNotExact},
		"the same number as text":         {args(`{"a":"9007199254740993"}`), ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			d, err := tt.call.Digest()
			if tt.want == "" {
				if err != nil || d == (Digest{}) {
					t.Errorf("refused: %v", err)
				}
				return
			}
			if err == nil || ReasonOf(err) != tt.want || KindOf(err) != Invalid {
				t.Errorf("digest %s, error %v; want it refused as %s", d, err, tt.want)
			}
		})
	}
}

func TestDigestTellsEveryPartApart(t *testing.T) {
	t.Parallel()

	seen := map[Digest]string{}
	for name, c := range map[string]Call{
		"tool":                  {Tool: "a"},
		"other tool":            {Tool: "b"},
		"server":                {Server: "a", Tool: "a"},
		"target":                {Target: "a", Tool: "a"},
		"arguments":             {Tool: "a", Args: json.RawMessage(`{"a":1}`)},
		"arguments of text":     {Tool: "a", Args: json.RawMessage(`{"a":"1"}`)},
		"arguments with null":   {Tool: "a", Args: json.RawMessage(`{"a":null}`)},
		"a name with a quote":   {Tool: `a","target":"x`},
		"a look-alike in JSON":  {Tool: "a", Target: "x"},
		"a name with an escape": {Tool: `a\u0062`},
		"a name with a bracket": {Tool: "a<b"},
		"the bracket, escaped":  {Tool: `a\u003cb`},
	} {
		d, err := c.Digest()
		if err != nil {
			t.Fatal(err)
		}
		if other, ok := seen[d]; ok {
			t.Errorf("%s and %s share a digest", name, other)
		}
		seen[d] = name
	}
	empty, _ := Call{Tool: "a", Args: json.RawMessage(`{}`)}.Digest()
	none, _ := Call{Tool: "a"}.Digest()
	if empty != none {
		t.Error("absent arguments are not {}")
	}
}

func TestDigestErrorsDoNotEchoTheArguments(t *testing.T) {
	t.Parallel()

	for _, args := range []string{`{"hunter2":9007199254740993}`, `{"hunter2":1,"hunter2":2}`, `{"a":hunter2}`, `"hunter2"`} {
		_, err := Call{Tool: "t", Args: json.RawMessage(args)}.Digest()
		if err == nil || strings.Contains(PublicText(err), "hunter2") {
			t.Errorf("%s: %q", args, PublicText(err))
		}
	}
}

func TestIDs(t *testing.T) {
	t.Parallel()

	id := NewID()
	if id == NewID() {
		t.Error("an id twice")
	}
	for _, s := range []string{string(id), strings.ToLower(string(id)), strings.ToUpper(string(id))} {
		if got, err := ParseID(s); err != nil || got != id {
			t.Errorf("ParseID(%q) = %q, %v; want %q", s, got, err, id)
		}
	}
	tests := map[string]string{
		"nothing":                 "",
		"no prefix":               string(id[4:]),
		"another prefix":          "grt_" + string(id[4:]),
		"too short":               string(id[:29]),
		"too long":                string(id) + "0",
		"a letter ULIDs have not": "apr_U" + string(id[5:]),
		"later than ULIDs go":     "apr_8ZZZZZZZZZZZZZZZZZZZZZZZZZ",
		"white space":             " " + string(id),
		"a control character":     string(id[:29]) + "\n",
	}
	for name, s := range tests {
		if got, err := ParseID(s); err == nil || KindOf(err) != Invalid {
			t.Errorf("%s: ParseID(%q) = %q, %v", name, s, got, err)
		}
	}
}

func FuzzDigest(f *testing.F) {
	f.Add("s", "t", "x", []byte(`{"b":[1.0,{"c":"\ud83d\ude00"}],"a":1e2}`))
	f.Add("", "t", "", []byte(`{"a":9007199254740993,"a":1}`))
	f.Add("", "t<", "\u2028", []byte(`{"\u0061":"\\ud800"}`))
	f.Fuzz(func(t *testing.T, server, tool, target string, args []byte) {
		c := Call{Server: server, Tool: tool, Target: target, Args: args}
		d, err := c.Digest()
		if err != nil {
			if d != (Digest{}) {
				t.Fatal("an error with a digest")
			}
			return
		}
		// The same value with sorted keys, other white space and other escapes.
		dec := json.NewDecoder(bytes.NewReader(c.RawArgs()))
		dec.UseNumber()
		var v map[string]any
		if err := dec.Decode(&v); err != nil {
			t.Fatal(err)
		}
		c.Args, err = json.MarshalIndent(v, " ", "\t")
		if err != nil {
			t.Fatal(err)
		}
		if len(c.Args) > MaxArgs {
			return
		}
		again, err := c.Digest()
		if err != nil || again != d {
			t.Fatalf("%s and %s differ: %v", args, c.Args, err)
		}
	})
}

func FuzzParseID(f *testing.F) {
	f.Add("apr_01ARZ3NDEKTSV4RRFFQ69G5FAV")
	f.Fuzz(func(t *testing.T, s string) {
		id, err := ParseID(s)
		if again, err2 := ParseID(string(id)); err == nil && (err2 != nil || again != id || !strings.EqualFold(s, string(id))) {
			t.Fatalf("%q is %q, and that is %q, %v", s, id, again, err2)
		}
	})
}

func BenchmarkDigest(b *testing.B) {
	for _, n := range []int{1, 100, 2000} {
		args := []byte(`{"manifest":["` + strings.Repeat(`apiVersion: v1 kind: Pod metadata: name: web","`, n) + `"]}`)
		b.Run(fmt.Sprintf("%dkB", len(args)>>10), func(b *testing.B) {
			b.SetBytes(int64(len(args)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := (Call{Server: "k8s", Tool: "apply", Args: args}).Digest(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
