package mattermosttest

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Read returns what a person reads on a post, one line after the other, with its
// Markdown as it was written:
//
//	Approval needed
//	# db.drop
//	| Agent: billing
//	request apr_01
//	[Approve] [Deny] [Approve for longer …: This session, Always]
func (p Post) Read() string {
	var lines []string
	line := func(s string) {
		if s != "" {
			lines = append(lines, s)
		}
	}
	line(p.Message)
	for _, a := range p.attachments() {
		line(a.Pretext)
		line(a.AuthorName)
		if a.Title != "" {
			line("# " + a.Title)
		}
		line(a.Text)
		for _, f := range a.Fields {
			line(f.read())
		}
		if a.ImageURL != "" {
			line("(picture: " + a.ImageURL + ")")
		}
		line(a.Footer)
		line(a.buttons())
	}
	return strings.Join(lines, "\n")
}

func (p Post) attachments() []*attachment { return attachmentsOf(p.Props["attachments"]) }

func (f *field) read() string {
	if f == nil {
		return ""
	}
	return "| " + f.Title + ": " + f.value()
}

func (f *field) value() string {
	if f.Value == nil {
		return ""
	}
	return fmt.Sprint(f.Value)
}

func (a *attachment) buttons() string {
	var all []string
	for _, b := range a.Actions {
		if b == nil {
			continue
		}
		name := b.Name
		var texts []string
		for _, o := range b.Options {
			texts = append(texts, o.Text)
		}
		if len(texts) > 0 {
			name += ": " + strings.Join(texts, ", ")
		}
		if b.Disabled {
			name = "(" + name + ")"
		}
		all = append(all, "["+name+"]")
	}
	return strings.Join(all, " ")
}

var pressable = regexp.MustCompile(`^[A-Za-z0-9]+$`)

// Buttons returns the ids of what can be pressed: those that are in the path of a
// press on every version, and that have an integration. Disabled ones are among
// them, as the server does not mind.
func (p Post) Buttons() []string {
	var ids []string
	for _, a := range p.attachments() {
		for _, b := range a.Actions {
			if b != nil && b.Integration != nil && pressable.MatchString(b.ID) && !slices.Contains(ids, b.ID) {
				ids = append(ids, b.ID)
			}
		}
	}
	return ids
}

// Context returns what an action has in its context. Members get to see it in
// previews of permalinks, in lists of threads and when a post is deleted.
func (p Post) Context(action string) map[string]any {
	if i := p.integration(action); i != nil {
		return i.Context
	}
	return nil
}

// URLOf returns whom an action calls, which is as public as its context.
func (p Post) URLOf(action string) string {
	if i := p.integration(action); i != nil {
		return i.URL
	}
	return ""
}

func (p Post) integration(id string) *integration {
	stored := post{props: p.Props}
	if b := stored.action(id); b != nil {
		return b.Integration
	}
	return nil
}

// texts are the parts of a post that are Markdown.
func (p Post) texts() []string {
	all := []string{p.Message}
	for _, a := range p.attachments() {
		all = append(all, a.Pretext, a.Title, a.Text, a.Footer)
		for _, f := range a.Fields {
			if f != nil {
				all = append(all, f.Title, f.value())
			}
		}
	}
	return all
}

// Notifies returns whom a post calls: "@channel", "@ada", "@sre". All that any
// version might take for a mention counts, whether there is such a name or not.
func (p Post) Notifies() []string {
	var all []string
	for _, t := range p.texts() {
		all = append(all, mentionsIn(withoutCode(t))...)
	}
	return unique(all)
}

// Links returns where a reader is led by what they can press that is no button.
func (p Post) Links() []string {
	var all []string
	for _, t := range p.texts() {
		all = append(all, linksIn(withoutCode(t))...)
	}
	for _, a := range p.attachments() {
		all = append(all, a.TitleLink, a.AuthorLink)
	}
	return unique(slices.DeleteFunc(all, func(s string) bool { return s == "" }))
}

// Images returns the pictures that a reader's client loads.
func (p Post) Images() []string {
	var all []string
	for _, t := range p.texts() {
		all = append(all, imagesIn(withoutCode(t))...)
	}
	for _, a := range p.attachments() {
		all = append(all, a.ImageURL, a.ThumbURL, a.AuthorIcon, a.FooterIcon)
	}
	return unique(slices.DeleteFunc(all, func(s string) bool { return s == "" }))
}

// plain turns props into what JSON makes of them, so that tests can look into
// them.
func plain(props object) object {
	raw, err := json.Marshal(props)
	if err != nil {
		return nil
	}
	var o object
	if json.Unmarshal(raw, &o) != nil {
		return nil
	}
	return o
}
