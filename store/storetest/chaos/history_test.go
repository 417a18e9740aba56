//go:build linux

package chaos

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/approvalbot/approvalbot/channels"
	"github.com/approvalbot/approvalbot/gate"
	"github.com/approvalbot/approvalbot/store"
)

// history is one, from its making to its judgement.
type history struct {
	*testing.T
	seed uint64
	stats

	dir      string
	site     *site
	outside  *outside
	children []*child
	db       *store.Redis // past all networks, when all is mended
	end      ending
}

var histories atomic.Int64 // begun, for directories that never meet

func (h *history) run() {
	h.Helper()
	top := choose(h.seed)
	h.Logf("%s: CHAOS_SEED=%d CHAOS_HISTORIES=1 CHAOS_TOPOLOGY=%s go test -run TestChaos ./store/storetest/chaos", top.name, h.seed, os.Getenv("CHAOS_TOPOLOGY"))
	h.keep()
	rng := rand.New(rand.NewPCG(h.seed, 0))
	h.site, h.outside = build(h.T, top), startOutside(h.T)
	h.begin(rng)
	n := &nemesis{T: h.T, site: h.site, children: h.children, rng: rng}
	n.rage(h.Context(), func() bool { return len(h.outside.calls()) >= 15 })
	h.stats.faults = n.faults
	h.settle()
	h.retire("server")
	h.end.ran = h.outside.calls() // those who held a yes have used it, or never will
	h.judge()
}

// keep chooses where the history is written, and keeps it if it is a violation.
func (h *history) keep() {
	base := os.Getenv("CHAOS_DIR")
	if base == "" {
		base = filepath.Join(os.TempDir(), "approvalbot-chaos")
	}
	h.dir = filepath.Join(base, fmt.Sprintf("%d-%d-%d", h.seed, os.Getpid(), histories.Add(1)))
	if err := os.MkdirAll(h.dir, 0o700); err != nil {
		h.Fatal(err)
	}
	h.Cleanup(func() {
		if h.Failed() {
			h.Logf("the history is in %s", h.dir)
		} else {
			os.RemoveAll(h.dir)
		}
	})
}

// begin starts all processes. Neighbours see different networks.
func (h *history) begin(rng *rand.Rand) {
	h.Helper()
	begun, pool, mute := monotonic(), rng.IntN(2) == 0, rng.IntN(10) == 0
	for i, name := range []string{"server-a", "server-b", "worker-a", "worker-b", "clicker-a", "clicker-b", "requester-a", "requester-b"} {
		kind, _, _ := strings.Cut(name, "-")
		owner := name
		if pool { // workers that share a name are told apart by fences alone
			owner = "pool"
		}
		c := &child{t: h.T, role: role{
			Kind: kind, Name: name, Seed: h.seed<<8 + uint64(i),
			Store: h.site.config(i),
			World: h.outside.url, Dir: h.dir, Begun: begun, Owner: owner, Mute: mute,
		}}
		h.children = append(h.children, c)
		c.start()
		h.Cleanup(c.kill)
	}
	for _, c := range h.children {
		_, _ = bufio.NewReader(c.stdout).ReadString('\n') // it is ready
	}
}

// ending is what is there when all is quiet.
type ending struct {
	approvals map[gate.ID]*gate.Snapshot
	log       []gate.Entry
	cards     []drawn
	unknown   map[channels.Ref]bool // cards that no server knows of
	ran       []ran
}

// settle has nothing new asked, and waits until every approval has ended and every
// card says so. What nobody knows a person settles.
func (h *history) settle() {
	h.Helper()
	h.retire("requester")
	h.db = open(h.Context(), h.site.direct())
	h.Cleanup(func() { h.db.Close() })
	g, err := newGate(h.db, nil)
	if err != nil {
		h.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(h.Context(), patience)
	defer cancel()
	for ctx.Err() == nil && !h.quiet(ctx, g) {
		pause(ctx, 200*time.Millisecond)
	}
	h.retire("worker", "clicker")
	for ctx.Err() == nil && h.site.keeps() && !h.drawn(ctx) {
		pause(ctx, 200*time.Millisecond)
	}
	if ctx.Err() != nil {
		h.Errorf("violation: it did not become quiet in %v", patience)
	}
	h.end.cards = h.outside.all()
	h.end.unknown = h.unknown(h.Context())
}

// drawn reports whether the servers have drawn all that is in the log.
func (h *history) drawn(ctx context.Context) bool {
	db := h.site.primary.Client()
	defer db.Close()
	groups, err := db.XInfoGroups(ctx, "approvalbot:{default}:log").Result()
	return err == nil && len(groups) == 1 && groups[0].Pending == 0 && groups[0].Lag == 0
}

// unknown are cards of which no server knows, or none that draws what asks in the
// place of its approval: one was killed, cut off or slow between the posting and the
// writing down.
func (h *history) unknown(ctx context.Context) map[channels.Ref]bool {
	h.Helper()
	all := map[channels.Ref]bool{}
	for _, c := range h.end.cards {
		id := c.Approval
		if s := h.end.approvals[id]; s != nil && s.State == gate.Void && s.Successor != "" {
			id = s.Successor
		}
		posted, err := h.db.Posted(ctx, id)
		if err != nil {
			h.Fatal(err)
		}
		all[c.Ref] = !slices.ContainsFunc(posted, func(p gate.Posted) bool { return p.Place == c.Ref.Place && p.Message == c.Ref.Message })
	}
	return all
}

// retire ends processes that have nothing more to do.
func (h *history) retire(kinds ...string) {
	for _, c := range h.children {
		if slices.Contains(kinds, c.Kind) {
			c.rest()
		}
	}
}

// quiet reads everything, and reports whether all has ended.
func (h *history) quiet(ctx context.Context, g *gate.Gate) bool {
	h.Helper()
	h.end = ending{approvals: map[gate.ID]*gate.Snapshot{}}
	all := true
	for cursor := ""; ; {
		page, err := h.db.List(ctx, gate.Query{Cursor: cursor, Limit: 500})
		if err != nil {
			return false
		}
		for i := range page.Rows {
			s, err := h.db.Get(ctx, page.Rows[i].ID)
			if err != nil {
				return false
			}
			h.end.approvals[s.ID] = &s
			if s.State == gate.OutcomeUnknown {
				_ = g.Settle(ctx, s.ID, person(people[0]).Voter("api"), gate.Failed, "")
			}
			all = all && s.State.Final()
		}
		if cursor = page.Next; cursor == "" {
			return all
		}
	}
}
