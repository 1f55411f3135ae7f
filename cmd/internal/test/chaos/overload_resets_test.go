package chaos

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// resetter sends HTTP/2 requests and resets their streams at once.
type resetter struct {
	address string
	roots   *x509.CertPool
	header  []byte // of each request, encoded without the dynamic table
}

func newResetter(t *testing.T, address string, roots *x509.CertPool, token string) *resetter {
	t.Helper()
	var header bytes.Buffer
	encoder := hpack.NewEncoder(&header)
	for _, field := range [][2]string{
		{":method", "GET"}, {":scheme", "https"}, {":authority", "gateway"}, {":path", unknownServer},
		{"authorization", "Bearer " + token},
	} {
		must(t, encoder.WriteField(hpack.HeaderField{Name: field[0], Value: field[1], Sensitive: true}))
	}
	return &resetter{address: address, roots: roots, header: header.Bytes()}
}

// connection resets streams of a new connection, and returns how many it sent before the connection was closed.
func (r *resetter) connection(t *testing.T, streams int) (done int) {
	t.Helper()
	conn, err := tls.Dial("tcp", r.address, &tls.Config{RootCAs: r.roots, NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS12})
	must(t, err)
	defer func() { _ = conn.Close() }()
	out := bufio.NewWriter(conn)
	framer := http2.NewFramer(out, bufio.NewReader(conn))
	over := make(chan struct{})
	go func() {
		defer close(over)
		awaitPing(framer)
	}()
	_, err = out.WriteString(http2.ClientPreface)
	err = errors.Join(err, framer.WriteSettings())
	for ; err == nil && done < streams; done++ {
		id := uint32(2*done + 1)
		err = framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: r.header, EndStream: true, EndHeaders: true})
		err = errors.Join(err, framer.WriteRSTStream(id, http2.ErrCodeCancel))
		if done%10 == 0 {
			err = errors.Join(err, out.Flush())
		}
		if done%500 == 0 {
			sleep(t, 100*time.Millisecond) // leaves CPU time to the gateway
		}
	}
	if err == nil && framer.WritePing(false, [8]byte{}) == nil && out.Flush() == nil {
		<-over // all frames are processed, or the connection is closed
	}
	return done
}

// awaitPing reads until a ping is acknowledged or the connection is closed.
func awaitPing(framer *http2.Framer) {
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			return
		}
		if ping, ok := frame.(*http2.PingFrame); ok && ping.IsAck() {
			return
		}
	}
}

func TestResetStreamsAreCheap(t *testing.T) {
	parallel(t)
	public := newPublicTLS(t)
	g := startGateway(t, everyService(shared.address), unlimited+public.config())
	v, n := newVictim(t, g, newClient(t, public.roots())), either(50_000, 3000)
	r := newResetter(t, g.socket(), public.roots(), tokens(t)["read"].Text)
	connections := 0
	v.checkDuring(t, fmt.Sprintf("%d stream resets", n), func() {
		for done := 0; done < n; connections++ {
			done += r.connection(t, n-done)
		}
	})
	report(t, "17", "connections used, because the gateway closed them", connections, "")
}
