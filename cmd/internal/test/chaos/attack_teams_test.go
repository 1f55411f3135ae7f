package chaos

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	fleetv1 "opsgate/proto/ops/fleet/v1"
)

// slowTeam is a fleet service that does not answer the calls of one team, and has no server for others, which it answers at once.
type slowTeam struct {
	fleetv1.UnimplementedFleetServiceServer

	team string
}

// GetServer implements [fleetv1.FleetServiceServer].
func (s *slowTeam) GetServer(ctx context.Context, r *fleetv1.GetServerRequest) (*fleetv1.GetServerResponse, error) {
	if r.GetTeamId() == s.team {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return nil, status.Error(codes.NotFound, "unknown")
}

// Row 33: all calls of one team run into their deadline, more of them than may be in flight. Another team uses the same service, at first
// often, and then so rarely that the timeouts are the only recent calls.
func TestAttackSlowTeam(t *testing.T) {
	parallel(t)
	fleet := &slowTeam{team: teamOf(t, administer(t, shared.data, "token", "list"))}
	behind := everyService(shared.address)
	server := grpc.NewServer()
	fleetv1.RegisterFleetServiceServer(server, fleet)
	behind.fleet = serve(t, server)
	g := startGateway(t, behind, "upstream_calls: {max_in_flight: 40}\nroutes: {v1GetServer: {timeout: 1s}}\n"+unlimited)
	other := load{gateways: []*gateway{g}, tokens: texts(t, "other_team"), rate: either(50.0, 20), clients: 8}
	before := other.during(t, either(5*time.Second, time.Second))
	noneFailed(t, "33", before)
	attack := load{gateways: []*gateway{g}, tokens: texts(t, "full"), rate: 400, clients: mostClients}
	end := attack.start(t)
	sleep(t, either(3*time.Second, 2*time.Second))
	often := other.during(t, either(20*time.Second, 4*time.Second))
	other.rate = .4
	rare := other.during(t, either(20*time.Second, 5*time.Second))
	attacked := end()

	byStatus := map[int]int{}
	for _, a := range attacked {
		byStatus[a.status]++
	}
	report(t, "33", "requests of a team whose calls hang, by status", fmt.Sprint(byStatus), "504 and 503")
	if byStatus[http.StatusGatewayTimeout] == 0 || byStatus[http.StatusServiceUnavailable] == 0 || len(byStatus) != 2 {
		t.Errorf("requests of the team by status: %v", byStatus)
	}
	expectNone(t, "33", fmt.Sprintf("of %d requests of another team to that service, failed", len(often)), len(often.failed()))
	expectNone(t, "33", fmt.Sprintf("of %d requests of another team, one in 2.5 s, failed", len(rare)), len(rare.failed()))
	usual := before.percentile(.99)
	atMostTimes(t, "33", fmt.Sprintf("p99 of the other team (%v without)", tenths(usual)), often.percentile(.99), usual, 3)
	shed := g.metric(t, `opsgate_upstream_refused_requests_total{reason="team_overloaded",service="fleet"}`)
	report(t, "33", "of those, calls above the team's share", shed, "some")
	if overloaded := g.metric(t, `opsgate_upstream_refused_requests_total{reason="overloaded",service="fleet"}`); shed == 0 || overloaded != 0 {
		t.Errorf("%v calls were refused by the team's share, %v by the limit", shed, overloaded)
	}
}
