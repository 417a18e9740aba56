package slack_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/approvalbot/approvalbot/channels"
	"github.com/approvalbot/approvalbot/channels/slack"
	"github.com/approvalbot/approvalbot/channels/slack/slacktest"
	"github.com/approvalbot/approvalbot/gate"
	"github.com/approvalbot/approvalbot/gate/secret"
)

// desk is a card in a conversation of a workspace, and what presses on it become.
type desk struct {
	*testing.T
	slack   *slacktest.Slack
	presses *slack.Presses
	ref     channels.Ref

	mu     sync.Mutex
	clicks []channels.Click
}

func newDesk(t *testing.T, change func(*channels.Card)) *desk {
	t.Helper()
	return newDeskWith(t, slacktest.Config{}, change)
}

func newDeskWith(t *testing.T, cfg slacktest.Config, change func(*channels.Card)) *desk {
	t.Helper()
	d := &desk{T: t, slack: workspace(t, cfg)}
	d.slack.AddUser(slacktest.User{ID: "U0GUEST001", Name: "guest", Restricted: true})
	d.slack.AddUser(slacktest.User{ID: "U0LEFT0001", Name: "left", Deleted: true})
	d.slack.AddUser(slacktest.User{ID: "U0OTHER001", Name: "other", Team: "T0OTHER001"})
	d.slack.Organise("E0ORG00001")
	d.slack.AddUser(slacktest.User{ID: "U0SISTER01", Name: "sister", Team: "E0ORG00001", Enterprise: "E0ORG00001", Teams: []string{slacktest.Team, "T0OTHER001"}})
	d.slack.AddUser(slacktest.User{ID: "U0COUSIN01", Name: "cousin", Team: "T0OTHER001", Enterprise: "E0ORG00001", Teams: []string{"T0OTHER001"}})
	d.slack.AddChannel(slacktest.Channel{ID: ops, Members: []string{"U0AAAAAA1", "U0GUEST001", "U0LEFT0001", "U0OTHER001", slacktest.BotUser}})
	c := slack.New(slack.Config{BotToken: secret.New(slacktest.BotToken), Team: slacktest.Team, APIURL: d.slack.URL() + "/api/"})
	d.presses = &slack.Presses{
		Slack: c, SigningSecret: secret.New(slacktest.SigningSecret), Log: slog.New(slog.DiscardHandler),
		Press: func(_ context.Context, k channels.Click) string {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.clicks = append(d.clicks, k)
			return "Recorded <!channel>."
		},
	}
	server := httptest.NewServer(d.presses)
	t.Cleanup(server.Close)
	d.slack.SendTo(slacktest.URLs{Interactions: server.URL})
	w := waiting()
	if change != nil {
		change(w)
	}
	if _, err := c.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	var err error
	if d.ref, err = c.Post(t.Context(), gate.Conversation{Place: "slack:" + ops}, w); err != nil {
		t.Fatal(err)
	}
	return d
}

func (d *desk) press(user, action string, change func(*slacktest.Click)) slacktest.Outcome {
	d.Helper()
	k := slacktest.Click{User: user, Channel: ops, TS: d.ref.Message, Action: action}
	if change != nil {
		change(&k)
	}
	o, err := d.slack.Click(d.Context(), k)
	if err != nil {
		d.Fatal(err)
	}
	d.presses.Wait()
	return o
}

// told is what one person has been shown alone.
func (d *desk) told(user string) string {
	var all []string
	for _, m := range d.slack.Ephemerals(user) {
		all = append(all, m.Read())
	}
	return strings.Join(all, "\n")
}

func (d *desk) wantClick(want channels.Click) {
	d.Helper()
	want.Approval, want.Ref, want.Ours = card, d.ref, true
	want.Voter = gate.Voter{ID: "slack:" + slacktest.Team + "/U0AAAAAA1", Name: "ada", Surface: "slack", Login: "platform"}
	d.mu.Lock()
	defer d.mu.Unlock()
	if diff := cmp.Diff([]channels.Click{want}, d.clicks, cmpopts.IgnoreFields(channels.Click{}, "Nonce")); diff != "" {
		d.Errorf("clicks (-want +got):\n%s", diff)
	}
	if len(d.clicks) > 0 && d.clicks[0].Nonce == "" {
		d.Error("a press without a nonce counts twice when it comes twice")
	}
}

