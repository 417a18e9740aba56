package mattermosttest_test

import (
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/approvalbot/approvalbot/channels/mattermost/mattermosttest"
)

// cast is who and what there was on the captured server.
type cast struct {
	team     string
	users    map[string]mattermosttest.User // by name
	channels map[string]mattermosttest.Channel
	card     map[string]any // props of the card that most situations have
	command  string         // id of /approvals
}

// Names of people in captures.
const (
	theBot, otherBot = "approvals", "otherbot"
	theAdmin         = "admin"
)

// castOf finds them in all captures.
func castOf(all []*capture) *cast {
	k := &cast{users: map[string]mattermosttest.User{}, channels: map[string]mattermosttest.Channel{}}
	for _, c := range all {
		for _, e := range c.Exchanges {
			if e.Response != nil {
				objects(e.Response.Body, k.look)
			}
			if e.Request == nil {
				continue
			}
			objects(e.Request.Body, k.look)
			if k.card == nil && e.isCall() && e.Request.Path == "/api/v4/posts" && !strings.Contains(e.Request.Body, `"fields"`) &&
				strings.Count(e.Request.Body, `"integration"`) == 3 && strings.Contains(e.Request.Body, `"details"`) {
				var d struct{ Props map[string]any }
				if json.Unmarshal([]byte(e.Request.Body), &d) == nil {
					k.card = d.Props
				}
			}
			if e.isCall() && k.users[e.By].ID == "" && e.By == "mallory" {
				k.users[e.By] = mattermosttest.User{ID: mattermosttest.NewID(), Username: e.By}
			}
		}
	}
	return k
}

// look learns from one object.
func (k *cast) look(o map[string]any) {
	switch id := text(o, "id"); {
	case text(o, "username") != "" && anID.MatchString(id) && strings.HasPrefix(text(o, "roles"), "system_"):
		bot, _ := o["is_bot"].(bool)
		u := mattermosttest.User{
			ID: id, Username: text(o, "username"), Email: text(o, "email"), FirstName: text(o, "first_name"), Bot: bot,
			Description: text(o, "bot_description"), Admin: strings.HasPrefix(text(o, "roles"), "system_admin"),
		}
		if old := k.users[u.Username]; old.Description != "" {
			u.Description = old.Description
		}
		k.users[strings.TrimSuffix(u.Username, "-new")] = u
		if strings.HasSuffix(u.Username, "-new") {
			delete(k.users, u.Username)
		}
	case text(o, "user_name") != "" && anID.MatchString(text(o, "user_id")):
		if name := strings.TrimSuffix(text(o, "user_name"), "-new"); k.users[name].ID == "" {
			k.users[name] = mattermosttest.User{ID: text(o, "user_id"), Username: name, Bot: name == theBot || name == otherBot, Admin: name == theAdmin}
		}
	case o["auto_complete"] != nil && text(o, "trigger") == "approvals" && id != "":
		k.command = id
	case o["total_msg_count"] != nil:
		k.channels[id] = mattermosttest.Channel{ID: id, Name: text(o, "name"), Type: text(o, "type"), Display: text(o, "display_name")}
	case o["allow_open_invite"] != nil:
		k.team = id
	}
	if id := text(o, "channel_id"); text(o, "channel_name") != "" && k.channels[id].ID == "" {
		k.channels[id] = mattermosttest.Channel{ID: id, Name: text(o, "channel_name"), Type: "O"}
	}
	if k.channels[text(o, "channel_id")].Name == "secret" {
		ch := k.channels[text(o, "channel_id")]
		ch.Type = "P"
		k.channels[ch.ID] = ch
	}
}

func (k *cast) id(name string) string { return k.users[name].ID }

func (k *cast) ids(names ...string) (all []string) {
	for _, n := range names {
		if id := k.id(n); id != "" {
			all = append(all, id)
		}
	}
	return all
}

// channelCalled returns the id of a channel by its name.
func (k *cast) channelCalled(name string) string {
	for _, c := range k.channels {
		if c.Name == name {
			return c.ID
		}
	}
	return ""
}

// settings are what a situation needs besides what all have.
var settings = map[string]mattermosttest.Config{
	"221": {Developer: true},
	"223": {NoCommands: true, NoBotAccounts: true},
	"224": {AllowOverrides: true},
}

