// Package client calls the API of approvalbot. It fails closed: whatever goes
// wrong, nothing it returns says "allow".
//
//	c, err := client.New("https://approvals.example.com", key)
//	…
//	err = c.Do(ctx, wire.CheckRequest{Call: call, Requester: wire.Requester{Agent: "deployer", Attended: &yes}},
//		func(ctx context.Context) error { return deploy(ctx, call) })
//
// Do asks, waits for people, spends the token, runs the function at most once
// and reports how it ended. The other methods are the routes of the API.
package client

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/approvalbot/approvalbot/bot/wire"
	"github.com/approvalbot/approvalbot/gate"
	"github.com/approvalbot/approvalbot/gate/secret"
)

// Client calls one approvalbot, by any of its replicas. It is safe for
// concurrent use.
type Client struct {
	urls []string
	key  secret.String
	http *http.Client
	at   atomic.Uint32 // the replica that answered last
}

// Option changes a client.
type Option func(*Client)

// Replicas adds further addresses of the same approvalbot: when one does not
// answer, the next is asked.
func Replicas(urls ...string) Option { return func(c *Client) { c.urls = append(c.urls, urls...) } }

// Transport replaces the HTTP transport.
func Transport(t http.RoundTripper) Option { return func(c *Client) { c.http.Transport = t } }

// New makes a client without calling anyone. A redirect is an error: it would
// carry the key elsewhere.
func New(address string, key secret.String, opts ...Option) (*Client, error) {
	c := &Client{urls: []string{address}, key: key, http: &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	for _, o := range opts {
		o(c)
	}
	for i, address := range c.urls {
		u, err := url.Parse(address)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return nil, fmt.Errorf("client: %q: want the address of approvalbot, such as https://approvals.example.com", address)
		}
		c.urls[i] = strings.TrimSuffix(address, "/")
	}
	if !key.Set() {
		return nil, errors.New("client: no API key; `approvalbot keys new` makes one")
	}
	return c, nil
}

// Error is a refusal of the API. Its kind can be told with errors.Is, such as
// errors.Is(err, gate.NotFound).
type Error struct{ wire.Problem }

func (e *Error) Error() string {
	var text strings.Builder
	fmt.Fprintf(&text, "approvalbot: %s (%s)", e.Detail, e.Code)
	for _, f := range e.Fields {
		fmt.Fprintf(&text, "; %s: %s", f.Field, f.Text)
	}
	return text.String()
}

// Unwrap makes the kind visible to errors.Is.
func (e *Error) Unwrap() error { return kindOf(e.Status) }

func kindOf(status int) gate.Kind {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return gate.Forbidden
	case http.StatusNotFound:
		return gate.NotFound
	case http.StatusConflict:
		return gate.Conflict
	case http.StatusTooManyRequests:
		return gate.TooMany
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return gate.Unavailable
	}
	if status >= 500 {
		return gate.Internal
	}
	return gate.Invalid
}

// call is one request to the API.
type call struct {
	method, path string
	in, out      any
	wait         time.Duration // how long the answer may be held
	again        bool          // sending it twice is like sending it once
}

// How a request is tried.
const (
	answerWithin = 10 * time.Second // beyond what it is held
	tries        = 4
	firstPause   = 100 * time.Millisecond
	maxAnswer    = 8 << 20
)

// do sends a request, to another replica if one does not answer. What must not
// be sent twice is sent again only if it certainly was not sent.
func (c *Client) do(ctx context.Context, r call) error {
	var body []byte
	if r.in != nil {
		var err error
		if body, err = json.Marshal(r.in); err != nil {
			return fmt.Errorf("client: %w", err)
		}
	}
	pause := firstPause
	for try := 1; ; try++ {
		at := c.at.Load()
		err := c.send(ctx, c.urls[int(at)%len(c.urls)], r, body)
		if err == nil || !retry(err, r.again) {
			return err
		}
		c.at.CompareAndSwap(at, at+1)
		if try >= tries*len(c.urls) || !sleep(ctx, pause) {
			return err
		}
		if try%len(c.urls) == 0 {
			pause *= 2
		}
	}
}

// retry reports whether another replica, or the same one later, may do better.
func retry(err error, again bool) bool {
	if dial, ok := errors.AsType[*net.OpError](err); ok && dial.Op == "dial" {
		return true
	}
	if refused, ok := errors.AsType[*Error](err); ok {
		return again && kindOf(refused.Status) == gate.Unavailable
	}
	return again
}

func (c *Client) send(ctx context.Context, base string, r call, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, r.wait+answerWithin)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, r.method, base+r.path, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("client: %w", err)
	}
	req.Header.Set("Authorization", "Bearer "+c.key.Reveal())
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return fmt.Errorf("client: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("client: %w", err)
	}
	return read(resp, answer, r.out)
}

// read takes an answer for what it says only if it is one of this API.
func read(resp *http.Response, body []byte, out any) error {
	kind, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
	switch {
	case resp.StatusCode == http.StatusOK && kind == "application/json":
		if err := json.Unmarshal(body, out); err != nil {
			return fmt.Errorf("client: not an answer of approvalbot: %w", err)
		}
		return nil
	case kind == "application/problem+json":
		e := &Error{}
		if err := json.Unmarshal(body, &e.Problem); err != nil {
			return fmt.Errorf("client: not an answer of approvalbot: %w", err)
		}
		e.Status = resp.StatusCode
		return e
	}
	e := &Error{wire.Problem{Status: resp.StatusCode, Code: "not_approvalbot", Detail: "this is not an answer of approvalbot: " + resp.Status}}
	return e
}

func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// NewAttempt names one dispatch: 128 random bits. Make a new one each time a
// call is about to be dispatched, and keep it for repeating a lost answer.
func NewAttempt() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
