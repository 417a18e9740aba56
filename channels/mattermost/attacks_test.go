package mattermost_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/approvalbot/approvalbot/channels"
	"github.com/approvalbot/approvalbot/channels/mattermost"
	"github.com/approvalbot/approvalbot/channels/mattermost/mattermosttest"
	"github.com/approvalbot/approvalbot/gate"
)

// TestAttacks: what somebody can make of all that is not secret decides nothing and
// burns nothing. After each the genuine press works.
func TestAttacks(t *testing.T) {
	t.Parallel()
	const path = mattermost.ActionsPath
	for name, attack := range map[string]func(d *desk, ref channels.Ref){
		"a planted post with a copied context": func(d *desk, ref channels.Ref) {
			p, _ := d.s.Post(ref.Message)
			planted := d.s.Plant(mallory, ops, p.Props)
			d.told(planted, "approve", "not valid here")
			if !d.log.holds("a press on a copy of a card") {
				d.t.Error("no operator learns of it")
			}
		},
		"a planted post in another conversation": func(d *desk, ref channels.Ref) {
			d.s.AddChannel(mattermosttest.Channel{ID: "c1trap00000000000000000000", Name: "trap", Team: mattermosttest.Team, Type: "O", Members: []string{ann, mallory, mattermosttest.BotUser}})
			p, _ := d.s.Post(ref.Message)
			d.told(d.s.Plant(mallory, "c1trap00000000000000000000", p.Props), "approve", "not valid here")
		},
		"a planted button with a context of its own": func(d *desk, _ channels.Ref) {
			d.told(d.s.Plant(mallory, ops, map[string]any{"attachments": []any{map[string]any{"actions": []any{map[string]any{
				"id": "approve", "type": "button", "name": "Win a prize",
				"integration": map[string]any{"url": d.url + path, "context": map[string]any{"approval": string(d.card.Approval), "action": "approve"}},
			}}}}}), "approve", "not valid here")
		},
		"a trigger that was used": func(d *desk, ref channels.Ref) {
			used := d.presses(carol, ref.Message, "takeback").Trigger // an action that is on no card
			if used != "" {
				d.t.Error("that was sent")
			}
			o := d.presses(ann, ref.Message, "approve")
			d.one(ann, gate.Approve)
			for range 2 {
				if status, answer := d.sends(d.copied(o.Trigger, ref, "approve")); status != http.StatusOK || !strings.Contains(answer, "has arrived before") {
					d.t.Errorf("replayed: %d %s", status, answer)
				}
			}
		},
		"a trigger of somebody else": func(d *desk, ref channels.Ref) {
			if status, _ := d.sends(d.copied(d.s.Trigger(mallory), ref, "approve")); status != http.StatusForbidden {
				d.t.Errorf("answered %d", status)
			}
		},
		"a trigger of another server": func(d *desk, ref channels.Ref) {
			other := mattermosttest.New(d.t, mattermosttest.Config{})
			other.AddUser(mattermosttest.User{ID: ann, Username: "ann"})
			if status, _ := d.sends(d.copied(other.Trigger(ann), ref, "approve")); status != http.StatusForbidden {
				d.t.Errorf("answered %d", status)
			}
		},
		"an old trigger": func(d *desk, ref channels.Ref) {
			old := d.s.TriggerAt(ann, time.Now().Add(-31*time.Second))
			if status, answer := d.sends(d.copied(old, ref, "approve")); status != http.StatusOK || !strings.Contains(answer, "took too long") {
				d.t.Errorf("answered %d %s", status, answer)
			}
		},
		"a trigger of the future": func(d *desk, ref channels.Ref) {
			if status, answer := d.sends(d.copied(d.s.TriggerAt(ann, time.Now().Add(time.Minute)), ref, "approve")); status != http.StatusOK || !strings.Contains(answer, "clocks") {
				d.t.Errorf("answered %d %s", status, answer)
			}
		},
		"no trigger": func(d *desk, ref channels.Ref) {
			if status, _ := d.sends(d.copied("", ref, "approve")); status != http.StatusForbidden {
				d.t.Errorf("answered %d", status)
			}
		},
		"another post of the same conversation": func(d *desk, ref channels.Ref) {
			body := d.copied(d.s.Trigger(ann), ref, "approve")
			body["post_id"] = d.s.Say(mallory, ops, "", "x")
			if status, answer := d.sends(body); status != http.StatusOK || !strings.Contains(answer, "not valid here") {
				d.t.Errorf("answered %d %s", status, answer)
			}
		},
		"a post that is none": func(d *desk, ref channels.Ref) {
			body := d.copied(d.s.Trigger(ann), ref, "approve")
			body["post_id"] = "p1nothing00000000000000000"
			if _, answer := d.sends(body); !strings.Contains(answer, "not valid here") {
				d.t.Errorf("answered %s", answer)
			}
		},
		"a post of the bot's in another conversation": func(d *desk, ref channels.Ref) {
			if err := d.m.Say(d.t.Context(), gate.Conversation{Place: "mattermost:@" + ann}, "hello"); err != nil {
				d.t.Fatal(err)
			}
			at, err := d.m.Resolve(d.t.Context(), gate.Conversation{Place: "mattermost:@" + ann})
			if err != nil {
				d.t.Fatal(err)
			}
			body := d.copied(d.s.Trigger(ann), ref, "approve")
			body["post_id"] = d.s.Posts(strings.TrimPrefix(at.Place, "mattermost:"))[0].ID
			if _, answer := d.sends(body); !strings.Contains(answer, "not valid here") {
				d.t.Errorf("answered %s", answer)
			}
		},
		"what is refused spends no trigger": func(d *desk, ref channels.Ref) {
			fresh := d.s.Trigger(ann)
			good, bad := d.copied(fresh, ref, "approve"), d.copied(fresh, ref, "approve")
			bad["context"] = map[string]any{"approval": string(d.card.Approval), "action": "approve", "v": "1"}
			if _, answer := d.sends(bad); !strings.Contains(answer, "not valid here") {
				d.t.Errorf("answered %s", answer)
			}
			if status, answer := d.sends(good); status != http.StatusOK || !strings.Contains(answer, "Recorded") {
				d.t.Errorf("the good one is answered %d %s", status, answer)
			}
			d.one(ann, gate.Approve)
		},
		"another conversation's id": func(d *desk, ref channels.Ref) {
			body := d.copied(d.s.Trigger(ann), ref, "approve")
			body["channel_id"] = secrets
			if _, answer := d.sends(body); !strings.Contains(answer, "not valid here") {
				d.t.Errorf("answered %s", answer)
			}
		},
		"the context of another button": func(d *desk, ref channels.Ref) {
			body := d.copied(d.s.Trigger(ann), ref, "deny")
			context := maps.Clone(body["context"].(map[string]any))
			context["action"] = "approve"
			body["context"] = context
			if _, answer := d.sends(body); !strings.Contains(answer, "not valid here") {
				d.t.Errorf("answered %s", answer)
			}
		},
		"a dialog's body at the address of buttons": func(d *desk, _ channels.Ref) {
			a, err := d.s.Submit(d.t.Context(), mattermosttest.Submission{User: mallory, Dialog: mattermosttest.Dialog{URL: d.url + path}, Channel: ops, Values: map[string]any{"x": "y"}})
			if err != nil || a.AnswerStatus != http.StatusBadRequest {
				d.t.Errorf("answered %d, %v", a.AnswerStatus, err)
			}
		},
		"a forged dialog, through the server": func(d *desk, ref channels.Ref) {
			d.presses(ann, ref.Message, "deny")
			state := d.dialog().State // pushed to ann's clients only
			for _, forged := range []string{"", "x.y", state + "x", strings.ToUpper(state)} {
				a, err := d.s.Submit(d.t.Context(), mattermosttest.Submission{
					User: mallory, Channel: ops, Dialog: mattermosttest.Dialog{URL: d.url + mattermost.DialogsPath, State: forged}, Values: map[string]any{"words": "x"},
				})
				if err != nil || a.AnswerStatus != http.StatusForbidden {
					d.t.Errorf("%q: answered %d, %v", forged, a.AnswerStatus, err)
				}
			}
		},
		"what is no submission, with a pass of ann's": func(d *desk, ref channels.Ref) {
			d.presses(ann, ref.Message, "deny")
			asked := d.dialog()
			for _, kind := range []string{"", "dialog_lookup", "refresh", "button"} {
				raw, err := json.Marshal(map[string]any{"type": kind, "user_id": ann, "state": asked.State, "submission": map[string]any{"words": "x"}})
				if err != nil {
					d.t.Fatal(err)
				}
				status, _, err := d.s.Send(d.t.Context(), d.url+mattermost.DialogsPath, "application/json", raw)
				if err != nil || status != http.StatusBadRequest {
					d.t.Errorf("%q is answered %d, %v", kind, status, err)
				}
			}
		},
		"a dialog of ann's, sent by mallory": func(d *desk, ref channels.Ref) {
			d.presses(ann, ref.Message, "deny")
			stolen := d.dialog()
			a, err := d.s.Submit(d.t.Context(), mattermosttest.Submission{
				User: mallory, Channel: ops, Dialog: stolen, Values: map[string]any{"words": "x"},
				Mangle: func(body map[string]any) { body["user_id"] = ann },
			})
			if err != nil || a.AnswerStatus != http.StatusForbidden {
				d.t.Errorf("answered %d, %v", a.AnswerStatus, err)
			}
		},
		"a body that is much too large": func(d *desk, ref channels.Ref) {
			body := d.copied(d.s.Trigger(ann), ref, "approve")
			body["padding"] = strings.Repeat("x", 10<<20)
			if status, _ := d.sends(body); status != http.StatusBadRequest {
				d.t.Errorf("answered %d", status)
			}
		},
		"what is no JSON": func(d *desk, _ channels.Ref) {
			for kind, text := range map[string]string{"application/json": "{", "text/plain": "{}", "application/x-www-form-urlencoded": "a=b", "": "{}"} {
				if status, _, err := d.s.Send(d.t.Context(), d.url+path, kind, []byte(text)); err != nil || status != http.StatusBadRequest {
					d.t.Errorf("%s: answered %d, %v", kind, status, err)
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t, mattermosttest.Config{}, known)
			ref := d.post()
			attack(d, ref)
			d.nothing()
			d.told(ref.Message, "approve", "Recorded (1 of 2).")
			k := d.one(ann, gate.Approve)
			if !k.Ours || k.Ref != ref || k.Digest != d.card.Digest || k.Approval != d.card.Approval || k.Voter.Surface != "mattermost" || k.Voter.Name != "ann" {
				t.Errorf("the click is %+v", k)
			}
			if d.log.holds(mattermosttest.BotToken) || d.log.holds(`"seal"`) {
				t.Error("a secret is in the log")
			}
		})
	}
}

