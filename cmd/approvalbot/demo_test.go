package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestDemoAuto: every outcome in order, for machines, in a few seconds.
func TestDemoAuto(t *testing.T) {
	t.Parallel()
	began := time.Now()
	r := shell{}.run(t, "demo", "--auto", "--listen", "127.0.0.1:0")
	wantCode(t, r, exitOK)
	if r.err != "" {
		t.Errorf("it complains: %s", r.err)
	}
	rest := r.out
	for _, part := range []string{
		"The demo decides by itself, on http://127.0.0.1:", "nothing survives",
		"1 of 4  calendar_list\n", "Ran at once.",
		"2 of 4  kubectl_delete on pod/web-7f9c\n", "Held by rule prod-kubectl.", "Approved by the demo.", "exactly this call ran, once.", "refused (spent).",
		"3 of 4  send_email on customers@example.com\n", "Staged by rule send_email.",
		"4 of 4  db_drop_table on orders\n", "Blocked.",
		"3 again send_email on customers@example.com\n", "Approved by the demo.", "exactly this call ran, once.", "refused (spent).",
		"That was all",
	} {
		_, after, ok := strings.Cut(rest, part)
		if !ok {
			t.Fatalf("no %q after what came before in:\n%s", part, r.out)
		}
		rest = after
	}
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("took %s", took)
	}
	for line := range strings.Lines(r.out) {
		if strings.TrimRight(line, " \n") != strings.TrimRight(line, "\n") {
			t.Errorf("blanks at the end of %q", line)
		}
	}
}

var linkForm = regexp.MustCompile(`http://\S+/console/demo\?link=\w+`)

// TestDemoInABrowser goes the way of the first user: the link of the first line,
// its button, then a decision on each call.
func TestDemoInABrowser(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	out, w := io.Pipe()
	var errs bytes.Buffer
	done := make(chan int, 1)
	go func() {
		code := run(ctx, process{args: []string{"demo", "--listen", "127.0.0.1:0"}, env: func(string) string { return "" }, out: w, err: &errs})
		_ = w.Close()
		done <- code
	}()
	lines := newLogbook()
	go func() { _, _ = io.Copy(lines, out) }()

	first := lines.await(t, "Open http")["msg"].(string)
	b := newBrowser(t, linkForm.FindString(first))
	lines.await(t, margin+"Held by rule")
	b.decide("approve", "")
	lines.await(t, margin+"Approved by you.")
	lines.await(t, margin+"It tried the same token again: refused (spent).")
	lines.await(t, margin+"Staged by rule")
	lines.await(t, margin+"Blocked.")
	b.decide("deny", "not tonight")
	denied := lines.await(t, margin+"Denied by you")["msg"].(string)
	wantText(t, denied, "not tonight", "It did not run")
	wantText(t, lines.await(t, margin+"The agent is told: ")["msg"].(string), "DENIED, NOT RUN", "not tonight")
	lines.await(t, "That was all.")
	cancel()
	lines.await(t, "Stopped.")
	if code := <-done; code != exitOK || errs.Len() > 0 {
		t.Errorf("exit %d, %s", code, &errs)
	}
}

// browser is logged in to the console by the demo's link.
type browser struct {
	t    *testing.T
	base *url.URL
	http http.Client
}

func newBrowser(t *testing.T, link string) *browser {
	t.Helper()
	u, err := url.Parse(link)
	if err != nil || u.Host == "" {
		t.Fatalf("no link in the first line: %q", link)
	}
	jar, _ := cookiejar.New(nil)
	b := &browser{t, u, http.Client{Jar: jar}}
	b.get(link)
	b.post("/console/demo", url.Values{"link": {u.Query().Get("link")}})
	return b
}

func (b *browser) get(link string) string {
	b.t.Helper()
	return b.send(http.MethodGet, link, "")
}

func (b *browser) post(path string, form url.Values) {
	b.t.Helper()
	b.send(http.MethodPost, b.base.ResolveReference(&url.URL{Path: path}).String(), form.Encode())
}

func (b *browser) send(method, link, form string) string {
	b.t.Helper()
	req, err := http.NewRequestWithContext(b.t.Context(), method, link, strings.NewReader(form))
	if err != nil {
		b.t.Fatal(err)
	}
	if form != "" {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	resp, err := b.http.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		b.t.Fatalf("%s: %s %v\n%s", resp.Request.URL, resp.Status, err, body)
	}
	return string(body)
}

var (
	approvalLink = regexp.MustCompile(`/console/approvals/(apr_\w+)`)
	hiddenField  = regexp.MustCompile(`type="hidden" name="(\w+)" value="([^"]*)"`)
)

// decide opens the one approval of the inbox and presses a button on it.
func (b *browser) decide(decision, reason string) {
	b.t.Helper()
	at := approvalLink.FindStringSubmatch(b.get(b.base.ResolveReference(&url.URL{Path: "/console/"}).String()))
	if at == nil {
		b.t.Fatal("nothing in the inbox")
	}
	form := url.Values{"do": {decision}, "text": {reason}, "scope": {"once"}, "confirm": {"yes"}}
	for _, f := range hiddenField.FindAllStringSubmatch(b.get(b.base.ResolveReference(&url.URL{Path: at[0]}).String()), -1) {
		form.Set(f[1], f[2])
	}
	b.post(at[0], form)
}

func TestDemoTakesAFreePortIfItsOwnIsTaken(t *testing.T) {
	t.Parallel()
	_, _ = new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:8080") // now it is taken, by whoever
	l, err := demoListener(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	if strings.HasSuffix(l.Addr().String(), ":8080") {
		t.Error("two listen on one port")
	}
}

// TestTheDemosPolicyIsGood: it is what people copy first.
func TestTheDemosPolicyIsGood(t *testing.T) {
	t.Parallel()
	cfg, _, err := demoConfig("you")
	if err != nil {
		t.Fatal(err)
	}
	if w := cfg.Policy.Warnings(); len(w) > 0 {
		t.Errorf("warnings: %v", w)
	}
	if cfg.Policy.Disabled() {
		t.Error("it does not hold calls")
	}
}
