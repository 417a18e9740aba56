package slacktest

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Message is a message as it is now. Channel and TS say which one.
type Message struct {
	Channel, TS string
	ThreadTS    string // the message that this one answers
	User        string // who wrote it
	Only        string // the one person who sees it; empty: everyone

	Text        string
	Blocks      []map[string]any // with the ids that Slack adds
	Attachments []map[string]any
	Metadata    json.RawMessage
	Edited      bool // shown as edited
	LinkNames   bool // @names in Text are looked up
}

// Sizes that Slack refuses beyond, or cuts at.
const (
	maxPostText    = 40_000
	maxUpdateText  = 4_000
	maxMarkdown    = 12_000
	maxBlocksSize  = 13_200   // seen, not documented
	maxMetadata    = 16 << 10 // not documented
	maxAttachments = 100
)

// Messages returns what is in a conversation, the oldest first, without what
// only one person sees. A user stands for the direct messages with them.
func (s *Slack) Messages(in string) []Message {
	return s.find(func(c *conversation, m *Message) bool { return (c.ID == in || c.user == in) && m.Only == "" })
}

// Ephemerals returns what only this person has been shown, the oldest first
// within each conversation.
func (s *Slack) Ephemerals(user string) []Message {
	return s.find(func(_ *conversation, m *Message) bool { return m.Only == user })
}

// Message returns one message, and whether there is such a one.
func (s *Slack) Message(channel, ts string) (Message, bool) {
	found := s.find(func(_ *conversation, m *Message) bool { return m.Channel == channel && m.TS == ts })
	if len(found) == 0 {
		return Message{}, false
	}
	return found[0], true
}

func (s *Slack) find(want func(*conversation, *Message) bool) (found []Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(s.channels)) {
		for _, m := range s.channels[id].messages {
			if want(s.channels[id], m) {
				found = append(found, *m)
			}
		}
	}
	return found
}

// Say is a person who writes a message. It returns its ts, or nothing if there
// is no such conversation.
func (s *Slack) Say(user, channel, text string) (ts string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	conv := s.channels[channel]
	if conv == nil {
		return ""
	}
	return conv.add(&Message{User: user, Text: text}, s.config.Now()).TS
}

// Remove is a person who deletes a message.
func (s *Slack) Remove(channel, ts string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if conv := s.channels[channel]; conv != nil {
		conv.remove(ts)
	}
}

// add gives a message its ts, which grows within a conversation whatever the
// clock does.
func (c *conversation) add(m *Message, now time.Time) *Message {
	const million = 1_000_000
	c.last = max(c.last+100, now.UnixMicro())
	m.Channel, m.TS = c.ID, fmt.Sprintf("%d.%06d", c.last/million, c.last%million)
	c.messages = append(c.messages, m)
	return m
}

func (c *conversation) message(ts string) *Message {
	i := slices.IndexFunc(c.messages, func(m *Message) bool { return m.TS == ts })
	if i < 0 {
		return nil
	}
	return c.messages[i]
}

func (c *conversation) remove(ts string) {
	c.messages = slices.DeleteFunc(c.messages, func(m *Message) bool { return m.TS == ts })
}

// content is what a call says that a message shall be.
type content struct {
	text                string
	blocks, attachments []object
	metadata            json.RawMessage
	linkNames           bool

	hasBlocks, hasAttachments bool // given, maybe empty
	clearMetadata             bool
}

// content reads and checks what is common to all ways of writing a message.
func (s *Slack) content(a args) (content, error) {
	c := content{text: a["text"], hasBlocks: a.has("blocks"), hasAttachments: a.has("attachments")}
	c.linkNames = a.truth("link_names") || a["parse"] == "full"
	var err error
	switch {
	case a.has("markdown_text") && (c.text != "" || c.hasBlocks):
		return c, refuse("markdown_text_conflict")
	case utf8.RuneCountInString(a["markdown_text"]) > maxMarkdown:
		return c, refuse("msg_too_long")
	case a.has("markdown_text"):
		c.hasBlocks, c.blocks = true, []object{{"type": "markdown", "text": a["markdown_text"]}}
	case c.hasBlocks:
		c.blocks, err = CheckBlocks([]byte(a["blocks"]))
	}
	if err != nil {
		return c, err
	}
	s.nameBlocks(c.blocks)
	if c.hasAttachments && json.Unmarshal([]byte(a["attachments"]), &c.attachments) != nil {
		return c, refuse("invalid_arguments", "must be a list [json-pointer:/attachments]")
	}
	if len(c.attachments) > maxAttachments {
		return c, refuse("too_many_attachments")
	}
	c.metadata, c.clearMetadata, err = readMetadata(a)
	return c, err
}

