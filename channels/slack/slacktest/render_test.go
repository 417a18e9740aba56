package slacktest_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/slack-go/slack"

	"github.com/approvalbot/approvalbot/channels/slack/slacktest"
)

func TestReadingACard(t *testing.T) {
	t.Parallel()
	w := newWorld(t, slacktest.Config{})
	marked := func(s string) *slack.TextBlockObject {
		return slack.NewTextBlockObject(slack.MarkdownType, s, false, false)
	}
	args := &slack.RichTextPreformatted{Type: slack.RTEPreformatted, Elements: []slack.RichTextSectionElement{
		slack.NewRichTextSectionTextElement("{\n  \"a\": \"<!channel>\"\n}", nil),
	}}
	_, ts := w.post(t, ops, slack.MsgOptionText("Approval needed: a < b", true), slack.MsgOptionBlocks(
		slack.NewHeaderBlock(label1("Approval needed")),
		slack.NewSectionBlock(marked("<https://example.com|docs> &lt;b&gt; <#C1> <!date^1^{date}|today>"), []*slack.TextBlockObject{label1("field")}, nil),
		slack.NewRichTextBlock("args", args),
		slack.NewDividerBlock(),
		slack.NewContextBlock("", label1("by billing"), slack.NewImageBlockElement("https://example.com/a.png", "a face")),
		slack.NewActionBlock("decision", slack.NewButtonBlockElement("a", "1", label1("Approve")), slack.NewButtonBlockElement("d", "1", label1("Deny"))),
		slack.NewMarkdownBlock("", "**own** text"),
	))
	m, _ := w.Message(ops, ts)
	want := `(Approval needed: a < b)
# Approval needed
docs (https://example.com) <b> #C1 today
- field
| {
|   "a": "<!channel>"
| }
---
by billing · (picture: a face)
[Approve] [Deny]
**own** text`
	if diff := cmp.Diff(want, m.Read()); diff != "" {
		t.Error(diff)
	}
	if calls := m.Notifies(); len(calls) > 0 {
		t.Errorf("the card calls %v", calls)
	}
}

func TestWhoIsCalled(t *testing.T) {
	t.Parallel()
	const evil = "<!channel> <@U0AAAAAA1> <!subteam^S0AAAAAA1|@sre> <!here|x> @ada"
	all := []string{"!channel", "!here", "!subteam^S0AAAAAA1", "@U0AAAAAA1"}
	rich := func(parts ...slack.RichTextSectionElement) slack.MsgOption {
		return slack.MsgOptionBlocks(slack.NewRichTextBlock("r", slack.NewRichTextSection(parts...)))
	}
	tests := map[string]struct {
		say  slack.MsgOption
		want []string
	}{
		"text":             {text(evil), all},
		"escaped text":     {slack.MsgOptionText(evil, true), nil},
		"mrkdwn":           {slack.MsgOptionBlocks(slack.NewSectionBlock(slack.NewTextBlockObject(slack.MarkdownType, evil, false, true), nil, nil)), all},
		"plain text":       {slack.MsgOptionBlocks(slack.NewSectionBlock(label1(evil), nil, nil)), nil},
		"a header":         {slack.MsgOptionBlocks(slack.NewHeaderBlock(label1(evil))), nil},
		"a button":         {slack.MsgOptionBlocks(slack.NewActionBlock("", slack.NewButtonBlockElement("a", evil, label1(evil)))), nil},
		"a context":        {slack.MsgOptionBlocks(slack.NewContextBlock("", slack.NewTextBlockObject(slack.MarkdownType, evil, false, false))), all},
		"a field":          {slack.MsgOptionBlocks(slack.NewSectionBlock(nil, []*slack.TextBlockObject{slack.NewTextBlockObject(slack.MarkdownType, evil, false, false)}, nil)), all},
		"markdown":         {slack.MsgOptionBlocks(slack.NewMarkdownBlock("", evil)), all},
		"an attachment":    {slack.MsgOptionAttachments(slack.Attachment{Text: evil}), all},
		"rich text":        {rich(slack.NewRichTextSectionTextElement(evil, nil)), nil},
		"a rich user":      {rich(slack.NewRichTextSectionUserElement("U0AAAAAA1", nil)), []string{"@U0AAAAAA1"}},
		"a rich broadcast": {rich(slack.NewRichTextSectionBroadcastElement("here")), []string{"!here"}},
		"a rich group":     {rich(slack.NewRichTextSectionUserGroupElement("S0AAAAAA1")), []string{"!subteam^S0AAAAAA1"}},
		"a rich link":      {rich(slack.NewRichTextSectionLinkElement("https://example.com", evil, nil)), nil},
		"odd markup":       {text("<> <|> <!> < @U1> <@>"), []string{"!", "@"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, slacktest.Config{})
			_, ts := w.post(t, ops, tt.say)
			m, _ := w.Message(ops, ts)
			if diff := cmp.Diff(tt.want, m.Notifies()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestNamesAreLookedUpOnlyWhenAsked(t *testing.T) {
	t.Parallel()
	w := newWorld(t, slacktest.Config{NoRateLimits: true})
	for name, tt := range map[string]struct {
		option slack.MsgOption
		want   []string
	}{
		"link_names":              {slack.MsgOptionLinkNames(true), []string{"@ada", "@channel"}},
		"parse=full":              {slack.MsgOptionParse(true), []string{"@ada", "@channel"}},
		"parse=none":              {slack.MsgOptionParse(false), nil},
		"link_names switched off": {slack.MsgOptionLinkNames(false), nil},
	} {
		_, ts := w.post(t, ops, text("@ada and @channel"), tt.option)
		m, _ := w.Message(ops, ts)
		if diff := cmp.Diff(tt.want, m.Notifies()); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		// An update without the option forgets it.
		if _, _, _, err := w.api.UpdateMessageContext(t.Context(), ops, ts, text("@ada")); err != nil {
			t.Fatal(err)
		}
		if m, _ := w.Message(ops, ts); len(m.Notifies()) > 0 {
			t.Errorf("%s: after an update %v", name, m.Notifies())
		}
	}
}

func TestListsAndQuotesAndParts(t *testing.T) {
	t.Parallel()
	section := slack.NewRichTextSection(
		slack.NewRichTextSectionTextElement("see ", nil), slack.NewRichTextSectionLinkElement("https://example.com", "here", nil),
		slack.NewRichTextSectionEmojiElement("wave", 0, nil), slack.NewRichTextSectionChannelElement("C0AAAAAA1", nil),
		slack.NewRichTextSectionUserElement("U0AAAAAA1", nil),
	)
	w := newWorld(t, slacktest.Config{})
	_, ts := w.post(t, ops, slack.MsgOptionBlocks(slack.NewRichTextBlock("r",
		slack.NewRichTextList(slack.RTEListBullet, 0, section),
		&slack.RichTextQuote{Type: slack.RTEQuote, Elements: []slack.RichTextSectionElement{slack.NewRichTextSectionTextElement("a\nb", nil)}},
	)))
	m, _ := w.Message(ops, ts)
	want := "()\n- see here (https://example.com):wave:#C0AAAAAA1@U0AAAAAA1\n| a\n| b"
	if diff := cmp.Diff(want, m.Read()); diff != "" {
		t.Error(diff)
	}
	if strings.Join(m.Notifies(), " ") != "@U0AAAAAA1" {
		t.Errorf("calls %v", m.Notifies())
	}
}
