package store

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/approvalbot/approvalbot/gate"
)

// checkIndexes holds after any test of the contract: every index says exactly
// what the rows say, so nothing is left behind and nothing can be lost.
func checkIndexes(t *testing.T, s *Redis) {
	t.Helper()
	d := dump{T: t, s: s, ctx: context.WithoutCancel(t.Context())}
	indexes := map[string][]string{"pending": nil, "live": nil, "due": nil, "grants": nil}
	counts := map[string]string{}
	for _, id := range d.ids("a:") {
		r := row(d.s.db.HGetAll(d.ctx, s.space.key("a:"+id)).Val())
		open := gate.State(r["st"]).Open() && r["en"] == ""
		switch gate.State(r["st"]) {
		case gate.Pending:
			indexes["pending"] = append(indexes["pending"], id)
			counts[r["rq"]] += "I"
		case gate.Approved, gate.Leased, gate.Executing, gate.OutcomeUnknown:
			if r["en"] == "" {
				indexes["live"] = append(indexes["live"], id)
			}
		}
		if open || r["st"] == string(gate.Executing) {
			indexes["due"] = append(indexes["due"], id)
		}
		if ended := slices.Contains(d.members("done"), id); ended != (r["en"] != "") {
			t.Errorf("%s is %s, in done: %t", id, r["st"], ended)
		}
		waits := r["st"] == string(gate.Approved) && r["en"] == "" && r["ex"] != gate.RequesterRuns && r["md"] == string(gate.Deferred)
		if queued := slices.Contains(d.members("ready:"+r["ex"]), id); queued && !waits || waits && !queued && r["ep"] == s.incarnation {
			t.Errorf("%s is %s, in the work queue: %t", id, r["st"], queued)
		}
		hangs := r["md"] == string(gate.Inline) && r["ss"] != "" && r["en"] == ""
		if held := slices.Contains(d.set("sa:"+r["ss"]), id); held && !hangs || hangs && !held && !d.ended(r["ss"]) {
			t.Errorf("%s (%s, %s) hangs on its session: %t", id, r["st"], r["md"], held)
		}
	}
	for _, session := range d.ids("s:") {
		if d.s.db.PTTL(d.ctx, s.space.key("s:"+session)).Val() <= 0 {
			t.Errorf("session %s is kept for ever", session)
		}
	}
	indexes["grants"] = d.ids("g:")
	var held []string
	for _, requester := range d.ids("gr:") {
		held = append(held, d.set("gr:"+requester)...)
	}
	slices.Sort(held)
	if !slices.Equal(held, indexes["grants"]) {
		t.Errorf("requesters hold the grants %v, there are %v", held, indexes["grants"])
	}
	for name, want := range indexes {
		if diff := cmp.Diff(slices.Sorted(slices.Values(want)), d.members(name)); diff != "" {
			t.Errorf("index %s (-rows +index):\n%s", name, diff)
		}
	}
	got := map[string]int{}
	for who := range d.s.db.HGetAll(d.ctx, s.space.key("n")).Val() {
		n, _ := d.s.db.HGet(d.ctx, s.space.key("n"), who).Int()
		got[who] = n
	}
	want := map[string]int{}
	for who, n := range counts {
		want[who] = len(n)
	}
	if !maps.Equal(got, want) {
		t.Errorf("pending of requesters: %v, want %v", got, want)
	}
}

// dump reads what lies in Redis past the methods of the store.
type dump struct {
	*testing.T
	s   *Redis
	ctx context.Context //nolint:containedctx // of one check
}

func (d dump) ids(kind string) []string {
	node, err := d.s.node(d.ctx)
	if err != nil {
		d.Fatal(err)
	}
	var out []string
	for _, k := range node.Keys(d.ctx, d.s.space.key(kind+"*")).Val() {
		out = append(out, strings.TrimPrefix(k, d.s.space.key(kind)))
	}
	slices.Sort(out)
	return out
}

func (d dump) members(index string) []string {
	m := d.s.db.ZRange(d.ctx, d.s.space.key(index), 0, -1).Val()
	slices.Sort(m)
	if len(m) == 0 {
		return nil
	}
	return m
}

func (d dump) set(name string) []string { return d.s.db.SMembers(d.ctx, d.s.space.key(name)).Val() }

func (d dump) ended(session string) bool {
	return d.s.db.HExists(d.ctx, d.s.space.key("s:"+session), "en").Val()
}
