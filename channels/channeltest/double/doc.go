// Package double is what the doubles of chats have in common: [Pipes], a network
// without a machine, [Clock], a clock that stands still, and [Fault], what can go
// wrong with a call. It knows no chat and nothing of this program, so that a double
// shares no mistake with it.
package double
