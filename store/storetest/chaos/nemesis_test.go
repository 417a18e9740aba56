//go:build linux

package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/approvalbot/approvalbot/store/redistest"
)

// nemesis breaks things, and mends them after a while. What it breaks, when and
// for how long follows from the seed alone. It is one goroutine.
type nemesis struct {
	*testing.T
	site     *site
	children []*child
	rng      *rand.Rand
	begun    time.Time
	out      *os.File // the faults, in words
	broken   []broken
	faults   int
}

// broken is what will be mended.
type broken struct {
	what any // nothing else happens to it meanwhile
	at   time.Time
	mend func()
}

// fault is one way to break something for d.
type fault struct {
	name   string
	weight int
	able   func(*site) bool // of a group also replicas are behind the networks: nothing is lost there in the middle of a connection
	do     func(n *nemesis, d time.Duration)
}

func always(*site) bool     { return true }
func alone(s *site) bool    { return s.group == nil }
func restarts(s *site) bool { return s.restarts }
func promotes(s *site) bool { return s.replica }
func elects(s *site) bool   { return s.group != nil }

var faults = []fault{
	{"a process is killed", 6, always, func(n *nemesis, _ time.Duration) { n.kill() }},
	{"a process is frozen", 5, always, (*nemesis).freeze},
	{"connections are cut", 3, always, func(n *nemesis, _ time.Duration) { n.path().Cut() }},
	{"a network is a hole", 2, always, func(n *nemesis, d time.Duration) { n.network(d, redistest.Faults{Hole: true}) }},
	{"a network is slow", 2, always, func(n *nemesis, d time.Duration) {
		n.network(d, redistest.Faults{Delay: time.Duration(1+n.rng.IntN(60)) * time.Millisecond})
	}},
	{"a network refuses", 1, always, func(n *nemesis, d time.Duration) { n.network(d, redistest.Faults{Refuse: true}); n.path().Cut() }},
	{"replies are lost, and connections with them", 4, always, func(n *nemesis, d time.Duration) { n.lose(d, redistest.Hangup) }},
	{"replies are lost silently", 3, alone, func(n *nemesis, d time.Duration) { n.lose(d, redistest.Silence) }},
	{"Redis hangs", 1, alone, (*nemesis).hang},
	{"the clock of Redis steps back", 1, alone, func(n *nemesis, d time.Duration) { n.stepBack(d) }},
	{"Redis is killed", 4, restarts, func(n *nemesis, _ time.Duration) { n.restart() }},
	{"a replica is promoted", 4, promotes, (*nemesis).promote},
	{"the primary dies", 3, elects, (*nemesis).die},
	{"the primary is cut off", 3, elects, (*nemesis).isolate},
	{"Sentinels promote a replica", 3, elects, func(n *nemesis, _ time.Duration) { n.elect() }},
}

// rage breaks things for a while, and on a slow machine until something has
// happened meanwhile; then it mends everything.
func (n *nemesis) rage(ctx context.Context, enough func() bool) {
	n.Helper()
	var err error
	if n.out, err = os.Create(filepath.Join(n.children[0].Dir, "faults.txt")); err != nil {
		n.Fatal(err)
	}
	defer n.out.Close()
	n.begun = time.Now()
	at := time.Duration(0)
	for ; at < rageFor || at < 4*rageFor && !enough(); at += time.Duration(200+n.rng.IntN(600)) * time.Millisecond {
		n.wait(ctx, n.begun.Add(at))
		n.strike()
	}
	n.wait(ctx, n.begun.Add(at))
	for len(n.broken) > 0 {
		n.wait(ctx, n.broken[0].at.Add(1))
	}
	n.say("all is mended")
}

// wait waits until then and mends what is due before.
func (n *nemesis) wait(ctx context.Context, then time.Time) {
	for {
		next := -1
		for i := range n.broken {
			if n.broken[i].at.Before(then) && (next < 0 || n.broken[i].at.Before(n.broken[next].at)) {
				next = i
			}
		}
		if next < 0 {
			pause(ctx, time.Until(then))
			return
		}
		b := n.broken[next]
		n.broken = append(n.broken[:next], n.broken[next+1:]...)
		pause(ctx, time.Until(b.at))
		b.mend()
	}
}

// strike draws a fault and how long it lasts.
func (n *nemesis) strike() {
	total := 0
	for _, f := range faults {
		if f.able(n.site) {
			total += f.weight
		}
	}
	left, d := n.rng.IntN(total), time.Duration(100+n.rng.IntN(1400))*time.Millisecond
	for _, f := range faults {
		if !f.able(n.site) {
			continue
		}
		if left -= f.weight; left < 0 {
			n.faults++
			n.say(f.name)
			f.do(n, d)
			return
		}
	}
}

func (n *nemesis) say(what string) {
	fmt.Fprintf(n.out, "%v (%d) %s\n", time.Since(n.begun).Round(time.Millisecond), monotonic(), what)
}

// busy reports whether something is broken already.
func (n *nemesis) busy(what any) bool {
	for _, b := range n.broken {
		if b.what == what {
			return true
		}
	}
	return false
}

