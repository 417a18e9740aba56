// Package bot is what runs around the gate: the hub that wakes those who wait,
// the reaper that notices what time has settled, and the keys that say who calls.
//
//	store's log ──▶ Hub ──▶ long polls, streams, console
//	store's clock ─▶ Reaper (nothing depends on when it runs)
//	Authorization ─▶ Keys ──▶ gate.Principal
//
// Package api speaks HTTP, wire has its JSON, client calls it.
package bot
