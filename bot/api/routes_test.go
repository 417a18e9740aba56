package api_test

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/approvalbot/approvalbot/gate"
)

// redocly is the version of the linter; a later one may need another Node.js.
const redocly = "2.77.0"

// route is a request that a right key may send: what comes after that is another
// matter, so any status but 401, 403 and 405 means that the key was let in.
type route struct {
	method, path, body string
	keys               []string // who may
}

const unknownApproval = "apr_01ARZ3NDEKTSV4RRFFQ69G5FAV"

func allRoutes() []route {
	const call, digest = `"call":{"tool":"x"}`, `"digest":"sha256:` // the rest is filled in
	hex := strings.Repeat("0", 64) + `"`
	approval, work := "/v1/approvals/"+unknownApproval, "/v1/work/"+unknownApproval
	return []route{
		{"POST", "/v1/check", `{` + call + `,"requester":{}}`, []string{"hermes"}},
		{"POST", "/v1/approvals", `{` + call + `,"requester":{}}`, []string{"hermes"}},
		{"GET", "/v1/approvals", ``, []string{"ann-cli", "books", "root"}},
		{"GET", "/v1/approvals?requester=hermes", ``, []string{"hermes", "ann-cli", "books", "root"}},
		{"GET", approval, ``, []string{"hermes", "ann-cli", "books", "root"}},
		{"POST", approval, `{"decision":"deny",` + digest + hex + `}`, []string{"ann-cli"}},
		{"POST", approval + "/consume", `{"token":"t","attempt_id":"a",` + call + `}`, []string{"hermes"}},
		{"POST", approval + "/outcome", `{"outcome":"executed"}`, []string{"hermes", "ann-cli"}},
		{"POST", approval + "/cancel", `{}`, []string{"hermes"}},
		{"POST", approval + "/context", `{"text":"because"}`, []string{"hermes"}},
		{"POST", approval + "/revoke", `{}`, []string{"ann-cli"}},
		{"POST", approval + "/rerun", ``, []string{"ann-cli"}},
		{"POST", "/v1/work/claim", `{"queues":["ops"]}`, []string{"mule"}},
		{"POST", work + "/start", `{"token":"t","attempt_id":"a",` + digest + hex + `}`, []string{"mule"}},
		{"POST", work + "/heartbeat", `{"token":"t"}`, []string{"mule"}},
		{"POST", work + "/complete", `{"token":"t","outcome":"executed"}`, []string{"mule"}},
		{"POST", work + "/release", `{"token":"t"}`, []string{"mule"}},
		{"POST", "/v1/sessions/s/end", ``, []string{"hermes"}},
		{"PUT", "/v1/sessions/s/bypass", `{"key":"hermes","for":"1h"}`, []string{"root"}},
		{"GET", "/v1/grants", ``, []string{"ann-cli", "books", "root"}},
		{"DELETE", "/v1/grants/grt_1", ``, []string{"ann-cli", "root"}},
		{"POST", "/v1/grants/grt_1/confirm", ``, []string{"ann-cli", "root"}},
		{"POST", "/v1/policy/explain", `{` + call + `,"requester":{}}`, []string{"hermes", "ann-cli", "books", "root"}},
		{"GET", "/v1/events", ``, []string{"hermes", "ann-cli", "books", "root"}},
	}
}

func TestEveryRouteByEveryRole(t *testing.T) {
	t.Parallel()
	s := memory(t)
	r := start(t, s, rules())
	r.api.Drain() // so that streams end
	for _, rt := range allRoutes() {
		for _, key := range []string{"", "hermes", "ann-cli", "books", "root", "mule"} {
			t.Run(rt.method+" "+rt.path+" by "+key, func(t *testing.T) {
				t.Parallel()
				got := r.send(t, key, rt.method, rt.path, rt.body)
				refused := got.status == http.StatusForbidden && strings.Contains(string(got.body), "roles")
				switch {
				case key == "":
					if p := got.answer(t); got.status != http.StatusUnauthorized || p.Code != "unauthorized" || got.header.Get("WWW-Authenticate") == "" {
						t.Errorf("%d %s; want 401", got.status, got.body)
					}
				case slices.Contains(rt.keys, key) == refused, got.status == http.StatusMethodNotAllowed, got.status == http.StatusInternalServerError:
					t.Errorf("%d %s; want it let in: %v", got.status, got.body, slices.Contains(rt.keys, key))
				case refused:
					if p := got.answer(t); p.Verdict != "block" || p.Next != "stop" || p.Code != "forbidden" || p.AgentText == "" {
						t.Errorf("refusal %+v; want a problem that blocks", p)
					}
				}
			})
		}
	}
}

