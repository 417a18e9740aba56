package store

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

//go:embed lua/*.lua
var luaFS embed.FS

// The scripts are the only writers of what decides anything; where cards are is
// written plainly, in cards.go. Each file begins with its arguments and
// codes; the Go method of the same name is its only caller.
var (
	openScript          = script("open")
	getScript           = script("get")
	listScript          = script("list")
	voteScript          = script("vote", "grants")
	askScript           = script("ask")
	answerScript        = script("answer")
	consumeScript       = script("consume")
	reportScript        = script("report")
	withdrawScript      = script("withdraw", "grants")
	deferScript         = script("defer")
	sweepScript         = script("sweep", "grants")
	staleScript         = script("stale")
	leaseScript         = script("lease")
	renewScript         = script("renew")
	releaseScript       = script("release")
	standingScript      = script("standing")
	useGrantScript      = script("use_grant")
	grantsScript        = script("grants")
	putGrantScript      = script("put_grant", "grants")
	revokeGrantScript   = script("revoke_grant", "grants")
	endSessionScript    = script("end_session", "grants")
	putBypassScript     = script("put_bypass")
	heartbeatScript     = script("heartbeat")
	turnScript          = script("turn")
	drawScript          = script("draw")
	followingScript     = script("following")
	pressScript         = script("press")
	leftPressesScript   = script("left_presses")
	onceScript          = script("once")
	oweScript           = script("owe")
	takeOwedScript      = script("take_owed")
	triedScript         = script("tried")
	noteScript          = script("note")
	probeScript         = script("probe")
	resetClockScript    = script("reset_clock")
	setDurabilityScript = script("set_durability")
)

// script loads lua/<name>.lua behind the prelude and those for what it touches
// besides approvals. A missing file is a mistake of the build, hence the panic.
func script(name string, preludes ...string) *redis.Script {
	files := []string{source("prelude")}
	for _, p := range preludes {
		files = append(files, source("prelude_"+p))
	}
	return redis.NewScript(strings.Join(append(files, source(name)), ""))
}

func source(name string) string {
	src, err := luaFS.ReadFile("lua/" + name + ".lua")
	if err != nil {
		panic("store: " + err.Error())
	}
	return string(src)
}

// A move whose reply was lost is asked again with the same arguments, which
// the scripts recognise: at most tries times, patience in all.
const (
	tries    = 3
	patience = 2 * time.Second
)

// run runs a script. Its error is what the script refused, or Unavailable if
// nobody knows whether it ran.
func (s *Redis) run(ctx context.Context, op string, sc *redis.Script, args ...any) (reply, error) {
	args = append([]any{s.incarnation}, args...)
	var res []any
	err := s.persist(ctx, func(ctx context.Context) (err error) {
		res, err = s.line(sc).run(ctx, sc, s.declared, args)
		return err
	})
	if err != nil {
		return nil, unavailable(op, err)
	}
	r := reply(res)
	if code := r.str(0); code != "OK" {
		return nil, refused(op, code, r[1:])
	}
	return r[1:], nil
}

// line returns the batcher for a script. What waits for replicas has lines of its
// own, so that nothing else waits behind it.
func (s *Redis) line(sc *redis.Script) *batcher {
	if confirmed[sc] {
		return s.sure
	}
	return s.scripts
}

// persist calls f until its answer is known. Only a lost reply, and a server that
// is not the right one any more, are reasons to ask again: what Redis answered
// stands, and a caller who left does not care.
func (s *Redis) persist(ctx context.Context, f func(context.Context) error) error {
	within, cancel := context.WithTimeout(ctx, patience+2*s.sure.confirm.timeout) // twice: a new server must be told the script first
	defer cancel()
	wait := 20 * time.Millisecond
	for try := 1; ; try++ {
		err := f(within)
		switch {
		case err == nil:
			return nil
		case try == tries || !lost(err) && !elsewhere(err) || within.Err() != nil:
			return errors.Join(err, ctx.Err())
		}
		s.look(within)
		select {
		case <-within.Done():
			return errors.Join(err, ctx.Err())
		case <-time.After(wait):
			wait *= 5
		}
	}
}

// lost reports whether an error leaves open what Redis did.
func lost(err error) bool {
	var wire net.Error
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &wire)
}

// elsewhere reports whether a server did nothing because another has the space
// now, or will have it in a moment: a fail-over, or a slot that moves.
func elsewhere(err error) bool {
	for _, code := range []string{"MOVED", "ASK", "TRYAGAIN", "CLUSTERDOWN", "READONLY", "MASTERDOWN", "LOADING"} {
		if redis.HasErrorPrefix(err, code+" ") {
			return true
		}
	}
	return false
}

// reply is what a script returned after its code. Its readers give the zero value for
// what is missing: scripts and Go are one build, and what they do not agree on
// fails the tests.
type reply []any

func (r reply) str(i int) string {
	if i >= len(r) {
		return ""
	}
	switch v := r[i].(type) {
	case string:
		return v
	case int64:
		return strconv.FormatInt(v, 10)
	case nil:
		return ""
	default:
		return fmt.Sprint(v)
	}
}

func (r reply) int(i int) int64 {
	n, _ := strconv.ParseInt(r.str(i), 10, 64)
	return n
}

func (r reply) time(i int) time.Time { return fromMS(r.int(i)) }

func (r reply) list(i int) reply {
	if i >= len(r) {
		return nil
	}
	l, _ := r[i].([]any)
	return l
}

// fields reads a hash: field and value of each.
func (r reply) fields() row {
	m := make(row, len(r)/2)
	for i := 0; i+1 < len(r); i += 2 {
		m[r.str(i)] = r.str(i + 1)
	}
	return m
}

// row is the small fields of an approval, see keys.go.
type row map[string]string

func (r row) int(f string) int64 {
	n, _ := strconv.ParseInt(r[f], 10, 64)
	return n
}

func (r row) time(f string) time.Time { return fromMS(r.int(f)) }

// fromMS reads a time of the store's clock; 0 is no time.
func fromMS(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}
