package mattermost_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/approvalbot/approvalbot/channels/mattermost"
	"github.com/approvalbot/approvalbot/channels/mattermost/mattermosttest"
)

// receives hands a request to what receives it, without a network.
func (d *desk) receives(t *testing.T, path, kind, body string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(body))
	r.Header.Set("Content-Type", kind)
	w := httptest.NewRecorder()
	d.mux.ServeHTTP(w, r)
	return w
}

// answered wants an answer that Mattermost, or somebody else, can be given.
func (d *desk) answered(t *testing.T, body string, w *httptest.ResponseRecorder) {
	t.Helper()
	switch w.Code {
	case http.StatusOK:
		if !json.Valid(w.Body.Bytes()) || w.Header().Get("Content-Type") != "application/json" {
			t.Errorf("%q is answered %q", body, w.Body)
		}
	case http.StatusBadRequest, http.StatusForbidden:
	default:
		t.Errorf("%q is answered %d", body, w.Code)
	}
}

// FuzzPress: of what does not come from Mattermost nothing is decided, whatever it is.
func FuzzPress(f *testing.F) {
	d := newDesk(f, mattermosttest.Config{}, nil)
	d.card.TakeBack = true
	ref := d.post()
	for _, action := range []string{"approve", "deny", "takeback", "full"} {
		raw, err := json.Marshal(d.copied(d.s.Trigger(mallory), ref, action))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(raw))
	}
	f.Add(`{"user_id":1}`)
	f.Add(`{"context":{"approval":[]}}`)
	f.Add(`[]`)
	f.Fuzz(func(t *testing.T, body string) {
		d.answered(t, body, d.receives(t, mattermost.ActionsPath, "application/json", body))
		if all := d.decided(); len(all) > 0 {
			t.Errorf("%q decides %+v", body, all)
		}
	})
}

// FuzzDialog: a dialog that we did not open for this person decides nothing; of one
// that we did only text is taken.
func FuzzDialog(f *testing.F) {
	d := newDesk(f, mattermosttest.Config{}, known)
	d.presses(ann, d.post().Message, "deny")
	state := d.dialog().State
	f.Add(state, `{"words":"no"}`)
	f.Add(state, `{"words":{"a":1},"chosen":[1]}`)
	f.Add(state+"x", `{}`)
	f.Add("", `null`)
	f.Fuzz(func(t *testing.T, pass, values string) {
		var submission any
		if json.Unmarshal([]byte(values), &submission) != nil {
			submission = values
		}
		raw, err := json.Marshal(map[string]any{"type": "dialog_submission", "user_id": ann, "state": pass, "submission": submission})
		if err != nil {
			t.Fatal(err)
		}
		d.kept.forget()
		d.answered(t, string(raw), d.receives(t, mattermost.DialogsPath, "application/json", string(raw)))
		for _, k := range d.decided() {
			if pass != state || k.Voter.ID != "mattermost:"+ann || k.Approval != d.card.Approval || len([]rune(k.Reason)) > 500 {
				t.Errorf("%q %q decides %+v", pass, values, k)
			}
		}
	})
}

// FuzzCommand: what is typed is answered, and shows nothing that anybody could press
// or be called by.
func FuzzCommand(f *testing.F) {
	d := newDesk(f, mattermosttest.Config{}, func(c *mattermost.Config) {
		c.Commands = []mattermost.CommandConfig{{Team: mattermosttest.TeamName}}
	})
	d.s.SetCommandRight(mattermosttest.BotUser)
	if err := d.m.Register(f.Context()); err != nil {
		f.Fatal(err)
	}
	token, signedNow := d.s.Commands()[0].Token, d.s.TriggerAt(ann, time.Now().Add(29*time.Second))
	f.Add("pending", token)
	f.Add("@all <https://evil.example|x> `", token)
	f.Add("x", "y")
	f.Fuzz(func(t *testing.T, text, key string) {
		form := d.typed(key, ann, signedNow)
		form["text"] = []string{text}
		w := d.receives(t, mattermost.CommandsPath, "application/x-www-form-urlencoded", form.Encode())
		d.answered(t, text, w)
		var said struct {
			Type string `json:"response_type"`
			Text string `json:"text"`
		}
		if w.Code != http.StatusOK {
			return
		}
		if err := json.Unmarshal(w.Body.Bytes(), &said); err != nil || said.Type != "ephemeral" || key != token {
			t.Errorf("%q with %q: %s, %v", text, key, w.Body, err)
		}
		p := mattermosttest.Post{Message: said.Text}
		if bad := append(append(p.Notifies(), p.Links()...), p.Images()...); len(bad) > 0 {
			t.Errorf("%q is answered %q, which leads to %q", text, said.Text, bad)
		}
	})
}
