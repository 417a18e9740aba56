package gate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Limits of a summary.
const (
	summaryValue = 120 // characters of a key or value
	summaryAll   = 600 // characters in all
	smallestCut  = 40  // fewer characters have no room to say that something is missing
)

// maxMarks is how many combining marks one character may carry. Living
// languages need no more; taller stacks are drawn over their neighbours.
const maxMarks = 3

// unit is what Cut must not part: an escape of Visible, or a character and the
// marks on it.
var unit = regexp.MustCompile(`^(?s:\\ud[89ab]..\\ud[c-f]..|\\u....|\\x..|\\.|.\pM{0,3})`)

// blanks are drawn as nothing, though Unicode counts them among letters, marks
// and symbols and not among the default-ignorable characters.
const blanks = "\u2800\U0001d159\U00016fe4"

// The pictures of controls, which readers take for controls, and so do programs:
// Mattermost makes a new line of U+2424.
const firstPicture, lastPicture = '\u2400', '\u243f'

// hidden reports whether r is not seen as itself: it is invisible, a space that is not
// U+0020, a control or the picture of one, reorders or encloses its neighbours, or is
// unknown.
func hidden(r rune) bool {
	return !unicode.IsPrint(r) || strings.ContainsRune(blanks, r) || r >= firstPicture && r <= lastPicture ||
		unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector, unicode.Me)
}

// stack counts the combining marks on the present character.
type stack int

// hides reports whether r hides itself or, as one mark too many, others.
func (k *stack) hides(r rune) bool {
	if !unicode.Is(unicode.Mn, r) {
		*k = 0
		return hidden(r)
	}
	*k++
	return *k > maxMarks || hidden(r)
}

// Clean returns s as one line without anything hidden: line breaks, tabs and
// odd spaces become spaces, the rest is dropped. It is for names and reasons;
// what is approved is shown with Visible, which drops nothing.
func Clean(s string) string {
	var marks stack
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r) || unicode.Is(unicode.Z, r):
			marks = 0
			return ' '
		case marks.hides(r):
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "\ufffd")))
}

// Visible returns s as one line in which everything hidden is escaped as in
// JSON: \n, \u202e, \udb40\udc41; a byte that is not UTF-8 as \xff. A backslash
// is doubled, so that no text can pretend to be an escape and different texts
// always look different. Letters of right-to-left scripts stay letters: whoever
// shows them next to other text isolates them (in HTML, with <bdi>).
func Visible(s string) string {
	w := inert{}
	w.text(s)
	return w.out.String()
}

// VisibleLines is Visible for text of several lines: newlines and tabs stay.
func VisibleLines(s string) string {
	w := inert{lines: true}
	w.text(s)
	return w.out.String()
}

// Pretty returns args as indented JSON with keys and numbers as they came and
// every string visible. It is the same JSON: reading it gives the same value.
// What is no JSON is shown as text.
func Pretty(args json.RawMessage) string {
	var b bytes.Buffer
	if err := json.Indent(&b, args, "", "  "); err != nil {
		return VisibleLines(string(args))
	}
	w := inert{lines: true}
	w.json(b.Bytes())
	return w.out.String()
}

// Summary returns args on one line of at most 600 characters, and whether that
// hides anything: a value that was cut, or white space that was collapsed.
// While it does, nobody may be asked to approve without a full view beside it.
func Summary(args json.RawMessage) (line string, hides bool) {
	d := json.NewDecoder(bytes.NewReader(args))
	if first, _ := d.Token(); first != json.Delim('{') || !json.Valid(args) {
		return Cut(Visible(string(args)), summaryAll)
	}
	var parts []string
	for d.More() { // nothing in here can fail, the JSON being valid
		from := d.InputOffset()
		_, _ = d.Token()
		key, keyCut := brief(bytes.TrimLeft(args[from:d.InputOffset()], ", \t\r\n"))
		var raw json.RawMessage
		_ = d.Decode(&raw)
		value, valueCut := brief(raw)
		parts = append(parts, bare(key)+": "+value)
		hides = hides || keyCut || valueCut
	}
	line, cut := Cut(strings.Join(parts, ", "), summaryAll)
	return line, hides || cut
}

// brief returns one JSON value on one short line.
func brief(raw json.RawMessage) (line string, hides bool) {
	var b bytes.Buffer
	_ = json.Compact(&b, raw)
	w := inert{fold: true}
	w.json(b.Bytes())
	line, cut := Cut(w.out.String(), summaryValue)
	return line, cut || w.folded
}

// bare takes the quotes off a key that needs none to be told from its value.
func bare(key string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-."
	if name := strings.Trim(key, `"`); len(name) == len(key)-2 && name != "" && strings.Trim(name, plain) == "" {
		return name
	}
	return key
}

// Cut returns s if it has at most n characters (40 if n is less), else its
// head and tail with "… 1,234 more characters …" between, n characters in all,
// and whether it cut. It parts neither a character from its marks nor an escape
// of Visible.
func Cut(s string, n int) (string, bool) {
	total := utf8.RuneCountInString(s)
	n = max(n, smallestCut)
	if total <= n {
		return s, false
	}
	room := n - utf8.RuneCountInString(missing(total))
	head, tail := 0, total // in characters
	headEnd, tailStart := 0, len(s)
	next := seam(s, room/3)
	for at, pos := 0, 0; at < len(s); {
		size := unitSize(s[at:])
		at, pos = at+size, pos+utf8.RuneCountInString(s[at:at+size])
		if pos <= room-room/3 {
			head, headEnd = pos, at
		} else if next > at {
			at, pos = next, total-utf8.RuneCountInString(s[next:])
		}
		if total-pos <= room/3 {
			tail, tailStart = pos, at
			break
		}
	}
	return s[:headEnd] + missing(tail-head) + s[tailStart:], true
}

