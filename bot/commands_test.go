package bot_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/approvalbot/approvalbot/bot"
	"github.com/approvalbot/approvalbot/channels"
	"github.com/approvalbot/approvalbot/gate"
	"github.com/approvalbot/approvalbot/gate/secret"
	"github.com/approvalbot/approvalbot/store"
)

var update = flag.Bool("update", false, "write golden files")

// nobodysChat is a platform that keeps no groups.
type nobodysChat struct{}

func (nobodysChat) Members(context.Context, gate.Roster) ([]string, error) {
	return nil, errors.New("it does not answer")
}

func (nobodysChat) Has(context.Context, gate.Roster, string) (bool, error) {
	return false, errors.New("it does not answer")
}
func (nobodysChat) Check(gate.IDKind, string) error { return nil }
func (nobodysChat) Named(string) bool               { return false }

// counter is where people of a chat type commands: a gate on a store in memory, in
// a bubble of synctest.
type counter struct {
	*testing.T
	gate     *gate.Gate
	store    *store.Redis
	commands *bot.Commands
	keys     *gate.Keyring
	names    map[string]string // of ids that are new in every run
}

// The people of the chat.
var (
	ada   = chatter("U1", "ada")  // sre, the approvers by default
	bob   = chatter("U2", "bob")  // sre
	dora  = chatter("U3", "dora") // db
	zoe   = chatter("U8", "zoe")  // in no group; calls are for her
	eve   = chatter("U9", "eve")  // in no group
	gus   = as(chatter("U5", "gus"), gate.Guest)
	gina  = as(chatter("U6", "gina"), gate.Guest) // listed in db
	robot = as(chatter("U1", "ada"), gate.Bot)
)

func chatter(id, name string) gate.Voter {
	return gate.Voter{ID: "slack:T1/" + id, Name: name, Surface: "slack", Login: "platform"}
}

func as(v gate.Voter, a gate.Account) gate.Voter { v.Account = a; return v }

func newCounter(t *testing.T) *counter {
	t.Helper()
	keys, err := gate.NewKeyring(secret.New(strings.Repeat("k", gate.MinServerKey)))
	if err != nil {
		t.Fatal(err)
	}
	s, err := store.OpenMemory(t.Context(), store.Config{Fingerprints: keys.Fingerprints()})
	if err != nil {
		t.Fatal(err)
	}
	quiet := slog.New(slog.DiscardHandler)
	c := &counter{T: t, store: s, keys: keys, names: map[string]string{}}
	c.gate = gate.New(s, keys, bot.NewHub(s, quiet), counterPolicy(t), quiet)
	c.gate.Beat(t.Context(), "r")
	card := func(v *gate.View) *channels.Card {
		args, covered := c.gate.Shown(&v.Snapshot)
		return channels.NewCard(v, channels.Context{Args: args, Redacted: covered})
	}
	c.commands = &bot.Commands{
		Gate: c.gate, Log: quiet, Notes: map[string]string{"slack": "In a thread of this chat no command works."},
		Clicks: &bot.Clicks{Gate: c.gate, Cards: s, Log: quiet, Private: &bot.PrivateCards{Gate: c.gate, Keys: keys, Card: card}},
	}
	return c
}

func counterPolicy(t testing.TB) *gate.Policy {
	t.Helper()
	all := []string{"once", "session", "always"}
	p, problems := gate.NewPolicy(
		&gate.PolicyConfig{ToolGate: &gate.ToolGateConfig{DefaultMode: "inline", Rules: []gate.RuleConfig{
			{Name: "two", Match: gate.MatchConfig{Tool: "two_*"}, Quorum: &gate.QuorumConfig{Total: 2}},
			{Name: "db", Match: gate.MatchConfig{Tool: "db_*"}, Approvers: []string{"db"}, DenyReason: "required"},
			{Name: "standing", Match: gate.MatchConfig{Tool: "standing_*"}, Scopes: all},
			{Name: "kubectl", Match: gate.MatchConfig{Tool: "kubectl_*"}, Mode: "deferred"},
			{Name: "away", Match: gate.MatchConfig{Tool: "away_*"}, Approvers: []string{"away"}},
		}}},
		gate.ApproversConfig{Default: []string{"sre"}, Groups: map[string]gate.GroupConfig{
			"sre": {SlackUsers: []string{"U1", "U2"}}, "db": {SlackUsers: []string{"U3", "U6"}}, "away": {SlackUserGroups: []string{"S0"}},
		}},
		[]gate.PersonConfig{{Name: "zoe", Slack: []string{"T1/U8"}}}, nil, map[string]gate.Platform{"slack": nobodysChat{}},
	)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return p
}

