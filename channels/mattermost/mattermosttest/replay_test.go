package mattermosttest_test

import (
	"strings"
	"testing"
)

// leftAside are the situations that are not replayed, and why.
var leftAside = map[string]string{
	"180_": "takes 30 s of real time: TestIntegrationsHaveThirtySeconds does it in a bubble",
	"181_": "as 180",
	"222_": "as 180",
	"203_": "the double has no WebSocket",
	"204_": "the double has no incoming webhooks",
	"205_": "the double has no outgoing webhooks",
	"220_": "what leaks is not sent again but told by Post.Context and Post.URLOf",
	"226_": "most of its calls were left out: TestTooManyRequestsAreRefusedInPlainText",
	"300_": "is a browser",
}

// before are the situations that another one goes on from.
var before = map[string][]string{
	"011_": {"010_"}, "012_": {"010_", "011_"}, "104_": {"103_"},
}

func TestTheDoubleDoesWhatWasCaptured(t *testing.T) {
	t.Parallel()
	all := readCaptures(t)
	replayed := 0
	for _, c := range all {
		if _, aside := prefixed(c.Situation, leftAside); aside {
			continue
		}
		replayed++
		t.Run(c.Situation, func(t *testing.T) {
			t.Parallel()
			r := newReplay(t, castOf(all), c)
			earlier, _ := prefixed(c.Situation, before)
			for _, prefix := range earlier {
				for _, e := range all {
					if strings.HasPrefix(e.Situation, prefix) {
						r.run(e)
					}
				}
			}
			if strings.HasPrefix(c.Situation, "104_") {
				r.takeUp("alice", "approve")
			}
			r.run(c)
			for _, p := range r.cmp.problems {
				t.Error(p)
			}
		})
	}
	t.Logf("%d of %d situations were replayed", replayed, len(all))
}
