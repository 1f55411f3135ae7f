package wiring_test

import (
	"net"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc"

	"opsgate/cmd/internal/test/servicestest"
	"opsgate/internal/testkit"
	"opsgate/internal/testkit/grpctest"
	fleetv1 "opsgate/proto/ops/fleet/v1"
)

// onlyFleet serves the fleet service alone at an address, and returns the address with its port.
func onlyFleet(t *testing.T, at string) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", at)
	testkit.Must(t, err)
	server := grpc.NewServer()
	fleetv1.RegisterFleetServiceServer(server, fleetv1.UnimplementedFleetServiceServer{})
	grpctest.Serve(t, server, listener)
	return listener.Addr().String()
}

// A gateway that starts with identity at the address of fleet is not ready until it has the right
// address.
func TestGatewayThatStartsWithAWrongServiceIsNotReady(t *testing.T) {
	services := servicestest.Start(t)
	services.Sends = true
	address := onlyFleet(t, "127.0.0.1:0")
	r := startWith(t, services, limits(100), "OPSGATE_UPSTREAMS_IDENTITY_ADDRESS="+address)
	var got response
	testkit.Eventually(t, "the gateway is not ready for that reason", func() bool {
		got = r.readiness(t, "not_ready")
		return got.status == 503 && strings.Contains(got.body, `"fleet":{"state":"ready"}`) &&
			strings.Contains(got.body, "1 of 1 addresses of upstreams.identity.address answer as another service")
	})
	if strings.Contains(got.body, address) {
		t.Errorf("an address is on the readiness page: %s", got.body)
	}
	if line := r.await(t, "wrong service at this address"); line["service"] != "identity" || line["address"] != address {
		t.Errorf("logged %v", line)
	}
	if state := r.metric(t, `opsgate_readiness{state="not_ready"}`); state != "1" || !strings.Contains(r.unavailable(t), "identity") {
		t.Errorf("not ready in the metrics: %q, unavailable: %q", state, r.unavailable(t))
	}
	r.env.Store(new([]string))
	testkit.Must(t, r.reload(t, limits(200)))
	r.readiness(t, "ready")
	r.mustAdmit(t, 200)
}

// The address of another service is refused with its key. A service that is replaced by another one
// while the gateway runs is reported, and the gateway stays ready.
func TestReloadRefusesTheAddressOfAnotherService(t *testing.T) {
	services := servicestest.Start(t)
	services.Sends = true
	address := testkit.FreeAddress(t)
	listener, err := net.Listen("tcp", address)
	testkit.Must(t, err)
	stop := services.Serve(t, listener)
	r := startWith(t, services, limits(100), "OPSGATE_UPSTREAMS_INCIDENT_ADDRESS="+address)
	r.readiness(t, "ready")
	good := r.env.Swap(&[]string{"OPSGATE_UPSTREAMS_INCIDENT_ADDRESS=" + onlyFleet(t, "127.0.0.1:0")})
	refusal := "OPSGATE_UPSTREAMS_INCIDENT_ADDRESS: upstreams.incident.address: wrong service at this address: "
	if err := r.reload(t, limits(200)); err == nil || !strings.Contains(err.Error(), refusal) {
		t.Errorf("got %v", err)
	}
	r.mustAdmit(t, 100)
	if lines := r.lines("wrong service at this address"); len(lines) > 0 {
		t.Errorf("a refused address is logged as one in use: %v", lines)
	}
	r.env.Store(good)
	testkit.Must(t, r.reload(t, limits(200)))
	r.readiness(t, "ready")

	stop()
	onlyFleet(t, address)
	r.await(t, "wrong service at this address")
	if got := r.readiness(t, "degraded"); got.status != http.StatusOK || !strings.Contains(got.body, "of upstreams.incident.address answer as another service") {
		t.Errorf("got %+v", got)
	}
	r.mustAdmit(t, 200)
}
