package mattermost_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/approvalbot/approvalbot/channels"
	"github.com/approvalbot/approvalbot/channels/mattermost"
	"github.com/approvalbot/approvalbot/channels/mattermost/mattermosttest"
	"github.com/approvalbot/approvalbot/gate"
	"github.com/approvalbot/approvalbot/gate/secret"
)

// commanded is a desk whose command was made by an admin, who gave its token.
func commanded(t *testing.T, c mattermosttest.Config) (d *desk, token string) {
	t.Helper()
	d = newDesk(t, c, func(c *mattermost.Config) {
		c.Commands = []mattermost.CommandConfig{{Team: mattermosttest.TeamName, Token: secret.New("k1command00000000000000000")}}
	})
	if err := d.m.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	return d, "k1command00000000000000000"
}

// typed is a command as Mattermost sends it.
func (d *desk) typed(token, user, trigger string) url.Values {
	return url.Values{
		"token": {token}, "team_id": {mattermosttest.Team}, "team_domain": {"acme"}, "channel_id": {ops}, "channel_name": {"ops"},
		"user_id": {user}, "user_name": {"x"}, "command": {"/approvals"}, "text": {"pending"}, "trigger_id": {trigger}, "response_url": {"https://mm.example.com/hooks/commands/x"},
	}
}

func TestCommands(t *testing.T) {
	t.Parallel()
	d, token := commanded(t, mattermosttest.Config{})
	good := func() url.Values { return d.typed(token, ann, d.s.Trigger(ann)) }
	with := func(key string, values ...string) url.Values {
		v := good()
		v[key] = values
		return v
	}
	for name, tt := range map[string]struct {
		form   func() url.Values // made when it is sent: a trigger grows old
		status int
		says   string
	}{
		"as Mattermost sends it":         {good, http.StatusOK, "mattermost:" + ann + " in mattermost:" + ops + " typed pending"},
		"with another token":             {func() url.Values { return with("token", "k1command00000000000000001") }, http.StatusForbidden, ""},
		"without one":                    {func() url.Values { return with("token", "") }, http.StatusForbidden, ""},
		"with the token of another team": {func() url.Values { return with("team_id", "t1other0000000000000000000") }, http.StatusForbidden, ""},
		"of a team that has no command, without a token": {func() url.Values {
			v := with("team_id", "t1other0000000000000000000")
			v["token"] = []string{""}
			return v
		}, http.StatusForbidden, ""},
		"in the name of somebody else":       {func() url.Values { return with("user_id", bo) }, http.StatusForbidden, ""},
		"with a trigger of somebody else":    {func() url.Values { return with("trigger_id", d.s.Trigger(mallory)) }, http.StatusForbidden, ""},
		"with no trigger":                    {func() url.Values { return with("trigger_id", "") }, http.StatusForbidden, ""},
		"with two texts":                     {func() url.Values { return with("text", "pending", "revoke x") }, http.StatusBadRequest, ""},
		"with two users":                     {func() url.Values { return with("user_id", ann, bo) }, http.StatusBadRequest, ""},
		"with what somebody wrote as markup": {func() url.Values { return with("text", "@all <https://evil.example|x>") }, http.StatusOK, "`mattermost:"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			status, answer, err := d.s.Send(t.Context(), d.url+mattermost.CommandsPath, "application/x-www-form-urlencoded", []byte(tt.form().Encode()))
			if err != nil || status != tt.status || !strings.Contains(string(answer), tt.says) {
				t.Errorf("answered %d %s, %v; want %d %q", status, answer, err, tt.status, tt.says)
			}
		})
	}
	if d.log.holds(token) {
		t.Error("the token is in the log")
	}
}

// TestTypedInMattermost: people type it in a channel, a thread and a direct message,
// and only they see what it says.
func TestTypedInMattermost(t *testing.T) {
	t.Parallel()
	d := newDesk(t, mattermosttest.Config{}, func(c *mattermost.Config) {
		c.Commands = []mattermost.CommandConfig{{Team: mattermosttest.TeamName}}
	})
	d.s.SetCommandRight(mattermosttest.BotUser)
	if err := d.m.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	root := d.s.Say(ann, ops, "", "x")
	dm, err := d.m.Resolve(t.Context(), gate.Conversation{Place: "mattermost:@" + ann})
	if err != nil {
		t.Fatal(err)
	}
	for where, in := range map[string]mattermosttest.Typed{
		"a channel":        {User: ann, Channel: ops, Trigger: "approvals", Text: "pending"},
		"a thread":         {User: ann, Channel: ops, Root: root, Trigger: "approvals", Text: "pending"},
		"a direct message": {User: ann, Channel: strings.TrimPrefix(dm.Place, "mattermost:"), Team: mattermosttest.Team, Trigger: "approvals", Text: "pending"},
	} {
		o, err := d.s.Type(t.Context(), in)
		if err != nil || o.Status != http.StatusOK || len(o.Ephemerals) != 1 || !strings.Contains(o.Ephemerals[0], ann) {
			t.Errorf("%s: %+v, %v", where, o, err)
		}
	}
	for _, p := range d.s.Posts(ops) {
		if strings.Contains(p.Message, "typed") {
			t.Error("everybody sees the answer")
		}
	}
}

