package mattermost_test

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/approvalbot/approvalbot/channels/mattermost"
	"github.com/approvalbot/approvalbot/channels/mattermost/mattermosttest"
	"github.com/approvalbot/approvalbot/gate"
)

// trial is a desk with a trial in ops, which an Echo answers for.
type trial struct {
	*desk
	*mattermost.Trial
}

func newTrial(t testing.TB, change func(*mattermost.Config)) *trial {
	t.Helper()
	d := newDesk(t, mattermosttest.Config{}, change)
	d.mux.Handle(mattermost.TrialPath, mattermost.Echo{Mattermost: d.m, Log: slog.New(slog.NewJSONHandler(&d.log, nil))})
	return d.tries()
}

func (d *desk) tries() *trial {
	d.t.Helper()
	a, err := d.m.Account(d.t.Context())
	if err != nil {
		d.t.Fatal(err)
	}
	tr, err := a.Try(d.t.Context(), "acme/ops", time.Minute)
	if err != nil {
		d.t.Fatal(err)
	}
	return &trial{d, tr}
}

// button is what everybody in the conversation can read of the trial.
func (d *trial) button() map[string]any {
	p, _ := d.s.Post(d.Trial.Post)
	return p.Context("doctor")
}

// tells has somebody press the button of a post, and wants them to be told something.
func (d *trial) tells(user, post, want string) {
	d.t.Helper()
	if o := d.presses(user, post, "doctor"); o.Status != http.StatusOK || !strings.Contains(strings.Join(o.Ephemerals, "\n"), want) {
		d.t.Errorf("%s is told %d %q, want %q", user, o.Status, o.Ephemerals, want)
	}
}

// sent sends something that did not come from Mattermost.
func (d *trial) sent(path string, body map[string]any) (status int, answer string) {
	d.t.Helper()
	status, raw, err := d.s.Forge(d.t.Context(), d.url+path, body)
	if err != nil {
		d.t.Fatal(err)
	}
	return status, string(raw)
}

// seen is what the trial knows of a press.
func (d *trial) seen() *mattermost.Arrival {
	d.t.Helper()
	a, err := d.Seen(d.t.Context())
	if err != nil {
		d.t.Fatal(err)
	}
	return a
}

// unseen holds that a trial knows of no press.
func (d *trial) unseen() {
	d.t.Helper()
	if a := d.seen(); a != nil {
		d.t.Errorf("it knows of %+v", a)
	}
}

func TestATrialKnowsWhatArrived(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(*mattermost.Config)
		before func(*trial)
		want   mattermost.Signed
		told   string
	}{
		"a press":                     {want: mattermost.SignedWell, told: "It works"},
		"one from where it may not":   {change: func(c *mattermost.Config) { c.CallbackAllow = []string{"10.0.0.7"} }, want: mattermost.SignedWell, told: "It works"},
		"one that nobody looks at":    {change: unchecked, want: mattermost.SignedSkip, told: "It works"},
		"one of another server's key": {before: func(d *trial) { d.presses(ann, d.post().Message, "approve"); d.s.RotateKey() }, want: mattermost.SignedNot, told: "would not count"},
		"one whose key cannot be had": {before: func(d *trial) { d.s.Fail("config", 0, mattermosttest.HTMLPage(503)) }, want: mattermost.SignedAsk, told: "would not count"},
		"one of somebody who may not": {before: func(d *trial) { d.s.Change(guest, func(u *mattermosttest.User) { u.Guest = true }) }, want: mattermost.SignedWell, told: "It works"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newTrial(t, tt.change)
			d.unseen()
			if tt.before != nil {
				tt.before(d)
			}
			d.tells(guest, d.Trial.Post, tt.told)
			a := d.seen()
			if a == nil || a.Signed != tt.want || a.From != "127.0.0.1" || a.Age < 0 || a.Age > time.Minute {
				t.Errorf("it knows of %+v, want one that is signed: %s", a, tt.want)
			}
			if p, _ := d.s.Post(d.Trial.Post); len(p.Buttons()) > 0 || !strings.Contains(p.Message, tt.told) {
				t.Errorf("the post says %q, with %v", p.Message, p.Buttons())
			}
			d.nothing()
		})
	}
}

func unchecked(c *mattermost.Config) {
	off := false
	c.VerifyTriggers, c.CallbackAllow = &off, []string{"127.0.0.1"}
}

