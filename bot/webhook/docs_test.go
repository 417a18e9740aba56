package webhook_test

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/approvalbot/approvalbot/bot/webhook"
)

// TestTheDocsVerifyInPython runs what docs/executors.md tells receivers to write.
func TestTheDocsVerifyInPython(t *testing.T) {
	t.Parallel()
	python, err := exec.LookPath("python3")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip("no python3: apt-get install python3")
	}
	doc, err := os.ReadFile("../../docs/executors.md")
	if err != nil {
		t.Fatal(err)
	}
	_, code, _ := strings.Cut(string(doc), "```python\n")
	code, _, ok := strings.Cut(code, "```")
	if !ok {
		t.Fatal("no Python in the docs")
	}
	for name, tt := range map[string]struct {
		secrets []string
		body    string
		at      time.Time
		want    string
	}{
		"signed":                     {[]string{exampleSecret}, exampleBody, time.Now(), "True"},
		"by one of two":              {[]string{other(24), exampleSecret}, exampleBody, time.Now(), "True"},
		"by another":                 {[]string{other(24)}, exampleBody, time.Now(), "False"},
		"changed":                    {[]string{exampleSecret}, exampleBody + " ", time.Now(), "False"},
		"more than five minutes ago": {[]string{exampleSecret}, exampleBody, time.Now().Add(-6 * time.Minute), "False"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, plain := http.Header{}, map[string]string{}
			webhook.Sign(h, exampleID, tt.at, []byte(exampleBody), key(t, exampleSecret))
			for k := range h {
				plain[strings.ToLower(k)] = h.Get(k)
			}
			in, err := json.Marshal(map[string]any{"headers": plain, "body": tt.body, "secrets": tt.secrets})
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), python, "-c", code+"\nimport json, sys\nq = json.load(sys.stdin)\nprint(verified(q['headers'], q['body'].encode(), *q['secrets']))\n")
			cmd.Stdin, cmd.Stderr = strings.NewReader(string(in)), os.Stderr
			out, err := cmd.Output()
			if err != nil || strings.TrimSpace(string(out)) != tt.want {
				t.Errorf("it says %q, %v; want %s", out, err, tt.want)
			}
		})
	}
}
