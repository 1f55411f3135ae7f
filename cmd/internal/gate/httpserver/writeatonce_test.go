package httpserver

import (
	"errors"
	"io"
	"os"
	"testing"
	"time"
)

func TestWriteAtOnceSendsNothingBeforeTheEnd(t *testing.T) {
	c, client := newConnections(t, 1<<20).connect(t)
	for range 2 { // the buffer is used again
		err := c.WriteAtOnce(func() error {
			_, _ = c.Write([]byte("header "))
			_ = client.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
			if n, err := client.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("read %d bytes and %v", n, err)
			}
			_, err := c.Write([]byte("body"))
			return err
		})
		got := make([]byte, len("header body"))
		_ = client.SetReadDeadline(time.Time{})
		if _, readErr := io.ReadFull(client, got); err != nil || readErr != nil || string(got) != "header body" {
			t.Errorf("got %q, %v, %v", got, err, readErr)
		}
	}
	if _, err := c.Write([]byte("!")); err != nil {
		t.Error(err)
	}
	if n, err := client.Read(make([]byte, 1)); n != 1 {
		t.Errorf("after it: read %d bytes and %v", n, err)
	}
}

func TestWriteAtOnceClosesTheConnectionAfterAnError(t *testing.T) {
	c, client := newConnections(t, 1<<20).connect(t)
	_ = c.SetWriteDeadline(time.Unix(1, 0))
	err := c.WriteAtOnce(func() error {
		_, err := c.Write([]byte("response"))
		return err
	})
	if got, readErr := io.ReadAll(client); !errors.Is(err, os.ErrDeadlineExceeded) || len(got) > 0 || readErr != nil {
		t.Errorf("got %v; the client %q, %v", err, got, readErr)
	}
}
