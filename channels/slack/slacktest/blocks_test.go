package slacktest_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/approvalbot/approvalbot/channels/slack/slacktest"
)

// chars are n characters of more than one byte, quoted.
func chars(n int) string { return `"` + strings.Repeat("é", n) + `"` }

func many(n int, item string) string {
	all := make([]string, n)
	for i := range all {
		all[i] = item
	}
	return "[" + strings.Join(all, ",") + "]"
}

const (
	label   = `{"type":"plain_text","text":"x"}`
	divider = `{"type":"divider"}`
	option  = `{"text":` + label + `,"value":"x"}`
)

func plainText(n int) string { return `{"type":"plain_text","text":` + chars(n) + `}` }

func button(more string) string {
	return `{"type":"actions","elements":[{"type":"button","text":` + label + more + `}]}`
}

func input(element string) string {
	return `{"type":"input","label":` + label + `,"element":` + element + `}`
}

func confirm(key string, n int) string {
	parts := map[string]string{"title": label, "text": label, "confirm": label, "deny": label}
	parts[key] = plainText(n)
	raw := []string{}
	for k, v := range parts {
		raw = append(raw, fmt.Sprintf("%q:%s", k, v))
	}
	return button(`,"confirm":{` + strings.Join(raw, ",") + `}`)
}

// A limit is n where n characters or things pass and n+1 do not.
func TestEveryLimitOfBlocks(t *testing.T) {
	t.Parallel()
	list := func(item string) func(int) string { return func(n int) string { return many(n, item) } }
	of := func(format string, part func(int) string) func(int) string {
		return func(n int) string { return strings.Replace(format, "%", part(n), 1) }
	}
	tests := map[string]struct {
		n     int
		block func(n int) string
		at    string
	}{
		"section text":        {3000, of(`{"type":"section","text":%}`, plainText), "/blocks/0/text/text"},
		"section fields":      {10, of(`{"type":"section","fields":%}`, list(label)), "/blocks/0/fields"},
		"section field":       {2000, of(`{"type":"section","fields":[%]}`, plainText), "/blocks/0/fields/0/text"},
		"header":              {150, of(`{"type":"header","text":%}`, plainText), "/blocks/0/text/text"},
		"context elements":    {10, of(`{"type":"context","elements":%}`, list(label)), "/blocks/0/elements"},
		"actions elements":    {25, of(`{"type":"actions","elements":%}`, list(`{"type":"button","text":`+label+`}`)), "/blocks/0/elements"},
		"button text":         {75, of(`{"type":"actions","elements":[{"type":"button","text":%}]}`, plainText), "/blocks/0/elements/0/text/text"},
		"button value":        {2000, of(button(`,"value":%`), chars), "/blocks/0/elements/0/value"},
		"button url":          {3000, of(button(`,"url":%`), chars), "/blocks/0/elements/0/url"},
		"accessibility label": {75, of(button(`,"accessibility_label":%`), chars), "/blocks/0/elements/0/accessibility_label"},
		"action id":           {255, of(button(`,"action_id":%`), chars), "/blocks/0/elements/0/action_id"},
		"block id":            {255, of(`{"type":"divider","block_id":%}`, chars), "/blocks/0/block_id"},
		"confirm title":       {100, func(n int) string { return confirm("title", n) }, "/blocks/0/elements/0/confirm/title/text"},
		"confirm text":        {300, func(n int) string { return confirm("text", n) }, "/blocks/0/elements/0/confirm/text/text"},
		"confirm yes":         {30, func(n int) string { return confirm("confirm", n) }, "/blocks/0/elements/0/confirm/confirm/text"},
		"confirm no":          {30, func(n int) string { return confirm("deny", n) }, "/blocks/0/elements/0/confirm/deny/text"},
		"options":             {100, of(input(`{"type":"static_select","options":%}`), list(option)), "/blocks/0/element/options"},
		"option groups": {
			100, of(input(`{"type":"static_select","option_groups":%}`), list(`{"label":`+label+`,"options":[`+option+`]}`)),
			"/blocks/0/element/option_groups",
		},
		"options of a group": {
			100, of(input(`{"type":"static_select","option_groups":[{"label":`+label+`,"options":%}]}`), list(option)),
			"/blocks/0/element/option_groups/0/options",
		},
		"option text":        {75, of(input(`{"type":"static_select","options":[{"text":%,"value":"x"}]}`), plainText), "/blocks/0/element/options/0/text/text"},
		"option value":       {75, of(input(`{"type":"static_select","options":[{"text":`+label+`,"value":%}]}`), chars), "/blocks/0/element/options/0/value"},
		"option description": {75, of(input(`{"type":"static_select","options":[{"text":`+label+`,"value":"x","description":%}]}`), plainText), "/blocks/0/element/options/0/description/text"},
		"checkboxes":         {10, of(input(`{"type":"checkboxes","options":%}`), list(option)), "/blocks/0/element/options"},
		"radio buttons":      {10, of(input(`{"type":"radio_buttons","options":%}`), list(option)), "/blocks/0/element/options"},
		"input label":        {2000, of(`{"type":"input","label":%,"element":{"type":"plain_text_input"}}`, plainText), "/blocks/0/label/text"},
		"input hint":         {2000, of(`{"type":"input","label":`+label+`,"hint":%,"element":{"type":"plain_text_input"}}`, plainText), "/blocks/0/hint/text"},
		"longest input":      {3000, func(n int) string { return input(fmt.Sprintf(`{"type":"plain_text_input","max_length":%d}`, n)) }, "/blocks/0/element/max_length"},
		"image alt text":     {2000, of(`{"type":"image","image_url":"https://example.com/a.png","alt_text":%}`, chars), "/blocks/0/alt_text"},
		"shortest input":     {3000, func(n int) string { return input(fmt.Sprintf(`{"type":"plain_text_input","min_length":%d}`, n)) }, "/blocks/0/element/min_length"},
		"placeholder":        {150, of(input(`{"type":"plain_text_input","placeholder":%}`), plainText), "/blocks/0/element/placeholder/text"},
		"image url":          {3000, of(`{"type":"image","alt_text":"x","image_url":%}`, chars), "/blocks/0/image_url"},
		"image title":        {2000, of(`{"type":"image","alt_text":"x","image_url":"x","title":%}`, plainText), "/blocks/0/title/text"},
		"markdown":           {12_000, of(`{"type":"markdown","text":%}`, chars), "/blocks/0/text"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := slacktest.CheckBlocks([]byte("[" + tt.block(tt.n) + "]")); err != nil {
				t.Errorf("%d: %v", tt.n, err)
			}
			_, err := slacktest.CheckBlocks([]byte("[" + tt.block(tt.n+1) + "]"))
			if refusal := refusalOf(err); refusal.Code != "invalid_blocks" || !strings.Contains(refusal.Problems[0], "[json-pointer:"+tt.at+"]") {
				t.Errorf("%d: %v, want invalid_blocks at %s", tt.n+1, err, tt.at)
			}
		})
	}
}

