package main

import (
	"net/http"
	"strings"
	"testing"

	"github.com/approvalbot/approvalbot/channels/mattermost/mattermosttest"
	"github.com/approvalbot/approvalbot/gate"
)

// More of what is on the Mattermost of these tests.
const (
	prodOnMM  = "c1prod00000000000000000000"
	sreOnMM   = "c1sre000000000000000000000" // Ann is in it
	mmGroup   = "g1sre000000000000000000000"
	mmCommand = "k1command00000000000000000" // the token of /approvals
)

// newMattermost is a Mattermost with those, whose people have mailboxes.
func newMattermost(t *testing.T, c mattermosttest.Config) *mattermosttest.Server {
	t.Helper()
	s := mattermosttest.New(t, c)
	for id, name := range map[string]string{annOnMM: "ann", boOnMM: "bo", bossOnMM: "boss"} {
		s.AddUser(mattermosttest.User{ID: id, Username: name, Email: name + "@example.com", EmailVerified: true})
	}
	for id, name := range map[string]string{opsOnMM: "review", prodOnMM: "prod", liveOnMM: "live"} {
		s.AddChannel(mattermosttest.Channel{ID: id, Name: name, Members: []string{annOnMM, boOnMM, bossOnMM, mattermosttest.BotUser}})
	}
	s.AddChannel(mattermosttest.Channel{ID: sreOnMM, Name: "sre", Type: "P", Members: []string{annOnMM, mattermosttest.BotUser}})
	s.AddGroup(mattermosttest.Group{ID: mmGroup, Name: "sre", Members: []string{annOnMM}})
	return s
}

// onMattermost is a config file with a Mattermost, and these further lines; fields
// are of its section.
func onMattermost(fields, more string) string {
	return "@people\nchannels: {mattermost: {" + fields + "}}\n" + more
}

const (
	mmSection = `url: "{mattermost}", token_file: mm-token, callback_url: "{callback}"`
	mmAllowed = mmSection + `, callback_allow: [127.0.0.1, "::1"]`
	mmPath    = "channels.mattermost."
	mmPeople  = "approvers: {default: [g], groups: {g: {"
)

// mmDecides is a config file whose cards go to review, and the group that decides.
func mmDecides(fields, members string) string {
	return onMattermost(fields, "review: {mattermost: acme/review}\n"+rule("")+mmPeople+members+"}}}\n")
}

// mmCard waits for a card in review.
func mmCard(l *lab) (card mattermosttest.Post) {
	l.t.Helper()
	l.runs()
	l.asked()
	soon(l.t, "a card", func() bool {
		if all := l.mattermost.Posts(opsOnMM); len(all) > 0 {
			card = all[0]
		}
		return card.ID != ""
	})
	return card
}

// mmPressed says what Ann sees who approves the card in review.
func mmPressed(l *lab) string {
	o, err := l.mattermost.Press(l.t.Context(), mattermosttest.Press{User: annOnMM, Post: mmCard(l).ID, Action: "approve"})
	if err != nil {
		l.t.Fatal(err)
	}
	switch {
	case o.Status != http.StatusOK:
		return "not reached"
	case len(l.mattermost.Dialogs(annOnMM)) > 0:
		return "a dialog"
	}
	return strings.Join(o.Ephemerals, "\n")
}

// mmForged says what becomes of a press that Mattermost did not sign.
func mmForged(l *lab) string {
	card := mmCard(l)
	status, answer, err := l.mattermost.Forge(l.t.Context(), card.URLOf("approve"), map[string]any{
		"user_id": annOnMM, "channel_id": opsOnMM, "post_id": card.ID, "trigger_id": mattermosttest.NewID(), "context": card.Context("approve"),
	})
	if err != nil {
		l.t.Fatal(err)
	}
	if status != http.StatusOK {
		return "refused"
	}
	return string(answer)
}

// mmTyped says what Ann is told who types the command.
func mmTyped(l *lab) string {
	l.mattermost.AddCommand(mattermosttest.Command{Trigger: "approvals", URL: l.front + "/mattermost/commands", Token: mmCommand})
	l.runs()
	o, err := l.mattermost.Type(l.t.Context(), mattermosttest.Typed{User: annOnMM, Channel: opsOnMM, Trigger: "approvals", Text: "pending"})
	if err != nil {
		l.t.Fatal(err)
	}
	if o.AnswerStatus != http.StatusOK {
		return "refused"
	}
	return strings.Join(o.Ephemerals, "\n")
}

