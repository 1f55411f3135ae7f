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
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"opsgate/proto/contract"
)

// A rawClient calls gRPC methods over net/http. It sends deadlines but does not enforce them. gRPC's own client ends a call at its
// deadline, so it would hide a service that ignores deadlines.
type rawClient struct {
	base   string
	client *http.Client
}

func newRawClient(address string, settings *tls.Config) *rawClient {
	w := &rawClient{base: "http://"}
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

func (w *rawClient) close() { w.client.CloseIdleConnections() }

// frameHeaderSize is the length of the header of a gRPC message: a flag and the length of the message.
const frameHeaderSize = 5

// A timing is the deadline and the delay of a call.
type timing struct {
	// timeout is the time from the headers to the deadline.
	timeout time.Duration
	// pause is the time between the headers and the message.
	pause time.Duration
}

// call calls the method and returns the code when the service has ended the call, or CANCELLED if the service has reset the stream.
// It returns an error if the call was impossible, or if ctx has ended before.
func (w *rawClient) call(ctx context.Context, method contract.Method, t timing, request proto.Message) (codes.Code, error) {
	message, err := proto.Marshal(request)
	if err != nil {
		return 0, err
	}
	frame := binary.BigEndian.AppendUint32(make([]byte, 1, frameHeaderSize+len(message)), uint32(len(message)))
	body := &delayedBody{Reader: bytes.NewReader(append(frame, message...)), pause: t.pause, closed: make(chan struct{})}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.base+method.Path(), body)
	if err != nil {
		return 0, err
	}
	r.Header.Set("Content-Type", "application/grpc")
	r.Header.Set("Te", "trailers")
	r.Header.Set("Grpc-Timeout", fmt.Sprintf("%dm", t.timeout.Milliseconds()))
	response, err := w.client.Do(r)
	if err != nil {
		return codeOfReset(ctx, err)
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return codeOfReset(ctx, err)
	}
	return codeOf(response), nil
}

// A delayedBody pauses before its first byte. The HTTP/2 client reads it once the headers are sent.
type delayedBody struct {
	*bytes.Reader
	pause  time.Duration
	once   sync.Once
	closed chan struct{}
}

// Read ends the pause early when the body is closed.
func (b *delayedBody) Read(p []byte) (int, error) {
	timer := time.NewTimer(b.pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		b.pause = 0
		return b.Reader.Read(p)
	case <-b.closed:
		return 0, io.ErrClosedPipe
	}
}

// Close may be called several times.
func (b *delayedBody) Close() error {
	b.once.Do(func() { close(b.closed) })
	return nil
}

// A streamError is the error of a stream that was reset. net/http does not export its type, but errors.As converts it to any struct with
// these fields.
type streamError struct {
	StreamID uint32
	Code     uint32
	Cause    error
}

func (e streamError) Error() string {
	return fmt.Sprintf("stream %d was reset: %d", e.StreamID, e.Code)
}

// codeOfReset returns CANCELLED if the service has reset the stream, or else the error.
func codeOfReset(ctx context.Context, err error) (codes.Code, error) {
	if _, reset := errors.AsType[streamError](err); reset && ctx.Err() == nil {
		return codes.Canceled, nil
	}
	return 0, cmp.Or(ctx.Err(), err)
}

// codeOf returns the code in the trailer, or in the header of a response without a body.
func codeOf(response *http.Response) codes.Code {
	for _, header := range []http.Header{response.Trailer, response.Header} {
		if code, err := strconv.ParseUint(header.Get("Grpc-Status"), 10, 32); err == nil {
			return codes.Code(code)
		}
	}
	return codes.Unknown
}