func TestRegister(t *testing.T) {
	t.Parallel()
	team := func(c *mattermost.Config) {
		c.Commands = []mattermost.CommandConfig{{Team: mattermosttest.TeamName}}
	}
	for name, tt := range map[string]struct {
		server mattermosttest.Config
		before func(d *desk)
		want   string // of the error; empty: the command works
		kind   gate.Kind
	}{
		"the bot has the right":        {before: func(d *desk) { d.s.SetCommandRight(mattermosttest.BotUser) }},
		"the command is there already": {before: func(d *desk) { d.s.SetCommandRight(mattermosttest.BotUser); d.registers("") }},
		"another replica makes it at the same moment": {before: func(d *desk) {
			d.s.SetCommandRight(mattermosttest.BotUser)
			d.s.FailNext("commands", mattermosttest.Garbled("[]"))
			d.made()
		}},
		"the bot has not the right": {want: "may not make slash commands in team acme: make /approvals under Integrations, Slash Commands (POST, ", kind: gate.Forbidden},
		"somebody else has taken the word": {
			before: func(d *desk) {
				d.s.SetCommandRight(mattermosttest.BotUser)
				d.s.AddCommand(mattermosttest.Command{Team: mattermosttest.Team, Trigger: "approvals", URL: "https://other.example", Method: "P"})
			}, want: "leads to another address", kind: gate.Invalid,
		},
		"commands are switched off":  {server: mattermosttest.Config{NoCommands: true}, before: func(d *desk) { d.s.SetCommandRight(mattermosttest.BotUser) }, want: "switched off", kind: gate.Invalid},
		"Mattermost does not answer": {before: func(d *desk) { d.s.FailNext("team_by_name", mattermosttest.Reset) }, want: "does not answer", kind: gate.Unavailable},
		"a proxy answers in its name": {before: func(d *desk) {
			d.s.SetCommandRight(mattermosttest.BotUser)
			d.s.FailNext("commands", mattermosttest.HTMLPage(502))
		}, want: "does not answer", kind: gate.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t, tt.server, team)
			if tt.before != nil {
				tt.before(d)
			}
			d.registers(tt.want)
			if err := d.m.Register(t.Context()); tt.want != "" && tt.kind != gate.Unavailable && gate.KindOf(err) != tt.kind {
				t.Errorf("it is of kind %v", gate.KindOf(err))
			}
			if tt.want != "" {
				return
			}
			if n := len(d.s.Commands()); n != 1 {
				t.Errorf("%d commands are there", n)
			}
			o, err := d.s.Type(t.Context(), mattermosttest.Typed{User: ann, Channel: ops, Trigger: "approvals", Text: "pending"})
			if err != nil || len(o.Ephemerals) != 1 {
				t.Errorf("typed: %+v, %v", o, err)
			}
		})
	}
	t.Run("there is no such team", func(t *testing.T) {
		t.Parallel()
		d := newDesk(t, mattermosttest.Config{}, func(c *mattermost.Config) { c.Commands = []mattermost.CommandConfig{{Team: "nowhere"}} })
		d.registers(`there is no team "nowhere"`)
	})
}

func (d *desk) registers(want string) {
	d.t.Helper()
	err := d.m.Register(d.t.Context())
	if (err == nil) != (want == "") || err != nil && !strings.Contains(gate.PublicText(err), want) && !strings.Contains(err.Error(), want) {
		d.t.Errorf("Register = %v, want %q", err, want)
	}
}

// made is the command as another replica makes it.
func (d *desk) made() {
	d.s.AddCommand(mattermosttest.Command{Team: mattermosttest.Team, Trigger: "approvals", URL: d.url + mattermost.CommandsPath, Method: "P"})
}

func TestAnswersHaveNoButtons(t *testing.T) {
	t.Parallel()
	d := newDesk(t, mattermosttest.Config{}, nil)
	d.card.Proof = "x"
	got := mattermost.Drawn(channels.Answer{
		Lines: []string{"40 pending, 9 for you", "a @all line"},
		Rows: []channels.Row{
			{Lines: []string{"claude → deploy", "*due*"}, Link: "https://mm.example.com/_redirect/pl/x", Button: &channels.Button{Label: "Show", Command: "show 1D2"}},
			{Lines: []string{"second"}},
		},
		Card:    d.card,
		Buttons: []channels.Button{{Label: "Next", Command: "pending page 2"}, {Label: "Help", Command: "help"}},
	})
	want := "40 pending, 9 for you\n`a @all line`\n- claude → deploy  \n  `*due*`  \n  [its card](https://mm.example.com/_redirect/pl/x) · `/approvals show 1D2`\n- second\n\n" +
		"Next: `/approvals pending page 2` · Help: `/approvals help`"
	if got.Text != want {
		t.Errorf("it says\n%s\nwant\n%s", got.Text, want)
	}
	if len(got.Attachments) != 1 || len(got.Attachments[0].Actions) > 0 || !strings.Contains(got.Attachments[0].Text, "claude wants to run deploy") {
		t.Errorf("the card is %+v", got.Attachments)
	}
	huge := channels.Answer{}
	for range 50 {
		huge.Lines = append(huge.Lines, "`@all`"+strings.Repeat("x", 5000))
	}
	long := mattermost.Drawn(huge)
	p := mattermosttest.Post{Message: long.Text}
	if n := len([]rune(long.Text)); n > 12_100 || strings.Count(long.Text, "@all") != 50 || len(p.Notifies()) > 0 {
		t.Errorf("%d characters, which call %v", n, p.Notifies())
	}
}
