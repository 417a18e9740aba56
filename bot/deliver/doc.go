// Package deliver tells receivers outside what has happened: the hooks of the
// config file, and the callback that a call came with.
//
//	log ─▶ reader ─▶ gate.Deliveries ─▶ sender ─▶ webhook.Endpoint ─▶ receiver
//
// What is owed is written down together with how far the log was read, so that a
// replica that dies loses nothing; who takes a message to send it has it for a
// while only. Each arrives at least once, under one webhook-id; their order is not
// kept. Nothing that a receiver does or fails to do changes an approval.
package deliver
