package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/approvalbot/approvalbot/channels/slack/slacktest"
	"github.com/approvalbot/approvalbot/gate"
)

// The conversations and people of every workspace.
const (
	review, prod, opsRoom = "C0REVIEW01", "C0PROD0001", "C0OPS00001"
	annOnSlack, boOnSlack = "U0ANN00001", "U0BO000001"
	boss                  = "U0BOSS0001" // in no group
	sreGroup              = "S0SRE00001"
)

// newWorkspace is a Slack with those conversations and people.
func newWorkspace(t *testing.T, c slacktest.Config) *slacktest.Slack {
	t.Helper()
	s := slacktest.New(t, c)
	for id, name := range map[string]string{annOnSlack: "Ann", boOnSlack: "Bo", boss: "Boss"} {
		s.AddUser(slacktest.User{ID: id, Name: name})
	}
	s.AddGroup(slacktest.Group{ID: sreGroup, Members: []string{annOnSlack}})
	for _, id := range []string{review, prod, opsRoom} {
		s.AddChannel(slacktest.Channel{ID: id, Members: []string{annOnSlack, boOnSlack, boss, slacktest.BotUser}})
	}
	return s
}

// soon waits until something is so: for longer than it takes to notice that a
// replica has died.
func soon(t *testing.T, what string, so func() bool) {
	t.Helper()
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for deadline := time.Now().Add(5 * patience); !so(); <-look.C {
		if time.Now().After(deadline) {
			t.Fatalf("in vain: %s", what)
		}
	}
}

// onSlack is a config file with a Slack that receives over HTTP, and these further
// lines; fields are of its section.
func onSlack(fields, more string) string {
	if fields == "" {
		fields = "bot_token_file: bot-token, signing_secret_file: signing"
	}
	return "@people\nchannels: {slack: {" + fields + `, api_url: "{slack}/api/"}}` + "\n" + more
}

// rule is a policy whose one rule holds "x" with these further fields.
func rule(fields string) string {
	return "approvals: {tool_gate: {rules: [{name: r, match: {tool: x}, mode: inline" + fields + "}]}}\n"
}

// starts says whether a server starts with the file.
func starts(l *lab) string {
	if l.cfg == nil {
		return "refused: " + l.problems
	}
	if _, err := l.try(); err != nil {
		return "refused: " + err.Error()
	}
	return "taken"
}

// shownIn says in which conversations an approval is shown.
func shownIn(l *lab) string {
	l.runs()
	l.asked()
	var where []string
	soon(l.t, "a card", func() bool {
		where = nil
		for _, c := range []string{review, prod} {
			if len(l.slack.Messages(c)) > 0 {
				where = append(where, c)
			}
		}
		return len(where) > 0
	})
	return strings.Join(where, " ")
}

// pressed says what Ann is told who approves the card in review.
func pressed(l *lab) string {
	l.runs()
	l.asked()
	var card slacktest.Message
	soon(l.t, "a card", func() bool {
		if all := l.slack.Messages(review); len(all) > 0 {
			card = all[0]
		}
		return card.TS != ""
	})
	o, err := l.slack.Click(l.t.Context(), slacktest.Click{User: annOnSlack, Channel: review, TS: card.TS, Action: "approve"})
	if err != nil {
		l.t.Fatal(err)
	}
	if o.Status >= 400 {
		return "refused"
	}
	var told string
	soon(l.t, "an answer", func() bool {
		if all := l.slack.Ephemerals(annOnSlack); len(all) > 0 {
			told = all[0].Read()
		}
		return told != ""
	})
	return told
}

// socketed says whether the server opens sockets.
func socketed(l *lab) string {
	if l.cfg == nil {
		return "refused: " + l.problems
	}
	l.runs()
	ctx, cancel := context.WithTimeout(l.t.Context(), patience)
	defer cancel()
	if len(l.slack.Calls("apps.connections.open")) == 0 {
		if _, err := l.slack.Await(ctx, func(open []int) bool { return len(open) > 0 }); err != nil {
			return "no socket"
		}
	}
	return "a socket"
}

// operatorsTold says in which conversation the operators are told that review is gone.
func operatorsTold(l *lab) string {
	l.slack.AddChannel(slacktest.Channel{ID: review, Archived: true, Members: []string{slacktest.BotUser}})
	l.runs()
	l.asked()
	var where string
	soon(l.t, "a word to the operators", func() bool {
		for _, c := range []string{opsRoom, prod} {
			if len(l.slack.Messages(c)) > 0 {
				where = c
			}
		}
		return where != ""
	})
	return where
}

// mentioned says whom the first card calls.
func mentioned(l *lab) string {
	l.runs()
	l.asked()
	var called []string
	soon(l.t, "a card", func() bool {
		all := l.slack.Messages(review)
		if len(all) > 0 {
			called = all[0].Notifies()
		}
		return len(all) > 0
	})
	return "calls " + strings.Join(called, " ")
}

// selfApproved says what Ann is told who approves on Slack what her agent asks.
func selfApproved(l *lab) string {
	a := l.askAs(gate.Requester{Key: "hermes", Person: "ann", Attended: true}, "x").Approval
	_, err := l.gate().Decide(l.t.Context(), gate.Decision{
		ID: a.ID, Choice: gate.Approve, Digest: a.Digest,
		Voter: gate.Voter{ID: "slack:" + slacktest.Team + "/" + annOnSlack, Surface: "slack"},
	})
	return string(gate.ReasonOf(err))
}

