package console_test

import (
	"bufio"
	"context"
	"fmt"
	"html"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/approvalbot/approvalbot/bot/console"
	"github.com/approvalbot/approvalbot/gate"
	"github.com/approvalbot/approvalbot/gate/secret"
)

// bare is a console with nothing behind it.
func bare(t *testing.T, change func(*console.Config)) *console.Console {
	t.Helper()
	seal, err := gate.NewKeyring(secret.New(strings.Repeat("k", gate.MinServerKey)))
	if err != nil {
		t.Fatal(err)
	}
	cfg := console.Config{Seal: seal, Log: slog.New(slog.DiscardHandler)}
	change(&cfg)
	c, err := console.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestEveryAnswerIsGuarded(t *testing.T) {
	t.Parallel()

	h := newHouse(t)
	id := h.open("send_email", "", `{}`)
	ann, stranger := h.as("ann-cli"), h.visitor()
	answers := map[string]answer{
		"inbox": ann.get("/console/"), "approval": ann.get(page(id)), "history": ann.get("/console/history"),
		"grants": ann.get("/console/grants"), "login": stranger.get("/console/login"), "missing": ann.get("/console/nothing"),
		"no approval": ann.get("/console/approvals/apr_01M8QDHQCMRD97H5Y9XFWE3PRK"), "bad id": ann.get("/console/approvals/x"),
		"refused press": ann.post(page(id), url.Values{}), "method": ann.do(ann.request(http.MethodDelete, page(id), nil)),
		"script": ann.get("/console/static/console.js"),
	}
	for name, got := range answers {
		want := map[string]string{
			"X-Frame-Options": "DENY", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store",
			"Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
		}
		if name == "script" {
			want["Cache-Control"] = "public, max-age=31536000, immutable"
		}
		for header, value := range want {
			if got.header.Get(header) != value {
				t.Errorf("%s: %s is %q", name, header, got.header.Get(header))
			}
		}
		for _, inline := range []string{"<style", " style=", "<script>", " onclick=", "javascript:"} {
			if name != "script" && strings.Contains(got.body, inline) {
				t.Errorf("%s: holds %q, which the policy forbids", name, inline)
			}
		}
	}
	for name, status := range map[string]int{"missing": 404, "no approval": 404, "bad id": 404, "method": 405} {
		if answers[name].status != status {
			t.Errorf("%s: %d, want %d", name, answers[name].status, status)
		}
	}
}

func TestAGetDecidesNothing(t *testing.T) {
	t.Parallel()

	h := newHouse(t)
	id := h.open("send_email", "", `{}`)
	ann := h.as("ann-cli")
	form := ann.get(page(id)).form("do", "approve").Encode()
	for _, path := range []string{page(id) + "?" + form, "/console/?" + form, "/console/logout?" + form, "/console/grants/grt_1?" + form} {
		ann.get(path)
		ann.do(ann.request(http.MethodHead, path, nil))
	}
	if v := h.view(id); v.State != gate.Pending || len(v.Votes) > 0 {
		t.Errorf("state %s, %d votes", v.State, len(v.Votes))
	}
	if got := ann.get("/console/"); !strings.Contains(got.text, "Log out") {
		t.Error("a GET has logged out")
	}
}

func TestTheApprovalPageSaysEverything(t *testing.T) {
	t.Parallel()

	h := newHouse(t)
	id := h.furnish()["pending"]
	v := h.view(id)
	got := h.as("ann-cli").get(page(id))
	for _, want := range []string{
		"deploy-bot for dora wants kubectl_delete on prod/payments-api", // who, for whom, what, on what
		`"name" : "payments-api-6d9f7c-x2x4q"`, "127 characters in 7 lines. Nothing is hidden.",
		"Why, in the agent's own words The pod has been in CrashLoopBackOff", "Nobody has checked this.",
		"Server k8s-prod", "Key hermes (proven)", "Run run-81", "Session s-204", "Rule prod-kubectl", "Who may decide sre (3)",
		"Waiting for 1 of 2 (sre)", "1 of 2 approvals in", "If nobody decides by", "it stays open in this inbox until", "Due in 15 min",
		"the agent runs it, once", string(id), v.Digest.Short(), v.Digest.String(),
		"Opened by deploy-bot", "Asked by bo Is anyone", "Is anyone draining that node right now?", "No. The node ip-10-0-3-7 is healthy", "Approved by bo (sre, on api)",
		"What the agent is told now WAITING, NOT RUN YET.",
		"Once this call, this time", "This session any kubectl_delete on prod/payments-api, only while this session lasts", "Always any kubectl_delete on prod/payments-api, later sessions too",
	} {
		if !strings.Contains(strings.NewReplacer(" (just now)", "", "Asked by bo "+gate.Clock{Now: v.Snapshot.Now}.Time(v.Questions[0].At), "Asked by bo").Replace(got.text), want) {
			t.Errorf("nothing reads %q in:\n%s", want, got.text)
		}
	}
	if strings.Contains(got.body, "abt_") || v.Ruling.Token.Set() {
		t.Error("a token is on the page")
	}
}

func TestOnlyWhatMayBeChosenIsOffered(t *testing.T) {
	t.Parallel()

	h := newHouse(t)
	ids := h.furnish()
	lone := request("deploy", "web", `{}`)
	lone.Requester.Session = ""
	ids["lone"] = h.ask(lone).Approval.ID
	ann := h.as("ann-cli")
	for name, tt := range map[string]struct {
		has, hasNot string
	}{
		"mail":      {`<form method="post" class="act approve" id="approve">`, `name="scope"`},
		"deploy":    {`value="session"`, `value="always"`},
		"lone":      {`value="once"`, `value="session"`},
		"risky":     {`name="confirm" value="yes" required`, `name="scope"`},
		"owners":    {"You are not in owners. Ask cy.", "<button class=\"yes\""},
		"approved":  {`value="revoke"`, `value="approve"`},
		"denied":    {"wrong cluster", `value="deny"`},
		"executing": {"Running since", `value="revoke"`},
		"unknown":   {`value="again"`, `value="approve"`},
		"failed":    {"smtp: mailbox full", `value="again"`},
	} {
		got := ann.get(page(ids[name]))
		if !strings.Contains(got.body, tt.has) || strings.Contains(got.body, tt.hasNot) {
			t.Errorf("%s: want %q and not %q in:\n%s", name, tt.has, tt.hasNot, got.body)
		}
	}
}

func TestAnEditIsShownAsADiff(t *testing.T) {
	t.Parallel()

	h := newHouse(t)
	ann := h.as("ann-cli")
	edit := request("deploy", "web", `{"old":"replicas: 3\nimage: shop","new":"replicas: 30\nimage: shop\u202e"}`)
	got := ann.get(page(h.ask(edit).Approval.ID))
	for _, want := range []string{"What it changes", "<bdi>-replicas: 3</bdi>\n<bdi>-image: shop</bdi>\n<bdi>&#43;replicas: 30</bdi>\n<bdi>&#43;image: shop\\u202e</bdi>\n"} {
		if !strings.Contains(got.body, want) {
			t.Errorf("nothing reads %q in:\n%s", want, got.body)
		}
	}
	covered := request("db_write", "web", `{"old":"a","new":"b","password":{"old":"secret-1","new":"secret-2"}}`)
	if got := ann.get(page(h.ask(covered).Approval.ID)); strings.Contains(got.body, "secret-") || !strings.Contains(got.body, "What it changes") {
		t.Errorf("what is covered is compared:\n%s", got.body)
	}
	plain := request("deploy", "web", `{"new":"b"}`)
	if got := ann.get(page(h.ask(plain).Approval.ID)); strings.Contains(got.body, "What it changes") {
		t.Error("there is nothing to compare")
	}
}

func TestRedaction(t *testing.T) {
	t.Parallel()

	h := newHouse(t)
	id := h.open("db_restore", "orders", `{"password":"hunter2-hunter2","into":"orders"}`)
	ann := h.as("ann-cli")
	got := ann.get(page(id))
	if strings.Contains(got.body, "hunter2") || !strings.Contains(got.text, "[redacted, 15 characters]") || !strings.Contains(got.text, "The rule redacts values; nothing else is hidden.") {
		t.Errorf("redacted wrongly: %s", got.text)
	}

	tightened := rules[1]
	tightened.Quorum = &gate.QuorumConfig{Total: 2}
	if err := h.gate.SetPolicy(t.Context(), h.policy([]gate.RuleConfig{tightened}), "test"); err != nil {
		t.Fatal(err)
	}
	got = ann.get(page(id))
	if strings.Contains(got.body, "hunter2") || !strings.Contains(got.text, "[redacted, 15 characters]") || !strings.Contains(got.text, "a press asks people again") {
		t.Errorf("under a changed rule of that name: %s", got.text)
	}

	if err := h.gate.SetPolicy(t.Context(), h.policy([]gate.RuleConfig{rules[2]}), "test"); err != nil {
		t.Fatal(err)
	}
	got = ann.get(page(id))
	if strings.Contains(got.body, "hunter2") || strings.Contains(got.body, `"into"`) || !strings.Contains(got.text, "the arguments are not shown") {
		t.Errorf("under no rule of that name: %s", got.text)
	}
}

func TestInbox(t *testing.T) {
	t.Parallel()

	h := newHouse(t)
	ann := h.as("ann-cli")
	if got := ann.get("/console/"); !strings.Contains(got.text, "Nothing waits for you") || !strings.Contains(got.text, "approvalbot request") || strings.Contains(got.body, "<title>(") {
		t.Errorf("empty: %s", got.text)
	}
	h.furnish()
	got := ann.get("/console/")
	if !strings.Contains(got.text, "5 pending, 4 for you") || !strings.Contains(got.body, "<title>(5) Inbox") {
		t.Errorf("the count: %s", got.text)
	}
	order(t, got.text, "kubectl_delete on prod/payments-api", "db_restore", "send_email", "deploy on web", "rotate_credentials") // mine first, then by deadline
	for query, want := range map[string]string{
		"?rule=mail": "send_email", "?tool=deploy": "deploy on web", "?requester=hermes": "rotate_credentials",
		"?requester=somebody": "Nothing matches 5 waiting in all.", "?tool=%3Cscript%3E": "Nothing matches",
	} {
		if got := ann.get("/console/" + query); !strings.Contains(got.text, want) || strings.Contains(got.body, "<script>") {
			t.Errorf("%s: want %q in %s", query, want, got.text)
		}
	}
	if got := ann.get("/console/?cursor=nonsense"); got.status != 422 {
		t.Errorf("a bad cursor got %d", got.status)
	}
}

func order(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		_, rest, found := strings.Cut(text, p)
		if !found {
			t.Errorf("%q is missing, or comes too early, in: %s", p, text)
			continue
		}
		text = rest
	}
}

