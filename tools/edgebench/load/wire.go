package load

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
)

var (
	contentLength    = []byte("content-length")
	transferEncoding = []byte("transfer-encoding")
	chunkedCoding    = []byte("chunked")
)

// skipResponse reads one response to its end. A status other than 200 is an error with the beginning of the body.
func skipResponse(r *bufio.Reader) error {
	status, length, err := readHead(r)
	switch {
	case err != nil:
		return err
	case status != http.StatusOK:
		excerpt, _ := r.Peek(min(max(r.Buffered(), 1), 300))
		return fmt.Errorf("status %d: %s", status, excerpt)
	}
	return skipBody(r, length)
}

// readHead reads a response up to its body, and returns the status and the length of the body.
func readHead(r *bufio.Reader) (status, length int, err error) {
	line, err := readLine(r)
	if err != nil {
		return 0, 0, fmt.Errorf("read status: %w", err)
	}
	_, rest, _ := bytes.Cut(line, []byte(" "))
	if status, err = strconv.Atoi(string(rest[:min(len(rest), 3)])); err != nil {
		return 0, 0, fmt.Errorf("status %q", line)
	}
	if length, err = skipHeader(r); err != nil {
		return 0, 0, fmt.Errorf("read headers: %w", err)
	}
	return status, length, nil
}

func skipBody(r *bufio.Reader, length int) error {
	if length == chunked {
		return skipChunks(r)
	}
	_, err := r.Discard(length)
	return err
}

// chunked is the length of a chunked body.
const chunked = -1

// skipHeader reads the header and returns the length of the body that follows.
func skipHeader(r *bufio.Reader) (length int, err error) {
	framed := false
	for {
		line, err := readLine(r)
		switch {
		case err != nil:
			return 0, err
		case len(line) == 0 && !framed:
			return 0, errors.New("the response has no length")
		case len(line) == 0:
			return length, nil
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimSpace(value)
		switch {
		case bytes.EqualFold(name, contentLength):
			if length, err = strconv.Atoi(string(value)); err != nil || length < 0 {
				return 0, fmt.Errorf("content length %q", value)
			}
			framed = true
		case bytes.EqualFold(name, transferEncoding) && bytes.EqualFold(value, chunkedCoding):
			length, framed = chunked, true
		}
	}
}

// skipChunks reads a chunked body (RFC 9112, 7.1) and its trailers.
func skipChunks(r *bufio.Reader) error {
	for {
		line, err := readLine(r)
		if err != nil {
			return fmt.Errorf("read chunk size: %w", err)
		}
		digits, _, _ := bytes.Cut(line, []byte(";"))
		size, err := strconv.ParseUint(string(digits), 16, 31)
		if err != nil {
			return fmt.Errorf("chunk size %q", line)
		}
		if size == 0 {
			return skipTrailers(r)
		}
		if _, err := r.Discard(int(size)); err != nil {
			return fmt.Errorf("read chunk: %w", err)
		}
		if end, err := readLine(r); err != nil || len(end) != 0 {
			return errors.New("a chunk is longer than its size")
		}
	}
}

func skipTrailers(r *bufio.Reader) error {
	for {
		line, err := readLine(r)
		if err != nil {
			return fmt.Errorf("read trailers: %w", err)
		}
		if len(line) == 0 {
			return nil
		}
	}
}

// readLine returns the next line without its end. The line is valid until the next read.
func readLine(r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadSlice('\n')
	if errors.Is(err, io.EOF) {
		return nil, io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, err
	}
	return bytes.TrimRight(line, "\r\n"), nil
}
