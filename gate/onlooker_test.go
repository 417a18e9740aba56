package gate_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/approvalbot/approvalbot/gate"
)

func TestWhoMaySeeAnApproval(t *testing.T) {
	t.Parallel()
	p := onSlack(t)
	for name, tt := range map[string]struct {
		rule   string
		person string
		voted  string
		voter  gate.Voter
		why    gate.Reason
		text   string
	}{
		"who may decide":                                    {rule: "group", voter: slackVoter("T1/U1", "")},
		"who decided and may no more":                       {rule: "broken", voted: "slack:T1/U8", voter: slackVoter("T1/U8", "")},
		"whom the call is for":                              {rule: "group", person: "slack:T1/U8", voter: slackVoter("T1/U8", "")},
		"an approver by default":                            {rule: "group", voter: slackVoter("T1/U9", "")},
		"an approver by default, while a chat is away":      {rule: "broken", voter: slackVoter("T1/U2", "")},
		"an approver by default of a rule that is gone":     {rule: "gone", voter: slackVoter("T1/U9", "")},
		"not anybody":                                       {rule: "group", voter: slackVoter("T1/U8", ""), why: gate.ReasonNotApprover, text: "This is shown to those who may decide on it, to the person behind the call, and to listed."},
		"not anybody of a rule that is gone":                {rule: "gone", voter: slackVoter("T1/U8", ""), why: gate.ReasonNotApprover},
		"nobody whom nobody can look up":                    {rule: "broken", voter: slackVoter("T1/U8", ""), why: gate.ReasonIdentityUnavailable, text: "Could not check whether you may see this."},
		"no guest":                                          {rule: "group", voter: slackVoter("T1/U6", gate.Guest)}, // listed by default
		"no guest whom the call is for":                     {rule: "group", person: "slack:T1/U8", voter: slackVoter("T1/U8", gate.Guest), why: gate.ReasonSelfApproval},
		"no guest of a user group":                          {rule: "group", voter: slackVoter("T1/U8", gate.Guest), why: gate.ReasonNotApprover, text: "Guests decide only where"},
		"no outsider with the id of one who may":            {rule: "listed", voter: slackVoter("T2/U1", gate.Outsider), why: gate.ReasonNotApprover},
		"no bot, listed or not":                             {rule: "listed", voter: slackVoter("T1/U6", gate.Bot), why: gate.ReasonNotApprover},
		"nobody deactivated, listed or not":                 {rule: "listed", voter: slackVoter("T1/U6", gate.Deactivated), why: gate.ReasonNotApprover},
		"nobody deactivated whom the call is for":           {rule: "group", person: "slack:T1/U8", voter: slackVoter("T1/U8", gate.Deactivated), why: gate.ReasonNotApprover},
		"an outsider who is listed with their workspace":    {rule: "group", voter: slackVoter("T2/U7", gate.Outsider)},
		"nobody who might be whom the call is for, by rule": {rule: "either", person: "cy", voter: slackVoter("T1/U8", ""), why: gate.ReasonNotApprover},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := &gate.Approval{Subject: gate.Subject{Rule: tt.rule, Requester: gate.Requester{Key: "hermes", Person: tt.person}}}
			if tt.voted != "" {
				a.Votes = []gate.Vote{{Voter: gate.Voter{ID: tt.voted}, Choice: gate.Approve}}
			}
			err := p.Onlooker(tt.voter).MaySee(t.Context(), a)
			if tt.why == "" {
				if err != nil {
					t.Errorf("MaySee = %v, want no refusal", err)
				}
				return
			}
			if got := gate.ReasonOf(err); err == nil || got != tt.why || !strings.HasPrefix(gate.PublicText(err), tt.text) {
				t.Errorf("MaySee = %s %q, want %s %q", got, gate.PublicText(err), tt.why, tt.text)
			}
		})
	}
}

