package gate_test

import (
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/approvalbot/approvalbot/gate"
)

// namesOf is a policy whose people are on Mattermost as each says.
func namesOf(t *testing.T, people ...gate.PersonConfig) *gate.Policy {
	t.Helper()
	p, problems := gate.NewPolicy(world(),
		gate.ApproversConfig{Default: []string{"sre"}, Groups: map[string]gate.GroupConfig{"sre": {
			MattermostUsers: []string{"zed", "ann", mm("gus")}, MattermostGroups: []string{mm("dba")},
			MattermostChannelMembers: []string{"ops/sre"}, SlackUsers: []string{"U1"}, SlackUserGroups: []string{"S1"},
		}}},
		people, nil, map[string]gate.Platform{
			gate.Slack: chat{"S1": {"slack:T1/U5"}}, gate.Mattermost: team{"mattermost:" + mm("fay"), "mattermost:" + mm("eve")},
		})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return p
}

func on(name string, ids ...string) gate.PersonConfig {
	return gate.PersonConfig{Name: name, Mattermost: ids}
}

func TestWhatNamesArePinnedTo(t *testing.T) {
	t.Parallel()
	ann, bo := on("ann", "ann"), on("bo", "bo")
	for name, tt := range map[string]struct {
		people []gate.PersonConfig
		pins   []map[string]string
		want   map[string]string // person by what is asked for
	}{
		"nothing until they are":                      {[]gate.PersonConfig{ann}, nil, map[string]string{"ann": "", mm("a"): ""}},
		"the id they have":                            {[]gate.PersonConfig{ann, bo}, []map[string]string{{"ann": mm("a"), "bo": mm("b")}}, map[string]string{"ann": "ann", mm("a"): "ann", mm("b"): "bo"}},
		"more from time to time":                      {[]gate.PersonConfig{ann, bo}, []map[string]string{{"ann": mm("a")}, {"bo": mm("b")}}, map[string]string{mm("a"): "ann", mm("b"): "bo"}},
		"the first id, not who has the name later":    {[]gate.PersonConfig{ann}, []map[string]string{{"ann": mm("a")}, {"ann": mm("e")}}, map[string]string{mm("a"): "ann", mm("e"): ""}},
		"no id that is none":                          {[]gate.PersonConfig{ann, bo}, []map[string]string{{"ann": "", "bo": "# "}}, map[string]string{"ann": "", "bo": ""}},
		"no other name":                               {[]gate.PersonConfig{ann, bo}, []map[string]string{{"ann": "bo"}, {"ann": mm("a")}}, map[string]string{"ann": "ann", mm("a"): "ann"}},
		"no name that nobody configured":              {[]gate.PersonConfig{ann}, []map[string]string{{"eve": mm("a")}}, map[string]string{"eve": "", mm("a"): ""}},
		"nobody's account that people lists by id":    {[]gate.PersonConfig{ann, on("bo", mm("a"))}, []map[string]string{{"ann": mm("a")}}, map[string]string{mm("a"): "bo"}},
		"nobody, where two names are one account":     {[]gate.PersonConfig{ann, bo}, []map[string]string{{"ann": mm("a"), "bo": mm("a")}}, map[string]string{mm("a"): "", "ann": "", "bo": ""}},
		"their person, by two names of one account":   {[]gate.PersonConfig{on("ann", "ann", "bo")}, []map[string]string{{"ann": mm("a"), "bo": mm("a")}}, map[string]string{mm("a"): "ann"}},
		"their person, though a group has a name too": {[]gate.PersonConfig{ann}, []map[string]string{{"ann": mm("a"), "zed": mm("a")}}, map[string]string{mm("a"): "ann"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := namesOf(t, tt.people...)
			for _, pins := range tt.pins {
				p.Pin(gate.Mattermost, pins)
			}
			for id, want := range tt.want {
				if got := p.PersonOf("mattermost:" + id); got != want {
					t.Errorf("%s is %q, want %q", id, got, want)
				}
			}
		})
	}
}

