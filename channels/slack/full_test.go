package slack

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	api "github.com/slack-go/slack"

	"github.com/approvalbot/approvalbot/channels"
	"github.com/approvalbot/approvalbot/gate"
)

// leaf reads all pages as they are sent: the text of each part, and the most bytes
// of a page.
func leaf(t *testing.T, c *channels.Card, all [][]piece) (parts map[string]string, most int) {
	t.Helper()
	texts := map[string]*strings.Builder{}
	for n := range all {
		view, err := drawPage(c, all, where{Approval: c.Approval, Page: n})
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range view.Blocks.BlockSet {
			if rich, ok := b.(*api.RichTextBlock); ok {
				part, _, _ := strings.Cut(rich.BlockID, ":")
				if texts[part] == nil {
					texts[part] = &strings.Builder{}
				}
				texts[part].WriteString(rich.Elements[0].(*api.RichTextPreformatted).Elements[0].(*api.RichTextSectionTextElement).Text)
			}
		}
		raw, err := json.Marshal(view)
		if err != nil {
			t.Fatal(err)
		}
		most = max(most, len(raw))
	}
	parts = map[string]string{}
	for part, text := range texts {
		parts[part] = text.String()
	}
	return parts, most
}

// TestTheFullViewShowsAllOfIt reads the pages of the most that a call can have, one
// after the other: they are exactly the card, and none is more than Slack takes.
func TestTheFullViewShowsAllOfIt(t *testing.T) {
	t.Parallel()
	value := func(text string) string {
		raw, err := json.Marshal(map[string]string{"a": text})
		if err != nil {
			t.Fatal(err)
		}
		return gate.Pretty(raw)
	}
	most := gate.MaxArgs - 16
	for name, args := range map[string]string{
		"nothing":                          "{}",
		"a few lines":                      value("a\nb"),
		"256 KiB of letters":               value(strings.Repeat("x", most)),
		"256 KiB of quotes":                value(strings.Repeat(`"`, most/2)),
		"256 KiB of what is sent six fold": strings.Repeat("<", most),
		"256 KiB of what is not seen":      value(strings.Repeat("\u202e", most/3)),
		"256 KiB of marks":                 value(strings.Repeat("e\u0301\u0301", most/5)),
		"256 KiB of pairs":                 value(strings.Repeat("\U0001F468", most/4)),
		"256 KiB of short lines":           gate.Pretty(json.RawMessage(`{"a":[` + strings.Repeat("1,", most/2-4) + `1]}`)),
		"256 KiB, deep inside":             gate.Pretty(json.RawMessage(strings.Repeat("[", 60) + strings.Repeat("1,", most/2-80) + "1" + strings.Repeat("]", 60))),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := full()
			c.Args, c.Diff, c.Intent, c.Dialogue = args, args[:min(len(args), 60_000)/4*4], strings.Repeat("i", 5000), strings.Repeat("q", 4000)
			c.Diff = strings.ToValidUTF8(c.Diff, "")
			all := pages(c)
			got, most := leaf(t, c, all)
			for part, want := range map[string]string{"args": c.Args, "diff": c.Diff, "intent": c.Intent, "dialogue": c.Dialogue} {
				if got[part] != want {
					t.Errorf("%s: the pages have %d bytes, and are not the %d of the card", part, len(got[part]), len(want))
				}
			}
			if most > 210_000 {
				t.Errorf("a page is sent as %d bytes", most)
			}
			for i, page := range all {
				chars := 0
				for _, p := range page {
					n := utf8.RuneCountInString(p.text)
					if chars += n; n > 2900 {
						t.Errorf("a block of page %d has %d characters", i+1, n)
					}
				}
				if chars > 40_000 || len(page) > 60 {
					t.Errorf("page %d has %d characters in %d blocks", i+1, chars, len(page))
				}
			}
		})
	}
}

func TestPages(t *testing.T) {
	t.Parallel()
	c := edit()
	for i := range 6000 {
		c.Args += fmt.Sprintf("line %d\n", i)
	}
	for n, want := range map[int]string{-1: "[page_on]", 0: "[page_on]", 1: "[page_back]", 9: "[page_back]"} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			view, err := fullView(c, where{Approval: c.Approval, Page: n})
			if err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprint(actions(view.Blocks.BlockSet)); got != want {
				t.Errorf("page %d has %s, want %s", n, got, want)
			}
			var w where
			if err := json.Unmarshal([]byte(view.PrivateMetadata), &w); err != nil || w.Page != max(0, min(n, 1)) {
				t.Errorf("it says that it is page %d, %v", w.Page, err)
			}
		})
	}
	view, err := fullView(edit(), where{Approval: c.Approval, Ref: channels.Ref{Place: "slack:C0AAAAAA1", Message: "1700000000.000100"}})
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "modal-full", view)
}
