package mattermosttest_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/approvalbot/approvalbot/channels/mattermost/mattermosttest"
)

var (
	postInPath = regexp.MustCompile(`/posts/(\w{26})`)
	listOf     = regexp.MustCompile(`/channels/\w{26}/posts\?|/posts/ids$`)
)

// seeds returns the posts that a situation takes for granted: those that are named
// and not created in it.
func (k *cast) seeds(c *capture) []*mattermosttest.Seed {
	made, found := map[string]bool{}, map[string]*mattermosttest.Seed{}
	var order []*mattermosttest.Seed
	want := func(id string) {
		if !anID.MatchString(id) || made[id] || found[id] != nil || strings.HasPrefix(id, "zzz") || k.known(id) {
			return
		}
		found[id] = &mattermosttest.Seed{ID: id, User: k.id(theBot), Message: "Please decide"}
		order = append(order, found[id])
	}
	for _, e := range c.Exchanges {
		if !e.isCall() {
			continue
		}
		if m := postInPath.FindStringSubmatch(e.Request.Path); m != nil {
			want(m[1])
		}
		objects(e.Request.Body, func(o map[string]any) { want(text(o, "root_id")); want(text(o, "post_id")) })
		objects(e.Response.Body, func(o map[string]any) {
			switch id := text(o, "id"); {
			case o["edit_at"] == nil:
				want(text(o, "prev_post_id")) // the last of a list has an older one
			case e.Response.Status == 201:
				made[id] = true
			case listOf.MatchString(e.Request.Path):
				want(id)
			}
		})
	}
	for _, seed := range order {
		k.fill(c, seed)
	}
	slices.SortStableFunc(order, func(a, b *mattermosttest.Seed) int { return int(a.CreatedAt - b.CreatedAt) })
	return order
}

func (k *cast) known(id string) bool {
	_, channel := k.channels[id]
	return channel || id == k.team || slices.ContainsFunc(sortedNames(k.users), func(n string) bool { return k.id(n) == id })
}

// fill completes a seed by what the situation shows of it.
func (k *cast) fill(c *capture, seed *mattermosttest.Seed) {
	seed.Props = clone(k.card)
	seed.Props["from_bot"] = "true"
	var refused []string
	touched := false // whatever is shown later is not how it was
	for _, e := range c.Exchanges {
		if e.isCallback() {
			objects(e.Request.Body, func(o map[string]any) {
				if text(o, "post_id") == seed.ID {
					seed.Channel = text(o, "channel_id")
					addAction(seed.Props, o, "http://127.0.0.1:9999"+e.Request.Path)
				}
			})
		}
		if !e.isCall() {
			continue
		}
		first := !touched
		touched = touched || strings.Contains(e.Request.Path, seed.ID) && e.Request.Method != http.MethodGet
		objects(e.Response.Body, func(o map[string]any) {
			if text(o, "id") == seed.ID && o["edit_at"] != nil {
				k.shown(seed, o, touched)
			}
			if text(o, "prev_post_id") == seed.ID {
				seed.CreatedAt, seed.UpdatedAt, seed.Channel = 1, 1, e.Request.Path[len("/api/v4/channels/"):][:26]
			}
		})
		switch pressed := strings.Contains(e.Request.Path, seed.ID+"/actions/"); {
		case e.Response.Status == 403 && pressed:
			refused = append(refused, k.id(e.By))
		case e.Response.Status == 403 && e.By == "bot" && first && strings.Contains(e.Request.Path, seed.ID):
			seed.User = k.id("alice") // it is not the bot's own
		case pressed:
			k.broken(seed, e)
		}
	}
	if seed.Channel == "" && len(refused) > 0 && seed.User == k.id(theBot) {
		seed.Channel = k.without(refused)
	}
	if seed.Channel == "" {
		seed.Channel = k.channelCalled("deploys")
	}
}

// shown takes over how a post looks in an answer.
func (k *cast) shown(seed *mattermosttest.Seed, o map[string]any, touched bool) {
	seed.Channel, seed.User = text(o, "channel_id"), text(o, "user_id")
	seed.Pinned, _ = o["is_pinned"].(bool)
	props, _ := o["props"].(map[string]any)
	edited := o["edit_at"] != float64(0)
	if m, isMap := o["metadata"].(map[string]any); isMap && len(seed.Reactions) == 0 {
		list, _ := m["reactions"].([]any)
		for _, r := range list {
			seed.Reactions = append(seed.Reactions, r.(map[string]any))
		}
	}
	switch {
	case !touched && edited, props["attachments"] == nil && !edited:
		seed.Message, seed.Props, seed.Edited = text(o, "message"), props, edited
	case !edited:
		seed.Message = text(o, "message")
	}
	if a, b := firstOf(props), firstOf(seed.Props); a["actions"] != nil && b["actions"] != nil {
		b["fields"] = a["fields"]
	}
	if !touched {
		seed.CreatedAt, seed.UpdatedAt = int64(o["create_at"].(float64)), int64(o["update_at"].(float64))
	}
}

// firstOf returns the first attachment.
func firstOf(props map[string]any) map[string]any {
	all, _ := props["attachments"].([]any)
	if len(all) == 0 {
		return nil
	}
	a, _ := all[0].(map[string]any)
	return a
}

var calledURL = regexp.MustCompile(`"detailed_error":"Post \\"([^"\\]+)\\"`)

// broken gives a button the URL that could not be reached.
func (k *cast) broken(seed *mattermosttest.Seed, e *exchange) {
	if m := calledURL.FindStringSubmatch(e.Response.Body); m != nil {
		action := e.Request.Path[strings.LastIndex(e.Request.Path, "/")+1:]
		addAction(seed.Props, map[string]any{"type": "button", "context": map[string]any{"decision": action}}, m[1])
	}
}

// without makes a public channel that these are not in.
func (k *cast) without(refused []string) string {
	id := mattermosttest.NewID()
	k.channels[id] = mattermosttest.Channel{ID: id, Name: "c" + id[:8], Type: "O"}
	if !slices.Contains(refused, k.id("carol")) {
		k.channels[id] = mattermosttest.Channel{ID: id, Name: "deploys2", Type: "O"}
	}
	return id
}

// addAction makes the card able to send a callback: an action for what it decides.
func addAction(props, callback map[string]any, target string) {
	context, _ := callback["context"].(map[string]any)
	id := text(context, "decision")
	if id == "" || len(id) > 30 {
		return
	}
	card := props["attachments"].([]any)[0].(map[string]any)
	actions := card["actions"].([]any)
	for _, a := range actions {
		if text(a.(map[string]any), "id") == id {
			a.(map[string]any)["integration"].(map[string]any)["url"] = target
			return
		}
	}
	card["actions"] = append(actions, map[string]any{
		"id": id, "type": text(callback, "type"), "name": id, "integration": map[string]any{"url": target, "context": maps.Clone(context)},
	})
}

func clone(o map[string]any) (c map[string]any) {
	raw, _ := json.Marshal(o)
	_ = json.Unmarshal(raw, &c)
	return c
}