func TestWhatIsRefusedIsAudited(t *testing.T) {
	t.Parallel()
	s := memory(t)
	r := start(t, s, rules())
	mine := r.open(t, "hermes", "held").Approval
	from, err := s.Tail(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	decide := `{"decision":"approve","digest":"` + mine.Digest + `"}`
	for _, tt := range []struct {
		name, key, method, path, body string
		status                        int
		note                          string
	}{
		{"an agent decides", "hermes", "POST", "/v1/approvals/" + mine.ID, decide, 403, "POST /v1/approvals/{id}"},
		{"an agent asserts a person it may not", "plain", "POST", "/v1/check", `{"call":{"tool":"x"},"requester":{"person":"ann"}}`, 400, "requester.person"},
		{"an agent asserts an origin it may not", "plain", "POST", "/v1/check", `{"call":{"tool":"x"},"requester":{},"origin":{"place":"slack:C0"}}`, 400, "origin"},
		{"an agent names a conversation it may not", "hermes", "POST", "/v1/check", `{"call":{"tool":"x"},"requester":{},"origin":{"place":"slack:D1"}}`, 400, "origin.place"},
		{"an agent reads another's arguments", "plain", "GET", "/v1/approvals/" + mine.ID, "", 403, "read"},
		{"an agent waits on another's approval", "plain", "GET", "/v1/approvals/" + mine.ID + "?wait=5s", "", 403, "read"},
		{"an agent lists everything", "plain", "GET", "/v1/approvals", "", 403, "list"},
		{"an agent lists another's", "plain", "GET", "/v1/approvals?requester=hermes", "", 403, "list"},
		{"an agent sets a bypass", "hermes", "PUT", "/v1/sessions/s1/bypass", `{"key":"hermes","for":"1h"}`, 403, "PUT /v1/sessions/{id}/bypass"},
		{"an agent cancels another's", "plain", "POST", "/v1/approvals/" + mine.ID + "/cancel", `{}`, 403, "cancel"},
		{"an admin decides", "root", "POST", "/v1/approvals/" + mine.ID, decide, 403, "POST /v1/approvals/{id}"},
	} {
		got := r.send(t, tt.key, tt.method, tt.path, tt.body)
		if p := got.answer(t); got.status != tt.status || p.Verdict != "block" || strings.Contains(string(got.body), "hunter2") {
			t.Errorf("%s: %d %s; want %d and nothing told", tt.name, got.status, got.body, tt.status)
		}
		eventually(t, func() bool { // the line is written behind the answer
			entries, err := s.Read(t.Context(), from, 100, 0)
			if err != nil {
				t.Fatal(err)
			}
			return slices.ContainsFunc(entries, func(e gate.Entry) bool {
				return e.Event == gate.EventRefused && strings.HasPrefix(e.By, tt.key) && strings.Contains(e.Note, tt.note)
			})
		})
	}
	if a, err := r.as(t, "hermes").Get(t.Context(), mine.ID); err != nil || a.State != "pending" || len(a.Votes) > 0 {
		t.Errorf("after all of it: %+v, %v; want it untouched", a.State, err)
	}
}

func TestProblemsAreProblemsAndRepeatNothing(t *testing.T) {
	t.Parallel()
	r := start(t, memory(t), rules())
	const secretText = "hunter2"
	for name, tt := range map[string]struct {
		key, method, path, body string
		headers                 []string
		status                  int
		code                    string
	}{
		"no such route":              {"hermes", "GET", "/v1/" + secretText, "", nil, 404, "not_found"},
		"another method":             {"hermes", "PATCH", "/v1/check", "", nil, 405, "method_not_allowed"},
		"no key":                     {"", "POST", "/v1/check", "{}", nil, 401, "unauthorized"},
		"a wrong key":                {"", "POST", "/v1/check", "{}", []string{"Authorization", "Bearer ab_" + secretText}, 401, "unauthorized"},
		"another scheme":             {"", "POST", "/v1/check", "{}", []string{"Authorization", "Basic " + bearers()["hermes"].Reveal()}, 401, "unauthorized"},
		"no body":                    {"hermes", "POST", "/v1/check", "", nil, 400, "invalid"},
		"broken JSON":                {"hermes", "POST", "/v1/check", `{"` + secretText, nil, 400, "invalid"},
		"another media type":         {"hermes", "POST", "/v1/check", `{}`, []string{"Content-Type", "text/" + secretText}, 415, "unsupported_media_type"},
		"a relative of JSON":         {"hermes", "POST", "/v1/check", `{}`, []string{"Content-Type", "application/x+json"}, 415, "unsupported_media_type"},
		"too large":                  {"hermes", "POST", "/v1/check", `{"intent":"` + strings.Repeat(secretText, 200_000) + `"}`, nil, 413, "too_large"},
		"an unknown field":           {"hermes", "POST", "/v1/check", `{"call":{"tool":"x"},"requester":{},"tokn":"` + secretText + `"}`, nil, 422, "invalid"},
		"a value of another type":    {"hermes", "POST", "/v1/check", `{"call":{"tool":"x"},"requester":"` + secretText + `"}`, nil, 422, "invalid"},
		"a word that is none":        {"hermes", "POST", "/v1/check", `{"call":{"tool":"x"},"requester":{},"mode":"` + secretText + `"}`, nil, 422, "invalid"},
		"an unknown parameter":       {"hermes", "GET", "/v1/approvals/" + unknownApproval + "?" + strings.ToUpper(secretText) + "=1", "", nil, 422, "invalid"},
		"a wait that is none":        {"hermes", "GET", "/v1/approvals/" + unknownApproval + "?wait=" + secretText, "", nil, 400, "invalid"},
		"an id that is none":         {"hermes", "GET", "/v1/approvals/" + secretText, "", nil, 400, "not_found"},
		"an unknown id":              {"hermes", "GET", "/v1/approvals/" + unknownApproval, "", nil, 404, "not_found"},
		"arguments twice":            {"hermes", "POST", "/v1/check", `{"call":{"tool":"held","args":{},"args_b64":"e30="},"requester":{}}`, nil, 400, "invalid_arguments"},
		"arguments that are a list":  {"hermes", "POST", "/v1/check", `{"call":{"tool":"held","args_b64":"W10="},"requester":{}}`, nil, 400, "invalid_arguments"},
		"arguments read in two ways": {"hermes", "POST", "/v1/check", `{"call":{"tool":"held","args":{"a":1,"a":"` + secretText + `"}},"requester":{}}`, nil, 400, "invalid_arguments"},
		"a number that is rounded":   {"hermes", "POST", "/v1/check", `{"call":{"tool":"held","args":{"a":9007199254740993}},"requester":{}}`, nil, 400, "number_not_exact"},
		"no token of ours":           {"hermes", "POST", "/v1/check", `{"call":{"tool":"held"},"requester":{},"token":"` + secretText + `","attempt_id":"` + strings.Repeat("a", 32) + `"}`, nil, 400, "not_found"},
		"no digest":                  {"ann-cli", "POST", "/v1/approvals/" + unknownApproval, `{"decision":"approve","digest":"` + secretText + `"}`, nil, 400, "digest_mismatch"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := r.send(t, tt.key, tt.method, tt.path, tt.body, tt.headers...)
			p := got.answer(t)
			if got.status != tt.status || p.Status != tt.status || p.Code != tt.code || got.header.Get("Content-Type") != "application/problem+json" {
				t.Errorf("%d %s %s; want %d %s as a problem", got.status, got.header.Get("Content-Type"), got.body, tt.status, tt.code)
			}
			if p.Verdict != "block" || p.Next != "stop" || p.AgentText == "" || p.Title == "" || p.Type == "" {
				t.Errorf("%s; want verdict, next, agent_text, title and type", got.body)
			}
			if strings.Contains(strings.ToLower(string(got.body)), secretText) {
				t.Errorf("it repeats what was sent: %s", got.body)
			}
		})
	}
}

