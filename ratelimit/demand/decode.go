package demand

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// Events must be between these times, exclusive, as the clock of a memory store covers some centuries.
func earliest() time.Time { return time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) }
func latest() time.Time   { return time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC) }

// decodeLine decodes and validates a line.
func decodeLine(text []byte) (line, error) {
	var l line
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&l); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return l, errors.New("is not a JSON object")
		}
		return l, err
	}
	if len(bytes.TrimSpace(text[d.InputOffset():])) > 0 {
		return l, errors.New("has text after the JSON object")
	}
	switch {
	case l.Format != 0:
		return l, l.checkHeader()
	case l.Dropped != 0:
		if l != (line{Dropped: l.Dropped}) {
			return l, errors.New("has dropped and other fields")
		}
		return l, nil
	}
	return l, l.checkEvent()
}

func (l *line) checkHeader() error {
	switch {
	case l.Format != format:
		return fmt.Errorf("has format %d; this version reads format %d", l.Format, format)
	case l.Sample <= 0 || l.Sample > 1:
		return fmt.Errorf("has a sample of %v", l.Sample)
	case *l != line{Format: l.Format, Sample: l.Sample}:
		return errors.New("has opsgate_demand and an event")
	}
	return nil
}

func (l *line) checkEvent() error {
	kinds := 0
	for _, set := range []bool{l.Allowed, l.Denied != "", l.RefundOf != nil, l.Reset} {
		if set {
			kinds++
		}
	}
	switch {
	case l.TokenID == "":
		return errors.New("has no token")
	case kinds != 1:
		return errors.New("must have one of allowed, denied, refund_of and reset")
	case !isPlausible(l.At):
		return errors.New("must have a time between the years 2000 and 2200 in at")
	case l.RefundOf != nil && (!isPlausible(l.RefundOf) || l.RefundOf.After(*l.At)):
		return errors.New("must have a refund_of between the year 2000 and the time in at")
	case l.RetryAfter < 0 || l.RetryAfter > 0 && l.Denied == "":
		return errors.New("has a negative retry_after_ns, or one without denied")
	case (l.Local || l.Cached) && !l.Allowed && l.Denied == "":
		return errors.New("has local or cached but is not a request")
	case l.Sample != 0:
		return errors.New("has a sample, which belongs in a header")
	}
	return nil
}

func isPlausible(t *time.Time) bool {
	return t != nil && t.After(earliest()) && t.Before(latest())
}

func (l *line) event() Event {
	e := Event{
		At: l.At.UTC(), TokenID: l.TokenID, TeamID: l.TeamID, Allowed: l.Allowed, Denied: l.Denied,
		RetryAfter: time.Duration(l.RetryAfter), Local: l.Local, Cached: l.Cached, Reset: l.Reset,
	}
	if l.RefundOf != nil {
		e.RefundOf = l.RefundOf.UTC()
	}
	return e
}
