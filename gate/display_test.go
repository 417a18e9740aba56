package gate

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestVisible(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct{ in, want string }{
		"plain text of any language stays":               {"café 日本語 שלום 🙂", "café 日本語 שלום 🙂"},
		"a bidi override is seen":                        {"a\u202eb", `a\u202eb`},
		"a zero-width space is seen":                     {"rm\u200b -rf", `rm\u200b -rf`},
		"a look-alike space is seen":                     {"a\u00a0b\u3000c", `a\u00a0b\u3000c`},
		"pictures of controls are no controls":           {"x\u2424# Approved by Ann \u2400\u2423", `x\u2424# Approved by Ann \u2400\u2423`},
		"letters that are drawn as nothing are seen":     {"\u3164\u115f\u2800\U0001d159", `\u3164\u115f\u2800\ud834\udd59`},
		"a tag character is seen":                        {"ok\U000e0041", `ok\udb40\udc41`},
		"a variation selector is seen":                   {"x\ufe0f\U000e0100", `x\ufe0f\udb40\udd00`},
		"private and unassigned characters are seen":     {"\ue000\u0378", `\ue000\u0378`},
		"controls and line breaks are seen":              {"a\nb\tc\rd\x00e\x7f", `a\nb\tc\rd\u0000e\u007f`},
		"a byte that is no UTF-8 is seen":                {"a\xffb", `a\xffb`},
		"a real replacement character stays":             {"\ufffd", "\ufffd"},
		"an escape in the source does not pass for one":  {`a\u202eb`, `a\\u202eb`},
		"an enclosing mark is seen":                      {"a\u20dd", `a\u20dd`},
		"marks on a letter stay":                         {"e\u0301\u0323", "e\u0301\u0323"},
		"marks stacked over other lines are seen":        {"e\u0301\u0301\u0301\u0301", "e\u0301\u0301\u0301" + `\u0301`},
		"a mark after an escape is the first again":      {"e\u0301\u0301\u0301\\\u0301", "e\u0301\u0301\u0301" + `\\` + "\u0301"},
		"a backtick and an angle bracket are the sink's": {"`<b>", "`<b>"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := Visible(row.in); got != row.want {
				t.Errorf("Visible(%+q) = %+q, want %+q", row.in, got, row.want)
			}
		})
	}
	if got, want := VisibleLines("a\n\tb\r\u200b\\"), "a\n\tb"+`\r\u200b\\`; got != want {
		t.Errorf("VisibleLines = %q, want %q", got, want)
	}
}

func TestCleanIsOneHarmlessLine(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"  wrong\ncluster\t! ":      "wrong cluster !",
		"a\u202eb\u200bc\U000e0041": "abc",
		"a\u00a0b\u2028c":           "a b c",
		"bad \xff byte":             "bad \ufffd byte",
		`C:\u202e "quoted"`:         `C:\u202e "quoted"`,
		"\u0301\u0301\u0301\u0301":  "\u0301\u0301\u0301",
		"\x1b[31mred":               "[31mred",
	} {
		if got := Clean(in); got != want {
			t.Errorf("Clean(%+q) = %+q, want %+q", in, got, want)
		}
	}
}

// FuzzCut: what is cut is cut as if all of it had been read.
func FuzzCut(f *testing.F) {
	for _, s := range []string{"x", "\u00e9", "e\u0301\u0302\u0303", `\u202e`, `\ud83d\ude00`, `\\`, `\\\\u1234`, "🙂", `\x0a`, "a b\n"} {
		f.Add(s, strings.Repeat("h", 30), 200, 40)
		f.Add("x", s+"é", 150, 90)
	}
	f.Fuzz(func(t *testing.T, a, b string, times, n int) {
		if times < 0 || times > 300 || len(a) > 30 || len(b) > 200 || n > 500 {
			return
		}
		s := Visible(strings.Repeat(a+b, times) + b + a)
		got, cut := Cut(s, n)
		want, whether := cutSlowly(s, n)
		if got != want || cut != whether {
			t.Errorf("Cut(%q, %d) =\n%q, want\n%q", s, n, got, want)
		}
	})
}