func TestPresses(t *testing.T) {
	t.Parallel()
	t.Run("approve", func(t *testing.T) {
		t.Parallel()
		d := newDesk(t, nil)
		if o := d.press("U0AAAAAA1", "approve", nil); o.Warning != "" || len(o.Answer) != 0 {
			t.Errorf("Slack was answered %q, the person sees %q", o.Answer, o.Warning)
		}
		d.wantClick(channels.Click{Choice: gate.Approve})
		if got := d.told("U0AAAAAA1"); got != "Recorded <!channel>." {
			t.Errorf("told %q", got)
		}
	})
	t.Run("take back", func(t *testing.T) {
		t.Parallel()
		d := newDesk(t, func(c *channels.Card) { c.Approve, c.Deny, c.Ask, c.TakeBack = false, false, false, true })
		d.press("U0AAAAAA1", "take_back", nil)
		d.wantClick(channels.Click{Choice: gate.Deny})
	})
	for action, want := range map[string]gate.Choice{"ran": channels.Ran, "did_not_run": channels.NotRun, "run_again": channels.RunAgain} {
		t.Run("of an unknown outcome: "+action, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t, func(c *channels.Card) {
				c.Approve, c.Deny, c.Ask, c.Unsettled, c.Again = false, false, false, true, true
			})
			d.press("U0AAAAAA1", action, nil)
			d.wantClick(channels.Click{Choice: want})
		})
	}
	t.Run("deny with a reason", func(t *testing.T) {
		t.Parallel()
		d := newDesk(t, nil)
		d.press("U0AAAAAA1", "deny", nil)
		d.wantNone()
		d.submit("wrong cluster")
		d.wantClick(channels.Click{Choice: gate.Deny, Reason: "wrong cluster"})
		if got := d.told("U0AAAAAA1"); got != "Recorded <!channel>." {
			t.Errorf("told %q", got)
		}
	})
	t.Run("deny without one", func(t *testing.T) {
		t.Parallel()
		d := newDesk(t, nil)
		d.press("U0AAAAAA1", "deny", nil)
		d.submit("")
		d.wantClick(channels.Click{Choice: gate.Deny})
	})
	t.Run("ask", func(t *testing.T) {
		t.Parallel()
		d := newDesk(t, nil)
		d.press("U0AAAAAA1", "ask", nil)
		d.submit("why now?")
		d.wantClick(channels.Click{Choice: gate.NeedContext, Reason: "why now?"})
	})
	t.Run("a dialog that could not be opened", func(t *testing.T) {
		t.Parallel()
		d := newDesk(t, nil)
		d.slack.FailNext("views.open", slacktest.Refused("expired_trigger_id"))
		d.press("U0AAAAAA1", "deny", nil)
		d.wantNone()
		if got := d.told("U0AAAAAA1"); !strings.Contains(got, "press again") {
			t.Errorf("told %q", got)
		}
	})
	t.Run("who is answered where the address is spent", func(t *testing.T) {
		t.Parallel()
		d := newDesk(t, nil)
		d.slack.FailNext("response_url", slacktest.ServerError)
		d.press("U0AAAAAA1", "approve", nil)
		if got := d.told("U0AAAAAA1"); got != "Recorded <!channel>." {
			t.Errorf("told %q", got)
		}
	})
	t.Run("an address that is not Slack's is not used", func(t *testing.T) {
		t.Parallel()
		d := newDesk(t, nil)
		elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it was asked") }))
		t.Cleanup(elsewhere.Close)
		d.press("U0AAAAAA1", "approve", mangled(func(p map[string]any) { p["response_url"] = elsewhere.URL }))
		if got := d.told("U0AAAAAA1"); got != "Recorded <!channel>." {
			t.Errorf("told %q", got)
		}
	})
	t.Run("approve for longer", func(t *testing.T) {
		t.Parallel()
		d := newDesk(t, nil)
		d.press("U0AAAAAA1", "approve", mangled(func(p map[string]any) {
			a := p["actions"].([]any)[0].(map[string]any)
			a["action_id"], a["value"], a["selected_option"] = "approve_for", nil, map[string]any{"value": "session"}
		}))
		d.wantClick(channels.Click{Choice: gate.Approve, Scope: gate.Session})
	})
}

