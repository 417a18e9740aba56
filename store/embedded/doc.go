// Package embedded runs a Redis or Valkey server as a child of this process: the
// durable store of one machine on which nobody runs a Redis.
//
//	serve ─▶ Start ─▶ folder (lock, password) ─▶ child ─▶ redis.conf, append-only file
//	                                     ▲          │
//	                                     └─ keeper ◀┘ ended: again, after a pause
//
// Two locks keep a folder whole, and the kernel lets go of them when their holders
// end, however they end. One is of the approvalbot that owns the folder. The other is
// handed to the server and held for as long as it lives: never do two servers write
// the same files, also when one has outlived the process that started it.
//
// The server writes each change to its disk before it answers, so that neither a
// killed approvalbot nor a killed server loses what was said to be done.
package embedded
