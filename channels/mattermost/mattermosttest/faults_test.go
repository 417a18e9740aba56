package mattermosttest_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/approvalbot/approvalbot/channels/mattermost/mattermosttest"
)

func TestFaultsHappenWhenTheyAreScripted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, mattermosttest.Config{})
	w.Fail("me", 2, mattermosttest.Refused(403, "api.context.permissions.app_error"))
	w.FailNext("user", mattermosttest.HTMLPage(502), mattermosttest.Garbled("<"), mattermosttest.TooMany(1500*time.Millisecond), mattermosttest.TooManyBare, mattermosttest.Pending)
	var got []string
	for _, path := range []string{"/users/me", "/users/me", "/users/me", "/users/" + ada, "/users/" + ada, "/users/" + ada, "/users/" + ada, "/users/" + ada, "/users/" + ada} {
		r := w.asBot(t, http.MethodGet, path, nil)
		what := r.id()
		if r.body == nil {
			what = strings.TrimSpace(r.raw)
		}
		got = append(got, strings.TrimSpace(itoa(int64(r.status))+" "+what+" "+r.header.Get("Retry-After")))
	}
	if d := cmp.Diff([]string{
		"200 " + mattermosttest.BotUser, "403 api.context.permissions.app_error", "200 " + mattermosttest.BotUser,
		"502 <!doctype html><title>Bad Gateway</title>", "200 <", "429 limit exceeded 2", "429 limit exceeded",
		"500 api.post.deduplicate_create_post.pending", "200 " + ada,
	}, got); d != "" {
		t.Error(d)
	}
	calls := w.Calls("me")
	if len(calls) != 3 || calls[0].Method != http.MethodGet || calls[0].Path != "/api/v4/users/me" || !calls[0].At.Equal(w.clock.Now()) {
		t.Errorf("%+v", calls)
	}
}

func TestConnectionsBreakBeforeOrAfterTheDeed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, mattermosttest.Config{})
	for fault, want := range map[string]int{"reset": 0, "lost": 1} {
		f := mattermosttest.Reset
		if fault == "lost" {
			f = mattermosttest.LostAnswer
		}
		w.FailNext("create_post", f)
		before := len(w.Posts(ops))
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.URL()+"/api/v4/posts", strings.NewReader(`{"channel_id":"`+ops+`"}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+mattermosttest.BotToken)
		if resp, err := http.DefaultClient.Do(req); err == nil {
			t.Errorf("%s: an answer: %s", fault, resp.Status)
			_ = resp.Body.Close()
		}
		if n := len(w.Posts(ops)) - before; n != want {
			t.Errorf("%s: %d posts were made", fault, n)
		}
	}
}

func TestHeldAnswersComeLateAndStalledDeedsToo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, mattermosttest.Config{})
	until := make(chan struct{})
	w.FailNext("create_post", mattermosttest.Held(until), mattermosttest.Stalled(until))
	var calls sync.WaitGroup
	create := func(pending string) {
		if r := w.asBot(t, http.MethodPost, "/posts", object{"channel_id": ops, "pending_post_id": pending}); r.status != 201 {
			t.Errorf("%d %s", r.status, r.raw)
		}
	}
	calls.Go(func() { create("held") })
	for len(w.Posts(ops)) == 0 {
		pause(t)
	}
	calls.Go(func() { create("stalled") })
	for w.InFlight() == 0 {
		pause(t)
	}
	r := w.asBot(t, http.MethodPost, "/posts", object{"channel_id": ops, "pending_post_id": "stalled"})
	if r.status != 500 || r.id() != "api.post.deduplicate_create_post.pending" || len(w.Posts(ops)) != 1 {
		t.Errorf("while it is in flight: %d %s", r.status, r.raw)
	}
	close(until)
	calls.Wait()
	if n := len(w.Posts(ops)); n != 2 {
		t.Errorf("%d posts", n)
	}
}

// pause lets others go on.
func pause(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	<-ctx.Done()
}

func TestTooManyRequestsAreRefusedInPlainText(t *testing.T) {
	t.Parallel()
	w := newWorld(t, mattermosttest.Config{RateLimit: 10})
	me := func() result { return w.asBot(t, http.MethodGet, "/users/me", nil) }
	first := me()
	for range 99 {
		me()
	}
	last, over := me(), me()
	limits := func(r result) []string {
		return []string{r.header.Get("X-Ratelimit-Limit"), r.header.Get("X-Ratelimit-Remaining"), r.header.Get("X-Ratelimit-Reset"), r.header.Get("Retry-After")}
	}
	if d := cmp.Diff([][]string{{"101", "100", "1", ""}, {"101", "0", "11", ""}, {"101", "0", "11", "1"}}, [][]string{limits(first), limits(last), limits(over)}); d != "" {
		t.Error(d)
	}
	if over.status != 429 || over.raw != "limit exceeded\n" || !strings.HasPrefix(over.header.Get("Content-Type"), "text/plain") {
		t.Errorf("%d %q %v", over.status, over.raw, over.header)
	}
	w.clock.Advance(100 * time.Millisecond)
	if r := me(); r.status != 200 {
		t.Errorf("a moment later: %d", r.status)
	}
	if o := w.press(t, ada, mattermosttest.NewID(), "x"); o.Status != 403 { // people have addresses of their own
		t.Errorf("%+v", o)
	}
}

func TestPathsThatLeadNowhere(t *testing.T) {
	t.Parallel()
	w := newWorld(t, mattermosttest.Config{})
	for path, want := range map[string]int{"/nosuch": 404, "/posts/": 404, "/users/short": 400, "/users/me?x=" + strings.Repeat("x", 2048): 414} {
		if r := w.asBot(t, http.MethodGet, path, nil); r.status != want {
			t.Errorf("%.20s: %d %s", path, r.status, r.raw)
		}
	}
	if r := w.asBot(t, http.MethodDelete, "/posts", nil); r.id() != "api.context.404.app_error" {
		t.Errorf("%d %s", r.status, r.raw)
	}
}

func TestReactionsAreOnesOwn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, mattermosttest.Config{})
	post := w.post(t, ops)
	react := func(user, emoji string) int {
		return w.asBot(t, http.MethodPost, "/reactions", object{"user_id": user, "post_id": post, "emoji_name": emoji}).status
	}
	if d := cmp.Diff([]int{200, 200, 403, 404}, []int{react(mattermosttest.BotUser, "x"), react(mattermosttest.BotUser, "x"), react(ada, "x"), react(mattermosttest.BotUser, "nosuch")}); d != "" {
		t.Error(d)
	}
	all := func() int { return len(w.asBot(t, http.MethodGet, "/posts/"+post+"/reactions", nil).list) }
	if n := all(); n != 1 {
		t.Errorf("%d reactions", n)
	}
	if r := w.asBot(t, http.MethodDelete, "/users/me/posts/"+post+"/reactions/x", nil); r.status != 200 || all() != 0 {
		t.Errorf("%d %s", r.status, r.raw)
	}
}
