package slack

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	api "github.com/slack-go/slack"

	"github.com/approvalbot/approvalbot/channels"
	"github.com/approvalbot/approvalbot/gate"
	"github.com/approvalbot/approvalbot/gate/secret"
)

// Config is `channels.slack`. Each secret is given by itself, from the
// environment, or in a file; who makes a Slack has read the files.
type Config struct {
	BotToken          secret.String `yaml:"bot_token"` // xoxb-…
	BotTokenFile      string        `yaml:"bot_token_file"`
	AppToken          secret.String `yaml:"app_token"` // xapp-…: receives over Socket Mode
	AppTokenFile      string        `yaml:"app_token_file"`
	SigningSecret     secret.String `yaml:"signing_secret"` // instead of AppToken: receives over HTTP
	SigningSecretFile string        `yaml:"signing_secret_file"`
	Team              string        `yaml:"team"`    // T…: the workspace; empty is the one of the token
	APIURL            string        `yaml:"api_url"` // ends in a slash; empty is Slack itself
	Home              bool          `yaml:"home"`    // the app's Home tab shows what waits for people

	HTTP *http.Client `yaml:"-"` // nil is one with a timeout
}

// Slack is a channel in one workspace. It is safe for concurrent use.
type Slack struct {
	Log *slog.Logger // of what Slack finds fault with in a card; set it before anything is posted

	access atomic.Pointer[access]
	http   *http.Client
	url    string // of what stands in for Slack
	team   string // that the configuration wants
	here   channels.Memo[*workspace]
	app    atomic.Pointer[string] // A…
	people channels.Memo[*api.User]
	groups channels.Memo[[]string] // voter ids
	shared channels.Memo[bool]     // whether another company reads a conversation
}

// access is what the tokens open.
type access struct {
	client  *api.Client
	renewed chan struct{} // closed when others have taken its place
}

var (
	_ channels.Channel = (*Slack)(nil)
	_ channels.Finder  = (*Slack)(nil)
	_ channels.Prober  = (*Slack)(nil)
	_ channels.Paced   = (*Slack)(nil)
	_ gate.Platform    = (*Slack)(nil)
)

// callTimeout bounds one call; slack-go's own client would wait for ever.
const callTimeout = 10 * time.Second

// New makes a channel without talking to Slack. slack-go's retries stay off: it
// would post twice what was not answered.
func New(c Config) *Slack {
	client := c.HTTP
	if client == nil {
		client = &http.Client{Timeout: callTimeout}
	}
	options := []api.Option{api.OptionHTTPClient(client), api.OptionAppLevelToken(c.AppToken.Reveal())}
	if c.APIURL != "" {
		options = append(options, api.OptionAPIURL(c.APIURL))
	}
	s := &Slack{Log: slog.New(slog.DiscardHandler), http: client, url: c.APIURL, team: c.Team}
	s.access.Store(&access{api.New(c.BotToken.Reveal(), options...), make(chan struct{})})
	return s
}

// Adopt takes over the tokens of o, a channel of the same workspace. What is
// under way ends with the old ones; a [Socket] that waits to try again tries now.
func (s *Slack) Adopt(o *Slack) {
	old := s.access.Swap(&access{o.client(), make(chan struct{})})
	close(old.renewed)
}

func (s *Slack) client() *api.Client { return s.access.Load().client }

// name is how places of this channel begin.
const name = "slack"

// Name implements channels.Channel.
func (*Slack) Name() string { return name }

// conversation is the id that a place names: "C0PROD" of "slack:C0PROD".
func conversation(place string) string { return strings.TrimPrefix(place, name+":") }

// about marks a message as the card of an approval, for Find.
const about = "approvalbot_card"

// marked says of which approval a message is the card.
func marked(c *channels.Card) api.MsgOption {
	return api.MsgOptionMetadata(api.SlackMetadata{EventType: about, EventPayload: map[string]any{"id": string(c.Approval)}})
}

// message is what a card looks like, for post and update alike. chat.update takes
// what it is not told again for its default.
func message(text string, blocks []api.Block) []api.MsgOption {
	return []api.MsgOption{
		api.MsgOptionText(text, false), // render has escaped it
		api.MsgOptionBlocks(blocks...),
		api.MsgOptionParse(false), api.MsgOptionLinkNames(false),
		api.MsgOptionDisableLinkUnfurl(), api.MsgOptionDisableMediaUnfurl(),
	}
}

