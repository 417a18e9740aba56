package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"flag"
	"html"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/approvalbot/approvalbot/channels"
	"github.com/approvalbot/approvalbot/channels/mattermost"
	"github.com/approvalbot/approvalbot/channels/mattermost/mattermosttest"
	"github.com/approvalbot/approvalbot/gate"
	"github.com/approvalbot/approvalbot/gate/secret"
)

// looksIn keeps what the bot posts, for the preview.
var looksIn = flag.String("looks", "", "a folder to write what the bot posts into")

const (
	ann = "9ann3bht5jykx7qcm1rz8dwuea"
	ops = "7ops4fdt77pncbef59f4k1qe83"
)

func waiting() *channels.Card {
	digest := gate.Digest(sha256.Sum256([]byte("kubectl_apply")))
	return &channels.Card{
		Approval: "apr_01JNV4X3T2E6Q1Y5Z8A9B0C1D2", Rev: 1, Digest: digest,
		Notification: "Approval needed: claude → kubectl_apply on prod/web, by 03:27 UTC (0/2)",
		Title:        "claude wants to run kubectl_apply", Target: "prod/web", Server: "k8s-prod",
		Facts:  []channels.Fact{{Name: "Key", Value: "hermes"}, {Name: "Rule", Value: "prod-kubectl"}, {Name: "Decided by", Value: "sre (6)"}, {Name: "Call", Value: digest.Short()}},
		Intent: "scale the shop back up", Args: "{\n  \"namespace\": \"shop\",\n  \"replicas\": 3\n}",
		Line: "Waiting for 2 of 2 (sre)", Silence: "If nobody decides by 03:27 UTC: not run.",
		Link: "https://approvals.example.com/console/approvals/apr_01JNV4X3T2E6Q1Y5Z8A9B0C1D2", Approve: true, Deny: true, Ask: true,
	}
}

// highRisk has all that a card can say.
func highRisk() *channels.Card {
	c := waiting()
	c.Title, c.Target, c.Server, c.Risk = "claude wants to run kubectl_delete", "prod-eu-west-1/payments-api", "k8s-prod-eu-west-1", "high"
	c.Args = "{\n  \"force\": true,\n  \"kind\": \"Pod\",\n  \"patch\": \"{\\\"metadata\\\":{\\\"finalizers\\\":null}}\"\n}"
	c.Warning = "Redis failed over at 03:11 UTC; a decision may have been lost and this may already have run."
	c.Refused = `The same call was refused before: Denied by Bo 3 Mar 2026 07:12 UTC: "wrong cluster"`
	c.Dialogue = "Bo asks: \"is anybody draining that node?\"\nAnswer: \"No. The node ip-10-0-3-7 is healthy.\""
	c.Scopes = []channels.Choice{
		{Scope: gate.Once, Name: "Once", Covers: "this call", Lasts: "this time"},
		{Scope: gate.Session, Name: "This session", Covers: "any kubectl_delete on prod-eu-west-1/payments-api", Lasts: "only while this session lasts"},
	}
	c.Confirm, c.Redacted = "I have read the arguments. This is high risk.", true
	return c
}

// edit changes a text, and has more arguments than fit.
func edit() *channels.Card {
	c := waiting()
	c.Title, c.Target, c.Server, c.Risk = "claude wants to run edit_file", "shop/deploy", "git", "high"
	c.Args = "{\n  \"old_string\": \"replicas: 3\",\n  \"new_string\": \"replicas: 30\",\n  \"comment\": \"" + strings.Repeat("the shop sells a lot, ", 200) + "\"\n}"
	c.Diff = "--- old_string\n+++ new_string\n@@ -1,3 +1,3 @@\n spec:\n-  replicas: 3\n+  replicas: 30\n   image: shop:41"
	return c
}

func settled() *channels.Card {
	c := waiting()
	c.Rev, c.Approve, c.Deny, c.Ask, c.Silence, c.Settled = 3, false, false, false, "", true
	c.Line = `Denied by ann at 03:26 UTC: "wrong cluster"`
	c.Notification = c.Title + ". " + c.Line
	return c
}

// hostile has in every text what one of the apps would act on, were it parsed there.
func hostile() *channels.Card {
	const bad = "a** @channel [Approve here](https://evil.example) ![](https://evil.example/x.png) :tada: ` ``` # ~town-square www.evil.example **b"
	c := highRisk()
	c.Notification, c.Title, c.Intent, c.Line, c.Warning, c.Refused = bad, bad, bad+"\n# Approved", bad, bad, bad
	c.Tool, c.Target, c.Server, c.Risk, c.Dialogue, c.Silence = bad, bad, bad, bad, bad+"\n- x\n> y", bad
	c.Args, c.Diff = "{\n  \"x\": \""+bad+"\",\n  \"y\": \"```\"\n}", "--- a\n+++ b\n@@ -1 +1 @@\n-```\n+"+bad+"\n````"
	c.Facts = []channels.Fact{{Name: "For", Value: bad}}
	c.Scopes[1].Covers, c.Confirm = bad, bad
	return c
}

