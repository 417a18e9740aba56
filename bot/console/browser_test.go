package console_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"github.com/approvalbot/approvalbot/gate"
)

// TestBrowser drives the console as people do, in Chromium.
func TestBrowser(t *testing.T) {
	t.Parallel()

	b := newBrowser(t)
	for name, test := range map[string]func(*house){
		"an approval appears in an open inbox without a reload":                appears,
		"a click approves and wakes the caller, whose token can be spent once": approves,
		"a denial reaches the caller with its reason word for word":            denies,
		"of two browsers that approve and deny at once, one wins":              races,
		"hostile arguments of 200 kB show inert and whole":                     inert,
		"everything that decides works without scripts":                        scriptless,
		"a page of another site cannot decide":                                 crossSite,
		"a link from another site finds the login that is there":               crossSiteLink,
		"a forged or missing cookie leads to the login":                        forged,
		"keys move, open and focus, and decide nothing":                        keyboard,
		"a change does not take away what somebody is typing":                  typing,
		"an approval's page follows what others do":                            follows,
		"a high-risk call cannot be approved before it is confirmed":           confirms,
		"a browser whose key was taken out of the configuration has to log in": loggedOut,
		"an approval stays readable and pressable on a phone of 360 px":        phone,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			h := newHouse(t)
			h.browser = b
			test(h)
		})
	}
}

// tabOf is a tab of somebody who has logged in.
func (h *house) tabOf(who string) *tab {
	h.t.Helper()
	p := h.browser.tab(h.t)
	p.login(h, who)
	return p
}

func appears(h *house) {
	ann := h.tabOf("ann-cli")
	ann.reads(".link", "live")
	ann.js(`window.unloaded = "no"`)
	id := h.open("send_email", "", `{"to":"ops@example.com"}`)
	ann.reads("#row-"+string(id), "send_email")
	ann.reads("#sum", "1 pending, 1 for you")
	ann.until(`document.title.startsWith("(1) Inbox")`)
	ann.until(`document.getElementById("announce").textContent.includes("1 pending")`)
	if ann.text(`window.unloaded`) != "no" {
		h.t.Error("the page was loaded again")
	}
}

func approves(h *house) {
	held := h.ask(request("send_email", "", `{"to":"ops@example.com"}`))
	type result struct {
		ruling gate.Ruling
		at     time.Time
		err    error
	}
	answered := make(chan result, 1)
	go func() {
		r, err := h.gate.Hold(h.t.Context(), hermes, held)
		answered <- result{r, time.Now(), err}
	}()
	ann := h.tabOf("ann-cli")
	ann.click("#row-" + string(held.Approval.ID))
	ann.until(`document.querySelector("#approve button") !== null`)
	ann.js(`document.querySelector("#approve button").addEventListener("click", () => sessionStorage.setItem("pressed", Date.now()))`)
	ann.click("#approve button")
	got := <-answered
	if got.err != nil || got.ruling.Next != gate.NextConsume || !got.ruling.Token.Set() {
		h.t.Fatalf("the caller got %+v, %v; want a token to consume", got.ruling, got.err)
	}
	ann.reads(".done", "Recorded. Approved by ann, waiting to run until")
	pressed, err := strconv.ParseInt(ann.text(`sessionStorage.getItem("pressed")`), 10, 64)
	if took := got.at.Sub(time.UnixMilli(pressed)); err != nil || took > time.Second {
		h.t.Errorf("click to wake took %v (%v); want less than a second", took, err)
	}

	spend := gate.Spending{Principal: "hermes", Token: got.ruling.Token, Attempt: strings.Repeat("a", 32), Call: held.Approval.Call}
	if first, err := h.gate.Consume(h.t.Context(), spend); err != nil || first.Verdict != gate.Allow {
		h.t.Errorf("Consume = %v, %v; want allow", first.Verdict, err)
	}
	spend.Attempt = strings.Repeat("b", 32)
	if second, _ := h.gate.Consume(h.t.Context(), spend); second.Verdict == gate.Allow || second.Reason != gate.ReasonSpent {
		h.t.Errorf("a second Consume = %v, %v; want it refused as spent", second.Verdict, second.Reason)
	}
	ann.reads("#status", "Running since")
}

