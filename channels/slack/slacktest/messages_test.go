package slacktest_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/slack-go/slack"

	"github.com/approvalbot/approvalbot/channels/slack/slacktest"
)

func TestPosting(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		channel string
		say     []slack.MsgOption
		want    string
	}{
		"text":                                {ops, []slack.MsgOption{text("hello")}, ""},
		"a card":                              {ops, card("apr_01"), ""},
		"a card in a private channel":         {secret, card("apr_01"), ""},
		"a card in a shared channel":          {shared, card("apr_01"), ""},
		"to a member":                         {ada, card("apr_01"), ""},
		"to a guest":                          {bob, card("apr_01"), ""},
		"a conversation that is not":          {"C0NONE", card("apr_01"), "channel_not_found"},
		"a private channel without the bot":   {private, card("apr_01"), "channel_not_found"},
		"a public channel without the bot":    {open, card("apr_01"), "not_in_channel"},
		"an archived channel":                 {archived, card("apr_01"), "is_archived"},
		"a channel where few may post":        {readOnly, card("apr_01"), "restricted_action_read_only_channel"},
		"to somebody who has left":            {gone, card("apr_01"), "channel_not_found"},
		"to a bot":                            {robot, card("apr_01"), "channel_not_found"},
		"to somebody whom the bot cannot see": {hidden, card("apr_01"), "channel_not_found"},
		"nothing":                             {ops, nil, "no_text"},
		"blanks":                              {ops, []slack.MsgOption{text("  ")}, "no_text"},
		"no blocks":                           {ops, []slack.MsgOption{slack.MsgOptionBlocks()}, "no_text"},
		"a reply to nothing":                  {ops, []slack.MsgOption{text("x"), slack.MsgOptionTS("1.000000")}, "cannot_reply_to_message"},
		"a hundred attachments":               {ops, []slack.MsgOption{attachments(100)}, ""},
		"too many attachments":                {ops, []slack.MsgOption{attachments(101)}, "too_many_attachments"},
	}
	w := newWorld(t, slacktest.Config{NoRateLimits: true})
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			channel, ts, err := w.api.PostMessageContext(t.Context(), tt.channel, tt.say...)
			if code(err) != tt.want {
				t.Fatalf("post = %v, want %q", err, tt.want)
			}
			if _, there := w.Message(channel, ts); there != (tt.want == "") {
				t.Errorf("message %s %s is there: %t", channel, ts, there)
			}
		})
	}
}

// What the client would not send.
func TestPostingArguments(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ key, value, want string }{
		"blocks that are no JSON":      {"blocks", "[", "invalid_blocks_format"},
		"blocks that are no list":      {"blocks", "{}", "invalid_blocks_format"},
		"attachments that are no list": {"attachments", "{}", "invalid_arguments"},
		"markdown":                     {"markdown_text", strings.Repeat("é", 12_000), ""},
		"too much markdown":            {"markdown_text", strings.Repeat("é", 12_001), "msg_too_long"},
		"markdown beside text":         {"markdown_text", "x", "markdown_text_conflict"},
		"metadata that is no JSON":     {"metadata", "x", "invalid_metadata_format"},
		"metadata without a type":      {"metadata", `{"event_payload":{}}`, "invalid_metadata_schema"},
		"metadata without a payload":   {"metadata", `{"event_type":"a"}`, "invalid_metadata_schema"},
		"metadata with a list in it":   {"metadata", `{"event_type":"a","event_payload":[]}`, "invalid_metadata_schema"},
		"metadata with nothing in it":  {"metadata", `{"event_type":"","event_payload":null}`, ""},
		"too much metadata":            {"metadata", `{"event_type":"a","event_payload":{"a":"` + strings.Repeat("a", 16<<10) + `"}}`, "metadata_too_large"},
	}
	w := newWorld(t, slacktest.Config{NoRateLimits: true})
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			form := []string{"channel", ops, tt.key, tt.value}
			if tt.key != "markdown_text" || tt.want == "markdown_text_conflict" {
				form = append(form, "text", "x")
			}
			answer := w.raw(t, "chat.postMessage", form...)
			if got, _ := answer["error"].(string); got != tt.want {
				t.Errorf("post = %v, want %q", answer, tt.want)
			}
		})
	}
}

