package main

import (
	"bytes"
	"html"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestEveryWordOfEveryFileIsOnThePage(t *testing.T) {
	t.Parallel()
	for file, words := range map[string][]string{
		"card": {
			"@sre", "@bo", "Approval needed: claude → kubectl_apply on prod/web, by 03:27 UTC (0/2)", "Careful:", "this may already have run.",
			"on prod/web", "Risk: high", "Open in the console", "Arguments", `"namespace": "shop",`, "Key", "hermes", "Rule", "prod`kubectl",
			"apr_01JNV4X3T2E6Q1Y5Z8A9B0C1D2", "Approve", "Deny", "Approve for longer", "This session",
		},
		"dialog": {"Deny", "claude wants to run kubectl_apply", "Why?", "Choose a reason", "Wrong target", "In words", "The agent is told.", "Cancel", "Deny this call"},
		"answer": {"(Only visible to you)", "One waits for you.", "claude → deploy on prod", "Waiting for 1 of 1 (sre)", "As it stands:", "deploy", "on prod"},
	} {
		shown := page(t, filepath.Join("testdata", file+".json"))
		for _, word := range words {
			if strings.Count(shown, word) < 2 {
				t.Errorf("%s: the page lacks, once for each width: %s", file, word)
			}
		}
	}
}

// TestWhatIsCutIsCutAsByTheApps draws code of six lines, of which a phone shows four.
func TestWhatIsCutIsCutAsByTheApps(t *testing.T) {
	t.Parallel()
	card := filepath.Join("testdata", "card.json")
	for width, want := range map[string]int{"360": 0, "700": 1} {
		shown := page(t, "-width", width, card)
		if got := strings.Count(shown, `"image": "shop:41"`); got != want {
			t.Errorf("at %s px the fifth line of code is there %d times, want %d", width, got, want)
		}
		if got := strings.Count(shown, "+2 more lines"); got != 1-want {
			t.Errorf("at %s px it says %d times that there are more lines", width, got)
		}
	}
	if !strings.Contains(page(t, "-open", card), `<body class="open">`) {
		t.Error("what is folded stays so")
	}
}

// page draws files, as it reads to people.
func page(t *testing.T, args ...string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "page.html")
	if err := run(append([]string{"-o", file}, args...), nil); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return html.UnescapeString(string(raw))
}

func TestWhatCannotBeDrawnIsAnError(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ file, want string }{
		"no JSON":                            {`{`, "unexpected end"},
		"nothing that people see":            {`{"channel_id": "x"}`, "no post, dialog or answer"},
		"an action that the page knows not":  {`{"props": {"attachments": [{"actions": [{"type": "radio"}]}]}}`, `action "radio"`},
		"an element that the page knows not": {`{"dialog": {"elements": [{"type": "file"}]}}`, `element "file"`},
		"a field that is a heading":          {`{"props": {"attachments": [{"fields": [{"value": "# Approved"}]}]}}`, `would show "#" as it is`},
		"an answer that calls by a picture":  {`{"response_type": "ephemeral", "text": "![x](https://evil.example)"}`, "would show a picture"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "post.json")
			if err := os.WriteFile(file, []byte(c.file), 0o600); err != nil {
				t.Fatal(err)
			}
			var page bytes.Buffer
			if err := run([]string{file}, &page); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %s; drawn as %s", err, c.want, &page)
			}
		})
	}
	if err := run(nil, nil); err == nil {
		t.Error("a page of nothing")
	}
}

func TestTwoShortFieldsStandBesideEachOther(t *testing.T) {
	t.Parallel()
	short, long := field{Title: "short", Short: true}, field{Title: "long"}
	a := attachment{Fields: []field{short, long, short, short, short}}
	want := [][]field{{short}, {long}, {short, short}, {short}}
	if diff := cmp.Diff(want, a.Rows()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
