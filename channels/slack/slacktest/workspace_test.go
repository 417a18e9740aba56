package slacktest_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/slack-go/slack"

	"github.com/approvalbot/approvalbot/channels/slack/slacktest"
)

func TestUsers(t *testing.T) {
	t.Parallel()
	type facts struct{ Deleted, Bot, Guest, SingleChannel, Stranger bool }
	tests := map[string]struct {
		user string
		want facts
		err  string
	}{
		"a member":                  {ada, facts{}, ""},
		"a guest":                   {bob, facts{Guest: true, SingleChannel: true}, ""},
		"a stranger":                {eve, facts{Stranger: true}, ""},
		"one who has left":          {gone, facts{Deleted: true}, ""},
		"a bot":                     {robot, facts{Bot: true}, ""},
		"one whom it may not see":   {hidden, facts{}, "user_not_visible"},
		"nobody":                    {"U0NONE", facts{}, "user_not_found"},
		"the bot, which is one too": {slacktest.BotUser, facts{Bot: true}, ""},
	}
	w := newWorld(t, slacktest.Config{})
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u, err := w.api.GetUserInfoContext(t.Context(), tt.user)
			if code(err) != tt.err {
				t.Fatalf("users.info = %v, want %q", err, tt.err)
			}
			if err != nil {
				return
			}
			got := facts{u.Deleted, u.IsBot, u.IsRestricted, u.IsUltraRestricted, u.IsStranger}
			if got != tt.want || u.ID != tt.user {
				t.Errorf("users.info = %+v, want %+v", got, tt.want)
			}
			if u.Profile.Email != "" {
				t.Errorf("e-mail %q without its scope", u.Profile.Email)
			}
		})
	}
}

func TestUsersOfAnOrganisationAndTheirMail(t *testing.T) {
	t.Parallel()
	w := newWorld(t, slacktest.Config{Scopes: []string{"users:read", "users:read.email"}})
	w.AddUser(slacktest.User{ID: "W0AAAAAA1", Email: "w@example.com", Enterprise: "E0AAAAAA1", Team: "T0CCCCCC1"})
	u, err := w.api.GetUserInfoContext(t.Context(), "W0AAAAAA1")
	if err != nil || u.Profile.Email != "w@example.com" || !u.IsEmailConfirmed || u.Enterprise.EnterpriseID != "E0AAAAAA1" || u.TeamID != "T0CCCCCC1" {
		t.Errorf("users.info = %+v, %v", u, err)
	}
}

func TestGroups(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		group   string
		options []slack.GetUserGroupMembersOption
		want    []string
		err     string
	}{
		"members":                    {sre, nil, []string{ada, bob}, ""},
		"disabled":                   {disbanded, nil, []string{}, ""},
		"disabled, and asked for it": {disbanded, []slack.GetUserGroupMembersOption{slack.GetUserGroupMembersOptionIncludeDisabled(true)}, []string{ada}, ""},
		"none":                       {"S0NONE", nil, []string{}, "no_such_subteam"},
	}
	w := newWorld(t, slacktest.Config{})
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := w.api.GetUserGroupMembersContext(t.Context(), tt.group, tt.options...)
			if diff := cmp.Diff(tt.want, got); diff != "" || code(err) != tt.err {
				t.Errorf("members: %v, %s", err, diff)
			}
		})
	}
}

