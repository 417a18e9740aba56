package gate_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/approvalbot/approvalbot/gate"
)

// team is a platform that writes accounts as ids of 26 characters, and takes names
// for them in the configuration. Everybody it knows is in its one conversation.
type team []string

func (c team) Has(_ context.Context, r gate.Roster, voter string) (bool, error) {
	if r != (gate.Roster{Kind: gate.KindConversation, ID: "ops/sre"}) {
		return false, errNoChat
	}
	return slices.Contains(c, voter), nil
}

func (c team) Members(context.Context, gate.Roster) ([]string, error) { return c[:2], nil }

func (team) Check(kind gate.IDKind, id string) error {
	if strings.ContainsAny(id, "# ") {
		return errors.New(id + " is no id of a " + string(kind))
	}
	return nil
}

func (team) Named(account string) bool { return len(account) != 26 }

// mm is the id of somebody on Mattermost.
func mm(name string) string { return (name + strings.Repeat("0", 26))[:26] }

func mmVoter(name, email string) gate.Voter {
	return gate.Voter{ID: "mattermost:" + mm(name), Name: name, Surface: "mattermost", Login: "platform", Email: email}
}

// mailed is a voter of Slack with a verified address.
func mailed(id, email string) gate.Voter {
	v := slackVoter(id, "")
	v.Email = email
	return v
}

func as(v gate.Voter, a gate.Account) gate.Voter { v.Account = a; return v }

func keyVoter(name string) gate.Voter {
	return gate.Voter{ID: "key:" + name, Name: name, Person: name, Surface: "console"}
}

// bothChats is a policy whose approvers are on two chats: ann, who is on Mattermost by
// a name; bo, whose mailbox is listed; cy, who has a key and a mailbox; dee, of whom
// people knows no more than Slack; and whoever is in a channel or has an address.
func bothChats(t *testing.T) *gate.Policy {
	t.Helper()
	rule := func(name string, needs int, groups ...string) gate.RuleConfig {
		return gate.RuleConfig{Name: name, Match: gate.MatchConfig{Tool: name}, Approvers: groups, Quorum: &gate.QuorumConfig{Total: needs}}
	}
	p, problems := gate.NewPolicy(
		&gate.PolicyConfig{ToolGate: &gate.ToolGateConfig{Rules: []gate.RuleConfig{
			rule("one", 1, "all"), rule("two", 2, "all"), rule("mail", 1, "mail"), rule("named", 1, "named"),
			rule("listed", 1, "listed"), rule("own", 1, "requester", "all"), rule("broken", 1, "broken"),
		}}},
		gate.ApproversConfig{Default: []string{"all"}, Groups: map[string]gate.GroupConfig{
			"all":    {SlackUsers: []string{"U1", "U2", "U4", "U8", "U9", "T2/U7"}, MattermostChannelMembers: []string{"ops/sre"}, Keys: []string{"ann", "cy"}},
			"mail":   {Emails: []string{"Eve@Example.com", "cy@example.com"}},
			"named":  {MattermostUsers: []string{"ann", "gus", "zed"}},
			"listed": {MattermostUsers: []string{mm("gus")}},
			"broken": {MattermostGroups: []string{mm("dba")}},
		}},
		[]gate.PersonConfig{
			{Name: "ann", Keys: []string{"ann"}, Slack: []string{"T1/U1"}, Mattermost: []string{"ann"}},
			{Name: "bo", Slack: []string{"T1/U2"}, Emails: []string{"bo@example.com"}},
			{Name: "cy", Keys: []string{"cy"}, Emails: []string{"cy@example.com", "cy@home.example"}},
			{Name: "dee", Slack: []string{"T1/U4"}},
		},
		[]gate.Principal{person("ann"), person("cy"), {Key: "hermes", Roles: []gate.Role{gate.RoleAgent}}},
		map[string]gate.Platform{
			gate.Slack:      chat{},
			gate.Mattermost: team{"mattermost:" + mm("ann"), "mattermost:" + mm("bo"), "mattermost:" + mm("cy"), "mattermost:" + mm("eve"), "mattermost:" + mm("fay"), "mattermost:" + mm("gus")},
		},
	)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return p
}