func TestInboxPages(t *testing.T) {
	t.Parallel()

	h := breaks(t, &broken{list: func(q gate.Query) gate.Query { q.Limit = 3; return q }})
	for i := range 5 {
		h.open("send_email", fmt.Sprintf("target-%d", i), `{}`)
	}
	ann := h.as("ann-cli")
	first := ann.get("/console/?rule=mail")
	_, link, found := strings.Cut(first.body, `<a href="/console/?cursor=`)
	if !found || !strings.Contains(first.text, "5 pending, 3 for you on this page") || strings.Contains(first.text, "First page") {
		t.Fatalf("the first page: %s", first.text)
	}
	link, _, _ = strings.Cut(link, `"`)
	second := ann.get("/console/?cursor=" + html.UnescapeString(link))
	if !strings.Contains(second.text, "5 pending, 2 for you on this page") || !strings.Contains(second.text, "First page") || strings.Contains(second.text, "Next page") {
		t.Errorf("the second page: %s", second.text)
	}
	for i := range 5 {
		if target := fmt.Sprintf("target-%d", i); strings.Contains(first.text, target) == strings.Contains(second.text, target) {
			t.Errorf("%s is on both pages or on none", target)
		}
	}
}

func TestHistory(t *testing.T) {
	t.Parallel()

	h := newHouse(t)
	ann := h.as("ann-cli")
	if got := ann.get("/console/history"); !strings.Contains(got.text, "Nothing here") {
		t.Errorf("empty: %s", got.text)
	}
	h.furnish()
	got := ann.get("/console/history")
	order(t, got.text, "deploy on docs", "Running since", "send_email", "waiting to run until", "db_drop_index on orders-prod", `"wrong cluster, you want orders-staging"`)
	if strings.Contains(got.text, "payments-api") {
		t.Error("what is pending is in the history")
	}
	if got := ann.get("/console/history?state=denied"); !strings.Contains(got.text, "db_drop_index") || strings.Contains(got.text, "deploy on docs") {
		t.Errorf("denied: %s", got.text)
	}
	if got := ann.get("/console/history?state=pending"); got.status != http.StatusNotFound {
		t.Errorf("pending is no past: %d", got.status)
	}
}

