package execute_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/approvalbot/approvalbot/gate"
)

// leastOfBare is what is wanted of a webhook's throughput, of a bare client's that
// posts as much to the same receiver.
const leastOfBare = 0.7

// BenchmarkWebhook compares the two in turns, so that both meet the same machine.
func BenchmarkWebhook(b *testing.B) {
	first := make(chan []byte, 1)
	r := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		read, _ := io.ReadAll(req.Body)
		select {
		case first <- read:
		default:
		}
		_, _ = io.WriteString(w, "done")
	}))
	b.Cleanup(r.Close)
	w, j := hook(b, r.URL), job(b)
	wants(b, run(b.Context(), b, w, j), gate.Executed, "done")
	body := <-first
	var ours, bare time.Duration
	for b.Loop() {
		start := time.Now()
		wants(b, run(b.Context(), b, w, j), gate.Executed, "done")
		between := time.Now()
		post(b, r.URL, body)
		ours, bare = ours+between.Sub(start), bare+time.Since(between)
	}
	b.ReportMetric(float64(ours)/float64(b.N), "ns/webhook")
	b.ReportMetric(float64(bare)/float64(b.N), "ns/bare")
	b.ReportMetric(float64(bare)/float64(ours), "of-bare")
	b.ReportMetric(float64(bare)/float64(ours)/leastOfBare, "of-wanted")
}

func post(b *testing.B, url string, body []byte) {
	b.Helper()
	req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		b.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		b.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		b.Fatal(err)
	}
}
