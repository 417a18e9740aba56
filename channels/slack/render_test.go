package slack

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	api "github.com/slack-go/slack"

	"github.com/approvalbot/approvalbot/channels"
	"github.com/approvalbot/approvalbot/gate"
)

var update = flag.Bool("update", false, "write golden files")

// card is a question that waits.
func card() *channels.Card {
	return &channels.Card{
		Approval: "apr_01JNV4X3T2E6Q1Y5Z8A9B0C1D2", Rev: 1,
		Notification: "Approval needed: claude → kubectl_apply on prod/web, by 03:27 UTC (0/2)",
		Title:        "claude wants to run kubectl_apply",
		Facts:        []channels.Fact{{Name: "Target", Value: "prod/web"}, {Name: "Rule", Value: "prod-kubectl"}, {Name: "Decided by", Value: "sre (6)"}},
		Intent:       "scale the shop back up", Args: "{\n  \"replicas\": 3\n}",
		Line: "Waiting for 2 of 2 (sre)", Silence: "If nobody decides by 03:27 UTC: not run.",
		Link: "https://approvals.example.com/console/approvals/apr_01JNV4X3T2E6Q1Y5Z8A9B0C1D2", Approve: true, Deny: true, Ask: true,
	}
}

func scoped() *channels.Card {
	c := card()
	c.Scopes = []channels.Choice{{Scope: gate.Once, Name: "Once", Covers: "this call, this time"}, {Scope: gate.Always, Name: "Always", Covers: "any kubectl_apply on prod/web"}}
	c.Confirm, c.Redacted, c.Warning = "I have read the arguments. This is high risk.", true, "Redis failed over at 03:12."
	return c
}

func settled() *channels.Card {
	c := card()
	c.Rev, c.Approve, c.Deny, c.Ask, c.Silence, c.Link = 3, false, false, false, "", ""
	c.Line, c.Notification = `Denied by Ann 03:26: "wrong cluster"`, `claude wants to run kubectl_apply. Denied by Ann 03:26: "wrong cluster"`
	return c
}

// full has all that a card can say, in the words of a busy cluster.
func full() *channels.Card {
	const covers = "any kubectl_delete on prod-eu-west-1/payments-api"
	c := card()
	c.Notification = "Approval needed: claude → kubectl_delete on prod-eu-west-1/payments-api, by 03:27 UTC (0/3)"
	c.Title = "claude wants to run kubectl_delete"
	c.Facts = []channels.Fact{
		{Name: "Target", Value: "prod-eu-west-1/payments-api"},
		{Name: "Server", Value: "k8s-prod-eu-west-1"},
		{Name: "For", Value: "ann.example"},
		{Name: "Run", Value: "run-2026-03-04T03:11:58Z-7f3c"},
		{Name: "Key", Value: "hermes"},
		{Name: "Rule", Value: "prod-kubectl"},
		{Name: "Risk", Value: "high"},
		{Name: "Decided by", Value: "sre (6), owners (2+)"},
		{Name: "Call", Value: "abbe71ee51c2"},
	}
	c.Intent = "The pod has been in CrashLoopBackOff for 20 minutes and the deployment does not replace it. Deleting it lets the replica set make a new one."
	c.Args = "{\n  \"force\": true,\n  \"grace_period_seconds\": 0,\n  \"kind\": \"Pod\",\n  \"name\": \"payments-api-6d9f7c-x2x4q\",\n  \"namespace\": \"prod\",\n" +
		"  \"patch\": \"{\\\"metadata\\\":{\\\"finalizers\\\":null,\\\"annotations\\\":{\\\"payments.example.com/owner\\\":\\\"team-payments\\\"}}}\"\n}"
	c.Line, c.Silence = "Waiting for 2 of 2 (sre), 1 of 1 (owners)", "If nobody decides by 03:27 UTC: it stays open in #review until Saturday 03:12 UTC."
	c.Scopes = []channels.Choice{
		{Scope: gate.Once, Name: "Once", Covers: "this call, this time"},
		{Scope: gate.Session, Name: "This session", Covers: covers + ", while session 0192f7c4-5b7e lasts"},
		{Scope: gate.Always, Name: "Always", Covers: covers + ", in later sessions too, until it expires or is revoked"},
	}
	c.Confirm, c.Redacted, c.Warning = "I have read the arguments. This is high risk.", true, "Redis failed over at 03:11 UTC; a decision may have been lost and this may already have run."
	return c
}

