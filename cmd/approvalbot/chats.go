package main

import (
	"context"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/approvalbot/approvalbot/bot"
	"github.com/approvalbot/approvalbot/channels"
	"github.com/approvalbot/approvalbot/channels/slack"
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
}

// connectFor is how long a start waits for a chat to say whether its token is good.
const connectFor = 15 * time.Second

func newChats(ctx context.Context, cfg *config.Loaded, st opened, g *gate.Gate, replica string, log *slog.Logger) (*chats, error) {
	c := &chats{routes: map[string]http.Handler{}, settle: func() {}, notices: func(context.Context) []string { return nil }}
	if cfg.Slack == nil {
		return c, nil
	}
	if err := meetSlack(ctx, cfg.Slack, log); err != nil {
		return nil, err
	}
	cfg.Slack.Log = log
	draw := drawer(g, cfg.PublicURL)
	outages := &bot.Outages{List: st.List, Posted: st.Posted, Log: log}
	clicks := &bot.Clicks{Gate: g, Cards: st, Private: &bot.PrivateCards{Gate: g, Keys: cfg.Keyring, Card: draw}, Log: log}
	desk := &roads{
		press: clicks.Press, card: reader(g, draw), kept: st, outages: outages, log: log,
		commands: &bot.Commands{Gate: g, Clicks: clicks, Notes: map[string]string{cfg.Slack.Name(): slack.CommandNote}, Log: log},
		dispatcher: &bot.Dispatcher{
			Cards: st, Gate: g, Channels: map[string]channels.Channel{cfg.Slack.Name(): cfg.Slack},
			Route: router(cfg.Review), Direct: direct, Operators: places(cfg.Operators), Outages: outages,
			Card: draw, Replica: replica, Log: log,
		},
	}
	c.notices = outages.Notices
	c.parts = append(c.parts, part{"dispatcher", forever(desk.dispatcher.Run)})
	c.slack(cfg, desk)
	return c, nil
}

// roads lead from chats into the house.
type roads struct {
	press      channels.ClickFunc
	card       func(context.Context, gate.ID) (*channels.Card, error)
	commands   *bot.Commands
	dispatcher *bot.Dispatcher
	outages    *bot.Outages
	kept       gate.Presses
	log        *slog.Logger
}

// slack adds what receives from Slack: over HTTP if there is a signing secret, else
// over sockets.
func (c *chats) slack(cfg *config.Loaded, r *roads) {
	name, key := cfg.Slack.Name(), cfg.Channels.Slack.SigningSecret
	commands := &slack.Commands{Slack: cfg.Slack, Run: r.commands.Run, Home: cfg.Channels.Slack.Home, SigningSecret: key, Log: r.log}
	presses := &slack.Presses{
		Slack: cfg.Slack, Press: r.press, Private: r.commands.Press, Commands: commands, Kept: r.kept, SigningSecret: key, Log: r.log,
		Card: r.card,
	}
	events := &slack.Events{
		Slack: cfg.Slack, SigningSecret: key, Log: r.log,
		Out: func(why string) { r.outages.Out(name, why) }, Left: r.dispatcher.Left, Renamed: r.dispatcher.Renamed, Home: commands.OpenedHome,
	}
	c.parts = append(c.parts, part{"presses", forever(presses.Run)})
	c.settle = func() { events.Wait(); presses.Wait(); commands.Wait() } // what each may begin comes after it
	if key.Set() {
		c.routes["/slack/interactions"], c.routes["/slack/commands"], c.routes["/slack/events"] = presses, commands, events
		return
	}
	socket := &slack.Socket{
		Slack: cfg.Slack, To: slack.Receivers{Interactive: presses.Receive, Command: commands.Receive, Event: events.Receive}, Log: r.log,
		Down: func(why string) { r.outages.Deaf(name, why) },
	}
	c.parts = append(c.parts, part{"slack socket", forever(socket.Run)})
}

// meetSlack refuses a start that an operator must mend. A Slack that does not
// answer is an outage: the server starts, and waits for it.
func meetSlack(ctx context.Context, s *slack.Slack, log *slog.Logger) error {
	ctx, cancel := context.WithTimeout(ctx, connectFor)
	defer cancel()
	self, err := s.Connect(ctx)
	switch {
	case err == nil:
		log.InfoContext(ctx, "connected to Slack", "team", self.Team, "team_name", self.TeamName, "bot", self.User, "app", self.App, "scopes", self.Scopes)
	case gate.KindOf(err) == gate.Unavailable:
		log.WarnContext(ctx, "Slack does not answer; cards wait until it does", "err", err)
		return nil
	}
	return err
}

// places are conversations by channel, in the order of the channels' names.
func places(of map[string]string) (all []gate.Conversation) {
	for _, name := range slices.Sorted(maps.Keys(of)) {
		all = append(all, gate.Conversation{Place: name + ":" + of[name]})
	}
	return all
}

// router says where a card may go: an inline one to where its call came from, then
// any to where its rule says, or else to review.
func router(review map[string]string) func(*gate.View) []gate.Conversation {
	stays := places(review)
	return func(v *gate.View) (all []gate.Conversation) {
		if v.Mode == gate.Inline && v.Origin.Place != "" {
			all = append(all, v.Origin)
		}
		if v.Rule != nil {
			all = append(all, v.Rule.Conversations...)
		}
		return append(all, stays...)
	}
}

// maxDirect is how many approvers are written to where no conversation takes a card.
const maxDirect = 10

// direct are direct messages to those who may approve, as far as anybody knows.
func direct(ctx context.Context, v *gate.View) (all []gate.Conversation) {
	if v.Rule == nil {
		return nil
	}
	for _, g := range v.Rule.Groups {
		for _, id := range g.Accounts(ctx, gate.Slack) {
			to := gate.Conversation{Place: gate.Slack + ":" + id[strings.LastIndexByte(id, '/')+1:]}
			if len(all) < maxDirect && !slices.Contains(all, to) {
				all = append(all, to)
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
