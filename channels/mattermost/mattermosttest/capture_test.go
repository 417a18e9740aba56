package mattermosttest_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// captures is where the captured traffic of a real server lies, if it is there.
const captures = "../../../../shared/fixtures/mattermost"

// capture is one captured situation.
type capture struct {
	Situation string
	Exchanges []*exchange
}

// exchange is a call of the API, a callback, or an event for a browser.
type exchange struct {
	At        float64 `json:"at_ms"`
	Took      float64 `json:"elapsed_ms"`
	Direction string
	By, To    string
	Request   *sentRequest
	Response  *gotResponse
	Answer    answerOf
	Event     struct{ Event string }
	Decoded   struct {
		Post   map[string]any
		Dialog struct{ Dialog map[string]any }
	} `json:"decoded_inner_json"`
}

func (e *exchange) isCall() bool     { return e.Direction == "client -> mattermost" }
func (e *exchange) isCallback() bool { return e.Direction == "mattermost -> integration" }

type sentRequest struct {
	Method, Path string
	Headers      []string
	Body         string
	Length       int `json:"body_length"`
}

type gotResponse struct {
	Status int
	Body   string
	Length int `json:"body_length"`
}

// answerOf is what the recorder answered; dropped means nothing.
type answerOf struct {
	dropped bool
	Status  int
	Headers map[string]string
	Body    string
	After   float64 `json:"sent_after_ms"`
}

// UnmarshalJSON implements json.Unmarshaler: an answer that was none is a text.
func (a *answerOf) UnmarshalJSON(raw []byte) error {
	if raw[0] == '"' {
		a.dropped = true
		return nil
	}
	type plain answerOf
	return json.Unmarshal(raw, (*plain)(a))
}

// readCaptures reads all situations, or skips the test if there are none.
func readCaptures(t *testing.T) []*capture {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(captures, "*.json"))
	if err != nil || len(files) == 0 {
		t.Skip("the captured traffic is not here")
	}
	var all []*capture
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		c := &capture{}
		if err := json.Unmarshal(raw, c); err != nil {
			t.Fatalf("%s: %v", f, err)
		}
		c.Situation = strings.TrimSuffix(filepath.Base(f), ".json")
		c.restore()
		all = append(all, c)
	}
	return all
}

var leftOut = regexp.MustCompile(`\.\.\.<(\d+) characters left out>\.\.\.`)

// restore fills in what was left out of long bodies.
func (c *capture) restore() {
	blob := 0
	for _, e := range c.Exchanges {
		if e.Request != nil && e.isCall() && leftOut.MatchString(e.Request.Body) {
			e.Request.Body = c.long(e.Request, &blob)
		}
		if e.Response != nil {
			e.Response.Body = filled(e.Response.Body)
		}
		e.Answer.Body = filled(e.Answer.Body)
	}
	if strings.HasPrefix(c.Situation, "039_answer_3mb") {
		text, pad := strings.Repeat("x", 16383), strings.Repeat("y", 3_000_000)
		for _, e := range c.Exchanges {
			if e.isCallback() && strings.Contains(e.Answer.Body, "yyy") {
				e.Answer.Body = fmt.Sprintf(`{"ephemeral_text": %q, "pad": %q}`, text, pad)
			}
		}
	}
}

// filled repeats the character on both sides of a gap.
func filled(body string) string {
	m := leftOut.FindStringSubmatchIndex(body)
	if m == nil {
		return body
	}
	n, _ := strconv.Atoi(body[m[2]:m[3]])
	before, after := []rune(body[:m[0]]), body[m[1]:]
	last := string(before[len(before)-1])
	if !strings.HasPrefix(after, last) {
		return body
	}
	return body[:m[0]] + strings.Repeat(last, n) + after
}

// long makes a request anew that is too long for a capture and more than one
// character over and over.
func (c *capture) long(r *sentRequest, blob *int) string {
	body := filled(r.Body)
	if !leftOut.MatchString(body) {
		return body
	}
	pad := func(head, tail, with string) string {
		return head + strings.Repeat(with, max(0, r.Length-len(head)-len(tail))) + tail
	}
	channel := regexp.MustCompile(`"channel_id": "(\w+)"`).FindStringSubmatch(body)
	switch {
	case strings.HasPrefix(c.Situation, "045"):
		return c.manyButtons(channel[1])
	case strings.HasPrefix(c.Situation, "049"):
		*blob++
		head, _, _ := strings.Cut(body, `"integrati`)
		return pad(head+`"integration": {"url": "http://127.0.0.1:9999/action", "context": {"blob": "`, `"}}}]}]}}`, "b")
	case strings.HasPrefix(c.Situation, "174"):
		head, _, _ := strings.Cut(body, `"dialog": `)
		return pad(head+`"dialog": {"callback_id": "c", "title": "t", "state": "`, `"}}`, "s")
	}
	return body
}

// manyButtons are 12 times 8 buttons with the context of the one that was pressed.
func (c *capture) manyButtons(channel string) string {
	var pressed object
	for _, e := range c.Exchanges {
		if e.isCallback() {
			objects(e.Request.Body, func(o map[string]any) {
				if context, is := o["context"].(map[string]any); is {
					pressed = context
				}
			})
		}
	}
	var all []object
	for a := range 12 {
		var actions []object
		for b := range 8 {
			id := fmt.Sprintf("a%db%d", a, b)
			context := maps.Clone(pressed)
			context["decision"] = id
			actions = append(actions, object{
				"id": id, "type": "button", "name": fmt.Sprintf("B%d", b),
				"integration": object{"url": "http://127.0.0.1:9999/action", "context": context},
			})
		}
		all = append(all, object{"text": fmt.Sprintf("r%d", a), "actions": actions})
	}
	raw, _ := json.Marshal(object{"channel_id": channel, "message": "", "props": object{"attachments": all}})
	return string(raw)
}

// objects calls f for every object in some JSON.
func objects(body string, f func(map[string]any)) {
	var v any
	if json.Unmarshal([]byte(body), &v) == nil {
		walk(v, f)
	}
}

func walk(v any, f func(map[string]any)) {
	switch v := v.(type) {
	case map[string]any:
		f(v)
		for _, inner := range v {
			walk(inner, f)
		}
	case []any:
		for _, inner := range v {
			walk(inner, f)
		}
	}
}

// text returns a text in an object.
func text(o map[string]any, key string) string { s, _ := o[key].(string); return s }

var anID = regexp.MustCompile(`^[a-z0-9]{26}$`)

// prefixed returns the one of many whose prefix name has.
func prefixed[V any](name string, m map[string]V) (V, bool) {
	for _, p := range sortedNames(m) {
		if strings.HasPrefix(name, p) {
			return m[p], true
		}
	}
	var none V
	return none, false
}

func sortedNames[V any](m map[string]V) []string {
	var all []string
	for k := range m {
		all = append(all, k)
	}
	slices.Sort(all)
	return all
}
