package deliver

import (
	"context"
	"encoding/json"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/approvalbot/approvalbot/bot/webhook"
	"github.com/approvalbot/approvalbot/gate"
)

// Store is where the outbox lies; gate.Store has it.
type Store interface {
	gate.Deliveries
	Get(ctx context.Context, id gate.ID) (gate.Snapshot, error)
	Tail(ctx context.Context) (pos string, err error)
	Read(ctx context.Context, pos string, n int, block time.Duration) ([]gate.Entry, error)
}

// Approvals is what messages are made from; gate.Gate has it.
type Approvals interface {
	Get(ctx context.Context, p gate.Principal, id gate.ID) (gate.View, error)
	Shown(s *gate.Snapshot) (args json.RawMessage, covered bool)
}

// Config is what an Outbox works with.
type Config struct {
	Store     Store
	Gate      Approvals
	Hooks     *Hooks                                        // nil: none
	Callbacks func(key, url string) (webhook.Config, error) // how an agent's callback is sent, or why it is not
	Log       *slog.Logger
}

// Outbox writes down what receivers are owed, and sends it. Any number of replicas
// may run one.
type Outbox struct {
	Config

	told string // up to where the log was read
	at   string // where reading goes on: there, if nothing is missing

	mu    sync.Mutex
	lanes map[string]*lane
	wake  chan struct{} // something is owed
	work  sync.WaitGroup

	dial  func(webhook.Config) (sender, []gate.Problem) // of callbacks
	every time.Duration                                 // at least: takeEvery
}

// Open makes an outbox, and sees to it that whatever happens from now on is owed.
func Open(ctx context.Context, c Config) (*Outbox, error) {
	o := &Outbox{Config: c, lanes: map[string]*lane{}, wake: make(chan struct{}, 1), dial: newSender, every: takeEvery}
	if c.Hooks == nil {
		o.Hooks = &Hooks{}
	}
	tail, err := c.Store.Tail(ctx)
	if err != nil {
		return nil, err
	}
	o.told, err = c.Store.Owe(ctx, "", tail)
	o.at = o.told
	return o, err
}

// Run reads and sends until ctx ends.
func (o *Outbox) Run(ctx context.Context) {
	defer o.work.Wait()
	o.work.Go(func() { o.read(ctx) })
	o.send(ctx)
}

// How an outbox waits for the store.
const (
	firstRetry = 50 * time.Millisecond
	lastRetry  = 2 * time.Second
)

// retry waits before the store is asked again, each time for longer.
func retry(ctx context.Context, wait time.Duration) (next time.Duration) {
	pause(ctx, jitter(wait), nil)
	return min(2*wait, lastRetry)
}

// jitter keeps replicas from doing the same at the same moment: d and up to 20 %.
func jitter(d time.Duration) time.Duration {
	return d + rand.N(d/5+1) //nolint:gosec // nothing to guess
}

func pause(ctx context.Context, d time.Duration, wake <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-wake:
	case <-ctx.Done():
	}
}
