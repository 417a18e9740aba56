package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/approvalbot/approvalbot/bot/wire"
	"github.com/approvalbot/approvalbot/gate"
)

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
