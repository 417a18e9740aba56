package slack

import (
	"crypto/sha256"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	api "github.com/slack-go/slack"

	"github.com/approvalbot/approvalbot/channels"
	"github.com/approvalbot/approvalbot/channels/slack/slacktest"
	"github.com/approvalbot/approvalbot/gate"
)

var update = flag.Bool("update", false, "write golden files")

// card is a question that waits.
func card() *channels.Card {
	return &channels.Card{
		Approval: "apr_01JNV4X3T2E6Q1Y5Z8A9B0C1D2", Rev: 1,
		Notification: "Approval needed: claude → kubectl_apply on prod/web, by 03:27 UTC (0/2)",
		Title:        "claude wants to run kubectl_apply", Target: "prod/web", Server: "k8s-prod",
		Facts:  []channels.Fact{{Name: "Key", Value: "hermes"}, {Name: "Rule", Value: "prod-kubectl"}, {Name: "Decided by", Value: "sre (6)"}},
		Intent: "scale the shop back up", Args: "{\n  \"replicas\": 3\n}",
		Line: "Waiting for 2 of 2 (sre)", Silence: "If nobody decides by 03:27 UTC: not run.",
		Link: "https://approvals.example.com/console/approvals/apr_01JNV4X3T2E6Q1Y5Z8A9B0C1D2", Approve: true, Deny: true, Ask: true,
	}
}

func scoped() *channels.Card {
	c := card()
	c.Scopes = scopesOf("any kubectl_apply on prod/web")
	c.Confirm, c.Redacted, c.Warning = "I have read the arguments. This is high risk.", true, "Redis failed over at 03:12."
	return c
}

// scopesOf are all scopes, as the gate words them.
func scopesOf(covers string) []channels.Choice {
	return []channels.Choice{
		{Scope: gate.Once, Name: "Once", Covers: "this call", Lasts: "this time"},
		{Scope: gate.Session, Name: "This session", Covers: covers, Lasts: "only while this session lasts"},
		{Scope: gate.Always, Name: "Always", Covers: covers, Lasts: "later sessions too, until it expires or is revoked"},
	}
}

func settled() *channels.Card {
	c := card()
	c.Rev, c.Approve, c.Deny, c.Ask, c.Silence, c.Link, c.Settled = 3, false, false, false, "", "", true
	c.Line, c.Notification = `Denied by Ann 03:26: "wrong cluster"`, `claude wants to run kubectl_apply. Denied by Ann 03:26: "wrong cluster"`
	c.Dialogue = "Ann asks: \"why now?\"\nAnswer: \"the shop is down\""
	return c
}

// full has all that a card can say, in the words of a busy cluster.
func full() *channels.Card {
	c := card()
	c.Notification = "Approval needed: claude → kubectl_delete on prod-eu-west-1/payments-api, by 03:27 UTC (0/3)"
	c.Digest = sha256.Sum256([]byte("kubectl_delete"))
	c.Title, c.Target, c.Server, c.Risk = "claude wants to run kubectl_delete", "prod-eu-west-1/payments-api", "k8s-prod-eu-west-1", "high"
	c.Mention = []gate.Mention{{Platform: name, Kind: gate.KindUserGroup, ID: "S0ONCALL"}, {Platform: name, Kind: gate.KindUser, ID: "T0PARTNER/U0BO"}}
	c.Facts = []channels.Fact{
		{Name: "For", Value: "ann.example"},
		{Name: "Key", Value: "hermes"},
		{Name: "Rule", Value: "prod-kubectl"},
		{Name: "Decided by", Value: "sre (6), owners (2+)"},
		{Name: "Run", Value: "run-2026-03-04T03:11:58Z-7f3c"},
		{Name: "Call", Value: c.Digest.Short()},
	}
	c.Intent = "The pod has been in CrashLoopBackOff for 20 minutes and the deployment does not replace it. Deleting it lets the replica set make a new one."
	c.Args = "{\n  \"force\": true,\n  \"grace_period_seconds\": 0,\n  \"kind\": \"Pod\",\n  \"name\": \"payments-api-6d9f7c-x2x4q\",\n  \"namespace\": \"prod\",\n" +
		"  \"patch\": \"{\\\"metadata\\\":{\\\"finalizers\\\":null,\\\"annotations\\\":{\\\"payments.example.com/owner\\\":\\\"team-payments\\\"}}}\"\n}"
	c.Line, c.Silence = "Waiting for 2 of 2 (sre), 1 of 1 (owners)", "If nobody decides by 03:27 UTC: it stays open in #review until Saturday 03:12 UTC."
	c.Dialogue = "2 questions were asked; the last:\nBo asks: \"is anybody draining that node?\"\nAnswer: \"No. The node ip-10-0-3-7 is healthy and not cordoned.\""
	c.Refused = `The same call was refused before: Denied by Bo 3 Mar 2026 07:12 UTC: "wrong cluster"`
	c.Scopes = scopesOf("any kubectl_delete on prod-eu-west-1/payments-api")
	c.Confirm, c.Redacted, c.Warning = "I have read the arguments. This is high risk.", true, "Redis failed over at 03:11 UTC; a decision may have been lost and this may already have run."
	return c
}