// desk is the bot on a server that calls it.
type desk struct {
	t    *testing.T
	s    *mattermosttest.Server
	m    *mattermost.Mattermost
	card *channels.Card
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	d := &desk{t: t, s: mattermosttest.New(t, mattermosttest.Config{})}
	d.s.AddUser(mattermosttest.User{ID: ann, Username: "ann"})
	d.s.AddChannel(mattermosttest.Channel{ID: ops, Name: "ops", Team: mattermosttest.Team, Type: "P", Members: []string{ann, mattermosttest.BotUser}})
	keys, err := gate.NewKeyring(secret.New(strings.Repeat("k", gate.MinServerKey)))
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	d.m = mattermost.New(mattermost.Config{URL: d.s.URL(), Token: secret.New(mattermosttest.BotToken), CallbackURL: srv.URL})
	d.m.Keys = keys
	presses := &mattermost.Presses{
		Mattermost: d.m, Kept: everything{}, Log: slog.New(slog.DiscardHandler),
		Card: func(context.Context, gate.ID) (*channels.Card, error) { return d.card, nil },
	}
	mux.Handle(mattermost.ActionsPath, presses)
	return d
}

// everything is new to it.
type everything struct{ gate.Presses }

func (everything) Once(context.Context, string, time.Duration) (bool, error) { return true, nil }

// shows writes something down as the preview reads it, and draws it.
func (d *desk) shows(name string, v any) (page string) {
	d.t.Helper()
	dir := *looksIn
	if dir == "" {
		dir = d.t.TempDir()
	}
	file := filepath.Join(dir, name+".json")
	raw, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		d.t.Fatal(err)
	}
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		d.t.Fatal(err)
	}
	drawn, err := draw([]string{file}, true, 700)
	if err != nil {
		d.t.Error(err)
	}
	return html.UnescapeString(string(drawn))
}

// opens presses a button and returns the dialog that it opens.
func (d *desk) opens(post, action string) map[string]any {
	d.t.Helper()
	if _, err := d.s.Press(d.t.Context(), mattermosttest.Press{User: ann, Post: post, Action: action}); err != nil {
		d.t.Fatal(err)
	}
	all := d.s.Dialogs(ann)
	if len(all) == 0 {
		d.t.Fatalf("%s opens no dialog", action)
	}
	got := all[len(all)-1]
	var elements []map[string]any
	for _, e := range got.Elements {
		var options []map[string]any
		for _, text := range e.Texts {
			options = append(options, map[string]any{"text": text})
		}
		elements = append(elements, map[string]any{
			"display_name": e.Label, "type": e.Type, "help_text": e.Help, "placeholder": e.Placeholder, "optional": e.Optional, "options": options,
		})
	}
	return map[string]any{"dialog": map[string]any{"title": got.Title, "introduction_text": got.Intro, "submit_label": got.Submit, "elements": elements}}
}

// TestTheAppsShowWhatTheBotWrites posts cards and opens dialogs, and reads them as the
// apps do: all of the call is there, and nothing in it is more than words.
func TestTheAppsShowWhatTheBotWrites(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]*channels.Card{
		"waiting": waiting(), "high-risk": highRisk(), "edit": edit(), "settled": settled(), "hostile": hostile(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			d.card = c
			ref, err := d.m.Post(t.Context(), gate.Conversation{Place: "mattermost:" + ops}, c)
			if err != nil {
				t.Fatal(err)
			}
			post, _ := d.s.Post(ref.Message)
			page := d.shows(name, map[string]any{"message": post.Message, "props": post.Props})
			args, _, _ := strings.Cut(c.Args, "\n  \"comment\"")
			for line := range strings.Lines(args) {
				if line = strings.TrimSpace(line); !strings.Contains(page, line) {
					t.Errorf("the card lacks %s", line)
				}
			}
			if c.Settled {
				return
			}
			for _, action := range []string{"approve", "deny", "ask"} {
				if page := d.shows(name+"-"+action, d.opens(ref.Message, action)); !strings.Contains(page, c.Target[:min(20, len(c.Target))]) {
					t.Errorf("the dialog of %s does not say what it is about", action)
				}
			}
		})
	}
}