func refusalOf(err error) slacktest.Refusal {
	refusal := &slacktest.Refusal{}
	if !errors.As(err, &refusal) {
		return slacktest.Refusal{}
	}
	return *refusal
}

func TestBlocks(t *testing.T) {
	t.Parallel()
	two := func(a, b string) string { return "[" + a + "," + b + "]" }
	one := func(a string) string { return "[" + a + "]" }
	parts := func(parts string) string {
		return one(`{"type":"rich_text","elements":[{"type":"rich_text_preformatted","elements":[` + parts + `]}]}`)
	}
	tests := map[string]struct{ blocks, want string }{
		"fifty":                        {many(50, divider), ""},
		"fifty-one":                    {many(51, divider), "no more than 50 items allowed [json-pointer:/blocks]"},
		"a kind that there is not":     {one(`{"type":"shout"}`), "unsupported type: shout [json-pointer:/blocks/0/type]"},
		"something that is no block":   {`[7,null]`, "unsupported type:  [json-pointer:/blocks/0/type]"},
		"the same block id twice":      {two(`{"type":"divider","block_id":"a"}`, `{"type":"divider","block_id":"a"}`), "`block_id` `a` already exists"},
		"different block ids":          {two(`{"type":"divider","block_id":"a"}`, `{"type":"divider","block_id":"b"}`), ""},
		"a block id that is a number":  {one(`{"type":"divider","block_id":7}`), "must be a string"},
		"the same action id twice":     {one(`{"type":"actions","elements":[{"type":"button","action_id":"a","text":` + label + `},{"type":"button","action_id":"a","text":` + label + `}]}`), "`action_id` `a` already exists"},
		"an empty text":                {one(`{"type":"section","text":{"type":"mrkdwn","text":""}}`), "must be more than 0 characters [json-pointer:/blocks/0/text/text]"},
		"a section of nothing":         {one(`{"type":"section"}`), "missing required field: text"},
		"a text that is a number":      {one(`{"type":"section","text":7}`), "must be one of: plain_text, mrkdwn"},
		"a header with markup":         {one(`{"type":"header","text":{"type":"mrkdwn","text":"x"}}`), "must be one of: plain_text"},
		"a header of nothing":          {one(`{"type":"header"}`), "missing required field: text"},
		"emoji where there is markup":  {one(`{"type":"section","text":{"type":"mrkdwn","text":"x","emoji":true}}`), "invalid additional property: emoji"},
		"verbatim where there is none": {one(`{"type":"section","text":{"type":"plain_text","text":"x","verbatim":true}}`), "invalid additional property: verbatim"},
		"no elements":                  {one(`{"type":"actions","elements":[]}`), "no fewer than 1 items allowed"},
		"elements that are none":       {one(`{"type":"context"}`), "missing required field: elements"},
		"a picture in a context":       {one(`{"type":"context","elements":[{"type":"image","image_url":"https://example.com/a.png","alt_text":"x"}]}`), ""},
		"a picture without words":      {one(`{"type":"image","image_url":"https://example.com/a.png"}`), "missing required field: alt_text"},
		"an input among actions":       {one(`{"type":"actions","elements":[{"type":"plain_text_input"}]}`), "unsupported type: plain_text_input"},
		"an input without a field":     {one(`{"type":"input","label":` + label + `}`), "unsupported type: "},
		"a button in a section":        {one(`{"type":"section","text":` + label + `,"accessory":{"type":"button","text":` + label + `}}`), ""},
		"a style that there is not":    {one(button(`,"style":"loud"`)), "must be one of: primary, danger"},
		"a danger":                     {one(button(`,"style":"danger"`)), ""},
		"half a confirmation":          {one(button(`,"confirm":{}`)), "missing required field: title"},
		"an overflow of six": {
			one(`{"type":"actions","elements":[{"type":"overflow","options":` + many(6, option) + `}]}`), "no more than 5 items allowed",
		},
		"rich text":                     {parts(`{"type":"text","text":"<!channel> ` + "```" + `"},{"type":"link","url":"https://example.com"}`), ""},
		"rich text with nothing in it":  {parts(`{"type":"text","text":""}`), "must be more than 0 characters"},
		"rich text with something else": {parts(`{"type":"shout"}`), "unsupported type: shout"},
		"a list in rich text": {
			one(`{"type":"rich_text","elements":[{"type":"rich_text_list","elements":[{"type":"rich_text_section","elements":[{"type":"user","user_id":"U1"}]}]}]}`), "",
		},
		"rich text of another kind":      {one(`{"type":"rich_text","elements":[{"type":"shout"}]}`), "unsupported type: shout"},
		"rich text without parts":        {one(`{"type":"rich_text","elements":[{"type":"rich_text_section"}]}`), "missing required field: elements"},
		"markdown in several blocks":     {two(`{"type":"markdown","text":`+chars(6000)+`}`, `{"type":"markdown","text":`+chars(6001)+`}`), "no more than 12000 characters of markdown"},
		"empty markdown":                 {one(`{"type":"markdown","text":""}`), "must be more than 0 characters"},
		"a field of no length":           {one(input(`{"type":"plain_text_input","max_length":0}`)), "must be from 1 to 3000"},
		"a field of at least no length":  {one(input(`{"type":"plain_text_input","min_length":0,"max_length":1}`)), ""},
		"a field of less than no length": {one(input(`{"type":"plain_text_input","min_length":-1}`)), "must be from 0 to 3000"},
		"a length that is no number":     {one(input(`{"type":"plain_text_input","max_length":"1"}`)), "must be from 1 to 3000"},
		"a picture of nothing":           {one(`{"type":"image","image_url":"","alt_text":"x"}`), "must be more than 0 characters"},
		"a picture without a word":       {one(`{"type":"image","image_url":"x","alt_text":""}`), "must be more than 0 characters"},
		"an option without a value":      {one(input(`{"type":"static_select","options":[{"text":` + label + `,"value":""}]}`)), "must be more than 0 characters"},
		"not even JSON":                  {"[", "invalid_blocks_format"},
		"an object":                      {"{}", "invalid_blocks_format"},
		"five that are too large together": {
			many(5, `{"type":"section","text":`+plainText(2700)+`}`), "msg_blocks_too_long",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := slacktest.CheckBlocks([]byte(tt.blocks))
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("CheckBlocks = %v, want %q", err, tt.want)
			}
		})
	}
}

func FuzzBlocks(f *testing.F) {
	for _, seed := range []string{
		"[" + button(`,"confirm":{}`) + "]", "[" + divider + "]", `[{"type":"rich_text","elements":[{"type":"rich_text_list"}]}]`,
		"[" + input(`{"type":"static_select","option_groups":[{}]}`) + "]", `[{"type":"section","text":{"type":"mrkdwn","text":"<|><!><@U1>"}}]`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		blocks, err := slacktest.CheckBlocks([]byte(raw))
		if err != nil && refusalOf(err).Code == "" {
			t.Errorf("error without a code: %v", err)
		}
		var loose []map[string]any
		_ = json.Unmarshal([]byte(raw), &loose)
		for _, b := range [][]map[string]any{blocks, loose} { // reading must survive anything
			m := slacktest.Message{Text: raw, Blocks: b, LinkNames: true}
			m.Read()
			m.Notifies()
		}
	})
}
