package slacktest

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// ackWithin is how long Slack waits for an answer.
const ackWithin = 3 * time.Second

// URLs are where requests go. Without them everything goes over sockets; Slack
// never does both.
type URLs struct{ Interactions, Commands, Events string }

// SendTo switches to HTTP, or with no URLs back to Socket Mode.
func (s *Slack) SendTo(u URLs) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.urls = u
}

// Forgery is what is wrong with a signed request. Slack never sends such ones;
// others do.
type Forgery int

// The forgeries. BodyChanged keeps the body readable; the two that smuggle a
// payload beside the signed bytes are signed for what is in the body.
const (
	Genuine        Forgery = iota
	WrongSecret            // signed by somebody else
	Unsigned               // without the headers
	OldTimestamp           // signed six minutes ago
	BodyChanged            // after signing
	PayloadInQuery         // the payload is in the URL, the signed body empty
	TwoPayloads            // signed, with an empty payload behind the real one
	SSLCheck               // unsigned, with ssl_check=1 beside the payload
)

// Outcome is what became of something that a person did.
type Outcome struct {
	TriggerID, ResponseURL string
	Payload                []byte // JSON, as it was sent

	Status  int    // of the HTTP answer; zero over a socket or without answer
	Answer  []byte // the body, or the payload of the acknowledgement
	Warning string // what the person is told went wrong; empty if nothing
	Shown   string // what a slash command is answered at once

	sent    request
	noRetry bool // the answer to an event asks for that
}

// request is something to be delivered, over HTTP or a socket.
type request struct {
	kind    string // of envelope
	url     string // empty: a socket
	header  http.Header
	body    []byte
	payload []byte // in the envelope
	accepts bool   // whether the answer may have content
	retry   int    // of an event
	reason  string // for the retry
}

// how is what an action says of its delivery.
type how struct {
	to     string
	forged Forgery
	mangle func(payload map[string]any)
}

// act delivers a payload and waits for the answer.
func (s *Slack) act(ctx context.Context, kind string, payload object, h how) (Outcome, error) {
	o, err := s.prepare(kind, payload, h)
	if err != nil {
		return Outcome{}, err
	}
	return s.Replay(ctx, o, ""), nil
}

// prepare makes the request of an action that is still to be delivered.
func (s *Slack) prepare(kind string, payload object, h how) (Outcome, error) {
	o := Outcome{TriggerID: str(payload, "trigger_id"), ResponseURL: str(payload, "response_url")}
	raw, err := json.Marshal(payload)
	if err == nil && h.mangle != nil {
		payload = object{} // a copy, so that what is stored stays as it is
		if err = json.Unmarshal(raw, &payload); err == nil {
			h.mangle(payload)
			raw, err = json.Marshal(payload)
		}
	}
	if err != nil {
		return Outcome{}, fmt.Errorf("payload: %w", err)
	}
	r := request{kind: kind, payload: raw, url: s.target(kind, h.to), header: http.Header{}}
	form := url.Values{"payload": {string(raw)}}
	switch kind {
	case kindEvent:
		r.body = raw
		r.header.Set("Content-Type", "application/json")
	case kindCommand:
		r.accepts, form = true, url.Values{}
		for k, v := range payload {
			form.Set(k, fmt.Sprint(v))
		}
	default:
		r.accepts = payload["type"] == "view_submission"
	}
	if r.body == nil {
		r.body = []byte(form.Encode())
		r.header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if r.url == "" {
		h.forged = Genuine // there is nothing to forge on a socket
	}
	s.seal(&r, h.forged)
	o.sent = r
	return o, nil
}

func (s *Slack) target(kind, to string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case to != "":
		return to
	case kind == kindCommand:
		return s.urls.Commands
	case kind == kindEvent:
		return s.urls.Events
	}
	return s.urls.Interactions
}

