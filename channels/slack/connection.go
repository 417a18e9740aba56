package slack

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"runtime/debug"
	"sync"
	"time"

	"github.com/gorilla/websocket"
)

// connection is one over which payloads come. Its reader is one goroutine, each
// payload has its own.
type connection struct {
	socket *Socket
	line   int
	ws     *websocket.Conn
	over   chan ending // room for one: what the line learns

	write sync.Mutex
	work  sync.WaitGroup // payloads
	slots chan struct{}  // taken by payloads

	mu   sync.Mutex
	last time.Time // when reading ends whatever comes; zero is not yet
	deaf bool      // takes no more payloads
}

// Limits of a connection.
const (
	shakeWithin = 10 * time.Second
	writeWithin = 5 * time.Second
	ackWithin   = 3 * time.Second
	silence     = 30 * time.Second // Slack pings more often
	farewell    = 15 * time.Second // Slack closes what it has warned after ten
	goodbye     = time.Second
	maxFrame    = 4 << 20
	frameBuffer = 32 << 10 // Slack does not put the pieces of an answer together
	maxPayloads = 64       // at once
)

func newConnection(s *Socket, line int, ws *websocket.Conn) *connection {
	return &connection{socket: s, line: line, ws: ws, over: make(chan ending, 1), slots: make(chan struct{}, maxPayloads)}
}

func dialer() websocket.Dialer {
	return websocket.Dialer{HandshakeTimeout: shakeWithin, WriteBufferSize: frameBuffer, Proxy: http.ProxyFromEnvironment}
}

// open asks Slack for an address, which is good once and as secret as a token,
// and dials it.
func (s *Socket) open(ctx context.Context) (*websocket.Conn, error) {
	soon, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, address, err := s.Slack.client().StartSocketModeContext(soon)
	if err != nil {
		return nil, err
	}
	reach := s.dial
	if reach == nil {
		reach = (&net.Dialer{}).DialContext
	}
	stay := func() bool { return true }
	d := dialer()
	d.NetDialContext = func(soon context.Context, network, address string) (net.Conn, error) {
		conn, err := reach(soon, network, address)
		if err == nil { // the handshake does not look at ctx
			stay = context.AfterFunc(ctx, func() { _ = conn.Close() })
		}
		return conn, err
	}
	ws, resp, err := d.DialContext(ctx, address, http.Header{"Origin": {"https://api.slack.com"}})
	stay()
	if resp != nil {
		_ = resp.Body.Close()
	}
	if errors.Is(err, websocket.ErrBadHandshake) && resp != nil {
		return nil, handshake{resp.StatusCode}
	}
	return ws, err
}

// serve reads until the connection breaks or is silent for too long. When ctx
// ends, it leaves.
func (c *connection) serve(ctx context.Context) {
	c.ws.SetReadLimit(maxFrame)
	c.ws.SetPingHandler(func(data string) error {
		c.alive()
		_ = c.ws.WriteControl(websocket.PongMessage, []byte(data), time.Now().Add(writeWithin)) // what is broken, the reader sees
		return nil
	})
	c.alive()
	broken := make(chan struct{})
	c.socket.work.Go(func() {
		select {
		case <-ctx.Done():
			c.leave()
		case <-broken:
		}
	})
	for {
		_, raw, err := c.ws.ReadMessage()
		if err != nil {
			c.end(ending{why: "connection broken", err: err})
			break
		}
		c.alive()
		c.take(ctx, raw)
	}
	close(broken)
	_ = c.ws.Close()
	c.work.Wait()
}

// leave lets what was taken be acknowledged and says goodbye. Slack's answer to
// that is waited for: closing with something unread would undo what was sent.
func (c *connection) leave() {
	c.mu.Lock()
	c.deaf = true
	c.mu.Unlock()
	c.work.Wait()
	bye := websocket.FormatCloseMessage(websocket.CloseNormalClosure, "")
	_ = c.ws.WriteControl(websocket.CloseMessage, bye, time.Now().Add(goodbye))
	c.readUntil(time.Now().Add(goodbye), true)
}