// injected says in every text what Slack would act on, were it parsed.
func injected() *channels.Card {
	const bad = "<!channel> <@U0AAAAAA1> <https://evil.example|Approve here> *bold* :white_check_mark: ``` & x"
	c := card()
	c.Notification, c.Title, c.Intent, c.Args, c.Line, c.Warning = bad, bad, bad, bad, bad, bad
	c.Facts = []channels.Fact{{Name: "Target", Value: bad}}
	return c
}

func long() *channels.Card {
	c := card()
	c.Args, c.Title, c.Intent = strings.Repeat("é", 4000), strings.Repeat("t", 500), strings.Repeat("i", 5000)
	return c
}

func TestRender(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]*channels.Card{
		"pending": card(), "scopes": scoped(), "settled": settled(), "injected": injected(), "long": long(), "full": full(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, blocks := render(c)
			golden(t, name, map[string]any{"text": text, "blocks": blocks})
		})
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

// TestNothingAnAgentSaysIsParsed walks what is drawn: outside of plain_text and
// preformatted text no object may hold the agent's words, and the text for phones
// holds them escaped.
func TestNothingAnAgentSaysIsParsed(t *testing.T) {
	t.Parallel()
	text, blocks := render(injected())
	if strings.ContainsAny(text, "<>") {
		t.Errorf("phones are told %q", text)
	}
	b, err := json.Marshal(blocks)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(b), `"mrkdwn"`) || strings.Contains(string(b), `"emoji":true`) {
		t.Errorf("some text is parsed: %s", b)
	}
}

func TestWhatCannotBeSeenCannotBeApproved(t *testing.T) {
	t.Parallel()
	actions := func(c *channels.Card) (all []string) {
		_, blocks := render(c)
		for _, b := range blocks {
			if row, ok := b.(*api.ActionBlock); ok {
				for _, e := range row.Elements.ElementSet {
					if button, ok := e.(*api.ButtonBlockElement); ok {
						all = append(all, button.ActionID)
					}
				}
			}
		}
		return all
	}
	whole, linked, alone := card(), long(), long()
	alone.Link = ""
	for want, c := range map[string]*channels.Card{
		"[approve deny ask open]": whole,
		"[deny ask]":              alone,
	} {
		if got := fmt.Sprint(actions(c)); got != want {
			t.Errorf("buttons %s, want %s", got, want)
		}
	}
	if got := fmt.Sprint(actions(linked)); got != "[approve deny ask open]" {
		t.Errorf("beside a full view: buttons %s", got)
	}
	narrow := scoped()
	narrow.Scopes[1].Covers = strings.Repeat("x", 76)
	if _, blocks := render(narrow); len(blocks[len(blocks)-1].(*api.ActionBlock).Elements.ElementSet) != 4 {
		t.Error("a scope whose description does not fit is offered")
	}
	if got := actions(settled()); got != nil {
		t.Errorf("a settled card has %v", got)
	}
}

// FuzzRender draws cards of any text: Slack's limits hold, and the text for phones
// holds no mention.
func FuzzRender(f *testing.F) {
	f.Add("title", "args", "intent", "line")
	f.Add("<!channel>", strings.Repeat("&", 9000), strings.Repeat("\U0001F468\u200d", 500), "")
	f.Fuzz(func(t *testing.T, title, args, intent, line string) {
		c := card()
		c.Title, c.Notification, c.Args, c.Intent, c.Line, c.Warning = title, title+line, args, intent, line, intent
		c.Facts = []channels.Fact{{Name: "Target", Value: args}}
		text, blocks := render(c)
		if strings.ContainsAny(text, "<>") || utf8.RuneCountInString(text) > 4000*5 {
			t.Errorf("text for phones: %.200q", text)
		}
		if len(blocks) > 50 {
			t.Errorf("%d blocks", len(blocks))
		}
		for _, b := range blocks {
			check(t, b)
		}
	})
}

func check(t *testing.T, b api.Block) {
	t.Helper()
	texts := map[*api.TextBlockObject]int{}
	switch b := b.(type) {
	case *api.HeaderBlock:
		texts[b.Text] = 150
	case *api.SectionBlock:
		if b.Text != nil {
			texts[b.Text] = 3000
		}
		for _, f := range b.Fields {
			texts[f] = 2000
		}
	case *api.ContextBlock:
		for _, e := range b.ContextElements.Elements {
			if text, ok := e.(*api.TextBlockObject); ok {
				texts[text] = 2000
			}
		}
	}
	for text, most := range texts {
		if n := utf8.RuneCountInString(text.Text); n < 1 || n > most {
			t.Errorf("%s text of %d characters, want 1 to %d", b.BlockType(), n, most)
		}
	}
}
