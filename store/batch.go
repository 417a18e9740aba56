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
	node    func(context.Context) (*redis.Client, error)
	confirm confirmation // once for all of a batch
	most    int          // how many requests a batch has

	mu      sync.Mutex
	free    int // lines on which nothing is under way
	waiting []request
}

// newBatcher has two lines: while one waits for replies the other fills its
// batch, and one that lost its connection holds up no more than its own.
func newBatcher(node func(context.Context) (*redis.Client, error), c confirmation) *batcher {
	return &batcher{node: node, confirm: c, free: 2, most: 64}
}

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
		b.exec(ctx, r.cmd)
	}
	if queued {
		select {
		case <-r.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if redis.HasErrorPrefix(r.cmd.Err(), "NOSCRIPT") { // the server is new
		r.cmd = sc.Eval(ctx, writer{}, keys, args...)
		b.exec(ctx, r.cmd)
	}
	return r.cmd.Slice()
}

// writer writes down a script's command without sending it.
type writer struct{ redis.Scripter }

func (writer) Eval(ctx context.Context, src string, keys []string, args ...any) *redis.Cmd {
	return command(ctx, "eval", src, keys, args)
}

func command(ctx context.Context, name, script string, keys []string, args []any) *redis.Cmd {
	all := make([]any, 0, 3+len(keys)+len(args))
	all = append(all, name, script, len(keys))
	for _, k := range keys {
		all = append(all, k)
	}
	return redis.NewCmd(ctx, append(all, args...)...)
}

// enqueue queues a request unless a line is free, which is the caller's then.
func (b *batcher) enqueue(ctx context.Context, sc *redis.Script, keys []string, args []any) (r request, queued bool) {
	r = request{command(ctx, "evalsha", sc.Hash(), keys, args), ctx.Done(), make(chan struct{})}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.free > 0 {
		b.free--
		return r, false
	}
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
	var cmds []*redis.Cmd
	for _, r := range batch {
		select {
		case <-r.left:
			r.cmd.SetErr(context.Canceled)
		default:
			cmds = append(cmds, r.cmd)
		}
	}
	b.exec(ctx, cmds...)
	for _, r := range batch {
		close(r.done)
	}
}

// exec sends commands to the node that has the space. Each has its own error.
func (b *batcher) exec(ctx context.Context, cmds ...*redis.Cmd) {
	node, err := b.node(ctx)
	switch {
	case err != nil:
		for _, cmd := range cmds {
			cmd.SetErr(err)
		}
	case len(cmds) == 1 && b.confirm.replicas == 0:
		_ = node.Process(ctx, cmds[0])
	case len(cmds) > 0:
		pipe := node.Pipeline()
		for _, cmd := range cmds {
			_ = pipe.Process(ctx, cmd) // only queues it
		}
		answer := b.confirm.ask(ctx, pipe)
		_, _ = pipe.Exec(ctx)
		b.confirm.check(answer, cmds)
	}
}