func attachments(n int) slack.MsgOption {
	all := make([]slack.Attachment, n)
	for i := range all {
		all[i].Text = "x"
	}
	return slack.MsgOptionAttachments(all...)
}

func TestAMessageToAUserOpensADirectConversation(t *testing.T) {
	t.Parallel()
	w := newWorld(t, slacktest.Config{})
	channel, _ := w.post(t, ada, card("apr_01")...)
	if all := w.Messages(ada); channel[0] != 'D' || len(all) != 1 || all[0].Channel != channel {
		t.Errorf("posted in %s, want a D…; ada has %v", channel, all)
	}
	conv, noOp, open, err := w.api.OpenConversationContext(t.Context(), &slack.OpenConversationParameters{Users: []string{ada}, ReturnIM: true})
	if err != nil || conv.ID != channel || !noOp || !open {
		t.Errorf("open = %v, %t, %t, %v, want %s again", conv, noOp, open, err, channel)
	}
	if _, _, _, err := w.api.UpdateMessageContext(t.Context(), ada, "1.000000", text("x")); code(err) != "channel_not_found" {
		t.Errorf("update by user id = %v, want channel_not_found", err)
	}
}

func TestDirectMessagesNeedTheMessagesTab(t *testing.T) {
	t.Parallel()
	w := newWorld(t, slacktest.Config{NoMessagesTab: true})
	if _, _, err := w.api.PostMessageContext(t.Context(), ada, text("x")); code(err) != "messages_tab_disabled" {
		t.Errorf("post = %v", err)
	}
}

func TestDirectMessagesEndWithTheUser(t *testing.T) {
	t.Parallel()
	w := newWorld(t, slacktest.Config{})
	channel, _ := w.post(t, ada, text("x"))
	w.AddUser(slacktest.User{ID: ada, Deleted: true})
	if _, _, err := w.api.PostMessageContext(t.Context(), channel, text("x")); code(err) != "user_disabled" {
		t.Errorf("post = %v", err)
	}
}

func TestPublicChannelsNeedNoInvitationWithItsScope(t *testing.T) {
	t.Parallel()
	w := newWorld(t, slacktest.Config{Scopes: []string{"chat:write", "chat:write.public"}})
	w.post(t, open, text("x"))
	if _, _, err := w.api.PostMessageContext(t.Context(), private, text("x")); code(err) != "channel_not_found" {
		t.Errorf("post in private = %v", err)
	}
}

func TestTimestampsGrowWithinAConversation(t *testing.T) {
	t.Parallel()
	w := newWorld(t, slacktest.Config{NoRateLimits: true})
	last := ""
	for range 20 { // the clock stands still
		_, ts := w.post(t, ops, text("x"))
		sec, micro, _ := strings.Cut(ts, ".")
		if ts <= last || len(sec) != 10 || len(micro) != 6 {
			t.Fatalf("ts %q after %q", ts, last)
		}
		last = ts
	}
}

func TestAMessageIsKeptAsItWasSent(t *testing.T) {
	t.Parallel()
	w := newWorld(t, slacktest.Config{})
	_, parent := w.post(t, ops, text("first"))
	_, ts, answer, err := w.api.PostMessageWithResponseContext(t.Context(), ops, append(card("apr_01"), slack.MsgOptionTS(parent))...)
	if err != nil {
		t.Fatal(err)
	}
	m, _ := w.Message(ops, ts)
	if m.ThreadTS != parent || m.Text != "Approval needed" || m.User != slacktest.BotUser || m.Edited {
		t.Errorf("message = %+v", m)
	}
	if want := `{"event_type":"approval_requested","event_payload":{"id":"apr_01"}}`; string(m.Metadata) != want {
		t.Errorf("metadata = %s", m.Metadata)
	}
	if answer.BotID != slacktest.Bot || answer.Timestamp != ts || len(answer.Blocks.BlockSet) != 2 {
		t.Errorf("answer = %+v", answer)
	}
	if id := answer.Blocks.BlockSet[0].ID(); id == "" {
		t.Error("Slack gives ids to blocks without one")
	}
	_, deeper := w.post(t, ops, text("x"), slack.MsgOptionTS(ts))
	if m, _ := w.Message(ops, deeper); m.ThreadTS != parent {
		t.Errorf("a reply to a reply is in thread %s, want %s", m.ThreadTS, parent)
	}
}

