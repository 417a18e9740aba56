package mattermosttest_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/approvalbot/approvalbot/channels/mattermost/mattermosttest"
)

func TestPostsAreRefusedWhereMattermostRefusesThem(t *testing.T) {
	t.Parallel()
	const archived, moderated = "c1archived0000000000000000", "c1moderated000000000000000"
	w := newWorld(t, mattermosttest.Config{DMsWithinTeam: true})
	w.AddChannel(mattermosttest.Channel{ID: archived, Name: "old", Archived: true, Members: []string{mattermosttest.BotUser}})
	w.AddChannel(mattermosttest.Channel{ID: moderated, Name: "news", Moderated: true, Members: []string{mattermosttest.BotUser}})
	dm := mattermosttest.NewID()
	w.AddChannel(mattermosttest.Channel{ID: dm, Type: "D", Members: []string{eve, mattermosttest.BotUser}})
	big := object{"attachments": []object{{"text": strings.Repeat("x", 299_000)}}}
	for name, row := range map[string]struct {
		body   any
		status int
		id     string
	}{
		"into a channel of which it is a member":      {object{"channel_id": ops, "message": "x"}, 201, ""},
		"into a public one that it has not joined":    {object{"channel_id": open, "message": "x"}, 403, "api.context.permissions.app_error"},
		"into a private one without it":               {object{"channel_id": hidden, "message": "x"}, 403, "api.context.permissions.app_error"},
		"into one that is not there":                  {object{"channel_id": mattermosttest.NewID(), "message": "x"}, 403, "api.context.permissions.app_error"},
		"into an archived one":                        {object{"channel_id": archived, "message": "x"}, 400, "api.post.create_post.can_not_post_to_deleted.error"},
		"into one where only admins write":            {object{"channel_id": moderated, "message": "x"}, 403, "api.context.permissions.app_error"},
		"to somebody of no common team":               {object{"channel_id": dm, "message": "x"}, 400, "api.post.create_post.can_not_post_in_restricted_dm.error"},
		"with a thread that is not there":             {object{"channel_id": ops, "message": "x", "root_id": mattermosttest.NewID()}, 400, "api.post.create_post.root_id.app_error"},
		"with a message as long as it can be":         {object{"channel_id": ops, "message": strings.Repeat("ü", 16383)}, 201, ""},
		"with one more character":                     {object{"channel_id": ops, "message": strings.Repeat("ü", 16384)}, 400, "model.post.is_valid.message_length.app_error"},
		"with a large attachment":                     {object{"channel_id": ops, "props": big}, 201, ""},
		"with a body that is too large":               {object{"channel_id": ops, "message": strings.Repeat("x", 300_000)}, 413, "api.context.request_body_too_large.app_error"},
		"with no JSON":                                {"{", 400, "api.context.invalid_body_param.app_error"},
		"with attachments that nobody can understand": {object{"channel_id": ops, "props": object{"attachments": "x"}}, 201, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := w.asBot(t, http.MethodPost, "/posts", row.body)
			if r.status != row.status || row.id != "" && r.id() != row.id {
				t.Errorf("%d %.300s", r.status, r.raw)
			}
		})
	}
}

func TestIntegrationsAreKeptAndNotShown(t *testing.T) {
	t.Parallel()
	w := newWorld(t, mattermosttest.Config{})
	post := w.post(t, ops)
	for _, r := range []result{
		w.asBot(t, http.MethodGet, "/posts/"+post, nil), w.asBot(t, http.MethodGet, "/channels/"+ops+"/posts", nil),
		w.asBot(t, http.MethodGet, "/posts/"+post+"/thread", nil), w.asBot(t, http.MethodPut, "/posts/"+post+"/patch", object{"message": "m"}),
	} {
		if r.status != 200 || strings.Contains(r.raw, "integration") || !strings.Contains(r.raw, `"id":"approve"`) {
			t.Errorf("%d %s", r.status, r.raw)
		}
	}
	if p, _ := w.Post(post); p.URLOf("approve") != w.bot.url {
		t.Errorf("%+v", p)
	}
	// Whoever writes back what they read makes dead buttons.
	read := w.asBot(t, http.MethodGet, "/posts/"+post, nil)
	w.asBot(t, http.MethodPut, "/posts/"+post+"/patch", object{"props": read.body["props"]})
	if o := w.press(t, ada, post, "approve"); o.Error != "api.post.do_action.action_id.app_error" {
		t.Errorf("%+v", o)
	}
}

