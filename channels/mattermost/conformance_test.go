package mattermost_test

import (
	"strings"
	"testing"
	"time"

	"github.com/approvalbot/approvalbot/channels"
	"github.com/approvalbot/approvalbot/channels/channeltest"
	"github.com/approvalbot/approvalbot/channels/mattermost"
	"github.com/approvalbot/approvalbot/channels/mattermost/mattermosttest"
	"github.com/approvalbot/approvalbot/gate"
	"github.com/approvalbot/approvalbot/gate/secret"
)

// Who and what is on the server of these tests. Bots have no name with spaces.
const (
	ann     = "u1ann000000000000000000000"
	bo      = "u1bo0000000000000000000000"
	carol   = "u1carol0000000000000000000" // no approver
	guest   = "u1guest0000000000000000000"
	mallory = "u1mallory00000000000000000"
	ops     = "c1ops000000000000000000000"
	old     = "c1old000000000000000000000" // archived
	secrets = "c1secrets00000000000000000" // private, without the bot
	group   = "g1sre000000000000000000000"
)

// server is a Mattermost with some people in it.
func server(t testing.TB, c mattermosttest.Config) *mattermosttest.Server {
	t.Helper()
	s := mattermosttest.New(t, c)
	for _, u := range []mattermosttest.User{
		{ID: ann, Username: "ann", Email: "Ann@example.com", EmailVerified: true},
		{ID: bo, Username: "bo", Email: "bo@example.com"},
		{ID: carol, Username: "carol"},
		{ID: guest, Username: "guest", Guest: true},
		{ID: mallory, Username: "mallory"},
	} {
		s.AddUser(u)
	}
	all := []string{ann, bo, carol, guest, mallory, mattermosttest.BotUser}
	s.AddChannel(mattermosttest.Channel{ID: ops, Name: "ops", Team: mattermosttest.Team, Type: "O", Members: all})
	s.AddChannel(mattermosttest.Channel{ID: old, Name: "old", Team: mattermosttest.Team, Type: "O", Members: all, Archived: true})
	s.AddChannel(mattermosttest.Channel{ID: secrets, Name: "secrets", Team: mattermosttest.Team, Type: "P", Members: []string{ann}})
	s.AddGroup(mattermosttest.Group{ID: group, Name: "sre", Source: "custom", Members: []string{ann}})
	return s
}

// channel is the bot on a server that never calls it.
func channel(t testing.TB, s *mattermosttest.Server) *mattermost.Mattermost {
	t.Helper()
	m := mattermost.New(mattermost.Config{URL: s.URL(), Token: secret.New(mattermosttest.BotToken), CallbackURL: "https://approvals.example.com"})
	m.Keys = keys(t)
	return m
}

func keys(t testing.TB) *gate.Keyring {
	t.Helper()
	k, err := gate.NewKeyring(secret.New(strings.Repeat("k", gate.MinServerKey)))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestConformance(t *testing.T) {
	t.Parallel()
	channeltest.Run(t, func(t *testing.T) *channeltest.Desk {
		t.Helper()
		s := server(t, mattermosttest.Config{})
		until := make(chan struct{})
		t.Cleanup(func() { close(until) })
		return &channeltest.Desk{
			Channel: channel(t, s),
			Open:    gate.Conversation{Place: "mattermost:" + ops},
			Closed:  gate.Conversation{Place: "mattermost:" + old},
			Other:   gate.Conversation{Place: "mattermost:acme/ops"},
			Missing: gate.Conversation{Place: "mattermost:c1nowhere00000000000000000"},
			Begin:   func() string { return s.Say(ann, ops, "", "look at this") },
			Read:    func(place string) []channeltest.Seen { return read(s, place) },
			Remove:  func(ref channels.Ref) { s.Remove(ref.Message) },
			Break: func(op string, how channeltest.Breakage) {
				s.FailNext(map[string]string{"post": "create_post", "update": "patch_post", "say": "create_post"}[op], map[channeltest.Breakage]mattermosttest.Fault{
					channeltest.Limited: mattermosttest.TooMany(7 * time.Second),
					channeltest.Lost:    mattermosttest.LostAnswer,
					channeltest.Reset:   mattermosttest.Reset,
					channeltest.Revoked: mattermosttest.Refused(401, "api.context.session_expired.app_error"),
					channeltest.Silent:  mattermosttest.Held(until),
				}[how])
			},
			Secret: []string{mattermosttest.BotToken},
		}
	})
}

func read(s *mattermosttest.Server, place string) (all []channeltest.Seen) {
	for _, p := range s.Posts(strings.TrimPrefix(place, "mattermost:")) {
		all = append(all, channeltest.Seen{
			Ref: channels.Ref{Place: place, Message: p.ID, Thread: p.Root}, Text: p.Read(), Buttons: len(p.Buttons()), Calls: p.Notifies(), Links: append(p.Links(), p.Images()...),
		})
	}
	return all
}
