// Package double is what the doubles of chats have in common: [Pipes], a network
// without a machine, and [Clock], a clock that stands still. It knows no chat
// and nothing of this program, so that a double shares no mistake with it.
package double
