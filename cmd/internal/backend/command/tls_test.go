package command_test

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"os"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"opsgate/internal/certs/certstest"
	"opsgate/internal/testkit"
)

// check makes a health check on a new connection and returns the code, and the serial number of the
// server's certificate.
func (s *server) check(transport credentials.TransportCredentials) (code codes.Code, serial int64) {
	s.t.Helper()
	conn, err := grpc.NewClient(s.conn.Target(), grpc.WithTransportCredentials(transport), grpc.WithNoProxy())
	testkit.Must(s.t, err)
	defer func() { testkit.Must(s.t, conn.Close()) }()
	var server peer.Peer
	_, err = healthv1.NewHealthClient(conn).Check(s.t.Context(), &healthv1.HealthCheckRequest{}, grpc.Peer(&server))
	if info, ok := server.AuthInfo.(credentials.TLSInfo); ok {
		serial = info.State.PeerCertificates[0].SerialNumber.Int64()
	}
	return status.Code(err), serial
}

// clientsOf returns a function that returns the transport of a client that trusts the authority and
// has certificates.
func clientsOf(authority *certstest.Authority) func(...tls.Certificate) credentials.TransportCredentials {
	roots := x509.NewCertPool()
	roots.AddCert(authority.Root)
	return func(certificates ...tls.Certificate) credentials.TransportCredentials {
		return credentials.NewTLS(&tls.Config{RootCAs: roots, Certificates: certificates, MinVersion: tls.VersionTLS12})
	}
}

func TestServicesOverTLSRequireAClientCertificate(t *testing.T) {
	authority, clients := certstest.NewAuthority(t, "root"), certstest.NewAuthority(t, "root")
	own := authority.Server(t, 1)
	files := certstest.Write(t, own.Certificate, own.Key, clients.PEM)
	s := serve(t, "--data-dir", t.TempDir(), "--tls-cert", files[0], "--tls-key", files[1], "--tls-client-ca", files[2])
	with := clientsOf(authority)
	gateway := with(clients.Client(t, pkix.Name{CommonName: "gateway"}, 7).TLS(t)...)
	for name, transport := range map[string]credentials.TransportCredentials{
		"plaintext":                           insecure.NewCredentials(),
		"no certificate":                      with(),
		"a certificate of another authority":  with(authority.Client(t, pkix.Name{CommonName: "gateway"}, 8).TLS(t)...),
		"a certificate of a server as client": with(clients.Server(t, 9).TLS(t)...),
	} {
		if code, _ := s.check(transport); code != codes.Unavailable {
			t.Errorf("%s: %v", name, code)
		}
	}
	if code, serial := s.check(gateway); code != codes.OK || serial != 1 {
		t.Errorf("%v with certificate %d", code, serial)
	}
	testkit.Must(t, os.WriteFile(files[2], authority.PEM, 0o600))
	if code, _ := s.check(gateway); code != codes.Unavailable {
		t.Errorf("with other roots: %v", code)
	}
}

func TestWithoutRootsNoClientCertificateIsRequired(t *testing.T) {
	authority := certstest.NewAuthority(t, "root")
	own := authority.Server(t, 1)
	files := certstest.Write(t, own.Certificate, own.Key)
	s := serve(t, "--data-dir", t.TempDir(), "--tls-cert", files[0], "--tls-key", files[1])
	if code, _ := s.check(clientsOf(authority)()); code != codes.OK {
		t.Error(code)
	}
}

func TestInvalidTLSFlags(t *testing.T) {
	own := certstest.NewAuthority(t, "root").Server(t, 1)
	files := certstest.Write(t, own.Certificate, own.Key)
	for _, c := range []usage{
		{2, "--tls-cert " + files[0], "missing [tls-key]"},
		{2, "--tls-key " + files[1], "missing [tls-cert]"},
		{2, "--tls-client-ca " + files[0], "--tls-client-ca needs --tls-cert and --tls-key"},
		{1, "--tls-cert " + files[0] + "x --tls-key " + files[1], "open " + files[0] + "x: no such file"},
		{1, "--tls-cert " + files[0] + " --tls-key " + files[0], "read the certificate in " + files[0] + " with its key in " + files[0]},
		{1, "--tls-cert " + files[0] + " --tls-key " + files[1] + " --tls-client-ca " + files[1], "there is none in " + files[1]},
	} {
		c.arguments = "serve --listen 127.0.0.1:0 --data-dir " + t.TempDir() + " " + c.arguments
		c.check(t)
	}
}
