package console

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"opsgate/cmd/internal/admin"
)

// Frames are the events that all streams send, made once for all who look.
type frames struct {
	state   []byte
	at      time.Time // that state is of
	traffic []byte
	samples uint64 // that the traffic is made of
}

// Events answers with a stream of server-sent events: "state", a [State], once a second; "traffic", a [Traffic], at first and with
// each point of the history. The stream ends when its reader goes away or cannot keep up, and when the gateway drains.
func (c *Console) Events(w http.ResponseWriter, r *http.Request) {
	switch {
	case c.isDraining():
		refuse(w, "draining", "this gateway is draining", time.Second)
		return
	case !c.enter():
		refuse(w, "too_many_streams", strconv.Itoa(maxStreams)+" others look at this gateway already", 10*time.Second)
		return
	}
	defer c.leave()
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("X-Accel-Buffering", "no") // a proxy that gathers events shows the past
	s := &stream{to: w, connection: http.NewResponseController(w), within: c.options.WriteWithin}
	// The listener bounds how long a request may take to be read, and would take this one to have gone away.
	_ = s.connection.SetReadDeadline(time.Time{}) // not every writer in front of a connection can
	c.follow(r.Context(), s)
}

func (c *Console) enter() bool {
	select {
	case c.streams <- struct{}{}:
		return true
	default:
		return false
	}
}

func (c *Console) leave() { <-c.streams }

// refuse answers as the other paths of the listener do.
func refuse(w http.ResponseWriter, code, text string, retryAfter time.Duration) {
	w.Header().Set("Retry-After", strconv.Itoa(int(retryAfter.Seconds())))
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(http.StatusServiceUnavailable)
	_ = json.NewEncoder(w).Encode(admin.Failure{Text: text, Code: code}) // the reader is gone: nobody is left to tell
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
			_ = s.send(c.frames().state) // the last word
			return
		}
	}
}

// frames returns the events as they are now. Those that were made a moment ago, for another reader, are good enough.
func (c *Console) frames() frames {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.options.Clock()
	if age := now.Sub(c.latest.at); c.latest.state == nil || age < 0 || age >= c.options.StateEvery/2 || c.isDraining() {
		c.latest.state, c.latest.at = event("state", c.state()), now
	}
	if samples := c.history.taken(); samples != c.latest.samples {
		c.latest.traffic, c.latest.samples = event("traffic", c.history.traffic()), samples
	}
	return c.latest
}

// event writes an event with its data.
func event(name string, data any) []byte {
	text, _ := json.Marshal(data) // numbers, texts and times: there is nothing in it that JSON has no form for
	return fmt.Appendf(nil, "event: %s\ndata: %s\n\n", name, text)
}

// A stream is the way to one reader.
type stream struct {
	to         http.ResponseWriter
	connection *http.ResponseController
	within     time.Duration
}

// send sends an event, or fails where the reader does not take it in time. That is a matter of the connection, whose deadlines know
// no other clock.
func (s *stream) send(event []byte) error {
	_ = s.connection.SetWriteDeadline(time.Now().Add(s.within)) // as above
	if _, err := s.to.Write(event); err != nil {
		return err
	}
	return s.connection.Flush()
}
