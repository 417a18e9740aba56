package main

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/approvalbot/approvalbot/channels"
	"github.com/approvalbot/approvalbot/channels/mattermost"
	"github.com/approvalbot/approvalbot/cmd/approvalbot/config"
	"github.com/approvalbot/approvalbot/gate"
)

// mattermost adds Mattermost, which always calls over HTTP. It shows no private card
// whose buttons could be believed, so a command is answered with a stored one.
func (c *chats) mattermost(ctx context.Context, cfg *config.Loaded, r *roads) {
	m := cfg.Mattermost
	name := m.Name()
	r.dispatcher.Channels[name], r.commands.Notes[name] = m, mattermost.CommandNote
	r.commands.Stored[name] = func(ctx context.Context, id gate.ID, who gate.Voter) (string, error) {
		account := strings.TrimPrefix(who.ID, name+":")
		ref, err := r.dispatcher.ShowTo(ctx, id, gate.Conversation{Place: name + ":" + directly[name](account)})
		return m.Link(ref), err
	}
	r.commands.Links[name] = func(ctx context.Context, id gate.ID) string { return cardIn(ctx, r.store, m, id) }

	presses := &mattermost.Presses{Mattermost: m, Press: r.clicks.Try, Kept: r.store, Card: r.card, Log: r.log}
	c.routes[mattermost.ActionsPath], c.routes[mattermost.DialogsPath] = presses, mattermost.Dialogs{Presses: presses}
	c.routes[mattermost.CommandsPath] = &mattermost.Commands{Mattermost: m, Run: r.commands.Run, Log: r.log}
	c.routes[mattermost.TrialPath] = mattermost.Echo{Mattermost: m, Log: r.log}

	set := &settling{chat: m, policy: r.gate.Policy, log: r.log}
	set.begin(ctx)
	c.policy = set.reloaded
	c.parts = append(c.parts, part{"mattermost set-up", forever(set.run)})
}

// cardIn is where people of Mattermost find the card of an approval. One that somebody
// was sent for themselves is nobody else's to find.
func cardIn(ctx context.Context, cards gate.Cards, m *mattermost.Mattermost, id gate.ID) string {
	posted, err := cards.Posted(ctx, id)
	if err != nil {
		return ""
	}
	for _, p := range posted {
		if strings.HasPrefix(p.Place, m.Name()+":") && p.Message != "" && !p.Beside {
			return m.Link(channels.Ref{Place: p.Place, Message: p.Message, Thread: p.Thread})
		}
	}
	return ""
}

// meetMattermost refuses a start that an operator must mend. A Mattermost that does
// not answer is an outage: the server starts, and waits for it.
func meetMattermost(ctx context.Context, cfg *config.Loaded, log *slog.Logger) error {
	ctx, cancel := context.WithTimeout(ctx, connectFor)
	defer cancel()
	_, err := cfg.Mattermost.Connect(ctx)
	if gate.KindOf(err) == gate.Unavailable {
		log.WarnContext(ctx, "Mattermost does not answer; cards wait until it does", "err", err)
		return nil
	}
	return err
}

// settling does what Mattermost must answer once, and in part again for another policy:
// who the bot is, which accounts the names in the policy are, whether its lists can be
// read, and the tokens of slash commands. What it does not answer is asked again.
type settling struct {
	chat   settled
	policy func() *gate.Policy
	log    *slog.Logger

	mu                          sync.Mutex
	bot, names, lists, commands bool // are known
}

// settled is what is asked.
type settled interface {
	Name() string
	Connect(ctx context.Context) (mattermost.Self, error)
	Pin(ctx context.Context, usernames []string) (map[string]string, error)
	Readable(ctx context.Context, r gate.Roster) error
	Register(ctx context.Context) error
}

// settleEvery is how often an answer is asked for that did not come.
const settleEvery = 15 * time.Second

func (s *settling) run(ctx context.Context) {
	tick := time.NewTicker(settleEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.begin(ctx)
		}
	}
}

// begin asks for all that is not known yet.
func (s *settling) begin(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, connectFor)
	defer cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.bot {
		s.bot = s.greet(ctx)
	}
	if !s.names {
		s.names = s.pin(ctx)
	}
	if !s.lists {
		s.lists = s.read(ctx)
	}
	if !s.commands {
		s.commands = s.answered(ctx, "the slash command", s.chat.Register(ctx))
	}
}

// reloaded asks what another policy takes.
func (s *settling) reloaded(ctx context.Context) {
	s.mu.Lock()
	s.names, s.lists = false, false
	s.mu.Unlock()
	s.begin(ctx)
}

func (s *settling) greet(ctx context.Context) bool {
	self, err := s.chat.Connect(ctx)
	if err != nil {
		return s.answered(ctx, "who the bot is", err)
	}
	s.log.InfoContext(ctx, "connected to Mattermost", "bot", self.Username, "id", self.ID, "version", self.Version)
	if !self.Bot || self.Admin {
		s.log.WarnContext(ctx, "the token for Mattermost is of an account that may do more than it must; use a bot account that is no admin", "bot", self.Bot, "admin", self.Admin)
	}
	return true
}

func (s *settling) pin(ctx context.Context) bool {
	p := s.policy()
	names := p.Names(s.chat.Name())
	if len(names) == 0 {
		return true
	}
	ids, err := s.chat.Pin(ctx, names)
	p.Pin(s.chat.Name(), ids)
	return s.answered(ctx, "people who are listed by name", err)
}

func (s *settling) read(ctx context.Context) bool {
	all := true
	for _, r := range s.policy().Rosters(s.chat.Name()) {
		all = s.answered(ctx, "a list of approvers", s.chat.Readable(ctx, r)) && all
	}
	return all
}

// answered reports whether an answer came, and says what it means for people. What an
// operator must mend is not asked again: a name that nobody had may be anybody's then.
func (s *settling) answered(ctx context.Context, about string, err error) bool {
	switch {
	case err == nil:
	case errors.Is(err, gate.Unavailable):
		s.log.WarnContext(ctx, "Mattermost does not say what is needed; until it does nobody decides by that", "about", about, "err", err)
		return false
	default:
		s.log.ErrorContext(ctx, "something does not work in Mattermost until an operator mends it", "about", about, "err", err)
	}
	return true
}
