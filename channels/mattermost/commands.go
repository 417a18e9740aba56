package mattermost

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/mattermost/mattermost/server/public/model"

	"github.com/approvalbot/approvalbot/channels"
	"github.com/approvalbot/approvalbot/gate"
)

// CommandNote is what people must know of commands in Mattermost.
const CommandNote = "Buttons are on cards only: what you ask for with show, approve or deny comes to you as a direct message, with its buttons."

// Trigger is what people type, without the slash.
const Trigger = "approvals"

// Commands receives what people type behind the slash command.
type Commands struct {
	Mattermost *Mattermost
	Run        channels.CommandFunc
	Log        *slog.Logger
}

// ServeHTTP takes a command. Whoever typed it is always answered with 200: of
// anything else Mattermost shows them an error of its own.
func (c *Commands) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	form, ok := c.form(w, r)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), decideWithin)
	defer cancel()
	user := form.Get("user_id")
	_, err := c.Mattermost.verify(ctx, form.Get("trigger_id"), user)
	switch {
	case errors.Is(err, errForged):
		c.Log.WarnContext(ctx, "a command that Mattermost did not sign", "user", user, "from", r.RemoteAddr)
		http.Error(w, "not a command of this person", http.StatusForbidden)
		return
	case errors.Is(err, errLate):
		tell(w, channels.Answer{Lines: []string{"That took too long to arrive, or the clocks of Mattermost and approvalbot differ. Nothing was done; try again."}})
		return
	case err != nil:
		c.Log.WarnContext(ctx, "a command could not be checked", "user", user, "err", err)
		tell(w, channels.Answer{Lines: []string{unknownPerson}})
		return
	}
	voter, err := c.Mattermost.voter(ctx, user)
	if err != nil {
		c.Log.WarnContext(ctx, "who typed a command could not be looked up", "user", user, "err", err)
		tell(w, channels.Answer{Lines: []string{unknownPerson}})
		return
	}
	tell(w, c.Run(ctx, channels.Command{Voter: voter, Text: form.Get("text"), Place: name + ":" + form.Get("channel_id")}))
}

const unknownPerson = "Could not look up who you are. Nothing was done; try again."

// form reads a command that Mattermost has sent, or answers the request. The token is
// what says so; it is in the form, because a proxy may use the header.
func (c *Commands) form(w http.ResponseWriter, r *http.Request) (form url.Values, ok bool) {
	if !c.Mattermost.admits(r) {
		c.Log.WarnContext(r.Context(), "a request from an address that is not in callback_allow", "from", r.RemoteAddr)
		http.Error(w, "not from here", http.StatusForbidden)
		return nil, false
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	if err := r.ParseForm(); err != nil || r.Method != http.MethodPost {
		http.Error(w, "want a command", http.StatusBadRequest)
		return nil, false
	}
	form = r.PostForm
	for _, field := range []string{"token", "team_id", "user_id", "channel_id", "text", "trigger_id"} {
		if len(form[field]) != 1 {
			http.Error(w, "want one of each field", http.StatusBadRequest)
			return nil, false
		}
	}
	if !c.Mattermost.commands.known(form.Get("team_id"), form.Get("token")) {
		c.Log.WarnContext(r.Context(), "a command with a token that is not ours", "team", form.Get("team_id"), "from", r.RemoteAddr)
		http.Error(w, "not a command of this server", http.StatusForbidden)
		return nil, false
	}
	return form, true
}

// tell answers whoever typed a command, and nobody else.
func tell(w http.ResponseWriter, a channels.Answer) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer(&a)) // who has hung up is shown an error anyway
}

// commandTokens are the tokens of the slash command, one for each team.
type commandTokens struct {
	mu sync.Mutex
	of map[string]string // by team id
}

func (t *commandTokens) put(team, token string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.of == nil {
		t.of = map[string]string{}
	}
	t.of[team] = token
}