func TestWhoIsWelcome(t *testing.T) {
	t.Parallel()
	p := onSlack(t)
	for name, tt := range map[string]struct {
		voter gate.Voter
		want  bool
	}{
		"any full member":            {slackVoter("T1/U8", ""), true},
		"a guest who is listed":      {slackVoter("T1/U5", gate.Guest), true},
		"not any other guest":        {slackVoter("T1/U8", gate.Guest), false},
		"an outsider who is listed":  {slackVoter("T2/U7", gate.Outsider), true},
		"not any other outsider":     {slackVoter("T2/U1", gate.Outsider), false},
		"no bot that is listed":      {slackVoter("T1/U6", gate.Bot), false},
		"nobody who was deactivated": {slackVoter("T1/U6", gate.Deactivated), false},
	} {
		if err := p.Onlooker(tt.voter).Welcome(t.Context()); (err == nil) != tt.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// counting is a platform that counts how often it is asked.
type counting struct {
	chat
	asked atomic.Int32
}

func (c *counting) Has(ctx context.Context, r gate.Roster, voter string) (bool, error) {
	c.asked.Add(1)
	return c.chat.Has(ctx, r, voter)
}

func TestAnOnlookerLooksEachRuleUpOnce(t *testing.T) {
	t.Parallel()
	c := &counting{chat: chat{"S1": {"slack:T1/U1"}}}
	p, problems := gate.NewPolicy(
		&gate.PolicyConfig{ToolGate: &gate.ToolGateConfig{Rules: []gate.RuleConfig{{Name: "group", Match: gate.MatchConfig{Tool: "*"}, Approvers: []string{"group"}}}}},
		gate.ApproversConfig{Default: []string{"group"}, Groups: map[string]gate.GroupConfig{"group": {SlackUserGroups: []string{"S1"}}}}, nil, nil,
		map[string]gate.Platform{"slack": c},
	)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	o := p.Onlooker(slackVoter("T1/U1", ""))
	for range 1000 {
		if err := o.MaySee(t.Context(), &gate.Approval{Subject: gate.Subject{Rule: "group"}}); err != nil {
			t.Fatal(err)
		}
	}
	if n := c.asked.Load(); n != 1 {
		t.Errorf("the platform was asked %d times", n)
	}
}

func TestWhoOfAChatMayRevokeAGrant(t *testing.T) {
	t.Parallel()
	stranger := gate.Voter{ID: "slack:T1/U9", Name: "eve", Person: "eve", Surface: "slack", Login: "platform"}
	by := func(key string) gate.Voter { return person(key).Voter("slack") }
	for name, tt := range map[string]struct {
		voter gate.Voter
		id    string
		then  func(*bundle, *gate.Snapshot)
		why   gate.Reason
	}{
		"who may decide": {voter: by("bo")},
		"who may decide, when the approval is gone": {voter: by("bo"), then: forgotten},
		"whose approval made it, and may decide":    {voter: by("ann")},
		"whose approval made it, and may no more":   {voter: by("ann"), then: withoutAnn},
		"not who may no more, and did not make it":  {voter: by("ann"), then: both(withoutAnn, forgotten), why: gate.ReasonNotApprover},
		"not a stranger":                                {voter: stranger, why: gate.ReasonNotApprover},
		"not one who might be who voted":                {voter: slackVoter("T1/U9", ""), why: gate.ReasonIdentityUnclear},
		"not a stranger, when the rule is gone":         {voter: stranger, then: reruled(func(r *gate.RuleConfig) { r.Name = "other" }), why: gate.ReasonNotApprover},
		"an approver by default, when the rule is gone": {voter: by("cy"), then: both(reruled(func(r *gate.RuleConfig) { r.Name = "other" }), forgotten)},
		"not the agent that has it":                     {voter: gate.Voter{ID: "key:hermes", Name: "hermes"}, why: gate.ReasonSelfApproval},
		"nobody deactivated, though it was theirs":      {voter: account(by("ann"), gate.Deactivated), why: gate.ReasonNotApprover},
		"no bot":                   {voter: account(by("bo"), gate.Bot), why: gate.ReasonNotApprover},
		"none that does not exist": {voter: by("bo"), id: "grt_01JNV4X3T2E6Q1Y5Z8A9B0C1D2", why: gate.ReasonNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, world())
			s := granted(b, gate.Always)
			if tt.then != nil {
				tt.then(b, s)
			}
			grants, err := b.Grants(t.Context(), admin)
			if err != nil || len(grants) != 1 {
				t.Fatalf("Grants = %v, %v; want one", grants, err)
			}
			id := grants[0].ID
			if tt.id != "" {
				id = tt.id
			}
			err = b.RevokeGrantAs(t.Context(), tt.voter, id)
			left, _ := b.Grants(t.Context(), admin)
			if tt.why == "" {
				if err != nil || len(left) != 0 {
					t.Errorf("RevokeGrantAs = %v, and %d are left", err, len(left))
				}
				b.audited(gate.EventGrantRevoked, id)
				return
			}
			if err == nil || gate.ReasonOf(err) != tt.why || len(left) != 1 {
				t.Errorf("RevokeGrantAs = %v (%s), and %d are left; want %s", err, gate.ReasonOf(err), len(left), tt.why)
			}
			if tt.id == "" {
				b.audited(gate.EventRefused, "revoke a grant: "+string(tt.why))
			}
		})
	}
}

