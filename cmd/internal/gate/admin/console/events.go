package console

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"opsgate/cmd/internal/gate/admin"
)

// frames caches the encoded events, which all streams share.
type frames struct {
	state   []byte
	at      time.Time // of state
	traffic []byte
	samples uint64 // number of samples in traffic
}

// Events serves a stream of server-sent events: "state", a [State], once a second; "traffic", a [Traffic], at the start and after
// each sample. The stream ends when the client disconnects or reads too slowly, and when the gateway drains.
func (c *Console) Events(w http.ResponseWriter, r *http.Request) {
	switch {
	case c.isDraining():
		unavailable(w, "draining", "this gateway is draining", time.Second)
		return
	case !c.acquireStream():
		unavailable(w, "too_many_streams", fmt.Sprintf("this gateway has %d streams of events already", maxStreams), 10*time.Second)
		return
	}
	defer c.releaseStream()
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Accel-Buffering", "no") // a proxy that buffers would delay events
	s := &stream{to: w, connection: http.NewResponseController(w), timeout: c.options.WriteTimeout}
	// The listener's read timeout would end the stream. Test writers do not support deadlines, so errors are ignored.
	_ = s.connection.SetReadDeadline(time.Time{})
	c.follow(r.Context(), s)
}

func (c *Console) acquireStream() bool {
	select {
	case c.streams <- struct{}{}:
		return true
	default:
		return false
	}
}

func (c *Console) releaseStream() { <-c.streams }

func unavailable(w http.ResponseWriter, code, text string, retryAfter time.Duration) {
	w.Header().Set("Retry-After", strconv.Itoa(int(retryAfter.Seconds())))
	admin.Respond(w, http.StatusServiceUnavailable, admin.Failure{Text: text, Code: code})
}

// follow sends events until the stream ends.
func (c *Console) follow(ctx context.Context, s *stream) {
	tick := time.NewTicker(c.options.StateEvery)
	defer tick.Stop()
	var sent uint64 // samples
	for {
		frames := c.frames()
		if s.send(frames.state) != nil {
			return
		}
		if frames.samples != sent {
			if s.send(frames.traffic) != nil {
				return
			}
			sent = frames.samples
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		case <-c.drained:
			_ = s.send(c.frames().state)
			return
		}
	}
}

// frames returns the current events. It reuses a state that is younger than half of StateEvery.
func (c *Console) frames() frames {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.options.Clock()
	if age := now.Sub(c.latest.at); c.latest.state == nil || age < 0 || age >= c.options.StateEvery/2 || c.isDraining() {
		c.latest.state, c.latest.at = encodeEvent("state", c.state()), now
	}
	if samples := c.history.sampleCount(); samples != c.latest.samples {
		c.latest.traffic, c.latest.samples = encodeEvent("traffic", c.history.traffic()), samples
	}
	return c.latest
}

func encodeEvent(name string, data any) []byte {
	text, _ := json.Marshal(data) // cannot fail: State and Traffic hold finite numbers, strings and times
	return fmt.Appendf(nil, "event: %s\ndata: %s\n\n", name, text)
}

// stream is the event stream of one client.
type stream struct {
	to         http.ResponseWriter
	connection *http.ResponseController
	timeout    time.Duration
}

// send sends an event. It fails if the client does not read it within the timeout. The deadline of a connection uses the
// system's clock, not Options.Clock.
func (s *stream) send(event []byte) error {
	_ = s.connection.SetWriteDeadline(time.Now().Add(s.timeout)) // test writers do not support deadlines
	if _, err := s.to.Write(event); err != nil {
		return err
	}
	return s.connection.Flush()
}
