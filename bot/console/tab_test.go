package console_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// patience is how long a test waits for what must happen.
const patience = 20 * time.Second

// browser is one Chromium process.
type browser struct {
	ctx context.Context //nolint:containedctx // how chromedp names a browser
}

// newBrowser starts a browser that ends with the test.
func newBrowser(t *testing.T) *browser {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("chromium is missing: apt-get install chromium")
		}
		t.Skip("needs a browser: apt-get install chromium")
	}
	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.UserDataDir(t.TempDir()),
		chromedp.DisableGPU, chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-quic", true))
	if os.Geteuid() == 0 {
		opts = append(opts, chromedp.NoSandbox)
	}
	ctx, stop := chromedp.NewExecAllocator(context.WithoutCancel(t.Context()), opts...)
	ctx, quit := chromedp.NewContext(ctx)
	t.Cleanup(func() { _ = chromedp.Cancel(ctx); quit(); stop() })
	if err := chromedp.Do(ctx); err != nil {
		t.Fatal(err)
	}
	return &browser{ctx}
}

// tab is a tab with cookies of its own, so that each is another person's browser.
type tab struct {
	t     *testing.T
	ctx   context.Context //nolint:containedctx // how chromedp names a tab
	close context.CancelFunc
}

func (b *browser) tab(t *testing.T) *tab {
	t.Helper()
	ctx, stop := chromedp.NewContext(b.ctx, chromedp.WithNewBrowserContext())
	t.Cleanup(stop)
	p := &tab{t, ctx, stop}
	p.do()
	return p
}

func (p *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	if err := p.try(steps...); err != nil {
		p.t.Fatal(err)
	}
}

// try runs steps, each with patience. Without steps it opens the tab, which ends
// with the context of its first run: that one has no time-out.
func (p *tab) try(steps ...chromedp.Action[chromedp.Void]) error {
	if len(steps) == 0 {
		return chromedp.Do(p.ctx)
	}
	ctx, stop := context.WithTimeout(p.ctx, patience)
	defer stop()
	return chromedp.Do(ctx, steps...)
}

// call is a command of the protocol that returns nothing.
func call[P any](cmd cdp.Command[P, cdp.Empty], params P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, cmd, params)
		return err
	})
}

func (p *tab) open(url string) {
	p.t.Helper()
	p.do(chromedp.Navigate(url))
}

func (p *tab) login(h *house, who string) {
	p.t.Helper()
	p.open(h.url + "/console/login")
	p.do(chromedp.SendKeys(chromedp.CSS("#key"), h.keys[who]), chromedp.Click(chromedp.CSS("button.go")))
	p.until(`document.querySelector(".me") !== null`)
}

// js runs an expression in the page.
func (p *tab) js(expression string) {
	p.t.Helper()
	p.do(chromedp.Evaluate[chromedp.Void](expression))
}

// text is what an expression in the page evaluates to.
func (p *tab) text(expression string) string {
	p.t.Helper()
	got, err := p.eval(expression)
	if err != nil {
		p.t.Fatal(err)
	}
	return got
}

func (p *tab) eval(expression string) (string, error) {
	ctx, stop := context.WithTimeout(p.ctx, patience)
	defer stop()
	return chromedp.Run(ctx, chromedp.Evaluate[string]("String("+expression+")"))
}

// until waits for a condition in the page, whichever page that is by then.
func (p *tab) until(condition string) {
	p.t.Helper()
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	late := time.After(patience)
	for {
		if got, err := p.eval(condition); err == nil && got == "true" {
			return
		}
		select {
		case <-look.C:
		case <-late:
			page, _ := p.eval("document.body.innerText")
			p.t.Fatalf("never came true: %s\nthe page reads:\n%s", condition, page)
		}
	}
}

// reads waits until an element holds a text.
func (p *tab) reads(element, text string) {
	p.t.Helper()
	p.until(fmt.Sprintf("(document.querySelector(%s)?.innerText ?? '').includes(%s)", strconv.Quote(element), strconv.Quote(text)))
}

func (p *tab) click(element string) {
	p.t.Helper()
	p.do(chromedp.Click(chromedp.CSS(element)))
}

// keys presses keys as a keyboard does: whoever takes the press off a key also
// takes away the character that it would have typed.
func (p *tab) keys(keys string) {
	p.t.Helper()
	for _, r := range keys {
		for _, e := range kb.Encode(r) {
			if e.Type == input.DispatchKeyEventTypeKeyDown {
				e.Type = input.DispatchKeyEventTypeRawKeyDown
			}
			p.do(call(input.DispatchKeyEvent, *e))
		}
	}
}