// pin says who has the names.
func pin(p *gate.Policy) {
	p.Pin(gate.Mattermost, map[string]string{"ann": mm("ann"), "zed": mm("zed")})
}

// decided is one person's press on a call, after another's.
type decided struct {
	rule     string
	person   string // whom the agent acts for
	pinned   bool   // names are, before anybody presses
	before   *gate.Voter
	pinLater bool // names are, between the two
	voter    gate.Voter
	why      gate.Reason
}

func (d decided) test(t *testing.T) {
	t.Helper()
	t.Parallel()
	b := setup(t, world())
	p := bothChats(t)
	if d.pinned {
		pin(p)
	}
	if err := b.SetPolicy(t.Context(), p, "test"); err != nil {
		t.Fatal(err)
	}
	r := ask(d.rule)
	r.Requester.Person = d.person
	s := b.check(r).Approval
	press := func(v gate.Voter) error {
		_, err := b.Decide(t.Context(), gate.Decision{ID: s.ID, Voter: v, Choice: gate.Approve, Digest: s.Digest})
		return err
	}
	if d.before != nil {
		if err := press(*d.before); err != nil {
			t.Fatal(err)
		}
	}
	if d.pinLater {
		pin(p)
	}
	err := press(d.voter)
	if d.why == "" && err != nil {
		t.Errorf("Decide = %v, want no refusal", err)
	}
	if d.why != "" && (err == nil || gate.ReasonOf(err) != d.why) {
		t.Errorf("Decide = %v, want %s", err, d.why)
	}
	want := gate.Pending
	if d.why == "" && (d.rule != "two" || d.before != nil) {
		want = gate.Approved
	}
	if got := b.state(s.ID); got != want {
		t.Errorf("state = %s, want %s", got, want)
	}
}

