package grpctest

import (
	"context"
	"net"
	"sync"
)

// A Pipe is a listener for connections in memory, by [net.Pipe]. Those of bufconn begin with a
// timer of no duration, at which the race detector can crash in a bubble of testing/synctest.
type Pipe struct {
	dialed chan net.Conn
	closed chan struct{}
	close  sync.Once
}

// NewPipe returns an open listener.
func NewPipe() *Pipe { return &Pipe{dialed: make(chan net.Conn), closed: make(chan struct{})} }

// Accept implements [net.Listener].
func (p *Pipe) Accept() (net.Conn, error) {
	select {
	case c := <-p.dialed:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener].
func (p *Pipe) Close() error {
	p.close.Do(func() { close(p.closed) })
	return nil
}

// Addr implements [net.Listener].
func (*Pipe) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

// Dial returns the client's end of a connection after the server has accepted it.
func (p *Pipe) Dial(ctx context.Context) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case p.dialed <- theirs:
		return ours, nil
	case <-p.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