// TestEdited: an admin can edit what the bot has posted, and leave its buttons. Then
// the press is good, but not what was read: it is asked for once more.
func TestEdited(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(props map[string]any, attachment map[string]any){
		"another text":       func(_, a map[string]any) { a["text"] = "harmless" },
		"a text before it":   func(_, a map[string]any) { a["pretext"] = "this is harmless" },
		"a picture":          func(_, a map[string]any) { a["image_url"] = "https://evil.example/x.png" },
		"other arguments":    func(_, a map[string]any) { a["fields"] = []any{map[string]any{"title": "Arguments", "value": "`{}`"}} },
		"another attachment": func(p, a map[string]any) { p["attachments"] = []any{map[string]any{"text": "harmless"}, a} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t, mattermosttest.Config{}, known)
			ref := d.post()
			p, _ := d.s.Post(ref.Message)
			raw, err := json.Marshal(p.Props)
			var props map[string]any
			if err != nil || json.Unmarshal(raw, &props) != nil {
				t.Fatal(err)
			}
			change(props, props["attachments"].([]any)[0].(map[string]any))
			status, _, err := d.s.Do(t.Context(), mattermosttest.Admin, http.MethodPut, "/posts/"+ref.Message+"/patch", map[string]any{"props": props})
			if err != nil || status != http.StatusOK {
				t.Fatalf("the admin gets %d, %v", status, err)
			}
			d.presses(ann, ref.Message, "approve")
			d.nothing()
			if text := d.dialog().Read(); !strings.Contains(text, "claude wants to run deploy") || !strings.Contains(text, "on prod") {
				t.Errorf("ann is asked:\n%s", text)
			}
			if err := d.m.Update(t.Context(), ref, d.card); err != nil {
				t.Fatal(err)
			}
			d.told(ref.Message, "approve", "Recorded")
		})
	}
}

