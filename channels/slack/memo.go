package slack

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

// memo remembers for a short time what Slack said, and asks once for all who
// want to know at the same time. Failures it does not remember.
type memo[T any] struct {
	mu    sync.Mutex
	known map[string]remembered[T]
	asks  singleflight.Group
}

type remembered[T any] struct {
	what T
	at   time.Time
}

// rememberFor is how long a look-up holds: short enough that one who was locked
// out is soon refused.
const rememberFor = time.Minute

// maxRemembered bounds a memo; beyond it everything is asked anew.
const maxRemembered = 10_000

func (m *memo[T]) get(ctx context.Context, key string, ask func(context.Context) (T, error)) (T, error) {
	m.mu.Lock()
	k, ok := m.known[key]
	m.mu.Unlock()
	if ok && time.Since(k.at) < rememberFor {
		return k.what, nil
	}
	v, err, _ := m.asks.Do(key, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout) // it is not only for the first who asked
		defer cancel()
		what, err := ask(ctx)
		if err == nil {
			m.put(key, what)
		}
		return what, err
	})
	what, _ := v.(T)
	return what, err
}

func (m *memo[T]) put(key string, what T) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.known == nil || len(m.known) >= maxRemembered {
		m.known = map[string]remembered[T]{}
	}
	m.known[key] = remembered[T]{what, time.Now()}
}