func TestANameIsBelievedOnceItIsPinned(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]decided{
		// ann asks from Mattermost and presses in Slack.
		"who asked there, before anybody knows who that is":  {rule: "one", person: "mattermost:" + mm("ann"), voter: slackVoter("T1/U1", ""), why: gate.ReasonIdentityUnclear},
		"who asked there, once it is known":                  {rule: "one", person: "mattermost:" + mm("ann"), pinned: true, voter: slackVoter("T1/U1", ""), why: gate.ReasonSelfApproval},
		"who asked there by name, before":                    {rule: "one", person: "mattermost:ann", voter: slackVoter("T1/U1", ""), why: gate.ReasonIdentityUnclear},
		"who asked there by name, after":                     {rule: "one", person: "mattermost:ann", pinned: true, voter: slackVoter("T1/U1", ""), why: gate.ReasonSelfApproval},
		"who asked there by name, and presses there":         {rule: "one", person: "mattermost:ann", pinned: true, voter: mmVoter("ann", ""), why: gate.ReasonSelfApproval},
		"who asked in Slack, and presses there before":       {rule: "one", person: "slack:T1/U1", voter: mmVoter("ann", ""), why: gate.ReasonIdentityUnclear},
		"who asked in Slack, and presses there after":        {rule: "one", person: "slack:T1/U1", pinned: true, voter: mmVoter("ann", ""), why: gate.ReasonSelfApproval},
		"who asked by key, and presses there before":         {rule: "one", person: "ann", voter: mmVoter("ann", ""), why: gate.ReasonIdentityUnclear},
		"another there, before":                              {rule: "one", person: "ann", voter: mmVoter("eve", ""), why: gate.ReasonIdentityUnclear},
		"another there, after":                               {rule: "one", person: "ann", pinned: true, voter: mmVoter("eve", "")},
		"another in Slack, where she asked there, after":     {rule: "one", person: "mattermost:" + mm("ann"), pinned: true, voter: slackVoter("T1/U9", "")},
		"another by a name that nobody configured":           {rule: "one", person: "mattermost:eve", pinned: true, voter: slackVoter("T1/U9", ""), why: gate.ReasonIdentityUnclear},
		"who asked by a name that only a group has, before":  {rule: "named", person: "mattermost:zed", voter: mmVoter("zed", ""), why: gate.ReasonIdentityUnclear},
		"who asked by a name that only a group has, after":   {rule: "named", person: "mattermost:zed", pinned: true, voter: mmVoter("zed", ""), why: gate.ReasonSelfApproval},
		"another where who asked is of a group, after":       {rule: "named", person: "mattermost:zed", pinned: true, voter: mmVoter("ann", "")},
		"a second vote of hers, before":                      {rule: "two", before: new(slackVoter("T1/U1", "")), voter: mmVoter("ann", ""), why: gate.ReasonIdentityUnclear},
		"a second vote of hers, after":                       {rule: "two", pinned: true, before: new(slackVoter("T1/U1", "")), voter: mmVoter("ann", ""), why: gate.ReasonAlreadyDecided},
		"a second vote of hers, the first one cast before":   {rule: "two", before: new(mmVoter("ann", "")), pinLater: true, voter: slackVoter("T1/U1", ""), why: gate.ReasonAlreadyDecided},
		"a second vote of hers by key, the first one before": {rule: "two", before: new(mmVoter("ann", "")), pinLater: true, voter: keyVoter("ann"), why: gate.ReasonAlreadyDecided},
		"another there, after her vote in Slack":             {rule: "two", pinned: true, before: new(slackVoter("T1/U1", "")), voter: mmVoter("eve", "")},
		"who is listed by name, before":                      {rule: "named", voter: mmVoter("ann", ""), why: gate.ReasonNotApprover},
		"who is listed by name, after":                       {rule: "named", pinned: true, voter: mmVoter("ann", "")},
		"another whose id reads like her name, after":        {rule: "named", pinned: true, voter: gate.Voter{ID: "mattermost:ann"}, why: gate.ReasonNotApprover},
		"the same id on another chat, after":                 {rule: "named", pinned: true, voter: gate.Voter{ID: "slack:" + mm("ann")}, why: gate.ReasonNotApprover},
		"a guest who is listed by name":                      {rule: "named", pinned: true, voter: as(mmVoter("ann", ""), gate.Guest), why: gate.ReasonNotApprover},
		"an outsider who is listed by name":                  {rule: "named", pinned: true, voter: as(mmVoter("ann", ""), gate.Outsider), why: gate.ReasonNotApprover},
		"a deactivated account that is listed by name":       {rule: "named", pinned: true, voter: as(mmVoter("ann", ""), gate.Deactivated), why: gate.ReasonNotApprover},
		"a guest who is listed by id":                        {rule: "listed", voter: as(mmVoter("gus", ""), gate.Guest)},
		"a guest who is in the channel":                      {rule: "one", voter: as(mmVoter("gus", ""), gate.Guest), why: gate.ReasonNotApprover},
		"who is in the channel":                              {rule: "one", voter: mmVoter("gus", "")},
		"who is not":                                         {rule: "one", voter: mmVoter("nobody", ""), why: gate.ReasonNotApprover},
		"a group that nobody can look up":                    {rule: "broken", voter: mmVoter("gus", ""), why: gate.ReasonIdentityUnavailable},
	} {
		t.Run(name, tt.test)
	}
}