// TestForwarded is the attack against which nothing in a request helps: mallory got a
// trigger of ann's, whom she had press a button of her own, and copies all the rest.
func TestForwarded(t *testing.T) {
	t.Parallel()
	t.Run("from an address that is not Mattermost's it is refused", func(t *testing.T) {
		t.Parallel()
		d := newDesk(t, mattermosttest.Config{}, func(c *mattermost.Config) { c.CallbackAllow = []string{"10.0.0.0/8"} })
		ref := d.post()
		if status, answer := d.sends(d.copied(d.s.Trigger(ann), ref, "approve")); status != http.StatusForbidden || strings.Contains(answer, "{") {
			t.Errorf("answered %d %s", status, answer)
		}
		d.nothing()
	})
	t.Run("where any address may be Mattermost's, ann is asked and mallory is not", func(t *testing.T) {
		t.Parallel()
		d := newDesk(t, mattermosttest.Config{}, nil)
		ref := d.post()
		if status, answer := d.sends(d.copied(d.s.Trigger(ann), ref, "approve")); status != http.StatusOK || strings.Contains(answer, "Recorded") {
			t.Errorf("answered %d %s", status, answer)
		}
		d.nothing()
		if n := len(d.s.Dialogs(mallory)); n != 0 {
			t.Errorf("mallory has %d dialogs", n)
		}
		asked := d.dialog()
		if text := asked.Read(); !strings.Contains(text, "claude wants to run deploy") || !strings.Contains(text, "If you did not press Approve, cancel") {
			t.Errorf("ann reads:\n%s", text)
		}
		if _, err := d.s.Submit(t.Context(), mattermosttest.Submission{User: ann, Dialog: asked, Cancel: true}); err != nil {
			t.Error(err)
		}
		d.nothing()
		d.presses(ann, ref.Message, "approve")
		if a := d.submits(d.dialog(), nil); !a.Closed {
			t.Errorf("the genuine press: %+v", a)
		}
		d.one(ann, gate.Approve)
	})
}
