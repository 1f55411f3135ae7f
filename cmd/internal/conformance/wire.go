package conformance

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"opsgate/proto/contract"
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

// call calls the method with a deadline as gRPC writes it (`1n`, `50m`). It returns when the service has ended the call, with the code,
// or with CANCELLED if it has reset the stream. An error says that it could not be called, or that ctx has ended before.
func (w *wire) call(ctx context.Context, method contract.Method, timeout string, request proto.Message) (codes.Code, error) {
	message, err := proto.Marshal(request)
	if err != nil {
		return 0, err
	}
	frame := binary.BigEndian.AppendUint32(make([]byte, 1, frameHead+len(message)), uint32(len(message)))
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.base+method.Path(), bytes.NewReader(append(frame, message...)))
	if err != nil {
		return 0, err
	}
	r.Header.Set("Content-Type", "application/grpc")
	r.Header.Set("Te", "trailers")
	r.Header.Set("Grpc-Timeout", timeout)
	response, err := w.client.Do(r)
	if err != nil {
		return resetOr(ctx, err)
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return resetOr(ctx, err)
	}
	return codeOf(response), nil
}

// A streamError is what the standard library's HTTP/2 says of a stream that was reset. It does not export its own type, and fills any
// with these fields.
type streamError struct {
	StreamID uint32
	Code     uint32
	Cause    error
}

func (e streamError) Error() string {
	return fmt.Sprintf("stream %d was reset: %d", e.StreamID, e.Code)
}

// resetOr tells a stream that the service has reset from what else went wrong.
func resetOr(ctx context.Context, err error) (codes.Code, error) {
	if _, reset := errors.AsType[streamError](err); reset && ctx.Err() == nil {
		return codes.Canceled, nil
	}
	return 0, cmp.Or(ctx.Err(), err)
}

// codeOf returns the code in the trailer; an answer without a body has it in its header.
func codeOf(response *http.Response) codes.Code {
	for _, header := range []http.Header{response.Trailer, response.Header} {
		if code, err := strconv.ParseUint(header.Get("Grpc-Status"), 10, 32); err == nil {
			return codes.Code(code)
		}
	}
	return codes.Unknown
}