func TestOneMailboxIsOneHuman(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]decided{
		"whose address is listed":                               {rule: "mail", voter: mailed("T1/U9", "eve@example.com")},
		"the same on another chat":                              {rule: "mail", voter: mmVoter("eve", "eve@example.com")},
		"whose platform writes it in capitals":                  {rule: "mail", voter: mmVoter("eve", "EVE@example.com")},
		"whose platform has not verified it":                    {rule: "mail", voter: mmVoter("eve", ""), why: gate.ReasonNotApprover},
		"another address":                                       {rule: "mail", voter: mmVoter("eve", "eve@example.org"), why: gate.ReasonNotApprover},
		"another address of the same mailbox":                   {rule: "mail", voter: mmVoter("eve", "eve+1@example.com"), why: gate.ReasonNotApprover},
		"a guest with the address":                              {rule: "mail", voter: as(mmVoter("eve", "eve@example.com"), gate.Guest), why: gate.ReasonNotApprover},
		"an outsider with the address":                          {rule: "mail", voter: as(mailed("T2/U3", "eve@example.com"), gate.Outsider), why: gate.ReasonNotApprover},
		"a bot with the address":                                {rule: "mail", voter: as(mmVoter("eve", "eve@example.com"), gate.Bot), why: gate.ReasonNotApprover},
		"a deactivated account with the address":                {rule: "mail", voter: as(mmVoter("eve", "eve@example.com"), gate.Deactivated), why: gate.ReasonNotApprover},
		"a key of the person whose address is listed":           {rule: "mail", voter: keyVoter("cy"), why: gate.ReasonNotApprover},
		"a second vote by the same mailbox":                     {rule: "two", before: new(mailed("T1/U9", "eve@example.com")), voter: mmVoter("eve", "eve@example.com"), why: gate.ReasonAlreadyDecided},
		"a second vote by another address of it":                {rule: "two", before: new(mailed("T1/U9", "eve@example.com")), voter: mmVoter("eve", "eve+2@example.com"), why: gate.ReasonAlreadyDecided},
		"a second vote of an account with a new address":        {rule: "two", before: new(mailed("T1/U9", "eve@example.com")), voter: mailed("T1/U9", "eve@home.example"), why: gate.ReasonAlreadyDecided},
		"a second vote of an account that gave its address up":  {rule: "two", before: new(mailed("T1/U9", "eve@example.com")), voter: slackVoter("T1/U9", ""), why: gate.ReasonAlreadyDecided},
		"a second vote of an account that has one by now":       {rule: "two", before: new(slackVoter("T1/U9", "")), voter: mailed("T1/U9", "eve@example.com"), why: gate.ReasonAlreadyDecided},
		"two mailboxes on two chats":                            {rule: "two", before: new(mailed("T1/U9", "eve@example.com")), voter: mmVoter("fay", "fay@example.com")},
		"two mailboxes on one chat":                             {rule: "two", before: new(mailed("T1/U9", "eve@example.com")), voter: mailed("T1/U8", "fay@example.com")},
		"a mailbox after a stranger of another chat":            {rule: "two", before: new(slackVoter("T1/U9", "")), voter: mmVoter("fay", "fay@example.com"), why: gate.ReasonIdentityUnclear},
		"a stranger after a mailbox of another chat":            {rule: "two", before: new(mmVoter("fay", "fay@example.com")), voter: slackVoter("T1/U9", ""), why: gate.ReasonIdentityUnclear},
		"a stranger after a mailbox of the same chat":           {rule: "two", before: new(mailed("T1/U8", "fay@example.com")), voter: slackVoter("T1/U9", "")},
		"a second vote by the mailbox that people lists":        {rule: "two", before: new(slackVoter("T1/U2", "")), voter: mmVoter("bo", "bo@example.com"), why: gate.ReasonAlreadyDecided},
		"a second vote by the second mailbox that people lists": {rule: "two", before: new(keyVoter("cy")), voter: mmVoter("cy", "cy@home.example"), why: gate.ReasonAlreadyDecided},
		"and the other way round":                               {rule: "two", before: new(mmVoter("cy", "cy@home.example")), voter: keyVoter("cy"), why: gate.ReasonAlreadyDecided},
		"another mailbox after a person whose people lists":     {rule: "two", before: new(keyVoter("cy")), voter: mmVoter("fay", "fay@example.com")},
		"another mailbox after a person who has none listed":    {rule: "two", before: new(slackVoter("T1/U4", "")), voter: mmVoter("fay", "fay@example.com"), why: gate.ReasonIdentityUnclear},
		"though that person had another one just then":          {rule: "two", before: new(mailed("T1/U4", "dee@example.com")), voter: mmVoter("fay", "dee@example.com"), why: gate.ReasonIdentityUnclear},
		"a person who has none listed after their own mailbox":  {rule: "two", before: new(mmVoter("fay", "dee@example.com")), voter: mailed("T1/U4", "dee@example.com"), why: gate.ReasonAlreadyDecided},
		"a person who has none listed after another mailbox":    {rule: "two", before: new(mmVoter("fay", "fay@example.com")), voter: mailed("T1/U4", "dee@example.com")},
		"a listed account that took the mailbox of another":     {rule: "two", voter: mailed("T1/U4", "bo@example.com"), why: gate.ReasonIdentityUnclear},
		"a listed account with a mailbox of its own":            {rule: "two", voter: mailed("T1/U4", "dee@example.com")},
	} {
		t.Run(name, tt.test)
	}
}

