package main

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/approvalbot/approvalbot/channels/mattermost"
	"github.com/approvalbot/approvalbot/channels/mattermost/mattermosttest"
	"github.com/approvalbot/approvalbot/channels/slack/slacktest"
	"github.com/approvalbot/approvalbot/gate"
)

// bothChats is a config file with both, where it takes one person of each.
const bothChats = `@people
channels:
  slack: {bot_token_file: bot-token, signing_secret_file: signing, api_url: "{slack}/api/"}
  mattermost: {url: "{mattermost}", token_file: mm-token, callback_url: "{callback}", callback_allow: [127.0.0.1, "::1"]}
review: {slack: C0REVIEW01, mattermost: acme/review}
people:
  - {name: ann, slack: [T0AAAAAA1/U0ANN00001], mattermost: [ann]}
  - {name: bo, slack: [T0AAAAAA1/U0BO000001], mattermost: [bo]}
approvers:
  default: [both]
  groups:
    both: {slack_users: [U0ANN00001], mattermost_users: [ann, bo]}
    slack: {slack_users: [U0ANN00001]}
    mattermost: {mattermost_channel_members: [acme/sre]}
approvals:
  tool_gate:
    rules:
      - {name: x, match: {tool: x}, mode: inline, quorum: 2}
      - {name: on-slack, match: {tool: on-slack}, approvers: [slack]}
      - {name: on-mattermost, match: {tool: on-mattermost}, approvers: [mattermost]}
`

// where says in which chats an approval is shown.
func (l *lab) where(id gate.ID) (all []string) {
	l.t.Helper()
	for _, m := range l.slack.Messages(review) {
		if strings.Contains(string(m.Metadata), string(id)) {
			all = append(all, "slack")
		}
	}
	for _, p := range l.mattermost.Posts(opsOnMM) {
		if p.Props["approvalbot_card"] == string(id) {
			all = append(all, "mattermost")
		}
	}
	return all
}

// TestTwoChats runs both beside each other: a card is where its approvers are, the
// same person counts once, and where one is out the other has it.
func TestTwoChats(t *testing.T) {
	t.Parallel()
	l := newLab(t, bothChats)
	l.runs()
	shown := func(a *gate.Snapshot) (in []string) {
		t.Helper()
		soon(t, "a card", func() bool { in = l.where(a.ID); return len(in) > 0 })
		return in
	}
	if got := shown(l.ask("on-slack").Approval); !slices.Equal(got, []string{"slack"}) {
		t.Errorf("what people of Slack decide is in %q", got)
	}
	if got := shown(l.ask("on-mattermost").Approval); !slices.Equal(got, []string{"mattermost"}) {
		t.Errorf("what people of Mattermost decide is in %q", got)
	}

	a := l.asked()
	soon(t, "a card in each", func() bool { return slices.Equal(l.where(a.ID), []string{"slack", "mattermost"}) })
	var card mattermosttest.Post
	for _, p := range l.mattermost.Posts(opsOnMM) {
		if p.Props["approvalbot_card"] == string(a.ID) {
			card = p
		}
	}
	onSlack := func() string {
		_, err := l.gate().Decide(t.Context(), gate.Decision{
			ID: a.ID, Choice: gate.Approve, Digest: a.Digest,
			Voter: gate.Voter{ID: "slack:" + slacktest.Team + "/" + annOnSlack, Surface: "slack"},
		})
		return gate.PublicText(err)
	}
	press := func(user, want string) {
		t.Helper()
		o, err := l.mattermost.Press(t.Context(), mattermosttest.Press{User: user, Post: card.ID, Action: "approve"})
		if told := strings.Join(o.Ephemerals, " "); err != nil || !strings.Contains(told, want) {
			t.Errorf("%s is told %q, %v; want %q", user, told, err, want)
		}
	}
	press(annOnMM, "Recorded (1 of 2)")
	if told := onSlack(); !strings.Contains(told, "You already approved this") {
		t.Errorf("in the other chat the same person is told %q", told)
	}
	press(boOnMM, "Recorded. Approved by bo")

	l.mattermost.Archive(opsOnMM)
	if got := shown(l.asked()); !slices.Equal(got, []string{"slack"}) {
		t.Errorf("where one chat takes no card it is in %q", got)
	}
}

