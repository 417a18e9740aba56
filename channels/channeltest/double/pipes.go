package double

import (
	"context"
	"net"
	"sync"
)

// Pipes is a network without a machine: what is dialled comes out of Accept. A
// double and its clients on one can live in a bubble of testing/synctest, where
// hours take no time. It is safe for concurrent use.
type Pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	close  sync.Once
}

// NewPipes makes a network for the Config of a double.
func NewPipes() *Pipes {
	return &Pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
}

// Dial connects, whatever the address.
func (p *Pipes) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case p.conns <- there:
		return here, nil
	case <-p.closed:
		return nil, &net.OpError{Op: "dial", Net: "pipe", Err: net.ErrClosed}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept implements net.Listener.
func (p *Pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (p *Pipes) Close() error {
	p.close.Do(func() { close(p.closed) })
	return nil
}

// Addr implements net.Listener. No proxy is asked for an address of this machine.
func (*Pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80} }
