package slack

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	api "github.com/slack-go/slack"

	"github.com/approvalbot/approvalbot/gate"
)

// user looks a person up.
func (s *Slack) user(ctx context.Context, id string) (*api.User, error) {
	return s.people.Get(ctx, id, func(ctx context.Context) (*api.User, error) {
		u, err := s.client().GetUserInfoContext(ctx, id)
		if err != nil || u == nil || u.ID != id {
			return nil, failed("slack.user", err)
		}
		return u, nil
	})
}

// Has implements gate.Platform.
func (s *Slack) Has(ctx context.Context, r gate.Roster, voter string) (bool, error) {
	ids, err := s.Members(ctx, r)
	return slices.Contains(ids, voter), err
}

// Members implements gate.Platform, for user groups.
func (s *Slack) Members(ctx context.Context, r gate.Roster) ([]string, error) {
	if r.Kind != gate.KindUserGroup {
		return nil, failed("slack.Members", fmt.Errorf("a %s is no list of approvers on Slack", r.Kind))
	}
	here, err := s.self(ctx)
	if err != nil {
		return nil, err
	}
	return s.groups.Get(ctx, r.ID, func(ctx context.Context) ([]string, error) {
		users, err := s.roster(ctx, here, r.ID)
		if err != nil {
			return nil, failed("slack.Members", err)
		}
		for i, id := range users {
			users[i] = voterID(here.TeamID, id)
		}
		return users, nil
	})
}

// roster lists the user ids of a group.
func (s *Slack) roster(ctx context.Context, here *workspace, group string) ([]string, error) {
	var options []api.GetUserGroupMembersOption
	if here.EnterpriseID != "" {
		options = append(options, api.GetUserGroupMembersOptionTeamID(here.TeamID))
	}
	return s.client().GetUserGroupMembersContext(ctx, group, options...)
}

func voterID(team, user string) string { return name + ":" + team + "/" + user }

// voter says who pressed, and what Slack says of their account: anybody who sees
// a card can press it, guests and people of other companies too. The error is
// that nobody knows.
func (s *Slack) voter(ctx context.Context, id string) (gate.Voter, error) {
	here, err := s.self(ctx)
	if err != nil {
		return gate.Voter{}, err
	}
	u, err := s.user(ctx, id)
	if err != nil {
		return gate.Voter{}, err
	}
	v := gate.Voter{
		ID: voterID(here.TeamID, u.ID), Name: called(u), Surface: name, Login: "platform",
		Account: here.account(u),
	}
	if v.Account == gate.Outsider {
		v.ID = voterID(u.TeamID, u.ID)
	} else if u.IsEmailConfirmed { // of another company it says what that one likes
		v.Email = strings.ToLower(u.Profile.Email)
	}
	return v, nil
}

// account says what somebody is to this workspace.
func (w *workspace) account(u *api.User) gate.Account {
	switch {
	case u.Deleted:
		return gate.Deactivated
	case u.IsBot || u.IsAppUser || u.ID == "USLACKBOT":
		return gate.Bot
	case u.IsStranger || !w.has(u):
		return gate.Outsider
	case u.IsRestricted || u.IsUltraRestricted:
		return gate.Guest
	}
	return gate.Member
}

// called is what people call somebody.
func called(u *api.User) string {
	return cmp.Or(u.Profile.DisplayName, u.RealName, u.Name, u.ID)
}

// has reports whether somebody is of this workspace. In an organisation people
// belong to several, and their own id and team may be the organisation's.
func (w *workspace) has(u *api.User) bool {
	if u.TeamID == w.TeamID {
		return true
	}
	return w.EnterpriseID != "" && u.Enterprise.EnterpriseID == w.EnterpriseID && slices.Contains(u.Enterprise.Teams, w.TeamID)
}