// seam is where units of s can be read from, before its last n characters and not far
// before; 0 if it is not seen at a glance. What is long is not read in whole.
func seam(s string, n int) int {
	const longest, search = 12, 64 // an escape, in bytes; characters
	at := len(s)
	for range n + search {
		_, size := utf8.DecodeLastRuneInString(s[:at])
		at -= size
	}
	for range search / 2 { // an ASCII character begins a unit, unless it is in an escape
		if at > longest && s[at] < utf8.RuneSelf && strings.IndexByte(s[at-longest:at+1], '\\') < 0 {
			return at
		}
		_, size := utf8.DecodeRuneInString(s[at:])
		at += size
	}
	return 0
}

// Pieces parts s into pieces of at most n characters (40 if n is less) that make
// s again: behind a line's end if there is one in the last half of a piece, and
// where Cut may part it.
func Pieces(s string, n int) (all []string) {
	n = max(n, smallestCut)
	from, chars := 0, 0  // of the piece
	line, lineAt := 0, 0 // its last line's end, and how many characters come before
	for at := 0; at < len(s); {
		size := unitSize(s[at:])
		more := utf8.RuneCountInString(s[at : at+size])
		if chars+more > n {
			end, left := at, 0
			if line > from && lineAt*2 >= n {
				end, left = line, chars-lineAt
			}
			all = append(all, s[from:end])
			from, chars = end, left
		}
		at, chars = at+size, chars+more
		if s[at-1] == '\n' {
			line, lineAt = at, chars
		}
	}
	return append(all, s[from:])
}

// unitSize returns how many bytes the unit has that s begins with.
func unitSize(s string) int {
	if s[0] < utf8.RuneSelf && s[0] != '\\' && (len(s) == 1 || s[1] < utf8.RuneSelf) {
		return 1
	}
	return len(unit.FindString(s))
}

func missing(n int) string {
	digits := fmt.Sprint(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return " … " + digits + " more characters … "
}

// inert writes text that shows all there is in it.
type inert struct {
	out    strings.Builder
	marks  stack
	lines  bool // newlines and tabs stay
	fold   bool // a run of white space becomes one space
	blank  bool // the last character was a space
	folded bool // fold has changed something
}

// text writes plain text.
func (w *inert) text(s string) {
	for s != "" {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && n == 1:
			w.as(`\x%02x`, s[0])
		case w.lines && (r == '\n' || r == '\t'):
			w.as("%c", r)
		case r == '\\':
			w.as(`\\`)
		default:
			w.rune(r)
		}
		s = s[n:]
	}
}

// json writes well-formed JSON. Its escapes are undone where the character
// itself is harmless, so that "\u0072m" is read as "rm".
func (w *inert) json(doc []byte) {
	for len(doc) > 0 {
		if doc[0] != '\\' {
			r, n := utf8.DecodeRune(doc)
			if r == utf8.RuneError && n == 1 || w.lines && r == '\n' {
				w.text(string(doc[:n]))
			} else {
				w.rune(r)
			}
			doc = doc[n:]
			continue
		}
		r, n := unescape(doc)
		if r == '"' || r == '\\' {
			w.as(`\%c`, r)
		} else {
			w.rune(r)
		}
		doc = doc[n:]
	}
}

// rune writes one character of a text.
func (w *inert) rune(r rune) {
	space := strings.ContainsRune(" \n\r\t", r)
	switch {
	case w.fold && space:
		w.folded = w.folded || w.blank || r != ' '
		if !w.blank {
			w.as(" ")
		}
		w.blank = true
		return
	case !w.marks.hides(r):
		w.out.WriteRune(r)
	case space:
		w.as(`\%c`, "tn  r"[r-'\t'])
	case r > 0xffff:
		hi, lo := utf16.EncodeRune(r)
		w.as(`\u%04x\u%04x`, hi, lo)
	default:
		w.as(`\u%04x`, r)
	}
	w.blank = false
}

// as writes what stands for a character. A mark after it is no mark on it.
func (w *inert) as(format string, args ...any) {
	fmt.Fprintf(&w.out, format, args...)
	w.marks = 0
}

// unescape reads the JSON escape that doc begins with. Half of a surrogate pair
// is returned as it is.
func unescape(doc []byte) (r rune, size int) {
	if doc[1] != 'u' {
		if i := strings.IndexByte("bfnrt", doc[1]); i >= 0 {
			return rune("\b\f\n\r\t"[i]), 2
		}
		return rune(doc[1]), 2
	}
	r = hex4(doc[2:])
	if utf16.IsSurrogate(r) && len(doc) >= 12 && doc[6] == '\\' && doc[7] == 'u' {
		if pair := utf16.DecodeRune(r, hex4(doc[8:])); pair != unicode.ReplacementChar {
			return pair, 12
		}
	}
	return r, 6
}

func hex4(b []byte) rune {
	n, _ := strconv.ParseUint(string(b[:4]), 16, 16) // the JSON is valid
	return rune(n)
}
