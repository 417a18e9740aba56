//go:build unix

package redistest

import (
	"bytes"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
)

const compareAndSet = `if redis.call('HGET', KEYS[1], 'st') ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'st', ARGV[2], 'by', 'ann', 'at', '1') redis.call('ZREM', KEYS[2], KEYS[1]) return 1`

// Ceiling is how many compare-and-sets a second redis-benchmark gets out of a server
// on a unix socket, at 50 connections: what benchmarks compare with.
func (s *Server) Ceiling() float64 {
	s.t.Helper()
	db := s.Client()
	defer func() { _ = db.Close() }()
	sha, err := db.ScriptLoad(s.t.Context(), compareAndSet).Result()
	if err != nil {
		s.t.Fatal(err)
	}
	db.HSet(s.t.Context(), "cas", "st", "pending", "body", strings.Repeat("x", 600))
	out, err := exec.CommandContext(s.t.Context(), "redis-benchmark", "-s", s.Addr, "-c", "50", "-n", "100000", "-q",
		"EVALSHA", sha, "2", "cas", "zset", "pending", "pending").Output()
	if err != nil {
		s.t.Fatal(err)
	}
	m := regexp.MustCompile(`([0-9.]+) requests per second`).FindAllSubmatch(bytes.ReplaceAll(out, []byte("\r"), []byte("\n")), -1)
	if m == nil {
		s.t.Fatalf("redis-benchmark says %q", out)
	}
	rate, err := strconv.ParseFloat(string(m[len(m)-1][1]), 64)
	if err != nil {
		s.t.Fatal(err)
	}
	return rate
}
