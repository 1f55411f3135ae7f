package webhook_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"opsgate/cmd/internal/backend/webhook"
)

func TestNewSecretIs32RandomBytes(t *testing.T) {
	source := bytes.Repeat([]byte("0123456789abcdef"), 4)
	secret, err := webhook.NewSecret(bytes.NewReader(source))
	if err != nil || !bytes.Equal(secret, source[:32]) {
		t.Errorf("got %q, %v", secret, err)
	}
	if _, err := webhook.NewSecret(strings.NewReader("too short")); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("got %v from a source that ends", err)
	}
}