// edit changes a text, and there is a question about it.
func edit() *channels.Card {
	c := card()
	c.Title, c.Target, c.Server, c.Intent = "claude wants to run edit_file", "shop/deploy", "git", "The shop needs more room on Friday."
	c.Notification = "Approval needed: claude → edit_file on shop/deploy, by 03:27 UTC (0/2)"
	c.Args = "{\n  \"path\": \"deploy/web.yaml\",\n  \"old_string\": \"spec:\\n  replicas: 3\\n  image: shop:41\\n\",\n  \"new_string\": \"spec:\\n  replicas: 30\\n  image: shop:41\\n\"\n}"
	c.Diff = "--- old_string\n+++ new_string\n@@ -1,3 +1,3 @@\n spec:\n-  replicas: 3\n+  replicas: 30\n   image: shop:41"
	c.Line = `Ann asks: "why thirty?", waiting for the agent's answer`
	c.Ask, c.Answer, c.Link = false, true, ""
	return c
}

const bad = "<!channel> <@U0AAAAAA1> <https://evil.example|Approve here> *bold* :white_check_mark: ``` & x"

// injected says in every text what Slack would act on, were it parsed.
func injected() *channels.Card {
	c := card()
	c.Notification, c.Title, c.Intent, c.Args, c.Line, c.Warning = bad, bad, bad, bad, bad, bad
	c.Tool, c.Target, c.Server, c.Risk, c.Diff, c.Dialogue, c.Silence, c.Refused = bad, bad, bad, bad, bad, bad, bad, bad
	c.Facts = []channels.Fact{{Name: "For", Value: bad}}
	c.Scopes, c.Confirm = scopesOf(bad), bad
	c.Mention = []gate.Mention{{Platform: name, Kind: gate.KindUser, ID: bad}, {Platform: name, Kind: bad, ID: "U1"}, {Platform: "mattermost", Kind: gate.KindUser, ID: "U0BO"}}
	return c
}

// long is too long everywhere.
func long() *channels.Card {
	c := card()
	c.Args, c.Title, c.Intent = strings.Repeat("é", 4000), strings.Repeat("t", 500), strings.Repeat("i", 5000)
	c.Tool, c.Target = strings.Repeat("delete_", 36), strings.Repeat("prod/", 51)
	return c
}

func TestRender(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]*channels.Card{
		"pending": card(), "scopes": scoped(), "settled": settled(), "injected": injected(), "long": long(), "full": full(), "edit": edit(), "late": late(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, blocks := render(c)
			golden(t, name, map[string]any{"text": text, "blocks": blocks})
		})
	}
}

