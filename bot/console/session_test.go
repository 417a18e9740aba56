package console_test

import (
	"context"
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/approvalbot/approvalbot/bot/console"
	"github.com/approvalbot/approvalbot/gate"
)

func TestLogin(t *testing.T) {
	t.Parallel()

	h := newHouse(t)
	for name, tt := range map[string]struct {
		key, want string
		status    int
	}{
		"an approver's key opens the inbox":           {h.keys["ann-cli"], "Log out", http.StatusOK},
		"white space around a pasted key is no fault": {" " + h.keys["ann-cli"] + "\n", "Log out", http.StatusOK},
		"an agent's key is told that people decide":   {h.keys["hermes"], "Agents ask and people decide", http.StatusForbidden},
		"an auditor's key may not decide":             {h.keys["audit"], "may not decide", http.StatusForbidden},
		"an unknown key is not known":                 {"ab_" + strings.Repeat("x", 43), "not known", http.StatusUnauthorized},
		"no key is not known":                         {"", "not known", http.StatusUnauthorized},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			got := h.visitor().post("/console/login", url.Values{"key": {tt.key}})
			if got.status != tt.status || !strings.Contains(got.text, tt.want) {
				t.Errorf("%d %q, want %d and %q", got.status, got.text, tt.status, tt.want)
			}
			if key := strings.TrimSpace(tt.key); key != "" && (strings.Contains(got.body, key) || strings.Contains(h.logged(), key)) {
				t.Error("the key came back, or went into the log")
			}
		})
	}
}

func TestLoginIsSlowedDown(t *testing.T) {
	t.Parallel()

	h := newHouse(t)
	v := h.visitor()
	for range 10 {
		v.post("/console/login", url.Values{"key": {"ab_wrong"}})
	}
	got := v.post("/console/login", url.Values{"key": {h.keys["ann-cli"]}})
	if got.status != http.StatusTooManyRequests || got.header.Get("Retry-After") == "" {
		t.Errorf("attempt 11 got %d, want 429 and when to try again", got.status)
	}
}

func TestLoginSendsNobodyAway(t *testing.T) {
	t.Parallel()

	h := newHouse(t)
	for next, want := range map[string]string{
		"/console/history":           "/console/history",
		"/console/grants?x=1":        "/console/grants",
		"":                           "/console/",
		"https://evil.example/":      "/console/",
		"//evil.example/console/":    "/console/",
		"/\\evil.example":            "/console/",
		"/console/../../evil":        "/console/",
		"/console//evil.example":     "/console/",
		"javascript:alert(1)":        "/console/",
		"/console/\r\nSet-Cookie: x": "/console/",
	} {
		if got := h.visitor().post("/console/login", url.Values{"key": {h.keys["ann-cli"]}, "next": {next}}); got.path != want {
			t.Errorf("after a login with next %q one is at %s, want %s", next, got.path, want)
		}
	}
}

// cookieOf is a session as the console signs it.
func cookieOf(seal *gate.Keyring, key string, expires time.Time) string {
	p := []string{base64.RawURLEncoding.EncodeToString([]byte(key)), "key", strconv.FormatInt(expires.Unix(), 10), "ABC"}
	return strings.Join(append(p, seal.Sign(gate.Pages, append([]string{"session"}, p...)...)), ".")
}

func TestSession(t *testing.T) {
	t.Parallel()

	h, other := newHouse(t), newHouse(t)
	later, earlier := time.Now().Add(time.Hour), time.Now().Add(-time.Second)
	genuine := cookieOf(h.seal, "ann-cli", later)
	for name, tt := range map[string]struct {
		cookie string
		admits bool
	}{
		"a genuine session is let in":                {genuine, true},
		"no session is not":                          {"", false},
		"one that is over is not":                    {cookieOf(h.seal, "ann-cli", earlier), false},
		"one of another server is not":               {cookieOf(other.seal, "ann-cli", later), false},
		"one of an agent's key is not":               {cookieOf(h.seal, "hermes", later), false},
		"one of a key that does not exist is not":    {cookieOf(h.seal, "eve-cli", later), false},
		"one that was made longer is not":            {strings.Replace(genuine, strconv.FormatInt(later.Unix(), 10), strconv.FormatInt(later.Unix()+9999, 10), 1), false},
		"one whose holder was changed is not":        {strings.Replace(genuine, base64.RawURLEncoding.EncodeToString([]byte("ann-cli")), base64.RawURLEncoding.EncodeToString([]byte("bo-cli")), 1), false},
		"a signature for something else is none":     {"YQ.b.9999999999.c." + h.seal.Sign(gate.Pages, "form", "YQ", "b", "9999999999", "c"), false},
		"one without a signature is not":             {genuine[:strings.LastIndex(genuine, ".")] + ".", false},
		"a cookie that is no session at all is none": {"....", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			v := h.visitor()
			for path, refused := range map[string]int{"/console/": http.StatusOK, "/console/events": http.StatusUnauthorized} {
				r := v.request(http.MethodGet, path, nil)
				r.AddCookie(&http.Cookie{Name: "approvalbot-session", Value: tt.cookie})
				if tt.admits && path == "/console/events" {
					continue // it would not end
				}
				got := v.do(r)
				if in := strings.Contains(got.text, "Log out"); in != tt.admits || !in && got.status != refused {
					t.Errorf("%s: let in: %t, want %t; status %d", path, in, tt.admits, got.status)
				}
			}
		})
	}
}