// cutSlowly is Cut, unit by unit.
func cutSlowly(s string, n int) (string, bool) {
	total := utf8.RuneCountInString(s)
	n = max(n, smallestCut)
	if total <= n {
		return s, false
	}
	room := n - utf8.RuneCountInString(missing(total))
	head, tail, headEnd, tailStart := 0, total, 0, len(s)
	for at, pos := 0, 0; at < len(s); {
		size := unitSize(s[at:])
		at, pos = at+size, pos+utf8.RuneCountInString(s[at:at+size])
		if pos <= room-room/3 {
			head, headEnd = pos, at
		}
		if total-pos <= room/3 {
			tail, tailStart = pos, at
			break
		}
	}
	return s[:headEnd] + missing(tail-head) + s[tailStart:], true
}

func TestCut(t *testing.T) {
	t.Parallel()
	if got, cut := Cut("short", 40); got != "short" || cut {
		t.Errorf("Cut(short) = %q, %v", got, cut)
	}
	got, cut := Cut(strings.Repeat("h", 1000)+strings.Repeat("t", 1000), 100)
	if want := strings.Repeat("h", 49) + " … 1,927 more characters … " + strings.Repeat("t", 24); got != want || !cut {
		t.Errorf("Cut = %q, %v, want %q", got, cut, want)
	}
	for _, in := range []string{
		strings.Repeat(`\u202e`, 200), strings.Repeat(`\udb40\udc41`, 200), strings.Repeat(`\\`, 200),
		strings.Repeat("e\u0301", 200), strings.Repeat("x"+`\xff`, 200), strings.Repeat("é"+`\\`, 200), strings.Repeat("x\n", 200),
	} {
		one := in[:len(in)/200]
		for n := range 90 {
			got, cut := Cut(in, n)
			head, rest, found := strings.Cut(got, " … ")
			_, tail, ends := strings.Cut(rest, " … ")
			if !cut || !found || !ends || utf8.RuneCountInString(got) > max(n, smallestCut) {
				t.Fatalf("Cut(%+q…, %d) = %+q, %v", one, n, got, cut)
			}
			if !whole(one, head) || !whole(one, tail) {
				t.Fatalf("Cut(%+q…, %d) parts what belongs together: %+q", one, n, got)
			}
		}
	}
}

func TestPiecesMakeTheTextAgain(t *testing.T) {
	t.Parallel()
	if got := Pieces("one\ntwo", 40); !slices.Equal(got, []string{"one\ntwo"}) {
		t.Errorf("Pieces of a short text = %q", got)
	}
	line := strings.Repeat("x", 24) + "\n"
	if got := Pieces(line+line+line, 40); !slices.Equal(got, []string{line, line, line}) {
		t.Errorf("Pieces of lines = %q, want them parted at their ends", got)
	}
	if got := Pieces("x\n"+strings.Repeat("y", 80), 40); got[0] != "x\n"+strings.Repeat("y", 38) {
		t.Errorf("Pieces = %q, want no piece that is nearly empty", got)
	}
	for _, in := range []string{
		"", strings.Repeat(`\u202e`, 200), strings.Repeat(`\udb40\udc41`, 200), strings.Repeat(`\\`, 200), strings.Repeat("e\u0301", 200),
		strings.Repeat("é", 200), strings.Repeat("x\n", 200), strings.Repeat("x", 200),
	} {
		for n := 40; n < 90; n++ {
			all := Pieces(in, n)
			if strings.Join(all, "") != in {
				t.Fatalf("Pieces(%+q…, %d) = %q", in[:len(in)/200], n, all)
			}
			for _, p := range all {
				if utf8.RuneCountInString(p) > n || !whole(in[:len(in)/200], p) {
					t.Fatalf("Pieces(%+q…, %d) has %+q", in[:len(in)/200], n, p)
				}
			}
		}
	}
}

