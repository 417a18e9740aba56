package mattermost_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/approvalbot/approvalbot/channels"
	"github.com/approvalbot/approvalbot/channels/mattermost"
	"github.com/approvalbot/approvalbot/channels/mattermost/mattermosttest"
	"github.com/approvalbot/approvalbot/gate"
)

func storeDown() error {
	return &gate.Error{Kind: gate.Unavailable, Reason: gate.ReasonStoreUnavailable, Public: "store down"}
}

func TestPresses(t *testing.T) {
	t.Parallel()
	words := func(s string) map[string]any { return map[string]any{"words": s} }
	for name, test := range map[string]func(d *desk){
		"Approve decides at once where only Mattermost can have sent it": func(d *desk) {
			d.told(d.post().Message, "approve", "Recorded (1 of 2).")
			if k := d.one(ann, gate.Approve); k.Scope != "" {
				d.t.Errorf("for %q", k.Scope)
			}
		},
		"Approve of what is to be confirmed asks in a dialog": func(d *desk) {
			d.card.Confirm = "I have read the arguments. This is high risk."
			o := d.presses(ann, d.post().Message, "approve")
			if o.Status != http.StatusOK || len(o.Ephemerals) > 0 {
				d.t.Errorf("told %d %q", o.Status, o.Ephemerals)
			}
			d.nothing()
			asked := d.dialog()
			if text := asked.Read(); !strings.Contains(text, "# Approve?") || !strings.Contains(text, "I have read the arguments.") || !strings.Contains(text, "[Approve] [Cancel]") {
				d.t.Errorf("it reads:\n%s", text)
			}
			if a := d.submits(asked, nil); !a.Closed {
				d.t.Errorf("%+v", a)
			}
			d.one(ann, gate.Approve)
		},
		"a longer approval says what it covers before it counts": func(d *desk) {
			d.card.Scopes = []channels.Choice{
				{Scope: gate.Once, Name: "Once"},
				{Scope: gate.Session, Name: "This session", Covers: "deploy on `prod`", Lasts: "only while this session lasts"},
			}
			o, err := d.s.Press(d.t.Context(), mattermosttest.Press{User: ann, Post: d.post().Message, Action: "scope", Selected: "session"})
			if err != nil || o.Status != http.StatusOK {
				d.t.Fatal(o, err)
			}
			d.nothing()
			asked := d.dialog()
			if text := asked.Read(); !strings.Contains(text, "only while this session lasts") || !strings.Contains(text, "`` deploy on `prod` ``") {
				d.t.Errorf("it reads:\n%s", text)
			}
			d.submits(asked, nil)
			if k := d.one(ann, gate.Approve); k.Scope != gate.Session {
				d.t.Errorf("for %q", k.Scope)
			}
		},
		"a scope that is not offered is left to the gate to refuse": func(d *desk) {
			d.card.Scopes = []channels.Choice{{Scope: gate.Once}, {Scope: gate.Session, Name: "This session"}}
			o, err := d.s.Press(d.t.Context(), mattermosttest.Press{User: ann, Post: d.post().Message, Action: "scope", Selected: "always"})
			if err != nil || o.Status != http.StatusOK {
				d.t.Fatal(o, err)
			}
			d.submits(d.dialog(), nil)
			if k := d.one(ann, gate.Approve); k.Scope != gate.Always {
				d.t.Errorf("for %q", k.Scope)
			}
		},
		"Deny asks for a reason in a dialog": func(d *desk) {
			ref := d.post()
			d.presses(ann, ref.Message, "deny")
			asked := d.dialog()
			d.submits(asked, map[string]any{"chosen": "Wrong target", "words": " it is prod "})
			k := d.one(ann, gate.Deny)
			if k.Reason != "Wrong target: it is prod" || !k.Ours || k.Ref != ref || k.Digest != d.card.Digest || k.Nonce == "" {
				d.t.Errorf("%+v", k)
			}
		},
		"a reason that a rule wants is asked for until it is there": func(d *desk) {
			d.card.ReasonRequired = true
			d.presses(ann, d.post().Message, "deny")
			asked := d.dialog()
			for _, tt := range []struct {
				values map[string]any
				at     string
			}{
				{nil, "chosen"},
				{words("  "), "chosen"},
				{map[string]any{"chosen": "Other"}, "words"},
				{map[string]any{"chosen": "of my own"}, "chosen"},
				{map[string]any{"chosen": []any{"Not now"}}, "chosen"},
				{map[string]any{"words": 7}, "words"},
				{words(strings.Repeat("x", 461)), "words"},
			} {
				if a := d.submits(asked, tt.values); a.Status != http.StatusOK || a.Closed || a.Errors[tt.at] == "" {
					d.t.Errorf("%v: %+v", tt.values, a)
				}
				d.nothing()
			}
			d.submits(asked, map[string]any{"chosen": "Not now"})
			if k := d.one(ann, gate.Deny); k.Reason != "Not now" {
				d.t.Errorf("for %q", k.Reason)
			}
		},
		"Ask takes a question": func(d *desk) {
			d.presses(ann, d.post().Message, "ask")
			asked := d.dialog()
			if a := d.submits(asked, words(" ")); a.Errors["words"] == "" {
				d.t.Errorf("nothing was asked: %+v", a)
			}
			d.submits(asked, words("which one?"))
			if k := d.one(ann, gate.NeedContext); k.Reason != "which one?" {
				d.t.Errorf("asked %q", k.Reason)
			}
		},
		"Answer shows the question": func(d *desk) {
			d.card.Ask, d.card.Answer, d.card.Dialogue = false, true, `Bo asks: "which @all?"`
			d.presses(ann, d.post().Message, "answer")
			asked := d.dialog()
			if !strings.Contains(asked.Read(), "`Bo asks: \"which @all?\"`") {
				d.t.Errorf("it reads:\n%s", asked.Read())
			}
			d.submits(asked, words("the old one"))
			if k := d.one(ann, channels.Reply); k.Reason != "the old one" {
				d.t.Errorf("answered %q", k.Reason)
			}
		},
		"Take back needs no second look": func(d *desk) {
			d.card.Approve, d.card.Deny, d.card.Ask, d.card.TakeBack = false, false, false, true
			d.told(d.post().Message, "takeback", "Recorded")
			d.one(ann, gate.Deny)
		},
		"It ran and It did not run need no second look": func(d *desk) {
			d.card.Approve, d.card.Deny, d.card.Ask, d.card.Unsettled, d.card.Again = false, false, false, true, true
			d.told(d.post().Message, "ran", "Recorded")
			d.one(ann, channels.Ran)
		},
		"Run it again needs none either: others are asked": func(d *desk) {
			d.card.Approve, d.card.Deny, d.card.Ask, d.card.Unsettled, d.card.Again = false, false, false, true, true
			d.told(d.post().Message, "runagain", "Recorded")
			d.one(ann, channels.RunAgain)
		},
		"Show all shows what is not long to the presser alone": func(d *desk) {
			d.card.Args = strings.Repeat("@all `x` ", 600) + "the end"
			before := len(d.s.Posts(ops))
			d.told(d.post().Message, "full", "the end")
			if n := len(d.s.Posts(ops)) - before; n != 1 {
				d.t.Errorf("%d more posts than the card", n-1)
			}
			d.nothing()
		},
		"Show all shows what is long below the card, and nothing is missing": func(d *desk) {
			line := "→\"ä\\" + strings.Repeat("🙂<x>&", 40) + "\n"
			d.card.Args = strings.Repeat(line, 800)
			ref := d.post()
			d.told(ref.Message, "full", "below the card")
			var text strings.Builder
			for _, p := range d.s.Posts(ops) {
				if p.ID == ref.Message {
					continue
				}
				if p.Root != ref.Message || len(p.Notifies())+len(p.Links()) > 0 {
					d.t.Errorf("a page in thread %q calls %v", p.Root, p.Notifies())
				}
				text.WriteString(p.Read())
			}
			if n := strings.Count(text.String(), "→"); n != 800 {
				d.t.Errorf("%d lines of 800 are there", n)
			}
		},
		"what cannot be pressed any more says how it stands": func(d *desk) {
			ref := d.post()
			d.card.Deny, d.card.Line = false, "Approved by Bo 12:30 UTC"
			d.told(ref.Message, "deny", "Approved by Bo")
			d.nothing()
		},
		"an approval that comes too late is judged by the gate": func(d *desk) {
			ref := d.post()
			d.card.Approve = false
			d.refuse = &gate.Error{Kind: gate.Conflict, Reason: gate.ReasonAlreadyDecided, Public: "Bo already approved this at 12:30 UTC."}
			d.told(ref.Message, "approve", "Bo already approved this")
		},
		"a refusal shows nothing of what somebody else wrote as more than words": func(d *desk) {
			ref := d.post()
			d.refuse = &gate.Error{Kind: gate.Conflict, Public: `Denied by Bo: "@all <https://evil.example|x> [x](https://evil.example)"`}
			d.told(ref.Message, "approve", "`Denied by Bo: \"@all <https://evil.example|x> [x](https://evil.example)\"`")
		},
		"without a store nothing is decided, and the presser knows": func(d *desk) {
			ref := d.post()
			d.kept.away = true
			d.told(ref.Message, "approve", "Could not record your answer (store down). Nothing was decided; press again.")
			d.nothing()
			d.kept.away = false
			d.told(ref.Message, "approve", "Recorded")
			d.one(ann, gate.Approve)
			d.away = storeDown()
			d.told(ref.Message, "deny", "store down")
			d.nothing()
		},
		"without a store a dialog stays and says so, and can be sent again": func(d *desk) {
			d.presses(ann, d.post().Message, "deny")
			asked := d.dialog()
			d.kept.away = true
			if a := d.submits(asked, nil); a.Closed || !strings.Contains(a.Error, "store down") {
				d.t.Errorf("%+v", a)
			}
			d.nothing()
			d.kept.away = false
			d.submits(asked, nil)
			d.one(ann, gate.Deny)
		},
		"a dialog is good for once": func(d *desk) {
			d.presses(ann, d.post().Message, "deny")
			asked := d.dialog()
			d.submits(asked, nil)
			d.one(ann, gate.Deny)
			if a := d.submits(asked, nil); !strings.Contains(a.Error, "was sent before") {
				d.t.Errorf("%+v", a)
			}
			d.nothing()
		},
		"a dialog that is cancelled decides nothing": func(d *desk) {
			d.presses(ann, d.post().Message, "deny")
			a, err := d.s.Submit(d.t.Context(), mattermosttest.Submission{User: ann, Dialog: d.dialog(), Cancel: true, Mangle: func(map[string]any) {}})
			if err != nil || a.AnswerStatus != http.StatusOK {
				d.t.Errorf("%+v, %v", a, err)
			}
			d.nothing()
		},
		"what the gate refuses a dialog says, and stays": func(d *desk) {
			d.presses(ann, d.post().Message, "deny")
			d.refuse = &gate.Error{Kind: gate.Conflict, Reason: gate.ReasonExpired, Public: "This expired 12 s ago; nothing ran."}
			if a := d.submits(d.dialog(), nil); a.Closed || a.Error != "This expired 12 s ago; nothing ran." {
				d.t.Errorf("%+v", a)
			}
		},
		"who cannot be looked up decides nothing": func(d *desk) {
			ref := d.post()
			d.s.FailNext("user", mattermosttest.HTMLPage(502))
			d.told(ref.Message, "approve", "Could not look up who may decide. Nothing was decided; press again.")
			d.nothing()
		},
		"a post that cannot be read is not said to be ours": func(d *desk) {
			ref := d.post()
			d.s.FailNext("get_post", mattermosttest.TooMany(time.Second))
			d.presses(ann, ref.Message, "approve")
			d.nothing() // what was read is not known, so it is asked for once more
			d.submits(d.dialog(), nil)
			if k := d.one(ann, gate.Approve); k.Ours {
				d.t.Error("it is")
			}
		},
		"a dialog that cannot be opened is said": func(d *desk) {
			d.s.FailNext("open_dialog", mattermosttest.HTMLPage(502))
			d.told(d.post().Message, "deny", "could not be opened, and nothing was decided")
		},
		"after the server's key has changed presses are known again": func(d *desk) {
			ref := d.post()
			d.told(ref.Message, "approve", "Recorded")
			d.s.RotateKey()
			if o := d.presses(ann, ref.Message, "approve"); o.AnswerStatus != http.StatusForbidden {
				d.t.Errorf("within a minute: %+v", o)
			}
			if n := len(d.s.Calls("config")); n > 2 {
				d.t.Errorf("the key was asked for %d times", n)
			}
		},
		"where presses are in threads, so is what is said of them": func(d *desk) {
			root := d.s.Say(ann, ops, "", "please deploy")
			ref, err := d.m.Post(d.t.Context(), gate.Conversation{Place: "mattermost:" + ops, Thread: root}, d.card)
			if err != nil {
				d.t.Fatal(err)
			}
			d.told(ref.Message, "approve", "Recorded")
			if k := d.one(ann, gate.Approve); k.Ref != ref || k.Ref.Thread != root {
				d.t.Errorf("%+v", k.Ref)
			}
		},
		"in a direct message it works as anywhere": func(d *desk) {
			ref, err := d.m.Post(d.t.Context(), gate.Conversation{Place: "mattermost:@" + ann}, d.card)
			if err != nil {
				d.t.Fatal(err)
			}
			d.told(ref.Message, "approve", "Recorded")
			if k := d.one(ann, gate.Approve); k.Ref != ref {
				d.t.Errorf("%+v", k.Ref)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(newDesk(t, mattermosttest.Config{}, known))
		})
	}
}

