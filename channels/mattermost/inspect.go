package mattermost

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/mattermost/mattermost/server/public/model"

	"github.com/approvalbot/approvalbot/channels"
	"github.com/approvalbot/approvalbot/gate"
)

// Server is what a Mattermost server says of itself, also to a token that it does not
// know. Unlike what decisions rest on, nothing here is remembered.
type Server struct {
	Settings map[string]string // as it calls them; most of them only for a good token
	Key      error             // why nobody can check whose press it is; nil: its key is good
	Ahead    time.Duration     // this machine's clock of the server's, to a second; negative is behind
}

// Server asks the server about itself. Errors, here and below, are *Failure.
func (m *Mattermost) Server(ctx context.Context) (*Server, error) {
	s := &Server{}
	settings, err := look(ctx, func(ctx context.Context) (map[string]string, *model.Response, error) {
		c, resp, err := m.api().GetOldClientConfig(ctx, "")
		if err == nil && len(c) == 0 {
			err = errNeither
		}
		if err == nil {
			if date, bad := http.ParseTime(resp.Header.Get("Date")); bad == nil {
				s.Ahead = time.Since(date).Truncate(time.Second)
			}
		}
		return c, resp, err
	})
	if err != nil {
		return nil, err
	}
	s.Settings = settings
	_, s.Key = publicKey(settings["AsymmetricSigningPublicKey"])
	return s, nil
}

// Account is what Mattermost says of the bot, also of one that could not work.
type Account struct {
	ID, Username string
	Bot          bool     // or else the token is a person's
	Admin        bool     // a system admin, which no bot needs to be
	Anywhere     bool     // a role lets it post also where it is not a member
	Teams        []string // names of those that it is in, sorted

	mattermost *Mattermost
}

// Account asks Mattermost whose the token is.
func (m *Mattermost) Account(ctx context.Context) (*Account, error) {
	u, err := look(ctx, func(ctx context.Context) (*model.User, *model.Response, error) { return one(m.api().GetMe(ctx, "")) })
	if err != nil {
		return nil, err
	}
	a := &Account{ID: u.Id, Username: u.Username, Bot: u.IsBot, Admin: u.IsSystemAdmin(), mattermost: m}
	a.Anywhere = model.IsInRole(u.Roles, model.SystemPostAllRoleId) || model.IsInRole(u.Roles, model.SystemPostAllPublicRoleId)
	teams, err := look(ctx, func(ctx context.Context) ([]*model.Team, *model.Response, error) {
		return m.api().GetTeamsForUser(ctx, u.Id, "")
	})
	if err != nil {
		return nil, err
	}
	for _, t := range teams {
		a.Teams = append(a.Teams, t.Name)
	}
	slices.Sort(a.Teams)
	return a, nil
}

// Conversation is a place for cards.
type Conversation struct {
	ID, Name string
	Archived bool
	Member   bool // the bot is in it
}

// Conversation looks a conversation up, by its id or as team/channel.
func (a *Account) Conversation(ctx context.Context, called string) (Conversation, error) {
	c, err := look(ctx, func(ctx context.Context) (*model.Channel, *model.Response, error) {
		if id.MatchString(called) {
			return one(a.mattermost.api().GetChannel(ctx, called, ""))
		}
		team, channel, _ := strings.Cut(called, "/")
		return one(a.mattermost.api().GetChannelByNameForTeamNameIncludeDeleted(ctx, channel, team, ""))
	})
	if err != nil {
		return Conversation{}, err
	}
	_, err = look(ctx, func(ctx context.Context) (*model.ChannelMember, *model.Response, error) {
		return one(a.mattermost.api().GetChannelMember(ctx, c.Id, a.ID, ""))
	})
	if f, ok := errors.AsType[*Failure](err); ok && !f.Refused() {
		return Conversation{}, err
	}
	return Conversation{ID: c.Id, Name: c.Name, Archived: c.DeleteAt != 0, Member: err == nil}, nil
}

// Person is somebody's account.
type Person struct {
	ID, Username string
	Account      gate.Account
}

// Person looks somebody up, by id or username.
func (a *Account) Person(ctx context.Context, called string) (Person, error) {
	u, err := look(ctx, func(ctx context.Context) (*model.User, *model.Response, error) {
		if id.MatchString(called) {
			return one(a.mattermost.api().GetUser(ctx, called, ""))
		}
		return one(a.mattermost.api().GetUserByUsername(ctx, called, ""))
	})
	if err != nil {
		return Person{}, err
	}
	return personOf(u), nil
}

func personOf(u *model.User) Person { return Person{u.Id, u.Username, account(u)} }

// Group is a group that Mattermost keeps, as decisions look at it.
type Group struct {
	Name    string
	Deleted bool
}

// Group looks a group up. Who may not read it cannot decide by it either.
func (a *Account) Group(ctx context.Context, id string) (Group, error) {
	g, err := look(ctx, func(ctx context.Context) (*model.Group, *model.Response, error) {
		return one(a.mattermost.api().GetGroup(ctx, id, ""))
	})
	if err != nil {
		return Group{}, err
	}
	return Group{Name: cmp.Or(g.DisplayName, id), Deleted: g.DeleteAt != 0}, nil
}