func TestWhereCardsGo(t *testing.T) {
	t.Parallel()
	l := newLab(t, bothChats+"      - {name: named, match: {tool: named}, approvers: [slack], conversation: {mattermost: acme/prod, slack: C0PROD0001}}\n")
	if l.cfg == nil {
		t.Fatal(l.problems)
	}
	rule := map[string]*gate.Rule{}
	for _, r := range l.cfg.Policy.Rules() {
		rule[r.Name] = r
	}
	const onReview, mmOnReview = "slack:C0REVIEW01", "mattermost:acme/review"
	for name, tt := range map[string]struct {
		view gate.View
		want []string
	}{
		"approvers on Slack":      {gate.View{Rule: rule["on-slack"]}, []string{onReview, mmOnReview}},
		"approvers on Mattermost": {gate.View{Rule: rule["on-mattermost"]}, []string{mmOnReview, onReview}},
		"approvers on both":       {gate.View{Rule: rule["x"]}, []string{mmOnReview, onReview}},
		"a rule that is gone":     {gate.View{}, []string{mmOnReview, onReview}},
		"a rule that names both":  {gate.View{Rule: rule["named"]}, []string{"slack:C0PROD0001", "mattermost:acme/prod", onReview, mmOnReview}},
		"where the call came from": {
			gate.View{Rule: rule["on-slack"], Snapshot: gate.Snapshot{Approval: gate.Approval{Mode: gate.Inline, Subject: gate.Subject{Origin: gate.Conversation{Place: "mattermost:" + liveOnMM, Thread: "t"}}}}},
			[]string{"mattermost:" + liveOnMM, onReview, mmOnReview},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, c := range router(l.cfg.Review)(&tt.view) {
				got = append(got, c.Place)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestApproversAreWrittenToDirectly by the ids that are known of them.
func TestApproversAreWrittenToDirectly(t *testing.T) {
	t.Parallel()
	l := newLab(t, bothChats)
	rules := map[string]*gate.Rule{}
	l.gate() // which learns what names mean
	for _, r := range l.gate().Policy().Rules() {
		rules[r.Name] = r
	}
	for name, want := range map[string][]string{
		"x":             {"mattermost:@" + annOnMM, "mattermost:@" + boOnMM, "slack:" + annOnSlack},
		"on-slack":      {"slack:" + annOnSlack},
		"on-mattermost": {"mattermost:@" + annOnMM},
	} {
		var got []string
		for _, c := range direct(t.Context(), &gate.View{Rule: rules[name]}) {
			got = append(got, c.Place)
		}
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// slowChat answers what it is told to.
type slowChat struct {
	mu              sync.Mutex
	ids             map[string]string
	pin, reg        error
	asked, register int
}

func (*slowChat) Name() string { return gate.Mattermost }

func (*slowChat) Connect(context.Context) (mattermost.Self, error) {
	return mattermost.Self{Bot: true}, nil
}

func (s *slowChat) Pin(context.Context, []string) (map[string]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	return maps.Clone(s.ids), s.pin
}

func (*slowChat) Readable(context.Context, gate.Roster) error { return nil }

func (s *slowChat) Register(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.register++
	return s.reg
}

// answers lets it answer otherwise.
func (s *slowChat) answers(ids map[string]string, pin, reg error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ids, s.pin, s.reg = ids, pin, reg
}

// heard is how often it was asked for names, and for the command.
func (s *slowChat) heard() (asked, register int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked, s.register
}

// TestNamesAreAskedForUntilMattermostAnswers, and no longer: one that nobody has might
// be anybody's later.
func TestNamesAreAskedForUntilMattermostAnswers(t *testing.T) {
	t.Parallel()
	l := newLab(t, bothChats)
	if l.cfg == nil {
		t.Fatal(l.problems)
	}
	p := l.cfg.Policy
	synctest.Test(t, func(t *testing.T) {
		away := &gate.Error{Kind: gate.Unavailable}
		chat := &slowChat{pin: away, reg: errors.Join(away, &gate.Error{Kind: gate.Invalid})}
		s := &settling{chat: chat, policy: func() *gate.Policy { return p }, log: slog.New(slog.DiscardHandler)}
		ctx, cancel := context.WithCancel(t.Context())
		s.begin(ctx)
		go s.run(ctx)
		passes := func(d time.Duration) { <-time.After(d); synctest.Wait() }
		passes(time.Minute)
		if asked, register := chat.heard(); asked < 4 || register < 4 || p.PersonOf("mattermost:"+annOnMM) != "" {
			t.Errorf("asked %d and %d times, and ann is %q", asked, register, p.PersonOf("mattermost:"+annOnMM))
		}
		nobodys, refused := &gate.Error{Kind: gate.Invalid}, &gate.Error{Kind: gate.Forbidden}
		chat.answers(map[string]string{"ann": annOnMM}, nobodys, refused) // and bo is nobody's
		passes(settleEvery)
		asked, register := chat.heard()
		chat.answers(map[string]string{"ann": annOnMM, "bo": bossOnMM}, nobodys, refused) // somebody takes the name
		passes(time.Hour)
		if a, r := chat.heard(); a != asked || r != register {
			t.Errorf("asked again, %d and %d times", a-asked, r-register)
		}
		if p.PersonOf("mattermost:"+annOnMM) != "ann" || p.PersonOf("mattermost:"+bossOnMM) != "" {
			t.Errorf("ann is %q, and the other %q", p.PersonOf("mattermost:"+annOnMM), p.PersonOf("mattermost:"+bossOnMM))
		}
		s.reloaded(ctx)
		if a, _ := chat.heard(); a != asked+1 {
			t.Errorf("after a reload it was asked %d times", a-asked)
		}
		cancel()
	})
}