// TestTheKeyIsRenewed lets a minute pass.
func TestTheKeyIsRenewed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := inBubble(t)
		d.card.TakeBack = true
		ref := d.post()
		d.told(ref.Message, "takeback", "Recorded")
		d.s.RotateKey()
		<-time.After(time.Minute + time.Second)
		d.told(ref.Message, "takeback", "Recorded")
	})
}

// TestADialogIsOpenForHalfAnHour: then it says so.
func TestADialogIsOpenForHalfAnHour(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := inBubble(t)
		d.presses(ann, d.post().Message, "deny")
		asked := d.dialog()
		<-time.After(30*time.Minute + time.Second)
		if a := d.submits(asked, nil); !strings.Contains(a.Error, "open for more than 30 minutes") {
			t.Errorf("%+v", a)
		}
		d.nothing()
	})
}

// TestUnverified is a server whose triggers cannot be checked, on a network that can
// be trusted.
func TestUnverified(t *testing.T) {
	t.Parallel()
	off := false
	d := newDesk(t, mattermosttest.Config{}, func(c *mattermost.Config) { known(c); c.VerifyTriggers = &off })
	ref := d.post()
	d.told(ref.Message, "approve", "Recorded")
	d.one(ann, gate.Approve)
	if status, _ := d.sends(d.copied("anything", ref, "approve")); status != http.StatusOK {
		t.Errorf("answered %d", status)
	}
	d.one(ann, gate.Approve)
}

// TestAccounts: being able to press says nothing about being allowed to decide; the
// gate is told what the account is.
func TestAccounts(t *testing.T) {
	t.Parallel()
	d := newDesk(t, mattermosttest.Config{}, known)
	ref := d.post()
	d.s.AddUser(mattermosttest.User{ID: "u1other0000000000000000000", Username: "otherbot", Bot: true})
	d.s.Join(ops, "u1other0000000000000000000")
	for user, want := range map[string]gate.Account{
		ann: gate.Member, guest: gate.Guest, mattermosttest.Admin: gate.Member,
		"u1other0000000000000000000": gate.Bot, mattermosttest.BotUser: gate.Bot,
	} {
		d.presses(user, ref.Message, "approve")
		if k := d.one(user, gate.Approve); k.Voter.Account != want {
			t.Errorf("%s is %q, want %q", user, k.Voter.Account, want)
		}
	}
}
