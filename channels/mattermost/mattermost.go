package mattermost

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mattermost/mattermost/server/public/model"

	"github.com/approvalbot/approvalbot/channels"
	"github.com/approvalbot/approvalbot/gate"
)

// Mattermost is a channel on one server. It is safe for concurrent use.
type Mattermost struct {
	Log  *slog.Logger  // of what Mattermost finds fault with; set it before anything is posted,
	Keys *gate.Keyring // and what buttons are signed with

	client   atomic.Pointer[model.Client4]
	http     *http.Client
	url      string         // of the server
	callback string         // where it reaches us
	allow    []netip.Prefix // who may call there; empty: everybody
	verifies bool           // trigger ids
	config   Config

	here     channels.Memo[*model.User] // the bot
	settings channels.Memo[map[string]string]
	people   channels.Memo[*model.User]
	places   channels.Memo[string] // ids of conversations, by what the configuration calls them
	members  channels.Memo[bool]   // who is in what
	rosters  channels.Memo[[]string]
	groups   channels.Memo[string] // what people write to call a group

	names    names
	key      triggerKey
	commands commandTokens
}

var (
	_ channels.Channel = (*Mattermost)(nil)
	_ channels.Finder  = (*Mattermost)(nil)
	_ channels.Prober  = (*Mattermost)(nil)
)

// callTimeout bounds one call; the client of the library would wait for ever.
const callTimeout = 10 * time.Second

// New makes a channel without talking to Mattermost.
func New(c Config) *Mattermost {
	m := &Mattermost{
		Log: slog.New(slog.DiscardHandler), config: c, http: c.HTTP,
		url: strings.TrimRight(c.URL, "/"), callback: strings.TrimRight(c.CallbackURL, "/"), verifies: c.verifies(),
	}
	if m.http == nil {
		m.http = &http.Client{Timeout: callTimeout, CheckRedirect: stay}
	}
	for _, s := range c.CallbackAllow {
		if p, err := prefix(s); err == nil { // Problems reports the others
			m.allow = append(m.allow, p)
		}
	}
	m.client.Store(connect(m.url, c.Token.Reveal(), m.http))
	return m
}

// stay follows no redirect: they lead to pages where people log in.
func stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

func connect(url, token string, client *http.Client) *model.Client4 {
	c := model.NewAPIv4Client(url)
	c.SetToken(token)
	c.HTTPClient = client
	c.HTTPHeader = map[string]string{"User-Agent": "approvalbot"}
	return c
}

// Adopt takes over the token of o, a channel on the same server.
func (m *Mattermost) Adopt(o *Mattermost) { m.client.Store(o.client.Load()) }

func (m *Mattermost) api() *model.Client4 { return m.client.Load() }

// name is how places of this channel begin.
const name = gate.Mattermost

// Name implements channels.Channel.
func (*Mattermost) Name() string { return name }

// marker is the prop that says of which approval a post is the card, for Find.
const marker = "approvalbot_card"

// Post implements channels.Channel. The same card twice within half a minute is one
// post, whoever asks for it: Mattermost looks at what is pending.
func (m *Mattermost) Post(ctx context.Context, to gate.Conversation, c *channels.Card) (channels.Ref, error) {
	where, err := m.place(ctx, to.Place)
	if err != nil {
		return channels.Ref{}, err
	}
	var ref channels.Ref
	err = m.deliver(ctx, "mattermost.Post", where, c, func(draw drawing) (*model.Response, error) {
		p := &model.Post{ChannelId: where, RootId: to.Thread, PendingPostId: pending(c, where+" "+to.Thread, draw.minimal)}
		p.Message, p.Props = draw.message, draw.props
		posted, resp, err := m.api().CreatePost(ctx, p)
		if err == nil && (posted == nil || posted.Id == "") {
			err = errNeither
		}
		if err == nil {
			ref = channels.Ref{Place: name + ":" + where, Message: posted.Id, Thread: posted.RootId}
		}
		return resp, err
	})
	return ref, err
}

