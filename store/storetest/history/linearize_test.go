//go:build unix

package history

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/approvalbot/approvalbot/gate"
)

// patience is how long an order is looked for. Calls that overlap by the dozen, as
// on a machine that is busy with other things, can take longer than anyone waits.
const patience = time.Minute

// linearize looks, for each approval by itself, for an order of all calls that
// explains every answer. It returns those for which the search did not end: nothing
// was shown about them.
func (r *run) linearize(ops []*op, c clock) (undecided []string) {
	r.Helper()
	m, parts := model(c), split(ops)
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		history := operations(parts[name])
		result, info := porcupine.CheckOperationsVerbose(m, history, patience)
		switch result {
		case porcupine.Ok:
			continue
		case porcupine.Unknown:
			undecided = append(undecided, name)
			continue
		case porcupine.Illegal:
		}
		r.Errorf("%s: %s; no order of these calls explains their answers:\n%s", name, result, describe(parts[name]))
		file := filepath.Join(r.ArtifactDir(), strings.ReplaceAll(name, "/", "_")+".html")
		if err := porcupine.VisualizePath(m, info, file); err != nil {
			r.Error(err)
		}
	}
	return undecided
}

// split sorts calls by the approval they are about: the one that a key names,
// or that has the id.
func split(ops []*op) map[string][]*op {
	names := map[gate.ID]string{}
	for _, o := range ops {
		if o.Method == "open" && o.Key != "" {
			names[o.ID] = o.Key
		}
	}
	parts := map[string][]*op{}
	for _, o := range ops {
		if o.Method == dispatch || o.Method == press || o.answer == nil && o.reads() {
			continue
		}
		name := cmp.Or(o.Key, names[o.ID], string(o.ID))
		parts[name] = append(parts[name], o)
	}
	return parts
}

// operations are calls as porcupine has them. A call that was refused after the
// store may have asked twice is two: the first, whose reply was lost, may have
// been done; the refusal of the second must be true all the same.
func operations(ops []*op) (out []porcupine.Operation) {
	add := func(o *op) {
		out = append(out, porcupine.Operation{ClientId: o.client, Input: o, Call: o.from, Return: o.to})
	}
	for _, o := range ops {
		if o.answer != nil && o.answer.No != nil && o.to-o.from >= int64(retryAfter) && !o.reads() {
			first := *o
			first.answer = nil
			add(&first)
		}
		add(o)
	}
	return out
}

// retryAfter is how long the store waits before it asks again, at least.
const retryAfter = 20 * time.Millisecond

func describe(ops []*op) string {
	var b strings.Builder
	for _, o := range ops {
		to := "    never"
		if o.to != forever {
			to = fmt.Sprintf("%9d", (o.to-ops[0].from)/1000)
		}
		fmt.Fprintf(&b, "%9d -%s us  client %3d  %s\n", (o.from-ops[0].from)/1000, to, o.client, o)
	}
	return b.String()
}

// String is a call and its answer on one line.
func (o *op) String() string {
	c := o.call
	if c.Opening != nil { // of which most is the same everywhere
		short := *c.Opening
		short.Subject = gate.Subject{}
		c.Opening = &short
	}
	if c.Ballot != nil {
		short := *c.Ballot
		short.Digest = gate.Digest{}
		short.Vote = gate.Vote{Voter: gate.Voter{Person: short.Vote.Voter.Person}, Choice: short.Vote.Choice, Nonce: short.Vote.Nonce}
		c.Ballot = &short
	}
	return compact(c) + " -> " + compact(o.answer)
}

func compact(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return digests.ReplaceAllString(string(b), "")
}

// digests are 32 numbers in JSON, and tell a reader nothing.
var digests = regexp.MustCompile(`,?"Digest":\[[0-9,]+\]`)