// seal signs a request and spoils it.
func (s *Slack) seal(r *request, forged Forgery) {
	at, secret := s.config.SignedAt(), SigningSecret
	switch forged {
	case WrongSecret:
		secret = "another secret"
	case OldTimestamp:
		at = at.Add(-6 * time.Minute)
	case PayloadInQuery:
		r.url, r.body = r.url+"?"+string(r.body), nil
	case TwoPayloads:
		r.body = append(r.body, "&payload=%7B%7D"...)
	case SSLCheck:
		r.body = append([]byte("ssl_check=1&"), r.body...)
	}
	if forged != Unsigned && forged != SSLCheck {
		Sign(r.header, r.body, secret, at)
	}
	if forged == BodyChanged {
		r.body = append(r.body, '&')
	}
}

// Sign sets the headers with which Slack vouches for a body.
func Sign(h http.Header, body []byte, secret string, at time.Time) {
	ts := fmt.Sprint(at.Unix())
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte("v0:" + ts + ":"))
	mac.Write(body)
	h.Set("X-Slack-Request-Timestamp", ts)
	h.Set("X-Slack-Signature", "v0="+hex.EncodeToString(mac.Sum(nil)))
}

// deliver sends a request and waits for the answer.
func (s *Slack) deliver(ctx context.Context, r request) Outcome {
	o := Outcome{Payload: r.payload, sent: r}
	ctx, cancel := context.WithTimeout(ctx, s.config.Patience)
	defer cancel()
	from := s.config.Now()
	if r.url == "" {
		s.overSocket(ctx, r, &o)
	} else {
		s.overHTTP(ctx, r, &o)
	}
	if o.Warning == "" && s.config.Now().Sub(from) > ackWithin {
		o.Warning = warnTimeout
	}
	return o
}

// What people are told when something goes wrong. Slack's words differ from
// client to client.
const (
	warnTimeout  = "operation_timeout"
	warnNoSocket = "no_socket"
	warnTrouble  = "trouble connecting"
	warnStatus   = "http status "
)

func (s *Slack) overHTTP(ctx context.Context, r request, o *Outcome) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url, bytes.NewReader(r.body))
	if err != nil {
		o.Warning = warnTrouble
		return
	}
	req.Header = r.header.Clone()
	client := http.Client{
		Transport:     s.server.Client().Transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	resp, err := client.Do(req)
	if err != nil {
		o.Warning = warnTrouble
		if ctx.Err() != nil {
			o.Warning = warnTimeout
		}
		return
	}
	defer resp.Body.Close()
	o.Status, o.noRetry = resp.StatusCode, resp.Header.Get("X-Slack-No-Retry") == "1"
	o.Answer, _ = io.ReadAll(io.LimitReader(resp.Body, maxBody))
	if o.Status != http.StatusOK {
		o.Warning = warnStatus + fmt.Sprint(o.Status)
	}
}

// Replay delivers the same bytes again, signature and trigger and all, to a
// replica at that URL, or to where they went.
func (s *Slack) Replay(ctx context.Context, o Outcome, to string) Outcome {
	r := o.sent
	if to != "" {
		r.url = to
	}
	again := s.deliver(ctx, r)
	again.TriggerID, again.ResponseURL = o.TriggerID, o.ResponseURL
	return again
}

// CheckSSL sends what Slack sends now and then to see whether a certificate is
// good: signed, and to be answered with 200 and nothing else.
func (s *Slack) CheckSSL(ctx context.Context, to string) Outcome {
	r := request{url: to, body: []byte("ssl_check=1&token=deprecated"), header: http.Header{}}
	r.header.Set("Content-Type", "application/x-www-form-urlencoded")
	s.seal(&r, Genuine)
	o := s.deliver(ctx, r)
	if o.Warning == "" && len(o.Answer) > 0 {
		o.Warning = warnTrouble
	}
	return o
}

// VerifyURL asks the events URL for a challenge, as Slack does when it is
// configured.
func (s *Slack) VerifyURL(ctx context.Context) (Outcome, error) {
	challenge := "challenge-slacktest"
	o, err := s.act(ctx, kindEvent, object{"type": "url_verification", "token": "deprecated", "challenge": challenge}, how{})
	if err != nil {
		return Outcome{}, err
	}
	var answer struct{ Challenge string }
	if json.Unmarshal(o.Answer, &answer) != nil {
		answer.Challenge = strings.TrimSpace(string(o.Answer))
	}
	if o.Warning == "" && answer.Challenge != challenge {
		o.Warning = warnTrouble
	}
	return o, nil
}
