package mattermosttest

import (
	"math"
	"net"
	"net/http"
	"strconv"
	"time"
)

// limited counts a request against its address and answers it if it is one too
// many. The bucket is kept as the time at which it will be full again.
func (s *Server) limited(w http.ResponseWriter, r *http.Request) bool {
	if s.config.RateLimit == 0 {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	address, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		address = r.RemoteAddr
	}
	each := time.Second / time.Duration(s.config.RateLimit)
	limit := 10*s.config.RateLimit + 1
	size := each * time.Duration(limit)
	now := s.config.Now()
	full := s.buckets[address]
	if full.Before(now) {
		full = now
	}
	over := full.Add(each).Sub(now) - size
	if over <= 0 {
		full = full.Add(each)
		s.buckets[address] = full
	}
	taken := full.Sub(now)
	h := w.Header()
	h.Set("X-Ratelimit-Limit", strconv.Itoa(limit))
	h.Set("X-Ratelimit-Remaining", strconv.Itoa(max(0, int((size-taken)/each))))
	h.Set("X-Ratelimit-Reset", seconds(taken))
	if over <= 0 {
		return false
	}
	h.Set("Retry-After", seconds(over))
	h.Set("Date", now.UTC().Format(http.TimeFormat))
	http.Error(w, "limit exceeded", http.StatusTooManyRequests)
	return true
}

func seconds(d time.Duration) string { return strconv.Itoa(int(math.Ceil(d.Seconds()))) }
