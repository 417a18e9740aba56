package mattermost_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/approvalbot/approvalbot/channels"
	"github.com/approvalbot/approvalbot/channels/channeltest"
	"github.com/approvalbot/approvalbot/channels/mattermost"
	"github.com/approvalbot/approvalbot/channels/mattermost/mattermosttest"
	"github.com/approvalbot/approvalbot/gate"
	"github.com/approvalbot/approvalbot/gate/secret"
)

// desk is a bot that is called by a server, and remembers what it was asked for.
type desk struct {
	t    testing.TB
	s    *mattermosttest.Server
	m    *mattermost.Mattermost
	url  string
	mux  *http.ServeMux
	kept once
	log  logged

	mu     sync.Mutex
	clicks []channels.Click
	card   *channels.Card
	away   error // of the store
	refuse error // of the gate
}

func newDesk(t testing.TB, c mattermosttest.Config, change func(*mattermost.Config)) *desk {
	t.Helper()
	mux := http.NewServeMux()
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	return deskOn(t, c, change, mux, srv)
}

// inBubble is a desk on a network without a machine, for bubbles of time. Nobody has
// an address there.
func inBubble(t testing.TB) *desk {
	t.Helper()
	mux, bot, mm := http.NewServeMux(), mattermosttest.NewPipes(), mattermosttest.NewPipes()
	srv := httptest.NewUnstartedServer(mux)
	_ = srv.Listener.Close()
	srv.Listener = bot
	srv.Start()
	t.Cleanup(srv.Close)
	return deskOn(t, mattermosttest.Config{Listener: mm, Dial: bot.Dial}, func(c *mattermost.Config) {
		c.HTTP = &http.Client{Transport: &http.Transport{DialContext: mm.Dial, DisableKeepAlives: true}}
	}, mux, srv)
}

func deskOn(t testing.TB, c mattermosttest.Config, change func(*mattermost.Config), mux *http.ServeMux, srv *httptest.Server) *desk {
	t.Helper()
	d := &desk{t: t, s: server(t, c), mux: mux, card: channeltest.Waiting()}
	d.card.Digest = gate.Digest{1, 2, 3}
	config := mattermost.Config{URL: d.s.URL(), Token: secret.New(mattermosttest.BotToken), CallbackURL: srv.URL}
	if change != nil {
		change(&config)
	}
	d.url, d.m = srv.URL, mattermost.New(config)
	log := slog.New(slog.NewJSONHandler(&d.log, nil))
	d.m.Keys, d.m.Log = keys(t), log
	presses := &mattermost.Presses{Mattermost: d.m, Press: d.press, Kept: &d.kept, Log: log, Card: d.read}
	mux.Handle(mattermost.ActionsPath, presses)
	mux.Handle(mattermost.DialogsPath, mattermost.Dialogs{Presses: presses})
	mux.Handle(mattermost.CommandsPath, &mattermost.Commands{Mattermost: d.m, Run: d.run, Log: log})
	return d
}

// known lets presses be decided without a second look.
func known(c *mattermost.Config) { c.CallbackAllow = []string{"127.0.0.0/8", "::1"} }

func (d *desk) press(_ context.Context, k channels.Click) (string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.refuse != nil {
		return gate.PublicText(d.refuse), d.refuse
	}
	d.clicks = append(d.clicks, k)
	return "Recorded (1 of 2).", nil
}

func (d *desk) read(context.Context, gate.ID) (*channels.Card, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.card, d.away
}

func (d *desk) run(_ context.Context, c channels.Command) channels.Answer {
	return channels.Answer{Lines: []string{c.Voter.ID + " in " + c.Place + " typed " + c.Text}}
}

// post posts the card.
func (d *desk) post() channels.Ref {
	d.t.Helper()
	ref, err := d.m.Post(d.t.Context(), gate.Conversation{Place: "mattermost:" + ops}, d.card)
	if err != nil {
		d.t.Fatal(err)
	}
	return ref
}

// presses presses a button, and returns what the presser sees.
func (d *desk) presses(user, post, action string) mattermosttest.Outcome {
	d.t.Helper()
	o, err := d.s.Press(d.t.Context(), mattermosttest.Press{User: user, Post: post, Action: action})
	if err != nil {
		d.t.Fatal(err)
	}
	return o
}

// told has ann press a button, who is told something, with 200.
func (d *desk) told(post, action, want string) {
	d.t.Helper()
	o := d.presses(ann, post, action)
	if o.Status != http.StatusOK || len(o.Ephemerals) != 1 || !strings.Contains(o.Ephemerals[0], want) {
		d.t.Errorf("ann presses %s and is told %d %q, want %q", action, o.Status, o.Ephemerals, want)
	}
}

// dialog is the one that ann has open.
func (d *desk) dialog() mattermosttest.Dialog {
	d.t.Helper()
	all := d.s.Dialogs(ann)
	if len(all) != 1 {
		d.t.Fatalf("ann has %d dialogs open", len(all))
	}
	return all[0]
}

// submits has ann send a dialog off.
func (d *desk) submits(dialog mattermosttest.Dialog, values map[string]any) mattermosttest.Answered {
	d.t.Helper()
	a, err := d.s.Submit(d.t.Context(), mattermosttest.Submission{User: ann, Dialog: dialog, Values: values})
	if err != nil {
		d.t.Fatal(err)
	}
	return a
}

// decided returns what has been decided since it was last asked.
func (d *desk) decided() []channels.Click {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := d.clicks
	d.clicks = nil
	return all
}

// nothing wants nothing to have been decided.
func (d *desk) nothing() {
	d.t.Helper()
	if all := d.decided(); len(all) > 0 {
		d.t.Errorf("decided: %+v", all)
	}
}

// one wants one decision of somebody.
func (d *desk) one(user string, choice gate.Choice) channels.Click {
	d.t.Helper()
	all := d.decided()
	if len(all) != 1 || all[0].Voter.ID != "mattermost:"+user || all[0].Choice != choice {
		d.t.Fatalf("decided: %+v, want %s by %s", all, choice, user)
	}
	return all[0]
}

// sends sends what looks like a press, but does not come from Mattermost.
func (d *desk) sends(body map[string]any) (status int, answer string) {
	d.t.Helper()
	status, raw, err := d.s.Forge(d.t.Context(), d.url+mattermost.ActionsPath, body)
	if err != nil {
		d.t.Fatal(err)
	}
	return status, string(raw)
}

// copied is what a press of ann's brings, as everybody in the conversation could
// write it.
func (d *desk) copied(trigger string, ref channels.Ref, action string) map[string]any {
	d.t.Helper()
	p, ok := d.s.Post(ref.Message)
	if !ok {
		d.t.Fatal("no such post")
	}
	return map[string]any{
		"user_id": ann, "user_name": "x", "channel_id": ops, "post_id": ref.Message, "trigger_id": trigger, "type": "button", "context": p.Context(action),
	}
}

// once remembers in memory what was used.
type once struct {
	gate.Presses
	mu   sync.Mutex
	used map[string]bool
	away bool
}

func (o *once) Once(_ context.Context, what string, within time.Duration) (bool, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.away {
		return false, &gate.Error{Kind: gate.Unavailable, Reason: gate.ReasonStoreUnavailable, Err: errors.New("no store")}
	}
	if within <= 0 {
		return false, errors.New("for no time")
	}
	if o.used == nil {
		o.used = map[string]bool{}
	}
	first := !o.used[what]
	o.used[what] = true
	return first, nil
}

func (o *once) forget() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.used = nil
}

// logged is a log.
type logged struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logged) holds(s string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.text.String(), s)
}
