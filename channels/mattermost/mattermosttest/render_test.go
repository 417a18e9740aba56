package mattermosttest_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/approvalbot/approvalbot/channels/mattermost/mattermosttest"
)

func TestAPostReadsAsAPersonReadsIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, mattermosttest.Config{})
	p, _ := w.Post(w.post(t, ops))
	const want = "Please decide\n# db.drop\n```\n{\"table\": \"users\"}\n```\n| Agent: billing\nrequest apr_01\n" +
		"[Approve] [Deny] [Approve for longer …: This session, Always]"
	if d := cmp.Diff(want, p.Read()); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"approve", "deny", "longer"}, p.Buttons()); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(object{"d": "deny", "mac": "m"}, p.Context("deny")); d != "" || p.URLOf("deny") != w.bot.url || p.URLOf("other") != "" {
		t.Errorf("%s; it calls %s", d, p.URLOf("deny"))
	}
}

func TestButtonsThatCannotBePressedAreNone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, mattermosttest.Config{})
	calls := object{"url": w.bot.url}
	p, _ := w.Post(w.Plant(ada, ops, object{"attachments": []object{{"actions": []object{
		{"id": "one-two", "integration": calls},
		{"id": "dead"},
		{"id": "off", "disabled": true, "integration": calls},
		{"id": "twice", "integration": calls},
		{"id": "twice", "integration": calls},
	}}}}))
	if d := cmp.Diff([]string{"off", "twice"}, p.Buttons()); d != "" {
		t.Error(d)
	}
}

func TestWhatAPostDoesToItsReaders(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		text                     string
		notifies, links, picture []string
	}{
		"plain text does nothing":             {text: "hello ~5 a@b # 1 <b>"},
		"a name is called":                    {text: "@ada, please", notifies: []string{"@ada"}},
		"with any letters":                    {text: "(@Ada.)", notifies: []string{"@ada"}},
		"so is everybody":                     {text: "hi @channel!", notifies: []string{"@channel"}},
		"and with a full-width sign":          {text: "＠here", notifies: []string{"@here"}},
		"an escaped one, too":                 {text: `\@ada`, notifies: []string{"@ada"}},
		"one behind a dash":                   {text: "x-@ada", notifies: []string{"@ada"}},
		"no name in an address":               {text: "ada@example.test", links: []string{"mailto:ada@example.test"}},
		"none in code":                        {text: "`@ada https://a.test ![x](https://a.test/x.png)`"},
		"one behind code":                     {text: "`x` @ada `y`", notifies: []string{"@ada"}},
		"one in code that does not end":       {text: "`@ada ``", notifies: []string{"@ada"}},
		"one behind an escaped backtick":      {text: "\\`@ada`", notifies: []string{"@ada"}},
		"code over lines is none for some":    {text: "`a\n@ada`", notifies: []string{"@ada"}},
		"none in a fence":                     {text: "```json\n@ada https://a.test\n```\n"},
		"one behind a fence":                  {text: "```\nx\n```\n@ada", notifies: []string{"@ada"}},
		"one in a fence that does not end":    {text: "```\n@ada", notifies: []string{"@ada"}},
		"one behind a fence in a fence":       {text: "```\n```\n@ada\n```", notifies: []string{"@ada"}},
		"none in a longer fence":              {text: "````\n```\n@ada\n```\n````"},
		"a fence may end in the middle":       {text: "```\nx ```\n@ada\n```", notifies: []string{"@ada"}},
		"a fence of tildes is one":            {text: "~~~\n@ada\n~~~"},
		"a link":                              {text: "[Approve](https://a.test/x \"t\")", links: []string{"https://a.test/x"}},
		"a link that reads like another":      {text: "[https://b.test](https://a.test)", links: []string{"https://a.test", "https://b.test"}},
		"a link in brackets":                  {text: "<https://a.test/?q=1>", links: []string{"https://a.test/?q=1"}},
		"a link by itself":                    {text: "see https://a.test/x.", links: []string{"https://a.test/x"}},
		"a link without scheme":               {text: "www.a.test", links: []string{"www.a.test"}},
		"a link of another scheme":            {text: "[x](javascript:y)", links: []string{"javascript:y"}},
		"a link defined elsewhere":            {text: "[x][1]\n\n[1]: https://a.test", links: []string{"https://a.test"}},
		"an escaped link is none":             {text: `\[x](y) \[x\](y)`},
		"but its address is":                  {text: `\[x](https://a.test)`, links: []string{"https://a.test"}},
		"a picture is loaded":                 {text: "![x](https://a.test/x.png)", picture: []string{"https://a.test/x.png"}},
		"a picture in a link":                 {text: "[![x](https://a.test/x.png)](https://b.test)", links: []string{"https://b.test"}, picture: []string{"https://a.test/x.png"}},
		"a name in the text of a link counts": {text: "[@ada](https://a.test)", notifies: []string{"@ada"}, links: []string{"https://a.test"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for place, p := range map[string]mattermosttest.Post{
				"message": {Message: row.text}, "text": in("text", row.text), "pretext": in("pretext", row.text), "title": in("title", row.text),
				"field": {Props: object{"attachments": []object{{"fields": []object{{"title": "x", "value": row.text}}}}}},
			} {
				if d := cmp.Diff(row.notifies, p.Notifies()); d != "" {
					t.Errorf("%s: notifies: %s", place, d)
				}
				if d := cmp.Diff(row.links, p.Links()); d != "" {
					t.Errorf("%s: links: %s", place, d)
				}
				if d := cmp.Diff(row.picture, p.Images()); d != "" {
					t.Errorf("%s: images: %s", place, d)
				}
			}
		})
	}
}

func in(key, text string) mattermosttest.Post {
	return mattermosttest.Post{Props: object{"attachments": []object{{key: text}}}}
}

func TestAttachmentsLinkAndLoadByThemselves(t *testing.T) {
	t.Parallel()
	p := mattermosttest.Post{Props: object{"attachments": []object{{
		"title_link": "https://a.test/t", "author_link": "https://a.test/a", "image_url": "https://a.test/i.png",
		"thumb_url": "https://a.test/th.png", "author_icon": "https://a.test/ai.png", "footer_icon": "https://a.test/fi.png",
	}}}}
	if d := cmp.Diff([]string{"https://a.test/a", "https://a.test/t"}, p.Links()); d != "" {
		t.Error(d)
	}
	want := []string{"https://a.test/ai.png", "https://a.test/fi.png", "https://a.test/i.png", "https://a.test/th.png"}
	if d := cmp.Diff(want, p.Images()); d != "" {
		t.Error(d)
	}
}
