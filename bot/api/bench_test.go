package api_test

import (
	"context"
	"net/http"
	"sync"
	"testing"
)

// What a parked caller may weigh, in KiB resident: all of it, from the socket to
// the hub.
const (
	maxHTTP1 = 26
	maxHTTP2 = 16
)

// BenchmarkParked measures what parked callers weigh in a process of its own.
func BenchmarkParked(b *testing.B) {
	for name, tt := range map[string]struct {
		callers int
		limit   float64
		client  *http.Client
	}{
		"HTTP1": {4000, maxHTTP1, &http.Client{Transport: &http.Transport{}}},
		"HTTP2": {4000, maxHTTP2, &http.Client{Transport: h2c()}},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				kib := weighParked(b, tt.client, tt.callers)
				b.ReportMetric(kib, "KiB/caller")
				b.ReportMetric(kib/tt.limit, "of-limit")
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

func h2c() *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Transport{Protocols: protocols}
}

// atOnce is how many callers arrive together: the store behind them is slow.
const atOnce = 100

func weighParked(b *testing.B, c *http.Client, callers int) float64 {
	b.Helper()
	server := startChild(b, startRedis(b).addr)
	opened := server.replica().open(b, "hermes", "held")
	path := server.url + "/v1/approvals/" + opened.Approval.ID + "?wait=60s"
	parkMany(b, c, server, path, atOnce)() // so that pools are full
	_, before := server.ask(b, "weigh")
	leave := parkMany(b, c, server, path, callers)
	defer leave()
	_, after := server.ask(b, "weigh")
	return float64(after-before) / float64(callers) / 1024
}

// parkMany parks callers, and returns once they wait.
func parkMany(b *testing.B, c *http.Client, server *child, path string, callers int) (leave func()) {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Context())
	var parked sync.WaitGroup
	leave = func() {
		cancel()
		parked.Wait()
	}
	for n := 0; n < callers; n += atOnce {
		for range atOnce {
			parked.Go(func() { park(ctx, b, c, path) })
		}
		eventually(b, func() bool {
			waiting, _ := server.ask(b, "count")
			return waiting == n+atOnce
		})
	}
	return leave
}

// park sends a long poll and waits for its answer, or the end of ctx.
func park(ctx context.Context, b *testing.B, c *http.Client, url string) {
	b.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		b.Error(err)
		return
	}
	req.Header.Set("Authorization", "Bearer "+bearers()["hermes"].Reveal())
	resp, err := c.Do(req)
	if err == nil {
		err = resp.Body.Close()
	}
	if err != nil && ctx.Err() == nil {
		b.Error(err)
	}
}
