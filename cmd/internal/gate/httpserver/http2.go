package httpserver

import (
	"net/http"
	"time"

	"opsgate/gateway"
)

// Limits of HTTP/2 connections that HTTP/1.1 does not have.
const (
	// maxReadFrame is the smallest value that HTTP/2 allows, because the server buffers whole
	// frames.
	maxReadFrame = 16 << 10
	// connectionWindow is the flow control window of a connection: the unread bytes that its client
	// may send. With this window and gateway.StreamWindow, a body of the default maximum size takes
	// two round trips.
	connectionWindow = 128 << 10
	headerTableSize  = 4 << 10
	// maxStreams limits the memory of streams before their handlers run, which no other limit does.
	// With 100 streams, requests on 600 connections whose clients had a flow control window of 0
	// held 370 MB.
	maxStreams = 20
	// pingAfter and PingTimeout together limit the time for a header: the server sends a PING after
	// pingAfter without a frame, and closes the connection if no answer follows. A client that does
	// not end its header cannot answer, because HTTP/2 allows no other frame between the frames of
	// a header.
	pingAfter = 15 * time.Second
)

func (l Limits) http2() *http.HTTP2Config {
	return &http.HTTP2Config{
		MaxConcurrentStreams:          maxStreams,
		MaxReadFrameSize:              maxReadFrame,
		MaxReceiveBufferPerStream:     gateway.StreamWindow,
		MaxReceiveBufferPerConnection: connectionWindow,
		MaxDecoderHeaderTableSize:     headerTableSize,
		MaxEncoderHeaderTableSize:     headerTableSize,
		SendPingTimeout:               pingAfter,
		PingTimeout:                   l.HeaderTimeout,
		WriteByteTimeout:              l.WriteTimeout,
	}
}