// Whose other account a name means nobody knows before it is pinned, and never where it
// turns out to be another's.
func TestWhoHasANameThatIsNotPinnedMayBeAnybodyThere(t *testing.T) {
	t.Parallel()
	ann := on("ann", mm("a"), "ann2")
	for name, tt := range map[string]struct {
		people []gate.PersonConfig
		pins   map[string]string
		why    gate.Reason
	}{
		"no name":                      {[]gate.PersonConfig{on("ann", mm("a"))}, nil, ""},
		"a name that is not pinned":    {[]gate.PersonConfig{ann}, nil, gate.ReasonIdentityUnclear},
		"a name that is":               {[]gate.PersonConfig{ann}, map[string]string{"ann2": mm("x")}, ""},
		"a name that is this very one": {[]gate.PersonConfig{ann}, map[string]string{"ann2": mm("gus")}, gate.ReasonSelfApproval},
		"a name that two people have":  {[]gate.PersonConfig{ann, on("bo", "bo")}, map[string]string{"ann2": mm("x"), "bo": mm("x")}, gate.ReasonIdentityUnclear},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := namesOf(t, tt.people...)
			p.Pin(gate.Mattermost, tt.pins)
			a := &gate.Approval{Subject: gate.Subject{Rule: "two", Requester: gate.Requester{Key: "hermes", Person: "ann"}}}
			err := p.MayDecide(t.Context(), a, as(mmVoter("gus", ""), gate.Guest))
			if tt.why == "" && err != nil || tt.why != "" && gate.ReasonOf(err) != tt.why {
				t.Errorf("MayDecide = %v, want %q", err, tt.why)
			}
		})
	}
}

// TestAReloadKeepsWhatNamesMeant: else whoever took a name over since would become
// that approver with the next change of the file.
func TestAReloadKeepsWhatNamesMeant(t *testing.T) {
	t.Parallel()
	b := setup(t, world())
	load := func(pins map[string]string) *gate.Policy {
		t.Helper()
		p := namesOf(t, on("ann", "ann"), on("bo", "bo"))
		p.Pin(gate.Mattermost, pins)
		if err := b.SetPolicy(t.Context(), p, "test"); err != nil {
			t.Fatal(err)
		}
		return p
	}
	load(map[string]string{"ann": mm("a")})
	after := load(map[string]string{"ann": mm("e"), "bo": mm("b")})
	for id, want := range map[string]string{mm("a"): "ann", mm("e"): "", mm("b"): "bo"} {
		if got := after.PersonOf("mattermost:" + id); got != want {
			t.Errorf("%s is %q, want %q", id, got, want)
		}
	}
}

func TestNamesArePinnedWhileOthersRead(t *testing.T) {
	t.Parallel()
	p := namesOf(t, on("ann", "ann"), on("bo", "bo"), on("cy", "cy"))
	a := &gate.Approval{Subject: gate.Subject{Rule: "two", Requester: gate.Requester{Key: "hermes", Person: "bo"}}}
	var all sync.WaitGroup
	for _, name := range []string{"ann", "bo", "cy"} {
		all.Go(func() { p.Pin(gate.Mattermost, map[string]string{name: mm(name)}) })
		all.Go(func() { _ = p.MayDecide(t.Context(), a, mmVoter(name, "")) })
	}
	all.Wait()
	for _, name := range []string{"ann", "bo", "cy"} {
		if got := p.PersonOf("mattermost:" + mm(name)); got != name {
			t.Errorf("%s is %q", name, got)
		}
	}
}

func TestWhomToTellOfAGroup(t *testing.T) {
	t.Parallel()
	p := namesOf(t, on("ann", "ann"), on("bo", "bo", mm("b")))
	if diff := cmp.Diff([]string{"ann", "bo", "zed"}, p.Names(gate.Mattermost)); diff != "" {
		t.Errorf("Names (-want +got):\n%s", diff)
	}
	if got := p.Names(gate.Slack); got != nil {
		t.Errorf("Slack has names: %v", got)
	}
	g := p.Discretionary().Groups[0]
	mention := func(platform string, kind gate.IDKind, id string) gate.Mention {
		return gate.Mention{Platform: platform, Kind: kind, ID: id}
	}
	want := []gate.Mention{
		mention(gate.Slack, gate.KindUser, "U1"), mention(gate.Slack, gate.KindUserGroup, "S1"),
		mention(gate.Mattermost, gate.KindUser, "ann"), mention(gate.Mattermost, gate.KindUser, mm("gus")), mention(gate.Mattermost, gate.KindUser, "zed"),
		mention(gate.Mattermost, gate.KindUserGroup, mm("dba")),
	}
	if diff := cmp.Diff(want, g.Mentions()); diff != "" {
		t.Errorf("Mentions (-want +got):\n%s", diff)
	}
	accounts := func(platform string, want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, g.Accounts(t.Context(), platform)); diff != "" {
			t.Errorf("accounts of %s (-want +got):\n%s", platform, diff)
		}
	}
	channel := []string{mm("fay"), mm("eve")}
	accounts(gate.Slack, "U1", "T1/U5")
	accounts(gate.Mattermost, append([]string{mm("gus")}, append(channel, channel...)...)...)
	p.Pin(gate.Mattermost, map[string]string{"ann": mm("ann")})
	accounts(gate.Mattermost, append([]string{mm("ann"), mm("gus")}, append(channel, channel...)...)...)
}

