package slacktest

import "slices"

func (s *Slack) history(c *call) (object, error) {
	conv, err := s.readable(c, "history")
	if err != nil {
		return nil, err
	}
	if !conv.has(BotUser) {
		return nil, refuse("not_in_channel")
	}
	found := s.between(c, conv, func(m *Message) bool { return m.ThreadTS == "" })
	slices.Reverse(found)
	return listed(c, found), nil
}

func (s *Slack) replies(c *call) (object, error) {
	conv, err := s.readable(c, "history")
	if err != nil {
		return nil, err
	}
	if !conv.has(BotUser) {
		return nil, refuse("not_in_channel")
	}
	ts := c.args["ts"]
	if conv.message(ts) == nil {
		return nil, refuse("thread_not_found")
	}
	return listed(c, s.between(c, conv, func(m *Message) bool { return m.TS == ts || m.ThreadTS == ts })), nil
}

// between returns the messages in the span that a call asks for. Their ts are
// equally long, so that they compare as text.
func (s *Slack) between(c *call, conv *conversation, want func(*Message) bool) (found []object) {
	oldest, latest, inclusive := c.args["oldest"], c.args["latest"], c.args.truth("inclusive")
	for _, m := range conv.messages {
		in := (m.TS > oldest || inclusive && m.TS == oldest) && (latest == "" || m.TS < latest || inclusive && m.TS == latest)
		if in && m.Only == "" && want(m) {
			found = append(found, s.wire(m, c.args.truth("include_all_metadata")))
		}
	}
	return found
}

func listed(c *call, found []object) object {
	part, next := page(c, found)
	return object{"messages": part, "has_more": next != "", "response_metadata": object{"next_cursor": next}}
}
