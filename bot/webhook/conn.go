package webhook

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"sync/atomic"
	"time"
)

// Message is what is sent.
type Message struct {
	ID   string // the same whenever it is sent again; without dots
	Key  string // Idempotency-Key; empty: none
	Body []byte // JSON
}

// Answer is what a receiver said.
type Answer struct {
	Status int
	Body   []byte // at most MaxAnswer bytes
	Long   bool   // there was more
	Broken error  // the connection broke, or time ended, before all of Body had come

	retryAfter string
}

// MaxAnswer is how many bytes of an answer are read.
const MaxAnswer = 1 << 20

// RetryAfter returns when the receiver wants to be asked again, if it says so.
func (a *Answer) RetryAfter(now time.Time) (time.Duration, bool) {
	if s, err := strconv.Atoi(a.retryAfter); err == nil {
		return time.Duration(min(max(s, 0), int(maxWait/time.Second))) * time.Second, true
	}
	if at, err := http.ParseTime(a.retryAfter); err == nil {
		return min(max(at.Sub(now), 0), maxWait), true
	}
	return 0, false
}

const maxWait = 24 * time.Hour // of a Retry-After; longer ones mean no more than that

// Lost says that no answer came. It is the only error of Send.
type Lost struct {
	Sent bool // something of the request may have arrived
	Err  error
}

func (e *Lost) Error() string {
	if e.Sent {
		return "no answer: " + e.Err.Error()
	}
	return "not sent: " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *Lost) Unwrap() error { return e.Err }

// Conn is a connection for one request. http.Transport would send a request with
// an Idempotency-Key a second time when a connection breaks; a ClientConn does not.
type Conn struct {
	end  *Endpoint
	http *http.ClientConn
}

// dial opens a connection that belongs to no pool.
func (p *Peer) dial(ctx context.Context) (*http.ClientConn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialWithin)
	defer cancel()
	return p.transport.NewClientConn(ctx, p.url.Scheme, p.address())
}

func (p *Peer) address() string {
	if p.url.Port() != "" {
		return p.url.Host
	}
	return p.url.Host + ":" + p.url.Scheme // ports have names
}

// Close lets go of a connection that nothing was sent on.
func (c *Conn) Close() { c.end.idle.put(c.http) }

// Closed reports whether the receiver is known to have hung up.
func (c *Conn) Closed() bool { return c.http.Err() != nil }

// Send sends m once, and ends the connection's use. It signs anew with each call,
// because a signature is good for five minutes. Its error is a *Lost.
func (c *Conn) Send(ctx context.Context, m Message) (*Answer, error) {
	if err := c.http.Err(); err != nil { // it was closed since
		return nil, &Lost{Err: err}
	}
	ctx, cancel := context.WithTimeout(ctx, c.end.timeout)
	defer cancel()
	var sent atomic.Bool
	resp, err := c.http.RoundTrip(c.request(ctx, m, &sent))
	if err != nil {
		_ = c.http.Close()
		return nil, &Lost{sent.Load(), err} // whoever wrote has ended, and does not go on
	}
	a := read(resp)
	if a.Broken != nil || a.Long || resp.Close {
		_ = c.http.Close()
	} else {
		c.end.idle.put(c.http)
	}
	return a, nil
}

// request makes the request, which sets sent before its first byte leaves: headers
// are gathered, and leave only when the first of them is known.
func (c *Conn) request(ctx context.Context, m Message, sent *atomic.Bool) *http.Request {
	h := http.Header{
		"Content-Type": {"application/json"},
		"Accept":       {"application/json, text/plain;q=0.9, */*;q=0.1"},
		"User-Agent":   {"approvalbot"},
	}
	if m.Key != "" {
		h.Set("Idempotency-Key", m.Key)
	}
	Sign(h, m.ID, time.Now(), m.Body, c.end.keys...)
	r := &http.Request{
		Method: http.MethodPost, URL: c.end.peer.url, Header: h,
		Body: io.NopCloser(bytes.NewReader(m.Body)), ContentLength: int64(len(m.Body)),
	}
	return r.WithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteHeaderField: func(string, []string) { sent.Store(true) },
	}))
}

// read reads an answer as far as it is wanted.
func read(resp *http.Response) *Answer {
	a := &Answer{Status: resp.StatusCode, retryAfter: resp.Header.Get("Retry-After")}
	body, err := io.ReadAll(io.LimitReader(resp.Body, MaxAnswer+1))
	a.Long = len(body) > MaxAnswer
	a.Body = body[:min(len(body), MaxAnswer)]
	a.Broken = errors.Join(err, resp.Body.Close())
	return a
}
