package main

import (
	"context"
	"os"
	"time"
)

// lookEvery is how often the config file is looked at. Mounted secrets and
// config maps change by a swapped link, which file watchers tell in odd ways.
const lookEvery = 2 * time.Second

// reloader calls reload when the file has changed or a signal asks for it.
type reloader struct {
	path   string
	seen   os.FileInfo // of what is in force; from before it was read
	hangup <-chan os.Signal
	reload func(context.Context)
}

func (r reloader) run(ctx context.Context) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.hangup:
		case <-tick.C:
			now, err := os.Stat(r.path)
			if err != nil || same(r.seen, now) {
				continue // a file being replaced is missing for a moment
			}
		}
		r.seen, _ = os.Stat(r.path) // before reading: a change meanwhile is seen next time
		r.reload(ctx)
	}
}

func same(a, b os.FileInfo) bool {
	return a != nil && os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}