func (n *nemesis) later(what any, d time.Duration, mend func()) {
	n.broken = append(n.broken, broken{what, time.Now().Add(d), mend})
}

// path is one of the two networks.
func (n *nemesis) path() *redistest.Proxy { return n.site.paths[n.rng.IntN(len(n.site.paths))] }

// network spoils one of the two networks.
func (n *nemesis) network(d time.Duration, f redistest.Faults) {
	p := n.path()
	if n.busy(p) {
		return
	}
	p.Set(f)
	n.later(p, d, func() { p.Set(redistest.Faults{}) })
}

func (n *nemesis) lose(d time.Duration, how redistest.Loss) {
	n.network(d, redistest.Faults{Lose: 0.05 + 0.4*n.rng.Float64(), How: how, Seed: n.rng.Uint64()})
}

// kill ends a process and starts it again, at times with a clock that is wrong.
func (n *nemesis) kill() {
	c := n.children[n.rng.IntN(len(n.children))]
	jump := time.Duration(0)
	if n.rng.IntN(3) == 0 {
		jump = time.Duration(n.rng.IntN(48)-24) * time.Hour
	}
	if !n.busy(c) {
		n.say("  " + c.Name)
		c.replace(jump)
	}
}

// freeze halts a process for longer than a lease.
func (n *nemesis) freeze(d time.Duration) {
	c := n.children[n.rng.IntN(len(n.children))]
	if n.busy(c) {
		return
	}
	n.say("  " + c.Name)
	c.signal(syscall.SIGSTOP)
	n.later(c, d+lease/2, func() { c.signal(syscall.SIGCONT) })
}

func (n *nemesis) hang(d time.Duration) {
	s := n.site.primary
	if n.busy(s) || n.busy(n.site) {
		return
	}
	s.Freeze()
	n.later(s, d, s.Thaw)
}

// stepBack makes the store remember a later time than there is, which is what it
// sees when the clock of Redis steps back.
func (n *nemesis) stepBack(d time.Duration) {
	if n.busy(n.site.primary) {
		return
	}
	now, _ := n.site.primary.Do("EVAL", "return redis.call('TIME')[1]", "0").(string)
	n.site.primary.Do("EVAL", "local hi = tonumber(redis.call('HGET', KEYS[1], 'hi') or 0) "+
		"redis.call('HSET', KEYS[1], 'hi', string.format('%d', math.max(hi, (ARGV[1] + 2) * 1000 + ARGV[2])))",
		"1", "approvalbot:{default}:meta", now, d.Milliseconds())
}

func (n *nemesis) restart() {
	s, d := n.site.primary, time.Duration(n.rng.IntN(300))*time.Millisecond
	if n.busy(s) {
		return
	}
	s.Kill()
	n.later(s, d, s.Start)
}

// promote makes the replica the primary. It has not all that the old one has
// acknowledged, and for a while some still talk to that one.
func (n *nemesis) promote(d time.Duration) {
	s := n.site
	lag := time.Duration(n.rng.IntN(700)) * time.Millisecond
	split := n.rng.IntN(2) == 0
	if n.busy(s.primary) || n.busy(s) {
		return
	}
	old, next := s.primary, s.spare
	s.links[old].Set(redistest.Faults{Hole: true})
	n.later(s, lag, func() {
		next.Do("REPLICAOF", "NO", "ONE")
		s.primary, s.spare = next, old
		s.levers[0].move(next.Addr)
		if !split {
			d = 0
		}
		n.later(s, d, func() { n.rejoin(old, next) })
	})
}

// rejoin sends those who talk to the old primary to the new one, and makes the old
// one its replica, which forgets what only it has.
func (n *nemesis) rejoin(old, next *redistest.Server) {
	for _, l := range n.site.levers {
		l.move(next.Addr)
	}
	n.site.links[old].Set(redistest.Faults{})
	n.site.follow(old, next)
	n.say("  the old primary follows the new one")
}

// die kills the primary for longer than Sentinels wait.
func (n *nemesis) die(d time.Duration) {
	p := n.site.group.Primary()
	if p == nil || n.busy(n.site.group) {
		return
	}
	p.Kill()
	n.later(n.site.group, downAfter+d, p.Start)
}

// isolate cuts the primary off from Sentinels, replicas and clients, for longer than
// Sentinels wait: who was connected to it may go on with the old one for a while.
func (n *nemesis) isolate(d time.Duration) {
	p := n.site.group.Primary()
	if p == nil || n.busy(n.site.group) || n.busy(p.Proxy) {
		return
	}
	p.Proxy.Set(redistest.Faults{Hole: true})
	heal := func() { p.Proxy.Set(redistest.Faults{}) }
	n.later(n.site.group, downAfter+d, heal)
	n.later(p.Proxy, downAfter+d, heal)
}

// elect asks for a promotion in good order, if one is possible now.
func (n *nemesis) elect() {
	db := n.site.group.Sentinels[n.rng.IntN(3)].Client()
	defer db.Close()
	err := db.Do(n.Context(), "SENTINEL", "FAILOVER", redistest.Master).Err()
	n.say(fmt.Sprint("  ", err))
}