func TestLongTextIsCutWhenPosted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, slacktest.Config{})
	_, ts := w.post(t, ops, text(strings.Repeat("é", 40_001)))
	if m, _ := w.Message(ops, ts); len([]rune(m.Text)) != 40_000 {
		t.Errorf("%d characters", len([]rune(m.Text)))
	}
}

// The client looks for warnings in other methods only.
func TestBlocksWithoutTextAreWarnedOf(t *testing.T) {
	t.Parallel()
	w := newWorld(t, slacktest.Config{})
	answer := w.raw(t, "chat.postMessage", "channel", ops, "blocks", `[{"type":"divider"}]`)
	if answer["warning"] != "missing_text_in_message" {
		t.Errorf("answer = %v", answer)
	}
	answer = w.raw(t, "chat.postMessage", "channel", ops, "blocks", `[{"type":"divider"}]`, "text", "x")
	if answer["ok"] != true || answer["warning"] != nil {
		t.Errorf("answer = %v", answer)
	}
}

func TestUpdateIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, slacktest.Config{NoRateLimits: true, EditWindow: time.Hour})
	_, late := w.post(t, ops, card("apr_01")...)
	w.clock.Advance(time.Hour)
	if _, _, _, err := w.api.UpdateMessageContext(t.Context(), ops, late, text("just in time")); err != nil {
		t.Error(err)
	}
	w.clock.Advance(time.Second)
	_, mine := w.post(t, ops, card("apr_01")...)
	_, deleted := w.post(t, ops, card("apr_01")...)
	w.Remove(ops, deleted)
	_, rich := w.post(t, ops, slack.MsgOptionBlocks(preformatted("args")))
	theirs := w.Say(ada, ops, "hello")
	private, err := w.api.PostEphemeralContext(t.Context(), ops, ada, text("psst"))
	if err != nil {
		t.Fatal(err)
	}
	_, lost := w.post(t, shared, text("x"))
	w.AddChannel(slacktest.Channel{ID: shared, Archived: true, Members: []string{slacktest.BotUser}})
	_, left := w.post(t, secret, text("x"))
	w.AddChannel(slacktest.Channel{ID: secret, Private: true})

	long := text(strings.Repeat("é", 4001))
	tests := map[string]struct {
		channel, ts string
		say         slack.MsgOption
		want        string
	}{
		"a message that never was":          {ops, "1.000000", text("x"), "message_not_found"},
		"one that a person deleted":         {ops, deleted, text("x"), "message_not_found"},
		"one of somebody else":              {ops, theirs, text("x"), "cant_update_message"},
		"an ephemeral one":                  {ops, private, text("x"), "cant_update_message"},
		"one that is too old":               {ops, late, text("x"), "edit_window_closed"},
		"with too long a text":              {ops, mine, long, "msg_too_long"},
		"with nothing":                      {ops, mine, text(""), "no_text"},
		"with bad blocks":                   {ops, mine, slack.MsgOptionBlocks(slack.NewSectionBlock(nil, nil, nil)), "invalid_blocks"},
		"a rich text by another block":      {ops, rich, slack.MsgOptionBlocks(slack.NewDividerBlock()), "block_mismatch"},
		"a rich text by text":               {ops, rich, text("x"), "block_mismatch"},
		"in an archived channel":            {shared, lost, text("x"), "is_inactive"},
		"in a private channel that it left": {secret, left, text("x"), "channel_not_found"},
		"in a public channel without it":    {open, "1.000000", text("x"), "not_in_channel"},
		"in no channel":                     {"C0NONE", mine, text("x"), "channel_not_found"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, _, _, err := w.api.UpdateMessageContext(t.Context(), tt.channel, tt.ts, tt.say); code(err) != tt.want {
				t.Errorf("update = %v, want %s", err, tt.want)
			}
		})
	}
}