func (c content) empty() bool {
	return strings.TrimSpace(c.text) == "" && len(c.blocks) == 0 && len(c.attachments) == 0
}

// warn says what Slack finds unwise in a message.
func (c content) warn(answer object) object {
	if c.text == "" && len(c.blocks) > 0 {
		answer["warning"] = "missing_text_in_message"
		answer["response_metadata"] = object{"warnings": []string{"missing_text_in_message"}}
	}
	return answer
}

// readMetadata takes an empty object, and one with nothing in it, for none.
func readMetadata(a args) (raw json.RawMessage, cleared bool, err error) {
	if !a.has("metadata") {
		return nil, false, nil
	}
	var m struct {
		Type    string          `json:"event_type"`
		Payload json.RawMessage `json:"event_payload"`
	}
	raw = json.RawMessage(a["metadata"])
	if json.Unmarshal(raw, &m) != nil {
		return nil, false, refuse("invalid_metadata_format")
	}
	hasPayload := len(m.Payload) > 0 && string(m.Payload) != "null"
	switch {
	case len(raw) > maxMetadata:
		return nil, false, refuse("metadata_too_large")
	case m.Type == "" && !hasPayload:
		return nil, true, nil
	case m.Type == "" || !hasPayload || m.Payload[0] != '{':
		return nil, false, refuse("invalid_metadata_schema")
	}
	return raw, false, nil
}

// writable finds the conversation that a call wants to write in.
func (s *Slack) writable(id string, public bool) (*conversation, error) {
	conv := s.channels[id]
	if conv == nil || conv.Private && !conv.has(BotUser) {
		return nil, refuse("channel_not_found")
	}
	switch {
	case conv.Archived:
		return nil, refuse("is_archived")
	case !conv.has(BotUser) && (!public || !s.granted("chat:write.public")):
		return nil, refuse("not_in_channel")
	case conv.user != "" && s.config.NoMessagesTab:
		return nil, refuse("messages_tab_disabled")
	case conv.user != "" && s.users[conv.user].Deleted:
		return nil, refuse("user_disabled") // not documented for posting
	case conv.Restricted != "" && !slices.Contains(conv.Posters, BotUser):
		return nil, refuse(conv.Restricted)
	}
	return conv, nil
}

// destination is writable, but a user stands for the direct messages with them.
func (s *Slack) destination(id string) (*conversation, error) {
	if _, user := s.users[id]; user {
		if err := s.addressable(id); err != nil {
			return nil, refuse("channel_not_found")
		}
		conv, _ := s.direct(id)
		id = conv.ID
	}
	return s.writable(id, true)
}

func (s *Slack) postMessage(c *call) (object, error) {
	conv, err := s.destination(c.args["channel"])
	if err != nil {
		return nil, err
	}
	if err = s.limited("posts in "+conv.ID, 60, postBurst, c.now); err != nil {
		return nil, err
	}
	m, said, err := s.compose(c.args, conv)
	if err != nil {
		return nil, err
	}
	conv.add(m, c.now)
	return said.warn(object{"channel": conv.ID, "ts": m.TS, "message": s.wire(m, true)}), nil
}

// compose makes a message of the bot's for a conversation. Too long a text is
// cut and not refused.
func (s *Slack) compose(a args, conv *conversation) (*Message, content, error) {
	said, err := s.content(a)
	if err != nil {
		return nil, said, err
	}
	if said.empty() {
		return nil, said, refuse("no_text")
	}
	m := &Message{
		User: BotUser, Text: said.text, Blocks: said.blocks, Attachments: said.attachments, Metadata: said.metadata,
		LinkNames: said.linkNames,
	}
	if r := []rune(m.Text); len(r) > maxPostText {
		m.Text = string(r[:maxPostText])
	}
	if ts := a["thread_ts"]; ts != "" {
		parent := conv.message(ts)
		if parent == nil || parent.Only != "" {
			return nil, said, refuse("cannot_reply_to_message")
		}
		m.ThreadTS = parent.TS
		if parent.ThreadTS != "" {
			m.ThreadTS = parent.ThreadTS // a reply has no thread of its own
		}
	}
	return m, said, nil
}