func TestConversations(t *testing.T) {
	t.Parallel()
	type facts struct{ Private, Member, Archived, Shared bool }
	tests := map[string]struct {
		channel string
		scopes  []string // besides channels:read
		want    facts
		err     string
	}{
		"public":                             {ops, nil, facts{Member: true}, ""},
		"public without the bot":             {open, nil, facts{}, ""},
		"archived":                           {archived, nil, facts{Member: true, Archived: true}, ""},
		"shared":                             {shared, nil, facts{Member: true, Shared: true}, ""},
		"private":                            {secret, []string{"groups:read"}, facts{Private: true, Member: true}, ""},
		"private without its scope":          {secret, nil, facts{}, "missing_scope"},
		"private without the bot":            {private, []string{"groups:read"}, facts{}, "channel_not_found"},
		"none":                               {"C0NONE", nil, facts{}, "channel_not_found"},
		"a user instead of the conversation": {ada, nil, facts{}, "channel_not_found"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, slacktest.Config{Scopes: append(tt.scopes, "channels:read")})
			ch, err := w.api.GetConversationInfoContext(t.Context(), &slack.GetConversationInfoInput{ChannelID: tt.channel})
			_, _, errMembers := w.api.GetUsersInConversationContext(t.Context(), &slack.GetUsersInConversationParameters{ChannelID: tt.channel})
			if code(err) != tt.err || code(errMembers) != tt.err {
				t.Fatalf("info = %v, members = %v, want %q", err, errMembers, tt.err)
			}
			if err != nil {
				return
			}
			if got := (facts{ch.IsPrivate, ch.IsMember, ch.IsArchived, ch.IsExtShared}); got != tt.want {
				t.Errorf("info = %+v, want %+v", got, tt.want)
			}
		})
	}
}

func TestARestrictedConversationSaysWhoMayPost(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		posters []string
		err     string
	}{
		"nobody but admins": {nil, "restricted_action_read_only_channel"},
		"somebody else":     {[]string{ada}, "restricted_action_read_only_channel"},
		"the bot":           {[]string{ada, slacktest.BotUser}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, slacktest.Config{})
			w.AddChannel(slacktest.Channel{ID: readOnly, Restricted: "restricted_action_read_only_channel", Posters: tt.posters, Invited: true, Members: []string{slacktest.BotUser}})
			ch, err := w.api.GetConversationInfoContext(t.Context(), &slack.GetConversationInfoInput{ChannelID: readOnly})
			if err != nil || ch.Properties == nil || !ch.IsReadOnly || !ch.IsPendingExtShared {
				t.Fatalf("info = %+v, %v", ch, err)
			}
			if diff := cmp.Diff(tt.posters, ch.Properties.PostingRestrictedTo.User, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("who may post (-want +got):\n%s", diff)
			}
			if _, _, err := w.api.PostMessageContext(t.Context(), readOnly, text("x")); code(err) != tt.err {
				t.Errorf("post = %v, want %q", err, tt.err)
			}
		})
	}
}

func TestMembersComeInPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t, slacktest.Config{})
	params := &slack.GetUsersInConversationParameters{ChannelID: ops, Limit: 2}
	first, cursor, err := w.api.GetUsersInConversationContext(t.Context(), params)
	if err != nil || len(first) != 2 || cursor == "" {
		t.Fatalf("first page = %v, %q, %v", first, cursor, err)
	}
	params.Cursor = cursor
	last, cursor, err := w.api.GetUsersInConversationContext(t.Context(), params)
	if err != nil || len(last) != 1 || cursor != "" {
		t.Errorf("last page = %v, %q, %v", last, cursor, err)
	}
}

func TestOpeningDirectMessages(t *testing.T) {
	t.Parallel()
	many := []string{ada, bob, eve, ada, bob, eve, ada, bob, eve}
	tests := map[string]struct {
		users []string
		want  string
	}{
		"a member":                {[]string{ada}, ""},
		"nobody":                  {nil, "users_list_not_supplied"},
		"somebody who is not":     {[]string{"U0NONE"}, "user_not_found"},
		"one who has left":        {[]string{gone}, "user_disabled"},
		"one whom it may not see": {[]string{hidden}, "user_not_visible"},
		"a bot":                   {[]string{robot}, "invalid_user_combination"},
		"nine":                    {many, "too_many_users"},
	}
	w := newWorld(t, slacktest.Config{})
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, _, _, err := w.api.OpenConversationContext(t.Context(), &slack.OpenConversationParameters{Users: tt.users})
			if code(err) != tt.want {
				t.Errorf("open = %v, want %q", err, tt.want)
			}
		})
	}
	if _, _, _, err := w.api.OpenConversationContext(t.Context(), &slack.OpenConversationParameters{ChannelID: ops}); code(err) != "method_not_supported_for_channel_type" {
		t.Errorf("open a channel = %v", err)
	}
}
