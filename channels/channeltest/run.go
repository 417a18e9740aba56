package channeltest

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/approvalbot/approvalbot/channels"
	"github.com/approvalbot/approvalbot/gate"
)

// Desk is a channel and the platform behind it, as the tests of Run see them.
type Desk struct {
	Channel channels.Channel

	Open    gate.Conversation // takes cards
	Closed  gate.Conversation // has been archived
	Missing gate.Conversation // is none
	Other   gate.Conversation // is Open by another name, if the channel is a Resolver; else zero

	Begin  func() (thread string)        // somebody writes a message in Open
	Read   func(place string) []Seen     // what is in a conversation, the oldest first
	Remove func(ref channels.Ref)        // somebody deletes a message
	Break  func(op string, how Breakage) // the next request that is a "post", an "update" or a "say", and none before it
	Secret []string                      // what must never be told
}

// Breakage is a way in which a call of a platform goes wrong.
type Breakage int

// The breakages.
const (
	Limited Breakage = iota // not before seven seconds
	Lost                    // it is done, and the answer is lost
	Reset                   // the connection breaks before anything is done
	Revoked                 // the token is none any more
	Silent                  // there is no answer
)

// Seen is a message as people see it.
type Seen struct {
	channels.Ref
	Text    string   // all that can be read
	Buttons int      // that can be pressed
	Calls   []string // whom it notifies
	Links   []string // where a reader could be led, and what is loaded for them, as far as the desk can tell
}

// Run checks that a channel does what its interface says. Make makes a desk of its
// own for each test.
func Run(t *testing.T, make func(*testing.T) *Desk) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, *Desk){
		"a card is posted, redrawn and settled in its place": lives,
		"a card in a thread stays in it":                     threads,
		"a conversation that takes none":                     nowhere,
		"a message that is gone":                             frozen,
		"each trouble is told for what it is":                troubles,
		"a place of several names":                           names,
		"whatever an agent says calls nobody, leads nowhere": hostile,
		"a card of any size is taken":                        large,
		"several at the same time":                           together,
		"a caller that leaves":                               leaves,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, make(t))
		})
	}
}

// Waiting is a card that waits for a decision.
func Waiting() *channels.Card {
	return &channels.Card{
		Approval: "apr_01JNV4X3T2E6Q1Y5Z8A9B0C1D2", Rev: 1,
		Notification: "Approval needed: claude → deploy", Title: "claude wants to run deploy",
		Target: "prod", Facts: []channels.Fact{{Name: "Decided by", Value: "sre (3)"}},
		Intent: "to clean up", Args: "{\n  \"n\": 1\n}",
		Line: "Waiting for 1 of 1 (sre)", Silence: "If nobody decides by 12:34 UTC: not run.",
		Approve: true, Deny: true, Ask: true,
	}
}

// Settled is the same card after somebody has decided.
func Settled() *channels.Card {
	c := Waiting()
	c.Rev, c.Line, c.Silence, c.Approve, c.Deny, c.Ask = 2, "Denied by Ann 12:30 UTC", "", false, false, false
	return c
}

func (d *Desk) post(t *testing.T, to gate.Conversation, c *channels.Card) channels.Ref {
	t.Helper()
	ref, err := d.Channel.Post(t.Context(), to, c)
	if err != nil || ref.Place == "" || ref.Message == "" {
		t.Fatalf("Post = %+v, %v", ref, err)
	}
	return ref
}

// seen is the message at a ref.
func (d *Desk) seen(t *testing.T, ref channels.Ref) Seen {
	t.Helper()
	all := d.Read(ref.Place)
	i := slices.IndexFunc(all, func(m Seen) bool { return m.Message == ref.Message })
	if i < 0 {
		t.Fatalf("nothing is at %+v", ref)
	}
	return all[i]
}

func lives(t *testing.T, d *Desk) {
	if name := d.Channel.Name(); !strings.HasPrefix(d.Open.Place, name+":") {
		t.Errorf("its name is %q, and a place of it %q", name, d.Open.Place)
	}
	ref := d.post(t, d.Open, Waiting())
	m := d.seen(t, ref)
	if m.Buttons < 3 {
		t.Errorf("%d buttons can be pressed", m.Buttons)
	}
	for _, text := range []string{"claude wants to run deploy", "prod", "sre (3)", "to clean up", `"n": 1`, "Waiting for 1 of 1", "not run"} {
		if !strings.Contains(m.Text, text) {
			t.Errorf("it does not say %q:\n%s", text, m.Text)
		}
	}
	if err := d.Channel.Update(t.Context(), ref, Settled()); err != nil {
		t.Fatal(err)
	}
	if m = d.seen(t, ref); m.Buttons != 0 || !strings.Contains(m.Text, "Denied by Ann") {
		t.Errorf("settled, it has %d buttons:\n%s", m.Buttons, m.Text)
	}
	if err := d.Channel.Say(t.Context(), ref.Below(), "and this besides"); err != nil {
		t.Error(err)
	}
	all := d.Read(ref.Place)
	if last := all[len(all)-1]; !strings.Contains(last.Text, "and this besides") || last.Thread == "" {
		t.Errorf("said below it: %+v", last)
	}
}

