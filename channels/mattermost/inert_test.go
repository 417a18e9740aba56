package mattermost

import (
	"strings"
	"testing"

	"github.com/approvalbot/approvalbot/channels/channeltest"
	"github.com/approvalbot/approvalbot/channels/mattermost/mattermosttest"
	"github.com/approvalbot/approvalbot/gate"
)

func TestInert(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                  "",
		"claude wants to run deploy":        "claude wants to run deploy",
		"Waiting for 1 of 2 (sre)":          "Waiting for 1 of 2 (sre)",
		`Denied by Ann 12:30 UTC: "no way"`: `Denied by Ann 12:30 UTC: "no way"`,
		"If nobody decides by 12:34 UTC: not run.": "If nobody decides by 12:34 UTC: not run.",
		"Größe, 東京 · 5%":                           "Größe, 東京 · 5%",
		"a\nb":                                     "a b",
		"a  b":                                     "`a  b`",
		"kubectl_apply on prod/web":                "kubectl_apply on prod/web",
		"prod.web/x":                               "`prod.web/x`",
		"a__b":                                     "`a__b`",
		"_a":                                       "`_a`",
		"é_a":                                      "`é_a`",
		"/approve":                                 "`/approve`",
		"a //evil":                                 "`a //evil`",
		"fine :)":                                  "`fine :)`",
		"fine :/":                                  "`fine :/`",
		"@all":                                     "`@all`",
		"ask @ann":                                 "`ask @ann`",
		"＠all":                                     "`＠all`",
		"~town-square":                             "`~town-square`",
		"*bold*":                                   "`*bold*`",
		"[x](https://evil.example)":                "`[x](https://evil.example)`",
		"https://evil.example":                     "`https://evil.example`",
		"evil.example":                             "`evil.example`",
		"www, evil":                                "`www, evil`",
		"mailto:x":                                 "`mailto:x`",
		":smile:":                                  "`:smile:`",
		"- a list":                                 "`- a list`",
		"1. a list":                                "`1. a list`",
		"# heading":                                "`# heading`",
		"> quoted":                                 "`> quoted`",
		"---":                                      "`---`",
		"a | b":                                    "`a | b`",
		"a `code`":                                 "`` a `code` ``",
		"````":                                     "````` ```` `````",
		"<!channel>":                               "`<!channel>`",
		`C:\dir`:                                   "`C:\\dir`",
		"#hashtag":                                 "`#hashtag`",
		"say #hashtag":                             "`say #hashtag`",
	} {
		if got := inert(text); got != want {
			t.Errorf("inert(%q) = %q, want %q", text, got, want)
		}
	}
}

// FuzzInert: whatever text is shown, nobody is called by it, nothing is linked and
// nothing loaded, alone and among other lines; and it is all there.
func FuzzInert(f *testing.F) {
	for _, s := range channeltest.Hostile {
		f.Add(s)
	}
	f.Add("``` \n@all\n```")
	f.Add("`@all")
	f.Fuzz(func(t *testing.T, s string) {
		s = gate.VisibleLines(s) // as every text of a card
		shown := map[string]string{"inert": inert(s), "lines": lines(s, 2000), "fence": fence(s), "bold": bold(s)}
		for how, text := range shown {
			for _, around := range []string{"", "x\n\n", "x:\n", "- "} {
				if how == "fence" && len(around) > 0 && !strings.HasSuffix(around, "\n") {
					continue // it begins a line
				}
				p := mattermosttest.Post{Message: around + text + "\n\nbehind"}
				if bad := append(append(p.Notifies(), p.Links()...), p.Images()...); len(bad) > 0 {
					t.Errorf("%s: %q shows %q, which leads to %q", how, s, text, bad)
				}
			}
		}
		if n := strings.Count(s, "@"); n > 0 && strings.Count(shown["fence"], "@") != n {
			t.Errorf("%q is not all there: %q", s, shown["fence"])
		}
	})
}

// TestNothingEndsBold: the web app reads bold before it reads code.
func TestNothingEndsBold(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"claude wants to run deploy":                   "**claude wants to run deploy**",
		"a** [Approve here](https://evil.example) **b": "`a** [Approve here](https://evil.example) **b`",
		"x@all": "`x@all`",
		"":      "",
	} {
		if got := bold(text); got != want {
			t.Errorf("bold(%q) = %q, want %q", text, got, want)
		}
	}
}