func (d *desk) submit(words string) {
	d.Helper()
	views := d.slack.Views("U0AAAAAA1")
	if len(views) != 1 {
		d.Fatalf("%d dialogs are open, want one", len(views))
	}
	o, err := d.slack.Submit(d.Context(), slacktest.Submission{View: views[0].ID, Values: map[string]string{"words": words}})
	if err != nil || o.Warning != "" {
		d.Fatalf("Submit = %q, %v", o.Warning, err)
	}
	d.presses.Wait()
}

func (d *desk) wantNone() {
	d.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.clicks) != 0 {
		d.Errorf("clicks %+v, want none", d.clicks)
	}
}

// TestWhatIsSaidOfPressers presses as people who see the card. Who of them may
// decide is the gate's to say, by what kind of account it is.
func TestWhatIsSaidOfPressers(t *testing.T) {
	t.Parallel()
	for user, want := range map[string]gate.Voter{
		"U0GUEST001":      {ID: "slack:" + slacktest.Team + "/U0GUEST001", Name: "guest", Account: gate.Guest},
		"U0OTHER001":      {ID: "slack:T0OTHER001/U0OTHER001", Name: "other", Account: gate.Outsider},
		"U0LEFT0001":      {ID: "slack:" + slacktest.Team + "/U0LEFT0001", Name: "left", Account: gate.Deactivated}, // whose press was still under way
		slacktest.BotUser: {ID: "slack:" + slacktest.Team + "/" + slacktest.BotUser, Name: "approvalbot", Account: gate.Bot},
		"U0SISTER01":      {ID: "slack:" + slacktest.Team + "/U0SISTER01", Name: "sister"}, // of this workspace and another of its organisation
		"U0COUSIN01":      {ID: "slack:T0OTHER001/U0COUSIN01", Name: "cousin", Account: gate.Outsider},
	} {
		t.Run(user, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t, nil)
			d.press("U0AAAAAA1", "approve", mangled(func(p map[string]any) {
				p["user"] = map[string]any{"id": user, "team_id": slacktest.Team}
			}))
			want.Surface, want.Login = "slack", "platform"
			d.mu.Lock()
			defer d.mu.Unlock()
			if len(d.clicks) != 1 {
				t.Fatalf("%d clicks", len(d.clicks))
			}
			if diff := cmp.Diff(want, d.clicks[0].Voter); diff != "" {
				t.Errorf("voter (-want +got):\n%s", diff)
			}
		})
	}
	t.Run("nobody can be looked up", func(t *testing.T) {
		t.Parallel()
		d := newDesk(t, nil)
		d.slack.FailNext("users.info", slacktest.ServerError)
		d.press("U0AAAAAA1", "approve", nil)
		d.wantNone()
		if got := d.told("U0AAAAAA1"); !strings.Contains(got, "Nothing was decided; press again.") {
			t.Errorf("told %q", got)
		}
		d.press("U0AAAAAA1", "approve", nil) // the failure is not remembered
		d.wantClick(channels.Click{Choice: gate.Approve})
		d.press("U0AAAAAA1", "approve", nil)
		if n := len(d.slack.Calls("users.info")); n != 2 {
			t.Errorf("%d look-ups, want the failed one and one more", n)
		}
	})
}