func TestForWhomAnAgentSaysItActs(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]decided{
		// What can be compared.
		"the account that presses":                       {rule: "one", person: "slack:T1/U9", voter: slackVoter("T1/U9", ""), why: gate.ReasonSelfApproval},
		"another account of the chat":                    {rule: "one", person: "slack:T1/U8", voter: slackVoter("T1/U9", "")},
		"a person, and another presses":                  {rule: "one", person: "ann", voter: slackVoter("T1/U9", "")},
		"an address, and who has it presses":             {rule: "one", person: "eve@example.com", voter: mailed("T1/U9", "eve@example.com"), why: gate.ReasonSelfApproval},
		"an address in capitals":                         {rule: "one", person: " EVE@example.com", voter: mailed("T1/U9", "eve@example.com"), why: gate.ReasonSelfApproval},
		"another address of the mailbox":                 {rule: "one", person: "eve+ai@example.com", voter: mailed("T1/U9", "eve@example.com"), why: gate.ReasonSelfApproval},
		"an address that people lists, by account":       {rule: "one", person: "bo@example.com", voter: slackVoter("T1/U2", ""), why: gate.ReasonSelfApproval},
		"an address that people lists, by a new mailbox": {rule: "one", person: "bo@example.com", voter: mailed("T1/U2", "bo@home.example"), why: gate.ReasonSelfApproval},
		"an address that people lists, by key":           {rule: "one", person: "CY@home.example", voter: keyVoter("cy"), why: gate.ReasonSelfApproval},
		"an address, and a listed account that has it":   {rule: "one", person: "dee@example.com", voter: mailed("T1/U4", "dee@example.com"), why: gate.ReasonSelfApproval},
		"an address, and another mailbox":                {rule: "one", person: "eve@example.com", voter: mmVoter("fay", "fay@example.com")},
		"an address, and a person with others listed":    {rule: "one", person: "eve@example.com", voter: keyVoter("cy")},
		"an address, and a person with none listed":      {rule: "one", person: "eve@example.com", voter: slackVoter("T1/U4", ""), why: gate.ReasonIdentityUnclear},
		"an address, and nobody knows the presser's":     {rule: "one", person: "eve@example.com", voter: slackVoter("T1/U9", ""), why: gate.ReasonIdentityUnclear},
		"an account, and a mailbox on another chat":      {rule: "one", person: "slack:T1/U9", voter: mmVoter("fay", "fay@example.com"), why: gate.ReasonIdentityUnclear},

		// Other forms of the same account, and what is none.
		"the account without its workspace":              {rule: "one", person: "slack:U1", voter: slackVoter("T1/U1", ""), why: gate.ReasonIdentityUnclear},
		"and without, where people knows who presses":    {rule: "one", person: "slack:U1", voter: keyVoter("ann"), why: gate.ReasonIdentityUnclear},
		"and without, of a stranger":                     {rule: "one", person: "slack:U9", voter: slackVoter("T1/U9", ""), why: gate.ReasonIdentityUnclear},
		"and without, where another presses":             {rule: "one", person: "slack:U9", voter: slackVoter("T1/U8", ""), why: gate.ReasonIdentityUnclear},
		"the account in another workspace":               {rule: "one", person: "slack:T3/U9", voter: slackVoter("T1/U9", ""), why: gate.ReasonIdentityUnclear},
		"and in another, where people knows who presses": {rule: "one", person: "slack:T3/U1", voter: keyVoter("ann"), why: gate.ReasonIdentityUnclear},
		"the account in letters that no id has":          {rule: "one", person: "slack:#T1/U9", voter: slackVoter("T1/U9", ""), why: gate.ReasonIdentityUnclear},
		"the platform in capitals":                       {rule: "one", person: "Slack:T1/U9", voter: slackVoter("T1/U9", ""), why: gate.ReasonIdentityUnclear},
		"a chat that is not configured":                  {rule: "one", person: "irc:ann", voter: slackVoter("T1/U1", ""), why: gate.ReasonIdentityUnclear},
		"a person in capitals":                           {rule: "one", person: "Ann", voter: slackVoter("T1/U1", ""), why: gate.ReasonIdentityUnclear},
		"a name that nobody has":                         {rule: "one", person: "somebody", voter: keyVoter("ann"), why: gate.ReasonIdentityUnclear},
		"a mention":                                      {rule: "one", person: "<@U1>", voter: slackVoter("T1/U1", ""), why: gate.ReasonIdentityUnclear},
		"the key of an agent":                            {rule: "one", person: "key:hermes", voter: slackVoter("T1/U1", ""), why: gate.ReasonIdentityUnclear},

		// A rule that lets in whom the call is for.
		"let in by account":                                              {rule: "own", person: "slack:T1/U9", voter: slackVoter("T1/U9", "")},
		"let in by account, a guest":                                     {rule: "own", person: "slack:T1/U6", voter: slackVoter("T1/U6", gate.Guest)},
		"let in by address":                                              {rule: "own", person: "eve@example.com", voter: mmVoter("eve", "eve@example.com")},
		"by address alone, not a guest":                                  {rule: "own", person: "eve@example.com", voter: as(mmVoter("eve", "eve@example.com"), gate.Guest), why: gate.ReasonSelfApproval},
		"by a listed address, not a guest":                               {rule: "own", person: "bo", voter: as(mmVoter("gus", "bo@example.com"), gate.Guest), why: gate.ReasonSelfApproval},
		"by address, not an outsider":                                    {rule: "own", person: "eve@example.com", voter: as(mailed("T2/U3", "eve@example.com"), gate.Outsider), why: gate.ReasonIdentityUnclear},
		"not who is nobody that can be told":                             {rule: "own", person: "slack:U9", voter: slackVoter("T1/U9", ""), why: gate.ReasonIdentityUnclear},
		"an outsider, whose address says nothing, after its owner asked": {rule: "one", person: "eve@example.com", voter: as(mailed("T2/U7", "fay@example.com"), gate.Outsider), why: gate.ReasonIdentityUnclear},
	} {
		t.Run(name, tt.test)
	}
}