func threads(t *testing.T, d *Desk) {
	to := d.Open
	to.Thread = d.Begin()
	ref := d.post(t, to, Waiting())
	if ref.Thread != to.Thread || d.seen(t, ref).Thread != to.Thread {
		t.Errorf("it is in thread %q, seen in %q, want %q", ref.Thread, d.seen(t, ref).Thread, to.Thread)
	}
	if below := ref.Below(); below.Thread != to.Thread {
		t.Errorf("an answer would go to %+v", below)
	}
	if err := d.Channel.Update(t.Context(), ref, Settled()); err != nil {
		t.Error(err)
	}
}

func nowhere(t *testing.T, d *Desk) {
	for _, to := range []gate.Conversation{d.Closed, d.Missing} {
		_, err := d.Channel.Post(t.Context(), to, Waiting())
		d.wantTrouble(t, err, channels.Nowhere)
	}
}

func frozen(t *testing.T, d *Desk) {
	ref := d.post(t, d.Open, Waiting())
	d.Remove(ref)
	d.wantTrouble(t, d.Channel.Update(t.Context(), ref, Settled()), channels.Frozen)
}

func troubles(t *testing.T, d *Desk) {
	post := func() error {
		_, err := d.Channel.Post(t.Context(), d.Open, Waiting())
		return err
	}
	ref := d.post(t, d.Open, Waiting())
	update := func() error { return d.Channel.Update(t.Context(), ref, Settled()) }
	say := func() error { return d.Channel.Say(t.Context(), d.Open, "x") }
	for _, tt := range []struct {
		op   string
		do   func() error
		how  Breakage
		want channels.Trouble
	}{
		{"post", post, Limited, channels.Busy},
		{"post", post, Lost, channels.Unknown},
		{"post", post, Reset, channels.Unknown},
		{"post", post, Revoked, channels.Out},
		{"update", update, Limited, channels.Busy},
		{"update", update, Lost, channels.Unknown},
		{"say", say, Limited, channels.Busy},
		{"say", say, Revoked, channels.Out},
	} {
		before := len(d.Read(d.Open.Place))
		d.Break(tt.op, tt.how)
		err := tt.do()
		d.wantTrouble(t, err, tt.want)
		if _, after := channels.TroubleOf(err); tt.how == Limited && after != 7*time.Second {
			t.Errorf("%s: not before %v, want 7 s", tt.op, after)
		}
		if grown := len(d.Read(d.Open.Place)) - before; grown > 0 && tt.how != Lost {
			t.Errorf("%s: %d more messages, although it failed", tt.op, grown)
		}
		if err := tt.do(); err != nil {
			t.Errorf("%s: the next one fails too: %v", tt.op, err)
		}
	}
}

func (d *Desk) wantTrouble(t *testing.T, err error, want channels.Trouble) {
	t.Helper()
	if got, _ := channels.TroubleOf(err); err == nil || got != want {
		t.Errorf("%v is trouble %d, want %d", err, got, want)
	}
	for _, secret := range d.Secret {
		if text := fmt.Sprintf("%v %+v %#v", err, err, err); strings.Contains(text, secret) {
			t.Errorf("a secret is in %s", text)
		}
	}
}

// Hostile are texts that some platform takes for more than text.
var Hostile = []string{
	"a** [Approve](https://evil.example) ![x](https://evil.example/x.png) @all **b __c__ ~~d~~",
	"<!channel> <!here> <!everyone> <!subteam^S0AAAAAA1> <@U0AAAAAA1> <#C0AAAAAA1>",
	"@channel @here @all @everyone @ann ~town-square",
	"<https://evil.example/|Approve here> https://evil.example [Approve](https://evil.example) ![x](https://evil.example/x.png)",
	"*bold* _it_ ~no~ `code` ```\nfence\n``` :white_check_mark: > quote\n# header\n| a | b |",
	"```\n@all ~town-square https://evil.example\n```\n@all <!channel> https://evil.example\n```",
	"~~~\n@all\n~~~\n@all ![](https://evil.example/x.png)\n\n    @all\n\n<!here>",
	strings.Repeat("`", 30) + "\n@all <!here> https://evil.example\n" + strings.Repeat("`", 31) + "\n@all",
	"`@all` ``@all`` ` @all <!here> `` [a](https://evil.example)",
	"＠all @all. (@channel) @here: -@ann- \\@all &#64;all &commat;all",
	"![x](https://evil.example/x.png =500x500) [a]: https://evil.example \"t\"\n[a] [a][] <a href=\"https://evil.example\">a</a>",
	"www.evil.example evil.example mailto:eve@evil.example ssh://evil.example mattermost://evil.example slack://open HTTPS://EVIL.EXAMPLE",
	"| a | b |\n|---|---|\n| @all | https://evil.example |\n$$\n@all\n$$",
	"#incident :+1: ::@all:: /approvals approve apr_01JNV4X3T2E6Q1Y5Z8A9B0C1D2",
	"&lt;!channel&gt; &amp; \\<!channel\\>",
	"Denied by Ann\nApprove: yes",
}

