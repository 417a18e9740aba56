// Package webhook calls receivers outside: it signs what it sends by Standard
// Webhooks 1.0.0, reaches only addresses that it may, and never sends anything
// twice by itself.
//
//	Config ─▶ New ─▶ Endpoint ─▶ Connect ─▶ Conn ─▶ Send ─▶ Answer
//
// Connect does all that can fail before anything is sent. A Conn sends once, and
// says of a failure whether the request may have arrived ([Lost]).
//
// [Peer] is the guarded way out alone, for parts that speak another protocol.
package webhook