func TestLogoutEndsTheSession(t *testing.T) {
	t.Parallel()

	h := newHouse(t)
	ann := h.as("ann-cli")
	at, _ := url.Parse(h.url)
	kept := ann.http.Jar.Cookies(at)
	if got := ann.post("/console/logout", ann.get("/console/").form()); got.path != "/console/login" {
		t.Errorf("after the logout one is at %s", got.path)
	}
	if got := ann.get("/console/"); got.path != "/console/login" {
		t.Error("the browser is still logged in")
	}
	thief := h.visitor()
	thief.http.Jar.SetCookies(at, kept)
	if got := thief.get("/console/"); got.path != "/console/login" {
		t.Error("a copy of the cookie outlived the logout")
	}
}

func TestAKeyThatIsGoneEndsItsSessions(t *testing.T) {
	t.Parallel()

	h := newHouse(t)
	id := h.open("send_email", "", `{}`)
	ann := h.as("ann-cli")
	form := ann.get(page(id)).form("do", "approve")
	h.removeKey("ann-cli")
	if got := ann.post(page(id), form); got.status != http.StatusUnauthorized || !strings.Contains(got.text, "Nothing was decided") {
		t.Errorf("a press got %d %q", got.status, got.text)
	}
	if got := ann.get(page(id)); got.path != "/console/login" {
		t.Errorf("a look got %s", got.path)
	}
	if got := h.view(id); got.State != gate.Pending {
		t.Errorf("state %s", got.State)
	}
}

func TestCookies(t *testing.T) {
	t.Parallel()

	for name, tt := range map[string]struct {
		public string
		prefix string
		secure bool
	}{
		"behind https they are bound to it":              {"https://approvals.example.com", "__Host-approvalbot-", true},
		"on a laptop without https they work without it": {"", "approvalbot-", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			h := newHouse(t, func(c *console.Config) { c.PublicURL = tt.public })
			v := h.visitor()
			v.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
			got := v.post("/console/login", url.Values{"key": {h.keys["ann-cli"]}})
			cookies := (&http.Response{Header: got.header}).Cookies()
			if len(cookies) != 1 {
				t.Fatalf("%d cookies", len(cookies))
			}
			c := cookies[0]
			if c.Name != tt.prefix+"session" || c.Secure != tt.secure || !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/" || c.Domain != "" || c.MaxAge != 12*60*60 {
				t.Errorf("cookie %+v", c)
			}
		})
	}
}

func TestDemoLink(t *testing.T) {
	t.Parallel()

	link := console.NewDemoLink("ann-cli")
	h := newHouse(t, func(c *console.Config) { c.Demo = link })
	path := strings.TrimPrefix(link.URL(h.url), h.url)
	_, secret, _ := strings.Cut(path, "=")

	v := h.visitor()
	for range 2 { // as the preview of a chat does
		if got := v.get(path); got.status != http.StatusOK || !strings.Contains(got.text, "Open the console") || strings.Contains(got.text, "Log out") {
			t.Fatalf("GET: %d %q", got.status, got.text)
		}
	}
	if got := v.post("/console/demo", url.Values{"link": {"wrong"}}); got.status != http.StatusForbidden {
		t.Errorf("a wrong link got %d", got.status)
	}
	if got := v.post("/console/demo", url.Values{"link": {secret}}); got.path != "/console/" || !strings.Contains(got.text, "Log out") {
		t.Errorf("POST: %s %q", got.path, got.text)
	}
	if got := h.visitor().post("/console/demo", url.Values{"link": {secret}}); got.status != http.StatusForbidden {
		t.Errorf("a second POST got %d", got.status)
	}
	if got := h.visitor().get(path); got.status != http.StatusForbidden {
		t.Errorf("a GET of a used link got %d", got.status)
	}
	if strings.Contains(h.logged(), secret) {
		t.Error("the link went into the log")
	}
	if got := newHouse(t).visitor().get(path); got.status != http.StatusNotFound {
		t.Errorf("without a demo there is %d at its address", got.status)
	}
}

