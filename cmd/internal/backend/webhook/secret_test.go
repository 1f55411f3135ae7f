package webhook_test

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"opsgate/cmd/internal/backend/webhook"
	"opsgate/cmd/internal/test/testkit"
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

// The library of Standard Webhooks reads the text of a secret as its bytes.
func TestLibraryReadsFormattedSecrets(t *testing.T) {
	for range 100 {
		secret, err := webhook.NewSecret(rand.Reader)
		testkit.Must(t, err)
		text := webhook.FormatSecret(secret)
		if !strings.HasPrefix(text, "whsec_") || len(text) != 50 {
			t.Errorf("got %s", text)
		}
		signer, err := standardwebhooks.NewWebhookRaw(secret)
		testkit.Must(t, err)
		verifier, err := standardwebhooks.NewWebhook(text)
		testkit.Must(t, err)
		now := time.Now()
		signature, err := signer.Sign("id", now, []byte("{}"))
		testkit.Must(t, err)
		header := http.Header{}
		header.Set("webhook-id", "id")
		header.Set("webhook-timestamp", strconv.FormatInt(now.Unix(), 10))
		header.Set("webhook-signature", signature)
		if err := verifier.Verify([]byte("{}"), header); err != nil {
			t.Error(err)
		}
	}
}
