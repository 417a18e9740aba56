package store

import (
	"context"
	"sync"

	"github.com/redis/go-redis/v9"
)

// batcher sends what many callers want at the same moment down one connection
// and reads the replies in one go, because system calls cost Redis more than
// some scripts do. Who finds a line free waits for nobody.
type batcher struct {
	db   redis.UniversalClient
	most int // how many requests a batch has

	mu      sync.Mutex
	free    int // lines on which nothing is under way
	waiting []request
}

// newBatcher has two lines: while one waits for replies the other fills its
// batch, and one that lost its connection holds up no more than its own.
func newBatcher(db redis.UniversalClient) *batcher { return &batcher{db: db, free: 2, most: 64} }

// request is one command of a caller, who may have left.
type request struct {
	cmd  *redis.Cmd
	left <-chan struct{}
	done chan struct{}
}

// run runs a script and returns its reply. If ctx ends first, nobody knows
// whether it ran.
func (b *batcher) run(ctx context.Context, sc *redis.Script, keys []string, args []any) ([]any, error) {
	r, queued := b.enqueue(ctx, sc, keys, args)
	if !queued {
		defer b.release(context.WithoutCancel(ctx))
		return sc.Run(ctx, b.db, keys, args...).Slice()
	}
	select {
	case <-r.done:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if redis.HasErrorPrefix(r.cmd.Err(), "NOSCRIPT") { // the server is new
		return sc.Eval(ctx, b.db, keys, args...).Slice()
	}
	return r.cmd.Slice()
}

// enqueue queues a request unless a line is free, which is the caller's then.
func (b *batcher) enqueue(ctx context.Context, sc *redis.Script, keys []string, args []any) (r request, queued bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.free > 0 {
		b.free--
		return request{}, false
	}
	all := make([]any, 0, 3+len(keys)+len(args))
	all = append(all, "evalsha", sc.Hash(), len(keys))
	for _, k := range keys {
		all = append(all, k)
	}
	r = request{redis.NewCmd(ctx, append(all, args...)...), ctx.Done(), make(chan struct{})}
	b.waiting = append(b.waiting, r)
	return r, true
}

// release gives a line to those who wait, or back.
func (b *batcher) release(ctx context.Context) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := min(len(b.waiting), b.most)
	if n == 0 {
		b.free++
		return
	}
	batch := b.waiting[:n:n]
	b.waiting = b.waiting[n:]
	go b.send(ctx, batch)
}

func (b *batcher) send(ctx context.Context, batch []request) {
	defer b.release(ctx)
	pipe := b.db.Pipeline()
	for _, r := range batch {
		select {
		case <-r.left:
			r.cmd.SetErr(context.Canceled)
		default:
			_ = pipe.Process(ctx, r.cmd) // only queues it
		}
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	for _, r := range batch {
		close(r.done)
	}
}