func denies(h *house) {
	const reason = `wrong cluster: use "staging" <b>now</b> & don't retry`
	held := h.ask(request("send_email", "", `{}`))
	ann := h.tabOf("ann-cli")
	ann.open(h.url + page(held.Approval.ID))
	ann.click("#deny summary")
	ann.do(chromedp.SendKeys(chromedp.CSS("#deny-text"), reason), chromedp.Click(chromedp.CSS("#deny button")))
	ann.reads(".done", "Recorded. Denied by ann")
	r, err := h.gate.Hold(h.t.Context(), hermes, held)
	if err != nil || r.Reason != gate.ReasonDenied || !strings.Contains(r.Text, reason) {
		h.t.Errorf("the caller was told %q (%v, %v); want the reason word for word", r.Text, r.Reason, err)
	}
}

func races(h *house) {
	id := h.open("send_email", "", `{}`)
	ann, bo := h.tabOf("ann-cli"), h.tabOf("bo-cli")
	ann.open(h.url + page(id))
	bo.open(h.url + page(id))
	bo.click("#deny summary")
	var both sync.WaitGroup
	errs := make([]error, 2)
	both.Go(func() { errs[0] = ann.try(chromedp.Click(chromedp.CSS("#approve button"))) })
	both.Go(func() { errs[1] = bo.try(chromedp.Click(chromedp.CSS("#deny button"))) })
	both.Wait()
	if errs[0] != nil || errs[1] != nil {
		h.t.Fatal(errs)
	}
	for _, p := range []*tab{ann, bo} {
		p.until(`document.querySelector("main .note.done, main .note.refused:not([hidden])") !== null`)
	}
	yes, no := ann.text(`document.querySelector("main .note:not([hidden])").innerText`), bo.text(`document.querySelector("main .note:not([hidden])").innerText`)
	switch state := h.view(id).State; {
	case state == gate.Denied && strings.Contains(yes, "bo already denied this at") && strings.Contains(no, "Recorded. Denied by bo"):
	case state == gate.Revoked && strings.Contains(no, "Recorded. Taken back by bo") &&
		(strings.Contains(yes, "Recorded. Approved by ann") || strings.Contains(yes, "Recorded. Taken back by bo")):
		// a denial that comes second takes the approval back; ann may be told at once
	default:
		h.t.Errorf("state %s; ann reads %q, bo reads %q; want one to have won and the other told", state, yes, no)
	}
}

func inert(h *house) {
	evil := "<script>window.ran = 1</script><img src=x onerror='window.ran=1'></pre></bdi>`rm -rf /` \u202e\u2066\u200b\u00ad"
	long := strings.Repeat("x", 200<<10)
	args, err := json.Marshal(map[string]string{"body": evil + long + "THE-END", evil: "key"})
	if err != nil {
		h.t.Fatal(err)
	}
	r := request("send_email", evil[:80], string(args))
	r.Intent, r.Requester.Agent = evil, evil
	id := h.ask(r).Approval.ID
	ann := h.tabOf("ann-cli")
	ann.open(h.url + page(id))
	ann.reads("h1", "send_email")
	for what, want := range map[string]string{
		`window.ran`: "undefined",
		`document.querySelectorAll("script").length`:                                                     "1",
		`document.querySelectorAll("main img, main script").length`:                                      "0",
		`document.querySelector("pre.json").children.length`:                                             "4", // two keys, two strings
		`document.querySelector("pre.json").innerText.includes("THE-END")`:                               "true",
		`document.querySelector("pre.json").innerText.includes("<script>")`:                              "true",
		`document.querySelector("pre.json").innerText.includes("\\u202e")`:                               "true",
		`/[\u202e\u2066\u200b\u00ad]/.test(document.documentElement.innerHTML)`:                          "false",
		`document.querySelector(".args").innerText.includes("characters in 4 lines. Nothing is hidden")`: "true",
		`document.documentElement.scrollWidth <= innerWidth`:                                             "true",
	} {
		if got := ann.text(what); got != want {
			h.t.Errorf("%s = %s, want %s", what, got, want)
		}
	}
	ann.open(h.url + "/console/")
	ann.reads(".row", "send_email")
	if ann.text(`window.ran`) != "undefined" || ann.text(`document.querySelectorAll("main img, main script").length`) != "0" {
		h.t.Error("the inbox let something in")
	}
}

