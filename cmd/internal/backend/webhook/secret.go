package webhook

import (
	"crypto/rand"
	"encoding/base64"
)

// secretSize is the length of a secret in bytes. Standard Webhooks allows 24 to 64; SHA-256 gains nothing from more than 32.
const secretSize = 32

// NewSecret returns a new random secret in the form in which it is stored: [FormatSecret] returns its text.
func NewSecret() []byte {
	secret := make([]byte, secretSize)
	_, _ = rand.Read(secret) // it never fails
	return secret
}

// FormatSecret returns the text of a secret, which libraries of Standard Webhooks take.
func FormatSecret(secret []byte) string {
	return "whsec_" + base64.StdEncoding.EncodeToString(secret)
}