func TestMinimal(t *testing.T) {
	t.Parallel()
	text, blocks := minimal(full())
	golden(t, "minimal", map[string]any{"text": text, "blocks": blocks})
	if got := fmt.Sprint(actions(blocks)); got != "[approve deny full open]" {
		t.Errorf("buttons %s", got)
	}
}

// golden compares what is sent to Slack with the file of that name.
func golden(t *testing.T, name string, sent any) {
	t.Helper()
	got, err := json.MarshalIndent(sent, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	got = append(got, '\n')
	file := filepath.Join("testdata", name+".json")
	if *update {
		if err := os.WriteFile(file, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("drawn otherwise (-want +got); -update takes it:\n%s", diff)
	}
}

// late is settled after a long question.
func late() *channels.Card {
	c := settled()
	c.Args, c.Line, c.Link = strings.Repeat("y", 5000), "Ran 03:28 UTC, ok (2.1 s)", card().Link
	c.Notification = c.Title + ". " + c.Line
	c.Mention = []gate.Mention{{Platform: name, Kind: gate.KindUser, ID: "U0BO"}}
	return c
}

// TestNothingAnAgentSaysIsParsed walks what is drawn: outside of plain_text and
// rich text no object may hold the agent's words, and the text for phones holds
// them escaped.
func TestNothingAnAgentSaysIsParsed(t *testing.T) {
	t.Parallel()
	_, few := minimal(injected())
	view, err := fullView(injected(), where{})
	if err != nil {
		t.Fatal(err)
	}
	text, blocks := render(injected())
	if strings.ContainsAny(text, "<>") {
		t.Errorf("phones are told %q", text)
	}
	all := []any{blocks, few, view}
	for action := range dialogs {
		m, err := modal(action, injected(), where{})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, m)
	}
	for _, drawn := range all {
		b, err := json.Marshal(drawn)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(b), `"mrkdwn"`) || strings.Contains(string(b), `"emoji":true`) || !strings.Contains(string(b), "evil.example") {
			t.Errorf("some text is parsed: %s", b)
		}
	}
}

func TestWhoIsCalled(t *testing.T) {
	t.Parallel()
	user := func(id string) gate.Mention { return gate.Mention{Platform: name, Kind: gate.KindUser, ID: id} }
	many := make([]gate.Mention, 50)
	for i := range many {
		many[i] = user(fmt.Sprintf("U%d", i))
	}
	for what, tt := range map[string]struct {
		mention []gate.Mention
		settled bool
		want    string
	}{
		"nobody":                        {},
		"a group and people":            {[]gate.Mention{{Platform: name, Kind: gate.KindUserGroup, ID: "S0ONCALL"}, user("U0ANN"), user("T0PARTNER/W0BO")}, false, "<!subteam^S0ONCALL> <@U0ANN> <@W0BO>"},
		"one only once":                 {[]gate.Mention{user("U1"), user("T1/U1")}, false, "<@U1>"},
		"nobody of another chat":        {[]gate.Mention{{Platform: "mattermost", Kind: gate.KindUser, ID: "U1"}}, false, ""},
		"what is no id":                 {[]gate.Mention{user("U1> <!channel"), user("!here"), user(""), {Platform: name, Kind: gate.KindUserGroup, ID: "S1|x"}}, false, ""},
		"what is no kind":               {[]gate.Mention{{Platform: name, Kind: gate.KindConversation, ID: "U1"}, {Platform: name, ID: "U1"}}, false, ""},
		"nobody once that is settled":   {[]gate.Mention{user("U1")}, true, ""},
		"not more than a card can hold": {many, false, callsTo(&channels.Card{Mention: many[:maxMentions]})},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			if got := callsTo(&channels.Card{Mention: tt.mention, Settled: tt.settled}); got != tt.want {
				t.Errorf("it calls %q, want %q", got, tt.want)
			}
		})
	}
}

