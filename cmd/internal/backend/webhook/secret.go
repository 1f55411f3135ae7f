package webhook

import (
	"encoding/base64"
	"io"
)

// secretSize is the length of a secret in bytes. Standard Webhooks allows 24 to 64; SHA-256 gains nothing from more than 32.
const secretSize = 32

// NewSecret returns a new secret read from random, in the form in which it is stored: [FormatSecret] returns its text.
func NewSecret(random io.Reader) ([]byte, error) {
	secret := make([]byte, secretSize)
	if _, err := io.ReadFull(random, secret); err != nil {
		return nil, err
	}
	return secret, nil
}

// FormatSecret returns the text of a secret, which libraries of Standard Webhooks take.
func FormatSecret(secret []byte) string {
	return "whsec_" + base64.StdEncoding.EncodeToString(secret)
}