// asks opens an approval that a golden file knows by the name of its tool.
func (c *counter) asks(tool string, change func(*gate.Request)) *gate.Snapshot {
	c.Helper()
	r := gate.Request{
		Call:      gate.Call{Tool: tool, Target: "prod/web", Args: json.RawMessage(`{"replicas": 3, "why": "the shop   is slow"}`)},
		Requester: gate.Requester{Key: "hermes", Agent: "claude", Session: "s1", Person: "zoe", Attended: true}, Intent: "scale the shop back up",
	}
	if change != nil {
		change(&r)
	}
	got, err := c.gate.Check(c.Context(), r)
	if err != nil || got.Approval == nil {
		c.Fatalf("Check(%s) = %+v, %v", tool, got, err)
	}
	c.name(string(got.Approval.ID), strings.ToUpper(tool))
	passes(time.Second) // so that the order is the same in every run
	return got.Approval
}

func (c *counter) name(id, name string) {
	c.names[id] = id[:4] + name
	c.names[gate.ShortID(id)] = name
	c.names[strings.ToLower(gate.ShortID(id))] = name // of digits alone it is the same
}

func (c *counter) decides(s *gate.Snapshot, v gate.Voter, k gate.Choice, scope gate.Scope, why string) {
	c.Helper()
	if _, err := c.gate.Decide(c.Context(), gate.Decision{ID: s.ID, Voter: v, Choice: k, Scope: scope, Reason: why, Digest: s.Digest}); err != nil {
		c.Fatalf("Decide = %v", err)
	}
}

func (c *counter) types(v gate.Voter, text string) channels.Answer {
	return c.commands.Run(c.Context(), channels.Command{Voter: v, Text: text, Place: "slack:C1"})
}

// reads is what somebody is shown for a text, with ids by their names.
func (c *counter) reads(v gate.Voter, text string) string {
	return c.told(c.types(v, text))
}

func (c *counter) told(a channels.Answer) string {
	var b strings.Builder
	for _, l := range a.Lines {
		fmt.Fprintln(&b, l)
	}
	for _, r := range a.Rows {
		fmt.Fprintln(&b, "* "+strings.Join(r.Lines, "\n  "))
		if r.Link != "" {
			fmt.Fprintf(&b, "  <%s>\n", r.Link)
		}
		if r.Button != nil {
			fmt.Fprintf(&b, "  [%s: %s]\n", r.Button.Label, r.Button.Command)
		}
	}
	if k := a.Card; k != nil {
		fmt.Fprintf(&b, "| %s\n", k.Title)
		if k.Target != "" {
			fmt.Fprintf(&b, "| Target: %s\n", k.Target)
		}
		for _, f := range k.Facts {
			fmt.Fprintf(&b, "| %s: %s\n", f.Name, f.Value)
		}
		fmt.Fprintf(&b, "| %s\n| %s\n", strings.ReplaceAll(k.Args, "\n", "\n| "), k.Line)
		for name, live := range map[string]bool{"approve": k.Approve, "deny": k.Deny, "ask": k.Ask, "answer": k.Answer, "take back": k.TakeBack} {
			if live && k.Proof == "" {
				c.Errorf("a button without a proof: %s", name)
			}
		}
		fmt.Fprintf(&b, "| approve %t, deny %t, ask %t, take back %t\n", k.Approve, k.Deny, k.Ask, k.TakeBack)
	}
	for _, k := range a.Buttons {
		fmt.Fprintf(&b, "[%s: %s]\n", k.Label, k.Command)
	}
	out := b.String()
	return c.named(out)
}

// named writes ids by their names.
func (c *counter) named(text string) string {
	ids := slices.SortedFunc(maps.Keys(c.names), func(a, b string) int { return len(b) - len(a) })
	for _, id := range ids {
		text = strings.ReplaceAll(text, id, c.names[id])
	}
	return text
}

