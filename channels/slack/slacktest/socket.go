package slacktest

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/websocket"
)

// The kinds of envelopes.
const (
	kindInteractive = "interactive"
	kindCommand     = "slash_commands"
	kindEvent       = "events_api"
)

// Limits of Socket Mode.
const (
	maxSockets = 10
	maxAck     = 20_480           // bytes, from which on an answer is dropped without a word
	ticketLife = 30 * time.Second // "short": not documented
)

// Envelope is what has been sent over a socket, and what came back for it.
type Envelope struct {
	ID, Type string
	Payload  json.RawMessage
	Socket   int // counted from 1, in the order of connecting
	Sent     time.Time
	Retry    int
	Acks     []Ack // none: missing; two: a duplicate
}

// Ack is an acknowledgement. Only the first one on the socket of its envelope,
// and not too large, counts.
type Ack struct {
	Envelope string
	Socket   int
	After    time.Duration // zero if there is no such envelope
	Payload  json.RawMessage
	TooLarge bool
}

// sockets has the open connections and what went over all there have been.
type sockets struct {
	open     []*socket
	changed  chan struct{} // closed, and replaced, when open changes
	count    int
	turn     int
	tickets  map[string]time.Time
	sent     []*envelope
	stray    []Ack
	goodbyes []int
	disabled bool
}

type socket struct {
	n       int
	conn    *websocket.Conn
	leaving bool // told to go: gets nothing any more
	gone    chan struct{}
	write   sync.Mutex
}

type envelope struct {
	Envelope
	accepts bool
	answer  json.RawMessage
	acked   chan struct{}
}

func newSockets() sockets {
	return sockets{changed: make(chan struct{}), tickets: map[string]time.Time{}}
}

func (s *Slack) openConnection(c *call) (object, error) {
	if s.sockets.disabled {
		return nil, refuse("link_disabled")
	}
	ticket := s.id("ticket")
	s.sockets.tickets[ticket] = c.now
	ws := strings.Replace(s.server.URL, "http", "ws", 1)
	return object{"url": ws + "/link/?ticket=" + ticket + "&app_id=" + s.config.SocketApp}, nil
}

// punch takes a ticket, which is good once and not for long.
func (s *Slack) punch(ticket string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	issued, ok := s.sockets.tickets[ticket]
	delete(s.sockets.tickets, ticket)
	return ok && s.config.Now().Sub(issued) <= ticketLife
}

func (s *Slack) serveSocket(w http.ResponseWriter, r *http.Request) {
	s.work.Add(1)
	defer s.work.Done()
	if !s.punch(r.URL.Query().Get("ticket")) {
		http.Error(w, "bad ticket", http.StatusForbidden)
		return
	}
	// Clients say that they come from api.slack.com.
	up := websocket.Upgrader{CheckOrigin: func(*http.Request) bool { return true }}
	conn, err := up.Upgrade(w, r, nil)
	if err != nil {
		return // answered already
	}
	defer conn.Close()
	sock := &socket{conn: conn, gone: make(chan struct{})}
	sock.write.Lock() // nothing before the hello
	n := s.admit(sock)
	hello := object{
		"type": "hello", "num_connections": n, "connection_info": object{"app_id": s.config.SocketApp},
		"debug_info": object{"host": "applink-slacktest", "build_number": 1, "approximate_connection_time": 18060},
	}
	if n == 0 {
		hello = disconnect("too_many_websockets")
	}
	_ = conn.WriteJSON(hello) // what fails, listen sees
	sock.write.Unlock()
	if n == 0 {
		return
	}
	defer s.leave(sock)
	s.work.Go(func() { s.keepAlive(sock) })
	s.listen(sock)
}

// admit counts a socket in and returns how many are open, or zero if that would
// be too many.
func (s *Slack) admit(sock *socket) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.done:
		return 0
	default:
	}
	if len(s.sockets.open) >= maxSockets {
		return 0
	}
	s.sockets.count++
	sock.n = s.sockets.count
	s.sockets.open = append(s.sockets.open, sock)
	s.sockets.change()
	return len(s.sockets.open)
}

func (s *Slack) leave(sock *socket) {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(sock.gone)
	s.sockets.open = slices.DeleteFunc(s.sockets.open, func(o *socket) bool { return o == sock })
	s.sockets.change()
}

func (s *sockets) change() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// keepAlive sends ping frames, the first at once: clients leave without.
func (s *Slack) keepAlive(sock *socket) {
	tick := time.NewTicker(s.config.PingEvery)
	defer tick.Stop()
	for {
		if sock.conn.WriteControl(websocket.PingMessage, nil, time.Now().Add(time.Second)) != nil {
			_ = sock.conn.Close()
			return
		}
		select {
		case <-tick.C:
		case <-sock.gone:
			return
		}
	}
}

// say sends a frame. One that fails ends the connection, which listen sees.
func (k *socket) say(frame object) {
	if raw, err := json.Marshal(frame); err == nil {
		k.raw(raw)
	}
}

func (k *socket) raw(frame []byte) {
	k.write.Lock()
	defer k.write.Unlock()
	_ = k.conn.SetWriteDeadline(time.Now().Add(5 * time.Second))
	if k.conn.WriteMessage(websocket.TextMessage, frame) != nil {
		_ = k.conn.Close()
	}
}