// pending names a post before it is one.
func pending(c *channels.Card, where string, minimal bool) string {
	h := sha256.New()
	fmt.Fprintln(h, c.Approval, where, c.Rev, c.Digest.Hex(), minimal)
	return strings.ToLower(base32.StdEncoding.EncodeToString(h.Sum(nil)))[:26]
}

// Update implements channels.Channel. All of the post is drawn anew: what is read
// back has no buttons.
func (m *Mattermost) Update(ctx context.Context, ref channels.Ref, c *channels.Card) error {
	where, err := m.channelOf(ref)
	if err != nil {
		return err
	}
	return m.deliver(ctx, "mattermost.Update", where, c, func(draw drawing) (*model.Response, error) {
		_, resp, err := m.api().PatchPost(ctx, ref.Message, &model.PostPatch{Message: &draw.message, Props: &draw.props})
		return resp, err
	})
}

func (m *Mattermost) channelOf(ref channels.Ref) (string, error) {
	where := strings.TrimPrefix(ref.Place, name+":")
	if !id.MatchString(where) || !id.MatchString(ref.Message) {
		return "", &channels.Error{Op: "mattermost.Update", Trouble: channels.Frozen, Err: errors.New("this is no post of Mattermost")}
	}
	return where, nil
}

// Say implements channels.Channel. Where the thread is gone it is said in the
// conversation.
func (m *Mattermost) Say(ctx context.Context, to gate.Conversation, text string) error {
	const op = "mattermost.Say"
	where, err := m.place(ctx, to.Place)
	if err != nil {
		return err
	}
	p := &model.Post{ChannelId: where, RootId: to.Thread, Message: lines(text, maxSaid)}
	_, resp, err := m.api().CreatePost(ctx, p)
	if to.Thread != "" && noThread(err) {
		p = &model.Post{ChannelId: where, Message: p.Message}
		_, resp, err = m.api().CreatePost(ctx, p)
	}
	if err != nil {
		return failed(op, resp, err)
	}
	return nil
}

// lookBack is how many messages are searched for a card that may be there.
const lookBack = 100

// Find implements channels.Finder.
func (m *Mattermost) Find(ctx context.Context, in gate.Conversation, id gate.ID) (channels.Ref, bool, error) {
	const op = "mattermost.Find"
	where, err := m.place(ctx, in.Place)
	if err != nil {
		return channels.Ref{}, false, err
	}
	self, err := m.self(ctx)
	if err != nil {
		return channels.Ref{}, false, err
	}
	var (
		found *model.PostList
		resp  *model.Response
	)
	if in.Thread != "" {
		found, resp, err = m.api().GetPostThread(ctx, in.Thread, "", false)
	} else {
		found, resp, err = m.api().GetPostsForChannel(ctx, where, 0, lookBack, "", false, false)
	}
	if err != nil {
		return channels.Ref{}, false, failed(op, resp, err)
	}
	for _, p := range found.Posts {
		if p.UserId == self.Id && p.DeleteAt == 0 && p.GetProp(marker) == string(id) {
			return channels.Ref{Place: name + ":" + where, Message: p.Id, Thread: p.RootId}, true, nil
		}
	}
	return channels.Ref{}, false, nil
}

// Probe implements channels.Prober.
func (m *Mattermost) Probe(ctx context.Context) error {
	if _, resp, err := m.api().GetMe(ctx, ""); err != nil {
		return failed("mattermost.Probe", resp, err)
	}
	return nil
}

// Link returns where people find a card.
func (m *Mattermost) Link(ref channels.Ref) string { return m.url + "/_redirect/pl/" + ref.Message }

// names are accounts that the configuration calls by a username, each pinned to the
// id that it had when it was first asked for.
type names struct {
	mu  sync.Mutex
	ids map[string]string
}
