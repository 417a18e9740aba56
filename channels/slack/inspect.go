package slack

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/gorilla/websocket"
	api "github.com/slack-go/slack"

	"github.com/approvalbot/approvalbot/gate"
)

// Account is what Slack says of the bot token, also of one that the bot could not
// work with. Unlike what decisions rest on, nothing here is remembered.
type Account struct {
	Self
	Name       string        // what people write to invite the bot
	Enterprise string        // E…, if the workspace is of an organisation
	Ahead      time.Duration // this machine's clock of Slack's, to a second; negative is behind

	slack *Slack
	here  *workspace
}

// Account asks Slack whose the bot token is. Errors, here and below, are *Failure.
func (s *Slack) Account(ctx context.Context) (*Account, error) {
	a := &Account{slack: s}
	err := s.ask(ctx, func(ctx context.Context) error {
		w, err := s.authTest(ctx)
		a.here = w
		return err
	})
	if err != nil {
		return nil, err
	}
	w := a.here
	a.Self = Self{Team: w.TeamID, TeamName: w.Team, User: w.UserID, Scopes: w.scopes}
	a.Name, a.Enterprise = w.User, w.EnterpriseID
	if date, err := http.ParseTime(w.Header.Get("Date")); err == nil {
		a.Ahead = time.Since(date).Truncate(time.Second)
	}
	_ = s.ask(ctx, func(ctx context.Context) error { // without users:read the app stays unknown
		bot, err := s.client().GetBotInfoContext(ctx, api.GetBotInfoParameters{Bot: w.BotID})
		if err == nil {
			a.App = bot.AppID
		}
		return err
	})
	return a, nil
}

// Suits reports whether the token is of the workspace that the configuration wants.
func (a *Account) Suits() bool {
	return a.slack.team == "" || a.slack.team == a.Team || a.slack.team == a.Enterprise
}

// Person is somebody's account, as the bot's workspace sees it.
type Person struct {
	ID, Name string // U…; the name is theirs to choose
	Team     string // T…, as decisions know them
	Account  gate.Account
}

// Person looks somebody up.
func (a *Account) Person(ctx context.Context, id string) (Person, error) {
	var p Person
	err := a.slack.ask(ctx, func(ctx context.Context) error {
		u, err := a.slack.client().GetUserInfoContext(ctx, id)
		if err != nil {
			return err
		}
		if u == nil || u.ID == "" {
			return errNeither
		}
		p = Person{ID: u.ID, Name: called(u), Team: a.Team, Account: a.here.account(u)}
		if !a.here.has(u) {
			p.Team = u.TeamID
		}
		return nil
	})
	return p, err
}

// Group lists the user ids of a user group.
func (a *Account) Group(ctx context.Context, id string) (users []string, err error) {
	err = a.slack.ask(ctx, func(ctx context.Context) error {
		users, err = a.slack.roster(ctx, a.here, id)
		return err
	})
	return users, err
}

// Conversation is a place for cards.
type Conversation struct {
	ID, Name   string
	Private    bool
	Archived   bool
	Member     bool // the bot is in it
	Shared     bool // another company reads it,
	Invited    bool // or has been asked to
	Restricted bool // not everybody may post, and Slack does not name the bot among those who may
}

// Conversation looks a conversation up.
func (a *Account) Conversation(ctx context.Context, id string) (Conversation, error) {
	var conv Conversation
	err := a.slack.ask(ctx, func(ctx context.Context) error {
		c, err := a.slack.client().GetConversationInfoContext(ctx, &api.GetConversationInfoInput{ChannelID: id})
		if err != nil {
			return err
		}
		if c.ID == "" {
			return errNeither
		}
		conv = Conversation{
			ID: c.ID, Name: c.Name, Private: c.IsPrivate, Archived: c.IsArchived, Member: c.IsMember,
			Shared: c.IsExtShared, Invited: c.IsPendingExtShared, Restricted: c.IsReadOnly,
		}
		if p := c.Properties; p != nil && len(p.PostingRestrictedTo.Type)+len(p.PostingRestrictedTo.User) > 0 {
			conv.Restricted = !slices.Contains(p.PostingRestrictedTo.User, a.User)
		}
		return nil
	})
	return conv, err
}

