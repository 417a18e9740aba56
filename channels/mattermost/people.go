package mattermost

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"unicode"

	"github.com/mattermost/mattermost/server/public/model"

	"github.com/approvalbot/approvalbot/channels"
	"github.com/approvalbot/approvalbot/gate"
)

// user looks a person up.
func (m *Mattermost) user(ctx context.Context, who string) (*model.User, error) {
	return m.people.Get(ctx, who, func(ctx context.Context) (*model.User, error) {
		u, resp, err := m.api().GetUser(ctx, who, "")
		if err != nil || u == nil || u.Id != who {
			return nil, notKnown("mattermost.user", resp, err)
		}
		return u, nil
	})
}

func voterID(user string) string { return name + ":" + user }

// voter says who pressed, and what Mattermost says of their account: anybody who
// sees a card can press it, guests and bots too, and an admin any card there is. The
// error is that nobody knows.
func (m *Mattermost) voter(ctx context.Context, who string) (gate.Voter, error) {
	u, err := m.user(ctx, who)
	if err != nil {
		return gate.Voter{}, err
	}
	v := gate.Voter{ID: voterID(u.Id), Name: called(u), Surface: name, Login: "platform", Account: account(u)}
	if v.Email, err = m.email(ctx, u); err != nil {
		return gate.Voter{}, err
	}
	return v, nil
}

// called is what people call somebody. A nickname can be anybody's, a username only
// theirs.
func called(u *model.User) string { return u.Username }

func account(u *model.User) gate.Account {
	switch {
	case u.DeleteAt != 0:
		return gate.Deactivated
	case u.IsBot || u.Username == "system":
		return gate.Bot
	case u.RemoteId != nil && *u.RemoteId != "":
		return gate.Outsider
	case u.IsGuest():
		return gate.Guest
	}
	return gate.Member
}

// email is somebody's address as this server has verified it; empty if it has not, or
// does not show it. A bot is not told whether an address was verified, so it counts
// only where the server lets nobody in without, and takes no new one before.
func (m *Mattermost) email(ctx context.Context, u *model.User) (string, error) {
	if u.Email == "" {
		return "", nil
	}
	settings, err := m.serverConfig(ctx)
	if err != nil {
		return "", err
	}
	if settings["RequireEmailVerification"] != "true" {
		return "", nil
	}
	return strings.Map(unicode.ToLower, u.Email), nil
}

// Has implements gate.Platform: by asking for the one person.
func (m *Mattermost) Has(ctx context.Context, r gate.Roster, voter string) (bool, error) {
	who, ours := strings.CutPrefix(voter, name+":")
	if !ours {
		return false, nil
	}
	if r.Kind == gate.KindUserGroup {
		all, err := m.Members(ctx, r)
		return slices.Contains(all, voter), err
	}
	return m.members.Get(ctx, r.ID+" "+who, func(ctx context.Context) (bool, error) {
		where, err := m.place(ctx, name+":"+r.ID)
		if err != nil {
			return false, err
		}
		_, resp, err := m.api().GetChannelMember(ctx, where, who, "")
		if missing(resp, err) {
			return false, nil
		}
		if err != nil {
			return false, failed("mattermost.Has", resp, err)
		}
		return true, nil
	})
}

// perPage is the most that Mattermost lists at once; a group of more than maxPages
// of them is read no further.
const (
	perPage  = 200
	maxPages = 50
)

// Members implements gate.Platform.
func (m *Mattermost) Members(ctx context.Context, r gate.Roster) ([]string, error) {
	return m.rosters.Get(ctx, string(r.Kind)+" "+r.ID, func(ctx context.Context) (all []string, err error) {
		list := m.api().GetUsersInGroup
		where := r.ID
		if r.Kind == gate.KindConversation {
			list = m.api().GetUsersInChannel
			if where, err = m.place(ctx, name+":"+r.ID); err != nil {
				return nil, err
			}
		} else if err := m.alive(ctx, r.ID); err != nil {
			return nil, err
		}
		for page := range maxPages {
			users, resp, err := list(ctx, where, page, perPage, "")
			if err != nil {
				return nil, failed("mattermost.Members", resp, err)
			}
			for _, u := range users {
				if !u.IsBot { // the bot itself, and others that never decide
					all = append(all, voterID(u.Id))
				}
			}
			if len(users) < perPage {
				break
			}
		}
		return all, nil
	})
}

// alive refuses a group that was deleted: its members are still listed.
func (m *Mattermost) alive(ctx context.Context, group string) error {
	g, resp, err := m.api().GetGroup(ctx, group, "")
	if err != nil || g == nil {
		return failed("mattermost.Members", resp, err)
	}
	if g.DeleteAt != 0 {
		return &channels.Error{Op: "mattermost.Members", Trouble: channels.Broken, Err: errors.New("the group was deleted")}
	}
	return nil
}

// place is the id of a conversation, whatever it is called. It opens a direct
// conversation with somebody who has none with the bot.
func (m *Mattermost) place(ctx context.Context, called string) (string, error) {
	const op = "mattermost.place"
	called = strings.TrimPrefix(called, name+":")
	if id.MatchString(called) {
		return called, nil
	}
	where, err := m.places.Get(ctx, called, func(ctx context.Context) (string, error) {
		if who, direct := strings.CutPrefix(called, "@"); direct {
			return m.direct(ctx, who)
		}
		if !channelName.MatchString(called) {
			return "", &channels.Error{Op: op, Trouble: channels.Nowhere, Err: errors.New("this is no conversation of Mattermost")}
		}
		team, channel, _ := strings.Cut(called, "/")
		c, resp, err := m.api().GetChannelByNameForTeamName(ctx, channel, team, "")
		if err != nil || c == nil || !id.MatchString(c.Id) {
			return "", before(op, resp, err)
		}
		return c.Id, nil
	})
	if err != nil && !isOurs(err) { // the caller has left
		return "", &channels.Error{Op: op, Trouble: channels.Busy, Err: err}
	}
	return where, err
}

func isOurs(err error) bool {
	_, ok := errors.AsType[*channels.Error](err)
	return ok
}

// direct opens a conversation with one person.
func (m *Mattermost) direct(ctx context.Context, who string) (string, error) {
	const op = "mattermost.direct"
	self, err := m.self(ctx)
	if err != nil {
		return "", &channels.Error{Op: op, Trouble: channels.Busy, Err: err}
	}
	if !id.MatchString(who) || who == self.Id {
		return "", &channels.Error{Op: op, Trouble: channels.Nowhere, Err: errors.New("this is nobody to write to")}
	}
	c, resp, err := m.api().CreateDirectChannel(ctx, self.Id, who)
	if err != nil || c == nil || !id.MatchString(c.Id) {
		return "", before(op, resp, err)
	}
	return c.Id, nil
}

// before is a failure before anything was posted, of which that much is certain.
func before(op string, resp *model.Response, err error) error {
	e := failed(op, resp, err)
	switch {
	case e.Trouble == channels.Unknown:
		e.Trouble = channels.Busy
	case e.Trouble == channels.Broken, resp != nil && resp.StatusCode == http.StatusForbidden:
		e.Trouble = channels.Nowhere
	}
	return e
}

// Resolve implements channels.Resolver: what comes back with a press is an id.
func (m *Mattermost) Resolve(ctx context.Context, c gate.Conversation) (gate.Conversation, error) {
	where, err := m.place(ctx, c.Place)
	if err != nil {
		return c, err
	}
	c.Place = name + ":" + where
	return c, nil
}
