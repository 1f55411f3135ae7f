package command_test

import (
	"crypto/x509/pkix"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"opsgate/internal/certs/certstest"
	"opsgate/internal/testkit"
	ingestv1 "opsgate/proto/ops/ingest/v1"
)

const reporterSecret = "short-secret"

// secretFile writes a file with secrets of reporters.
func secretFile(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	testkit.Must(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

// report sends an empty report with an authorization on a new connection and returns the code.
func report(t *testing.T, address, authorization string, transport credentials.TransportCredentials) codes.Code {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(transport), grpc.WithNoProxy())
	testkit.Must(t, err)
	defer func() { testkit.Must(t, conn.Close()) }()
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", authorization)
	_, err = ingestv1.NewIngestServiceClient(conn).ReportMetrics(ctx, &ingestv1.ReportMetricsRequest{})
	return status.Code(err)
}

func TestServe_IngestWithASecretOfTheFile(t *testing.T) {
	s := serve(t, "--data-dir", t.TempDir(), "--ingest-listen", "127.0.0.1:0",
		"--ingest-secret-file", secretFile(t, "first-secret-0123456789\r\n\n second-secret-0123456789"))
	for authorization, want := range map[string]codes.Code{
		"Bearer first-secret-0123456789": codes.OK, "bearer second-secret-0123456789": codes.OK,
		"Bearer third-secret-0123456789": codes.Unauthenticated, "Bearer ": codes.Unauthenticated, "": codes.Unauthenticated,
		"first-secret-0123456789": codes.Unauthenticated, "Basic first-secret-0123456789": codes.Unauthenticated,
	} {
		if code := report(t, s.ingest, authorization, insecure.NewCredentials()); code != want {
			t.Errorf("%q: %v", authorization, code)
		}
	}
}

// The roots of reporters are not those of the gateway, and their certificates are sufficient.
func TestServe_IngestWithClientCertificates(t *testing.T) {
	authority, gateways, reporters := certstest.NewAuthority(t, "root"), certstest.NewAuthority(t, "root"), certstest.NewAuthority(t, "root")
	own := authority.Server(t, 1)
	files := certstest.Write(t, own.Certificate, own.Key, gateways.PEM, reporters.PEM)
	s := serve(t, "--data-dir", t.TempDir(), "--tls-cert", files[0], "--tls-key", files[1], "--tls-client-ca", files[2],
		"--ingest-listen", "127.0.0.1:0", "--ingest-client-ca", files[3])
	with := clientsOf(authority)
	for name, c := range map[string]struct {
		transport credentials.TransportCredentials
		want      codes.Code
	}{
		"an agent":       {with(reporters.Client(t, pkix.Name{CommonName: "agent"}, 7).TLS(t)...), codes.OK},
		"the gateway":    {with(gateways.Client(t, pkix.Name{CommonName: "gateway"}, 8).TLS(t)...), codes.Unavailable},
		"no certificate": {with(), codes.Unavailable},
		"plaintext":      {insecure.NewCredentials(), codes.Unavailable},
	} {
		if code := report(t, s.ingest, "", c.transport); code != c.want {
			t.Errorf("%s: %v", name, code)
		}
	}
}

func TestInvalidIngestFlags(t *testing.T) {
	own := certstest.NewAuthority(t, "root").Server(t, 1)
	files := certstest.Write(t, own.Certificate, own.Key)
	secret := secretFile(t, reporterSecret)
	const loopback = "--ingest-listen 127.0.0.1:0 "
	for _, c := range []usage{
		{2, "--ingest-secret-file " + secret, "need --ingest-listen"},
		{2, loopback, "--ingest-listen needs --ingest-secret-file or --ingest-client-ca"},
		{2, "--ingest-listen 9001 --ingest-secret-file " + secret, "needs a host and a port"},
		{2, "--ingest-listen :0 --ingest-secret-file " + secret, "or a loopback address: the secret would be readable"},
		{2, loopback + "--ingest-client-ca " + files[0], "--ingest-client-ca needs --tls-cert and --tls-key"},
		{1, loopback + "--ingest-secret-file " + secret + "x", "open " + secret + "x: no such file"},
		{1, loopback + "--ingest-secret-file " + secretFile(t, " \n"), "has no secret"},
		{1, loopback + "--ingest-secret-file " + secretFile(t, "first-secret-0123456789 second-secret-0123456789"), "has a line with more than a secret"},
		{1, loopback + "--ingest-secret-file " + secret, "has a secret of less than 16 characters"},
	} {
		c.arguments = "serve --listen 127.0.0.1:0 --data-dir " + t.TempDir() + " " + c.arguments
		c.check(t)
	}
}
