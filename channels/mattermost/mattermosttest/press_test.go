package mattermosttest_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/approvalbot/approvalbot/channels/mattermost/mattermosttest"
)

func TestAPressCallsTheIntegrationAndDoesWhatItAnswers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, mattermosttest.Config{})
	post := w.post(t, ops)
	w.bot.next(says(`{"update":{"message":"Approved","props":{"attachments":[{"text":"by @ada"}]}},"ephemeral_text":"Thank you <https://a.test|here>"}`))
	o := w.press(t, ada, post, "approve")
	want := mattermosttest.Outcome{
		Status: 200, AnswerStatus: 200, Updated: true, Ephemerals: []string{"Thank you [here](https://a.test)"},
		Trigger: o.Trigger, Body: o.Body, Answer: o.Answer,
	}
	if d := cmp.Diff(want, o); d != "" {
		t.Error(d)
	}
	var sent map[string]any
	if err := json.Unmarshal(o.Body, &sent); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(object{
		"user_id": ada, "user_name": "ada", "channel_id": ops, "channel_name": "ops", "team_id": mattermosttest.Team,
		"team_domain": mattermosttest.TeamName, "post_id": post, "trigger_id": o.Trigger, "type": "button",
		"data_source": "", "context": object{"d": "approve", "mac": "m"},
	}, sent); d != "" {
		t.Error(d)
	}
	if p, _ := w.Post(post); p.Message != "Approved" || !p.Edited {
		t.Errorf("the post is now %+v", p)
	}
	if late := w.press(t, bob, post, "approve"); late.Status != 404 || late.Error != "api.post.do_action.action_id.app_error" || late.Body != nil {
		t.Errorf("a press of a button that is gone: %+v", late)
	}
}

func TestADialogGoesFromATriggerToASubmission(t *testing.T) {
	t.Parallel()
	w := newWorld(t, mattermosttest.Config{})
	o := w.press(t, ada, w.post(t, ops), "deny")
	form := object{
		"callback_id": "deny", "title": "Deny request", "submit_label": "Deny", "state": "s1", "notify_on_cancel": true,
		"elements": []object{{"display_name": "Reason", "name": "reason", "type": "textarea", "max_length": 500}},
	}
	if r := w.call(t, "", "POST", "/actions/dialogs/open", object{"trigger_id": o.Trigger, "url": w.bot.url, "dialog": form}); r.status != 200 {
		t.Fatalf("open: %d %s", r.status, r.raw)
	}
	if n := len(w.Dialogs(bob)); n != 0 {
		t.Errorf("bob has %d dialogs", n)
	}
	d := w.Dialogs(ada)[0]
	if want := "# Deny request\nReason *: ____\n[Deny] [Cancel]"; d.Read() != want {
		t.Errorf("ada reads %q", d.Read())
	}
	w.bot.next(says(`{"errors":{"reason":"Give one"}}`))
	in := mattermosttest.Submission{User: ada, Dialog: d, Values: object{"reason": "no"}, Channel: ops}
	a, err := w.Submit(t.Context(), in)
	if err != nil || a.Closed || a.Errors["reason"] != "Give one" || a.Status != 200 {
		t.Fatalf("%+v, %v", a, err)
	}
	if a, err = w.Submit(t.Context(), in); err != nil || !a.Closed || len(w.Dialogs(ada)) != 0 {
		t.Errorf("%+v, %v; %d dialogs are open", a, err, len(w.Dialogs(ada)))
	}
	const want = `{"type":"dialog_submission","callback_id":"deny","state":"s1","user_id":"` + ada + `","channel_id":"` + ops +
		`","team_id":"` + mattermosttest.Team + `","submission":{"reason":"no"},"cancelled":false}`
	if d := cmp.Diff(want, string(a.Body)); d != "" {
		t.Error(d)
	}
}

func TestWhoMayPress(t *testing.T) {
	t.Parallel()
	w := newWorld(t, mattermosttest.Config{})
	inOps, inSecret := w.post(t, ops), w.post(t, secret)
	deleted := w.post(t, ops)
	w.Remove(deleted)
	for name, row := range map[string]struct {
		user, post, action, id string
		status                 int
	}{
		"a member":                              {ada, inOps, "approve", "", 200},
		"a guest who is a member":               {guest, inOps, "approve", "", 200},
		"somebody who is not in the channel":    {bob, inSecret, "approve", "api.context.permissions.app_error", 403},
		"somebody of no team":                   {eve, inOps, "approve", "api.context.permissions.app_error", 403},
		"somebody deactivated":                  {gone, inOps, "approve", "api.context.session_expired.app_error", 401},
		"an admin, anywhere":                    {mattermosttest.Admin, inSecret, "approve", "", 200},
		"the bot itself":                        {mattermosttest.BotUser, inSecret, "approve", "", 200},
		"of an action that is not there":        {ada, inOps, "Approve", "api.post.do_action.action_id.app_error", 404},
		"of a post that was deleted":            {ada, deleted, "approve", "app.post.get.app_error", 404},
		"of a post that never was":              {ada, mattermosttest.NewID(), "approve", "api.context.permissions.app_error", 403},
		"of an id that has no path in this age": {ada, inOps, "approve-1", "api.context.404.app_error", 404},
	} {
		if o := w.press(t, row.user, row.post, row.action); o.Status != row.status || o.Error != row.id || (o.Body != nil) != (row.status == 200) {
			t.Errorf("%s: %+v", name, o)
		}
	}
}