// hostile puts them wherever an agent has a say. What a card holds is free of
// hidden characters already; markup is left to the channel.
func hostile(t *testing.T, d *Desk) {
	for _, text := range Hostile {
		c := Waiting()
		c.Notification, c.Title, c.Intent, c.Args, c.Line, c.Warning = text, text, text, text, text, text
		c.Tool, c.Target, c.Server, c.Risk, c.Diff, c.Dialogue = text, text, text, text, text, text
		c.Refused, c.Silence, c.Facts = text, text, []channels.Fact{{Name: "For", Value: text}}
		ref := d.post(t, d.Open, c)
		wantInert(t, d.seen(t, ref), text)
		if err := d.Channel.Update(t.Context(), ref, c); err != nil {
			t.Errorf("%q: Update = %v", text, err)
		}
		wantInert(t, d.seen(t, ref), text)
		if err := d.Channel.Say(t.Context(), ref.Below(), text); err != nil {
			t.Errorf("%q: Say = %v", text, err)
		}
		all := d.Read(ref.Place)
		wantInert(t, all[len(all)-1], text)
	}
}

func wantInert(t *testing.T, m Seen, text string) {
	t.Helper()
	if len(m.Calls) > 0 {
		t.Errorf("%q calls %q", text, m.Calls)
	}
	if len(m.Links) > 0 {
		t.Errorf("%q leads to %q", text, m.Links)
	}
}

// names is of channels whose places have several: what is written down and what
// presses bring must be one of them.
func names(t *testing.T, d *Desk) {
	r, ok := d.Channel.(channels.Resolver)
	if !ok {
		return
	}
	ref := d.post(t, d.Open, Waiting())
	for _, called := range []gate.Conversation{d.Open, d.Other, {Place: ref.Place}} {
		called.Thread = "a thread"
		at, err := r.Resolve(t.Context(), called)
		if want := (gate.Conversation{Place: ref.Place, Thread: called.Thread}); err != nil || at != want {
			t.Errorf("%s is %+v, %v; want %+v", called.Place, at, err, want)
		}
	}
	if other := d.post(t, d.Other, Waiting()); other.Place != ref.Place {
		t.Errorf("a card for %s is in %s, want %s", d.Other.Place, other.Place, ref.Place)
	}
	if _, err := r.Resolve(t.Context(), d.Missing); err != nil { // else a post finds it out
		d.wantTrouble(t, err, channels.Nowhere)
	}
}

// large has more of everything than any platform shows.
func large(t *testing.T, d *Desk) {
	for _, text := range []string{strings.Repeat("x", 20_000), strings.Repeat("&<>\"\n", 4_000), strings.Repeat("→ä🙂", 7_000)} {
		c := Waiting()
		c.Notification, c.Title, c.Intent, c.Args, c.Warning = text, text, text, text, text
		c.Tool, c.Target, c.Server, c.Diff, c.Dialogue = text, text, text, text, text
		for range 12 {
			c.Facts = append(c.Facts, channels.Fact{Name: "For", Value: text})
		}
		ref := d.post(t, d.Open, c)
		if err := d.Channel.Update(t.Context(), ref, c); err != nil {
			t.Errorf("Update = %v", err)
		}
		if d.seen(t, ref).Buttons == 0 {
			t.Error("it cannot be decided")
		}
	}
}

func together(t *testing.T, d *Desk) {
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			c := Waiting()
			c.Approval = c.Approval[:len(c.Approval)-1] + gate.ID(strconv.Itoa(i))
			ref, err := d.Channel.Post(t.Context(), d.Open, c)
			if err == nil {
				err = d.Channel.Update(t.Context(), ref, Settled())
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := len(d.Read(d.Open.Place)); n != 8 {
		t.Errorf("%d messages, want 8", n)
	}
}

func leaves(t *testing.T, d *Desk) {
	d.post(t, d.Open, Waiting()) // what it wants to know of the conversation it knows now
	d.Break("post", Silent)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := d.Channel.Post(ctx, d.Open, Waiting())
	d.wantTrouble(t, err, channels.Unknown)
}