// known compares in constant time.
func (t *commandTokens) known(team, token string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	want := t.of[team]
	return want != "" && subtle.ConstantTimeCompare([]byte(want), []byte(token)) == 1
}

// Register makes the slash command known: by the tokens of the configuration, and
// where there is none by making the command, which takes a right. It returns what is
// wrong, team by team; the others work.
func (m *Mattermost) Register(ctx context.Context) error {
	var all []error
	for _, c := range m.config.Commands {
		if err := m.register(ctx, c); err != nil {
			all = append(all, err)
		}
	}
	return errors.Join(all...)
}

func (m *Mattermost) register(ctx context.Context, c CommandConfig) error {
	team, resp, err := m.api().GetTeamByName(ctx, c.Team, "")
	if missing(resp, err) {
		return unusable("there is no team %q for the command; correct channels.mattermost.commands", c.Team)
	}
	if err != nil {
		return notKnown("mattermost.team", resp, err)
	}
	token := c.Token.Reveal()
	if token == "" {
		if token, err = m.command(ctx, team); err != nil {
			return err
		}
	}
	m.commands.put(team.Id, token)
	return nil
}

// command returns the token of our command in a team, which it makes if it is not
// there. Two replicas may do it at the same time.
func (m *Mattermost) command(ctx context.Context, team *model.Team) (string, error) {
	for range 2 {
		token, err := m.existing(ctx, team)
		if token != "" || err != nil {
			return token, err
		}
		made, resp, err := m.api().CreateCommand(ctx, m.wanted(team.Id))
		if err == nil && made != nil && made.Token != "" {
			return made.Token, nil
		}
		if codeOf(err) != "api.command.duplicate_trigger.app_error" {
			return "", m.unregistered(team, resp, err)
		}
	}
	return "", unusable("in team %s /%s is somebody else's command", team.Name, Trigger)
}

func (m *Mattermost) wanted(team string) *model.Command {
	return &model.Command{
		TeamId: team, Trigger: Trigger, Method: model.CommandMethodPost, URL: m.callback + CommandsPath,
		AutoComplete: true, AutoCompleteDesc: "See what waits for people, and decide", AutoCompleteHint: "[pending | show ID | help]",
		DisplayName: "Approvals", Description: "approvalbot: calls of agents that wait for people",
	}
}

// existing returns the token of our command, empty if there is none.
func (m *Mattermost) existing(ctx context.Context, team *model.Team) (string, error) {
	all, resp, err := m.api().ListCommands(ctx, team.Id, true)
	if err != nil {
		return "", m.unregistered(team, resp, err)
	}
	for _, c := range all {
		switch {
		case c == nil || c.Trigger != Trigger || c.DeleteAt != 0:
		case c.URL != m.callback+CommandsPath:
			return "", unusable("in team %s /%s leads to another address; correct it there to %s, or remove it", team.Name, Trigger, m.callback+CommandsPath)
		case c.Token == "":
			return "", m.unregistered(team, resp, nil)
		default:
			return c.Token, nil
		}
	}
	return "", nil
}

// unregistered says what to do where the bot may not.
func (m *Mattermost) unregistered(team *model.Team, resp *model.Response, err error) error {
	if resp == nil || resp.StatusCode >= http.StatusInternalServerError && resp.StatusCode != http.StatusNotImplemented || resp.StatusCode == http.StatusTooManyRequests {
		return notKnown("mattermost.Register", resp, err)
	}
	if resp.StatusCode == http.StatusNotImplemented {
		return unusable("slash commands are switched off; an admin sets EnableCommands, or take channels.mattermost.commands out")
	}
	return &gate.Error{
		Kind: gate.Forbidden, Op: "mattermost.Register", Err: err,
		Public: "mattermost: the bot may not make slash commands in team " + team.Name + ": make /" + Trigger + " under Integrations, Slash Commands (POST, " +
			strings.TrimSpace(m.callback+CommandsPath) + "), and give its token as token_file beside the team",
	}
}
