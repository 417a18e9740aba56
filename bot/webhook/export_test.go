package webhook

import (
	"context"
	"net/http"
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

// AwaitClosed waits until a connection knows that it is closed.
func AwaitClosed(ctx context.Context, c *Conn) {
	over := make(chan struct{})
	c.http.SetStateHook(func(cc *http.ClientConn) {
		if cc.Err() != nil {
			select {
			case <-over:
			default:
				close(over)
			}
		}
	})
	select {
	case <-over:
	case <-ctx.Done():
	}
}

// KeepFor says how long connections are kept.
func KeepFor(e *Endpoint, d time.Duration) { e.idle.keep = d }