// actions are the ids of what can be pressed.
func actions(blocks []api.Block) (all []string) {
	for _, b := range blocks {
		row, ok := b.(*api.ActionBlock)
		if !ok {
			continue
		}
		for _, e := range row.Elements.ElementSet {
			switch e := e.(type) {
			case *api.ButtonBlockElement:
				all = append(all, e.ActionID)
			case *api.SelectBlockElement:
				all = append(all, e.ActionID)
			}
		}
	}
	return all
}

func TestWhatCannotBeSeenHasAFullViewBesideIt(t *testing.T) {
	t.Parallel()
	with := func(change func(*channels.Card)) *channels.Card { c := card(); change(c); return c }
	for name, tt := range map[string]struct {
		card *channels.Card
		want string
	}{
		"all of it is there":     {card(), "[approve deny ask open]"},
		"long arguments":         {with(func(c *channels.Card) { c.Args = strings.Repeat("x", 1201) }), "[approve deny ask full open]"},
		"without a console":      {with(func(c *channels.Card) { c.Args, c.Link = strings.Repeat("x", 1201), "" }), "[approve deny ask full]"},
		"a long diff":            {with(func(c *channels.Card) { c.Diff = strings.Repeat("x", 1201) }), "[approve deny ask full open]"},
		"a long intent":          {with(func(c *channels.Card) { c.Intent = strings.Repeat("x", 601) }), "[approve deny ask full open]"},
		"a long answer":          {with(func(c *channels.Card) { c.Dialogue = strings.Repeat("x", 901) }), "[approve deny ask full open]"},
		"a target of six fold":   {with(func(c *channels.Card) { c.Target = strings.Repeat("x", 521) }), "[approve deny ask full open]"},
		"what measures six fold": {with(func(c *channels.Card) { c.Args, c.Diff = strings.Repeat("<", 1100), strings.Repeat("&", 1100) }), "[approve deny ask full open]"},
		"a question that waits":  {edit(), "[approve deny answer]"},
		"one that was approved":  {with(func(c *channels.Card) { c.Approve, c.Deny, c.Ask, c.TakeBack = false, false, false, true }), "[open take_back]"},
		"one that nobody knows of": {with(func(c *channels.Card) {
			c.Approve, c.Deny, c.Ask, c.Unsettled, c.Again = false, false, false, true, true
		}), "[open ran did_not_run run_again]"},
		"one with scopes":         {scoped(), "[approve deny ask open approve_for]"},
		"one that is settled":     {settled(), "[]"},
		"one that settled unseen": {late(), "[full open]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, blocks := render(tt.card)
			if got := fmt.Sprint(actions(blocks)); got != tt.want {
				t.Errorf("buttons %s, want %s", got, tt.want)
			}
		})
	}
}

