package mattermosttest_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// comparison compares what the double did with what was captured, and learns
// which id of the double stands for which captured one.
type comparison struct {
	names    map[string]string // captured to the double's
	problems []string
}

func (c *comparison) say(format string, with ...any) {
	c.problems = append(c.problems, fmt.Sprintf(format, with...))
}

// translate puts the double's ids in the place of captured ones.
func (c *comparison) translate(s string) string {
	for _, from := range sortedNames(c.names) {
		s = strings.ReplaceAll(s, from, c.names[from])
	}
	return s
}

// volatile differ from one server, or one time, to the next, so that only their
// type counts.
var volatile = []string{
	"request_id", "trigger_id", "cookie", "token", "invite_id", "last_post_at", "total_msg_count", "total_msg_count_root",
	"last_root_post_at", "last_viewed_at", "msg_count", "msg_count_root", "mention_count", "mention_count_root", "last_update_at",
	"update_at", "create_at", "response_url", "last_password_update", "creator_id", "owner_id", "roles", "scheme_admin",
	"display_name", "detailed_error", "reply_count", "last_reply_at", "participants", "automaticTimezone",
}

// naming are the fields that say what captured things are called in the double.
var naming = []string{"id", "user_id", "post_id", "token", "trigger_id", "cookie"}

// absent may be missing in the double.
var absent = []string{"last_picture_update", "body_json"}

// body compares two bodies: as JSON if they are that, else as texts.
func (c *comparison) body(where, want, got string) {
	var w, g any
	if json.Unmarshal([]byte(want), &w) != nil || json.Unmarshal([]byte(got), &g) != nil {
		if c.translate(strings.TrimSpace(want)) != strings.TrimSpace(got) {
			c.say("%s: want %.200q, got %.200q", where, c.translate(want), got)
		}
		return
	}
	c.value(where, w, g)
}

func (c *comparison) value(where string, want, got any) {
	if fmt.Sprintf("%T", want) != fmt.Sprintf("%T", got) {
		c.say("%s: want %T %.80v, got %T %.80v", where, want, want, got, got)
		return
	}
	key := where[strings.LastIndex(where, ".")+1:]
	switch w := want.(type) {
	case map[string]any:
		c.object(where, w, got.(map[string]any))
	case []any:
		c.list(where, w, got.([]any))
	case string:
		c.text(where, key, w, got.(string))
	case float64:
		g := got.(float64)
		if strings.HasSuffix(key, "_at") && !slices.Contains(volatile, key) {
			if (w == 0) != (g == 0) {
				c.say("%s: want %v, got %v", where, w, g)
			}
		} else if w != g && !slices.Contains(volatile, key) {
			c.say("%s: want %v, got %v", where, w, g)
		}
	default:
		if want != got && !slices.Contains(volatile, key) {
			c.say("%s: want %v, got %v", where, want, got)
		}
	}
}

func (c *comparison) object(where string, want, got map[string]any) {
	for _, k := range sortedNames(want) {
		if _, has := got[k]; has {
			continue
		} else if !slices.Contains(absent, k) && c.names[k] == "" {
			c.say("%s: %q is missing", where, k)
		}
	}
	for _, k := range sortedNames(got) {
		if _, has := want[k]; !has && !slices.ContainsFunc(sortedNames(c.names), func(n string) bool { return c.names[n] == k }) {
			c.say("%s: %q is too much", where, k)
		}
	}
	for _, k := range sortedNames(want) {
		g, has := got[k]
		if !has {
			g, has = got[c.names[k]]
		}
		if has {
			c.value(where+"."+k, want[k], g)
		}
	}
}

func (c *comparison) list(where string, want, got []any) {
	if len(want) != len(got) {
		c.say("%s: want %d elements, got %d", where, len(want), len(got))
		return
	}
	for i := range want {
		c.value(fmt.Sprintf("%s[%d]", where, i), want[i], got[i])
	}
}

func (c *comparison) text(where, key, want, got string) {
	switch {
	case c.translate(want) == got:
	case slices.Contains(volatile, key), anID.MatchString(want) && anID.MatchString(got) && !strings.HasPrefix(want, "zzz"):
		if slices.Contains(naming, key) && want != "" && got != "" && (len(want) >= 26 || strings.HasPrefix(want, "<")) {
			c.learn(where, want, got)
		}
		if (want == "") != (got == "") && key != "display_name" && key != "automaticTimezone" {
			c.say("%s: want %q, got %q", where, want, got)
		}
	default:
		c.say("%s: want %.200q, got %.200q", where, c.translate(want), got)
	}
}

// learn takes one id for another, for good.
func (c *comparison) learn(where, want, got string) {
	if old := c.names[want]; old != "" && old != got && !strings.HasSuffix(where, "_id") {
		c.say("%s: %s was %s and is now %s", where, want, old, got)
	}
	c.names[want] = got
}

// form compares two bodies, or queries, of a slash command.
func (c *comparison) form(where, want, got string) {
	w, errW := url.ParseQuery(want)
	g, errG := url.ParseQuery(got)
	if errW != nil || errG != nil {
		c.say("%s: %v, %v", where, errW, errG)
		return
	}
	flat := func(v url.Values) map[string]any {
		o := map[string]any{}
		for k, all := range v {
			o[k] = strings.Join(all, " ")
		}
		return o
	}
	c.learn(where, lastPart(w.Get("response_url")), lastPart(g.Get("response_url")))
	c.object(where, flat(w), flat(g))
}

func lastPart(s string) string { return s[strings.LastIndex(s, "/")+1:] }

// shape compares keys and types.
func (c *comparison) shape(where string, want, got any) {
	w, isObject := want.(map[string]any)
	g, _ := got.(map[string]any)
	if want != nil && got != nil && fmt.Sprintf("%T", want) != fmt.Sprintf("%T", got) {
		c.say("%s: want %T, got %T", where, want, got)
	}
	if !isObject {
		return
	}
	for _, k := range sortedNames(w) {
		if _, has := g[k]; !has && !slices.Contains(absent, k) {
			c.say("%s: %q is missing", where, k)
		} else if has {
			c.shape(where+"."+k, w[k], g[k])
		}
	}
	for _, k := range sortedNames(g) {
		if _, has := w[k]; !has {
			c.say("%s: %q is too much", where, k)
		}
	}
}