func scriptless(h *house) {
	ids := map[string]gate.ID{
		"approve": h.open("db_restore", "a", `{}`), "deny": h.open("db_restore", "b", `{}`),
		"ask": h.open("send_email", "c", `{}`), "scope": h.open("deploy", "d", `{}`),
	}
	ann := h.browser.tab(h.t)
	ann.do(call(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}))
	ann.login(h, "ann-cli")
	ann.click("#row-" + string(ids["approve"]))
	ann.reads("h1", "db_restore")
	ann.do(chromedp.Click(chromedp.CSS("#approve summary")), chromedp.Click(chromedp.CSS("#approve input[name=confirm]")), chromedp.Click(chromedp.CSS("#approve button")))
	ann.reads(".done", "Recorded. Approved by ann")
	ann.do(chromedp.Click(chromedp.CSS("#deny summary")), chromedp.SendKeys(chromedp.CSS("#revoke-text"), "changed my mind"), chromedp.Click(chromedp.CSS("#deny button")))
	ann.reads(".done", "Recorded. Taken back by ann")

	ann.open(h.url + page(ids["deny"]))
	ann.do(chromedp.Click(chromedp.CSS("#deny summary")), chromedp.SendKeys(chromedp.CSS("#deny-text"), "no"), chromedp.Click(chromedp.CSS("#deny button")))
	ann.reads(".done", "Recorded. Denied by ann")

	ann.open(h.url + page(ids["ask"]))
	ann.do(chromedp.Click(chromedp.CSS("#ask summary")), chromedp.SendKeys(chromedp.CSS("#ask-text"), "why now?"), chromedp.Click(chromedp.CSS("#ask button")))
	ann.reads(".done", "Asked. The call stays held")
	ann.reads("#life", "why now?")

	ann.open(h.url + page(ids["scope"]))
	ann.do(chromedp.Click(chromedp.CSS("#approve summary")), chromedp.Click(chromedp.CSS("#approve input[value=session]")), chromedp.Click(chromedp.CSS("#approve button")))
	ann.reads(".done", "Recorded. Approved by ann")
	ann.open(h.url + "/console/grants")
	ann.reads(".grant", "any deploy on d")
	ann.click(".grant button.deny")
	ann.reads(".done", "Revoked.")
	ann.reads(".empty", "No grants")
}

func crossSite(h *house) {
	id := h.open("send_email", "", `{}`)
	ann := h.tabOf("ann-cli")
	ann.open(h.url + page(id))
	form := ann.text(`new URLSearchParams(new FormData(document.querySelector("#approve"))).toString()`)
	evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprintf(w, `<form method="post" action="%s%s"><input name="do" value="approve">`, h.url, page(id))
		for pair := range strings.SplitSeq(form, "&") { // even with everything a page carries
			name, value, _ := strings.Cut(pair, "=")
			_, _ = fmt.Fprintf(w, `<input name="%s" value="%s">`, name, value)
		}
		_, _ = fmt.Fprint(w, `<button>You won</button></form>`)
	}))
	h.t.Cleanup(evil.Close)
	ann.open(strings.Replace(evil.URL, "127.0.0.1", "localhost", 1))
	ann.click("button")
	ann.reads("main", "came from another site")
	if got := h.view(id); got.State != gate.Pending || len(got.Votes) > 0 {
		h.t.Errorf("state %s with %d votes after a press on another site", got.State, len(got.Votes))
	}
}

func crossSiteLink(h *house) {
	id := h.open("send_email", "", `{}`)
	chat := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprintf(w, `<a href="%s%s">Open</a>`, h.url, page(id))
	}))
	h.t.Cleanup(chat.Close)
	ann := h.tabOf("ann-cli")
	ann.open(strings.Replace(chat.URL, "127.0.0.1", "localhost", 1))
	ann.click("a")
	ann.reads("h1", "send_email")
}

func forged(h *house) {
	id := h.open("send_email", "", `{}`)
	ann := h.browser.tab(h.t)
	ann.open(h.url + page(id))
	ann.reads("h1", "Log in")
	ann.do(call(network.SetCookies, network.SetCookiesParams{Cookies: []*network.CookieParam{{
		Name: "approvalbot-session", Value: "YW5uLWNsaQ.key.9999999999.ABC.AAAA", URL: h.url,
	}}}))
	ann.open(h.url + page(id))
	ann.reads("h1", "Log in")
	ann.do(chromedp.SendKeys(chromedp.CSS("#key"), h.keys["ann-cli"]), chromedp.Click(chromedp.CSS("button.go")))
	ann.reads("h1", "send_email") // and back to where they wanted to go
}

