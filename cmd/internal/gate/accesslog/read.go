package accesslog

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// maxLine bounds the bytes of a line. A longer one is skipped.
const maxLine = 1 << 20

// A Summary describes what was read.
type Summary struct {
	From     time.Time `json:"from"` // of the first request
	To       time.Time `json:"to"`
	Requests uint64    `json:"requests"`      // whose limits were decided
	Local    uint64    `json:"local"`         // of them without the shared store
	Missing  uint64    `json:"missing"`       // that gateways decided and did not log
	Others   uint64    `json:"other_lines"`   // of a log, without a decided request
	Skipped  uint64    `json:"skipped_lines"` // not of a log in JSON, or too long
	Warnings []string  `json:"warnings"`

	requestsOf, missingOf map[string]uint64 // by class; of missing ones "" if it is not known
}

// read reads the logs at the paths, which may be compressed with gzip; "-" is in. It calls each for
// each decided request.
func read(paths []string, in io.Reader, each func(*entry)) (Summary, error) {
	r := reader{Summary{Warnings: []string{}, requestsOf: make(map[string]uint64), missingOf: make(map[string]uint64)},
		each}
	for _, path := range paths {
		if err := r.read(path, in); err != nil {
			return r.Summary, err
		}
	}
	if r.Requests == 0 {
		return r.Summary, fmt.Errorf("no access line of a token was found in %d lines; %d are not JSON (log.format: json "+
			"writes it)",
			r.Others+r.Skipped, r.Skipped)
	}
	if r.Missing > 0 {
		r.Warnings = append(r.Warnings, fmt.Sprintf("%d requests have no line: %s", r.Missing, withoutLine))
	}
	return r.Summary, nil
}

const withoutLine = "denials and failures beyond 20 a second, and lines that were dropped"

// A reader reads logs.
type reader struct {
	Summary

	each func(*entry)
}

// read reads a log. Its errors have the path and the number of the line.
func (r *reader) read(path string, in io.Reader) error {
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		defer func() { _ = file.Close() }()
		in = file
	}
	lines := bufio.NewReaderSize(in, maxLine)
	if magic, _ := lines.Peek(2); string(magic) == "\x1f\x8b" {
		unzipped, err := gzip.NewReader(lines)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		lines = bufio.NewReaderSize(unzipped, maxLine)
	}
	for number := 1; ; number++ {
		text, err := lines.ReadSlice('\n')
		for errors.Is(err, bufio.ErrBufferFull) {
			text = []byte("too long")
			_, err = lines.ReadSlice('\n')
		}
		if text = bytes.TrimSpace(text); len(text) > 0 {
			err = cmp.Or(r.line(text), err)
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("%s:%d: %w", path, number, err)
		}
	}
}

// An entry is a line of a gateway's log, as far as it matters here.
type entry struct {
	Time    time.Time `json:"time"`
	Message string    `json:"msg"`

	// Of a request.
	Status       int    `json:"status"`
	Cause        string `json:"cause"`
	Route        string `json:"route"`
	Latency      int64  `json:"latency_us"`
	TeamID       string `json:"team_id"`
	TokenID      string `json:"token_id"`
	Class        string `json:"class"`       // of the token's limits; "" if they were not decided
	LimitClass   string `json:"limit_class"` // that identity named
	Local        bool   `json:"local"`       // they were decided without the shared store
	Refunded     bool   `json:"refunded"`    // the request was given back
	Sampled      bool   `json:"sampled"`
	FailuresOnly bool   `json:"failures_only"`

	// Of a report of lines that were not written.
	Kind   string            `json:"kind"`
	Lines  uint64            `json:"lines"`
	Causes map[string]uint64 `json:"causes"`
}

// at returns when the limits of a request were decided.
func (e *entry) at() time.Time { return e.Time.Add(-time.Duration(e.Latency) * time.Microsecond) }

// deniedBy returns the limit that denied a request; "" if it was admitted.
func (e *entry) deniedBy() string {
	if limit, ok := strings.CutPrefix(e.Cause, "limit:"); ok {
		return limit
	}
	return ""
}

// decode decodes a line, and reports whether it has a JSON object with times to which the clock of
// a memory store can be set. What precedes the object is ignored: kubectl and docker add names.
func (e *entry) decode(text []byte) bool {
	const day = int64(24 * time.Hour / time.Microsecond)
	start := bytes.IndexByte(text, '{')
	return start >= 0 && json.Unmarshal(text[start:], e) == nil &&
		e.Time.Year() > 2000 && e.Time.Year() < 2200 && e.Latency >= 0 && e.Latency <= day
}

func (r *reader) line(text []byte) error {
	var e entry
	if !e.decode(text) {
		r.Skipped++
		return nil
	}
	switch e.Message {
	case "request":
		if e.Class != "" || e.TokenID != "" {
			return r.request(&e)
		}
	case "log lines suppressed":
		r.suppressed(&e)
	case "log lines were dropped because the log was not read":
		r.miss("", e.Lines)
	}
	r.Others++
	return nil
}

func (r *reader) request(e *entry) error {
	switch {
	case e.Sampled:
		return errors.New("the log has only a sample of the successful requests (log.access_sample)")
	case e.FailuresOnly:
		return errors.New("the log has only failures (log.access, log.level)")
	case e.Class == "" && e.Status < 300:
		return errors.New("the line has no class: an earlier version wrote it, whose log may be sampled")
	case e.Class == "": // the request failed before its limits were decided
		r.Others++
		return nil
	}
	at := e.at()
	if r.Requests == 0 || at.Before(r.From) {
		r.From = at
	}
	if at.After(r.To) {
		r.To = at
	}
	r.Requests++
	if r.requestsOf[e.Class]++; e.Local {
		r.Local++
	}
	r.each(e)
	return nil
}

// suppressed counts the suppressed lines of requests whose limits were decided.
func (r *reader) suppressed(e *entry) {
	for cause, n := range e.Causes {
		class, _, denied := strings.Cut(cause, "/")
		switch {
		case e.Kind == "rate_limited" && denied:
			r.miss(class, n)
		case e.Kind == "rate_limited", // the service asked for it
			e.Kind == "failed" && cause != "refund" && cause != "unavailable:limiter" && !strings.HasSuffix(cause, ":identity"):
			r.miss("", n)
		}
	}
}

func (r *reader) miss(class string, n uint64) {
	r.Missing += n
	r.missingOf[class] += n
}
