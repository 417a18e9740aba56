package console

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"html/template"
	"io/fs"
	"net/http"
	"strings"
	"time"

	"github.com/approvalbot/approvalbot/gate"
)

//go:embed pages static
var files embed.FS

// release changes with the embedded files, so that browsers may keep them.
var release = fingerprint()

func fingerprint() string {
	h := sha256.New()
	_ = fs.WalkDir(files, "static", func(path string, d fs.DirEntry, _ error) error {
		if !d.IsDir() {
			b, _ := files.ReadFile(path) // embedded: it cannot fail
			h.Write(b)
		}
		return nil
	})
	return hex.EncodeToString(h.Sum(nil)[:6])
}

// pages are all templates. Foreign text goes through shown, lines or plain, and
// through the escaping of html/template behind them; nothing is ever marked as
// HTML.
var pages = template.Must(template.New("").Funcs(template.FuncMap{
	"shown":   gate.Visible,      // of a call: everything hidden is escaped
	"lines":   gate.VisibleLines, // the same over several lines
	"plain":   gate.Clean,        // names and reasons: everything hidden is dropped
	"words":   words,
	"release": func() string { return release },
}).ParseFS(files, "pages/*.html"))

// words is a state as people write it: "outcome unknown".
func words(s gate.State) string { return strings.ReplaceAll(string(s), "_", " ") }

// chrome is what surrounds every page. Without User nobody is logged in.
type chrome struct {
	Title   string
	Here    string // of the menu
	User    string
	Token   string
	Pending int
	Flash   string
	Alert   string // of a press that was refused
	Now     time.Time
}

// chrome makes the surroundings of a page for somebody logged in.
func (c *Console) chrome(s *session, title, here string) chrome {
	return chrome{Title: title, Here: here, User: s.voter().Name, Token: c.token(s), Now: time.Now()}
}

// At is t beside the clock of the page.
func (c chrome) At(t time.Time) stamp { return stamp{at: t, now: c.Now} }

// stamp is a time as pages show it: absolute and relative.
type stamp struct{ at, now time.Time }

// ISO is for machines.
func (s stamp) ISO() string { return s.at.UTC().Format(time.RFC3339) }

// Absolute is "03:27 UTC", with its date if that is not today.
func (s stamp) Absolute() string { return gate.Clock{Now: s.now}.Time(s.at) }

// Relative is "in 14 min" or "14 min ago"; console.js says the same.
func (s stamp) Relative() string {
	if d := s.at.Sub(s.now); d > 0 {
		return "in " + gate.Span(d)
	}
	d := s.now.Sub(s.at)
	if d < 10*time.Second {
		return "just now"
	}
	return gate.Span(d) + " ago"
}

// Soon reports whether it is less than ten minutes ahead.
func (s stamp) Soon() bool { return s.at.Sub(s.now) < soon }

// Set reports whether there is a time at all.
func (s stamp) Set() bool { return !s.at.IsZero() }

// render writes a page, whole or not at all.
func (c *Console) render(w http.ResponseWriter, status int, page string, data any) {
	var b bytes.Buffer
	if err := pages.ExecuteTemplate(&b, page, data); err != nil {
		c.Log.Error("console page failed", "page", page, "err", err)
		http.Error(w, "internal error", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // a reader that is gone needs no answer
}

type failPage struct {
	chrome
	Status int
	Text   string
}

// fail says what went wrong. s is nil where nobody is logged in.
func (c *Console) fail(w http.ResponseWriter, s *session, status int, text string) {
	p := failPage{chrome: chrome{Title: http.StatusText(status)}, Status: status, Text: text}
	if s != nil {
		p.chrome = c.chrome(s, p.Title, "")
	}
	c.render(w, status, "fail.html", p)
}

// failed answers with an error's public text; what is behind it goes to the log.
func (c *Console) failed(w http.ResponseWriter, r *http.Request, s *session, err error) {
	status := statusOf(err)
	if status >= http.StatusInternalServerError {
		c.Log.WarnContext(r.Context(), "console page failed", "path", r.URL.Path, "err", err)
	}
	text := gate.PublicText(err)
	if gate.ReasonOf(err) == gate.ReasonStoreUnavailable {
		text = "The approval store cannot be reached. Nothing is decided meanwhile, and nothing that is held runs."
	}
	c.fail(w, s, status, text)
}

var statuses = map[gate.Kind]int{
	gate.Invalid: http.StatusUnprocessableEntity, gate.Forbidden: http.StatusForbidden, gate.NotFound: http.StatusNotFound,
	gate.Conflict: http.StatusConflict, gate.TooMany: http.StatusTooManyRequests, gate.Unavailable: http.StatusServiceUnavailable,
}

func statusOf(err error) int {
	if status, ok := statuses[gate.KindOf(err)]; ok {
		return status
	}
	return http.StatusInternalServerError
}

// static serves an embedded file. Its address changes with its content.
func static(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	http.ServeFileFS(w, r, files, strings.TrimPrefix(r.URL.Path, "/console/"))
}
