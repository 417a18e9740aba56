package slacktest

import (
	"encoding/json"
	"fmt"
	"slices"
	"unicode/utf8"
)

// How many blocks there may be.
const maxMessageBlocks, maxViewBlocks = 50, 100

// The kinds of text objects: nothing is markup in the first.
const plain, rich = "plain_text", "mrkdwn"

// CheckBlocks reads the blocks of a message and refuses with a [Refusal] what
// Slack would refuse to post.
func CheckBlocks(raw []byte) ([]map[string]any, error) {
	var items []any
	if json.Unmarshal(raw, &items) != nil {
		return nil, refuse("invalid_blocks_format")
	}
	if utf8.RuneCount(raw) > maxBlocksSize {
		return nil, refuse("msg_blocks_too_long")
	}
	c := &checker{}
	blocks := c.blocks("/blocks", items, maxMessageBlocks)
	if len(c.problems) > 0 {
		return nil, refuse("invalid_blocks", c.problems...)
	}
	return blocks, nil
}

// blockRules has the blocks that the double knows; others are refused, whether
// Slack knows them or not.
var blockRules = map[string][]rule{
	"divider":   {},
	"header":    {text("text", 150, plain)},
	"section":   {sectionText, maybe("fields", list("fields", 10, textItem(2000))), maybe("accessory", element("accessory", accessories...))},
	"context":   {list("elements", 10, textOrImage)},
	"actions":   {list("elements", 25, elementItem(actions...)), ownActionIDs},
	"input":     {text("label", 2000, plain), maybe("hint", text("hint", 2000, plain)), element("element", inputs...)},
	"image":     image,
	"rich_text": {list("elements", 1000, richItem)},
	"markdown":  {chars("text", 1, maxMarkdown)},
}

// elementRules has what can be in blocks beside text.
var elementRules = map[string][]rule{
	"button": {
		text("text", 75, plain), chars("value", 0, 2000), chars("url", 0, 3000), chars("accessibility_label", 0, 75),
		maybe("style", oneOf("style", "primary", "danger")),
	},
	"plain_text_input": {placeholder, number("min_length", 0, 3000), number("max_length", 1, 3000)},
	"static_select":    {placeholder, optionsOrGroups},
	"overflow":         {options(5)},
	"checkboxes":       {options(10)},
	"radio_buttons":    {options(10)},
	"image":            image,
}

// Which elements can be where.
var (
	actions     = []string{"button", "static_select", "overflow", "checkboxes", "radio_buttons"}
	accessories = append([]string{"image"}, actions...)
	inputs      = []string{"plain_text_input", "static_select", "checkboxes", "radio_buttons"}
)

var (
	image       = []rule{chars("image_url", 1, 3000), chars("alt_text", 1, 2000), maybe("title", text("title", 2000, plain))}
	placeholder = maybe("placeholder", text("placeholder", 150, plain))
	confirm     = maybe("confirm", nested("confirm",
		text("title", 100, plain), text("text", 300, plain, rich), text("confirm", 30, plain), text("deny", 30, plain)))
	option = []rule{text("text", 75, plain, rich), maybe("description", text("description", 75, plain, rich)), chars("value", 1, 75)}
	group  = []rule{text("label", 75, plain), options(100)}
)

func options(most int) rule { return list("options", most, having(option...)) }

func optionsOrGroups(c *checker, at string, o object) {
	if o["option_groups"] == nil {
		options(100)(c, at, o)
		return
	}
	list("option_groups", 100, having(group...))(c, at, o)
}

func sectionText(c *checker, at string, o object) {
	if o["text"] != nil || o["fields"] == nil {
		text("text", 3000, plain, rich)(c, at, o)
	}
}

func (c *checker) blocks(at string, items []any, most int) (blocks []object) {
	if len(items) > most {
		c.fail(at, "no more than %d items allowed", most)
	}
	ids, markdown := map[string]bool{}, 0
	for i, item := range items {
		at := fmt.Sprintf("%s/%d", at, i)
		b, _ := item.(object)
		rules, known := blockRules[str(b, "type")]
		if !known {
			c.fail(at+"/type", "unsupported type: %s", str(b, "type"))
			continue
		}
		c.all(at, b, rules)
		chars("block_id", 0, 255)(c, at, b)
		c.unique(at, b, "block_id", ids)
		if b["type"] == "markdown" {
			markdown += utf8.RuneCountInString(str(b, "text"))
		}
		blocks = append(blocks, b)
	}
	if markdown > maxMarkdown {
		c.fail(at, "no more than %d characters of markdown allowed", maxMarkdown)
	}
	return blocks
}

func textOrImage(c *checker, at string, v any) {
	if o, _ := v.(object); o["type"] == "image" {
		c.all(at, o, image)
		return
	}
	textItem(3000)(c, at, v)
}

func element(key string, kinds ...string) rule {
	return func(c *checker, at string, o object) { elementItem(kinds...)(c, at+"/"+key, o[key]) }
}

func elementItem(kinds ...string) item {
	return func(c *checker, at string, v any) {
		e, _ := v.(object)
		kind := str(e, "type")
		if !slices.Contains(kinds, kind) {
			c.fail(at+"/type", "unsupported type: %s", kind)
			return
		}
		c.all(at, e, elementRules[kind])
		c.all(at, e, []rule{chars("action_id", 0, 255), confirm})
	}
}

func ownActionIDs(c *checker, at string, o object) {
	ids := map[string]bool{}
	for i, e := range elementsOf(o) {
		c.unique(fmt.Sprintf("%s/elements/%d", at, i), e, "action_id", ids)
	}
}

// richNeeds says what the parts of a rich text must have.
var richNeeds = map[string]string{
	"text": "text", "link": "url", "user": "user_id", "usergroup": "usergroup_id", "channel": "channel_id",
	"emoji": "name", "broadcast": "range",
}

func richItem(c *checker, at string, v any) {
	o, _ := v.(object)
	switch kind := str(o, "type"); kind {
	case "rich_text_section", "rich_text_preformatted", "rich_text_quote":
		list("elements", 1000, richPart)(c, at, o)
	case "rich_text_list":
		list("elements", 1000, richItem)(c, at, o)
	default:
		c.fail(at+"/type", "unsupported type: %s", kind)
	}
}

func richPart(c *checker, at string, v any) {
	o, _ := v.(object)
	key, known := richNeeds[str(o, "type")]
	if !known {
		c.fail(at+"/type", "unsupported type: %s", str(o, "type"))
		return
	}
	chars(key, 1, maxBlocksSize)(c, at, o)
}

// nameBlocks gives ids to blocks and elements that have none, as Slack does.
func (s *Slack) nameBlocks(blocks []object) {
	for _, b := range blocks {
		if str(b, "block_id") == "" {
			b["block_id"] = s.id("b")
		}
		for _, e := range elementsOf(b) {
			if kind := str(e, "type"); slices.Contains(append(actions, inputs...), kind) && str(e, "action_id") == "" {
				e["action_id"] = s.id("a")
			}
		}
	}
}

// elementsOf returns the elements of a block, wherever that kind has them.
func elementsOf(b object) (all []object) {
	items, _ := b["elements"].([]any)
	for _, v := range append(slices.Clone(items), b["accessory"], b["element"]) {
		if e, ok := v.(object); ok {
			all = append(all, e)
		}
	}
	return all
}
