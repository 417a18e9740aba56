package slacktest

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// How many blocks there may be.
const maxMessageBlocks, maxViewBlocks = 50, 100

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

// checker collects what is wrong with blocks, each with a JSON pointer.
type checker struct{ problems []string }

func (c *checker) fail(at, format string, with ...any) {
	c.problems = append(c.problems, fmt.Sprintf(format, with...)+" [json-pointer:"+at+"]")
}

// blockChecks has the blocks that the double knows; others are refused, whether
// Slack knows them or not.
var blockChecks = map[string]func(c *checker, at string, b object){
	"divider":   func(*checker, string, object) {},
	"header":    func(c *checker, at string, b object) { c.text(at, b, "text", 150, plain) },
	"section":   (*checker).section,
	"context":   (*checker).context,
	"actions":   (*checker).actions,
	"input":     (*checker).input,
	"image":     (*checker).image,
	"rich_text": (*checker).richText,
	"markdown":  func(c *checker, at string, b object) { c.str(at, b, "text", 1, maxMarkdown) },
}

func (c *checker) blocks(at string, items []any, most int) (blocks []object) {
	c.count(at, items, most)
	seen, markdown := map[string]bool{}, 0
	for i, item := range items {
		at := fmt.Sprintf("%s/%d", at, i)
		b, ok := item.(object)
		kind, _ := b["type"].(string)
		check := blockChecks[kind]
		if !ok || check == nil {
			c.fail(at+"/type", "unsupported type: %s", kind)
			continue
		}
		check(c, at, b)
		c.str(at, b, "block_id", 0, 255)
		c.unique(at, b, "block_id", seen)
		if kind == "markdown" {
			markdown += utf8.RuneCountInString(str(b, "text"))
		}
		blocks = append(blocks, b)
	}
	if markdown > maxMarkdown {
		c.fail(at, "no more than %d characters of markdown allowed", maxMarkdown)
	}
	return blocks
}

func (c *checker) count(at string, items []any, most int) {
	if len(items) > most {
		c.fail(at, "no more than %d items allowed", most)
	}
}

// items returns a list that must have something in it.
func (c *checker) items(at string, o object, key string, most int) []any {
	items, ok := o[key].([]any)
	switch {
	case !ok:
		c.fail(at, "missing required field: %s", key)
	case len(items) == 0:
		c.fail(at+"/"+key, "no fewer than 1 items allowed")
	}
	c.count(at+"/"+key, items, most)
	return items
}

// unique checks that an id, if there is one, is nobody else's in seen.
func (c *checker) unique(at string, o object, key string, seen map[string]bool) {
	id := str(o, key)
	if id != "" && seen[id] {
		c.fail(at+"/"+key, "`%s` `%s` already exists", key, id)
	}
	seen[id] = true
}

func str(o object, key string) string {
	s, _ := o[key].(string)
	return s
}

// str checks a text that must be there unless least is zero.
func (c *checker) str(at string, o object, key string, least, most int) {
	v, given := o[key]
	s, ok := v.(string)
	n := utf8.RuneCountInString(s)
	switch {
	case !given || v == nil:
		if least > 0 {
			c.fail(at, "missing required field: %s", key)
		}
	case !ok:
		c.fail(at+"/"+key, "must be a string")
	case n < least:
		c.fail(at+"/"+key, "must be more than %d characters", least-1)
	case n > most:
		c.fail(at+"/"+key, "must be less than %d characters", most+1)
	}
}

const (
	plain = "plain_text"
	rich  = "mrkdwn"
)

// text checks a text object that must be there and of one of the kinds.
func (c *checker) text(at string, o object, key string, most int, kinds ...string) {
	if o[key] == nil {
		c.fail(at, "missing required field: %s", key)
		return
	}
	c.textObject(at+"/"+key, o[key], most, kinds...)
}

func (c *checker) maybe(at string, o object, key string, most int, kinds ...string) {
	if o[key] != nil {
		c.textObject(at+"/"+key, o[key], most, kinds...)
	}
}

func (c *checker) textObject(at string, v any, most int, kinds ...string) {
	o, _ := v.(object)
	kind := str(o, "type")
	if !slices.Contains(kinds, kind) {
		c.fail(at+"/type", "must be one of: %s", strings.Join(kinds, ", "))
		return
	}
	c.str(at, o, "text", 1, most)
	if _, has := o["emoji"]; has && kind == rich {
		c.fail(at, "invalid additional property: emoji")
	}
	if _, has := o["verbatim"]; has && kind == plain {
		c.fail(at, "invalid additional property: verbatim")
	}
}

func (c *checker) section(at string, b object) {
	if b["text"] == nil && b["fields"] == nil {
		c.fail(at, "missing required field: text")
	}
	c.maybe(at, b, "text", 3000, plain, rich)
	if b["fields"] != nil {
		for i, f := range c.items(at, b, "fields", 10) {
			c.textObject(fmt.Sprintf("%s/fields/%d", at, i), f, 2000, plain, rich)
		}
	}
	if b["accessory"] != nil {
		c.element(at+"/accessory", b["accessory"], "image", "button", "static_select", "overflow", "checkboxes", "radio_buttons")
	}
}

func (c *checker) context(at string, b object) {
	for i, e := range c.items(at, b, "elements", 10) {
		at := fmt.Sprintf("%s/elements/%d", at, i)
		if o, _ := e.(object); str(o, "type") == "image" {
			c.image(at, o)
			continue
		}
		c.textObject(at, e, 3000, plain, rich)
	}
}

