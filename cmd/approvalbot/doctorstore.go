package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/approvalbot/approvalbot/cmd/approvalbot/config"
	"github.com/approvalbot/approvalbot/gate"
	"github.com/approvalbot/approvalbot/store"
	"github.com/approvalbot/approvalbot/store/embedded"
)

func newDoctorStore(p process) *cobra.Command {
	var file, flag string
	c := &cobra.Command{
		Use: "store", Short: "the Redis that keeps approvals: version, persistence, level, clock, rights",
		Long: `Asks the Redis of a config file about everything that the store needs of it: whether
it can be reached, is new enough and the primary, drops nothing, what it keeps on its
disk and which level of durability that carries, whether its clock is right, whether
it belongs to this server key, and whether this user may run scripts. Below each thing
that is not well is how to mend it.

It fails (exit 2) if anything must be mended; warnings and notes alone do not. Nothing
is changed, and no secret is printed. It may run beside a server; an embedded store is
looked into only there.`,
		Example: "  approvalbot doctor store --config approvalbot.yaml\n  approvalbot doctor store --store embedded\n  approvalbot doctor store -o json", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return examination(cmd, p, file, func(ctx context.Context, f *findings, cfg *config.Loaded) {
				(&storeDoctor{findings: f, cfg: cfg, flag: flag}).examine(ctx)
			})
		},
	}
	configFlag(c, &file)
	storeFlag(c, &flag)
	return c
}

// storeDoctor examines the store of a config file.
type storeDoctor struct {
	*findings
	cfg  *config.Loaded
	flag string

	chosen config.Store
	store.Report
}

const (
	chooseFix = "set store: embedded for one machine, or store: {redis: {addrs: [\"host:6379\"]}}; `approvalbot config example` shows both"
	besideFix = "run this again beside `approvalbot serve`, which runs it"
	rightsFix = "give this user its rights: ACL SETUSER approvalbot ~approvalbot:* +@all -@admin -@dangerous +info +config|get"
)

func (d *storeDoctor) examine(ctx context.Context) {
	var err error
	d.chosen, err = chosenStore(d.cfg, d.flag)
	switch {
	case errors.Is(err, errNoStore):
		d.fail("store", chooseFix, "no store is chosen")
		return
	case err != nil:
		d.fail("store", chooseFix, "%v", err)
		return
	case d.chosen.Memory:
		d.note("store", chooseFix, "in the memory of one process; nothing survives it")
		return
	case d.chosen.Embedded != nil && !d.installed(ctx):
		return
	}
	if !d.ask(ctx) {
		return
	}
	d.server()
	d.disk()
	d.level()
	d.clock()
	d.key()
	d.rights()
	d.waiting()
}

// installed looks at what an embedded store is made of, and reports whether it can be
// asked.
func (d *storeDoctor) installed(ctx context.Context) bool {
	dir := d.chosen.Embedded.Dir
	program, err := embedded.Find(ctx)
	if err != nil {
		d.fail("program", "install redis-server or valkey-server, 7.0 or later, where the PATH of serve finds it", "%v", err)
	} else {
		d.ok("program", "%s, %s", program, program.Path)
	}
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		d.note("store", "nothing is to be done: `approvalbot serve` makes it", "embedded; the data folder %s is not there yet", dir)
		return false
	}
	s, err := embedded.Attach(ctx, dir)
	switch {
	case errors.Is(err, embedded.ErrNotRunning):
		d.note("store", besideFix, "embedded in %s; not running, and so not looked into", dir)
		return false
	case err != nil:
		d.fail("store", "make the folder private to the user of serve: chmod 0700, chown", "%v", err)
		return false
	}
	_ = s.Close() // it was only to see that it is there
	return true
}

// attached is the entrance of who only looks.
var attached entrance = embedded.Attach

