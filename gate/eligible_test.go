package gate_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/approvalbot/approvalbot/gate"
)

// chat is a platform whose user groups are what a test says.
type chat map[string][]string

var errNoChat = errors.New("the platform does not answer")

func (c chat) Members(_ context.Context, r gate.Roster) ([]string, error) {
	ids, known := c[r.ID]
	if !known {
		return nil, errNoChat
	}
	return ids, nil
}

func (c chat) Has(ctx context.Context, r gate.Roster, voter string) (bool, error) {
	ids, err := c.Members(ctx, r)
	return slices.Contains(ids, voter), err
}

func (chat) Named(string) bool { return false }

func (chat) Check(kind gate.IDKind, id string) error {
	if strings.HasPrefix(id, "#") {
		return errors.New(id + " is no id of a " + string(kind))
	}
	return nil
}

// onSlack is a policy whose approvers are on Slack: ann and bo, whom people know,
// eve whom it does not, and whoever is in a user group.
func onSlack(t *testing.T) *gate.Policy {
	t.Helper()
	p, problems := gate.NewPolicy(
		&gate.PolicyConfig{ToolGate: &gate.ToolGateConfig{Rules: []gate.RuleConfig{
			{Name: "listed", Match: gate.MatchConfig{Tool: "listed"}, Approvers: []string{"listed"}},
			{Name: "two", Match: gate.MatchConfig{Tool: "two"}, Approvers: []string{"listed", "keys"}, Quorum: &gate.QuorumConfig{Total: 2}},
			{Name: "group", Match: gate.MatchConfig{Tool: "group"}, Approvers: []string{"group"}},
			{Name: "broken", Match: gate.MatchConfig{Tool: "broken"}, Approvers: []string{"broken"}},
			{Name: "either", Match: gate.MatchConfig{Tool: "either"}, Approvers: []string{"either"}},
		}}},
		gate.ApproversConfig{Default: []string{"listed"}, Groups: map[string]gate.GroupConfig{
			"listed": {SlackUsers: []string{"U1", "U2", "U5", "U6", "U9", "T2/U7"}},
			"keys":   {Keys: []string{"ann", "bo"}},
			"group":  {SlackUserGroups: []string{"S1"}},
			"broken": {SlackUserGroups: []string{"S0"}},
			"either": {SlackUserGroups: []string{"S0"}, SlackUsers: []string{"U1"}},
		}},
		[]gate.PersonConfig{{Name: "ann", Keys: []string{"ann"}, Slack: []string{"T1/U1"}}, {Name: "bo", Keys: []string{"bo"}, Slack: []string{"T1/U2"}}, {Name: "cy", Keys: []string{"cy"}}},
		[]gate.Principal{person("ann"), person("bo"), person("cy"), {Key: "hermes", Roles: []gate.Role{gate.RoleAgent}}},
		map[string]gate.Platform{"slack": chat{"S1": {"slack:T1/U1", "slack:T1/U5", "slack:T1/U6", "slack:T2/U7"}}},
	)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return p
}

func slackVoter(id string, account gate.Account) gate.Voter {
	return gate.Voter{ID: "slack:" + id, Name: id, Surface: "slack", Login: "platform", Account: account}
}

