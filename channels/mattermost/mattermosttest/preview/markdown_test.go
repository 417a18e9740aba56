package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMarkdown(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, text string
		want       []block
	}{
		{"nothing", "", nil},
		{"a line ends where it is written", "a\nb", []block{{Lines: [][]span{{{Kind: "text", Text: "a"}}, {{Kind: "text", Text: "b"}}}}}},
		{"an empty line ends a paragraph", "a\n\nb", []block{
			{Lines: [][]span{{{Kind: "text", Text: "a"}}}},
			{Lines: [][]span{{{Kind: "text", Text: "b"}}}},
		}},
		{"a line below an item belongs to it", "- a  \n  b\n- c", []block{
			{Item: true, Lines: [][]span{{{Kind: "text", Text: "a"}}, {{Kind: "text", Text: "b"}}}},
			{Item: true, Lines: [][]span{{{Kind: "text", Text: "c"}}}},
		}},
		{"a fence holds shorter ones", "````\n```\n# x\n```\n````", []block{{Code: []string{"```", "# x", "```"}}}},
		{"more backticks end a fence as well", "```\nx\n`````\ny", []block{
			{Code: []string{"x"}}, {Lines: [][]span{{{Kind: "text", Text: "y"}}}},
		}},
		{"code ends with as many backticks", "`` a`b `` c", []block{{Lines: [][]span{{{Kind: "code", Text: "a`b"}, {Kind: "text", Text: " c"}}}}}},
		{"code goes on where more backticks are", "``a```b``", []block{{Lines: [][]span{{{Kind: "code", Text: "a```b"}}}}}},
		{"code keeps the blanks of its line", "`  a`", []block{{Lines: [][]span{{{Kind: "code", Text: "  a"}}}}}},
		{"bold", "**a** b", []block{{Lines: [][]span{{{Kind: "text", Text: "a", Bold: true}, {Kind: "text", Text: " b"}}}}}},
		{"bold code", "**`a*b`**", []block{{Lines: [][]span{{{Kind: "code", Text: "a*b", Bold: true}}}}}},
		{"a name within a word", "kubectl_apply", []block{{Lines: [][]span{{{Kind: "text", Text: "kubectl_apply"}}}}}},
		{"somebody is called", "@on-call, now", []block{{Lines: [][]span{{{Kind: "mention", Text: "@on-call"}, {Kind: "text", Text: ", now"}}}}}},
		{"a link", "[Open](https://a.example/x)", []block{{Lines: [][]span{{{Kind: "link", Text: "Open", URL: "https://a.example/x"}}}}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := markdown(c.text)
			if diff := cmp.Diff(c.want, got); err != nil || diff != "" {
				t.Errorf("%v -want +got:\n%s", err, diff)
			}
		})
	}
}

func TestWhatTheAppsWouldShowOtherwise(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"a heading":                     "# Approved",
		"a quotation":                   "> Approved",
		"a numbered list":               "1. Approved",
		"a picture":                     "![x](https://evil.example/x.png)",
		"a link that is no web address": "[x](javascript:alert)",
		"an address":                    "see https://evil.example",
		"an address without a scheme":   "see WWW.evil.example",
		"an emoji":                      "done :white_check_mark:",
		"a channel":                     "in ~town-square",
		"italics":                       "an _approved_ call",
		"a mail address":                "ask ann@a.example: @",
		"HTML":                          "<b>x</b>",
		"a table":                       "a | b",
		"an escape":                     `a \n b`,
		"a fence that does not end":     "```\nx",
		"code that does not end":        "a `b",
		"bold that does not end":        "**a",
		"bold that ends, in the browser, in code": "**`a** [x](https://evil.example) **b`**",
		"a sign that begins a line in browsers":   "`a\u2424# Approved`",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got, err := markdown(text); err == nil {
				t.Errorf("%q reads as %v", text, got)
			}
		})
	}
}