// homeTab says what Bo finds on the app's Home tab, who is in the default group.
func homeTab(l *lab) string {
	l.runs()
	for _, e := range []map[string]any{{"type": "app_home_opened", "user": boOnSlack, "tab": "home"}} {
		if _, err := l.slack.Event(l.t.Context(), e); err != nil {
			l.t.Fatal(err)
		}
	}
	l.svc.drained()
	v, ok := l.slack.Home(boOnSlack)
	if !ok {
		return "empty"
	}
	return v.Read()
}

const (
	toReview  = "review: {slack: " + review + "}\n"
	onlyAnn   = "approvers: {default: [g], groups: {g: {slack_users: [" + annOnSlack + "]}}}\n"
	slackPath = "channels.slack."
)

var chatRows = []keyRow{
	{slackPath + "bot_token_file", onSlack("", ""), onSlack("bot_token_file: other-token, signing_secret_file: signing", ""), starts, [2]string{"taken", "invalid_auth"}},
	{slackPath + "bot_token", onSlack(`bot_token: "${BOT}", signing_secret_file: signing`, ""), onSlack(`bot_token: "${OTHERBOT}", signing_secret_file: signing`, ""), starts, [2]string{"taken", "invalid_auth"}},
	{slackPath + "app_token_file", onSlack("bot_token_file: bot-token, app_token_file: app-token", ""), onSlack("bot_token_file: bot-token, app_token_file: bot-token", ""), socketed, [2]string{"a socket", "no app-level token"}},
	{slackPath + "app_token", onSlack(`bot_token_file: bot-token, app_token: "${APP}"`, ""), onSlack(`bot_token_file: bot-token, app_token: "${BOT}"`, ""), socketed, [2]string{"a socket", "no app-level token"}},
	{
		slackPath + "signing_secret_file", onSlack("", toReview+rule("")+onlyAnn), onSlack("bot_token_file: bot-token, signing_secret_file: other-token", toReview+rule("")+onlyAnn),
		pressed,
		[2]string{"Recorded", "refused"},
	},
	{
		slackPath + "signing_secret", onSlack(`bot_token_file: bot-token, signing_secret: "${SIGNING}"`, toReview+rule("")+onlyAnn),
		onSlack(`bot_token_file: bot-token, signing_secret: "${BOT}"`, toReview+rule("")+onlyAnn), pressed,
		[2]string{"Recorded", "refused"},
	},
	{slackPath + "team", onSlack("", ""), onSlack("bot_token_file: bot-token, signing_secret_file: signing, team: T0ELSE", ""), starts, [2]string{"taken", "wants T0ELSE"}},
	{slackPath + "api_url", onSlack("bot_token_file: other-token, signing_secret_file: signing", ""), strings.Replace(onSlack("bot_token_file: other-token, signing_secret_file: signing", ""), "{slack}", "http://127.0.0.1:1", 1), starts, [2]string{"invalid_auth", "taken"}},
	{slackPath + "home", onSlack("", ""), onSlack("bot_token_file: bot-token, signing_secret_file: signing, home: true", ""), homeTab, [2]string{"empty", "Nothing is pending"}},
	{"review.*", onSlack("", toReview+rule("")), onSlack("", "review: {slack: "+prod+"}\n"+rule("")), shownIn, [2]string{review, prod}},
	{"operators.*", onSlack("", toReview+"operators: {slack: "+opsRoom+"}\n"+rule("")), onSlack("", toReview+"operators: {slack: "+prod+"}\n"+rule("")), operatorsTold, [2]string{opsRoom, prod}},
	{"approvers.groups.*.slack_users", onSlack("", toReview+rule("")+onlyAnn), onSlack("", toReview+rule("")+strings.Replace(onlyAnn, annOnSlack, boOnSlack, 1)), pressed, [2]string{"Recorded", "You are not in g"}},
	{
		"approvers.groups.*.slack_usergroups", onSlack("", toReview+rule("")+"approvers: {default: [g], groups: {g: {slack_usergroups: ["+sreGroup+"]}}}\n"),
		onSlack("", toReview+rule("")+"approvers: {default: [g], groups: {g: {slack_usergroups: [S0OTHER001]}}}\n"), pressed,
		[2]string{"Recorded", "Could not look up who may decide"},
	},
	{
		"people[].slack", onSlack("", toReview+rule("")+onlyAnn+"people: [{name: ann}, {name: bo}]\n"),
		onSlack("", toReview+rule("")+onlyAnn+"people: [{name: ann, slack: ["+slacktest.Team+"/"+annOnSlack+"]}, {name: bo}]\n"), selfApproved,
		[2]string{"identity_unclear", "self_approval"},
	},
	{rules + "conversation.*", onSlack("", toReview+rule("")), onSlack("", toReview+rule(", conversation: {slack: "+prod+"}")), shownIn, [2]string{review, prod}},
	{
		rules + "mention", onSlack("", toReview+rule("")+onlyAnn), onSlack("", toReview+rule(", mention: [g]")+onlyAnn), mentioned,
		[2]string{"calls ", "calls @" + annOnSlack},
	},
}