// TestForgedPressesDecideNothing sends what Slack did not sign, or did not mean
// for this app.
func TestForgedPressesDecideNothing(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*slacktest.Click){
		"signed by somebody else": func(k *slacktest.Click) { k.Forged = slacktest.WrongSecret },
		"not signed":              func(k *slacktest.Click) { k.Forged = slacktest.Unsigned },
		"signed long ago":         func(k *slacktest.Click) { k.Forged = slacktest.OldTimestamp },
		"changed after signing":   func(k *slacktest.Click) { k.Forged = slacktest.BodyChanged },
		"beside the signed bytes": func(k *slacktest.Click) { k.Forged = slacktest.PayloadInQuery },
		"two payloads":            func(k *slacktest.Click) { k.Forged = slacktest.TwoPayloads },
		"with ssl_check":          func(k *slacktest.Click) { k.Forged = slacktest.SSLCheck },
		"for another app":         mangled(func(p map[string]any) { p["api_app_id"] = "A0OTHER001" }),
		"by nobody":               mangled(func(p map[string]any) { p["user"] = map[string]any{} }),
		"of two buttons":          mangled(func(p map[string]any) { p["actions"] = append(p["actions"].([]any), p["actions"].([]any)...) }),
		"of no button":            mangled(func(p map[string]any) { p["actions"] = []any{} }),
		"of a button of no card":  mangled(func(p map[string]any) { p["actions"].([]any)[0].(map[string]any)["action_id"] = "run" }),
		"of no approval":          mangled(func(p map[string]any) { p["actions"].([]any)[0].(map[string]any)["value"] = "../../x" }),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t, nil)
			if o := d.press("U0AAAAAA1", "approve", change); o.Status == 200 {
				t.Errorf("answered %d", o.Status)
			}
			d.wantNone()
		})
	}
}

func mangled(f func(map[string]any)) func(*slacktest.Click) {
	return func(k *slacktest.Click) { k.Mangle = f }
}

// TestAnUnknownBlockLosesNoPress has a message that slack-go cannot read.
func TestAnUnknownBlockLosesNoPress(t *testing.T) {
	t.Parallel()
	d := newDesk(t, nil)
	d.press("U0AAAAAA1", "approve", mangled(func(p map[string]any) {
		p["message"] = map[string]any{"blocks": []any{map[string]any{"type": "actions", "elements": []any{map[string]any{"type": "new_thing"}}}, map[string]any{"type": "section", "text": 7}}}
		p["team"] = nil
	}))
	d.wantClick(channels.Click{Choice: gate.Approve})
}

func FuzzReceive(f *testing.F) {
	f.Add([]byte(`{"type":"block_actions","api_app_id":"A1","user":{"id":"U1"},"actions":[{"action_id":"approve","value":"apr_01JNV4X3T2E6Q1Y5Z8A9B0C1D2"}]}`))
	f.Add([]byte(`{"type":"view_submission","api_app_id":"A1","user":{"id":"U1"},"view":{"callback_id":"deny","private_metadata":"{}"}}`))
	f.Fuzz(func(t *testing.T, payload []byte) {
		c := slack.New(slack.Config{BotToken: secret.New("x"), APIURL: "http://127.0.0.1:1/"})
		p := &slack.Presses{Slack: c, Log: slog.New(slog.DiscardHandler), Press: func(context.Context, channels.Click) string {
			t.Error("somebody decided whom nobody could look up")
			return ""
		}}
		_, _ = p.Receive(t.Context(), payload)
		p.Wait()
	})
}

// TestAPressOfAnotherAppBeforeOursIsKnown comes right after a start.
func TestAPressOfAnotherAppBeforeOursIsKnown(t *testing.T) {
	t.Parallel()
	d := newDesk(t, nil)
	d.presses.Slack = slack.New(slack.Config{BotToken: secret.New(slacktest.BotToken), APIURL: d.slack.URL() + "/api/"})
	d.press("U0AAAAAA1", "approve", mangled(func(p map[string]any) { p["api_app_id"] = "A0OTHER001" }))
	d.wantNone()
	d.press("U0AAAAAA1", "approve", nil)
	d.wantClick(channels.Click{Choice: gate.Approve})
}