func (s *Slack) listen(sock *socket) {
	for {
		_, raw, err := sock.conn.ReadMessage()
		if websocket.IsCloseError(err, websocket.CloseNormalClosure) {
			s.mu.Lock()
			s.sockets.goodbyes = append(s.sockets.goodbyes, sock.n)
			s.mu.Unlock()
		}
		if err != nil {
			return
		}
		s.acknowledge(sock, raw)
	}
}

func (s *Slack) acknowledge(sock *socket, raw []byte) {
	var a struct {
		ID      string          `json:"envelope_id"`
		Payload json.RawMessage `json:"payload"`
	}
	_ = json.Unmarshal(raw, &a) // what is no acknowledgement is a stray one
	s.mu.Lock()
	defer s.mu.Unlock()
	ack := Ack{Envelope: a.ID, Socket: sock.n, Payload: a.Payload, TooLarge: len(raw) >= maxAck}
	i := slices.IndexFunc(s.sockets.sent, func(e *envelope) bool { return e.ID == a.ID })
	if i < 0 {
		s.sockets.stray = append(s.sockets.stray, ack)
		return
	}
	e := s.sockets.sent[i]
	ack.After = s.config.Now().Sub(e.Sent)
	e.Acks = append(e.Acks, ack)
	if ack.TooLarge || ack.Socket != e.Socket || e.settled() {
		return
	}
	if e.accepts {
		e.answer = a.Payload
	}
	close(e.acked)
}

func (e *envelope) settled() bool {
	select {
	case <-e.acked:
		return true
	default:
		return false
	}
}

// overSocket sends an envelope to the socket whose turn it is.
func (s *Slack) overSocket(ctx context.Context, r request, o *Outcome) {
	sock, e := s.next(r)
	if sock == nil {
		o.Warning = warnNoSocket
		return
	}
	frame := object{
		"envelope_id": e.ID, "type": e.Type, "accepts_response_payload": e.accepts, "payload": e.Payload,
	}
	if r.kind == kindEvent {
		frame["retry_attempt"], frame["retry_reason"] = r.retry, r.reason
	}
	sock.say(frame)
	select {
	case <-e.acked:
		o.Answer = e.answer
	case <-ctx.Done():
		o.Warning = warnTimeout
	case <-s.done:
		o.Warning = warnTimeout
	}
}

func (s *Slack) next(r request) (*socket, *envelope) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var ready []*socket
	for _, sock := range s.sockets.open {
		if !sock.leaving {
			ready = append(ready, sock)
		}
	}
	if len(ready) == 0 {
		return nil, nil
	}
	sock := ready[s.sockets.turn%len(ready)]
	s.sockets.turn++
	e := &envelope{accepts: r.accepts, acked: make(chan struct{})}
	e.Envelope = Envelope{
		ID: s.id("envelope-"), Type: r.kind, Payload: r.payload, Socket: sock.n, Sent: s.config.Now(), Retry: r.retry,
	}
	s.sockets.sent = append(s.sockets.sent, e)
	return sock, e
}

// Envelopes returns all that has been sent over sockets.
func (s *Slack) Envelopes() []Envelope {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]Envelope, len(s.sockets.sent))
	for i, e := range s.sockets.sent {
		all[i] = e.Envelope
		all[i].Acks = slices.Clone(e.Acks)
	}
	return all
}

// StrayAcks returns the acknowledgements of envelopes that there never were.
func (s *Slack) StrayAcks() []Ack {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.sockets.stray)
}

// Goodbyes returns the numbers of the sockets that their clients have closed as
// one should, with a frame that says so.
func (s *Slack) Goodbyes() []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.sockets.goodbyes)
}

// Sockets returns the numbers of the open sockets, the oldest first.
func (s *Slack) Sockets() []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sockets.numbers()
}

func (s *sockets) numbers() (all []int) {
	for _, sock := range s.open {
		all = append(all, sock.n)
	}
	return all
}

// Await waits until the numbers of the open sockets are such ones, and returns
// them.
func (s *Slack) Await(ctx context.Context, such func(open []int) bool) ([]int, error) {
	for {
		s.mu.Lock()
		open, changed := s.sockets.numbers(), s.sockets.changed
		s.mu.Unlock()
		if such(open) {
			return open, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return open, ctx.Err()
		}
	}
}

func disconnect(reason string) object {
	return object{"type": "disconnect", "reason": reason, "debug_info": object{"host": "applink-slacktest"}}
}

// Disconnect asks the n-th socket, or with zero all of them, to go. The reason is
// one of warning, refresh_requested, link_disabled and too_many_websockets. A
// warned socket stays until [Slack.Drop]; after link_disabled no other opens.
func (s *Slack) Disconnect(n int, reason string) {
	for _, sock := range s.chosen(n, reason) {
		sock.say(disconnect(reason))
		if reason != "warning" {
			_ = sock.conn.Close()
		}
	}
}

func (s *Slack) chosen(n int, reason string) (all []*socket) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sockets.disabled = s.sockets.disabled || reason == "link_disabled"
	for _, sock := range s.sockets.open {
		if n == 0 || sock.n == n {
			sock.leaving = sock.leaving || reason != ""
			all = append(all, sock)
		}
	}
	return all
}

// Frame sends any text to the n-th socket, or with zero to all of them, also what
// Slack would not.
func (s *Slack) Frame(n int, text string) {
	for _, sock := range s.chosen(n, "") {
		sock.raw([]byte(text))
	}
}

// Drop breaks the n-th connection, or with zero all of them, without a word.
func (s *Slack) Drop(n int) {
	for _, sock := range s.chosen(n, "") {
		_ = sock.conn.Close()
	}
}