func keyboard(h *house) {
	first, second := h.open("send_email", "one", `{}`), h.open("send_email", "two", `{}`)
	ann := h.tabOf("ann-cli")
	ann.reads(".link", "live")
	focused := func(id gate.ID) string { return `document.activeElement.id === "row-` + string(id) + `"` }
	ann.keys("j")
	ann.until(focused(first))
	ann.keys("j")
	ann.until(focused(second))
	ann.keys("k")
	ann.until(focused(first))
	ann.keys("\r")
	ann.reads("h1", "one")
	ann.reads(".link", "live") // so its script listens
	ann.keys("a")
	ann.until(`document.activeElement.value === "approve"`)
	ann.keys("d")
	ann.until(`document.activeElement.id === "deny-text"`)
	ann.keys("ad") // typed, not pressed
	ann.until(`document.activeElement.value === "ad"`)
	if got := h.view(first); len(got.Votes) > 0 {
		h.t.Error("a key has decided")
	}
	ann.open(h.url + "/console/")
	ann.reads(".link", "live")
	ann.keys("?")
	ann.until(`document.getElementById("help").open`)
	ann.click("#shortcuts")
	ann.click("#help form button")
	ann.keys("j")
	ann.until(`!document.activeElement.classList.contains("row")`)
}

func typing(h *house) {
	id := h.open("kubectl_delete", "pod", `{}`)
	ann := h.tabOf("ann-cli")
	ann.open(h.url + page(id))
	ann.reads(".link", "live")
	ann.do(chromedp.Click(chromedp.CSS("#deny summary")), chromedp.SendKeys(chromedp.CSS("#deny-text"), "half a rea"))
	h.vote("bo", id, gate.Approve, "")
	ann.until(`document.getElementById("stale").checkVisibility()`)
	if got := ann.text(`document.getElementById("deny-text").value`); got != "half a rea" {
		h.t.Errorf("what was typed is now %q", got)
	}
}

func follows(h *house) {
	id := h.open("kubectl_delete", "pod", `{}`)
	ann := h.tabOf("ann-cli")
	ann.open(h.url + page(id))
	ann.reads(".link", "live")
	h.vote("bo", id, gate.Approve, "")
	ann.reads("#life", "1 of 2 approvals in")
	h.vote("cy", id, gate.Deny, "not during the freeze")
	ann.reads("#status", `Denied by cy`)
	ann.until(`document.querySelector(".decide button, .decide summary") === null`)
	ann.until(`document.getElementById("announce").textContent.includes("Denied by cy")`)
}

func confirms(h *house) {
	id := h.open("db_restore", "orders", `{}`)
	ann := h.tabOf("ann-cli")
	ann.open(h.url + page(id))
	ann.do(chromedp.Click(chromedp.CSS("#approve summary")), chromedp.Click(chromedp.CSS("#approve button")))
	ann.until(`document.querySelector("#approve input[name=confirm]:invalid") !== null`)
	ann.do(chromedp.Click(chromedp.CSS("#approve input[name=confirm]")), chromedp.Click(chromedp.CSS("#approve button")))
	ann.reads(".done", "Recorded. Approved by ann")
}

func loggedOut(h *house) {
	ann := h.tabOf("ann-cli")
	ann.reads(".link", "live")
	h.removeKey("ann-cli")
	h.open("send_email", "", `{}`) // the page reads itself again, and is told
	ann.reads("h1", "Log in")
}

func phone(h *house) {
	id := h.open("kubectl_delete", strings.Repeat("long-target/", 15), `{"k":"`+strings.Repeat("v", 3000)+`"}`)
	ann := h.browser.tab(h.t)
	ann.do(chromedp.EmulateViewport(360, 640, chromedp.EmulateMobile, chromedp.EmulateTouch))
	ann.login(h, "ann-cli")
	for _, path := range []string{"/console/", page(id), "/console/history", "/console/grants"} {
		ann.open(h.url + path)
		if got := ann.text(`document.documentElement.scrollWidth`); got != "360" {
			h.t.Errorf("%s is %s px wide on a phone of 360", path, got)
		}
	}
	ann.open(h.url + page(id))
	for _, act := range []string{"#approve summary", "#deny summary", "#ask summary"} {
		got := ann.text(`(() => { const r = document.querySelector("` + act + `").getBoundingClientRect(); return r.height >= 44 && r.bottom <= innerHeight && r.top > innerHeight / 2 })()`)
		if got != "true" {
			h.t.Errorf("%s is not under the thumb", act)
		}
	}
}
