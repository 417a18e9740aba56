// Package channeltest helps to test what uses a channel.
package channeltest

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/approvalbot/approvalbot/channels"
	"github.com/approvalbot/approvalbot/gate"
)

// Fake is a channel that keeps its cards to itself. It is safe for concurrent use.
type Fake struct {
	mu       sync.Mutex
	faults   Faults
	calls    map[string]int
	messages []*Message
	posted   int
	said     []string
}

// Faults is asked before each call, and what it returns happens. op is "post",
// "update", "say", "find" or "resolve", place where, n the number of the call of that op,
// from 1.
type Faults func(op, place string, n int) Fault

// Fault is what goes wrong with a call; the zero value is nothing.
type Fault struct {
	Err  error // returned, and nothing happens
	Lost error // it happens, but this is returned
}

// Message is a card as it stands in a conversation.
type Message struct {
	channels.Ref
	Card    *channels.Card
	Drawn   int       // how often
	At      time.Time // when it was posted
	Replies []string
}

// Name implements channels.Channel.
func (f *Fake) Name() string { return "fake" }

// Breaks lets calls fail from now on; nil lets all succeed.
func (f *Fake) Breaks(faults Faults) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults = faults
}

func (f *Fake) fault(op, place string) Fault {
	if f.calls == nil {
		f.calls = map[string]int{}
	}
	f.calls[op]++
	if f.faults == nil {
		return Fault{}
	}
	return f.faults(op, place, f.calls[op])
}

// Post implements channels.Channel.
func (f *Fake) Post(_ context.Context, to gate.Conversation, c *channels.Card) (channels.Ref, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	bad := f.fault("post", to.Place)
	if bad.Err != nil {
		return channels.Ref{}, bad.Err
	}
	f.posted++
	m := &Message{Ref: channels.Ref{Place: to.Place, Message: strconv.Itoa(f.posted), Thread: to.Thread}, Card: c, Drawn: 1, At: time.Now()}
	f.messages = append(f.messages, m)
	return m.Ref, bad.Lost
}

// Update implements channels.Channel.
func (f *Fake) Update(_ context.Context, ref channels.Ref, c *channels.Card) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	bad := f.fault("update", ref.Place)
	if bad.Err != nil {
		return bad.Err
	}
	m := f.find(ref)
	if m == nil {
		return &channels.Error{Op: "fake.Update", Trouble: channels.Frozen, Err: errors.New("no such message")}
	}
	m.Card = c
	m.Drawn++
	return bad.Lost
}

// Say implements channels.Channel.
func (f *Fake) Say(_ context.Context, to gate.Conversation, text string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	bad := f.fault("say", to.Place)
	if bad.Err != nil {
		return bad.Err
	}
	if m := f.find(channels.Ref{Place: to.Place, Message: to.Thread}); m != nil {
		m.Replies = append(m.Replies, text)
	} else {
		f.said = append(f.said, to.Place+": "+text)
	}
	return bad.Lost
}

// Said returns what was written below no card, each behind its place.
func (f *Fake) Said() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.said)
}

func (f *Fake) find(ref channels.Ref) *Message {
	i := slices.IndexFunc(f.messages, func(m *Message) bool { return m.Place == ref.Place && m.Message == ref.Message })
	if i < 0 {
		return nil
	}
	return f.messages[i]
}

// Messages returns what stands in all conversations, in the order of posting.
func (f *Fake) Messages() []Message {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []Message
	for _, m := range f.messages {
		c := *m
		c.Replies = slices.Clone(m.Replies)
		out = append(out, c)
	}
	return out
}

// Calls returns how often an operation was called.
func (f *Fake) Calls(op string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[op]
}

// Finding is a Fake that can look for cards.
type Finding struct{ *Fake }

// Find implements channels.Finder.
func (f Finding) Find(_ context.Context, in gate.Conversation, id gate.ID) (channels.Ref, bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if bad := f.fault("find", in.Place); bad.Err != nil {
		return channels.Ref{}, false, bad.Err
	}
	for _, m := range f.messages {
		if m.Place == in.Place && m.Card.Approval == id {
			return m.Ref, true, nil
		}
	}
	return channels.Ref{}, false, nil
}

// Named is a Fake some of whose places have other names besides.
type Named struct {
	*Fake
	Names map[string]string // places by their other names
}

// Resolve implements channels.Resolver.
func (n Named) Resolve(_ context.Context, c gate.Conversation) (gate.Conversation, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if bad := n.fault("resolve", c.Place); bad.Err != nil {
		return gate.Conversation{}, bad.Err
	}
	return n.named(c), nil
}

func (n Named) named(c gate.Conversation) gate.Conversation {
	if place, ok := n.Names[c.Place]; ok {
		c.Place = place
	}
	return c
}

// Post implements channels.Channel.
func (n Named) Post(ctx context.Context, to gate.Conversation, c *channels.Card) (channels.Ref, error) {
	return n.Fake.Post(ctx, n.named(to), c)
}

// Say implements channels.Channel.
func (n Named) Say(ctx context.Context, to gate.Conversation, text string) error {
	return n.Fake.Say(ctx, n.named(to), text)
}

// Remove deletes a message, as people can.
func (f *Fake) Remove(ref channels.Ref) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.messages = slices.DeleteFunc(f.messages, func(m *Message) bool { return m.Place == ref.Place && m.Message == ref.Message })
}