// ask has the store inspected, and reports whether it could be.
func (d *storeDoctor) ask(ctx context.Context) bool {
	name := "redis " + strings.Join(d.chosen.Redis.Addrs, ", ")
	if d.chosen.Embedded != nil {
		name = "embedded in " + d.chosen.Embedded.Dir
	}
	s, err := storeAsItIs(ctx, d.cfg, d.flag, attached)
	if err == nil {
		defer func() { _ = s.Close() }()
		d.Report, err = s.Inspect(ctx)
	}
	if err != nil {
		text, fix := unreachable(err)
		d.fail("store", fix, "%s: %s", name, text)
		return false
	}
	d.ok("store", "%s answers", name)
	return true
}

// reasonOf is what went wrong, without the names of our own parts.
func reasonOf(err error) string {
	if e, ok := errors.AsType[*gate.Error](err); ok && e.Err != nil {
		err = e.Err
	}
	return strings.TrimPrefix(err.Error(), "store: ")
}

// unreachable says why a Redis does not answer, and what to do about it.
func unreachable(err error) (text, fix string) {
	if e, ok := errors.AsType[*gate.Error](err); ok && e.Err != nil {
		err = e.Err
	}
	var forged *tls.CertificateVerificationError
	switch {
	case goredis.HasErrorPrefix(err, "NOAUTH"), goredis.HasErrorPrefix(err, "WRONGPASS"):
		fix = "set store.redis.username and password_file to a user that this Redis knows; there: ACL LIST"
	case goredis.HasErrorPrefix(err, "NOPERM"):
		fix = rightsFix
	case goredis.HasErrorPrefix(err, "LOADING"):
		fix = laterFix
	case errors.As(err, &forged):
		fix = "set store.redis.tls.ca_file to who signed its certificate, and server_name to a name in it"
	default:
		fix = "see that it runs, and that store.redis.addrs and tls are right; from here: redis-cli -h HOST -p PORT PING"
	}
	return err.Error(), fix
}

// server is what kind of Redis it is.
func (d *storeDoctor) server() {
	failed := d.failures()
	major, _, _ := strings.Cut(d.Version, ".")
	switch {
	case len(major) == 1 && major < "7" || major == "":
		d.fail("version", "update it; Debian 12 and later have one that is new enough, or Valkey", "%s is too old; it must be 7.0 or later", cmp.Or(d.Version, "unknown"))
	default:
		d.ok("version", "%s", d.Version)
	}
	switch {
	case !d.Primary:
		d.fail("role", "set store.redis.addrs to its primary; here: redis-cli INFO replication, master_host", "a replica, which takes no changes")
	case d.Replicas > 0:
		d.ok("role", "the primary of %s", plural(d.Replicas, "replica"))
	default:
		d.ok("role", "a primary without replicas")
	}
	if d.Eviction == "noeviction" {
		d.ok("eviction", "none")
	} else {
		d.fail("eviction", "set maxmemory-policy noeviction in redis.conf, and now: redis-cli CONFIG SET maxmemory-policy noeviction",
			"maxmemory-policy is %s, so approvals may be dropped", cmp.Or(d.Eviction, "not told"))
	}
	if d.Unusable != nil && d.failures() == failed && (d.Disk.AppendOnly || d.Disk.Saves) {
		d.fail("server", "choose another Redis; docs/store.md says what it must be", "%v", d.Unusable)
	}
}

func (d *storeDoctor) failures() (n int) {
	for _, f := range d.all {
		if f.Level == fails {
			n++
		}
	}
	return n
}

const alwaysFix = "for durability standard, set appendonly yes and appendfsync always in redis.conf, and restart it"

// disk is what survives the end of the server.
func (d *storeDoctor) disk() {
	const check = "persistence"
	switch {
	case !d.Disk.AppendOnly && !d.Disk.Saves:
		d.fail(check, "set appendonly yes and appendfsync always in redis.conf, and restart it", "none; a restart forgets all approvals, also that they are spent")
	case !d.Disk.AppendOnly:
		d.warn(check, alwaysFix, "snapshots at most; what was decided after the last one is forgotten with the server")
	case d.Disk.Fsync == "":
		d.note(check, "let this user read it: +config|get", "appendonly yes; how often it syncs is not told")
	case d.Disk.Fsync == "always":
		d.ok(check, "appendonly yes, appendfsync always")
	default:
		d.note(check, alwaysFix, "appendonly yes, appendfsync %s: a power failure may forget the last second", d.Disk.Fsync)
	}
}