// Votes are kept as they were cast. Whom people lists since is known at the next one.
func TestWhoHasVotedIsReckonedByThePresentPeople(t *testing.T) {
	t.Parallel()
	load := func(t *testing.T, people ...gate.PersonConfig) *gate.Policy {
		t.Helper()
		p, problems := gate.NewPolicy(world(),
			gate.ApproversConfig{Default: []string{"sre"}, Groups: map[string]gate.GroupConfig{"sre": {SlackUsers: []string{"U1"}, MattermostUsers: []string{mm("ann")}, Keys: []string{"ann"}}}},
			people, []gate.Principal{person("ann")}, map[string]gate.Platform{gate.Slack: chat{}, gate.Mattermost: team{}})
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		return p
	}
	ann := gate.PersonConfig{Name: "ann", Keys: []string{"ann"}}
	for name, tt := range map[string]struct {
		now   gate.PersonConfig
		first gate.Voter
		then  gate.Voter
	}{
		"a stranger who is listed by account": {gate.PersonConfig{Name: "ann", Keys: []string{"ann"}, Slack: []string{"T1/U1"}}, slackVoter("T1/U1", ""), keyVoter("ann")},
		"a mailbox that is listed":            {gate.PersonConfig{Name: "ann", Keys: []string{"ann"}, Emails: []string{"ann@example.com"}}, mailed("T1/U1", "ann@example.com"), keyVoter("ann")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, world())
			if err := b.SetPolicy(t.Context(), load(t, ann), "test"); err != nil {
				t.Fatal(err)
			}
			s := b.check(ask("kubectl_x")).Approval
			press := func(v gate.Voter) error {
				_, err := b.Decide(t.Context(), gate.Decision{ID: s.ID, Voter: v, Choice: gate.Approve, Digest: s.Digest})
				return err
			}
			if err := press(tt.first); err != nil {
				t.Fatal(err)
			}
			if err := b.SetPolicy(t.Context(), load(t, tt.now), "test"); err != nil {
				t.Fatal(err)
			}
			if err := press(tt.then); gate.ReasonOf(err) != gate.ReasonAlreadyDecided {
				t.Errorf("Decide = %v, want %s", err, gate.ReasonAlreadyDecided)
			}
		})
	}
}