func TestGrants(t *testing.T) {
	t.Parallel()

	h := newHouse(t)
	ann := h.as("ann-cli")
	if got := ann.get("/console/grants"); !strings.Contains(got.text, "No grants") {
		t.Errorf("empty: %s", got.text)
	}
	h.furnish()
	got := ann.get("/console/grants")
	for _, want := range []string{"any deploy on docs", "deploy-bot for dora · in session s-204 · rule deploys", "By bo", "(in 30 days) , used 0 times", "Revoke"} {
		if !strings.Contains(got.text, want) {
			t.Errorf("nothing reads %q in %s", want, got.text)
		}
	}
	if strings.Contains(got.text, "Confirm") {
		t.Error("a grant of this life of the store needs no confirmation")
	}
	all, err := h.gate.Grants(t.Context(), gate.Principal{Key: "ann-cli", Roles: []gate.Role{gate.RoleApprover}})
	if err != nil || len(all) != 1 {
		t.Fatal(all, err)
	}
	path := "/console/grants/" + all[0].ID
	if got := ann.post(path, got.form("do", "confirm")); !strings.Contains(got.text, "Confirmed. It counts again.") || got.path != "/console/grants" {
		t.Errorf("confirm: %s", got.text)
	}
	if got := ann.post(path, got.form()); got.status != 422 {
		t.Errorf("no button: %d", got.status)
	}
	if got := ann.post(path, got.form("do", "revoke")); !strings.Contains(got.text, "Revoked.") || !strings.Contains(got.text, "No grants") {
		t.Errorf("revoke: %s", got.text)
	}
	if got := ann.post("/console/grants/grt_unknown", got.form("do", "confirm")); got.status != http.StatusNotFound {
		t.Errorf("an unknown grant: %d", got.status)
	}
}

