package mattermosttest_test

import (
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/approvalbot/approvalbot/channels/mattermost/mattermosttest"
)

func (w world) open(t *testing.T, trigger string) result {
	t.Helper()
	return w.call(t, "", http.MethodPost, "/actions/dialogs/open", object{
		"trigger_id": trigger, "url": w.bot.url, "dialog": object{
			"callback_id": "deny", "title": "Deny request", "introduction_text": "Why?", "submit_label": "Deny", "state": "s1",
			"elements": []object{
				{"display_name": "Reason", "name": "reason", "type": "textarea", "optional": true, "placeholder": "in a word", "help_text": "they read it"},
				{"display_name": "For", "name": "for", "type": "select", "default": "once", "options": []object{{"text": "Now", "value": "once"}, {"text": "Ever", "value": "always"}}},
				{"display_name": "Tell them", "name": "tell", "type": "bool", "default": "true"},
			},
		},
	})
}

func TestATriggerIsSignedWithTheKeyThatEverybodySees(t *testing.T) {
	t.Parallel()
	w := newWorld(t, mattermosttest.Config{})
	o := w.press(t, ada, w.post(t, ops), "approve")
	for _, trigger := range []string{o.Trigger, w.Trigger(ada)} {
		raw, err := base64.StdEncoding.DecodeString(trigger)
		parts := strings.Split(string(raw), ":")
		if err != nil || len(parts) != 4 || len(parts[0]) != 26 || parts[1] != ada || parts[2] != itoa(w.clock.Now().UnixMilli()) {
			t.Fatalf("%q, %v", raw, err)
		}
		if !verified(t, w, parts) {
			t.Error("the signature is not by the key of the configuration")
		}
		if parts[1] = bob; verified(t, w, parts) {
			t.Error("the signature is good for another user")
		}
	}
}

func verified(t *testing.T, w world, parts []string) bool {
	t.Helper()
	text, _ := w.call(t, "", http.MethodGet, "/config/client?format=old", nil).body["AsymmetricSigningPublicKey"].(string)
	der, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	key, err := x509.ParsePKIXPublicKey(der)
	if err != nil {
		t.Fatal(err)
	}
	signature, err := base64.StdEncoding.DecodeString(parts[3])
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte(strings.Join(parts[:3], ":") + ":"))
	return ecdsa.VerifyASN1(key.(*ecdsa.PublicKey), sum[:], signature)
}

func TestATriggerLivesAsLongAsIntegrationsHaveAndWorksAgain(t *testing.T) {
	t.Parallel()
	for life, config := range map[time.Duration]time.Duration{30 * time.Second: 0, 3 * time.Second: 3 * time.Second} {
		w := newWorld(t, mattermosttest.Config{OutgoingTimeout: config})
		trigger := w.Trigger(ada)
		w.clock.Advance(life)
		for range 2 {
			if r := w.open(t, trigger); r.status != 200 {
				t.Errorf("after %v: %d %s", life, r.status, r.raw)
			}
		}
		w.clock.Advance(time.Millisecond)
		if r := w.open(t, trigger); r.status != 400 || r.id() != "interactive_message.decode_trigger_id.expired" {
			t.Errorf("later: %d %s", r.status, r.raw)
		}
		if r := w.open(t, w.TriggerAt(ada, w.clock.Now().Add(-time.Hour))); r.status != 400 {
			t.Errorf("an old one: %d %s", r.status, r.raw)
		}
		if n := len(w.Dialogs(ada)); n != 2 {
			t.Errorf("%d dialogs are open", n)
		}
	}
}

func TestTriggersOfAnotherKeyAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, mattermosttest.Config{})
	trigger := w.Trigger(ada)
	w.RotateKey()
	if r := w.open(t, trigger); r.id() != "interactive_message.decode_trigger_id.verify_signature_failed" {
		t.Errorf("%d %s", r.status, r.raw)
	}
	if r := w.open(t, w.Trigger(ada)); r.status != 200 {
		t.Errorf("%d %s", r.status, r.raw)
	}
}

