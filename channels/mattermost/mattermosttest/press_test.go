package mattermosttest_test

import (
	"encoding/json"
	"testing"

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