func TestAnybodyMayPlantButtonsThatCallAnybody(t *testing.T) {
	t.Parallel()
	w := newWorld(t, mattermosttest.Config{})
	card := w.card()
	card["from_bot"] = "true"
	o := w.press(t, ada, w.Plant(bob, ops, card), "approve")
	if o.Status != 200 || !strings.Contains(string(o.Body), `"mac":"m"`) {
		t.Errorf("%+v", o)
	}
}

func TestOnly200CountsAndVersionsSayThatDifferently(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]map[int]int{
		"10.11.0": {200: 200, 201: 400, 204: 400, 403: 400, 429: 400, 500: 400, 503: 400},
		"11.2.0":  {200: 200, 201: 400, 204: 400, 403: 400, 429: 400, 500: 400, 503: 400},
		"11.10.0": {200: 200, 201: 400, 204: 400, 403: 400, 429: 429, 500: 502, 503: 503},
	} {
		w := newWorld(t, mattermosttest.Config{Version: version})
		post := w.post(t, ops)
		for status, seen := range want {
			w.bot.next(func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(status) })
			if o := w.press(t, ada, post, "approve"); o.Status != seen || o.AnswerStatus != status {
				t.Errorf("%s: %d gives %+v", version, status, o)
			}
		}
	}
}

func TestActionIDsWithDashesWorkSince1110(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]int{"10.5.0": 404, "11.2.0": 404, "11.10.0": 200} {
		w := newWorld(t, mattermosttest.Config{Version: version})
		post := w.Plant(ada, ops, object{"attachments": []object{{"actions": []object{{"id": "a_b-c", "integration": object{"url": w.bot.url}}}}}})
		if o := w.press(t, ada, post, "a_b-c"); o.Status != want {
			t.Errorf("%s: %+v", version, o)
		}
	}
}

func TestUpdatesReplaceTheTextAndKeepProps(t *testing.T) {
	t.Parallel()
	w := newWorld(t, mattermosttest.Config{MaxPostSize: 10})
	for name, row := range map[string]struct {
		answer, message string
		buttons, status int
	}{
		"no update":                 {`{}`, "m", 1, 200},
		"a text and no props":       {`{"update":{"message":"x"}}`, "x", 1, 200},
		"a text and null props":     {`{"update":{"message":"x","props":null}}`, "x", 1, 200},
		"props and no text":         {`{"update":{"props":{}}}`, "", 0, 200},
		"nothing in it":             {`{"update":{}}`, "", 1, 200},
		"attachments without props": {`{"update":{"message":"x","attachments":[]}}`, "x", 1, 200},
		"a text that is too long":   {`{"update":{"message":"12345678901"}}`, "m", 1, 400},
		"one that is no object":     {`{"update":"x"}`, "m", 1, 400},
		"no JSON":                   {`ok`, "m", 1, 400},
		"nothing at all":            {``, "m", 1, 200},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			card := object{"attachments": []object{{"actions": []object{{"id": "a", "integration": object{"url": w.bot.url + "/" + word(name)}}}}}}
			r := w.asBot(t, http.MethodPost, "/posts", object{"channel_id": ops, "message": "m", "props": card})
			w.bot.on("/hook/"+word(name), says(row.answer))
			o := w.press(t, ada, r.id(), "a")
			p, _ := w.Post(r.id())
			if o.Status != row.status || p.Message != row.message || len(p.Buttons()) != row.buttons {
				t.Errorf("%+v, and then %+v", o, p)
			}
		})
	}
}

