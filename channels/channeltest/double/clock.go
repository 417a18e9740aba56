package double

import (
	"sync"
	"time"
)

// Clock stands still until it is told to go on. It starts at the present,
// because clients compare signatures with theirs. It is safe for concurrent use.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock makes a clock for the Config of a double.
func NewClock() *Clock { return &Clock{now: time.Now().Truncate(time.Second)} }

// Now returns what the clock shows.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Advance moves the clock on.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}
