package gate

import (
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestRedacted(t *testing.T) {
	t.Parallel()

	tests := map[string]struct{ paths, args, want string }{
		"nothing to redact":                 {``, `{"a": 1}`, `{"a": 1}`},
		"a text by its length":              {`args.p`, `{"p":"hunter2hunt\u00e9"}`, `{"p":"[redacted, 12 characters]"}`},
		"one character":                     {`args.p`, `{"p":"x"}`, `{"p":"[redacted, 1 character]"}`},
		"an empty text":                     {`args.p`, `{"p":""}`, `{"p":"[redacted, 0 characters]"}`},
		"a number":                          {`args.p`, `{"p": 1234 }`, `{"p": "[redacted, 4 characters]" }`},
		"an object as a whole":              {`args.p`, `{"p":{"q":1}}`, `{"p":"[redacted, 7 characters]"}`},
		"the rest stays byte for byte":      {`args.p`, `{ "b" : 1.0, "p":"x" ,"a":[ 1,2 ], "a":3}`, `{ "b" : 1.0, "p":"[redacted, 1 character]" ,"a":[ 1,2 ], "a":3}`},
		"an absent path":                    {`args.q`, `{"p":"x"}`, `{"p":"x"}`},
		"a longer name is another":          {`args.p`, `{"pp":"x"}`, `{"pp":"x"}`},
		"case is another name":              {`args.p`, `{"P":"x"}`, `{"P":"x"}`},
		"a name spelt with an escape":       {`args.pw`, `{"p\u0077":"x"}`, `{"p\u0077":"[redacted, 1 character]"}`},
		"a key twice, both":                 {`args.p`, `{"p":"x","p":"yy"}`, `{"p":"[redacted, 1 character]","p":"[redacted, 2 characters]"}`},
		"a star is any key":                 {`args.*.t`, `{"a":{"t":"x","u":1},"b":{"t":"y"},"t":"z"}`, `{"a":{"t":"[redacted, 1 character]","u":1},"b":{"t":"[redacted, 1 character]"},"t":"z"}`},
		"a star is one level":               {`args.*.t`, `{"a":{"b":{"t":"x"}}}`, `{"a":{"b":{"t":"x"}}}`},
		"a star is any place of a list":     {`args.l.*.t`, `{"l":[{"t":"x"},{"u":1}]}`, `{"l":[{"t":"[redacted, 1 character]"},{"u":1}]}`},
		"a star at the end":                 {`args.l.*`, `{"l":["x","yy"],"m":1}`, `{"l":["[redacted, 1 character]","[redacted, 2 characters]"],"m":1}`},
		"lists hide nothing from a path":    {`args.db.p`, `{"db":[{"p":"x"},[{"p":"y"}]]}`, `{"db":[{"p":"[redacted, 1 character]"},[{"p":"[redacted, 1 character]"}]]}`},
		"lists hide nothing from a star":    {`args.*.t`, `{"a":[{"t":"x"}]}`, `{"a":[{"t":"[redacted, 1 character]"}]}`},
		"two paths":                         {`args.p args.q.r`, `{"p":1,"q":{"r":2,"s":3}}`, `{"p":"[redacted, 1 character]","q":{"r":"[redacted, 1 character]","s":3}}`},
		"a path through a scalar":           {`args.p.q`, `{"p":"x"}`, `{"p":"x"}`},
		"a path through null":               {`args.p.q`, `{"p":null}`, `{"p":null}`},
		"arguments that are no JSON, whole": {`args.p`, `{"p":"x"`, `"[redacted, 8 characters]"`},
		"arguments that are none":           {`args.p`, ``, ``},
		"white space around":                {`args.p`, " \n{\"p\":1} ", " \n{\"p\":\"[redacted, 1 character]\"} "},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			r := &Rule{}
			for text := range strings.FieldsSeq(tt.paths) {
				path, ok := parseRedact(text)
				if !ok {
					t.Fatalf("%q is no path", text)
				}
				r.redact = append(r.redact, path)
			}
			raw := json.RawMessage(tt.args)
			if got := string(r.Redacted(raw)); got != tt.want {
				t.Errorf("%s\nshows %s\nwant  %s", tt.args, got, tt.want)
			}
			if string(raw) != tt.args {
				t.Errorf("the arguments themselves became %s", raw)
			}
		})
	}
}

// TestNoSecretSurvivesRedaction buries a secret anywhere below its path.
func TestNoSecretSurvivesRedaction(t *testing.T) {
	t.Parallel()

	r := &Rule{redact: [][]string{{"s"}, {"*", "s"}, {"*", "*", "s"}}}
	rapid.Check(t, func(t *rapid.T) {
		v := `"SECRET"`
		for range rapid.IntRange(0, 3).Draw(t, "inner") {
			v = rapid.SampledFrom([]string{`[` + v + `]`, `{"x":` + v + `}`, `[1, ` + v + `, 2]`}).Draw(t, "wrap")
		}
		v = `{"s":` + v + `}`
		objects := 0
		for range rapid.IntRange(0, 4).Draw(t, "outer") {
			if objects < 2 && rapid.Bool().Draw(t, "object") {
				v, objects = `{"y": `+v+` }`, objects+1
			} else {
				v = `[ ` + v + `]`
			}
		}
		if v[0] == '[' {
			v = `{"z":` + v + `}`
			objects++
		}
		if objects > 2 {
			t.Skip()
		}
		got := r.Redacted(json.RawMessage(v))
		if strings.Contains(string(got), "SECRET") || !json.Valid(got) {
			t.Fatalf("%s shows %s", v, got)
		}
	})
}

func FuzzRedacted(f *testing.F) {
	f.Add("args.*.t", `{"a":[{"t":"x"}],"b":{"t":1}}`)
	f.Add("args.p", `{"p":{"q":[1,2]},"p":"\ud800"}`)
	f.Fuzz(func(t *testing.T, text, args string) {
		path, ok := parseRedact(text)
		if !ok {
			return
		}
		got := (&Rule{redact: [][]string{path}}).Redacted(json.RawMessage(args))
		if json.Valid([]byte(args)) && !json.Valid(got) {
			t.Fatalf("%s of %s shows %s", text, args, got)
		}
	})
}

func TestWhatIsCoveredIsKnown(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]bool{`"x"`: true, `"secret"`: true, `{"a":1}`: true, `""`: true} {
		var shown string
		if err := json.Unmarshal(mark(json.RawMessage(raw)), &shown); err != nil || Covered(shown) != want {
			t.Errorf("%s is shown as %q: covered %t, %v", raw, shown, Covered(shown), err)
		}
	}
	for _, text := range []string{"", "redacted", "[redacted, x characters]", "x [redacted, 1 character]"} {
		if Covered(text) {
			t.Errorf("%q counts as covered", text)
		}
	}
}
