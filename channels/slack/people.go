package slack

import (
	"cmp"
	"context"
	"sync"
	"time"

	api "github.com/slack-go/slack"

	"github.com/approvalbot/approvalbot/gate"
)

// people remembers briefly who somebody is.
type people struct {
	mu    sync.Mutex
	known map[string]known
}

type known struct {
	user *api.User
	at   time.Time
}

// rememberFor is how long a look-up of a person holds: short enough that one who
// was locked out is soon refused.
const rememberFor = time.Minute

// user looks a person up, at most once a minute.
func (s *Slack) user(ctx context.Context, id string) (*api.User, error) {
	s.people.mu.Lock()
	k, ok := s.people.known[id]
	s.people.mu.Unlock()
	if ok && time.Since(k.at) < rememberFor {
		return k.user, nil
	}
	u, err := s.api.GetUserInfoContext(ctx, id)
	if err != nil || u == nil || u.ID != id {
		return nil, failed("slack.user", err)
	}
	s.people.mu.Lock()
	defer s.people.mu.Unlock()
	if s.people.known == nil || len(s.people.known) > 10_000 {
		s.people.known = map[string]known{}
	}
	s.people.known[id] = known{u, time.Now()}
	return u, nil
}

// voter says who pressed, or why they cannot decide whatever the lists say.
// Anybody who sees a card can press it: guests, and people of other companies.
func (s *Slack) voter(ctx context.Context, p person) (v gate.Voter, refusal string) {
	u, err := s.user(ctx, p.ID)
	switch {
	case err != nil:
		return gate.Voter{}, gate.PressText(gate.Press{Reason: gate.ReasonIdentityUnavailable})
	case u.Deleted:
		return gate.Voter{}, "Your account is deactivated. Nothing was decided."
	case u.IsBot || u.IsAppUser || u.ID == "USLACKBOT":
		return gate.Voter{}, "Bots cannot decide. Nothing was decided."
	case u.IsRestricted || u.IsUltraRestricted:
		return gate.Voter{}, "Guests cannot decide. Nothing was decided."
	case u.IsStranger || u.TeamID != s.team:
		return gate.Voter{}, "People of other workspaces cannot decide. Nothing was decided."
	}
	return gate.Voter{
		ID: name + ":" + s.team + "/" + u.ID, Name: cmp.Or(u.Profile.DisplayName, u.RealName, u.Name),
		Surface: name, Login: "platform",
	}, ""
}