// TestNobodyButMattermostTellsATrialAnything: what stands on a button is no secret.
func TestNobodyButMattermostTellsATrialAnything(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(*trial){
		"what is no press": func(d *trial) {
			for _, body := range []map[string]any{nil, {"context": "x"}, {"context": map[string]any{}}, {"state": "x", "submission": map[string]any{}}} {
				d.refused(body)
			}
		},
		"the button of a card": func(d *trial) {
			d.refused(d.copied(d.s.Trigger(ann), d.post(), "approve"))
		},
		"the button in another conversation": func(d *trial) {
			d.refused(map[string]any{"user_id": ann, "channel_id": old, "trigger_id": d.s.Trigger(ann), "context": d.button()})
		},
		"a button that is made to last": func(d *trial) {
			b := d.button()
			b["until"] = "99999999999"
			d.refused(map[string]any{"user_id": ann, "channel_id": ops, "trigger_id": d.s.Trigger(ann), "context": b})
		},
		"a button of a trial that is over": func(d *trial) {
			for until, status := range map[string]int{soonFrom(-time.Second): http.StatusBadRequest, soonFrom(time.Minute): http.StatusOK} {
				b := map[string]any{"until": until, "seal": d.m.Keys.Sign(gate.Buttons, "doctor", until, ops)}
				if got, _ := d.sent(mattermost.TrialPath, map[string]any{"user_id": ann, "channel_id": ops, "trigger_id": "x", "context": b}); got != status {
					d.t.Errorf("until %s: answered %d, want %d", until, got, status)
				}
			}
		},
		"a copy that is sent by somebody else": func(d *trial) {
			if status, _ := d.sent(mattermost.TrialPath, map[string]any{"user_id": ann, "channel_id": ops, "trigger_id": "x", "context": d.button()}); status != http.StatusOK {
				d.t.Errorf("answered %d", status)
			}
		},
		"a copy in a post of somebody else, pressed": func(d *trial) {
			p, _ := d.s.Post(d.Trial.Post)
			d.tells(ann, d.s.Plant(mallory, ops, p.Props), "It works")
		},
		"the trial's button where decisions are made": func(d *trial) {
			_, answer := d.sent(mattermost.ActionsPath, map[string]any{"user_id": ann, "channel_id": ops, "post_id": d.Trial.Post, "trigger_id": d.s.Trigger(ann), "context": d.button()})
			if !strings.Contains(answer, "not valid here") {
				d.t.Errorf("told %q", answer)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newTrial(t, nil)
			test(d)
			d.unseen()
			d.nothing()
		})
	}
}

func soonFrom(d time.Duration) string { return strconv.FormatInt(time.Now().Add(d).Unix(), 10) }

// refused wants nothing to be said to who sends something.
func (d *trial) refused(body map[string]any) {
	d.t.Helper()
	if status, answer := d.sent(mattermost.TrialPath, body); status != http.StatusBadRequest || strings.Contains(answer, "works") {
		d.t.Errorf("%v is told %d %q", body, status, answer)
	}
}

func TestATrialEndsWithoutAButton(t *testing.T) {
	t.Parallel()
	d := newTrial(t, nil)
	if err := d.End(t.Context()); err != nil {
		t.Fatal(err)
	}
	if p, _ := d.s.Post(d.Trial.Post); len(p.Buttons()) > 0 || !strings.Contains(p.Message, "No press") {
		t.Errorf("it says %q, with %v", p.Message, p.Buttons())
	}
	d.unseen()
}

// FuzzTrial: whatever comes, nothing is decided, and only a button that we
// made is answered.
func FuzzTrial(f *testing.F) {
	d := newTrial(f, nil)
	good, err := json.Marshal(map[string]any{"user_id": ann, "channel_id": ops, "trigger_id": d.s.Trigger(ann), "context": d.button()})
	if err != nil {
		f.Fatal(err)
	}
	seal, _ := d.button()["seal"].(string)
	f.Add(string(good))
	f.Add(`{"context":{"until":1e99,"seal":[]}}`)
	f.Add(`[]`)
	f.Fuzz(func(t *testing.T, body string) {
		w := d.receives(t, mattermost.TrialPath, "application/json", body)
		d.answered(t, body, w)
		if w.Code == http.StatusOK && !strings.Contains(body, seal) {
			t.Errorf("%q is answered %s", body, w.Body)
		}
		if all := d.decided(); len(all) > 0 {
			t.Errorf("%q decides %+v", body, all)
		}
	})
}