// passes lets time pass.
func passes(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// TestCommandTexts keeps every answer as a person reads it. The story is told in
// the order of its lines.
func TestCommandTexts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCounter(t)
		defer func() { _ = c.store.Close() }()
		var b strings.Builder
		types := func(v gate.Voter, text string) {
			who := v.Name
			if v.Account != "" {
				who += ", " + string(v.Account)
			}
			fmt.Fprintf(&b, "%s> /approvals %.200s\n%s\n", who, c.named(text), c.reads(v, text))
		}
		short := func(s *gate.Snapshot) string { return strings.ToLower(gate.ShortID(string(s.ID))) }

		types(ada, "")
		types(eve, "pending")
		two, db := c.asks("two_a", nil), c.asks("db_drop", nil)
		types(ada, "show "+string(two.ID)[4:8])
		passes(time.Minute)
		staged := c.asks("kubectl_apply", func(r *gate.Request) { r.Call.Target = "" })
		for _, tool := range []string{"kubectl_b", "kubectl_c", "kubectl_d"} {
			c.asks(tool, nil)
		}
		types(ada, "pending")
		types(ada, "pending page 2")
		types(ada, "pending page 99 tool=kubectl_*")
		types(ada, "mine tool=db_*")
		types(dora, "pending")
		types(zoe, "pending mine")
		types(eve, "pending")
		types(gus, "pending")
		types(gina, "pending key=hermes rule=db")
		types(robot, "pending")
		types(ada, "pending page 0")
		types(ada, "pending tool={a")
		types(ada, "pending urgent<!channel>\u202e")

		types(ada, "show "+short(two))
		types(ada, "approve "+string(two.ID))
		types(ada, "deny "+short(two))
		types(zoe, "show "+short(two))
		types(eve, "show "+short(two))
		types(eve, "show "+string(two.ID))
		types(ada, "show")
		types(ada, "show 4f")
		types(ada, "show nonesuch")
		types(ada, "show apr_01JNV4X3T2E6Q1Y5Z8A9B0C1D2")

		c.decides(two, ada, gate.NeedContext, "", "why now?")
		types(bob, "show "+short(two))
		types(ada, "answer "+short(two)+" because")
		types(zoe, "answer "+short(two))
		types(zoe, "answer "+short(two)+" the shop is slow, and\nit is Friday")
		types(zoe, "answer "+short(two)+" again")
		c.decides(two, ada, gate.Approve, "", "")
		types(ada, "show "+short(two))
		types(ada, "approve "+short(two))
		types(ada, "deny "+short(two))
		types(ada, "pending rule=two")

		c.decides(db, dora, gate.Deny, "", "wrong <!here> cluster")
		c.decides(staged, ada, gate.Approve, "", "")
		types(ada, "show "+short(staged))
		types(eve, "revoke "+string(staged.ID))
		types(ada, "revoke "+short(two))
		types(ada, "revoke "+string(two.ID))
		types(ada, "revoke "+short(staged)+" not on a Friday")
		types(ada, "history")
		types(dora, "history")
		types(ada, "history tool=db_*")

		types(ada, "grants")
		always := c.asks("standing_x", nil)
		c.decides(always, ada, gate.Approve, gate.Always, "")
		session := c.asks("standing_y", func(r *gate.Request) { r.Call.Target = "" })
		c.decides(session, bob, gate.Approve, gate.Session, "")
		grants, err := c.gate.Grants(t.Context(), gate.Principal{Key: "root", Roles: []gate.Role{gate.RoleAdmin}})
		if err != nil || len(grants) != 2 {
			t.Fatalf("Grants = %v, %v", grants, err)
		}
		for _, g := range grants {
			c.name(g.ID, "GRANT"+strings.ToUpper(g.Tool))
		}
		types(ada, "grants")
		types(zoe, "grants")
		types(eve, "grants")
		types(ada, "grants mine")
		types(eve, "revoke "+grants[0].ID)
		types(ada, "revoke "+strings.ToLower(gate.ShortID(grants[0].ID)))
		types(ada, "revoke "+grants[0].ID)
		types(ada, "grants")

		passes(4 * 24 * time.Hour)
		if _, _, err := c.store.Sweep(t.Context(), 100); err != nil {
			t.Fatal(err)
		}
		types(ada, "history page 1")
		types(ada, "HELP")
		types(ada, "pendign")
		types(ada, "reject 4F9K2M")
		types(ada, "<!channel>")
		types(ada, "show "+strings.Repeat("x", 5000))

		golden(t, "commands.golden", b.String())
	})
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("said otherwise (-want +got); -update takes it:\n%s", diff)
	}
}
