package mattermosttest

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// attachment is one of a post's, as the server understands it; what it does not
// know is dropped.
type attachment struct {
	ID         int64     `json:"id"`
	Fallback   string    `json:"fallback"`
	Color      string    `json:"color"`
	Pretext    string    `json:"pretext"`
	AuthorName string    `json:"author_name"`
	AuthorLink string    `json:"author_link"`
	AuthorIcon string    `json:"author_icon"`
	Title      string    `json:"title"`
	TitleLink  string    `json:"title_link"`
	Text       string    `json:"text"`
	Fields     []*field  `json:"fields"`
	ImageURL   string    `json:"image_url"`
	ThumbURL   string    `json:"thumb_url"`
	Footer     string    `json:"footer"`
	FooterIcon string    `json:"footer_icon"`
	Timestamp  any       `json:"ts"`
	Actions    []*action `json:"actions,omitempty"`
}

type field struct {
	Title string `json:"title"`
	Value any    `json:"value"`
	Short truth  `json:"short"`
}

// truth is a bool that may be written as a text.
type truth bool

// UnmarshalJSON implements json.Unmarshaler.
func (t *truth) UnmarshalJSON(raw []byte) error {
	*t = truth(slices.Contains([]string{"true", `"true"`, "1", `"1"`}, strings.ToLower(string(raw))))
	return nil
}

// action is a button or a menu.
type action struct {
	ID            string       `json:"id,omitempty"`
	Type          string       `json:"type,omitempty"`
	Name          string       `json:"name,omitempty"`
	Disabled      bool         `json:"disabled,omitempty"`
	Style         string       `json:"style,omitempty"`
	DataSource    string       `json:"data_source,omitempty"`
	Options       []*option    `json:"options,omitempty"`
	DefaultOption string       `json:"default_option,omitempty"`
	Integration   *integration `json:"integration,omitempty"`
	Cookie        string       `json:"cookie,omitempty"`
}

type option struct {
	Text  string `json:"text"`
	Value string `json:"value"`
}

// integration says whom a press calls. It is never sent to clients, but they get
// to see it in other ways: [Post.Context].
type integration struct {
	URL     string `json:"url,omitempty"`
	Context object `json:"context,omitempty"`
}

// attachmentsOf understands what is under "attachments". What it cannot
// understand is nothing, and one mistake spoils all of them.
func attachmentsOf(v any) []*attachment {
	if known, isKnown := v.([]*attachment); isKnown {
		return known
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	var all []*attachment
	if json.Unmarshal(raw, &all) != nil {
		return nil
	}
	return slices.DeleteFunc(all, func(a *attachment) bool { return a == nil })
}

// settled returns props as the server keeps them: attachments understood, and
// actions with ids.
func settled(props object) object {
	kept := make(object, len(props))
	maps.Copy(kept, props)
	v, has := kept["attachments"]
	if !has {
		return kept
	}
	all := attachmentsOf(v)
	for _, a := range all {
		for _, b := range a.Actions {
			if b != nil && b.ID == "" {
				b.ID = NewID()
			}
		}
	}
	kept["attachments"] = all
	return kept
}

// stripped returns props as clients get to see them: without the integrations,
// with a cookie in their place if somebody makes one.
func stripped(props object, cookie func(*action) string) object {
	shown := make(object, len(props))
	maps.Copy(shown, props)
	all, has := props["attachments"].([]*attachment)
	if !has || all == nil {
		return shown
	}
	copies := make([]*attachment, len(all))
	for i, a := range all {
		c := *a
		c.Actions = nil
		for _, b := range a.Actions {
			if b == nil {
				continue
			}
			d := *b
			d.Integration, d.Cookie = nil, ""
			if cookie != nil {
				d.Cookie = cookie(b)
			}
			c.Actions = append(c.Actions, &d)
		}
		copies[i] = &c
	}
	shown["attachments"] = copies
	return shown
}

// action finds one by its id; of two with the same id the first counts.
func (p *post) action(id string) *action {
	for _, a := range attachmentsOf(p.props["attachments"]) {
		for _, b := range a.Actions {
			if b != nil && b.ID == id {
				return b
			}
		}
	}
	return nil
}

func joined(names []string) string { return strings.Join(names, ", ") }

func unique(s []string) []string {
	all := slices.Sorted(slices.Values(s))
	return slices.Compact(all)
}