// Greeting is what Slack says to who connects over Socket Mode.
type Greeting struct {
	App         string // A…, that the app token is of; empty if it is not said
	Connections int    // of the app, the one that was opened for this included
}

// Try opens a connection, takes Slack's greeting, and closes it again. A press
// that comes in between is lost, and whoever pressed is told so by Slack.
func (s *Socket) Try(ctx context.Context) (Greeting, error) {
	var g Greeting
	err := s.Slack.ask(ctx, func(ctx context.Context) error {
		ws, err := s.open(ctx)
		if err != nil {
			return err
		}
		defer ws.Close()
		defer context.AfterFunc(ctx, func() { _ = ws.Close() })()
		ws.SetReadLimit(maxFrame)
		_ = ws.SetReadDeadline(time.Now().Add(shakeWithin))
		for {
			_, raw, err := ws.ReadMessage()
			if err != nil {
				return err
			}
			var f frame
			_ = json.Unmarshal(raw, &f) // as take does
			switch f.Type {
			case "hello":
				g = Greeting{App: f.Info.App, Connections: int(f.Connections)}
				hangUp(ws)
				return nil
			case "disconnect":
				return api.SlackErrorResponse{Err: cmp.Or(f.Reason, "disconnect")}
			}
		}
	})
	return g, err
}

// hangUp says goodbye and waits a little for Slack's answer, as leave does.
func hangUp(ws *websocket.Conn) {
	bye := websocket.FormatCloseMessage(websocket.CloseNormalClosure, "")
	_ = ws.WriteControl(websocket.CloseMessage, bye, time.Now().Add(goodbye))
	_ = ws.SetReadDeadline(time.Now().Add(goodbye))
	for {
		if _, _, err := ws.ReadMessage(); err != nil {
			return
		}
	}
}

// Failure is why Slack did not say what it was asked.
type Failure struct {
	Code   string // Slack's own word for a refusal, like invalid_auth; empty: there was no answer
	Needed string // the scopes any of which would do, with missing_scope
	Why    string // what is in the way of an answer; no secret is in it
	Down   bool   // Slack did answer, but nothing that anybody else could mend
}

// Error implements error.
func (f *Failure) Error() string { return cmp.Or(f.Code, f.Why) }

// tries is how often something is asked that Slack wants to be asked later.
const tries = 2

// ask asks, and does as Slack says that wants to be asked later.
func (s *Slack) ask(ctx context.Context, what func(context.Context) error) error {
	for n := 1; ; n++ {
		soon, cancel := context.WithTimeout(ctx, callTimeout+shakeWithin)
		err := what(soon)
		cancel()
		if err == nil {
			return nil
		}
		limited, later := errors.AsType[*api.RateLimitedError](err)
		if !later || n == tries {
			return failure(err)
		}
		wait := time.NewTimer(max(limited.RetryAfter, time.Second))
		select {
		case <-ctx.Done():
			wait.Stop()
			return failure(ctx.Err())
		case <-wait.C:
		}
	}
}

// failure puts an error of slack-go in words that may be shown.
func failure(err error) *Failure {
	if refused, ok := errors.AsType[api.SlackErrorResponse](err); ok {
		return &Failure{Code: refused.Err, Needed: refused.Needed}
	}
	if _, ok := errors.AsType[*api.RateLimitedError](err); ok {
		return &Failure{Code: "ratelimited"}
	}
	if status, ok := errors.AsType[api.StatusCodeError](err); ok {
		return &Failure{Why: fmt.Sprintf("it answers HTTP %d", status.Code), Down: true}
	}
	if errors.Is(err, errNeither) {
		return &Failure{Why: "it says neither yes nor no", Down: true}
	}
	if _, ok := errors.AsType[*json.SyntaxError](err); ok {
		return &Failure{Why: "what answers is not Slack; a proxy may be in between"}
	}
	for { // what *url.Error adds is the URL, and a socket's is a secret
		u, ok := errors.AsType[*url.Error](err)
		if !ok {
			break
		}
		err = u.Err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return &Failure{Why: "no answer in time"}
	}
	return &Failure{Why: err.Error()}
}