func (s *Slack) postEphemeral(c *call) (object, error) {
	conv, err := s.writable(c.args["channel"], false)
	if err != nil {
		return nil, err
	}
	user, ok := s.users[c.args["user"]]
	if !ok || user.Deleted || !conv.has(user.ID) {
		return nil, refuse("user_not_in_channel")
	}
	m, said, err := s.compose(c.args, conv)
	if err != nil {
		return nil, err
	}
	m.Only = user.ID
	conv.add(m, c.now)
	return said.warn(object{"message_ts": m.TS}), nil
}

// own finds a message that the bot may change, or says with that error that it
// may not.
func (s *Slack) own(c *call, otherwise string) (*conversation, *Message, error) {
	conv := s.channels[c.args["channel"]]
	if conv == nil || conv.Private && !conv.has(BotUser) {
		return nil, nil, refuse("channel_not_found")
	}
	m := conv.message(c.args["ts"])
	switch {
	case !conv.has(BotUser) && !s.granted("chat:write.public"):
		return nil, nil, refuse("not_in_channel")
	case m == nil:
		return nil, nil, refuse("message_not_found")
	case m.Only != "" || m.User != BotUser:
		return nil, nil, refuse(otherwise)
	}
	return conv, m, nil
}

func (s *Slack) update(c *call) (object, error) {
	conv, m, err := s.own(c, "cant_update_message")
	if err != nil {
		return nil, err
	}
	if conv.Archived {
		return nil, refuse("is_inactive")
	}
	if w := s.config.EditWindow; w > 0 && c.now.Sub(m.at()) > w {
		return nil, refuse("edit_window_closed")
	}
	said, err := s.content(c.args)
	if err != nil {
		return nil, err
	}
	if err := said.replaces(m); err != nil {
		return nil, err
	}
	return said.warn(object{"channel": conv.ID, "ts": m.TS, "text": m.Text, "message": s.wire(m, true)}), nil
}

// replaces changes a message: blocks go when only text is given, attachments
// and metadata stay unless they are cleared.
func (c content) replaces(m *Message) error {
	switch {
	case utf8.RuneCountInString(c.text) > maxUpdateText:
		return refuse("msg_too_long")
	case c.empty():
		return refuse("no_text")
	case onlyRich(m.Blocks) && (!c.hasBlocks || len(c.blocks) > 0) && !slices.ContainsFunc(c.blocks, isRich):
		return refuse("block_mismatch")
	}
	m.Text, m.Blocks, m.LinkNames = c.text, c.blocks, c.linkNames
	m.Edited = len(c.blocks) == 0
	if c.hasAttachments {
		m.Attachments = c.attachments
	}
	if c.metadata != nil || c.clearMetadata {
		m.Metadata = c.metadata
	}
	return nil
}

func isRich(b object) bool { return b["type"] == "rich_text" }

func onlyRich(blocks []object) bool {
	return len(blocks) > 0 && !slices.ContainsFunc(blocks, func(b object) bool { return !isRich(b) })
}

// at returns when a message was posted.
func (m *Message) at() time.Time {
	var sec, micro int64
	_, _ = fmt.Sscanf(m.TS, "%d.%d", &sec, &micro) // made here, so it fits
	return time.Unix(sec, micro*1000)
}

func (s *Slack) remove(c *call) (object, error) {
	conv, m, err := s.own(c, "cant_delete_message")
	if err != nil {
		return nil, err
	}
	conv.remove(m.TS)
	return object{"channel": conv.ID, "ts": m.TS}, nil
}

// wire is how the Web API and payloads show a message.
func (s *Slack) wire(m *Message, metadata bool) object {
	o := object{"type": "message", "user": m.User, "team": Team, "ts": m.TS, "text": m.Text}
	if m.User == BotUser {
		o["bot_id"], o["app_id"] = Bot, App
	}
	if m.ThreadTS != "" {
		o["thread_ts"] = m.ThreadTS
	}
	if len(m.Blocks) > 0 {
		o["blocks"] = m.Blocks
	}
	if len(m.Attachments) > 0 {
		o["attachments"] = m.Attachments
	}
	if m.Edited {
		o["edited"] = object{"user": m.User, "ts": m.TS}
	}
	if metadata && m.Metadata != nil {
		o["metadata"] = m.Metadata
	}
	return o
}