// A member of a list that is another kind of list is another rule, though ids of
// Mattermost read alike.
func TestEveryListOfAGroupIsInTheVersionOfItsRules(t *testing.T) {
	t.Parallel()
	version := func(g gate.GroupConfig) gate.Version {
		t.Helper()
		g.Keys = []string{"ann"}
		p, problems := gate.NewPolicy(world(), gate.ApproversConfig{Default: []string{"sre"}, Groups: map[string]gate.GroupConfig{"sre": g}},
			nil, []gate.Principal{person("ann")}, map[string]gate.Platform{gate.Slack: chat{}, gate.Mattermost: team{}})
		if len(problems) > 0 && problems[0].Path != "approvals.tool_gate.rules[2].quorum" {
			t.Fatal(problems)
		}
		if p == nil {
			t.Fatal(problems)
		}
		return p.Discretionary().Version
	}
	seen := map[gate.Version]string{}
	one := []string{"ann@example.com"}
	for name, g := range map[string]gate.GroupConfig{
		"keys alone": {Emails: nil, SlackUsers: []string{"U1"}}, "a user of Slack": {SlackUsers: []string{"U2"}}, "a group of Slack": {SlackUserGroups: []string{"S1"}},
		"a user": {MattermostUsers: one}, "a group": {MattermostGroups: one}, "a channel": {MattermostChannelMembers: one}, "an address": {Emails: one},
	} {
		v := version(g)
		if other := seen[v]; other != "" {
			t.Errorf("%s is the same rule as %s", name, other)
		}
		seen[v] = name
	}
	if version(gate.GroupConfig{Emails: []string{"Ann@example.com"}}) != version(gate.GroupConfig{Emails: one}) {
		t.Error("an address in capitals is another rule")
	}
}

// Without people the names of those who hold keys are all there is to compare with.
func TestWherePeopleListsNobodyNamesAreCompared(t *testing.T) {
	t.Parallel()
	p, problems := gate.NewPolicy(world(), gate.ApproversConfig{Default: []string{"sre"}, Groups: map[string]gate.GroupConfig{"sre": {Keys: []string{"ann", "bo"}, SlackUsers: []string{"U1"}}}},
		nil, []gate.Principal{person("ann"), person("bo")}, map[string]gate.Platform{gate.Slack: chat{}})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	for name, tt := range map[string]struct {
		person string
		voter  gate.Voter
		why    gate.Reason
	}{
		"another name":                          {"dora", keyVoter("ann"), ""},
		"the name":                              {"ann", keyVoter("ann"), gate.ReasonSelfApproval},
		"the name in capitals":                  {"Ann", keyVoter("ann"), gate.ReasonSelfApproval},
		"a name, and an account presses":        {"dora", slackVoter("T1/U1", ""), gate.ReasonIdentityUnclear},
		"a name, and a mailbox presses":         {"dora", mailed("T1/U1", "dora@example.com"), gate.ReasonIdentityUnclear},
		"an account that is not written whole":  {"slack:U1", keyVoter("ann"), gate.ReasonIdentityUnclear},
		"an account of a chat there is not":     {"irc:ann", keyVoter("ann"), gate.ReasonIdentityUnclear},
		"a handle":                              {"@ann", keyVoter("ann"), gate.ReasonIdentityUnclear},
		"an address, and nobody knows the keys": {"ann@example.com", keyVoter("ann"), gate.ReasonIdentityUnclear},
	} {
		a := &gate.Approval{Subject: gate.Subject{Rule: "two", Requester: gate.Requester{Key: "hermes", Person: tt.person}}}
		err := p.MayDecide(t.Context(), a, tt.voter)
		if tt.why == "" && err != nil || tt.why != "" && gate.ReasonOf(err) != tt.why {
			t.Errorf("%s: MayDecide = %v, want %q", name, err, tt.why)
		}
	}
}
