package mattermosttest_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/approvalbot/approvalbot/channels/mattermost/mattermosttest"
)

func (w world) typed(t *testing.T, typed mattermosttest.Typed) mattermosttest.Outcome {
	t.Helper()
	o, err := w.Type(t.Context(), typed)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestACommandIsSentAsAFormAndItsAnswerShown(t *testing.T) {
	t.Parallel()
	w := newWorld(t, mattermosttest.Config{})
	token := w.AddCommand(mattermosttest.Command{Trigger: "approvals", URL: w.bot.url})
	root := w.Say(ada, ops, "", "here")
	w.bot.next(says(`{"response_type":"ephemeral","text":"2 pending <https://a.test|here>","skip_slack_parsing":true}`))
	o := w.typed(t, mattermosttest.Typed{User: ada, Channel: ops, Root: root, Trigger: "approvals", Text: "show  apr_01 @bob"})
	form, err := url.ParseQuery(string(o.Body))
	if err != nil || !strings.HasPrefix(form.Get("response_url"), w.URL()+"/hooks/commands/") {
		t.Fatalf("%s, %v", o.Body, err)
	}
	form.Del("response_url")
	want := url.Values{
		"token": {token}, "team_id": {mattermosttest.Team}, "team_domain": {"acme"}, "channel_id": {ops}, "channel_name": {"ops"},
		"user_id": {ada}, "user_name": {"ada"}, "command": {"/approvals"}, "text": {"show  apr_01 @bob"}, "root_id": {root},
		"trigger_id": {o.Trigger}, "user_mentions": {"bob"}, "user_mentions_ids": {bob},
	}
	if d := cmp.Diff(want, form); d != "" {
		t.Error(d)
	}
	e := w.Ephemerals(ada)
	if o.Status != 200 || len(e) != 1 || e[0].Text != "2 pending <https://a.test|here>" || e[0].Root != root || len(w.Ephemerals(bob)) != 0 {
		t.Errorf("%+v, %+v", o, e)
	}
}

func TestCommandsGoWrongForWhoTypesThem(t *testing.T) {
	t.Parallel()
	w := newWorld(t, mattermosttest.Config{})
	w.AddCommand(mattermosttest.Command{Trigger: "approvals", URL: w.bot.url})
	at := mattermosttest.Typed{User: ada, Channel: ops, Trigger: "approvals", Text: "list"}
	for name, row := range map[string]struct {
		answer http.HandlerFunc
		change func(*mattermosttest.Typed)
		status int
		id     string
	}{
		"a status that is not 200":     {code(204), nil, 500, "api.command.execute_command.failed_resp.app_error"},
		"JSON that is none":            {says("x"), nil, 500, "api.command.execute_command.failed.app_error"},
		"no such command":              {nil, func(t *mattermosttest.Typed) { t.Trigger = "other" }, 404, "api.command.execute_command.not_found.app_error"},
		"a channel of others":          {nil, func(t *mattermosttest.Typed) { t.User, t.Channel = bob, secret }, 403, "api.context.permissions.app_error"},
		"somebody of no team":          {nil, func(t *mattermosttest.Typed) { t.User = eve }, 403, "api.context.permissions.app_error"},
		"somebody deactivated":         {nil, func(t *mattermosttest.Typed) { t.User = gone }, 401, "api.context.session_expired.app_error"},
		"a text that is too long":      {says(`{"response_type":"in_channel","text":"` + strings.Repeat("x", 16384) + `"}`), nil, 500, "api.command.execute_command.create_post_failed.app_error"},
		"an answer where they are not": {says(`{"response_type":"in_channel","text":"x","channel_id":"` + hidden + `"}`), func(t *mattermosttest.Typed) { t.User = bob }, 500, "api.command.execute_command.create_post_failed.app_error"},
	} {
		typed := at
		if row.change != nil {
			row.change(&typed)
		}
		if row.answer != nil {
			w.bot.next(row.answer)
		}
		if o := w.typed(t, typed); o.Status != row.status || o.Error != row.id {
			t.Errorf("%s: %+v", name, o)
		}
	}
	off := newWorld(t, mattermosttest.Config{NoCommands: true})
	if o := off.typed(t, at); o.Status != 501 || o.Error != "api.command.disabled.app_error" {
		t.Errorf("switched off: %+v", o)
	}
}

func TestCommandsAreManagedByWhoMay(t *testing.T) {
	t.Parallel()
	w := newWorld(t, mattermosttest.Config{})
	made := object{"team_id": mattermosttest.Team, "trigger": "Approvals", "method": "P", "url": w.bot.url}
	list := "/commands?custom_only=true&team_id=" + mattermosttest.Team
	if r := w.asBot(t, http.MethodPost, "/commands", made); r.status != 403 {
		t.Errorf("the bot makes one: %d %s", r.status, r.raw)
	}
	if r := w.asBot(t, http.MethodGet, list, nil); r.status != 403 {
		t.Errorf("the bot lists them: %d %s", r.status, r.raw)
	}
	w.SetCommandRight(mattermosttest.BotUser)
	r := w.asBot(t, http.MethodPost, "/commands", made)
	token, _ := r.body["token"].(string)
	if r.status != 201 || len(token) != 26 || r.body["trigger"] != "approvals" {
		t.Fatalf("%d %s", r.status, r.raw)
	}
	if again := w.asBot(t, http.MethodPost, "/commands", made); again.id() != "api.command.duplicate_trigger.app_error" {
		t.Errorf("%d %s", again.status, again.raw)
	}
	changed := r.body
	changed["url"] = "https://new.test/"
	if r := w.asBot(t, http.MethodPut, "/commands/"+r.id(), changed); r.status != 200 || r.body["url"] != "https://new.test/" || r.body["token"] != token {
		t.Errorf("%d %s", r.status, r.raw)
	}
	if r := w.asBot(t, http.MethodPut, "/commands/"+r.id()+"/regen_token", nil); r.status != 200 || r.body["token"] == token {
		t.Errorf("%d %s", r.status, r.raw)
	}
	if r := w.asBot(t, http.MethodGet, list, nil); len(r.list) != 1 {
		t.Errorf("%d %s", r.status, r.raw)
	}
	if all := w.Commands(); len(all) != 1 || all[0].Creator != mattermosttest.BotUser || all[0].URL != "https://new.test/" {
		t.Errorf("%+v", all)
	}
}
