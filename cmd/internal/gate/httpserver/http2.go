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
	// connectionWindow is a flow control window. With gateway.StreamWindow it admits a body of the
	// default maximum in two round trips; each connection can fill its window.
	connectionWindow = 128 << 10
	headerTableSize  = 4 << 10
	// maxStreams bounds the memory of streams before their handlers run, which no other limit does:
	// with 100, a burst of requests on 600 connections held 370 MB. Their clients admitted no data
	// of responses (a flow control window of 0).
	maxStreams = 20
	// pingAfter limits, together with PingTimeout, the time for a header: the server sends a PING
	// after pingAfter without a frame, and closes the connection if no answer follows. HTTP/2
	// allows no frame between those of a header, so a client that does not end its header cannot
	// answer.
	pingAfter = 15 * time.Second
)

// http2 returns the limits of HTTP/2 connections.
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
