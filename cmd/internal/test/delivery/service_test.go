package delivery

import (
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"

	"opsgate/backendclient/testkit"
	incidentv1 "opsgate/proto/ops/incident/v1"
)

// A backendProcess is an opsbackend on one data directory, which can be killed and started again at the same address.
type backendProcess struct {
	*testkit.Process // the current one

	address   string
	arguments []string
	variables []string
	incident  incidentv1.IncidentServiceClient
}

// startService runs opsbackend, which sends to the receivers, until the end of the test.
func startService(t *testing.T, data string, to *receivers, variables ...string) *backendProcess {
	t.Helper()
	s := &backendProcess{address: testkit.FreeAddress(t), variables: variables}
	s.arguments = serveArguments(s.address, data, to)
	s.incident = newIncidentService(t, s.address)
	s.start(t)
	return s
}

// newIncidentService returns a client of the incident service at an address.
func newIncidentService(t *testing.T, address string) incidentv1.IncidentServiceClient {
	t.Helper()
	// The service is away for short times: the default of the delay between connection attempts is a second and more.
	reconnect := backoff.Config{BaseDelay: 10 * time.Millisecond, Multiplier: 1.2, MaxDelay: 50 * time.Millisecond}
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy(),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: reconnect, MinConnectTimeout: time.Second}))
	testkit.Must(t, err)
	t.Cleanup(func() { testkit.Must(t, conn.Close()) })
	return incidentv1.NewIncidentServiceClient(conn)
}

// serveArguments returns the arguments for an opsbackend that sends to the receivers.
func serveArguments(address, data string, to *receivers) []string {
	return []string{
		"serve", "--listen=" + address, "--data-dir=" + data, "--allow-http-webhooks",
		"--smtp=" + to.smtp, "--smtp-tls=none", "--mail-from=status@harbour.example", "--manage-url=https://status.harbour.example/{subscriber}",
	}
}

// start starts the process and waits until it serves.
func (s *backendProcess) start(t *testing.T) {
	t.Helper()
	s.Process = launch(t, "opsbackend", s.variables, s.arguments...)
	s.MustRecord(t, "serving")
}
