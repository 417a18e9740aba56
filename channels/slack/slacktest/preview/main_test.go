package main

import (
	"bytes"
	"html"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestEveryWordOfEveryGoldenFileIsOnThePage(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../testdata/*.json")
	if err != nil || len(files) == 0 {
		t.Fatal("no golden files", err)
	}
	page := filepath.Join(t.TempDir(), "page.html")
	if err := run(append([]string{"-o", page}, files...), nil); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	shown := html.UnescapeString(string(raw))
	words := 0
	for _, file := range files {
		s, err := read(file)
		if err != nil {
			t.Fatal(err)
		}
		if text, ok := s.Value["text"].(string); ok {
			s.Value["text"] = unescaped(text)
		}
		for _, text := range texts(s.Value) {
			if words++; strings.Count(shown, text) < 2 {
				t.Errorf("%s: the page lacks, once for each width: %s", s.Name, text)
			}
		}
	}
	if words == 0 {
		t.Error("the golden files say nothing")
	}
}

// texts returns what people read in a part of a message.
func texts(v any) (all []string) {
	switch v := v.(type) {
	case map[string]any:
		if text, ok := v["text"].(string); ok {
			all = append(all, text)
		}
		for _, part := range v {
			all = append(all, texts(part)...)
		}
	case []any:
		for _, part := range v {
			all = append(all, texts(part)...)
		}
	}
	return all
}

func TestWhatCannotBeDrawnIsAnError(t *testing.T) {
	t.Parallel()
	for name, golden := range map[string]string{
		"a block that the page does not know":   `[{"type": "video"}]`,
		"an element that it does not know":      `{"text": "x", "blocks": [{"type": "actions", "elements": [{"type": "datepicker"}]}]}`,
		"a part of rich text that it knows not": `[{"type": "rich_text", "elements": [{"type": "rich_text_section", "elements": [{"type": "date"}]}]}]`,
		"a view that it does not know":          `{"type": "workflow_step", "blocks": []}`,
		"no JSON":                               `{`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "golden.json")
			if err := os.WriteFile(file, []byte(golden), 0o600); err != nil {
				t.Fatal(err)
			}
			var page bytes.Buffer
			if err := run([]string{file}, &page); err == nil {
				t.Errorf("drawn as %s", &page)
			}
		})
	}
	if err := run(nil, nil); err == nil {
		t.Error("a page of nothing")
	}
}