// TestNobodyGrantsWhatTheyDidNotRead looks at the menu: what an approval for longer
// would cover is asked about whole, or it cannot be chosen.
func TestNobodyGrantsWhatTheyDidNotRead(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 290)
	for name, tt := range map[string]struct {
		scopes   []channels.Choice
		confirm  string
		offered  string
		question string
		missing  string
	}{
		"no choice":                   {},
		"only once":                   {scopes: scopesOf("x")[:1]},
		"a session":                   {scopes: scopesOf("any x")[:2], offered: "session", question: "Later calls then pass without asking:\nany x"},
		"all of them":                 {scopes: scopesOf("any x"), offered: "session always", question: "Later calls then pass without asking:\nany x"},
		"what is to be confirmed too": {scopes: scopesOf("any x"), confirm: "High risk.", offered: "session always", question: "High risk.\nLater calls then pass without asking:\nany x"},
		"what does not fit":           {scopes: scopesOf(long), missing: "This session, Always."},
		"what does not fit together": {
			scopes:  []channels.Choice{{Scope: gate.Session, Name: "S", Covers: "any x", Lasts: "a day"}, {Scope: gate.Always, Name: "A", Covers: long[:230], Lasts: "ever"}, {Scope: gate.Always, Name: "B", Covers: long, Lasts: "ever"}},
			offered: "session always", question: "Later calls then pass without asking:\nS: any x\nA: " + long[:230], missing: "B.",
		},
		"for how long does not fit": {scopes: []channels.Choice{{Scope: gate.Always, Name: "A", Covers: "x", Lasts: long}}, missing: "A."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			menu, missing := scopes(&channels.Card{Scopes: tt.scopes, Confirm: tt.confirm})
			if !strings.HasSuffix(missing, tt.missing) || (missing == "") != (tt.missing == "") {
				t.Errorf("missing: %q, want %q", missing, tt.missing)
			}
			list, ok := menu.(*api.SelectBlockElement)
			if !ok {
				if tt.offered != "" {
					t.Error("there is no menu")
				}
				return
			}
			var offered []string
			for _, o := range list.Options {
				offered = append(offered, o.Value)
				if o.Description.Text == "" || strings.Contains(o.Description.Text, " … ") {
					t.Errorf("%s lasts %q", o.Value, o.Description.Text)
				}
			}
			if got := strings.Join(offered, " "); got != tt.offered || list.Confirm.Text.Text != tt.question {
				t.Errorf("%s can be chosen and is asked %q, want %s and %q", got, list.Confirm.Text.Text, tt.offered, tt.question)
			}
		})
	}
	t.Run("and the card says what cannot be chosen", func(t *testing.T) {
		t.Parallel()
		c := card()
		c.Scopes = scopesOf(long)
		_, blocks := render(c)
		if got, _ := json.Marshal(blocks); !strings.Contains(string(got), "cannot be chosen here: This session, Always.") || strings.Contains(string(got), "static_select") {
			t.Errorf("it says %s", got)
		}
	})
}

// FuzzRender draws cards of any text: Slack's limits hold, and the text for phones
// holds no mention.
func FuzzRender(f *testing.F) {
	f.Add("title", "args", "intent", "line")
	f.Add("<!channel>", strings.Repeat("&", 9000), strings.Repeat("\U0001F468\u200d", 500), "")
	f.Add(strings.Repeat("<", 3000), strings.Repeat("<", 3000), strings.Repeat("<", 3000), strings.Repeat("<", 3000))
	f.Add(strings.Repeat(`\"`, 3000), strings.Repeat(`\"`, 3000), strings.Repeat("\x00", 3000), strings.Repeat("\n", 3000))
	f.Fuzz(func(t *testing.T, title, args, intent, line string) {
		c := scoped()
		c.Title, c.Notification, c.Args, c.Intent, c.Line, c.Warning = title, title+line, args, intent, line, intent
		c.Tool, c.Target, c.Server, c.Risk, c.Diff, c.Dialogue, c.Silence, c.Refused = title, args, line, line, args, intent, line, intent
		c.Facts = slices.Repeat([]channels.Fact{{Name: "For", Value: args}}, 12)
		c.Scopes, c.Confirm, c.Answer, c.TakeBack = scopesOf(line), full().Confirm, true, true
		c.Mention = slices.Repeat([]gate.Mention{{Platform: name, Kind: gate.KindUser, ID: "U0123456789"}, {Platform: name, Kind: gate.KindUser, ID: title}}, 20)
		for i := range c.Mention {
			c.Mention[i].ID += strings.Repeat("A", i%19)
		}
		for draw, drawn := range map[string]func(*channels.Card) (string, []api.Block){"whole": render, "minimal": minimal} {
			text, blocks := drawn(c)
			if strings.ContainsAny(text, "<>") || utf8.RuneCountInString(text) > 4000 {
				t.Errorf("%s: text for phones: %.200q", draw, text)
			}
			raw, err := json.Marshal(blocks)
			if err != nil {
				t.Fatal(err)
			}
			if n := utf8.RuneCount(raw); len(blocks) > 50 || n >= 12_000 {
				t.Errorf("%s: %d blocks of %d characters", draw, len(blocks), n)
			}
			if _, err := slacktest.CheckBlocks(raw); err != nil {
				t.Errorf("%s: %v", draw, err)
			}
		}
	})
}
