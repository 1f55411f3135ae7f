package endpoints

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"

	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
)

// An UnreachableError is why a service gets no calls.
type UnreachableError struct {
	// Reason is a text of this package, without an address or a text of the service.
	Reason string
	// Cause is the error of the connection, the lookup or the probe; "" for none.
	Cause string
}

// Error implements error.
func (e *UnreachableError) Error() string {
	if e.Cause == "" {
		return e.Reason
	}
	return e.Reason + ": " + e.Cause
}

// Unreachable returns why no endpoint gets calls: the failure of the first address that failed,
// else of the lookup of the name. It returns nil while an endpoint is connected and healthy.
func (s *Set) Unreachable() *UnreachableError {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.outliers.members) > 0 {
		return nil
	}
	for _, e := range s.all {
		if e.reason != "" {
			return &UnreachableError{e.reason, e.cause}
		}
	}
	if f := s.FailedLookup(); f != nil {
		return &UnreachableError{reasonName, f.Cause}
	}
	return &UnreachableError{Reason: "no answer yet"}
}

// Reasons that several failures share.
const (
	reasonName     = "the name does not resolve"
	reasonNoAnswer = "no answer"
	reasonNotHTTP2 = "not HTTP/2"
)

// reasonOf returns the reason of a failed connection or health check.
func reasonOf(err error, useTLS bool) string {
	text := err.Error()
	if served, ok := strings.CutPrefix(text, healthFailurePrefix+" health check failed. status="); ok {
		value := healthv1.HealthCheckResponse_ServingStatus_value[served] // UNKNOWN for a value not in the protocol
		return "the health check reports " + healthv1.HealthCheckResponse_ServingStatus(value).String()
	}
	if strings.HasPrefix(text, healthFailurePrefix) {
		return "the health check fails"
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return reasonName
	}
	if reason := tlsReason(err); reason != "" {
		return reason
	}
	if strings.Contains(text, "preface") || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) {
		return prefaceReason(err, useTLS)
	}
	return dialReason(err)
}

// tlsReason returns the reason of a failed TLS handshake, or "".
func tlsReason(err error) string {
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return "TLS: the certificate is for another name"
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return "TLS: the certificate is of an unknown authority"
	}
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok {
		if invalid.Reason == x509.Expired {
			return "TLS: the certificate is not valid now"
		}
		return "TLS: the certificate is not valid"
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return "TLS: the service does not use it"
	}
	text := err.Error()
	if strings.Contains(text, "ALPN") || strings.Contains(text, "tls: no application protocol") {
		return reasonNotHTTP2 + " over TLS (ALPN)"
	}
	if alert, ok := errors.AsType[*net.OpError](err); ok && alert.Op == "remote error" {
		return "TLS: the service refuses the connection: " + alert.Err.Error() // a text of crypto/tls
	}
	if strings.Contains(text, "handshake failed") && !isTimeout(err) {
		return "TLS: the handshake fails"
	}
	return ""
}

// prefaceReason returns the reason of a connection on which HTTP/2 did not begin.
func prefaceReason(err error, useTLS bool) string {
	closed := errors.Is(err, io.EOF) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)
	switch {
	case isTimeout(err):
		return reasonNoAnswer
	case closed && useTLS:
		return "TLS: the service closes the connection; it may refuse the gateway's certificate"
	case closed:
		return reasonNotHTTP2 + ": the service closes the connection; it may require TLS"
	}
	return reasonNotHTTP2
}

// isTimeout reports whether an attempt to connect took too long. gRPC then closes the connection.
func isTimeout(err error) bool {
	timeout, ok := errors.AsType[net.Error](err)
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, net.ErrClosed) || ok && timeout.Timeout()
}

// dialReason returns the reason of an address to which no connection could be made.
func dialReason(err error) string {
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.Is(err, syscall.ENOENT):
		return "the socket does not exist"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "no route to the address"
	case isTimeout(err):
		return reasonNoAnswer
	}
	return "the connection fails"
}
