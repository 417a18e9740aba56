package gate

import "slices"

// index finds the rules that a call may match without trying them all: by what
// the tool's name begins with; else, for tool globs that begin with a wildcard,
// by the server's; else by trying. It only ever narrows: Rule.matches decides.
type index struct{ tool, server prefixes }

// prefixes are rules by literal prefix; the empty one is that of all names.
type prefixes struct {
	rules   map[string][]int
	lengths []int // the lengths of the prefixes, ascending
}

func newIndex(rules []*Rule) *index {
	x := &index{}
	for i, r := range rules {
		if r.tool.narrows() {
			x.tool.add(r.tool, i)
		} else {
			x.server.add(r.server, i)
		}
	}
	return x
}

// narrows reports whether every alternative begins with something literal.
func (g *glob) narrows() bool {
	return g != nil && !slices.ContainsFunc(g.alts, func(a alternative) bool { return a.prefix == "" && a.pattern != nil })
}

func (p *prefixes) add(g *glob, rule int) {
	if p.rules == nil {
		p.rules = map[string][]int{}
	}
	alts := []alternative{{}}
	if g != nil {
		alts = g.alts
	}
	for _, a := range alts {
		if at, ok := slices.BinarySearch(p.lengths, len(a.prefix)); !ok {
			p.lengths = slices.Insert(p.lengths, at, len(a.prefix))
		}
		if at := p.rules[a.prefix]; len(at) == 0 || at[len(at)-1] != rule {
			p.rules[a.prefix] = append(at, rule)
		}
	}
}

// first returns the position of the first rule that matches, or len(rules).
func (x *index) first(rules []*Rule, f *Facts) int {
	best := x.tool.first(rules, f, f.Call.Tool, len(rules))
	return x.server.first(rules, f, f.Call.Server, best)
}

// first returns the position of the first match before best, else best.
func (p *prefixes) first(rules []*Rule, f *Facts, name string, best int) int {
	for _, n := range p.lengths {
		if n > len(name) {
			break
		}
		best = firstOf(p.rules[name[:n]], rules, f, best)
	}
	return best
}

func firstOf(candidates []int, rules []*Rule, f *Facts, best int) int {
	for _, i := range candidates {
		if i >= best {
			break
		}
		if rules[i].matches(f) {
			return i
		}
	}
	return best
}