func TestADialogReadsAndClosesAsAPersonSeesIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, mattermosttest.Config{})
	for name, row := range map[string]struct {
		answer http.HandlerFunc
		want   string // what is read afterwards
		status int
		err    string
	}{
		"an empty answer closes it":   {says(``), "", 200, ""},
		"and so does an empty object": {says(`{}`), "", 200, ""},
		"an error keeps it":           {says(`{"error":"Too late"}`), "! Too late\n", 200, "Too late"},
		"errors at fields do":         {says(`{"errors":{"for":"No"}}`), "! No\n", 200, ""},
		"another status does":         {code(403), "! api.post.do_action.action_integration.app_error\n", 400, "api.post.do_action.action_integration.app_error"},
		"something that is not JSON":  {says(`x`), "! app.submit_interactive_dialog.decode_json_error\n", 500, "app.submit_interactive_dialog.decode_json_error"},
	} {
		trigger := w.Trigger(ada)
		if r := w.open(t, trigger); r.status != 200 {
			t.Fatal(r.raw)
		}
		d := w.Dialogs(ada)[0]
		const want = "# Deny request\nWhy?\nReason: ____ (in a word they read it)\nFor *: [Now|Ever]\nTell them *: [ ]\n[Deny] [Cancel]"
		if diff := cmp.Diff(want, d.Read()); diff != "" {
			t.Error(diff)
		}
		w.bot.next(row.answer)
		a, err := w.Submit(t.Context(), mattermosttest.Submission{User: ada, Dialog: d, Channel: ops, Values: object{"reason": "no"}})
		if err != nil || a.Status != row.status || a.Error != row.err || a.Closed != (row.want == "") {
			t.Errorf("%s: %+v, %v", name, a, err)
		}
		if !strings.Contains(string(a.Body), `"submission":{"for":"once","reason":"no","tell":true}`) {
			t.Errorf("%s: sent %s", name, a.Body)
		}
		left := w.Dialogs(ada)
		if row.want != "" && (len(left) != 1 || !strings.Contains(left[0].Read(), row.want)) || row.want == "" && len(left) != 0 {
			t.Errorf("%s: afterwards %+v", name, left)
		}
		if len(left) > 0 { // nobody asked to be told of this
			if a, err := w.Submit(t.Context(), mattermosttest.Submission{User: ada, Dialog: d, Cancel: true}); err != nil || !a.Closed || a.Body != nil {
				t.Errorf("cancel: %+v, %v", a, err)
			}
		}
	}
}

func code(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }
}

func TestTheTeamOfASubmissionIsTheServersSince1110(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]int{"11.2.0": 403, "11.10.0": 200} {
		w := newWorld(t, mattermosttest.Config{Version: version})
		a, err := w.Submit(t.Context(), mattermosttest.Submission{User: ada, Dialog: mattermosttest.Dialog{URL: w.bot.url}, Channel: ops, Team: mattermosttest.NewID()})
		if err != nil || a.Status != want || want == 200 && !strings.Contains(string(a.Body), mattermosttest.Team) {
			t.Errorf("%s: %+v, %v", version, a, err)
		}
	}
}

func TestSubmissionsAreMadeByTheClientButForTheUser(t *testing.T) {
	t.Parallel()
	w := newWorld(t, mattermosttest.Config{})
	forged := mattermosttest.Submission{User: bob, Dialog: mattermosttest.Dialog{URL: w.bot.url, State: "of ada"}, Channel: open, Mangle: func(m map[string]any) {
		m["user_id"], m["callback_id"] = ada, "any"
	}}
	a, err := w.Submit(t.Context(), forged)
	if err != nil || !strings.Contains(string(a.Body), `"callback_id":"any","state":"of ada","user_id":"`+bob+`"`) {
		t.Errorf("%s, %v", a.Body, err)
	}
	status, answer, err := w.Forge(t.Context(), w.bot.url, object{"user_id": ada})
	if err != nil || status != 200 || len(answer) != 0 {
		t.Errorf("%d %s, %v", status, answer, err)
	}
	w.bot.next(code(413))
	if status, _, err := w.Send(t.Context(), w.bot.url, "text/plain", []byte("x")); err != nil || status != 413 {
		t.Errorf("%d, %v", status, err)
	}
}
