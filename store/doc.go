// Package store keeps everything that must outlive a process, in Redis. It is
// the one implementation of gate.Store; in memory the same scripts run on
// miniredis.
//
// Every move is one Lua script (lua/<move>.lua behind lua/prelude.lua), so it
// happens entirely or not at all and by the one clock of Redis. One Go method
// calls it; one table (errors.go) turns what it refuses into errors. Go decides
// nothing about an approval that a script has not checked again.
//
//	gate ─▶ Redis.Vote ─▶ run ─▶ prelude.lua + vote.lua ─▶ row, indexes, log
//
// What lies where is told in keys.go, the life of an approval in
// lua/prelude.lua (tick and move), the contract in package storetest.
package store