// stage makes a double in the state in which a situation began.
func (k *cast) stage(t *testing.T, c *capture, clock *mattermosttest.Clock, port string) *mattermosttest.Server {
	t.Helper()
	config, _ := prefixed(c.Situation, settings)
	config.Now, config.SiteURL = clock.Now, "http://127.0.0.1:8065"
	config.Allowed = []string{"127.0.0.1", "localhost"}
	s := mattermosttest.New(t, config)
	s.AddTeam(k.team, "ops")
	for _, name := range sortedNames(k.users) {
		u := k.users[name]
		u.NoTeam = true
		if name == otherBot && strings.HasPrefix(c.Situation, "072") {
			u.Roles = "system_post_all"
		}
		s.AddUser(u)
		if name != "mallory" {
			s.JoinTeam(k.team, u.ID)
		}
	}
	outside := c.notIn(k)
	for _, id := range sortedNames(k.channels) {
		ch := k.channels[id]
		if ch.Type == "O" || ch.Type == "P" {
			ch.Team = k.team
		}
		ch.Members = slices.DeleteFunc(k.members(ch), func(u string) bool { return slices.Contains(outside[id], u) })
		s.AddChannel(ch)
	}
	if !strings.HasPrefix(c.Situation, "002") { // which makes them
		k.commands(s, c, port)
	}
	return s
}

func (k *cast) members(ch mattermosttest.Channel) []string {
	switch {
	case strings.Contains(ch.Name, "__"):
		return strings.Split(ch.Name, "__")
	case ch.Type == "G":
		return k.ids("alice", "bob", theBot)
	case ch.Name == "deploys":
		return k.ids(theAdmin, "alice", "bob", "carol", "dave", theBot, otherBot)
	case ch.Name == "secret":
		return k.ids("alice", "bob", theBot)
	}
	return k.ids(theAdmin, "alice", "bob", theBot)
}

// notIn returns who is not in which channel when a situation begins: the bot where
// it is refused or joins first.
func (c *capture) notIn(k *cast) map[string][]string {
	out := map[string][]string{}
	join := regexp.MustCompile(`^/api/v4/channels/(\w+)(/members)?$`)
	for i, e := range c.Exchanges {
		if e.isCallback() && i > 0 && c.Exchanges[i-1].isCall() && c.Exchanges[i-1].Response.Status == 500 {
			objects(e.Answer.Body, func(o map[string]any) { out[text(o, "channel_id")] = k.ids(c.Exchanges[i-1].By) })
		}
		if e.isCall() && e.Request.Path == "/api/v4/posts" && e.Response.Status == 201 {
			objects(e.Request.Body, func(o map[string]any) { k.exists(text(o, "channel_id"), "O") })
		}
		if e.isCall() && strings.HasSuffix(e.Request.Path, "/dialogs/submit") && e.Response.Status == 200 {
			objects(e.Request.Body, func(o map[string]any) {
				if id := text(o, "channel_id"); k.exists(id, "O") {
					out[id] = k.ids(e.By) // one can submit from where one is not
				}
			})
		}
		if !e.isCall() || e.By != "bot" {
			continue
		}
		id := ""
		if m := join.FindStringSubmatch(e.Request.Path); m != nil && (e.Request.Method == http.MethodPost || e.Response.Status == 403) {
			id = m[1]
		}
		if e.Request.Path == "/api/v4/posts" && e.Response.Status == 403 {
			objects(e.Request.Body, func(o map[string]any) { id += text(o, "channel_id") })
		}
		if anID.MatchString(id) {
			out[id] = k.ids(theBot)
			k.exists(id, "P")
		}
	}
	return out
}

// exists makes a channel of which a situation tells nothing else.
func (k *cast) exists(id, kind string) (isNew bool) {
	if _, known := k.channels[id]; known || !anID.MatchString(id) {
		return false
	}
	k.channels[id] = mattermosttest.Channel{ID: id, Name: "c" + id[:8], Type: kind}
	return true
}

// commands are those that the captured server had.
func (k *cast) commands(s *mattermosttest.Server, situation *capture, port string) {
	url := "http://127.0.0.1" + port
	for _, c := range []mattermosttest.Command{
		{ID: k.command, Trigger: "approvals", URL: url + "/slash", Token: "<COMMAND_TOKEN>", Username: theBot, AutoComplete: true, Hint: "[list|show ID]", AutoDescription: "Pending approvals", Display: "Approvals"},
		{Trigger: "getcmd", URL: url + "/slashget?x=1", Token: "<COMMAND_TOKEN_3>", Method: "G"},
		{Trigger: "refused", URL: "http://127.0.0.1:9/x"},
		{Trigger: "forbidden", URL: "http://127.0.0.2" + port},
	} {
		c.Team, c.Creator = k.team, k.id(theAdmin)
		if c.Trigger == "approvals" || strings.Contains(situation.Exchanges[0].Request.Body, "/"+c.Trigger+" ") || strings.HasPrefix(situation.Situation, "121") {
			s.AddCommand(c)
		}
	}
}