func TestTheDocumentHasEveryRouteAndNoOther(t *testing.T) {
	t.Parallel()
	r := start(t, memory(t), rules())
	var doc struct {
		OpenAPI string
		Paths   map[string]map[string]any
	}
	if err := json.Unmarshal(r.send(t, "", "GET", "/openapi.json", "").body, &doc); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(doc.OpenAPI, "3.1.") {
		t.Errorf("openapi %q; want 3.1", doc.OpenAPI)
	}
	var documented, served []string
	for path, methods := range doc.Paths {
		for method := range methods {
			documented = append(documented, strings.ToUpper(method)+" "+path)
		}
	}
	err := chi.Walk(r.api.Routes(), func(method, path string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
		served = append(served, method+" "+path)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(documented)
	slices.Sort(served)
	if !slices.Equal(documented, served) {
		t.Errorf("documented %v\nserved     %v", documented, served)
	}
	for _, rt := range allRoutes() {
		path, _, _ := strings.Cut(rt.path, "?")
		path = strings.NewReplacer(unknownApproval, "{id}", "/s/", "/{id}/", "grt_1", "{id}").Replace(path)
		served = slices.DeleteFunc(served, func(s string) bool { return s == rt.method+" "+path })
	}
	if want := []string{"GET /healthz", "GET /openapi.json", "GET /readyz"}; !slices.Equal(served, want) {
		t.Errorf("routes that no role test has: %v; want only %v", served, want)
	}
}

func TestTheDocumentIsValid(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("npx"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("npx is missing: apt-get install nodejs npm")
		}
		t.Skip("npx is missing: apt-get install nodejs npm")
	}
	r := start(t, memory(t), rules())
	file := filepath.Join(t.TempDir(), "openapi.json")
	if err := os.WriteFile(file, r.send(t, "", "GET", "/openapi.json", "").body, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "npx", "--yes", "@redocly/cli@"+redocly, "lint", "--format=stylish", file)
	cmd.Env = append(os.Environ(), "REDOCLY_TELEMETRY=off", "REDOCLY_SUPPRESS_UPDATE_NOTICE=true", "CI=true")
	cmd.WaitDelay = time.Minute
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