func TestWhoOfAChatMayDecide(t *testing.T) {
	t.Parallel()
	ann, bo, eve := slackVoter("T1/U1", ""), slackVoter("T1/U2", ""), slackVoter("T1/U9", "")
	key := func(name string) gate.Voter {
		return gate.Voter{ID: "key:" + name, Name: name, Person: name, Surface: "console"}
	}
	tests := map[string]struct {
		tool   string
		person string // whom the agent acts for
		before *gate.Voter
		voter  gate.Voter
		why    gate.Reason
		text   string
	}{
		"who is listed by id":                              {tool: "listed", voter: ann},
		"who is not":                                       {tool: "listed", voter: slackVoter("T1/U8", ""), why: gate.ReasonNotApprover, text: "You are not in listed. Ask ann or bo."},
		"the same id in another workspace":                 {tool: "listed", voter: slackVoter("T2/U1", gate.Outsider), why: gate.ReasonNotApprover, text: "People of other workspaces decide only where"},
		"the same id on another platform":                  {tool: "listed", voter: gate.Voter{ID: "mattermost:U1"}, why: gate.ReasonNotApprover},
		"a guest who is listed by id":                      {tool: "listed", voter: slackVoter("T1/U5", gate.Guest)},
		"an outsider who is listed with their workspace":   {tool: "listed", voter: slackVoter("T2/U7", gate.Outsider)},
		"a bot that is listed by id":                       {tool: "listed", voter: slackVoter("T1/U6", gate.Bot), why: gate.ReasonNotApprover, text: "Bots cannot decide."},
		"somebody deactivated who is listed by id":         {tool: "listed", voter: slackVoter("T1/U6", gate.Deactivated), why: gate.ReasonNotApprover, text: "Your account is deactivated"},
		"a member of the user group":                       {tool: "group", voter: ann},
		"who is not in the user group":                     {tool: "group", voter: bo, why: gate.ReasonNotApprover, text: "You are not in group."},
		"a guest in the user group":                        {tool: "group", voter: slackVoter("T1/U5", gate.Guest), why: gate.ReasonNotApprover, text: "Guests decide only where a group lists them by id."},
		"an outsider in the user group":                    {tool: "group", voter: slackVoter("T2/U7", gate.Outsider), why: gate.ReasonNotApprover},
		"a user group that nobody can look up":             {tool: "broken", voter: ann, why: gate.ReasonIdentityUnavailable, text: "Could not check whether you may decide."},
		"which does not matter to who is listed":           {tool: "either", voter: ann},
		"but does to who is not":                           {tool: "either", voter: bo, why: gate.ReasonIdentityUnavailable},
		"nor to who decides elsewhere":                     {tool: "broken", voter: key("cy"), why: gate.ReasonNotApprover},
		"who asked, by the name of the account":            {tool: "listed", person: "slack:T1/U1", voter: ann, why: gate.ReasonSelfApproval},
		"who asked, by name":                               {tool: "listed", person: "ann", voter: ann, why: gate.ReasonSelfApproval},
		"who asked there, and decides by key":              {tool: "two", person: "slack:T1/U1", voter: key("ann"), why: gate.ReasonSelfApproval},
		"who asked, and nobody knows who that is":          {tool: "listed", person: "slack:T1/U9", voter: eve, why: gate.ReasonSelfApproval},
		"who asked in a form that nothing compares with":   {tool: "listed", person: "slack:U9", voter: bo, why: gate.ReasonIdentityUnclear, text: "Nobody can tell whether you are the one this call is for: the agent names them"},
		"another account of the same platform":             {tool: "listed", person: "slack:T1/U9", voter: bo},
		"a stranger where somebody known there asked":      {tool: "listed", person: "ann", voter: eve},
		"a stranger where who asked is known elsewhere":    {tool: "listed", person: "cy", voter: eve, why: gate.ReasonIdentityUnclear},
		"a known person where a stranger asked elsewhere":  {tool: "two", person: "mattermost:x", voter: key("ann"), why: gate.ReasonIdentityUnclear},
		"a known person where a stranger asked on Slack":   {tool: "two", person: "slack:T1/U9", voter: key("ann")},
		"a second vote of one person, by key":              {tool: "two", before: &ann, voter: key("ann"), why: gate.ReasonAlreadyDecided},
		"a second person, by key":                          {tool: "two", before: &ann, voter: key("bo")},
		"a known person after a stranger on Slack":         {tool: "two", before: &eve, voter: key("bo")},
		"a person unknown to Slack after a stranger there": {tool: "two", before: &eve, voter: key("cy"), why: gate.ReasonIdentityUnclear},
		"a key where an unknown key is said to ask":        {tool: "two", person: "key:unlisted", voter: key("bo"), why: gate.ReasonIdentityUnclear},
		"a stranger after a known person":                  {tool: "two", before: &ann, voter: eve},
		"a stranger after somebody who is known by a key":  {tool: "two", before: new(key("bo")), voter: eve},
		"a stranger after a key whose person Slack is not": {tool: "two", before: new(gate.Voter{ID: "slack:T1/U1", Person: "cy"}), voter: gate.Voter{ID: "mattermost:x"}, why: gate.ReasonIdentityUnclear},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, world())
			if err := b.SetPolicy(t.Context(), onSlack(t), "test"); err != nil {
				t.Fatal(err)
			}
			r := ask(tt.tool)
			r.Requester.Person = tt.person
			s := b.check(r).Approval
			decide := func(v gate.Voter) error {
				_, err := b.Decide(t.Context(), gate.Decision{ID: s.ID, Voter: v, Choice: gate.Approve, Digest: s.Digest})
				return err
			}
			if tt.before != nil {
				if err := decide(*tt.before); err != nil {
					t.Fatal(err)
				}
			}
			if seems := b.Policy().MayDecide(t.Context(), &s.Approval, tt.voter); tt.before == nil && (seems == nil) != (tt.why == "" || tt.why == gate.ReasonIdentityUnavailable) {
				t.Errorf("MayDecide = %v", seems)
			}
			err := decide(tt.voter)
			if tt.why == "" {
				if err != nil {
					t.Errorf("Decide = %v, want no refusal", err)
				}
				return
			}
			if got := gate.ReasonOf(err); got != tt.why || !strings.HasPrefix(gate.PublicText(err), tt.text) {
				t.Errorf("Decide = %s %q, want %s %q", got, gate.PublicText(err), tt.why, tt.text)
			}
			if tt.before == nil && b.state(s.ID) != gate.Pending {
				t.Errorf("state = %s", b.state(s.ID))
			}
		})
	}
}

