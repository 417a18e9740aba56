package bot_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/approvalbot/approvalbot/bot"
	"github.com/approvalbot/approvalbot/gate"
)

func TestNewKeyIsRandomAndOnlyItsHashIsKept(t *testing.T) {
	t.Parallel()
	a, hash := bot.NewKey()
	b, _ := bot.NewKey()
	if !regexp.MustCompile(`^ab_[A-Za-z0-9_-]{43}$`).MatchString(a.Reveal()) || a == b {
		t.Errorf("keys %q and %q; want ab_ and 43 random characters", a.Reveal(), b.Reveal())
	}
	file := filepath.Join(t.TempDir(), "hash")
	if err := os.WriteFile(file, []byte(hash+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	keys, problems := bot.NewKeys([]bot.KeyConfig{{Name: "hermes", Roles: []string{"agent"}, HashFile: file}})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	if k, ok := keys.Authenticate(a.Reveal()); !ok || k.Principal.Key != "hermes" {
		t.Errorf("Authenticate = %v, %v; want hermes", k, ok)
	}
	for name, bearer := range map[string]string{
		"another key": b.Reveal(), "nothing": "", "the hash": hash, "a part": a.Reveal()[:45], "more": a.Reveal() + "x", "another case": strings.ToUpper(a.Reveal()),
	} {
		if _, ok := keys.Authenticate(bearer); ok {
			t.Errorf("%s is let in", name)
		}
	}
}

func TestKeysReportEveryMistakeAtOnce(t *testing.T) {
	t.Parallel()
	hash := strings.Repeat("ab", 32)
	_, problems := bot.NewKeys([]bot.KeyConfig{
		{Name: "a b", Roles: []string{"agent"}, Hash: strings.Repeat("01", 32)},
		{Name: "both", Roles: []string{"agent", "approver"}, Person: "ann", Hash: strings.Repeat("02", 32)},
		{Name: "boss", Roles: []string{"agent", "admin"}, Hash: strings.Repeat("03", 32)},
		{Name: "none", Hash: strings.Repeat("04", 32)},
		{Name: "typo", Roles: []string{"aprover"}, Hash: strings.Repeat("05", 32)},
		{Name: "nobody", Roles: []string{"approver"}, Hash: strings.Repeat("06", 32)},
		{Name: "nohash", Roles: []string{"auditor"}, HashFile: "/nowhere/at/all"},
		{Name: "short", Roles: []string{"auditor"}, Hash: "abcd"},
		{Name: "one", Roles: []string{"auditor"}, Hash: hash},
		{Name: "one", Roles: []string{"auditor"}, Hash: strings.Repeat("07", 32)},
		{Name: "same", Roles: []string{"auditor"}, Hash: hash},
		{Name: "claims", Roles: []string{"auditor"}, Asserts: []string{"person"}, Hash: strings.Repeat("08", 32)},
		{Name: "what", Roles: []string{"agent"}, Asserts: []string{"rank"}, Hash: strings.Repeat("09", 32)},
		{Name: "where", Roles: []string{"agent"}, Asserts: []string{"origin"}, Hash: strings.Repeat("10", 32)},
		{Name: "glob", Roles: []string{"agent"}, Asserts: []string{"origin"}, Conversations: []string{"slack:[^a]"}, Hash: strings.Repeat("11", 32)},
		{Name: "idle", Roles: []string{"worker"}, Hash: strings.Repeat("12", 32)},
		{Name: "busy", Roles: []string{"agent"}, Queues: []string{"ops"}, Hash: strings.Repeat("13", 32)},
	})
	var paths []string
	for _, p := range problems {
		paths = append(paths, p.Path)
	}
	want := []string{
		"keys[0].name", "keys[1].roles", "keys[2].roles", "keys[3].roles", "keys[4].roles", "keys[5].person", "keys[6].hash_file",
		"keys[7].hash_file", "keys[9].name", "keys[10].hash_file", "keys[11].asserts", "keys[12].asserts", "keys[13].conversations",
		"keys[14].conversations[0]", "keys[15].queues", "keys[16].queues",
	}
	if !slices.Equal(paths, want) {
		t.Errorf("problems %v\nat %v\nwant %v", problems, paths, want)
	}
}

func TestClaimsBeyondWhatAKeyMayAssertAreRefused(t *testing.T) {
	t.Parallel()
	configs := []bot.KeyConfig{
		{Name: "all", Roles: []string{"agent"}, Asserts: []string{"person", "origin"}, Conversations: []string{"slack:C0*"}},
		{Name: "none", Roles: []string{"agent"}},
		{Name: "anns", Roles: []string{"agent"}, Person: "ann"},
	}
	bearers := map[string]string{}
	for i := range configs {
		key, hash := bot.NewKey()
		configs[i].Hash, bearers[configs[i].Name] = hash, key.Reveal()
	}
	keys, problems := bot.NewKeys(configs)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	for name, tt := range map[string]struct {
		key    string
		who    gate.Requester
		origin gate.Conversation
		person string
		field  string
	}{
		"a listed person":                     {"all", gate.Requester{Person: "bo"}, gate.Conversation{}, "bo", ""},
		"a listed conversation":               {"all", gate.Requester{}, gate.Conversation{Place: "slack:C0PROD"}, "", ""},
		"another conversation":                {"all", gate.Requester{}, gate.Conversation{Place: "slack:C1PROD"}, "", "origin.place"},
		"a thread without a conversation":     {"all", gate.Requester{}, gate.Conversation{Thread: "1.2"}, "", "origin.place"},
		"an unlisted person":                  {"none", gate.Requester{Person: "bo"}, gate.Conversation{}, "", "requester.person"},
		"an unlisted origin":                  {"none", gate.Requester{}, gate.Conversation{Place: "slack:C0PROD"}, "", "origin"},
		"nothing at all":                      {"none", gate.Requester{}, gate.Conversation{}, "", ""},
		"the key's person is always said":     {"anns", gate.Requester{}, gate.Conversation{}, "ann", ""},
		"the key's person may be said":        {"anns", gate.Requester{Person: "ann"}, gate.Conversation{}, "ann", ""},
		"somebody else than the key's person": {"anns", gate.Requester{Person: "bo"}, gate.Conversation{}, "", "requester.person"},
		"the name of a key is never asserted": {"none", gate.Requester{Key: "all"}, gate.Conversation{}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			key, _ := keys.Authenticate(bearers[tt.key])
			got, err := key.Claim(tt.who, tt.origin)
			if tt.field != "" {
				if gate.KindOf(err) != gate.Invalid || !strings.HasPrefix(gate.PublicText(err), tt.field+":") {
					t.Errorf("Claim: %v; want invalid, naming %s", err, tt.field)
				}
				return
			}
			if err != nil || got.Key != tt.key || got.Person != tt.person {
				t.Errorf("Claim = %+v, %v; want key %s, person %q", got, err, tt.key, tt.person)
			}
		})
	}
}
