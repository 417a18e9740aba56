package mattermosttest_test

import (
	"encoding/base64"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var triggerField = regexp.MustCompile(`"trigger_id": "([^"]*)"`)

// triggers puts trigger ids of the double in the place of captured ones that no
// callback has brought, with the same mistakes in them.
func (r *replay) triggers(body string) string {
	return triggerField.ReplaceAllStringFunc(body, func(field string) string {
		old := triggerField.FindStringSubmatch(field)[1]
		mine, genuine := parts(old), r.genuine(old)
		if len(mine) != 4 || genuine == nil {
			return field
		}
		made, is := r.s.TriggerAt(genuine[1], r.began), r.cmp.names["trigger "+genuine[0]]
		if is == "" {
			is = made
			r.cmp.names["trigger "+genuine[0]] = made
		}
		now := slices.Clone(parts(is))
		for i := range now {
			switch {
			case mine[i] == genuine[i]:
			case i == 2: // another time is as far off as it was
				now[i] = later(now[i], genuine[i], mine[i])
			default:
				now[i] = mine[i]
			}
		}
		return `"trigger_id": "` + base64.StdEncoding.EncodeToString([]byte(strings.Join(now, ":"))) + `"`
	})
}

func later(now, from, to string) string {
	var n [3]int64
	for i, s := range []string{now, from, to} {
		n[i], _ = strconv.ParseInt(s, 10, 64)
	}
	return strconv.FormatInt(n[0]+n[2]-n[1], 10)
}

func parts(trigger string) []string {
	raw, err := base64.StdEncoding.DecodeString(trigger)
	if err != nil {
		return nil
	}
	return strings.Split(string(raw), ":")
}

// genuine returns the parts that a trigger has most often in a situation, which
// are those that nobody has changed; nil if it came with a callback.
func (r *replay) genuine(old string) []string {
	counts := map[string]int{}
	for _, e := range r.c.Exchanges {
		if e.Request == nil {
			continue
		}
		for _, m := range triggerField.FindAllStringSubmatch(e.Request.Body, -1) {
			counts[m[1]]++
		}
	}
	mine := parts(old)
	if len(mine) != 4 || counts[old] == 0 {
		return nil
	}
	best := make([]string, 4)
	for i := range best {
		values := map[string]int{}
		for t, n := range counts {
			if p := parts(t); len(p) == 4 && p[0] == mine[0] {
				if values[p[i]] += n; values[p[i]] > values[best[i]] {
					best[i] = p[i]
				}
			}
		}
	}
	return best
}