func TestOnlyWhoAskedAnswers(t *testing.T) {
	t.Parallel()
	b := setup(t, world())
	if err := b.SetPolicy(t.Context(), onSlack(t), "test"); err != nil {
		t.Fatal(err)
	}
	r := ask("listed")
	r.Requester.Person = "slack:T1/U1"
	s := b.check(r).Approval
	if _, err := b.Decide(t.Context(), gate.Decision{ID: s.ID, Voter: slackVoter("T1/U2", ""), Choice: gate.NeedContext, Reason: "why?", Digest: s.Digest}); err != nil {
		t.Fatal(err)
	}
	for _, v := range []gate.Voter{slackVoter("T1/U2", ""), slackVoter("T2/U1", gate.Outsider), slackVoter("T1/U1", gate.Deactivated)} {
		if err := b.AnswerAs(t.Context(), v, s.ID, "because"); gate.KindOf(err) != gate.Forbidden {
			t.Errorf("%s %s answered: %v", v.ID, v.Account, err)
		}
	}
	b.audited(gate.EventRefused, "answer: not its own")
	if err := b.AnswerAs(t.Context(), slackVoter("T1/U1", ""), s.ID, "because"); err != nil {
		t.Fatal(err)
	}
	after, err := b.Get(t.Context(), gate.Principal{Key: "hermes"}, s.ID)
	if err != nil || after.Questions[0].Answer != "because" {
		t.Errorf("answered %+v, %v", after.Questions, err)
	}
}

