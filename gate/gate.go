package gate

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// Watcher wakes those who wait for an approval to change.
type Watcher interface {
	// Watch returns a channel that receives after id may have changed. A
	// receive without a change is allowed, a change without one is not.
	Watch(id ID) (changed <-chan struct{}, stop func())
}

// Gate rules on calls and on who may decide them. It is safe for concurrent use.
type Gate struct {
	store  Store
	keys   *Keyring
	watch  Watcher
	log    *slog.Logger
	policy atomic.Pointer[Policy]
	notes  chan Entry // written behind the answer, see note
	others atomic.Int32
	offset atomic.Int64 // of the store's clock, in nanoseconds
	beat   chan struct{}
	used   sync.Map // versions of rules that are in the audit log
}

// New makes a gate. Run must run beside it.
func New(store Store, keys *Keyring, watch Watcher, policy *Policy, log *slog.Logger) *Gate {
	g := &Gate{store: store, keys: keys, watch: watch, log: log, notes: make(chan Entry, 1024), beat: make(chan struct{}, 1)}
	g.policy.Store(policy)
	return g
}

// heartbeat is how often a replica says which policy it runs. It must be well
// under the time after which the store takes a replica for gone.
const heartbeat = 3 * time.Second

// Run tells the store which policy this replica runs, again and again, and
// writes the notes that could not wait for the store. It returns when ctx ends.
func (g *Gate) Run(ctx context.Context, replica string) {
	tick := time.NewTicker(heartbeat)
	defer tick.Stop()
	g.Beat(ctx, replica)
	var held *Entry // a note the store did not take yet
	for {
		notes := g.notes
		if held != nil {
			notes = nil
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			g.Beat(ctx, replica)
		case <-g.beat:
			g.Beat(ctx, replica)
		case e := <-notes:
			held = &e
		}
		if held != nil && g.store.Note(ctx, *held) == nil {
			held = nil
		}
	}
}

// Beat says once which policy this replica runs. Until it has, the store lets it
// consume nothing.
func (g *Gate) Beat(ctx context.Context, replica string) {
	p, err := g.store.Heartbeat(ctx, replica, g.policy.Load().Version())
	if err != nil {
		g.log.WarnContext(ctx, "policy heartbeat failed", "err", err)
		return
	}
	g.offset.Store(int64(time.Until(p.Now)))
	if was := g.others.Swap(int32(p.Others)); was == 0 && p.Others > 0 { //nolint:gosec // a handful of replicas
		g.log.WarnContext(ctx, "replicas run different policies; nothing can be consumed until they agree", "others", p.Others)
	}
}

// now is the store's clock as of the last heartbeat, for conditions on calls
// that never reach the store. No deadline is ever compared with it.
func (g *Gate) now() time.Time { return time.Now().Add(time.Duration(g.offset.Load())) }

// Disagree reports whether live replicas run another policy than this one.
func (g *Gate) Disagree() bool { return g.others.Load() > 0 }

// Policy returns the policy in force.
func (g *Gate) Policy() *Policy { return g.policy.Load() }

// SetPolicy puts a reloaded policy in force. Turning the gate off is not a
// matter of a reload: that needs a restart, which somebody sees.
func (g *Gate) SetPolicy(ctx context.Context, p *Policy, by string) error {
	old := g.policy.Load()
	if p.Disabled() && !old.Disabled() || p.Off() && !old.Off() {
		return &Error{Kind: Invalid, Op: "gate.SetPolicy", Public: "the new policy would turn the gate off; the old one stays in force. Restart to turn it off"}
	}
	p.keep(old)
	g.policy.Store(p)
	select {
	case g.beat <- struct{}{}: // say so at once: until then nothing can be consumed
	default:
	}
	g.note(Entry{Event: EventPolicyLoaded, By: by, Note: "policy " + string(p.Version()) + ", before " + string(old.Version())})
	g.log.InfoContext(ctx, "policy loaded", "policy", string(p.Version()), "before", string(old.Version()))
	return nil
}

// noteRule audits each version of a rule when it is first used, so that the
// version an approval binds can be read years later.
func (g *Gate) noteRule(r *Rule) {
	if _, known := g.used.LoadOrStore(r.Version, true); !known {
		g.note(Entry{Event: EventRuleUsed, By: r.Name, Digest: string(r.Version), Note: r.sealed, Once: "rule " + string(r.Version)})
	}
}

// note writes to the audit log behind the answer, for what must not wait for
// the store: calls that pass without it, and refusals. While the store is away
// up to 1,024 are held; a line that does not fit goes to the process's log.
func (g *Gate) note(e Entry) {
	select {
	case g.notes <- e:
	default:
		g.log.Warn("audit line not stored", "event", string(e.Event), "approval", string(e.ID), "by", e.By, "note", e.Note)
	}
}
