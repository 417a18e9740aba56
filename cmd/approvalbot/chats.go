package main

import (
	"context"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/approvalbot/approvalbot/bot"
	"github.com/approvalbot/approvalbot/channels"
	"github.com/approvalbot/approvalbot/cmd/approvalbot/config"
	"github.com/approvalbot/approvalbot/gate"
)

// chats are the chats of a config file: what draws cards in them, and what
// receives presses. Without any it is empty.
type chats struct {
	parts   []part
	routes  map[string]http.Handler
	settle  func() // waits for what was pressed to be decided and answered
	notices func(context.Context) []string
	policy  func(context.Context) // does what another policy takes
}

// connectFor is how long a start waits for a chat to say whether its token is good.
const connectFor = 15 * time.Second

func newChats(ctx context.Context, cfg *config.Loaded, st opened, g *gate.Gate, replica string, log *slog.Logger) (*chats, error) {
	c := &chats{
		routes: map[string]http.Handler{}, settle: func() {},
		notices: func(context.Context) []string { return nil }, policy: func(context.Context) {},
	}
	if cfg.Slack == nil && cfg.Mattermost == nil {
		return c, nil
	}
	if err := meet(ctx, cfg, log); err != nil {
		return nil, err
	}
	r := newRoads(cfg, st, g, replica, log)
	c.notices = r.outages.Notices
	c.parts = append(c.parts, part{"dispatcher", forever(r.dispatcher.Run)})
	if cfg.Slack != nil {
		c.slack(cfg, r)
	}
	if cfg.Mattermost != nil {
		c.mattermost(ctx, cfg, r)
	}
	return c, nil
}

// meet asks every chat who the bot is there, and refuses a start that an operator
// must mend.
func meet(ctx context.Context, cfg *config.Loaded, log *slog.Logger) error {
	var all errgroup.Group
	if cfg.Slack != nil {
		cfg.Slack.Log = log
		all.Go(func() error { return meetSlack(ctx, cfg.Slack, log) })
	}
	if cfg.Mattermost != nil {
		cfg.Mattermost.Log, cfg.Mattermost.Keys = log, cfg.Keyring
		all.Go(func() error { return meetMattermost(ctx, cfg, log) })
	}
	return all.Wait()
}

// roads lead from chats into the house.
type roads struct {
	clicks     *bot.Clicks
	card       func(context.Context, gate.ID) (*channels.Card, error)
	commands   *bot.Commands
	dispatcher *bot.Dispatcher
	outages    *bot.Outages
	store      opened
	gate       *gate.Gate
	log        *slog.Logger
}

func newRoads(cfg *config.Loaded, st opened, g *gate.Gate, replica string, log *slog.Logger) *roads {
	draw := drawer(g, cfg.PublicURL)
	r := &roads{card: reader(g, draw), store: st, gate: g, log: log}
	r.outages = &bot.Outages{List: st.List, Posted: st.Posted, Log: log}
	r.clicks = &bot.Clicks{Gate: g, Cards: st, Private: &bot.PrivateCards{Gate: g, Keys: cfg.Keyring, Card: draw}, Log: log}
	r.commands = &bot.Commands{Gate: g, Clicks: r.clicks, Notes: map[string]string{}, Log: log}
	r.commands.Stored = map[string]func(context.Context, gate.ID, gate.Voter) (string, error){}
	r.commands.Links = map[string]func(context.Context, gate.ID) string{}
	r.dispatcher = &bot.Dispatcher{
		Cards: st, Gate: g, Channels: map[string]channels.Channel{},
		Route: router(cfg.Review), Also: copies(cfg.Review), Direct: direct, Operators: places(cfg.Operators), Outages: r.outages,
		Card: draw, Replica: replica, Log: log,
	}
	return r
}

// places are conversations by channel, in the order of the channels' names.
func places(of map[string]string) (all []gate.Conversation) {
	for _, name := range slices.Sorted(maps.Keys(of)) {
		all = append(all, gate.Conversation{Place: name + ":" + of[name]})
	}
	return all
}

