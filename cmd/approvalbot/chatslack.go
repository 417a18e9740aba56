package main

import (
	"context"
	"log/slog"

	"github.com/approvalbot/approvalbot/channels/slack"
	"github.com/approvalbot/approvalbot/cmd/approvalbot/config"
	"github.com/approvalbot/approvalbot/gate"
)

// slack adds Slack: what receives from it does so over HTTP if there is a signing
// secret, else over sockets.
func (c *chats) slack(cfg *config.Loaded, r *roads) {
	name, key := cfg.Slack.Name(), cfg.Channels.Slack.SigningSecret
	r.dispatcher.Channels[name], r.commands.Notes[name] = cfg.Slack, slack.CommandNote
	commands := &slack.Commands{Slack: cfg.Slack, Run: r.commands.Run, Home: cfg.Channels.Slack.Home, SigningSecret: key, Log: r.log}
	presses := &slack.Presses{
		Slack: cfg.Slack, Press: r.clicks.Press, Private: r.commands.Press, Commands: commands, Kept: r.store, SigningSecret: key, Log: r.log,
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
