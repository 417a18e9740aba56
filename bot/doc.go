// Package bot is what runs around the gate: the hub that wakes those who wait,
// the reaper that notices what time has settled, the keys that say who calls, and
// what people of chats see, press and type.
//
//	store's log ──▶ Hub ──▶ long polls, streams, console
//	store's clock ─▶ Reaper (nothing depends on when it runs)
//	Authorization ─▶ Keys ──▶ gate.Principal
//	a chat ────────▶ Clicks, Commands ──▶ gate.Voter
//	store's log ──▶ Dispatcher ──▶ cards in chats
//
// Package api speaks HTTP, wire has its JSON, client calls it.
package bot
