package console

import (
	"crypto/rand"
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/approvalbot/approvalbot/gate"
)

// sessionFor is how long a login lasts.
const sessionFor = 12 * time.Hour

// session is a login: a signed statement in a cookie, kept nowhere else, so that
// every replica knows it.
type session struct {
	id      string // random
	how     string // "key" or "demo"
	expires time.Time
	who     gate.Principal // as configured now
}

func (s *session) voter() gate.Voter {
	v := s.who.Voter("console")
	v.Login = s.how
	return v
}

// begin logs a key's holder in.
func (c *Console) begin(w http.ResponseWriter, r *http.Request, key, how string) {
	id, expires := rand.Text(), strconv.FormatInt(time.Now().Add(sessionFor).Unix(), 10)
	named := base64.RawURLEncoding.EncodeToString([]byte(key))
	mac := c.Seal.Sign(gate.Pages, "session", named, how, expires, id)
	c.setCookie(w, r, "session", strings.Join([]string{named, how, expires, id, mac}, "."), sessionFor)
	c.Log.InfoContext(r.Context(), "console login", "key", key, "how", how)
}

// session returns the login that a request carries: genuine, not over, and of a
// key that exists and may decide.
func (c *Console) session(r *http.Request) (*session, bool) {
	cookie, err := r.Cookie(c.cookieName(r, "session"))
	if err != nil {
		return nil, false
	}
	p := strings.Split(cookie.Value, ".")
	if len(p) != 5 || !c.Seal.Signed(gate.Pages, p[4], "session", p[0], p[1], p[2], p[3]) {
		return nil, false
	}
	key, err1 := base64.RawURLEncoding.DecodeString(p[0])
	seconds, err2 := strconv.ParseInt(p[2], 10, 64)
	if err1 != nil || err2 != nil {
		return nil, false
	}
	who, known := c.Holder(string(key))
	s := &session{id: p[3], how: p[1], expires: time.Unix(seconds, 0), who: who}
	return s, known && who.Has(gate.RoleApprover) && c.lives(s)
}

// lives reports whether a session goes on.
func (c *Console) lives(s *session) bool { return time.Now().Before(s.expires) && !c.ended.has(s.id) }

// token is what forms of a session carry, so that no other site can fill them in.
func (c *Console) token(s *session) string { return c.Seal.Sign(gate.Pages, "form", s.id) }

// page admits who is logged in, and sends others to do so.
func (c *Console) page(show func(http.ResponseWriter, *http.Request, *session)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s, ok := c.session(r)
		if ok {
			show(w, r, s)
			return
		}
		if r.URL.Path == "/console/events" || refreshes(r) {
			http.Error(w, "log in", http.StatusUnauthorized)
			return
		}
		if r.Header.Get("Sec-Fetch-Site") == "cross-site" {
			c.render(w, http.StatusOK, "hop.html", hopPage{chrome{Title: "Opening"}, safeNext(r.URL.RequestURI())})
			return
		}
		http.Redirect(w, r, "/console/login?"+nextQuery(r), http.StatusSeeOther)
	}
}

// hopPage opens the same page again from here. Browsers keep a strict cookie back
// when somebody follows a link from another site, such as a card in a chat, so
// only the second look tells whether they are logged in.
type hopPage struct {
	chrome
	Next string
}

// press admits what a person pressed on a page of their own session.
func (c *Console) press(do func(http.ResponseWriter, *http.Request, *session)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s, ok := c.session(r)
		if !ok {
			c.fail(w, nil, http.StatusUnauthorized, "Your login is over. Nothing was decided; log in and press again.")
			return
		}
		if !c.Seal.Signed(gate.Pages, r.PostFormValue("token"), "form", s.id) {
			c.fail(w, s, http.StatusForbidden, "This page belongs to an earlier login. Nothing was decided; open the page again.")
			return
		}
		do(w, r, s)
	}
}

func (c *Console) logout(w http.ResponseWriter, r *http.Request, s *session) {
	c.ended.add(s.id, s.expires)
	c.setCookie(w, r, "session", "", -time.Second)
	c.Log.InfoContext(r.Context(), "console logout", "key", s.who.Key)
	http.Redirect(w, r, "/console/login", http.StatusSeeOther)
}

func (c *Console) secure(r *http.Request) bool {
	return r.TLS != nil || strings.HasPrefix(c.PublicURL, "https://")
}

// cookieName has the prefix by which browsers refuse a cookie that a sibling
// domain or plain http has set; it needs https.
func (c *Console) cookieName(r *http.Request, name string) string {
	if c.secure(r) {
		return "__Host-approvalbot-" + name
	}
	return "approvalbot-" + name
}

// setCookie sets a cookie, or deletes it if d is negative.
func (c *Console) setCookie(w http.ResponseWriter, r *http.Request, name, value string, d time.Duration) {
	http.SetCookie(w, &http.Cookie{ //nolint:gosec // Secure wherever there is https
		Name: c.cookieName(r, name), Value: value, Path: "/", MaxAge: int(d.Seconds()),
		HttpOnly: true, Secure: c.secure(r), SameSite: http.SameSiteStrictMode,
	})
}

// flash leaves one line for the page that the browser is sent to next.
func (c *Console) flash(w http.ResponseWriter, r *http.Request, s *session, page, line string) {
	text := base64.RawURLEncoding.EncodeToString([]byte(line))
	c.setCookie(w, r, "flash", text+"."+c.Seal.Sign(gate.Pages, "flash", s.id, page, text), time.Minute)
}

// takeFlash returns the line that was left for this page. A page that reads
// itself again does not take it: the one that was opened shall.
func (c *Console) takeFlash(w http.ResponseWriter, r *http.Request, s *session) string {
	cookie, err := r.Cookie(c.cookieName(r, "flash"))
	if err != nil || refreshes(r) {
		return ""
	}
	text, mac, _ := strings.Cut(cookie.Value, ".")
	if !c.Seal.Signed(gate.Pages, mac, "flash", s.id, r.URL.Path, text) {
		return ""
	}
	c.setCookie(w, r, "flash", "", -time.Second)
	line, _ := base64.RawURLEncoding.DecodeString(text)
	return string(line)
}

// refreshes reports whether a page reads itself again after an event.
func refreshes(r *http.Request) bool { return r.Header.Get("X-Console-Refresh") != "" }
