package mattermost

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/mattermost/mattermost/server/public/model"

	"github.com/approvalbot/approvalbot/channels"
	"github.com/approvalbot/approvalbot/gate"
)

// Self is what Mattermost says the bot is.
type Self struct {
	ID, Username string
	Version      string // of the server
	Admin        bool   // a system admin, which no bot needs to be
	Bot          bool   // or else the token is a person's
}

// Connect asks Mattermost who the bot is and whether it can do what it must. An error
// of kind Unavailable is one that time may mend; any other is for an operator.
func (m *Mattermost) Connect(ctx context.Context) (Self, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	u, err := m.self(ctx)
	if err != nil {
		return Self{}, err
	}
	settings, err := m.serverConfig(ctx)
	if err != nil {
		return Self{}, err
	}
	if m.verifies {
		if _, err := m.key.get(ctx, m); err != nil {
			return Self{}, err
		}
	}
	return Self{ID: u.Id, Username: u.Username, Version: settings["Version"], Admin: u.IsSystemAdmin(), Bot: u.IsBot}, nil
}

// self is the account of the token, asked for once in a while: tokens change.
func (m *Mattermost) self(ctx context.Context) (*model.User, error) {
	return m.here.Get(ctx, "", func(ctx context.Context) (*model.User, error) {
		u, resp, err := m.api().GetMe(ctx, "")
		if err == nil && (u == nil || !id.MatchString(u.Id)) {
			err = errNeither
		}
		if err != nil {
			return nil, m.notConnected(resp, err)
		}
		return u, nil
	})
}

// serverConfig is what the server tells its clients of its settings.
func (m *Mattermost) serverConfig(ctx context.Context) (map[string]string, error) {
	return m.settings.Get(ctx, "", func(ctx context.Context) (map[string]string, error) {
		c, resp, err := m.api().GetOldClientConfig(ctx, "")
		if err != nil || len(c) == 0 {
			return nil, notKnown("mattermost.config", resp, err)
		}
		return c, nil
	})
}

func unusable(format string, args ...any) error {
	return &gate.Error{Kind: gate.Invalid, Reason: gate.ReasonIdentityUnavailable, Op: "mattermost.Connect", Public: "mattermost: " + fmt.Sprintf(format, args...)}
}

// notConnected tells an answer that an operator must mend from none.
func (m *Mattermost) notConnected(resp *model.Response, err error) error {
	if resp != nil && resp.StatusCode == http.StatusUnauthorized {
		return unusable("the bot's token is refused: it was revoked, or the bot was disabled (bots are, when whoever made them is deactivated); see Integrations, Bot Accounts")
	}
	if resp != nil && resp.StatusCode == http.StatusNotFound {
		return unusable("%s is no Mattermost: it knows nothing of its API; correct channels.mattermost.url", m.url)
	}
	return notKnown("mattermost.Connect", resp, err)
}

// Pin asks which accounts usernames stand for, each once: later they may be other
// people's. It returns all that is known; the error names those that nobody has, or
// is that nobody knows.
func (m *Mattermost) Pin(ctx context.Context, usernames []string) (map[string]string, error) {
	m.names.mu.Lock()
	defer m.names.mu.Unlock()
	if m.names.ids == nil {
		m.names.ids = map[string]string{}
	}
	unknown := slices.DeleteFunc(slices.Clone(usernames), func(n string) bool { return m.names.ids[n] != "" })
	if len(unknown) == 0 {
		return maps.Clone(m.names.ids), nil
	}
	users, resp, err := m.api().GetUsersByUsernames(ctx, unknown)
	if err != nil {
		return maps.Clone(m.names.ids), notKnown("mattermost.Pin", resp, err)
	}
	for _, u := range users {
		if u != nil && slices.Contains(unknown, u.Username) && id.MatchString(u.Id) {
			m.names.ids[u.Username] = u.Id
		}
	}
	unknown = slices.DeleteFunc(unknown, func(n string) bool { return m.names.ids[n] != "" })
	if len(unknown) > 0 {
		err = unusable("nobody has the username %s; correct it, or use ids", strings.Join(unknown, ", "))
	}
	return maps.Clone(m.names.ids), err
}

// Readable says whether the bot may read what a policy rests on. Errors are as those
// of Connect: without a licence, or without the right, no group could ever be read.
func (m *Mattermost) Readable(ctx context.Context, r gate.Roster) error {
	var err error
	if r.Kind == gate.KindUserGroup {
		_, err = m.Members(ctx, r)
	} else if self, selfErr := m.self(ctx); selfErr != nil {
		err = selfErr
	} else {
		_, err = m.Has(ctx, r, voterID(self.Id))
	}
	e, ok := errors.AsType[*channels.Error](err)
	switch {
	case err == nil:
		return nil
	case !ok || e.Trouble == channels.Unknown || e.Trouble == channels.Busy:
		return &gate.Error{Kind: gate.Unavailable, Reason: gate.ReasonIdentityUnavailable, Op: "mattermost.Readable", Public: "mattermost does not answer", Err: err}
	case r.Kind == gate.KindUserGroup:
		return unusable("the members of group %s cannot be read: %v. Groups take a licence, and those of LDAP a right that no bot has; name a channel instead (mattermost_channel_members)", r.ID, e.Err)
	}
	return unusable("the members of %s cannot be read: %v. Invite the bot to it, and check the name", r.ID, e.Err)
}