// Crowd lists who is in a group or a conversation, bots too.
func (a *Account) Crowd(ctx context.Context, r gate.Roster) (all []Person, err error) {
	voters, err := a.mattermost.Members(ctx, r)
	if err != nil {
		return nil, unlisted(err)
	}
	ids := make([]string, 0, len(voters))
	for _, v := range voters {
		ids = append(ids, strings.TrimPrefix(v, name+":"))
	}
	for some := range slices.Chunk(ids, perPage) {
		users, err := look(ctx, func(ctx context.Context) ([]*model.User, *model.Response, error) {
			return a.mattermost.api().GetUsersByIds(ctx, some)
		})
		if err != nil {
			return nil, err
		}
		for _, u := range users {
			all = append(all, personOf(u))
		}
	}
	return all, nil
}

// unlisted is the failure of a list that cards and decisions read too.
func unlisted(err error) *Failure {
	if e, ok := errors.AsType[*channels.Error](err); ok {
		return &Failure{Why: e.Err.Error()}
	}
	return &Failure{Why: err.Error()}
}

// SlashCommand is how our command stands in a team.
type SlashCommand struct {
	Given  bool   // the configuration has its token,
	Listed bool   // and the bot may look at the team's commands
	Found  bool   // among which is one of our name:
	URL    string // where it leads,
	Post   bool   // by POST,
	Same   bool   // and its token is the one that is given
}

// Command looks at the command of a team, and makes nothing.
func (a *Account) Command(ctx context.Context, c CommandConfig) (s SlashCommand, err error) {
	s.Given = c.Token.Set()
	team, err := look(ctx, func(ctx context.Context) (*model.Team, *model.Response, error) {
		return one(a.mattermost.api().GetTeamByName(ctx, c.Team, ""))
	})
	if err != nil {
		return s, err
	}
	all, err := look(ctx, func(ctx context.Context) ([]*model.Command, *model.Response, error) {
		return a.mattermost.api().ListCommands(ctx, team.Id, true)
	})
	if f, ok := errors.AsType[*Failure](err); ok && f.Status == http.StatusForbidden {
		return s, nil
	}
	if err != nil {
		return s, err
	}
	s.Listed = true
	for _, k := range all {
		if k.Trigger == Trigger && k.DeleteAt == 0 {
			s.Found, s.URL, s.Post = true, k.URL, k.Method == model.CommandMethodPost
			s.Same = k.Token == c.Token.Reveal()
		}
	}
	return s, nil
}

// CommandURL is where the slash command must lead.
func (a *Account) CommandURL() string { return a.mattermost.callback + CommandsPath }

// Failure is why Mattermost did not say what it was asked.
type Failure struct {
	Status int    // of HTTP; zero: nothing came back that can be read
	Code   string // Mattermost's own id of an error; empty: the answer is not in its words
	Why    string // for people; no secret is in it
	Other  bool   // what answered is not Mattermost: a login page, or a proxy
}

// Error implements error.
func (f *Failure) Error() string { return f.Why }

// Refused reports whether Mattermost has said no, which it will say again.
func (f *Failure) Refused() bool {
	return f.Code != "" && f.Status >= http.StatusBadRequest && (f.Status < http.StatusInternalServerError || f.Status == http.StatusNotImplemented) && f.Status != http.StatusTooManyRequests
}

// tries is how often something is asked that Mattermost wants to be asked later.
const tries = 2

// look asks, and does as Mattermost says that wants to be asked later.
func look[T any](ctx context.Context, what func(context.Context) (T, *model.Response, error)) (T, error) {
	for n := 1; ; n++ {
		soon, cancel := context.WithTimeout(ctx, callTimeout)
		got, resp, err := what(soon)
		cancel()
		if err == nil {
			return got, nil
		}
		if resp == nil || resp.StatusCode != http.StatusTooManyRequests || n == tries {
			return got, failure(resp, err)
		}
		wait := time.NewTimer(after(resp.Header))
		select {
		case <-ctx.Done():
			wait.Stop()
			return got, failure(nil, ctx.Err())
		case <-wait.C:
		}
	}
}

// one makes an answer with nothing in it an error.
func one[T any](got *T, resp *model.Response, err error) (*T, *model.Response, error) {
	if err == nil && (got == nil || reflect.ValueOf(got).Elem().IsZero()) {
		err = errNeither
	}
	return got, resp, err
}

// failure puts an error of the library in words that may be shown.
func failure(resp *model.Response, err error) *Failure {
	f := &Failure{Code: codeOf(err)}
	if resp != nil {
		f.Status = resp.StatusCode
	}
	switch refused, ok := errors.AsType[*model.AppError](err); {
	case f.Code == "" && f.Status >= http.StatusInternalServerError:
		f.Why = fmt.Sprintf("it answers HTTP %d", f.Status)
		return f
	case ok && refused != nil && refused.Id == unreadable, errors.Is(err, errNeither):
		f.Other, f.Why = true, "what answers is not Mattermost"
		return f
	case f.Code == "" && f.Status == http.StatusTooManyRequests:
		f.Why = "it is asked too often"
		return f
	}
	f.Other = f.Code == "" && f.Status >= http.StatusMultipleChoices && f.Status < http.StatusInternalServerError
	for err = short(resp, err); ; { // what *url.Error adds is the address
		u, ok := errors.AsType[*url.Error](err)
		if !ok {
			break
		}
		err = u.Err
	}
	f.Why = err.Error()
	if slow, ok := errors.AsType[net.Error](err); ok && slow.Timeout() || errors.Is(err, context.DeadlineExceeded) {
		f.Why = "no answer in time"
	}
	return f
}