func TestEventsSayOnlyThatSomethingChanged(t *testing.T) {
	t.Parallel()

	h := newHouse(t)
	id, other := h.open("send_email", "", `{"secret":"hunter2"}`), h.open("send_email", "", `{}`)
	ann := h.as("ann-cli")
	ann.http.Timeout = 0
	listen := func(query string) *bufio.Scanner {
		resp, err := ann.http.Do(ann.request(http.MethodGet, "/console/events"+query, nil))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = resp.Body.Close() })
		if got := resp.Header.Get("Content-Type"); got != "text/event-stream" {
			t.Fatalf("Content-Type %q", got)
		}
		return bufio.NewScanner(resp.Body)
	}
	next := func(s *bufio.Scanner) string {
		var lines []string
		for s.Scan() && s.Text() != "" {
			lines = append(lines, s.Text())
		}
		return strings.Join(lines, "|")
	}
	all, one := listen(""), listen("?id="+string(id))
	for _, s := range []*bufio.Scanner{all, one} {
		if got := next(s); got != "retry: 2000|event: ready|data: {}" {
			t.Fatalf("first came %q", got)
		}
	}
	h.vote("bo", other, gate.Approve, "")
	if got := next(all); got != "event: change|data: {}" {
		t.Errorf("then came %q", got)
	}
	h.vote("bo", id, gate.Deny, "hunter2")
	for _, s := range []*bufio.Scanner{all, one} {
		if got := next(s); got != "event: change|data: {}" {
			t.Errorf("then came %q", got)
		}
	}
}