func preformatted(block string) slack.Block {
	return slack.NewRichTextBlock(block, &slack.RichTextPreformatted{
		Type: slack.RTEPreformatted, Elements: []slack.RichTextSectionElement{slack.NewRichTextSectionTextElement("{}", nil)},
	})
}

func TestWhatAnUpdateLeaves(t *testing.T) {
	t.Parallel()
	attach := slack.MsgOptionAttachments(slack.Attachment{Text: "more"})
	tests := map[string]struct {
		from, to                      []slack.MsgOption
		blocks, attachments, metadata bool
		edited                        bool
	}{
		"text alone removes the blocks":       {card("a"), []slack.MsgOption{text("x")}, false, false, true, true},
		"blocks keep it unedited":             {card("a"), []slack.MsgOption{text("x"), slack.MsgOptionBlocks(slack.NewDividerBlock())}, true, false, true, false},
		"no blocks remove the blocks":         {card("a"), []slack.MsgOption{text("x"), slack.MsgOptionBlocks()}, false, false, true, true},
		"attachments stay":                    {[]slack.MsgOption{text("a"), attach}, []slack.MsgOption{text("x")}, false, true, false, true},
		"a rich text goes when asked to":      {[]slack.MsgOption{slack.MsgOptionBlocks(preformatted("a"))}, []slack.MsgOption{text("x"), slack.MsgOptionBlocks()}, false, false, false, true},
		"a rich text may become another":      {[]slack.MsgOption{slack.MsgOptionBlocks(preformatted("a"))}, []slack.MsgOption{slack.MsgOptionBlocks(slack.NewDividerBlock(), preformatted("b"))}, true, false, false, false},
		"four thousand characters still pass": {card("a"), []slack.MsgOption{text(strings.Repeat("é", 4000))}, false, false, true, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, slacktest.Config{})
			_, ts := w.post(t, ops, tt.from...)
			channel, same, _, err := w.api.UpdateMessageContext(t.Context(), ops, ts, tt.to...)
			if err != nil || channel != ops || same != ts {
				t.Fatalf("update = %s, %s, %v", channel, same, err)
			}
			m, _ := w.Message(ops, ts)
			got := [4]bool{len(m.Blocks) > 0, len(m.Attachments) > 0, m.Metadata != nil, m.Edited}
			if want := [4]bool{tt.blocks, tt.attachments, tt.metadata, tt.edited}; got != want {
				t.Errorf("blocks, attachments, metadata, edited = %v, want %v", got, want)
			}
		})
	}
}

func TestAnUpdateClearsWhatItIsTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t, slacktest.Config{})
	_, ts := w.post(t, ops, append(card("a"), slack.MsgOptionAttachments(slack.Attachment{Text: "more"}))...)
	w.raw(t, "chat.update", "channel", ops, "ts", ts, "text", "x", "attachments", "[]", "metadata", "{}")
	if m, _ := w.Message(ops, ts); m.Text != "x" || m.Metadata != nil || len(m.Attachments) > 0 {
		t.Errorf("message = %+v", m)
	}
}

func TestEphemerals(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ channel, user, say, want string }{
		"to a member":                    {ops, ada, "psst", ""},
		"to somebody who is not there":   {secret, bob, "psst", "user_not_in_channel"},
		"to somebody who has left":       {ops, gone, "psst", "user_not_in_channel"},
		"to nobody":                      {ops, "U0NONE", "psst", "user_not_in_channel"},
		"nothing":                        {ops, ada, "", "no_text"},
		"where the bot is not":           {open, ada, "psst", "not_in_channel"},
		"where the bot cannot see":       {private, ada, "psst", "channel_not_found"},
		"in an archived channel":         {archived, ada, "psst", "is_archived"},
		"to a user instead of a channel": {ada, ada, "psst", "channel_not_found"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, slacktest.Config{})
			w.AddChannel(slacktest.Channel{ID: ops, Members: []string{ada, gone, "U0NONE", slacktest.BotUser}})
			ts, err := w.api.PostEphemeralContext(t.Context(), tt.channel, tt.user, text(tt.say))
			if code(err) != tt.want || (ts != "") != (tt.want == "") {
				t.Fatalf("ephemeral = %q, %v, want %q", ts, err, tt.want)
			}
			seen := w.Ephemerals(tt.user)
			if tt.want == "" && (len(seen) != 1 || seen[0].Text != tt.say || len(w.Messages(tt.channel)) > 0) {
				t.Errorf("%s sees %v, everybody %v", tt.user, seen, w.Messages(tt.channel))
			}
		})
	}
}