// end tells the line that it needs another connection. The first word counts.
func (c *connection) end(e ending) {
	select {
	case c.over <- e:
	default:
	}
}

// alive has heard from Slack.
func (c *connection) alive() { c.readUntil(time.Now().Add(silence), false) }

// readUntil sets when reading ends, for the last time or until more is heard.
func (c *connection) readUntil(t time.Time, last bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.last.IsZero() && (!last || t.After(c.last)) {
		return
	}
	_ = c.ws.SetReadDeadline(t)
	if last {
		c.last = t
	}
}

// frame is what Slack sends. What is in the payload is the receivers' business.
type frame struct {
	Type        string          `json:"type"`
	Envelope    string          `json:"envelope_id"`
	Payload     json.RawMessage `json:"payload"`
	Reason      string          `json:"reason"`
	Connections int64           `json:"num_connections"`
	Info        struct {
		App string `json:"app_id"`
	} `json:"connection_info"`
}

func (c *connection) take(ctx context.Context, raw []byte) {
	var f frame
	_ = json.Unmarshal(raw, &f) // a field of another type leaves the others as they are
	switch {
	case f.Type == "hello":
		c.socket.greeted(ctx, c.line, f.Connections)
	case f.Type == "disconnect":
		c.readUntil(time.Now().Add(farewell), true)
		c.end(ending{why: cmp.Or(f.Reason, "disconnect"), mend: f.Reason == "too_many_websockets" || f.Reason == "link_disabled"})
	case f.Envelope == "":
		c.socket.Log.DebugContext(ctx, "a frame that is not understood", "bytes", len(raw))
	case !c.begin(ctx, f): // who pressed is told so by Slack
		c.socket.Log.WarnContext(ctx, "a payload is not taken: there are too many, or this is the end", "kind", f.Type)
	}
}

// begin handles a payload beside the others, if there is room.
func (c *connection) begin(ctx context.Context, f frame) bool {
	c.mu.Lock() // so that leave waits for it
	defer c.mu.Unlock()
	if c.deaf {
		return false
	}
	select {
	case c.slots <- struct{}{}:
	default:
		return false
	}
	c.work.Go(func() {
		defer func() { <-c.slots }()
		c.handle(ctx, f)
	})
	return true
}

// greeted has been told that a connection is up, and how many there are.
func (s *Socket) greeted(ctx context.Context, line int, connections int64) {
	for {
		most := s.most.Load()
		if connections <= most || s.most.CompareAndSwap(most, connections) {
			break
		}
	}
	s.note(ctx, line, ending{})
}

// handle passes a payload on and acknowledges it, even if ctx has ended since it
// came.
func (c *connection) handle(ctx context.Context, f frame) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), ackWithin)
	defer cancel()
	log := c.socket.Log.With("kind", f.Type)
	defer func() {
		if recover() != nil { // as net/http does; what it says may hold the payload
			log.ErrorContext(ctx, "panic", "stack", string(debug.Stack()))
		}
	}()
	var answer []byte
	if receive := c.socket.To.of(f.Type); receive == nil {
		log.DebugContext(ctx, "a payload that nobody wants")
	} else {
		var err error
		if answer, err = receive(ctx, f.Payload); err != nil {
			log.WarnContext(ctx, "a payload that is not understood", "err", err)
			return
		}
	}
	if err := c.acknowledge(f.Envelope, answer); err != nil {
		log.WarnContext(ctx, "a payload could not be acknowledged", "err", err)
	}
}

// ack is what Slack is answered: that a payload has come, and what is to be shown.
type ack struct {
	Envelope string          `json:"envelope_id"`
	Payload  json.RawMessage `json:"payload,omitempty"`
}

func (c *connection) acknowledge(envelope string, answer []byte) error {
	c.write.Lock()
	defer c.write.Unlock()
	_ = c.ws.SetWriteDeadline(time.Now().Add(writeWithin))
	err := c.ws.WriteJSON(ack{envelope, answer})
	if err != nil {
		_ = c.ws.Close() // and the reader sees it
	}
	return err
}
