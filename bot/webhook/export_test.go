package webhook

import (
	"time"
)

// Reach asks the guard about an address, as dialling does.
func Reach(address string, only bool, allow ...string) error {
	networks, err := parseCIDRs(allow)
	if err != nil {
		return err
	}
	return guard{allow: networks, only: only}.control("tcp", address, nil)
}

// KeepFor says how long connections are kept.
func KeepFor(e *Endpoint, d time.Duration) { e.idle.keep = d }
