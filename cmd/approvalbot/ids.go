package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/approvalbot/approvalbot/bot/wire"
	"github.com/approvalbot/approvalbot/gate"
)

// Short forms of an id: its end or its beginning, without apr_, in any case.
const (
	shownID = 6 // characters of the end that tables show
	leastID = 4 // fewer name too many
)

// shortID is how tables show an id. Ends differ where beginnings, which are
// times, do not.
func shortID(id string) string { return gate.Clean(id[max(len(id)-shownID, 0):]) }

// matches reports whether a short form names an id.
func matches(short, id string) bool {
	short = strings.TrimPrefix(strings.ToUpper(short), "APR_")
	ulid := strings.TrimPrefix(id, "apr_")
	return strings.HasPrefix(ulid, short) || strings.HasSuffix(ulid, short)
}

// pick returns the one id that was found. Several are listed, and none is taken.
func pick(short string, found map[string]wire.Approval) (string, error) {
	ids := slices.Sorted(maps.Keys(found))
	switch len(ids) {
	case 0:
		return "", fmt.Errorf("no approval that this could be done to is named by %q", gate.Clean(short))
	case 1:
		return ids[0], nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%q names %d approvals; nothing was done. Give more of the id:", gate.Clean(short), len(ids))
	for _, id := range ids {
		a := found[id]
		fmt.Fprintf(&b, "\n  %s  %s  %s", gate.Clean(id), gate.Clean(a.State), callLine(&a))
	}
	return "", fmt.Errorf("%s", b.String())
}