// mmSelfApproved says what Ann is told who approves in Mattermost what her agent asks.
func mmSelfApproved(l *lab) string {
	a := l.askAs(gate.Requester{Key: "hermes", Person: "ann", Attended: true}, "x").Approval
	_, err := l.gate().Decide(l.t.Context(), gate.Decision{
		ID: a.ID, Choice: gate.Approve, Digest: a.Digest,
		Voter: gate.Voter{ID: "mattermost:" + annOnMM, Surface: "mattermost", Email: "ann@example.com"},
	})
	return string(gate.ReasonOf(err))
}

var mattermostRows = []keyRow{
	{mmPath + "url", onMattermost(strings.Replace(mmSection, "mm-token", "mm-other", 1), ""), onMattermost(strings.NewReplacer("mm-token", "mm-other", "{mattermost}", "http://127.0.0.1:1").Replace(mmSection), "# {mattermost}"), starts, [2]string{"token is refused", "taken"}},
	{mmPath + "token_file", onMattermost(mmSection, ""), onMattermost(strings.Replace(mmSection, "mm-token", "mm-other", 1), ""), starts, [2]string{"taken", "token is refused"}},
	{mmPath + "token", onMattermost(strings.Replace(mmSection, "token_file: mm-token", `token: "${MM}"`, 1), ""), onMattermost(strings.Replace(mmSection, "token_file: mm-token", `token: "${OTHERMM}"`, 1), ""), starts, [2]string{"taken", "token is refused"}},
	{mmPath + "callback_url", mmDecides(mmAllowed, "mattermost_users: [ann]"), mmDecides(strings.Replace(mmAllowed, "{callback}", "http://127.0.0.1:1", 1), "mattermost_users: [ann]"), mmPressed, [2]string{"Recorded", "not reached"}},
	{mmPath + "callback_allow", mmDecides(mmAllowed, "mattermost_users: [ann]"), mmDecides(mmSection, "mattermost_users: [ann]"), mmPressed, [2]string{"Recorded", "a dialog"}},
	{mmPath + "verify_triggers", mmDecides(mmAllowed, "mattermost_users: [ann]"), mmDecides(mmAllowed+", verify_triggers: false", "mattermost_users: [ann]"), mmForged, [2]string{"refused", "Recorded"}},
	{mmPath + "commands[].team", onMattermost(mmSection+", commands: [{team: acme, token_file: mm-command}]", ""), onMattermost(mmSection+", commands: [{team: other, token_file: mm-command}]", ""), mmTyped, [2]string{"Nothing is pending", "refused"}},
	{mmPath + "commands[].token_file", onMattermost(mmSection+", commands: [{team: acme, token_file: mm-command}]", ""), onMattermost(mmSection+", commands: [{team: acme, token_file: mm-other}]", ""), mmTyped, [2]string{"Nothing is pending", "refused"}},
	{mmPath + "commands[].token", onMattermost(mmSection+`, commands: [{team: acme, token: "${MMCOMMAND}"}]`, ""), onMattermost(mmSection+`, commands: [{team: acme, token: "${OTHERMM}"}]`, ""), mmTyped, [2]string{"Nothing is pending", "refused"}},
	{"approvers.groups.*.mattermost_users", mmDecides(mmAllowed, "mattermost_users: [ann]"), mmDecides(mmAllowed, "mattermost_users: ["+boOnMM+"]"), mmPressed, [2]string{"Recorded", "You are not in g"}},
	{"approvers.groups.*.mattermost_groups", mmDecides(mmAllowed, "mattermost_groups: ["+mmGroup+"]"), mmDecides(mmAllowed, "mattermost_groups: [g1other0000000000000000000]"), mmPressed, [2]string{"Recorded", "Could not look up who may decide"}},
	{"approvers.groups.*.mattermost_channel_members", mmDecides(mmAllowed, "mattermost_channel_members: [acme/sre]"), mmDecides(mmAllowed, "mattermost_channel_members: [acme/empty]"), mmPressed, [2]string{"Recorded", "You are not in g"}},
	{"approvers.groups.*.emails", mmDecides(mmAllowed, "emails: [Ann@example.com]"), mmDecides(mmAllowed, "emails: [bo@example.com]"), mmPressed, [2]string{"Recorded", "You are not in g"}},
	{
		"people[].mattermost", mmDecides(mmSection, "mattermost_users: [ann]") + "people: [{name: ann}, {name: bo}]\n",
		mmDecides(mmSection, "mattermost_users: [ann]") + "people: [{name: ann, mattermost: [ann]}, {name: bo}]\n", mmSelfApproved,
		[2]string{"identity_unclear", "self_approval"},
	},
	{
		"people[].emails", mmDecides(mmSection, "mattermost_users: [ann]") + "people: [{name: ann}, {name: bo}]\n",
		mmDecides(mmSection, "mattermost_users: [ann]") + "people: [{name: ann, emails: [ann@example.com]}, {name: bo}]\n", mmSelfApproved,
		[2]string{"identity_unclear", "self_approval"},
	},
}