func TestAPolicyNamesOnlyWhatPlatformsHave(t *testing.T) {
	t.Parallel()
	rule := func(c gate.RuleConfig) *gate.PolicyConfig {
		c.Match.Tool = "x"
		return &gate.PolicyConfig{ToolGate: &gate.ToolGateConfig{Rules: []gate.RuleConfig{c}}}
	}
	group := func(c gate.GroupConfig) gate.ApproversConfig {
		return gate.ApproversConfig{Default: []string{"sre"}, Groups: map[string]gate.GroupConfig{"sre": c}}
	}
	chats := map[string]gate.Platform{"slack": chat{}, "mattermost": team{}}
	ok := group(gate.GroupConfig{Keys: []string{"ann"}})
	tests := map[string]struct {
		cfg       *gate.PolicyConfig
		approvers gate.ApproversConfig
		people    []gate.PersonConfig
		chats     map[string]gate.Platform
		want      string
	}{
		"a user by name":                {rule(gate.RuleConfig{}), group(gate.GroupConfig{SlackUsers: []string{"#ann"}}), nil, chats, "approvers.groups.sre.slack_users[0]"},
		"a user group by name":          {rule(gate.RuleConfig{}), group(gate.GroupConfig{Keys: []string{"ann"}, SlackUserGroups: []string{"#sre"}}), nil, chats, "approvers.groups.sre.slack_usergroups[0]"},
		"users without a Slack":         {rule(gate.RuleConfig{}), group(gate.GroupConfig{Keys: []string{"ann"}, SlackUsers: []string{"U1"}}), nil, nil, "approvers.groups.sre.slack_users[0]"},
		"a person without a workspace":  {rule(gate.RuleConfig{}), ok, []gate.PersonConfig{{Name: "ann", Slack: []string{"U1"}}}, chats, "people[0].slack[0]"},
		"one account of two people":     {rule(gate.RuleConfig{}), ok, []gate.PersonConfig{{Name: "ann", Slack: []string{"T1/U1"}}, {Name: "bo", Slack: []string{"T1/U1"}}}, chats, "people[1].slack[0]"},
		"no name of Mattermost":         {rule(gate.RuleConfig{}), group(gate.GroupConfig{Keys: []string{"ann"}, MattermostUsers: []string{"ok", "#ann"}}), nil, chats, "approvers.groups.sre.mattermost_users[1]"},
		"no group of Mattermost":        {rule(gate.RuleConfig{}), group(gate.GroupConfig{Keys: []string{"ann"}, MattermostGroups: []string{"#sre"}}), nil, chats, "approvers.groups.sre.mattermost_groups[0]"},
		"no channel of Mattermost":      {rule(gate.RuleConfig{}), group(gate.GroupConfig{Keys: []string{"ann"}, MattermostChannelMembers: []string{"#sre"}}), nil, chats, "approvers.groups.sre.mattermost_channel_members[0]"},
		"users without a Mattermost":    {rule(gate.RuleConfig{}), group(gate.GroupConfig{Keys: []string{"ann"}, MattermostUsers: []string{"ann"}}), nil, nil, "approvers.groups.sre.mattermost_users[0]"},
		"an address that is none":       {rule(gate.RuleConfig{}), group(gate.GroupConfig{Keys: []string{"ann"}, Emails: []string{"a@b", "ann", "Ann <ann@example.com>", "a@b@c", "@b"}}), nil, chats, "approvers.groups.sre.emails[1] approvers.groups.sre.emails[2] approvers.groups.sre.emails[3] approvers.groups.sre.emails[4]"},
		"nobody but no address":         {rule(gate.RuleConfig{}), group(gate.GroupConfig{Emails: []string{"ann"}}), nil, chats, "approvers.groups.sre.emails[0] approvers.groups.sre"},
		"a person by no name":           {rule(gate.RuleConfig{}), ok, []gate.PersonConfig{{Name: "ann", Mattermost: []string{"#ann"}}}, chats, "people[0].mattermost[0]"},
		"a person by no address":        {rule(gate.RuleConfig{}), ok, []gate.PersonConfig{{Name: "ann", Emails: []string{"ann"}}}, chats, "people[0].emails[0]"},
		"a person without a Mattermost": {rule(gate.RuleConfig{}), ok, []gate.PersonConfig{{Name: "ann", Mattermost: []string{"ann"}}}, nil, "people[0].mattermost[0]"},
		"one name of two people":        {rule(gate.RuleConfig{}), ok, []gate.PersonConfig{{Name: "ann", Mattermost: []string{"ann"}}, {Name: "bo", Mattermost: []string{"ann"}}}, chats, "people[1].mattermost[0]"},
		"one mailbox of two people":     {rule(gate.RuleConfig{}), ok, []gate.PersonConfig{{Name: "ann", Emails: []string{"ann@example.com"}}, {Name: "bo", Emails: []string{"Ann+bo@example.com"}}}, chats, "people[1].emails[0]"},
		"a mailbox that is another":     {rule(gate.RuleConfig{}), ok, []gate.PersonConfig{{Name: "ann"}, {Name: "bo@example.com"}, {Name: "cy", Emails: []string{"bo@example.com"}}}, chats, "people"},
		"all that Mattermost has":       {rule(gate.RuleConfig{Conversation: map[string]string{"mattermost": "ops/prod"}}), group(gate.GroupConfig{MattermostUsers: []string{"ann"}, MattermostGroups: []string{"g"}, MattermostChannelMembers: []string{"ops/sre"}, Emails: []string{"ann@example.com"}}), []gate.PersonConfig{{Name: "ann", Mattermost: []string{"ann"}, Emails: []string{"ann@example.com", "ann@home.example"}}}, chats, ""},
		"a conversation by name":        {rule(gate.RuleConfig{Conversation: map[string]string{"slack": "#prod"}}), ok, nil, chats, "approvals.tool_gate.rules[0].conversation.slack"},
		"a conversation of no platform": {rule(gate.RuleConfig{Conversation: map[string]string{"irc": "prod"}}), ok, nil, chats, "approvals.tool_gate.rules[0].conversation.irc"},
		"a mention of no group":         {rule(gate.RuleConfig{Mention: []string{"oncall"}}), ok, nil, chats, "approvals.tool_gate.rules[0].mention[0]"},
		"all of it right":               {rule(gate.RuleConfig{Conversation: map[string]string{"slack": "C1"}, Mention: []string{"sre"}}), ok, []gate.PersonConfig{{Name: "ann", Slack: []string{"T1/U1"}}}, chats, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, problems := gate.NewPolicy(tt.cfg, tt.approvers, tt.people, []gate.Principal{person("ann")}, tt.chats)
			var paths []string
			for _, p := range problems {
				paths = append(paths, p.Path)
			}
			if got := strings.Join(paths, " "); got != tt.want {
				t.Errorf("problems at %q (%v), want %q", got, problems, tt.want)
			}
		})
	}
}

func TestWhomAGroupCanCall(t *testing.T) {
	t.Parallel()
	listed := func(id string) gate.Mention { return gate.Mention{Platform: gate.Slack, Kind: gate.KindUser, ID: id} }
	group := func(id string) gate.Mention {
		return gate.Mention{Platform: gate.Slack, Kind: gate.KindUserGroup, ID: id}
	}
	for name, want := range map[string][]gate.Mention{
		"listed": {listed("T2/U7"), listed("U1"), listed("U2"), listed("U5"), listed("U6"), listed("U9")},
		"keys":   nil,
		"group":  {group("S1")},
		"broken": {group("S0")}, // nobody is asked who is in it
		"either": {listed("U1"), group("S0")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, r := range onSlack(t).Rules() {
				for _, g := range r.Groups {
					if g.Name != name {
						continue
					}
					if diff := cmp.Diff(want, g.Mentions()); diff != "" {
						t.Errorf("Mentions (-want +got):\n%s", diff)
					}
					return
				}
			}
			t.Fatal("no such group")
		})
	}
}
