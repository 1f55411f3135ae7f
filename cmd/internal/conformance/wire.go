package conformance

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"io"
	"net/http"
	"strings"

	"google.golang.org/protobuf/proto"
)

// A wire makes calls whose deadlines it sends and does not keep. gRPC's own client would end them in the service's place, and so
// hide that the service goes on.
type wire struct {
	base   string
	client *http.Client
}

func newWire(address string, settings *tls.Config) *wire {
	w := &wire{base: "http://"}
	transport := &http.Transport{Protocols: new(http.Protocols)}
	if settings == nil {
		transport.Protocols.SetUnencryptedHTTP2(true)
	} else {
		w.base, transport.TLSClientConfig = "https://", settings.Clone()
		transport.Protocols.SetHTTP2(true)
	}
	w.base += strings.TrimLeft(address[strings.LastIndexByte(address, '/')+1:], "/")
	w.client = &http.Client{Transport: transport}
	return w
}

func (w *wire) close() { w.client.CloseIdleConnections() }

// frameHead is what stands before a message: a flag and the length.
const frameHead = 5

// call calls the method with a deadline as gRPC writes it (`1n`, `50m`). It returns when the service has ended the call or ctx has
// ended, and whether the service said that the call succeeded. A service that ends a call by resetting its stream has ended it as well.
func (w *wire) call(ctx context.Context, method, timeout string, request proto.Message) (succeeded bool, err error) {
	message, err := proto.Marshal(request)
	if err != nil {
		return false, err
	}
	frame := binary.BigEndian.AppendUint32(make([]byte, 1, frameHead+len(message)), uint32(len(message)))
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.base+path(method), bytes.NewReader(append(frame, message...)))
	if err != nil {
		return false, err
	}
	r.Header.Set("Content-Type", "application/grpc")
	r.Header.Set("Te", "trailers")
	r.Header.Set("Grpc-Timeout", timeout)
	response, err := w.client.Do(r)
	if err != nil {
		return false, ctx.Err()
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return false, ctx.Err()
	}
	const ok = "0"
	return response.Trailer.Get("Grpc-Status") == ok || response.Header.Get("Grpc-Status") == ok, nil
}
