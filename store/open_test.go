package store

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/approvalbot/approvalbot/gate"
	"github.com/approvalbot/approvalbot/store/redistest"
)

func TestOpenRefusesAServerThatBreaksItsPromises(t *testing.T) {
	t.Parallel()
	good := facts{version: "7.0.15", role: "master", eviction: "noeviction", appendonly: "1", save: "", fsync: "always"}
	for name, tt := range map[string]struct {
		change           func(*facts)
		usable, standard string // part of what is said; empty: nothing
	}{
		"as it should be":       {change: func(*facts) {}},
		"a new major version":   {change: func(f *facts) { f.version = "10.1" }},
		"too old":               {change: func(f *facts) { f.version = "6.2.7" }, usable: "7.0 or later"},
		"of no known version":   {change: func(f *facts) { f.version = "" }, usable: "7.0 or later"},
		"a replica":             {change: func(f *facts) { f.role = "slave" }, usable: "connect to the primary"},
		"one that evicts":       {change: func(f *facts) { f.eviction = "allkeys-lru" }, usable: "noeviction"},
		"one that forgets":      {change: func(f *facts) { f.appendonly = "0" }, usable: "appendonly yes", standard: "appendonly"},
		"one that snapshots":    {change: func(f *facts) { f.appendonly, f.save = "0", "3600 1" }, standard: "appendonly"},
		"one that hides it":     {change: func(f *facts) { f.appendonly, f.save = "0", "unknown" }, standard: "appendonly"},
		"syncs every second":    {change: func(f *facts) { f.fsync = "everysec" }, standard: "appendfsync must be always"},
		"hides how it syncs":    {change: func(f *facts) { f.fsync = "" }, standard: "CONFIG readable"},
		"one with a replica":    {change: func(f *facts) { f.replicas = 1 }, standard: "no replica"},
		"one node of a Cluster": {change: func(f *facts) { f.cluster = true }, usable: "Cluster", standard: "no replica"},
	} {
		f := good
		tt.change(&f)
		for what, got := range map[string][2]any{"usable": {f.usable(), tt.usable}, "standard": {f.standard(), tt.standard}} {
			err, _ := got[0].(error)
			want, _ := got[1].(string)
			if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %s = %v, want %q", name, what, err, want)
			}
		}
	}
}

// opens is Open on a server, which closes again what it got.
func opens(t *testing.T, s *redistest.Server, change ...func(*Config)) error {
	t.Helper()
	c := Config{Redis: Server{Addrs: []string{s.Addr}}}
	for _, f := range change {
		f(&c)
	}
	got, err := Open(t.Context(), c)
	if err == nil {
		shut(t, got)
	}
	return err
}

func level(d Durability) func(*Config) { return func(c *Config) { c.Durability = d } }

func TestOpenChoosesStrictUnlessStandardIsSure(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		args []string
		want Durability
	}{
		"each write on disk before its answer": {[]string{"--appendfsync", "always"}, Standard},
		"each second":                          {[]string{"--appendfsync", "everysec"}, Strict},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, tt.args...)
			s, err := Open(t.Context(), Config{Redis: Server{Addrs: []string{server.Addr}}})
			if err != nil {
				t.Fatal(err)
			}
			defer shut(t, s)
			if s.Durability() != tt.want {
				t.Errorf("durability %s, want %s", s.Durability(), tt.want)
			}
			if err := s.Recheck(t.Context()); err != nil {
				t.Errorf("Recheck = %v", err)
			}
			db := server.Client()
			defer db.Close()
			db.ConfigSet(t.Context(), "appendfsync", "no")
			if err := s.Recheck(t.Context()); (err == nil) != (tt.want == Strict) {
				t.Errorf("Recheck after appendfsync no = %v", err)
			}
			db.ConfigSet(t.Context(), "maxmemory-policy", "allkeys-lru")
			if err := s.Recheck(t.Context()); err == nil || !strings.Contains(err.Error(), "noeviction") {
				t.Errorf("Recheck of an evicting server = %v", err)
			}
		})
	}
}

