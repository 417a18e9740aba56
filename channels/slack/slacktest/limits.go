package slacktest

import (
	"time"

	"golang.org/x/time/rate"
)

// limit is a bucket that fills evenly.
type limit = rate.Limiter

// postBurst is how many messages a conversation takes at once. Slack promises
// one a second and "short bursts".
const postBurst = 5

// limited takes one from the bucket of that name, which holds burst and gets
// perMin in a minute. What is refused takes nothing.
func (s *Slack) limited(name string, perMin, burst int, now time.Time) error {
	if s.config.NoRateLimits {
		return nil
	}
	if s.limits[name] == nil {
		s.limits[name] = rate.NewLimiter(rate.Limit(float64(perMin)/60), burst)
	}
	r := s.limits[name].ReserveN(now, 1)
	if wait := r.DelayFrom(now); wait > 0 {
		r.CancelAt(now)
		return &Refusal{Code: "ratelimited", wait: wait}
	}
	return nil
}
