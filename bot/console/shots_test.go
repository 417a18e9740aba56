package console_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/approvalbot/approvalbot/gate"
)

// To look at all pages: go test ./bot/console -run TestShots -shots FOLDER.
var shots = flag.String("shots", "", "folder for screenshots of all pages")

func TestShots(t *testing.T) {
	t.Parallel()

	if *shots == "" {
		t.Skip("only with -shots")
	}
	if err := os.MkdirAll(*shots, 0o755); err != nil {
		t.Fatal(err)
	}
	browser := newBrowser(t)
	empty := newHouse(t)
	h := newHouse(t)
	ids := h.furnish()
	hostile := request("kubectl_apply", "prod/\u202eweb\u200b", `{"manifest":"<script>alert(1)</script>\n`+"`rm -rf /`"+` \u202e\u200b\u0000 שלום","list":[1,2.50,{"deep":null}],"path":"a                                                                      b"}`)
	hostile.Intent = "Trust me <b>this is fine</b>.\nApproved by Ann already \u202egnihton."
	bad := h.ask(hostile).Approval.ID

	pages := []struct{ name, path, opened string }{
		{"inbox", "/console/", ""},
		{"history", "/console/history", ""},
		{"grants", "/console/grants", ""},
		{"pending", page(ids["pending"]), ""},
		{"deny", page(ids["pending"]), "deny"},
		{"scopes", page(ids["pending"]), "approve"},
		{"risky", page(ids["risky"]), "approve"},
		{"mail", page(ids["mail"]), ""},
		{"owners", page(ids["owners"]), ""},
		{"hostile", page(bad), ""},
		{"approved", page(ids["approved"]), ""},
		{"denied", page(ids["denied"]), ""},
		{"executing", page(ids["executing"]), ""},
		{"unknown", page(ids["unknown"]), ""},
		{"failed", page(ids["failed"]), ""},
	}
	for _, look := range looks {
		tab := browser.tab(t)
		tab.do(chromedp.EmulateViewport(look.width, look.height), call(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: look.scheme}},
		}))
		tab.open(empty.url + "/console/login")
		tab.shoot("login", look)
		tab.login(empty, "ann-cli")
		tab.shoot("empty", look)
		tab.login(h, "ann-cli")
		for _, p := range pages {
			tab.open(h.url + p.path)
			if p.opened != "" {
				tab.js(`document.getElementById("` + p.opened + `").open = true; window.scrollTo(0, 0)`)
			}
			tab.shoot(p.name, look)
		}
		tab.close()
	}
}

type look struct {
	name          string
	width, height int64
	scheme        string
	whole         bool
}

var looks = []look{
	{"light", 1280, 800, "light", true},
	{"dark", 1280, 800, "dark", true},
	{"phone", 390, 844, "light", false},
	{"small", 360, 640, "dark", false},
}

func (p *tab) shoot(name string, l look) {
	p.t.Helper()
	shot := chromedp.CaptureScreenshot()
	if l.whole {
		shot = chromedp.FullScreenshot(100)
	}
	png, err := chromedp.Run(p.ctx, shot)
	if err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(*shots, name+"-"+l.name+".png"), png, 0o600); err != nil {
		p.t.Fatal(err)
	}
}

// furnish opens what a page may have to show.
func (h *house) furnish() map[string]gate.ID {
	ids := map[string]gate.ID{}
	pending := request("kubectl_delete", "prod/payments-api", `{"namespace":"prod","kind":"Pod","name":"payments-api-6d9f7c-x2x4q","grace_period_seconds":0,"force":true}`)
	pending.Intent = "The pod has been in CrashLoopBackOff for 20 minutes and the deployment does not replace it. Deleting it lets the replica set make a new one."
	ids["pending"] = h.ask(pending).Approval.ID
	h.vote("bo", ids["pending"], gate.NeedContext, "Is anyone draining that node right now?")
	if err := h.gate.Answer(h.t.Context(), hermes, ids["pending"], "No. The node ip-10-0-3-7 is healthy and not cordoned."); err != nil {
		h.t.Fatal(err)
	}
	h.vote("bo", ids["pending"], gate.Approve, "")
	ids["risky"] = h.open("db_restore", "orders-prod", `{"snapshot":"orders-2026-03-01T02:00","into":"orders-prod","password":"hunter2hunter2","drop_existing":true}`)
	ids["mail"] = h.open("send_email", "", `{"to":"customers@example.com","subject":"Incident resolved","body":"Hello,\n\nthe incident of this morning is resolved.\n"}`)
	ids["owners"] = h.open("rotate_credentials", "ci/deploy-key", `{"reason":"quarterly"}`)
	deploy := request("deploy", "web", `{"version":"2.14.0","strategy":"rolling"}`)
	deploy.Requester.Attended = false
	ids["deploy"] = h.ask(deploy).Approval.ID
	ids["approved"] = h.open("send_email", "", `{"to":"ops@example.com"}`)
	h.vote("bo", ids["approved"], gate.Approve, "")
	ids["denied"] = h.open("db_drop_index", "orders-prod", `{"index":"orders_created_at"}`)
	h.vote("cy", ids["denied"], gate.Deny, "wrong cluster, you want orders-staging")
	ids["executing"] = h.open("send_email", "", `{"to":"team@example.com"}`)
	h.dispatch(ids["executing"])
	ids["unknown"] = h.open("send_email", "", `{"to":"all@example.com"}`)
	h.report(h.dispatch(ids["unknown"]), gate.OutcomeUnknown, "it may have taken effect: no answer within 30s")
	ids["failed"] = h.open("send_email", "", `{"to":"ops@example.com"}`)
	h.report(h.dispatch(ids["failed"]), gate.Failed, "exit code 1\nsmtp: mailbox full")
	granted := h.open("deploy", "docs", `{"version":"1.1.0"}`)
	w := h.view(granted)
	p := gate.Principal{Key: "bo-cli", Person: "bo", Roles: []gate.Role{gate.RoleApprover}}
	if _, err := h.gate.Decide(h.t.Context(), gate.Decision{ID: granted, Voter: p.Voter("api"), Choice: gate.Approve, Scope: gate.Session, Digest: w.Digest, Nonce: "x"}); err != nil {
		h.t.Fatal(err)
	}
	return ids
}

const anAttempt = "0123456789abcdef0123456789abcdef"

// dispatch approves a call and spends it.
func (h *house) dispatch(id gate.ID) gate.View {
	h.t.Helper()
	h.vote("bo", id, gate.Approve, "")
	v := h.view(id)
	spent, err := h.gate.Consume(h.t.Context(), gate.Spending{Principal: "hermes", ID: v.ID, Token: v.Ruling.Token, Attempt: anAttempt, Call: v.Call})
	if err != nil || spent.Verdict != gate.Allow {
		h.t.Fatal(spent, err)
	}
	return v
}

// report says how a dispatch ended.
func (h *house) report(v gate.View, outcome gate.State, said string) {
	h.t.Helper()
	err := h.gate.Report(h.t.Context(), gate.Reporting{Principal: "hermes", ID: v.ID, Token: v.Ruling.Token, Attempt: anAttempt, Outcome: outcome, Result: said})
	if err != nil {
		h.t.Fatal(err)
	}
}
