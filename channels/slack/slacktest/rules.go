package slacktest

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// rule is one thing that must be so in an object at a place.
type rule func(c *checker, at string, o object)

// checker collects what is wrong, each with a JSON pointer.
type checker struct{ problems []string }

func (c *checker) fail(at, format string, with ...any) {
	c.problems = append(c.problems, fmt.Sprintf(format, with...)+" [json-pointer:"+at+"]")
}

func (c *checker) all(at string, o object, rules []rule) {
	for _, r := range rules {
		r(c, at, o)
	}
}

// unique checks that an id, if there is one, is nobody else's.
func (c *checker) unique(at string, o object, key string, ids map[string]bool) {
	id := str(o, key)
	if id != "" && ids[id] {
		c.fail(at+"/"+key, "`%s` `%s` already exists", key, id)
	}
	ids[id] = true
}

func str(o object, key string) string {
	s, _ := o[key].(string)
	return s
}

// maybe applies a rule if the key is there.
func maybe(key string, r rule) rule {
	return func(c *checker, at string, o object) {
		if o[key] != nil {
			r(c, at, o)
		}
	}
}

// chars wants a string of that many characters, and none is fine if least is 0.
func chars(key string, least, most int) rule {
	return func(c *checker, at string, o object) {
		s, ok := o[key].(string)
		n := utf8.RuneCountInString(s)
		switch {
		case o[key] == nil && least == 0:
		case o[key] == nil:
			c.fail(at, "missing required field: %s", key)
		case !ok:
			c.fail(at+"/"+key, "must be a string")
		case n < least:
			c.fail(at+"/"+key, "must be more than %d characters", least-1)
		case n > most:
			c.fail(at+"/"+key, "must be less than %d characters", most+1)
		}
	}
}

func number(key string, least, most float64) rule {
	return maybe(key, func(c *checker, at string, o object) {
		if n, ok := o[key].(float64); !ok || n < least || n > most {
			c.fail(at+"/"+key, "must be from %.0f to %.0f", least, most)
		}
	})
}

func oneOf(key string, values ...string) rule {
	return func(c *checker, at string, o object) {
		if !slices.Contains(values, str(o, key)) {
			c.fail(at+"/"+key, "must be one of: %s", strings.Join(values, ", "))
		}
	}
}

// nested wants an object for which the rules hold.
func nested(key string, rules ...rule) rule {
	return func(c *checker, at string, o object) {
		if o[key] == nil {
			c.fail(at, "missing required field: %s", key)
			return
		}
		having(rules...)(c, at+"/"+key, o[key])
	}
}

// item is one thing that must be so for a part of a list.
type item func(c *checker, at string, v any)

// having is an item that is an object for which the rules hold.
func having(rules ...rule) item {
	return func(c *checker, at string, v any) {
		o, _ := v.(object) // what is none misses all that it needs
		c.all(at, o, rules)
	}
}

// list wants a list with something in it.
func list(key string, most int, each item) rule {
	return func(c *checker, at string, o object) {
		items, ok := o[key].([]any)
		switch {
		case !ok:
			c.fail(at, "missing required field: %s", key)
		case len(items) == 0:
			c.fail(at+"/"+key, "no fewer than 1 items allowed")
		case len(items) > most:
			c.fail(at+"/"+key, "no more than %d items allowed", most)
		}
		for i, v := range items {
			each(c, fmt.Sprintf("%s/%s/%d", at, key, i), v)
		}
	}
}

// text wants a text object of one of the kinds.
func text(key string, most int, kinds ...string) rule {
	return nested(key, oneOf("type", kinds...), chars("text", 1, most), onlyIn("emoji", plain), onlyIn("verbatim", rich))
}

func textItem(most int) item {
	return having(oneOf("type", plain, rich), chars("text", 1, most), onlyIn("emoji", plain), onlyIn("verbatim", rich))
}

func onlyIn(key, kind string) rule {
	return maybe(key, func(c *checker, at string, o object) {
		if o["type"] != kind {
			c.fail(at, "invalid additional property: %s", key)
		}
	})
}