// whole reports whether s is made of whole units of one.
func whole(one, s string) bool {
	var units []string
	for rest := one; rest != ""; {
		u := unit.FindString(rest)
		units, rest = append(units, u), rest[len(u):]
	}
	for s != "" {
		u := unit.FindString(s)
		if !slices.Contains(units, u) {
			return false
		}
		s = s[len(u):]
	}
	return true
}

func TestPrettyIsTheSameJSONWithNothingHidden(t *testing.T) {
	t.Parallel()
	const in = `{"z":1.50,"big":12345678901234567890123,"a":{"q":"\u0072m \u202e\n\"\\x\/","t":"` + "\u200b\U000e0041" + `"},"none":[],"list":[1e2,"\ud800","\uD800\u0041"]}`
	const want = `{
  "z": 1.50,
  "big": 12345678901234567890123,
  "a": {
    "q": "rm \u202e\n\"\\x/",
    "t": "\u200b\udb40\udc41"
  },
  "none": [],
  "list": [
    1e2,
    "\ud800",
    "\ud800A"
  ]
}`
	if diff := cmp.Diff(want, Pretty(json.RawMessage(in))); diff != "" {
		t.Error(diff)
	}
	if got, want := Pretty(json.RawMessage("no json\u202e\n")), "no json"+`\u202e`+"\n"; got != want {
		t.Errorf("Pretty of no JSON = %q, want %q", got, want)
	}
}

func TestSummary(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 150)
	for name, row := range map[string]struct {
		in, want string
		hides    bool
	}{
		"values in their order, as they are":          {`{"to":"ops@x","n":1.50,"deep":{"b":[1,null]}}`, `to: "ops@x", n: 1.50, deep: {"b":[1,null]}`, false},
		"no arguments":                                {`{}`, ``, false},
		"white space is collapsed, and that is said":  {`{"sql":"drop\n\n  table\tx"}`, `sql: "drop table x"`, true},
		"two spaces are collapsed as well":            {`{"a":"b  c"}`, `a: "b c"`, true},
		"a long key is cut":                           {`{"` + long + `":1}`, `"` + long[:63] + ` … 57 more characters … ` + long[:30] + `": 1`, true},
		"a single space is no loss":                   {`{"a":"b c"}`, `a: "b c"`, false},
		"an escaped backslash is no white space":      {`{"a":"b\\n c"}`, `a: "b\\n c"`, false},
		"a long value shows head and tail":            {`{"a":"` + long + `"}`, `a: "` + long[:63] + ` … 57 more characters … ` + long[:30] + `"`, true},
		"a key that could pass for a value is quoted": {`{"a: 1, b":2,"":3,"c\"":4}`, `"a: 1, b": 2, "": 3, "c\"": 4`, false},
		"what is hidden in a key or value is seen":    {`{"a\u200b":"\u202e"}`, `"a\u200b": "\u202e"`, false},
		"what is no object is shown as text":          {`[1,"` + "\u202e" + `"]`, `[1,"\u202e"]`, false},
		"what is no JSON is shown as text":            {`{"a":1} rm`, `{"a":1} rm`, false},
		"the same key twice is seen twice":            {`{"a":1, "a":2}`, `a: 1, a: 2`, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, hides := Summary(json.RawMessage(row.in))
			if got != row.want || hides != row.hides {
				t.Errorf("Summary(%s)\n got %s, %v\nwant %s, %v", row.in, got, hides, row.want, row.hides)
			}
		})
	}
	many := `{"k0":0` + strings.Repeat(`,"key":"0123456789"`, 60) + `}`
	if got, hides := Summary(json.RawMessage(many)); !hides || utf8.RuneCountInString(got) > 600 || !strings.Contains(got, "more characters") {
		t.Errorf("Summary of many = %s, %v", got, hides)
	}
}

// harmful finds by category what no output may hold; it shares nothing with hidden.
func harmful(s string, but string) (rune, bool) {
	for _, r := range s {
		if strings.ContainsRune(but, r) {
			continue
		}
		if unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co, unicode.Cs, unicode.Zl, unicode.Zp, unicode.Variation_Selector) ||
			unicode.Is(unicode.Zs, r) && r != ' ' || r >= 0xe0000 && r < 0xe1000 || r == 0x3164 || r == 0x034f || r == 0x2800 {
			return r, true
		}
	}
	return 0, !utf8.ValidString(s)
}