func TestTheSamePendingIDMakesOnePostForHalfAMinute(t *testing.T) {
	t.Parallel()
	w := newWorld(t, mattermosttest.Config{})
	create := func() result {
		return w.asBot(t, http.MethodPost, "/posts", object{"channel_id": ops, "message": "x", "pending_post_id": "p1"})
	}
	first := create()
	w.clock.Advance(29 * time.Second)
	if again := create(); again.status != 201 || again.id() != first.id() {
		t.Errorf("%d %s", again.status, again.raw)
	}
	w.clock.Advance(2 * time.Second)
	if late := create(); late.status != 201 || late.id() == first.id() {
		t.Errorf("%d %s", late.status, late.raw)
	}
	if n := len(w.Posts(ops)); n != 2 {
		t.Errorf("there are %d posts", n)
	}
	if p, _ := w.Post(first.id()); p.Pending != "p1" {
		t.Errorf("%+v", p)
	}
}

func TestPatchAndPutChangeWhatTheySay(t *testing.T) {
	t.Parallel()
	w := newWorld(t, mattermosttest.Config{})
	for name, row := range map[string]struct {
		path    string
		body    object
		message string
		buttons int
	}{
		"a patch of the text leaves the buttons":   {"/patch", object{"message": "m", "props": nil}, "m", 3},
		"a patch of props leaves the text":         {"/patch", object{"props": object{}, "message": nil}, "Please decide", 0},
		"a patch of nothing leaves all":            {"/patch", object{}, "Please decide", 3},
		"a put without props takes the buttons":    {"", object{"message": "m"}, "m", 0},
		"a put without text takes that":            {"", object{"props": w.card()}, "", 3},
		"a patch with new buttons puts them there": {"/patch", object{"props": w.card()}, "Please decide", 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			post := w.post(t, ops)
			if row.path == "" {
				row.body["id"] = post
			}
			if r := w.asBot(t, http.MethodPut, "/posts/"+post+row.path, row.body); r.status != 200 {
				t.Fatalf("%d %s", r.status, r.raw)
			}
			if p, _ := w.Post(post); p.Message != row.message || len(p.Buttons()) != row.buttons {
				t.Errorf("%+v", p)
			}
		})
	}
}

func TestAnEditLimitEndsEditsAndNotAnswers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, mattermosttest.Config{EditLimit: time.Hour})
	post := w.post(t, ops)
	patch := func() result { return w.asBot(t, http.MethodPut, "/posts/"+post+"/patch", object{"message": "m"}) }
	w.clock.Advance(time.Hour)
	if r := patch(); r.status != 200 {
		t.Errorf("in time: %d %s", r.status, r.raw)
	}
	w.clock.Advance(time.Second)
	if r := patch(); r.status != 400 || r.id() != "api.post.update_post.permissions_time_limit.app_error" {
		t.Errorf("too late: %d %s", r.status, r.raw)
	}
	w.bot.next(says(`{"update":{"message":"by answer"}}`))
	if o := w.press(t, ada, post, "approve"); !o.Updated {
		t.Errorf("%+v", o)
	}
}

func TestListsOfPosts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, mattermosttest.Config{})
	var ids []any
	for range 5 {
		ids = append(ids, w.Say(ada, ops, "", "x"))
		w.clock.Advance(time.Second)
	}
	since := w.clock.Now().Add(-2500 * time.Millisecond).UnixMilli()
	reply := w.Say(bob, ops, ids[0].(string), "reply")
	w.Remove(ids[1].(string))
	for name, row := range map[string]struct {
		path string
		want []any
	}{
		"a page":                               {"/channels/" + ops + "/posts?per_page=2", []any{reply, ids[4]}},
		"the next page":                        {"/channels/" + ops + "/posts?per_page=2&page=1", []any{ids[3], ids[2]}},
		"those before":                         {"/channels/" + ops + "/posts?before=" + ids[3].(string), []any{ids[2], ids[0]}},
		"those after":                          {"/channels/" + ops + "/posts?per_page=1&after=" + ids[3].(string), []any{ids[4]}},
		"what changed, and was deleted, since": {"/channels/" + ops + "/posts?since=" + itoa(since), []any{reply, ids[4], ids[3], ids[1]}},
		"a thread":                             {"/posts/" + reply + "/thread", []any{ids[0], reply}},
	} {
		r := w.asBot(t, http.MethodGet, row.path, nil)
		if d := cmp.Diff(row.want, r.body["order"]); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}