func TestOpenWantsTheLevelThatIsStored(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--appendfsync", "always")
	if err := opens(t, server, level(Strict)); err != nil {
		t.Fatal(err)
	}
	if err := opens(t, server, level(Standard)); err == nil || !strings.Contains(err.Error(), "all replicas must agree") {
		t.Errorf("another level = %v, want a refusal", err)
	}
	s, err := Open(t.Context(), Config{Redis: Server{Addrs: []string{server.Addr}}})
	if err != nil || s.Durability() != Strict {
		t.Fatalf("no level = %v, want what is stored", err)
	}
	defer shut(t, s)
	if err := s.SetDurability(t.Context(), Standard, "root"); err != nil {
		t.Fatal(err)
	}
	if err := s.SetDurability(t.Context(), "sturdy", "root"); !errors.Is(err, gate.Invalid) {
		t.Errorf("an unknown level = %v, want Invalid", err)
	}
	if es, err := s.Read(t.Context(), "", 10, 0); err != nil || len(es) != 1 || es[0].Event != gate.EventDurability || es[0].By != "root" {
		t.Errorf("log: %+v, %v", es, err)
	}
	if err := opens(t, server, level(Strict)); err == nil {
		t.Error("the level before is accepted still")
	}
	if err := opens(t, server, level(Standard)); err != nil {
		t.Errorf("the new level = %v", err)
	}
	if err := opens(t, server, level("sturdy")); err == nil {
		t.Error("an unknown level is accepted")
	}
	db := server.Client()
	defer db.Close()
	db.ConfigSet(t.Context(), "appendfsync", "everysec")
	for _, d := range []Durability{Standard, ""} {
		if err := opens(t, server, level(d)); err == nil || !strings.Contains(err.Error(), "standard does not hold") {
			t.Errorf("level %q without its conditions = %v", d, err)
		}
	}
}

func TestOpenKnowsItsServerKey(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	keys := func(f ...string) func(*Config) { return func(c *Config) { c.Fingerprints = f } }
	for _, step := range []struct {
		name  string
		keys  []string
		fails bool
	}{
		{"the first one is stored", []string{"k1"}, false},
		{"another one is refused", []string{"k2"}, true},
		{"none is refused", nil, true},
		{"a rotation begins: it is known, the old one signs", []string{"k1", "k2"}, false},
		{"replicas with the old one alone still start", []string{"k1"}, false},
		{"the new one signs", []string{"k2", "k1"}, false},
		{"the old one alone is refused from then on", []string{"k1"}, true},
		{"the new one alone will do", []string{"k2"}, false},
	} {
		if err := opens(t, server, keys(step.keys...)); (err != nil) != step.fails || err != nil && !strings.Contains(err.Error(), "verify_key_files") {
			t.Errorf("%s: Open = %v", step.name, err)
		}
	}
}

func TestOpenRefusesAnotherSchema(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	db := server.Client()
	defer db.Close()
	db.HSet(t.Context(), "approvalbot:{default}:meta", "schema", "7")
	if err := opens(t, server); err == nil || !strings.Contains(err.Error(), "schema 7") {
		t.Errorf("Open = %v, want a refusal", err)
	}
}

func TestOpenNeedsScriptsThatReadTheIncarnation(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	db := server.Client()
	defer db.Close()
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte("geheim\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	as := func(user string) func(*Config) {
		return func(c *Config) { c.Redis.Username, c.Redis.PasswordFile = user, password }
	}
	// The rights that the documentation names, and the same without INFO in scripts.
	rights := []any{"ACL", "SETUSER", "bot", "on", ">geheim", "~approvalbot:*", "+@all", "-@admin", "-@dangerous", "+info", "+config|get"}
	if err := db.Do(t.Context(), rights...).Err(); err != nil {
		t.Fatal(err)
	}
	if err := opens(t, server, as("bot")); err != nil {
		t.Errorf("Open = %v", err)
	}
	s, err := New(Config{Redis: Server{Addrs: []string{server.Addr}, Username: "bot", PasswordFile: password}})
	if err != nil {
		t.Fatal(err)
	}
	defer shut(t, s)
	if err := db.Do(t.Context(), "ACL", "SETUSER", "bot", "-info").Err(); err != nil {
		t.Fatal(err)
	}
	if err := opens(t, server, as("bot")); err == nil {
		t.Error("Open without INFO succeeds")
	}
	if _, err := s.Standing(t.Context(), gate.Requester{Key: "k"}); err == nil {
		t.Error("a script without INFO has an incarnation")
	}
	if err := opens(t, server, as("nobody")); err == nil || strings.Contains(err.Error(), "geheim") {
		t.Errorf("Open by an unknown user = %v", err)
	}
}

func TestOpenWantsThePrimary(t *testing.T) {
	t.Parallel()
	primary := redistest.Start(t)
	replica := redistest.Start(t, "--replicaof", "127.0.0.1 1")
	if err := opens(t, replica); err == nil || !strings.Contains(err.Error(), "connect to the primary") {
		t.Errorf("Open of a replica = %v", err)
	}
	if err := opens(t, primary); err != nil {
		t.Errorf("Open of a primary = %v", err)
	}
}

func TestRecheckTellsAnOutageFromABrokenPromise(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s, err := Open(t.Context(), Config{Redis: Server{Addrs: []string{server.Addr}}, Durability: Strict})
	if err != nil {
		t.Fatal(err)
	}
	defer shut(t, s)
	server.Stop()
	if err := s.Recheck(t.Context()); !errors.Is(err, gate.Unavailable) {
		t.Errorf("Recheck of a server that is down = %v, want Unavailable", err)
	}
	server.Start()
	if err := s.Recheck(t.Context()); err != nil {
		t.Errorf("Recheck = %v", err)
	}
}

func TestConfigSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		c    Config
		want string
	}{
		"no address":           {Config{}, "store.redis.addrs"},
		"two addresses":        {Config{Redis: Server{Addrs: []string{"a:1", "b:1"}}}, "want one address"},
		"no password in file":  {Config{Redis: Server{Addrs: []string{"a:1"}, PasswordFile: empty}}, "is empty"},
		"no password file":     {Config{Redis: Server{Addrs: []string{"a:1"}, PasswordFile: filepath.Join(dir, "no")}}, "password_file"},
		"no CA file":           {Config{Redis: Server{Addrs: []string{"a:1"}, TLS: &TLS{CAFile: filepath.Join(dir, "no")}}}, "ca_file"},
		"a CA file of nothing": {Config{Redis: Server{Addrs: []string{"a:1"}, TLS: &TLS{CAFile: empty}}}, "no certificate"},
		"half a key pair":      {Config{Redis: Server{Addrs: []string{"a:1"}, TLS: &TLS{CertFile: empty}}}, "cert_file"},
		"a space with braces":  {Config{Redis: Server{Addrs: []string{"a:1"}}, Space: "a}b"}, "space"},
		"an unknown level":     {Config{Redis: Server{Addrs: []string{"a:1"}}, Durability: "sturdy"}, "durability"},
	} {
		if _, err := New(tt.c); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: New = %v, want %q", name, err, tt.want)
		}
	}
	s, err := New(Config{Redis: Server{Addrs: []string{"a:1"}, TLS: &TLS{ServerName: "redis.example.com"}}})
	if err != nil {
		t.Fatalf("New = %v", err)
	}
	shut(t, s)
}

// TestStandardSurvivesARestart is what the level is for.
func TestStandardSurvivesARestart(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--appendfsync", "always")
	s, err := Open(t.Context(), Config{Redis: Server{Addrs: []string{server.Addr}}, Durability: Standard})
	if err != nil {
		t.Fatal(err)
	}
	defer shut(t, s)
	a := approvedNow(t, s)
	server.Restart()
	if _, err := s.Heartbeat(t.Context(), "r", "p"); err != nil {
		t.Fatal(err)
	}
	if got := read(t, s, a.ID); got.Stale() || !got.FailedOver.IsZero() {
		t.Errorf("stale %t, failed over %v", got.Stale(), got.FailedOver)
	}
	_, err = s.Consume(t.Context(), a.ID, gate.Consumption{
		Rev: a.Rev, Digest: a.Digest, Principal: "hermes", Attempt: "x", Policy: "p", ReportIn: time.Hour,
	})
	if err != nil {
		t.Errorf("Consume = %v", err)
	}
}

func pendingNow(t *testing.T, s *Redis) gate.Snapshot {
	t.Helper()
	o := gate.Opening{
		ID: gate.ID("apr_" + rand.Text()), Mode: gate.Deferred, ExpiresIn: time.Hour,
		Subject: gate.Subject{Call: gate.Call{Tool: "t"}, Requester: gate.Requester{Key: "hermes"}, Executor: gate.RequesterRuns},
	}
	o.Digest, _ = o.Call.Digest()
	if _, err := s.Open(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	return read(t, s, o.ID)
}

func approve(t *testing.T, s *Redis, a gate.Snapshot) error {
	t.Helper()
	_, err := s.Vote(t.Context(), a.ID, gate.Ballot{
		Rev: a.Rev, Digest: a.Digest, Settles: gate.Approved, RunFor: time.Hour, Vote: gate.Vote{Voter: gate.Voter{ID: "u"}},
	})
	return err
}

func approvedNow(t *testing.T, s *Redis) gate.Snapshot {
	t.Helper()
	a := pendingNow(t, s)
	if err := approve(t, s, a); err != nil {
		t.Fatal(err)
	}
	return read(t, s, a.ID)
}

func TestMemoryIsOpenToThisProcessAlone(t *testing.T) {
	t.Parallel()
	s, err := OpenMemory(t.Context(), Config{Durability: Standard})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Recheck(t.Context()); err != nil {
		t.Errorf("Recheck = %v", err)
	}
	a := approvedNow(t, s)
	other, err := OpenMemory(t.Context(), Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer shut(t, other)
	if _, err := other.Get(t.Context(), a.ID); !errors.Is(err, gate.NotFound) {
		t.Errorf("another store in memory: Get = %v, want NotFound", err)
	}
	if s.incarnation == other.incarnation || s.incarnation == anyIncarnation {
		t.Errorf("incarnations %q and %q", s.incarnation, other.incarnation)
	}
	shut(t, s)
	if _, err := s.Get(context.WithoutCancel(t.Context()), a.ID); !errors.Is(err, gate.Unavailable) {
		t.Errorf("Get after Close = %v, want Unavailable", err)
	}
}