var escape = regexp.MustCompile(`\\u(d[89ab]..)\\u(d[c-f]..)|\\u(....)|\\x(..)|\\([nrt\\])`)

// source undoes Visible.
func source(visible string) string {
	return escape.ReplaceAllStringFunc(visible, func(e string) string {
		hex := func(s string) rune { n, _ := strconv.ParseUint(s, 16, 32); return rune(n) }
		m := escape.FindStringSubmatch(e)
		switch {
		case m[1] != "":
			return string(utf16.DecodeRune(hex(m[1]), hex(m[2])))
		case m[3] != "":
			return string(hex(m[3]))
		case m[4] != "":
			return string([]byte{byte(hex(m[4]))})
		}
		return map[string]string{"n": "\n", "r": "\r", "t": "\t", `\`: `\`}[m[5]]
	})
}

func FuzzVisibleHidesNothingAndCanBeUndone(f *testing.F) {
	for _, s := range []string{"", `\u202e`, "\u202e", "a\xff\\x", "\\\n", "e\u0301\u0301\u0301\u0301\u0301", "\U000e0041\ufe0f", `\\\`, "\u2028\u0085"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for but, v := range map[string]string{"": Visible(s), "\n\t": VisibleLines(s)} {
			if r, bad := harmful(v, but); bad {
				t.Errorf("%+q of %+q holds %U", v, s, r)
			}
			if got := source(v); got != s {
				t.Errorf("%+q reads back as %+q, was %+q", v, got, s)
			}
		}
		if r, bad := harmful(Clean(s), ""); bad {
			t.Errorf("Clean(%+q) holds %U", s, r)
		}
		if all := strings.Join(Pieces(Visible(s), 40), ""); all != Visible(s) {
			t.Errorf("pieces of %+q are %+q", Visible(s), all)
		}
		for rest := s; rest != ""; rest = rest[unitSize(rest):] {
			if got, want := unitSize(rest), len(unit.FindString(rest)); got != want {
				t.Fatalf("%+q begins with a unit of %d bytes, want %d", rest, got, want)
			}
		}
		short, cut := Cut(Visible(s), 50)
		if n := utf8.RuneCountInString(short); n > 50 || cut != (short != Visible(s)) {
			t.Errorf("Cut(%+q, 50) has %d characters, cut %v", s, n, cut)
		}
	})
}

func FuzzArgumentsAreShownWhole(f *testing.F) {
	for _, s := range []string{`{}`, `{"a":"\u202e\ud83d\ude00\ud800\"\\\/"}`, `{"a":1.50,"b":[{"c":"x  y"}]}`, `[`, "{\"\xff\":1}", `{"a":1}x`, "{\"a\":\"\u200b\"}", `"\`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, args []byte) {
		pretty := Pretty(args)
		if r, bad := harmful(pretty, "\n\t"); bad {
			t.Errorf("Pretty(%+q) = %+q holds %U", args, pretty, r)
		}
		line, hides := Summary(args)
		if r, bad := harmful(line, ""); bad || utf8.RuneCountInString(line) > summaryAll {
			t.Errorf("Summary(%+q) = %+q holds %U or is too long", args, line, r)
		}
		if strings.Contains(line, "more characters …") && !hides && !bytes.Contains(args, []byte("more characters")) {
			t.Errorf("Summary(%+q) = %+q hides something and does not say so", args, line)
		}
		if !json.Valid(args) || !utf8.Valid(args) {
			return
		}
		if diff := cmp.Diff(tokens(t, args), tokens(t, []byte(pretty))); diff != "" {
			t.Errorf("Pretty(%q) = %q is other JSON:\n%s", args, pretty, diff)
		}
	})
}

// tokens reads JSON with numbers as they came.
func tokens(t *testing.T, doc []byte) (all []any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(doc))
	d.UseNumber()
	for tok, err := d.Token(); err == nil; tok, err = d.Token() {
		all = append(all, tok)
	}
	return all
}