func (c *checker) actions(at string, b object) {
	seen := map[string]bool{}
	for i, e := range c.items(at, b, "elements", 25) {
		at := fmt.Sprintf("%s/elements/%d", at, i)
		c.element(at, e, "button", "static_select", "overflow", "checkboxes", "radio_buttons")
		o, _ := e.(object)
		c.unique(at, o, "action_id", seen)
	}
}

func (c *checker) input(at string, b object) {
	c.text(at, b, "label", 2000, plain)
	c.maybe(at, b, "hint", 2000, plain)
	c.element(at+"/element", b["element"], "plain_text_input", "static_select", "checkboxes", "radio_buttons")
}

func (c *checker) image(at string, b object) {
	c.str(at, b, "image_url", 1, 3000)
	c.str(at, b, "alt_text", 1, 2000)
	c.maybe(at, b, "title", 2000, plain)
}

// element checks an interactive element, or an image, of one of the kinds.
func (c *checker) element(at string, v any, kinds ...string) {
	e, _ := v.(object)
	kind := str(e, "type")
	if !slices.Contains(kinds, kind) {
		c.fail(at+"/type", "unsupported type: %s", kind)
		return
	}
	if kind == "image" {
		c.image(at, e)
		return
	}
	c.str(at, e, "action_id", 0, 255)
	c.confirm(at, e)
	switch kind {
	case "button":
		c.button(at, e)
	case "plain_text_input":
		c.typed(at, e)
	case "static_select":
		c.choice(at, e)
	case "overflow":
		c.options(at, e, 5)
	default:
		c.options(at, e, 10)
	}
}

func (c *checker) button(at string, e object) {
	c.text(at, e, "text", 75, plain)
	c.str(at, e, "value", 0, 2000)
	c.str(at, e, "url", 0, 3000)
	c.str(at, e, "accessibility_label", 0, 75)
	if style, given := e["style"]; given && style != "primary" && style != "danger" {
		c.fail(at+"/style", "must be one of: primary, danger")
	}
}

func (c *checker) confirm(at string, e object) {
	if e["confirm"] == nil {
		return
	}
	at += "/confirm"
	o, _ := e["confirm"].(object)
	c.text(at, o, "title", 100, plain)
	c.text(at, o, "text", 300, plain, rich)
	c.text(at, o, "confirm", 30, plain)
	c.text(at, o, "deny", 30, plain)
}

func (c *checker) typed(at string, e object) {
	c.maybe(at, e, "placeholder", 150, plain)
	for i, key := range []string{"min_length", "max_length"} {
		n, ok := e[key].(float64)
		if e[key] != nil && (!ok || n < float64(i) || n > 3000) {
			c.fail(at+"/"+key, "must be from %d to 3000", i)
		}
	}
}

func (c *checker) choice(at string, e object) {
	c.maybe(at, e, "placeholder", 150, plain)
	if e["option_groups"] == nil {
		c.options(at, e, 100)
		return
	}
	for i, g := range c.items(at, e, "option_groups", 100) {
		at := fmt.Sprintf("%s/option_groups/%d", at, i)
		group, _ := g.(object)
		c.text(at, group, "label", 75, plain)
		c.options(at, group, 100)
	}
}

func (c *checker) options(at string, e object, most int) {
	for i, v := range c.items(at, e, "options", most) {
		at := fmt.Sprintf("%s/options/%d", at, i)
		o, _ := v.(object)
		c.text(at, o, "text", 75, plain, rich)
		c.maybe(at, o, "description", 75, plain, rich)
		c.str(at, o, "value", 1, 75)
	}
}

// richText checks what is text in a rich text; the rest only has to be there.
func (c *checker) richText(at string, b object) {
	for i, e := range c.items(at, b, "elements", 1000) {
		at := fmt.Sprintf("%s/elements/%d", at, i)
		o, _ := e.(object)
		switch kind := str(o, "type"); kind {
		case "rich_text_section", "rich_text_preformatted", "rich_text_quote":
			c.richParts(at, o)
		case "rich_text_list":
			c.richText(at, o)
		default:
			c.fail(at+"/type", "unsupported type: %s", kind)
		}
	}
}

func (c *checker) richParts(at string, o object) {
	parts, ok := o["elements"].([]any)
	if !ok {
		c.fail(at, "missing required field: elements")
	}
	needs := map[string]string{
		"text": "text", "link": "url", "user": "user_id", "usergroup": "usergroup_id", "channel": "channel_id",
		"emoji": "name", "broadcast": "range",
	}
	for i, p := range parts {
		at := fmt.Sprintf("%s/elements/%d", at, i)
		part, _ := p.(object)
		key, known := needs[str(part, "type")]
		if !known {
			c.fail(at+"/type", "unsupported type: %s", str(part, "type"))
			continue
		}
		c.str(at, part, key, 1, maxBlocksSize)
	}
}

// nameBlocks gives ids to blocks and elements that have none, as Slack does.
func (s *Slack) nameBlocks(blocks []object) {
	for _, b := range blocks {
		if str(b, "block_id") == "" {
			b["block_id"] = s.id("b")
		}
		for _, e := range elementsOf(b) {
			if interactive(e) && str(e, "action_id") == "" {
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

func interactive(e object) bool {
	kinds := []string{"button", "static_select", "overflow", "checkboxes", "radio_buttons", "plain_text_input"}
	return slices.Contains(kinds, str(e, "type"))
}

// copyOf copies the top of an object.
func copyOf(o object) object {
	if o == nil {
		return object{}
	}
	return maps.Clone(o)
}
