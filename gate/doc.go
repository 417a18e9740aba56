// Package gate decides whether an agent's tool call may run, and who must agree.
//
// It is the centre of approvalbot: it owns the words of the domain (Call,
// Approval, Vote, Grant, Ruling) and every rule about them, and it knows nothing
// of Redis, Slack or HTTP. Everything else imports gate; gate imports nothing
// else of this module but its own secret package.
//
//	agent ─▶ Gate.Check ─▶ Store.Open ─▶ log ─▶ hub, console, cards
//	  ▲                                                  │
//	  │                                             a person presses
//	  │                                                  ▼
//	Gate.Consume ◀─ Gate.Wait ◀─ log ◀─ Store.Vote ◀─ Gate.Decide
//
// Start reading at ladder.go; the life of an approval is the table in
// approval.go; what may leave the process is in errors.go and texts.go.
package gate
