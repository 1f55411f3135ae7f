package certs

import (
	"bytes"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
)

// IsOwn returns a tls.Config.VerifyConnection that requires the server to have exactly the certificate of the file, without a check of
// its name and roots. A command connects to a listener of its own machine at an address like 127.0.0.1, which few certificates name.
func IsOwn(certificate string) func(tls.ConnectionState) error {
	return func(state tls.ConnectionState) error {
		content, err := os.ReadFile(certificate)
		if err != nil {
			return fmt.Errorf("read the listener's certificate: %w", err)
		}
		if len(state.PeerCertificates) == 0 {
			return errors.New("the server has no certificate")
		}
		own, _ := pem.Decode(content)
		if own == nil || !bytes.Equal(own.Bytes, state.PeerCertificates[0].Raw) {
			return fmt.Errorf("the server does not have the certificate of %s", certificate)
		}
		return nil
	}
}