// router says where a card may go: an inline one to where its call came from, then
// any to where its rule says, or else to review. Of these the first that is in a chat
// of its approvers comes first.
func router(review map[string]string) func(*gate.View) []gate.Conversation {
	stays := places(review)
	return func(v *gate.View) (all []gate.Conversation) {
		if v.Mode == gate.Inline && v.Origin.Place != "" {
			all = append(all, v.Origin)
		}
		if v.Rule != nil {
			all = append(all, nearest(v.Rule, v.Rule.Conversations)...)
		}
		return append(all, nearest(v.Rule, stays)...)
	}
}

// copies are the conversations in which a card is shown besides the first: one in each
// chat that approvers are on, of those that the rule names or else of review. A question that somebody waits for in a conversation is
// shown there alone.
func copies(review map[string]string) func(*gate.View) []gate.Conversation {
	stays := places(review)
	return func(v *gate.View) (all []gate.Conversation) {
		if v.Rule == nil || v.Mode == gate.Inline && v.Origin.Place != "" {
			return nil
		}
		places := v.Rule.Conversations
		if len(places) == 0 {
			places = stays
		}
		for _, chat := range chatsOf(v.Rule) {
			i := slices.IndexFunc(places, func(c gate.Conversation) bool { return strings.HasPrefix(c.Place, chat+":") })
			if i >= 0 {
				all = append(all, places[i])
			}
		}
		return all
	}
}

// chatsOf are the chats that approvers of a rule are on.
func chatsOf(rule *gate.Rule) (names []string) {
	for _, g := range rule.Groups {
		names = append(names, g.Platforms()...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// nearest is conversations in the order in which they are tried: those in chats that
// approvers are on before the others.
func nearest(rule *gate.Rule, all []gate.Conversation) []gate.Conversation {
	var on []string
	if rule != nil {
		on = chatsOf(rule)
	}
	far := func(c gate.Conversation) int {
		if name, _, _ := strings.Cut(c.Place, ":"); slices.Contains(on, name) {
			return 0
		}
		return 1
	}
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b gate.Conversation) int { return far(a) - far(b) })
	return all
}

// maxDirect is how many approvers are written to where no conversation takes a card.
const maxDirect = 10

// directly is how the direct messages with an account of a chat are called.
var directly = map[string]func(account string) string{
	gate.Slack:      func(id string) string { return id[strings.LastIndexByte(id, '/')+1:] },
	gate.Mattermost: func(id string) string { return "@" + id },
}

// direct are direct messages to those who may approve, as far as anybody knows.
func direct(ctx context.Context, v *gate.View) (all []gate.Conversation) {
	if v.Rule == nil {
		return nil
	}
	for _, g := range v.Rule.Groups {
		for _, chat := range g.Platforms() {
			for _, id := range g.Accounts(ctx, chat) {
				to := gate.Conversation{Place: chat + ":" + directly[chat](id)}
				if len(all) < maxDirect && !slices.Contains(all, to) {
					all = append(all, to)
				}
			}
		}
	}
	return all
}

// drawer draws cards that lead to the console where there is one to be reached.
func drawer(g *gate.Gate, publicURL string) func(*gate.View) *channels.Card {
	return func(v *gate.View) *channels.Card {
		x := channels.Context{Review: "the review channel"}
		x.Args, x.Redacted = g.Shown(&v.Snapshot)
		if publicURL != "" {
			x.Link = strings.TrimSuffix(publicURL, "/") + "/console/approvals/" + string(v.ID)
		}
		return channels.NewCard(v, x)
	}
}

// reader draws an approval as it is now.
func reader(g *gate.Gate, draw func(*gate.View) *channels.Card) func(context.Context, gate.ID) (*channels.Card, error) {
	who := gate.Principal{Key: "approvalbot", Roles: []gate.Role{gate.RoleAuditor}}
	return func(ctx context.Context, id gate.ID) (*channels.Card, error) {
		v, err := g.Get(ctx, who, id)
		if err != nil {
			return nil, err
		}
		return draw(&v), nil
	}
}
