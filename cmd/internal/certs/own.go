package certs

import (
	"bytes"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
)

// IsOwn returns what checks that the other side of a connection has the very certificate of the file, whatever its name and roots
// are. Who asks a listener on this machine has an address such as 127.0.0.1, which stands in few certificates.
func IsOwn(certificate string) func(tls.ConnectionState) error {
	return func(state tls.ConnectionState) error {
		content, err := os.ReadFile(certificate)
		if err != nil {
			return fmt.Errorf("read the listener's certificate: %w", err)
		}
		if len(state.PeerCertificates) == 0 {
			return errors.New("who answers has no certificate")
		}
		own, _ := pem.Decode(content)
		if own == nil || !bytes.Equal(own.Bytes, state.PeerCertificates[0].Raw) {
			return fmt.Errorf("who answers does not have the certificate of %s", certificate)
		}
		return nil
	}
}
