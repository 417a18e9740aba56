package console

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"net/url"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/approvalbot/approvalbot/gate"
)

// What the login page answers.
const (
	unknownKey = "This key is not known here. Check that you pasted all of it."
	agentKey   = "This is an agent's key. Agents ask and people decide: log in with your own approver's key."
	otherKey   = "This key may not decide. Log in with a key that has the role approver."
	tooFast    = "Too many attempts. Wait a minute, then try again."
	deadLink   = "This link has been used or is older than five minutes. Start the demo again for a new one."
)

type loginPage struct {
	chrome
	Next   string
	Error  string
	Demo   bool   // the page of a DemoLink
	Secret string // of the link, for its button
}

func (c *Console) loginPage(w http.ResponseWriter, r *http.Request) {
	next := safeNext(r.URL.Query().Get("next"))
	if _, ok := c.session(r); ok {
		http.Redirect(w, r, next, http.StatusSeeOther) //nolint:gosec // safeNext stays here
		return
	}
	c.render(w, http.StatusOK, "login.html", loginPage{chrome: chrome{Title: "Log in"}, Next: next})
}

func (c *Console) login(w http.ResponseWriter, r *http.Request) {
	if !c.attempts.bears(r.RemoteAddr) {
		w.Header().Set("Retry-After", "60")
		c.refuseLogin(w, r, http.StatusTooManyRequests, tooFast)
		return
	}
	who, ok := c.Login(strings.TrimSpace(r.PostFormValue("key")))
	switch {
	case !ok:
		c.refuseLogin(w, r, http.StatusUnauthorized, unknownKey)
	case who.Has(gate.RoleApprover):
		c.begin(w, r, who.Key, "key")
		http.Redirect(w, r, safeNext(r.PostFormValue("next")), http.StatusSeeOther) //nolint:gosec // safeNext stays here
	case who.Has(gate.RoleAgent):
		c.refuseLogin(w, r, http.StatusForbidden, agentKey)
	default:
		c.refuseLogin(w, r, http.StatusForbidden, otherKey)
	}
}

func (c *Console) refuseLogin(w http.ResponseWriter, r *http.Request, status int, text string) {
	c.attempts.failed(r.RemoteAddr)
	c.Log.InfoContext(r.Context(), "console login refused", "remote", r.RemoteAddr, "status", status)
	c.render(w, status, "login.html", loginPage{chrome: chrome{Title: "Log in"}, Next: safeNext(r.PostFormValue("next")), Error: text})
}

// safeNext keeps a login from sending people to another site.
func safeNext(next string) string {
	u, err := url.Parse(next)
	if err != nil || u.IsAbs() || u.Host != "" || u.User != nil ||
		!strings.HasPrefix(next, "/console/") || path.Clean(u.Path)+"/" != strings.TrimSuffix(u.Path, "/")+"/" {
		return "/console/"
	}
	return next
}

func nextQuery(r *http.Request) string {
	return url.Values{"next": {safeNext(r.URL.RequestURI())}}.Encode()
}

// demoFor is how long a demo link lives.
const demoFor = 5 * time.Minute

// DemoLink logs one browser in, once: for demos, where nobody has a key yet. A
// GET only shows a button, so that no preview of a link uses it up.
type DemoLink struct {
	key     string
	secret  string
	expires time.Time

	mu   sync.Mutex
	used bool
}

// NewDemoLink makes a link that logs in the holder of an approver's key. It is
// for the terminal of whoever started the demo, and for no log.
func NewDemoLink(key string) *DemoLink {
	return &DemoLink{key: key, secret: rand.Text(), expires: time.Now().Add(demoFor)}
}

// URL returns the link on a server such as "http://127.0.0.1:8080".
func (d *DemoLink) URL(base string) string {
	return strings.TrimSuffix(base, "/") + "/console/demo?link=" + d.secret
}

// opens reports whether secret is that of a link that still works; take uses it up.
func (d *DemoLink) opens(secret string, take bool) bool {
	got, want := sha256.Sum256([]byte(secret)), sha256.Sum256([]byte(d.secret))
	d.mu.Lock()
	defer d.mu.Unlock()
	ok := subtle.ConstantTimeCompare(got[:], want[:]) == 1 && !d.used && time.Now().Before(d.expires)
	d.used = d.used || ok && take
	return ok
}

func (c *Console) demoPage(w http.ResponseWriter, r *http.Request) {
	secret := r.URL.Query().Get("link")
	if !c.Demo.opens(secret, false) {
		c.fail(w, nil, http.StatusForbidden, deadLink)
		return
	}
	c.render(w, http.StatusOK, "login.html", loginPage{chrome: chrome{Title: "Demo"}, Demo: true, Secret: secret})
}

func (c *Console) demo(w http.ResponseWriter, r *http.Request) {
	if !c.Demo.opens(r.PostFormValue("link"), true) { // its secret has 128 random bits
		c.fail(w, nil, http.StatusForbidden, deadLink)
		return
	}
	c.begin(w, r, c.Demo.key, "demo")
	http.Redirect(w, r, "/console/", http.StatusSeeOther)
}