// TestManyPressesTakeFewLookUps: two people decide on a thousand approvals.
func TestManyPressesTakeFewLookUps(t *testing.T) {
	t.Parallel()
	d := newDesk(t, nil)
	d.slack.AddUser(slacktest.User{ID: "U0AAAAAA2", Name: "bob"})
	first, err := d.slack.Click(t.Context(), slacktest.Click{User: "U0AAAAAA1", Channel: ops, TS: d.ref.Message, Action: "approve"})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 1000 {
		payload := bytes.ReplaceAll(first.Payload, []byte(`"id":"U0AAAAAA1"`), fmt.Appendf(nil, `"id":"U0AAAAAA%d"`, 1+i%2))
		payload = bytes.ReplaceAll(payload, []byte(first.ResponseURL), nil)
		if _, err := d.presses.Receive(t.Context(), payload); err != nil {
			t.Fatal(err)
		}
		if i%50 == 0 {
			d.presses.Wait()
		}
	}
	d.presses.Wait()
	if len(d.clicks) != 1001 {
		t.Errorf("%d clicks", len(d.clicks))
	}
	looks := len(d.slack.Calls("users.info")) + len(d.slack.Calls("auth.test")) + len(d.slack.Calls("bots.info"))
	if looks >= 50 {
		t.Errorf("%d look-ups", looks)
	}
}

// TestWhatIsNoStoredCard: an ephemeral message, or a view, is none of an approval's
// cards, whatever it says.
func TestWhatIsNoStoredCard(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(map[string]any){
		"ephemeral": func(p map[string]any) { p["container"].(map[string]any)["is_ephemeral"] = true },
		"a view":    func(p map[string]any) { p["view"] = map[string]any{"id": "V1", "type": "modal"} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t, nil)
			d.press("U0AAAAAA1", "approve", mangled(change))
			d.mu.Lock()
			defer d.mu.Unlock()
			if len(d.clicks) != 1 || d.clicks[0].Ours {
				t.Errorf("it became %+v", d.clicks)
			}
		})
	}
}

// TestAnAddressIsPassedOnWhereSlackVouchesForIt: what another company verified, what
// nobody did, and what the bot may not read is no address.
func TestAnAddressIsPassedOnWhereSlackVouchesForIt(t *testing.T) {
	t.Parallel()
	scopes := []string{"chat:write", "commands", "im:write", "users:read", "channels:read", "users:read.email"}
	for name, tt := range map[string]struct {
		user   slacktest.User
		scopes []string
		want   string
	}{
		"a member":                      {slacktest.User{Email: "Kim@Example.com"}, scopes, "kim@example.com"},
		"a guest":                       {slacktest.User{Email: "kim@example.com", Restricted: true}, scopes, "kim@example.com"},
		"one who has not confirmed it":  {slacktest.User{Email: "kim@example.com", Unconfirmed: true}, scopes, ""},
		"somebody of another workspace": {slacktest.User{Email: "kim@example.com", Team: "T0OTHER001"}, scopes, ""},
		"one without":                   {slacktest.User{}, scopes, ""},
		"a bot that may not read it":    {slacktest.User{Email: "kim@example.com"}, scopes[:5], ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDeskWith(t, slacktest.Config{Scopes: tt.scopes}, nil)
			tt.user.ID, tt.user.Name = "U0KIM00001", "kim"
			d.slack.AddUser(tt.user)
			d.press("U0AAAAAA1", "approve", mangled(func(p map[string]any) {
				p["user"] = map[string]any{"id": tt.user.ID, "team_id": slacktest.Team}
			}))
			d.mu.Lock()
			defer d.mu.Unlock()
			if len(d.clicks) != 1 || d.clicks[0].Voter.Email != tt.want {
				t.Errorf("clicks %+v, want one with the address %q", d.clicks, tt.want)
			}
		})
	}
}