func TestDeleting(t *testing.T) {
	t.Parallel()
	w := newWorld(t, slacktest.Config{})
	_, ts := w.post(t, ops, text("x"))
	theirs := w.Say(ada, ops, "hello")
	for _, tt := range []struct{ name, ts, want string }{
		{"my own", ts, ""},
		{"what is gone", ts, "message_not_found"},
		{"somebody's", theirs, "cant_delete_message"},
	} {
		if _, _, err := w.api.DeleteMessageContext(t.Context(), ops, tt.ts); code(err) != tt.want {
			t.Errorf("delete %s = %v, want %q", tt.name, err, tt.want)
		}
	}
}

func TestALostMessageIsFoundByItsMetadata(t *testing.T) {
	t.Parallel()
	w := newWorld(t, slacktest.Config{Scopes: []string{"chat:write", "channels:history", "groups:history"}})
	_, parent := w.post(t, ops, card("apr_01")...)
	w.Say(ada, ops, "hello")
	_, reply := w.post(t, ops, text("x"), slack.MsgOptionTS(parent))

	found, err := w.api.GetConversationHistoryContext(t.Context(), &slack.GetConversationHistoryParameters{
		ChannelID: ops, IncludeAllMetadata: true, Oldest: parent, Inclusive: true,
	})
	if err != nil || len(found.Messages) != 2 {
		t.Fatalf("history = %+v, %v; want two, without the reply", found, err)
	}
	if m := found.Messages[1]; m.Timestamp != parent || m.Metadata.EventPayload["id"] != "apr_01" {
		t.Errorf("the older one = %+v", m)
	}
	found, err = w.api.GetConversationHistoryContext(t.Context(), &slack.GetConversationHistoryParameters{ChannelID: ops, Limit: 1})
	if err != nil || !found.HasMore || found.Messages[0].Metadata.EventType != "" {
		t.Errorf("a page = %+v, %v; want more of them, without metadata", found, err)
	}
	replies, _, _, err := w.api.GetConversationRepliesContext(t.Context(), &slack.GetConversationRepliesParameters{ChannelID: ops, Timestamp: parent})
	if err != nil || len(replies) != 2 || replies[1].Timestamp != reply {
		t.Errorf("replies = %v, %v", replies, err)
	}
	for channel, want := range map[string]string{open: "not_in_channel", private: "channel_not_found", "C0NONE": "channel_not_found"} {
		if _, err := w.api.GetConversationHistoryContext(t.Context(), &slack.GetConversationHistoryParameters{ChannelID: channel}); code(err) != want {
			t.Errorf("history of %s = %v, want %s", channel, err, want)
		}
	}
}

func TestRefusedBlocksSayWhere(t *testing.T) {
	t.Parallel()
	w := newWorld(t, slacktest.Config{})
	long := slack.NewTextBlockObject(slack.PlainTextType, strings.Repeat("x", 3001), false, false)
	_, _, err := w.api.PostMessageContext(t.Context(), ops, text("x"), slack.MsgOptionBlocks(slack.NewSectionBlock(long, nil, nil)))
	var refused slack.SlackErrorResponse
	if !errors.As(err, &refused) || refused.Err != "invalid_blocks" {
		t.Fatalf("post = %v", err)
	}
	want := []string{"[ERROR] must be less than 3001 characters [json-pointer:/blocks/0/text/text]"}
	if diff := cmp.Diff(want, refused.ResponseMetadata.Messages); diff != "" {
		t.Error(diff)
	}
	if raw, _ := json.Marshal(refused.Errors); !strings.Contains(string(raw), "/blocks/0/text/text") {
		t.Errorf("errors = %s", raw)
	}
}
