package slack

import (
	"context"
	"net"
)

// DialWith makes a socket reach Slack over another network.
func (s *Socket) DialWith(dial func(ctx context.Context, network, address string) (net.Conn, error)) {
	s.dial = dial
}

// Dialer is what connections are dialled with.
var Dialer = dialer

// Unanswered makes a receiver one whose payloads might be answered.
var Unanswered = unanswered