func TestDemoLinkRunsOut(t *testing.T) {
	t.Parallel()

	synctest.Test(t, func(t *testing.T) {
		link := console.NewDemoLink("ann-cli")
		c := bare(t, func(c *console.Config) { c.Demo = link })
		look := func() int {
			w := httptest.NewRecorder()
			c.ServeHTTP(w, httptest.NewRequest(http.MethodGet, link.URL(""), nil))
			return w.Code
		}
		<-time.After(5*time.Minute - time.Second)
		if got := look(); got != http.StatusOK {
			t.Errorf("just before five minutes: %d", got)
		}
		<-time.After(time.Second)
		if got := look(); got != http.StatusForbidden {
			t.Errorf("after five minutes: %d", got)
		}
	})
}

// silent is a hub where nothing happens.
type silent struct{}

func (silent) Watch(gate.ID) (<-chan struct{}, func()) { return nil, func() {} }
func (silent) Any() (<-chan struct{}, func())          { return nil, func() {} }

func TestAStreamEndsWithItsSession(t *testing.T) {
	t.Parallel()

	for name, end := range map[string]func(known *atomic.Bool, stop func()){
		"the key is taken out of the configuration": func(known *atomic.Bool, _ func()) { known.Store(false) },
		"the session runs out":                      func(*atomic.Bool, func()) { <-time.After(12 * time.Hour) },
		"the browser goes away":                     func(_ *atomic.Bool, stop func()) { stop() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			synctest.Test(t, func(t *testing.T) {
				var known, over atomic.Bool
				known.Store(true)
				var seal *gate.Keyring
				c := bare(t, func(c *console.Config) {
					seal, c.Wake = c.Seal, silent{}
					c.Holder = func(key string) (gate.Principal, bool) {
						return gate.Principal{Key: key, Person: "ann", Roles: []gate.Role{gate.RoleApprover}}, known.Load()
					}
				})
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/console/events", nil)
				r.AddCookie(&http.Cookie{Name: "approvalbot-session", Value: cookieOf(seal, "ann-cli", time.Now().Add(12*time.Hour))})
				go func() { c.ServeHTTP(httptest.NewRecorder(), r); over.Store(true) }()
				<-time.After(time.Hour)
				if over.Load() {
					t.Fatal("the stream ended by itself")
				}
				end(&known, stop)
				<-time.After(time.Minute)
				if !over.Load() {
					t.Error("the stream goes on")
				}
			})
		})
	}
}

// oneOf is a hub that only wakes who asks for this approval.
type oneOf struct {
	id      gate.ID
	changed chan struct{}
}

func (o oneOf) Any() (<-chan struct{}, func()) { return nil, func() {} }
func (o oneOf) Watch(id gate.ID) (<-chan struct{}, func()) {
	if id != o.id {
		return nil, func() {}
	}
	return o.changed, func() {}
}

func TestEventsOfOneApprovalArePaced(t *testing.T) {
	t.Parallel()

	synctest.Test(t, func(t *testing.T) {
		hub := oneOf{gate.NewID(), make(chan struct{})}
		var seal *gate.Keyring
		c := bare(t, func(c *console.Config) {
			seal, c.Wake = c.Seal, hub
			c.Holder = func(key string) (gate.Principal, bool) {
				return gate.Principal{Key: key, Person: "ann", Roles: []gate.Role{gate.RoleApprover}}, true
			}
		})
		ctx, stop := context.WithCancel(t.Context())
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/console/events?id="+string(hub.id), nil)
		r.AddCookie(&http.Cookie{Name: "approvalbot-session", Value: cookieOf(seal, "ann-cli", time.Now().Add(12*time.Hour))})
		w, over := httptest.NewRecorder(), make(chan struct{})
		go func() { c.ServeHTTP(w, r); close(over) }()
		began := time.Now()
		for range 4 { // as fast as the stream takes them
			hub.changed <- struct{}{}
		}
		stop()
		<-over
		if took := time.Since(began); took != 1500*time.Millisecond || strings.Count(w.Body.String(), "event: change") != 4 {
			t.Errorf("four changes took %v and came as %q; want half a second between two", took, w.Body.String())
		}
	})
}
