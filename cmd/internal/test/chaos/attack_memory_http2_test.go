package chaos

import (
	"crypto/tls"
	"errors"
	"io"

	"golang.org/x/net/http2"
)

// connect2 completes a handshake with HTTP/2.
func (a *attacker) connect2() (*http2.Framer, error) {
	config := a.config.Clone()
	config.NextProtos = []string{"h2"}
	a.tls = tls.Client(a.raw, config)
	_, err := io.WriteString(a.tls, http2.ClientPreface)
	framer := http2.NewFramer(a.tls, a.tls)
	return framer, errors.Join(err, framer.WriteSettings(), framer.WriteSettingsAck())
}

func (a *attacker) idle2() error {
	framer, err := a.connect2()
	return errors.Join(err, request2(framer, 0))
}

// request2 sends a request with a header field of that size, and reads the response.
func request2(framer *http2.Framer, size int) error {
	block := headerBlock("/v1/me", extraFields(1, size)...)
	if err := framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block, EndHeaders: true, EndStream: true}); err != nil {
		return err
	}
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			return err
		}
		if frame.Header().StreamID == 1 && frame.Header().Flags.Has(http2.FlagDataEndStream) {
			return nil
		}
	}
}

// halfHeader2 sends 28 KiB of a header without its end.
func (a *attacker) halfHeader2() error {
	framer, err := a.connect2()
	const most = 16_000 // of a frame
	block := headerBlock("/v1/me", extraFields(4, 7_000)...)
	err = errors.Join(err, framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block[:most]}))
	return errors.Join(err, framer.WriteContinuation(1, false, block[most:]))
}

// worst2 is worst with HTTP/2, whose server keeps the buffer of the largest frame.
func (a *attacker) worst2() error {
	framer, err := a.connect2()
	err = errors.Join(err, request2(framer, 12_000))
	err = errors.Join(err, framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 3, BlockFragment: headerBlock("/v1/me", extraFields(30, 0)...)}))
	return errors.Join(err, a.halfRecord())
}
