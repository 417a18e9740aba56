package channels

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

// Memo remembers for a short time what a platform said, and asks once for all who
// want to know at the same time. Failures it does not remember. It is safe for
// concurrent use, and the zero value is ready.
type Memo[T any] struct {
	mu    sync.Mutex
	known map[string]remembered[T]
	asks  singleflight.Group
}

type remembered[T any] struct {
	what T
	at   time.Time
}

// askWithin bounds one question.
const askWithin = 10 * time.Second

// rememberFor is how long a look-up holds: short enough that one who was locked
// out is soon refused.
const rememberFor = time.Minute

// maxRemembered bounds a Memo; beyond it everything is asked anew.
const maxRemembered = 10_000

// Get returns what is known of a key, or asks. A caller that leaves ends its own
// waiting and not the question.
func (m *Memo[T]) Get(ctx context.Context, key string, ask func(context.Context) (T, error)) (T, error) {
	m.mu.Lock()
	k, ok := m.known[key]
	m.mu.Unlock()
	if ok && time.Since(k.at) < rememberFor {
		return k.what, nil
	}
	asked := m.asks.DoChan(key, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askWithin) // it is not only for the first who asked
		defer cancel()
		what, err := ask(ctx)
		if err == nil {
			m.put(key, what)
		}
		return what, err
	})
	select {
	case <-ctx.Done():
		var nothing T
		return nothing, ctx.Err()
	case r := <-asked:
		what, _ := r.Val.(T)
		return what, r.Err
	}
}

func (m *Memo[T]) put(key string, what T) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.known == nil || len(m.known) >= maxRemembered {
		m.known = map[string]remembered[T]{}
	}
	m.known[key] = remembered[T]{what, time.Now()}
}