// Post implements channels.Channel. A user's id opens a direct message.
func (s *Slack) Post(ctx context.Context, to gate.Conversation, c *channels.Card) (channels.Ref, error) {
	if err := s.private(ctx, conversation(to.Place)); err != nil {
		return channels.Ref{}, err
	}
	var ref channels.Ref
	err := s.deliver(ctx, c, func(options ...api.MsgOption) error {
		if to.Thread != "" {
			options = append(options, api.MsgOptionTS(to.Thread))
		}
		where, ts, m, err := s.client().PostMessageWithResponseContext(ctx, conversation(to.Place), options...)
		if err != nil || ts == "" { // Slack can fail without an error
			return failed("slack.Post", err)
		}
		ref = channels.Ref{Place: name + ":" + where, Message: ts, Thread: m.ThreadTimestamp} // none if what the thread began with is gone
		return nil
	})
	return ref, err
}

// private refuses a conversation that another company reads, which would read the
// arguments too. Who took the scope away to look cannot be told.
func (s *Slack) private(ctx context.Context, id string) error {
	if strings.HasPrefix(id, "D") || strings.HasPrefix(id, "U") || strings.HasPrefix(id, "W") {
		return nil // with one person of ours
	}
	const op = "slack.Post"
	shared, err := s.shared.Get(ctx, id, func(ctx context.Context) (bool, error) {
		c, err := s.client().GetConversationInfoContext(ctx, &api.GetConversationInfoInput{ChannelID: id})
		if refused, ok := errors.AsType[api.SlackErrorResponse](err); ok && refused.Err == "missing_scope" {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		return c.IsExtShared, nil
	})
	if err != nil {
		e := &channels.Error{Op: op, Err: err}
		if e.Trouble, e.After = meaning(err); e.Trouble == channels.Unknown {
			e.Trouble = channels.Busy // it is certain that nothing was posted
		}
		return e
	}
	if shared {
		return &channels.Error{Op: op, Trouble: channels.Nowhere, Err: errors.New("another company reads this conversation")}
	}
	return nil
}

// Update implements channels.Channel.
func (s *Slack) Update(ctx context.Context, ref channels.Ref, c *channels.Card) error {
	return s.deliver(ctx, c, func(options ...api.MsgOption) error {
		_, ts, _, err := s.client().UpdateMessageContext(ctx, conversation(ref.Place), ref.Message, options...)
		if err != nil || ts == "" {
			return failed("slack.Update", err)
		}
		return nil
	})
}

// Say implements channels.Channel.
func (s *Slack) Say(ctx context.Context, to gate.Conversation, text string) error {
	options := []api.MsgOption{
		api.MsgOptionText(fallback(text), false), api.MsgOptionParse(false),
		api.MsgOptionDisableLinkUnfurl(), api.MsgOptionDisableMediaUnfurl(),
	}
	if to.Thread != "" {
		options = append(options, api.MsgOptionTS(to.Thread))
	}
	_, ts, err := s.client().PostMessageContext(ctx, conversation(to.Place), options...)
	if err != nil || ts == "" {
		return failed("slack.Say", err)
	}
	return nil
}

// lookBack is how many messages are searched for a card that may be there.
const lookBack = 100

// Find implements channels.Finder. Without the scope to read a conversation there
// is nothing to be found.
func (s *Slack) Find(ctx context.Context, in gate.Conversation, id gate.ID) (channels.Ref, bool, error) {
	messages, err := s.recent(ctx, in)
	if refused, ok := errors.AsType[api.SlackErrorResponse](err); ok && refused.Err == "missing_scope" {
		return channels.Ref{}, false, nil
	}
	if err != nil {
		return channels.Ref{}, false, failed("slack.Find", err)
	}
	for _, m := range messages {
		if m.Metadata.EventType == about && m.Metadata.EventPayload["id"] == string(id) {
			return channels.Ref{Place: in.Place, Message: m.Timestamp, Thread: in.Thread}, true, nil
		}
	}
	return channels.Ref{}, false, nil
}

func (s *Slack) recent(ctx context.Context, in gate.Conversation) ([]api.Message, error) {
	if in.Thread != "" {
		messages, _, _, err := s.client().GetConversationRepliesContext(ctx, &api.GetConversationRepliesParameters{
			ChannelID: conversation(in.Place), Timestamp: in.Thread, Limit: lookBack, IncludeAllMetadata: true,
		})
		return messages, err
	}
	h, err := s.client().GetConversationHistoryContext(ctx, &api.GetConversationHistoryParameters{
		ChannelID: conversation(in.Place), Limit: lookBack, IncludeAllMetadata: true,
	})
	if err != nil {
		return nil, err
	}
	return h.Messages, nil
}

// UpdatePace implements channels.Paced: chat.update is of Slack's third tier, some
// fifty a minute in a workspace.
func (*Slack) UpdatePace() (every time.Duration, burst int) { return 1500 * time.Millisecond, 10 }

// Probe implements channels.Prober.
func (s *Slack) Probe(ctx context.Context) error {
	if _, err := s.client().AuthTestContext(ctx); err != nil {
		return failed("slack.Probe", err)
	}
	return nil
}
