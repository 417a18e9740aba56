package main

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/approvalbot/approvalbot/channels/slack/slacktest"
	"github.com/approvalbot/approvalbot/gate"
	"github.com/approvalbot/approvalbot/store"
)

// ward is a Redis that somebody examines, on which a server has been.
type ward struct {
	*home
	socket string
	db     *goredis.Client
}

func newWard(t *testing.T) *ward {
	t.Helper()
	w := &ward{socket: startRedis(t)}
	w.home = newHome(t, oneRule, "store: {redis: {addrs: ["+w.socket+"]}}")
	w.write("server.key", strings.Repeat("s", gate.MinServerKey))
	w.write("password", "hunter2")
	w.db = goredis.NewClient(&goredis.Options{Network: "unix", Addr: w.socket})
	t.Cleanup(func() { _ = w.db.Close() })
	cfg, err := loadConfig(process{env: func(string) string { return "" }, err: t.Output()}, w.path("approvalbot.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := openStore(t.Context(), cfg, "", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return w
}

// do gives the Redis commands.
func (w *ward) do(commands ...string) {
	w.t.Helper()
	for _, c := range commands {
		var args []any
		for word := range strings.FieldsSeq(c) {
			args = append(args, strings.TrimSpace(strings.ReplaceAll(word, "_", " ")))
		}
		if err := w.db.Do(w.t.Context(), args...).Err(); err != nil {
			w.t.Fatalf("%s: %v", c, err)
		}
	}
}

// stored is a hash of the store that is set by a command.
const stored = "HSET approvalbot:{default}:meta "

// serversWords are different in each release of Redis.
var serversWords = regexp.MustCompile(`(NOAUTH|WRONGPASS|NOPERM) [^"]*`)

// examine is what the doctor says, with names for what differs from run to run.
func (w *ward) examine(flags ...string) result {
	w.t.Helper()
	r := shell{}.run(w.t, append([]string{"doctor", "store", "--config", w.path("approvalbot.yaml")}, flags...)...)
	r.out = serversWords.ReplaceAllString(r.out, "$1 and so on")
	r.out = strings.NewReplacer(w.socket, "/run/redis.sock", w.dir, "/etc/approvalbot").Replace(r.out)
	return r
}

func (w *ward) level(d string) {
	w.config(oneRule, "store: {durability: "+d+", redis: {addrs: ["+w.socket+"]}}")
}

// asBot configures the user bot.
func (w *ward) asBot() {
	w.config(oneRule, "store: {redis: {addrs: ["+w.socket+"], username: bot, password_file: password}}")
}

func TestDoctorStoreFindsNothingWhereAllIsWell(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	r := w.examine()
	wantCode(t, r, exitOK)
	const want = `ok    store           redis /run/redis.sock answers
ok    version         VERSION
ok    role            a primary without replicas
ok    eviction        none
ok    persistence     appendonly yes, appendfsync always
ok    durability      standard: approvals survive a restart of Redis
ok    clock           as this machine's
ok    server key      8fe923f20ce3008c, as stored
ok    scripts         may run, and read TIME and INFO
ok    pending         nothing waits

All is well.
`
	version := w.db.InfoMap(t.Context(), "server").Item("Server", "redis_version")
	if got := strings.Replace(r.out, version+"\n", "VERSION\n", 1); got != want || r.err != "" {
		t.Errorf("it says\n%s%s\nwant\n%s", got, r.err, want)
	}
	wantSameInJSON(t, w.examine("-o", "json"), "All is well.", exitOK)
}

// storeAilment is one thing that can be wrong, and what is said about it.
type storeAilment struct {
	name    string
	before  func(*ward)
	verdict string
}

func commands(all ...string) func(*ward) { return func(w *ward) { w.do(all...) } }

var storeAilments = []storeAilment{
	{"nobody answers", func(w *ward) { w.config(oneRule, "store: {redis: {addrs: [\"127.0.0.1:1\"]}}") }, oneFails},
	{"a password is wanted", commands("CONFIG SET requirepass other"), oneFails},
	{"another password is wanted", func(w *ward) {
		w.do("ACL SETUSER bot on >other +@all ~*")
		w.asBot()
	}, oneFails},
	{"a user who may not look", func(w *ward) {
		w.do("ACL SETUSER bot on >hunter2 ~approvalbot:* +@all -@admin -@dangerous")
		w.asBot()
	}, oneFails},
	{"a user who may run no scripts", func(w *ward) {
		w.do("ACL SETUSER bot on >hunter2 ~approvalbot:* +@all -@admin -@dangerous -@scripting +info +config|get")
		w.asBot()
	}, oneFails},
	{"a user who may not see how it syncs", func(w *ward) {
		w.do("ACL SETUSER bot on >hunter2 ~approvalbot:* +@all -@admin -@dangerous +info")
		w.asBot()
	}, oneFails},
	{"it evicts", commands("CONFIG SET maxmemory-policy allkeys-lru"), oneFails},
	{"it syncs every second, under standard", commands("CONFIG SET appendfsync everysec"), oneFails},
	{"it syncs every second, under strict", commands("CONFIG SET appendfsync everysec", stored+"level strict"), "All is well."},
	{"it makes snapshots", commands("CONFIG SET appendonly no", "CONFIG SET save 3600_1", stored+"level strict"), oneWarns},
	{"it forgets all", commands("CONFIG SET appendonly no", "CONFIG SET save _", stored+"level strict"), oneFails},
	{"it is a replica", commands("REPLICAOF 127.0.0.1 1"), oneFails},
	{"another level is configured", func(w *ward) { w.level("strict") }, oneFails},
	{"no server has been there", commands("FLUSHALL"), "All is well."},
	{"no server has been there, and it syncs every second", commands("FLUSHALL", "CONFIG SET appendfsync everysec"), "All is well."},
	{"its clock ran back", func(w *ward) { w.do(fmt.Sprint(stored+"hi ", time.Now().Add(10*time.Hour+15*time.Minute).UnixMilli())) }, oneFails},
	{"its clock is an instant behind", func(w *ward) { w.do(fmt.Sprint(stored+"hi ", time.Now().Add(time.Second).UnixMilli())) }, "All is well."},
	{"it is of another server key", commands(stored + "key 0123456789abcdef"), oneFails},
	{"the server key is being changed", func(w *ward) {
		w.write("old.key", strings.Repeat("s", gate.MinServerKey))
		w.write("server.key", strings.Repeat("n", gate.MinServerKey))
		w.config(oneRule, "store: {redis: {addrs: ["+w.socket+"]}}", "verify_key_files: [old.key]")
	}, "All is well."},
	{"there is no server key", func(w *ward) { w.write("approvalbot.yaml", "store: {redis: {addrs: ["+w.socket+"]}}\n") }, oneFails},
	{"it is of another schema", commands(stored + "schema 7"), oneFails},
	{"no store is chosen", func(w *ward) { w.config(oneRule) }, oneFails},
	{"it is in memory", func(w *ward) { w.config(oneRule, "store: memory") }, "All is well."},
	{"it is embedded, and was never there", func(w *ward) { w.config(oneRule, "store: embedded") }, "All is well."},
}

// TestDoctorStoreSaysWhatIsWrongAndHowToMendIt compares with a golden file, in which
// things that are well are left out.
func TestDoctorStoreSaysWhatIsWrongAndHowToMendIt(t *testing.T) {
	t.Parallel()
	var all strings.Builder
	for _, row := range storeAilments {
		w := newWard(t)
		row.before(w)
		code := exitOK
		if strings.Contains(row.verdict, "to mend") {
			code = exitBlock
		}
		r := w.examine("-o", "json")
		wantSameInJSON(t, r, row.verdict, code, "hunter2")
		fmt.Fprintf(&all, "── %s\n%s\n", row.name, unwell(inEightyColumns(t, r.out)))
		if t.Failed() {
			t.Fatalf("%s:\n%s", row.name, r.out)
		}
	}
	golden(t, "testdata/doctorstore.golden", all.String())
}

// unwell is what is said without the lines about the Redis that say that all is well.
func unwell(said string) string {
	var left []string
	for line := range strings.Lines(said) {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		check := strings.Fields(rest)
		if word != "ok" || len(check) > 0 && (check[0] == "durability" || check[0] == "server") {
			left = append(left, line)
		}
	}
	return strings.Join(left, "")
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(want, []byte(got)) {
		t.Errorf("%s is not what is said:\n%s", file, got)
	}
}

func TestDoctorStoreOnWhatNoRedisHereCanBe(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name   string
		report store.Report
		see    func(*storeDoctor)
		want   string
	}{
		{"too old", store.Report{Version: "6.2.7", Primary: true, Eviction: "noeviction"}, (*storeDoctor).server, "FAIL  version         6.2.7 is too old; it must be 7.0 or later\n      update it"},
		{"of a later version than most", store.Report{Version: "10.0.1", Primary: true, Eviction: "noeviction"}, (*storeDoctor).server, "ok    version         10.0.1\n"},
		{"with replicas", store.Report{Version: "8.0.1", Primary: true, Replicas: 2, Eviction: "noeviction"}, (*storeDoctor).server, "ok    role            the primary of 2 replicas\n"},
		{"a kind that the store refuses", store.Report{Version: "8.0.1", Primary: true, Eviction: "noeviction", Disk: store.Disk{Saves: true}, Unusable: os.ErrInvalid}, (*storeDoctor).server, "FAIL  server          invalid argument\n"},
		{"with a clock that is behind", store.Report{Ahead: -5 * time.Minute}, (*storeDoctor).clock, "warn  clock           this machine's is 5 min ahead of the store's, which alone counts\n      set this"},
		{"with a clock that is ahead", store.Report{Ahead: 3 * time.Second}, (*storeDoctor).clock, "warn  clock           this machine's is 3.0 s behind the store's, which alone counts\n"},
		{"on which somebody waits", store.Report{Pending: 2, Waits: 3 * time.Hour}, (*storeDoctor).waiting, "ok    pending         2 approvals, the oldest for 3 h\n"},
	} {
		var out strings.Builder
		d := &storeDoctor{findings: &findings{screen: screen{out: &out}}, Report: row.report}
		if row.see(d); !strings.Contains(out.String(), row.want) {
			t.Errorf("one %s: it says\n%s\nwant\n%s", row.name, out.String(), row.want)
		}
	}
}

// TestDoctorOfAll goes from the store to the chats, and says of which it speaks.
func TestDoctorOfAll(t *testing.T) {
	t.Parallel()
	d := newClinic(t, slacktest.Config{Scopes: scopesBut("commands")}, "channels:", "store: memory\nchannels:")
	examine := func(flags ...string) result {
		return shell{}.run(t, append([]string{"doctor", "all", "--config", d.path("approvalbot.yaml")}, flags...)...)
	}
	r := examine()
	wantCode(t, r, exitOK)
	wantText(t, r.out, "store\nnote  store           in the memory of one process", "\nslack\nok    bot token  ", "\n"+oneWarns+"\n")
	all := fromJSON[examined](t, examine("-o", "json").out)
	seen := map[string]int{}
	for _, f := range all.Checks {
		seen[f.Of]++
	}
	if seen["store"] != 1 || seen["slack"] < 10 || len(seen) != 2 {
		t.Errorf("findings by what they are of: %v", seen)
	}

	d.write("bot-token", "xoxb-other")
	r = examine()
	wantCode(t, r, exitBlock)
	wantText(t, r.out, "store\nnote ", "FAIL  bot token ")
}

func TestDoctorOfAnEmbeddedStore(t *testing.T) {
	t.Parallel()
	h := newEmbedded(t)
	examine := func() result { return shell{}.run(t, "doctor", "store", "--config", h.path("approvalbot.yaml")) }
	s := h.serve()
	s.hold(call("held"))
	r := examine()
	wantCode(t, r, exitOK)
	wantText(t, r.out, "ok    program         redis-server ", "ok    store           embedded in "+h.data()+" answers\n", "ok    durability      standard: ", "ok    pending         1 approval, the oldest for ")
	s.stop()
	<-s.done
	r = examine()
	wantCode(t, r, exitOK)
	wantText(t, r.out, "note  store           embedded in "+h.data()+"; not running, and so not looked into\n      run this again beside `approvalbot serve`")
	if err := os.Chmod(h.data(), 0o755); err != nil {
		t.Fatal(err)
	}
	r = examine()
	wantCode(t, r, exitBlock)
	wantText(t, r.out, "FAIL  store ", "(mode 0755)", "chmod 0700")
}
