package gate

import "slices"

// index finds the rules that a call may match without trying them all: by what
// the tool's name begins with; else, for tool globs that begin with a wildcard,
// by the server's; else by trying. It only ever narrows: Rule.matches decides.
type index struct {
	tool, server prefixes
	scan         []int // rules that neither name narrows
}

// prefixes are rules by literal prefix.
type prefixes struct {
	rules   map[string][]int
	lengths []int // the lengths of the prefixes, ascending
}

func newIndex(rules []*Rule) *index {
	x := &index{}
	for i, r := range rules {
		switch {
		case r.tool.narrows():
			x.tool.add(r.tool, i)
		case r.server.narrows():
			x.server.add(r.server, i)
		default:
			x.scan = append(x.scan, i)
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
	for _, a := range g.alts {
		if at, ok := slices.BinarySearch(p.lengths, len(a.prefix)); !ok {
			p.lengths = slices.Insert(p.lengths, at, len(a.prefix))
		}
		if !slices.Contains(p.rules[a.prefix], rule) {
			p.rules[a.prefix] = append(p.rules[a.prefix], rule)
		}
	}
}

// first returns the position of the first rule that matches, or len(rules).
func (x *index) first(rules []*Rule, f *Facts) int {
	best := x.tool.first(rules, f, f.Call.Tool, len(rules))
	best = x.server.first(rules, f, f.Call.Server, best)
	return firstOf(x.scan, rules, f, best)
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
