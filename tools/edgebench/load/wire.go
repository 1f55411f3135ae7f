package load

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
)

var (
	statusOK         = []byte("HTTP/1.1 200 ")
	contentLength    = []byte("content-length")
	transferEncoding = []byte("transfer-encoding")
	chunkedCoding    = []byte("chunked")
)

// skipAnswer reads one answer to its end. An answer other than a 200 is an error with the beginning of its body.
func skipAnswer(r *bufio.Reader) error {
	status, err := readLine(r)
	if err != nil {
		return fmt.Errorf("read status: %w", err)
	}
	refused := ""
	if !bytes.HasPrefix(status, statusOK) {
		refused = string(status) // the line is overwritten by the next
	}
	length, err := skipHeader(r)
	if err != nil {
		return fmt.Errorf("read headers: %w", err)
	}
	if refused != "" {
		excerpt, _ := r.Peek(min(max(r.Buffered(), 1), 300))
		return fmt.Errorf("answered %q: %s", refused, excerpt)
	}
	if length == chunked {
		return skipChunks(r)
	}
	_, err = r.Discard(length)
	return err
}

// chunked stands for a body whose length is not known beforehand.
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
			return 0, errors.New("the answer does not say where it ends")
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
			return errors.New("a chunk is longer than it says")
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

// readLine returns the next line without its end. It is good until the next read.
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