// level is whether the durability that is stored and the one that is configured agree,
// and hold.
func (d *storeDoctor) level() {
	const check = "durability"
	configured := d.chosen.Durability
	switch level := cmp.Or(configured, d.Level); {
	case configured != "" && d.Level != "" && configured != d.Level:
		d.fail(check, fmt.Sprintf("set store.durability to %s; or stop all servers, then `approvalbot store durability %s`", d.Level, configured),
			"the config file says %s, but %s is stored; no server starts", configured, d.Level)
	case level == store.Standard && d.Lacks != nil:
		d.fail(check, "mend that, or stop all servers, then `approvalbot store durability strict`", "%s", strings.TrimSuffix(strings.TrimPrefix(d.Lacks.Error(), "store: "), "; or use durability strict"))
	case d.Short != nil:
		d.fail(check, "bring them back, or set store.wait_replicas to how many there are", "%s", reasonOf(d.Short))
	case d.chosen.WaitReplicas > 0:
		d.ok(check, "strict, confirmed by %d replicas: a restart of Redis voids what was not run", d.chosen.WaitReplicas)
	case level == "" && d.Lacks == nil:
		d.ok(check, "standard, when the first server starts: approvals survive a restart of Redis")
	case level == "":
		d.ok(check, "strict, when the first server starts: a restart of Redis voids what was not run")
	case level == store.Strict:
		d.ok(check, "strict: a restart of Redis voids what was not run")
	default:
		d.ok(check, "standard: approvals survive a restart of Redis")
	}
}

// apartAtMost is how far clocks may be apart before people are told wrong times.
const apartAtMost = 2 * time.Second

func (d *storeDoctor) clock() {
	const check = "clock"
	if d.Behind > 0 {
		d.fail(check, "find out why it stepped back; then wait, or `approvalbot store reset-clock`",
			"%s behind what it was before: nothing is decided and nothing runs until then (clock_doubtful)", gate.Span(d.Behind))
		return
	}
	off, side := apart(-d.Ahead)
	if off <= apartAtMost {
		d.ok(check, "as this machine's")
		return
	}
	d.warn(check, clockFix+"; and so on the store's", "this machine's is %s %s the store's, which alone counts", gate.Span(off), side)
}

// key is whose the store is.
func (d *storeDoctor) key() {
	const check = "server key"
	if d.Schema != "" && d.Schema != store.Schema() {
		d.fail("schema", "run the release that wrote it", "what lies there is of schema %s; this program needs %s", d.Schema, store.Schema())
	}
	if d.cfg.Keyring == nil {
		d.fail(check, "make one with `approvalbot keys server --out server.key`, and name it: key_file: server.key", "none in the config file")
		return
	}
	var ours []string
	for _, f := range d.cfg.Keyring.Fingerprints() {
		ours = append(ours, store.ShortKey(f))
	}
	switch i := slices.Index(ours, d.Key); {
	case d.Key == "":
		d.ok(check, "%s, which the first server stores", ours[0])
	case i == 0:
		d.ok(check, "%s, as stored", ours[0])
	case i > 0:
		d.ok(check, "%s; %s is stored until a server starts with it", ours[0], d.Key)
	default:
		d.fail(check, "use the key_file of before, or list it in verify_key_files", "the store belongs to %s, the config file has %s", d.Key, ours[0])
	}
}

func (d *storeDoctor) rights() {
	if d.Scripts != nil {
		d.fail("scripts", rightsFix, "scripts cannot read TIME and INFO: %v", d.Scripts)
		return
	}
	d.ok("scripts", "may run, and read TIME and INFO")
}

func (d *storeDoctor) waiting() {
	if d.Pending == 0 {
		d.ok("pending", "nothing waits")
		return
	}
	d.ok("pending", "%s, the oldest for %s", plural(d.Pending, "approval"), gate.Span(d.Waits))
}
