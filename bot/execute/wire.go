package execute

import (
	"net/http"
	"net/http/httptrace"
	"sync/atomic"

	"github.com/approvalbot/approvalbot/gate/secret"
)

// maxMessages is how many bytes of one answer of an MCP server are read.
const maxMessages = 16 << 20

// wire is the way to an MCP server over HTTP. It shows a token, bounds what comes
// back, and remembers what became of messages since listen. A nil wire knows nothing.
type wire struct {
	next   http.RoundTripper
	token  secret.String
	sent   atomic.Bool  // something of a message has left
	status atomic.Int32 // of the last answer; 0: none
}

func (w *wire) through(next http.RoundTripper) http.RoundTripper {
	w.next = next
	return w
}

// RoundTrip implements http.RoundTripper.
func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	message := r.Method == http.MethodPost // not the end of a session
	r = r.Clone(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
		WroteHeaderField: func(string, []string) {
			if message {
				w.sent.Store(true)
			}
		},
	}))
	if w.token.Set() {
		r.Header.Set("Authorization", "Bearer "+w.token.Reveal())
	}
	resp, err := w.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if message {
		w.status.Store(int32(resp.StatusCode)) //nolint:gosec // three digits
	}
	resp.Body = http.MaxBytesReader(nil, resp.Body, maxMessages)
	return resp, nil
}

// listen forgets what was.
func (w *wire) listen() {
	if w != nil {
		w.sent.Store(false)
		w.status.Store(0)
	}
}

// unsent reports whether nothing has left, which is only known of HTTP.
func (w *wire) unsent() bool { return w != nil && !w.sent.Load() }

// refused reports whether the last message was answered with 4xx, or with a redirect,
// which is not followed.
func (w *wire) refused() bool {
	return w != nil && (w.status.Load()/100 == 3 || w.status.Load()/100 == 4)
}
