package demand

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"opsgate/ratelimit"
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
		return l, l.checkDropped()
	case l.Gateways != nil:
		return l, l.checkGateways()
	case l.Started != nil || l.Ended != nil:
		return l, l.checkBoundary()
	case l.Limits != nil:
		return l, l.checkPolicy()
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

func (l *line) checkDropped() error {
	switch {
	case *l != line{Dropped: l.Dropped, From: l.From, To: l.To}:
		return errors.New("has dropped and other fields")
	case l.From == nil && l.To == nil: // as earlier versions write
		return nil
	case !isPlausible(l.From) || !isPlausible(l.To) || l.To.Before(*l.From):
		return errors.New("must have from and to between the years 2000 and 2200, or neither")
	}
	return nil
}

func (l *line) checkPolicy() error {
	switch {
	case *l != line{Policy: l.Policy, Limits: l.Limits}:
		return errors.New("has limits and an event")
	case l.Policy < 1:
		return errors.New("must have the number of the policy in policy")
	}
	_, err := l.policy()
	return err
}

// policy returns the policy of the line's limits.
func (l *line) policy() (*ratelimit.Policy, error) {
	limits := make([]ratelimit.Limit, len(*l.Limits))
	for i, entry := range *l.Limits {
		limits[i] = ratelimit.Limit(entry)
	}
	return ratelimit.NewPolicy(limits)
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
	case l.Operation != "" && !l.Allowed && l.Denied == "":
		return errors.New("has op but is not a request")
	case l.Policy < 0 || l.Policy > 0 && !l.Allowed && l.Denied == "":
		return errors.New("has a negative number in policy, or one that is not of a request")
	case l.Sample != 0:
		return errors.New("has a sample, which belongs in a header")
	case l.From != nil || l.To != nil:
		return errors.New("has from or to, which belong to dropped")
	}
	return nil
}

func isPlausible(t *time.Time) bool {
	return t != nil && t.After(earliest()) && t.Before(latest())
}

func (l *line) event() Event {
	e := Event{
		At: l.At.UTC(), TokenID: l.TokenID, TeamID: l.TeamID, Operation: l.Operation, Allowed: l.Allowed, Denied: l.Denied,
		RetryAfter: time.Duration(l.RetryAfter), Local: l.Local, Cached: l.Cached, Reset: l.Reset,
	}
	if l.RefundOf != nil {
		e.RefundOf = l.RefundOf.UTC()
	}
	return e
}
