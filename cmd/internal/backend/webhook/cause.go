package webhook

import (
	"crypto/x509"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
)

// cause returns why there is no answer. Its text is one of those in
// docs/integrate/notifications.md: other errors may repeat what the receiver sent, such as the path
// of the URL.
func cause(err error) error {
	var (
		address *addressError
		name    *net.DNSError
		number  syscall.Errno
		timeout net.Error
	)
	switch {
	case errors.As(err, &address):
		return address
	case errors.As(err, &name) && name.IsNotFound:
		return errors.New("DNS: the name does not exist")
	case errors.As(err, &name):
		return errors.New("DNS: the lookup failed")
	case errors.As(err, &timeout) && timeout.Timeout():
		return errors.New("timeout: no answer in time")
	case errors.As(err, &number):
		return errors.New(number.Error()) // such as connection refused
	}
	return protocolCause(err)
}

// protocolCause returns why a connection was not usable.
func protocolCause(err error) error {
	var (
		hostname  x509.HostnameError
		authority x509.UnknownAuthorityError
		invalid   x509.CertificateInvalidError
	)
	switch {
	case errors.As(err, &hostname):
		return errors.New("TLS: the certificate is for another name")
	case errors.As(err, &authority):
		return errors.New("TLS: the certificate has no trusted issuer")
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return errors.New("TLS: the certificate has expired or is not valid yet")
	case strings.Contains(err.Error(), "tls: "):
		return errors.New("TLS: the handshake failed")
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the connection was closed without an answer")
	}
	return errors.New("no valid HTTP answer")
}
