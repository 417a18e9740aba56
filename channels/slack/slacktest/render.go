package slacktest

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
)

// Read returns what a person reads on a message, one block after the other. The
// first line is what a notification and a screen reader say.
//
//	(Approval needed: db.drop)
//	# Approval needed: db.drop
//	Requested by billing
//	| {"table": "users"}
//	[Approve] [Deny]
//
// Markup is as a person would see it: links show where they go, mentions whom
// they call, and what was escaped reads as it was.
func (m Message) Read() string {
	r := reader{}
	r.line("(" + r.marked(m.Text) + ")")
	if len(m.Blocks) == 0 {
		r.lines = []string{r.marked(m.Text)}
	}
	r.blocks(m.Blocks)
	return strings.Join(r.lines, "\n")
}

// Read returns what a person reads in a view, with the errors under the fields.
func (v View) Read() string {
	r := reader{errors: v.Errors}
	r.line("# " + textOf(v.Content["title"]))
	r.blocks(blocksOf(v.Content))
	buttons := []string{}
	for _, key := range []string{"submit", "close"} {
		if v.Content[key] != nil {
			buttons = append(buttons, "["+textOf(v.Content[key])+"]")
		}
	}
	r.line(strings.Join(buttons, " "))
	return strings.Join(r.lines, "\n")
}

// Notifies returns whom a message calls, by its text and its blocks: "!channel",
// "@U0AAAAAA1", "!subteam^S0AAAAAA1". Everything that Slack might take for a
// mention counts, also in messages that were only changed.
func (m Message) Notifies() []string {
	r := reader{}
	r.marked(m.Text)
	if m.LinkNames {
		r.calls = append(r.calls, atNames.FindAllString(m.Text, -1)...)
	}
	r.blocks(m.Blocks)
	if len(m.Attachments) > 0 { // their parts differ in what is markup: all of it is taken for that
		raw, _ := json.Marshal(m.Attachments)
		r.marked(strings.NewReplacer(`\u003c`, "<", `\u003e`, ">").Replace(string(raw)))
	}
	slices.Sort(r.calls)
	return slices.Compact(r.calls)
}

var (
	atNames = regexp.MustCompile(`@[\w.-]+`)
	markup  = regexp.MustCompile(`<([^<>]+)>`)
)

// reader collects lines and whom they call.
type reader struct {
	lines, calls []string
	errors       map[string]string
}

func (r *reader) line(s string) {
	if s != "" {
		r.lines = append(r.lines, s)
	}
}

// marked reads text in which <…> is markup and &lt; is not.
func (r *reader) marked(s string) string {
	s = markup.ReplaceAllStringFunc(s, func(whole string) string {
		target, label, _ := strings.Cut(whole[1:len(whole)-1], "|")
		if target == "" {
			return whole
		}
		switch target[0] {
		case '!':
			if strings.HasPrefix(target, "!date^") {
				return label
			}
			r.calls = append(r.calls, target)
			return "@" + target[1:]
		case '@':
			r.calls = append(r.calls, target)
			return target
		case '#':
			return target
		}
		if label == "" || label == target {
			return target
		}
		return label + " (" + target + ")"
	})
	return strings.NewReplacer("&lt;", "<", "&gt;", ">", "&amp;", "&").Replace(s)
}

// text reads a text object. In plain text nothing is markup.
func (r *reader) text(v any) string {
	o, _ := v.(object)
	if o["type"] == rich {
		return r.marked(str(o, "text"))
	}
	return str(o, "text")
}

func textOf(v any) string {
	o, _ := v.(object)
	return str(o, "text")
}

func (r *reader) blocks(blocks []object) {
	for _, b := range blocks {
		r.block(b)
	}
}

func (r *reader) block(b object) {
	switch b["type"] {
	case "header":
		r.line("# " + r.text(b["text"]))
	case "divider":
		r.line("---")
	case "section":
		r.line(r.text(b["text"]))
		fields, _ := b["fields"].([]any)
		for _, f := range fields {
			r.line("- " + r.text(f))
		}
		r.row(b, " ")
	case "context":
		r.row(b, " · ")
	case "actions":
		r.row(b, " ")
	case "input":
		r.line(r.text(b["label"]) + ": ____")
		if e := r.errors[str(b, "block_id")]; e != "" {
			r.line("! " + e)
		}
	case "image":
		r.line("(picture: " + str(b, "alt_text") + ")")
	case "markdown":
		r.line(r.marked(str(b, "text")))
	case "rich_text":
		r.rich(b, "")
	}
}

// row reads the elements of a block on one line.
func (r *reader) row(b object, between string) {
	var parts []string
	for _, e := range elementsOf(b) {
		switch e["type"] {
		case plain, rich:
			parts = append(parts, r.text(e))
		case "image":
			parts = append(parts, "(picture: "+str(e, "alt_text")+")")
		case "button":
			parts = append(parts, "["+r.text(e["text"])+"]")
		default:
			parts = append(parts, "("+str(e, "type")+")")
		}
	}
	r.line(strings.Join(parts, between))
}

// rich reads the parts of a rich text; preformatted and quoted ones have a bar.
func (r *reader) rich(o object, bar string) {
	for _, e := range elementsOf(o) {
		bar := bar
		switch e["type"] {
		case "rich_text_list":
			r.rich(e, bar+"- ")
			continue
		case "rich_text_preformatted", "rich_text_quote":
			bar += "| "
		}
		var text strings.Builder
		for _, part := range elementsOf(e) {
			text.WriteString(r.part(part))
		}
		for line := range strings.Lines(text.String()) {
			r.line(bar + strings.TrimSuffix(line, "\n"))
		}
	}
}

func (r *reader) part(p object) string {
	var call string
	switch p["type"] {
	case "link":
		if label := str(p, "text"); label != "" && label != str(p, "url") {
			return label + " (" + str(p, "url") + ")"
		}
		return str(p, "url")
	case "emoji":
		return ":" + str(p, "name") + ":"
	case "channel":
		return "#" + str(p, "channel_id")
	case "user":
		call = "@" + str(p, "user_id")
	case "usergroup":
		call = "!subteam^" + str(p, "usergroup_id")
	case "broadcast":
		call = "!" + str(p, "range")
	default:
		return str(p, "text")
	}
	r.calls = append(r.calls, call)
	return "@" + strings.TrimPrefix(strings.TrimPrefix(call, "@"), "!")
}
