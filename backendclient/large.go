package backendclient

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	protocodec "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"

	"opsgate/internal/shares"
)

const (
	// largeResponse is the size from which a response is large. A smaller response takes less than
	// 1 ms of a processor.
	largeResponse = 64 << 10
	// largePerProcessor is how many bytes of large responses are processed at once, for each
	// processor: 1 MiB takes some 10 ms. More bytes at once would not be faster, but would take
	// several times their size in memory, and all other requests would wait for a processor.
	largePerProcessor = 1 << 20
)

func newLargeResponses() *shares.Queue {
	return shares.NewQueue(int64(runtime.GOMAXPROCS(0)) * largePerProcessor)
}

// A LargeResponse holds a request's part of the limit on large responses. A call with a large
// response waits until the limit has room for the bytes of the response, and then decodes the
// response. If there is no room by the deadline of the call, the call fails with
// [ReasonTeamOverloaded]. One team gets at most half of the limit. When the request's own response
// is encoded, Done returns the bytes.
//
// A call waits only if its context has a LargeResponse, with the key [LargeResponseKey]. The zero
// LargeResponse holds nothing.
type LargeResponse struct {
	of    *shares.Queue
	team  string
	bytes int64
}

// LargeResponseKey is the key of a context's *[LargeResponse].
type LargeResponseKey struct{}

// Done returns the bytes. It is idempotent.
func (l *LargeResponse) Done() {
	if l.bytes > 0 {
		l.of.Release(l.team, l.bytes)
		l.bytes = 0
	}
}

func (l *LargeResponse) take(ctx context.Context, of *shares.Queue, team string, bytes int64) error {
	l.Done() // a request with two large responses would wait for itself
	if err := of.Take(ctx, team, bytes); err != nil {
		return err
	}
	l.of, l.team, l.bytes = of, team, bytes
	return nil
}

// decodeLarge decodes a large response, which the codec has left encoded, as soon as the limit
// allows.
func (u *upstream) decodeLarge(c *call) error {
	defer c.encoded.Free()
	if l, ok := c.ctx.Value(LargeResponseKey{}).(*LargeResponse); ok && c.ctx.team != "" {
		began := time.Now()
		err := l.take(&c.ctx, u.large, c.ctx.team, int64(c.encoded.Len()))
		c.waited = time.Since(began)
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			return newShedError(ReasonTeamOverloaded, 0,
				fmt.Sprintf("the response of %d bytes waited for earlier large responses", c.encoded.Len()))
		case err != nil:
			return status.FromContextError(err).Err()
		}
	}
	if err := encoding.GetCodecV2(protocodec.Name).Unmarshal(c.encoded, c.reply); err != nil {
		return status.Errorf(codes.Internal, "decode the response: %v", err)
	}
	return nil
}

// A codec is gRPC's own codec, except that it leaves a large response encoded, for decodeLarge.
// Unmarshal gets the *call in place of the reply.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2(protocodec.Name)} }

// Name returns "", so that the content type of requests is application/grpc, as without a codec.
func (codec) Name() string { return "" }

// Unmarshal implements [encoding.CodecV2].
func (c codec) Unmarshal(data mem.BufferSlice, reply any) error {
	call, ok := reply.(*call)
	switch {
	case !ok:
		return c.CodecV2.Unmarshal(data, reply)
	case data.Len() < largeResponse:
		return c.CodecV2.Unmarshal(data, call.reply)
	}
	data.Ref()
	call.encoded = data
	return nil
}