func TestAPageThatReadsItselfAgain(t *testing.T) {
	t.Parallel()

	h := newHouse(t)
	ids := h.furnish()
	ann := h.as("ann-cli")
	for _, path := range []string{"/console/", page(ids["pending"]), "/console/history", "/console/grants"} {
		_, rev, _ := strings.Cut(ann.get(path).body, `data-rev="`)
		rev, _, _ = strings.Cut(rev, `"`)
		again := func(rev string) answer {
			r := ann.request(http.MethodGet, path, nil)
			r.Header.Set("X-Console-Refresh", rev)
			return ann.do(r)
		}
		if got := again(rev); got.status != http.StatusNoContent || got.body != "" {
			t.Errorf("%s unchanged: %d", path, got.status)
		}
		if got := again("older"); got.status != http.StatusOK || !strings.Contains(got.body, "data-page") {
			t.Errorf("%s changed: %d", path, got.status)
		}
		stranger := h.visitor()
		r := stranger.request(http.MethodGet, path, nil)
		r.Header.Set("X-Console-Refresh", rev)
		if got := stranger.do(r); got.status != http.StatusUnauthorized {
			t.Errorf("%s for a stranger: %d", path, got.status)
		}
	}
}

func TestAFlashIsForOnePageOfOneSession(t *testing.T) {
	t.Parallel()

	h := newHouse(t)
	id, other := h.open("kubectl_delete", "a", `{}`), h.open("kubectl_delete", "b", `{}`)
	ann, bo := h.as("ann-cli"), h.as("bo-cli")
	ann.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	ann.press(id, "do", "approve")
	at, _ := url.Parse(h.url)
	for _, c := range ann.http.Jar.Cookies(at) {
		if c.Name == "approvalbot-flash" {
			bo.http.Jar.SetCookies(at, []*http.Cookie{c})
		}
	}
	if got := bo.get(page(id)); strings.Contains(got.text, "Recorded") {
		t.Error("another session reads it")
	}
	if got := ann.get(page(other)); strings.Contains(got.text, "Recorded") {
		t.Error("another page shows it")
	}
	if got := ann.get(page(id)); !strings.Contains(got.text, "Recorded (1 of 2).") {
		t.Error("its own page does not show it")
	}
	if got := ann.get(page(id)); strings.Contains(got.text, "Recorded") {
		t.Error("it shows twice")
	}
}

func TestNewRefusesABadPublicURL(t *testing.T) {
	t.Parallel()

	if _, err := console.New(console.Config{PublicURL: "approvals.example.com"}); err == nil {
		t.Error("a public URL without a scheme was taken")
	}
}

// TestTheInboxSaysThatAChatIsOut: who cannot decide there can decide here.
func TestTheInboxSaysThatAChatIsOut(t *testing.T) {
	t.Parallel()

	var out []string
	h := newHouse(t, func(c *console.Config) { c.Notices = func(context.Context) []string { return out } })
	ann := h.as("ann-cli")
	if got := ann.get("/console/"); strings.Contains(got.body, `class="note"`) {
		t.Errorf("nothing is out, and it says:\n%s", got.body)
	}
	out = []string{"Slack unreachable for 6 min, 4 cards undelivered: decide here"}
	if got := ann.get("/console/"); !strings.Contains(got.body, `<p class="note" role="status">Slack unreachable for 6 min, 4 cards undelivered: decide here</p>`) {
		t.Errorf("a chat is out, and it says:\n%s", got.body)
	}
}

// TestTheSameCallRefusedBefore is what an approver should know of.
func TestTheSameCallRefusedBefore(t *testing.T) {
	t.Parallel()

	h := newHouse(t)
	first := h.open("send_email", "", `{"to":"all"}`)
	ann := h.as("ann-cli")
	h.vote("bo", first, gate.Deny, "wrong list")
	again, other := h.open("send_email", "", `{"to":"all"}`), h.open("send_email", "", `{"to":"ann"}`)
	got := ann.get(page(again))
	if !strings.Contains(got.text, "The same call was refused before: Denied by bo") || !strings.Contains(got.text, `"wrong list"`) || !strings.Contains(got.body, page(first)) {
		t.Errorf("it says:\n%s", got.text)
	}
	if got := ann.get(page(other)); strings.Contains(got.text, "refused before") {
		t.Errorf("another call says:\n%s", got.text)
	}
}
