package slack

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	api "github.com/slack-go/slack"

	"github.com/approvalbot/approvalbot/channels"
	"github.com/approvalbot/approvalbot/gate"
)

// workspace is what the bot token is for.
type workspace struct {
	*api.AuthTestResponse
	scopes []string
}

// What the bot cannot do without, and why.
var needed = map[string]string{
	"chat:write": "cards cannot be posted",
	"users:read": "nobody can be recognised who presses a button",
}

// Self is what Slack says the bot is.
type Self struct {
	Team, TeamName string // T…
	User, App      string // U…, A…
	Scopes         []string
}

// Connect asks Slack who the bot is and whether it may do what it must. An error
// of kind Unavailable is one that time may mend; any other is for an operator.
func (s *Slack) Connect(ctx context.Context) (Self, error) {
	w, err := s.self(ctx)
	if err != nil {
		return Self{}, err
	}
	return Self{Team: w.TeamID, TeamName: w.Team, User: w.UserID, App: s.appID(), Scopes: w.scopes}, nil
}

// self is the workspace of the token, asked for once in a while: tokens change.
func (s *Slack) self(ctx context.Context) (*workspace, error) {
	return s.here.Get(ctx, "", func(ctx context.Context) (*workspace, error) {
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		w, err := s.authTest(ctx)
		if err != nil {
			return nil, s.notConnected(err)
		}
		if err := s.suits(w); err != nil {
			return nil, err
		}
		bot, err := s.client().GetBotInfoContext(ctx, api.GetBotInfoParameters{Bot: w.BotID})
		if err != nil || bot.AppID == "" {
			return nil, s.notConnected(err)
		}
		s.app.Store(&bot.AppID)
		return w, nil
	})
}

// authTest asks whose the token is, and what it may do.
func (s *Slack) authTest(ctx context.Context) (*workspace, error) {
	who, err := s.client().AuthTestContext(ctx)
	if err != nil {
		return nil, err
	}
	if who.TeamID == "" {
		return nil, errNeither
	}
	w := &workspace{AuthTestResponse: who}
	if header := who.Header.Get("X-OAuth-Scopes"); header != "" {
		w.scopes = strings.Split(strings.ReplaceAll(header, " ", ""), ",")
	}
	return w, nil
}

// appID is the app's id, empty until Slack has said it.
func (s *Slack) appID() string {
	if id := s.app.Load(); id != nil {
		return *id
	}
	return ""
}

// suits refuses a token that is not what was configured.
func (s *Slack) suits(w *workspace) error {
	if s.team != "" && s.team != w.TeamID && s.team != w.EnterpriseID {
		return unusable(fmt.Sprintf("the bot token is of workspace %s (%s), and channels.slack.team wants %s", w.TeamID, w.Team, s.team))
	}
	for _, scope := range []string{"chat:write", "users:read"} {
		if w.scopes != nil && !slices.Contains(w.scopes, scope) {
			return unusable(fmt.Sprintf("the bot token has not the scope %s: %s; add it under OAuth & Permissions and install the app again", scope, needed[scope]))
		}
	}
	return nil
}

func unusable(text string) error {
	return &gate.Error{Kind: gate.Invalid, Reason: gate.ReasonIdentityUnavailable, Op: "slack.Connect", Public: "slack: " + text}
}

// notConnected tells an answer that an operator must mend from none.
func (s *Slack) notConnected(err error) error {
	if refused, ok := errors.AsType[api.SlackErrorResponse](err); ok {
		if t, _ := meaning(err); t == channels.Out || t == channels.Broken {
			return unusable("the bot token is refused: " + refused.Err + "; take the one under OAuth & Permissions")
		}
	}
	return &gate.Error{Kind: gate.Unavailable, Reason: gate.ReasonIdentityUnavailable, Op: "slack.Connect", Public: "slack does not answer", Err: failed("slack.Connect", err)}
}