func TestAnswersThatFailAfterTheIntegrationActed(t *testing.T) {
	t.Parallel()
	const update = `{"update":{"message":"done"},"ephemeral_text":"noted"}`
	for name, row := range map[string]struct {
		meanwhile func(w world, post string)
		status    int
		id        string
	}{
		"the post was deleted":     {func(w world, post string) { w.Remove(post) }, 404, "app.post.get.app_error"},
		"the channel was archived": {func(w world, _ string) { w.Archive(ops) }, 400, "api.post.update_post.can_not_update_post_in_deleted.error"},
		"the bot left":             {func(w world, _ string) { w.Leave(ops, mattermosttest.BotUser) }, 200, ""},
		"the bot was disabled":     {func(w world, _ string) { w.DisableBot() }, 200, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, mattermosttest.Config{})
			post := w.post(t, ops)
			w.bot.next(func(rw http.ResponseWriter, r *http.Request) { row.meanwhile(w, post); says(update)(rw, r) })
			o := w.press(t, ada, post, "approve")
			if o.Status != row.status || o.Error != row.id || o.AnswerStatus != 200 || o.Updated != (row.status == 200) {
				t.Errorf("%+v", o)
			}
		})
	}
}

func TestIntegrationsHaveThirtySeconds(t *testing.T) {
	t.Parallel()
	for configured, want := range map[time.Duration]time.Duration{0: 30 * time.Second, 3 * time.Second: 3 * time.Second, time.Minute: 30 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			bot := mattermosttest.NewPipes()
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				_, _ = io.ReadAll(r.Body)
				<-r.Context().Done()
			}))
			server.Listener = bot
			server.Start()
			defer server.Close()
			s := mattermosttest.New(t, mattermosttest.Config{Listener: mattermosttest.NewPipes(), Dial: bot.Dial, OutgoingTimeout: configured})
			s.AddUser(mattermosttest.User{ID: ada, Username: "ada"})
			s.AddChannel(mattermosttest.Channel{ID: ops, Name: "ops", Members: []string{ada}})
			post := s.Plant(ada, ops, object{"attachments": []object{{"actions": []object{{"id": "a", "integration": object{"url": "http://bot.test/"}}}}}})
			from := time.Now()
			o, err := s.Press(t.Context(), mattermosttest.Press{User: ada, Post: post, Action: "a"})
			if took := time.Since(from); err != nil || o.Status != 400 || o.Error != "api.post.do_action.action_integration.app_error" || took != want {
				t.Errorf("set to %v: %+v, %v after %v", configured, o, err, took)
			}
		})
	}
}

func TestOnlyAllowedAddressesOfTheOwnNetworkAreCalled(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		allowed []string
		status  int
	}{
		"all":          {nil, 200},
		"none":         {[]string{}, 400},
		"another":      {[]string{"10.0.0.0/8", "localhost"}, 400},
		"this address": {[]string{"127.0.0.1"}, 200},
		"this network": {[]string{"10.0.0.0/8", "127.0.0.0/8"}, 200},
	} {
		w := newWorld(t, mattermosttest.Config{Allowed: row.allowed})
		if o := w.press(t, ada, w.post(t, ops), "approve"); o.Status != row.status {
			t.Errorf("%s: %+v", name, o)
		}
	}
}

func TestButtonsOfEphemeralPostsArePressedByTheirCookie(t *testing.T) {
	t.Parallel()
	w := newWorld(t, mattermosttest.Config{})
	post := object{"user_id": ada, "post": object{"channel_id": ops, "message": "only you", "props": w.card()}}
	if r := w.asBot(t, http.MethodPost, "/posts/ephemeral", post); r.status != 403 {
		t.Errorf("a bot: %d %s", r.status, r.raw)
	}
	if status, _, err := w.Do(t.Context(), mattermosttest.Admin, http.MethodPost, "/posts/ephemeral", post); err != nil || status != 201 {
		t.Fatalf("an admin: %d, %v", status, err)
	}
	e := w.Ephemerals(ada)[0]
	if e.Text != "only you" || len(w.Posts(ops)) != 0 || strings.Contains(e.Read(), "integration") {
		t.Errorf("%+v", e)
	}
	press := func(user, cookie string) int {
		o, err := w.Press(t.Context(), mattermosttest.Press{User: user, Post: e.ID, Action: "approve", Cookie: cookie})
		if err != nil {
			t.Fatal(err)
		}
		return o.Status
	}
	got := []int{press(ada, ""), press(ada, e.Cookie("approve")), press(bob, e.Cookie("approve")), press(eve, e.Cookie("approve")), press(ada, "nonsense")}
	if d := cmp.Diff([]int{403, 200, 200, 403, 400}, got); d != "" {
		t.Error(d)
	}
}

func TestAChoiceComesWithTheContext(t *testing.T) {
	t.Parallel()
	w := newWorld(t, mattermosttest.Config{})
	o, err := w.Press(t.Context(), mattermosttest.Press{User: ada, Post: w.post(t, ops), Action: "longer", Selected: "session"})
	if err != nil || !strings.Contains(string(o.Body), `"type":"select"`) || !strings.Contains(string(o.Body), `"selected_option":"session"`) {
		t.Errorf("%s, %v", o.Body, err)
	}
}