func account(v gate.Voter, a gate.Account) gate.Voter { v.Account = a; return v }

// forgotten takes the approval away that a grant came of: it was kept for long
// enough.
func forgotten(b *bundle, s *gate.Snapshot) {
	for _, key := range b.redis.Keys() {
		if strings.Contains(key, strings.TrimPrefix(string(s.ID), "apr_")) {
			b.redis.Del(key)
		}
	}
}

func both(all ...func(*bundle, *gate.Snapshot)) func(*bundle, *gate.Snapshot) {
	return func(b *bundle, s *gate.Snapshot) {
		for _, do := range all {
			do(b, s)
		}
	}
}

// withoutAnn puts a policy in force that has no ann.
func withoutAnn(b *bundle, _ *gate.Snapshot) {
	p, problems := gate.NewPolicy(world(),
		gate.ApproversConfig{Default: []string{"sre"}, Groups: map[string]gate.GroupConfig{"sre": {Keys: []string{"bo", "cy"}}}},
		[]gate.PersonConfig{{Name: "ann", Keys: []string{"ann"}}, {Name: "bo", Keys: []string{"bo"}}, {Name: "cy", Keys: []string{"cy"}}},
		[]gate.Principal{person("ann"), person("bo"), person("cy")}, nil)
	if len(problems) > 0 {
		b.t.Fatal(problems)
	}
	if err := b.SetPolicy(b.t.Context(), p, "test"); err != nil {
		b.t.Fatal(err)
	}
}

func TestProofsOfPrivateCards(t *testing.T) {
	t.Parallel()
	const id, other, voter = gate.ID("apr_1"), gate.ID("apr_2"), "slack:T1/U1"
	keys, now := newKeyring(t, "k"), time.Now().Truncate(time.Second)
	call := gate.Digest{1}
	proof := keys.ProveCard(id, call, voter, now.Add(gate.ProofLife))
	end, mac, _ := strings.Cut(proof, ".")
	for name, tt := range map[string]struct {
		proof string
		id    gate.ID
		call  gate.Digest
		voter string
		at    time.Duration
		by    *gate.Keyring
		why   gate.Reason
	}{
		"as it was made":                     {proof, id, call, voter, 0, keys, ""},
		"a moment before its end":            {proof, id, call, voter, gate.ProofLife - time.Second, keys, ""},
		"at its end":                         {proof, id, call, voter, gate.ProofLife, keys, gate.ReasonExpired},
		"by a key that is being rotated":     {proof, id, call, voter, 0, newKeyring(t, "n", "k"), ""},
		"by another server":                  {proof, id, call, voter, 0, newKeyring(t, "n"), gate.ReasonNotFound},
		"for another approval":               {proof, other, call, voter, 0, keys, gate.ReasonNotFound},
		"for another call":                   {proof, id, gate.Digest{2}, voter, 0, keys, gate.ReasonNotFound},
		"of another person":                  {proof, id, call, "slack:T1/U2", 0, keys, gate.ReasonNotFound},
		"with a later end":                   {"zzzzzz." + mac, id, call, voter, 0, keys, gate.ReasonNotFound},
		"without its end":                    {mac, id, call, voter, 0, keys, gate.ReasonNotFound},
		"cut":                                {proof[:len(proof)-1], id, call, voter, 0, keys, gate.ReasonNotFound},
		"with bits that nothing reads":       {proof[:len(proof)-1] + string(proof[len(proof)-1]+1), id, call, voter, 0, keys, gate.ReasonNotFound},
		"nothing":                            {"", id, call, voter, 0, keys, gate.ReasonNotFound},
		"only an end":                        {end + ".", id, call, voter, 0, keys, gate.ReasonNotFound},
		"a signature of the console's pages": {end + "." + keys.Sign(gate.Pages, string(id), call.Hex(), voter, end), id, call, voter, 0, keys, gate.ReasonNotFound},
	} {
		err := tt.by.CheckCard(tt.proof, tt.id, tt.call, tt.voter, now.Add(tt.at))
		if (err == nil) != (tt.why == "") || err != nil && (gate.ReasonOf(err) != tt.why || gate.KindOf(err) != gate.Forbidden) {
			t.Errorf("%s: %v, want %q", name, err, tt.why)
		}
	}
}
