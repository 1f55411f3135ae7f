package demo_test

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"flag"
	"fmt"
	"hash"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"opsgate/cmd/internal/test/testkit"
	"opsgate/proto/contract"
	auditv1 "opsgate/proto/ops/audit/v1"
	fleetv1 "opsgate/proto/ops/fleet/v1"
	incidentv1 "opsgate/proto/ops/incident/v1"
	monitoringv1 "opsgate/proto/ops/monitoring/v1"
)

var update = flag.Bool("update", false, "record testdata/still.sha256 again")

// The still demo data never changes: clients, recorded answers and documents rely on its ids and numbers. The file has a digest of all
// responses of each method that reads, for all teams, resources and pages, at the time of the data and later.
func TestStillDataIsByteForByteTheSame(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("Go may round the generated metrics differently on other processors, where it fuses multiplications with additions")
	}
	var got strings.Builder
	for _, later := range []time.Duration{0, 17 * time.Minute, 26 * time.Hour} {
		d := digests{}
		s := startSystemAt(t, now().Add(later), grpc.WithUnaryInterceptor(d.intercept))
		s.readEverything(now().Add(later))
		for _, method := range contract.Methods() {
			if _, called := d[method.Path()]; !called && !method.Writes() && method.String() != "identity/WatchRevocations" {
				t.Errorf("readEverything does not call %s", method)
			}
		}
		got.WriteString(d.text(later))
	}
	file := filepath.Join("testdata", "still.sha256")
	if *update {
		testkit.Must(t, os.WriteFile(file, []byte(got.String()), 0o600))
	}
	want, err := os.ReadFile(file)
	testkit.Must(t, err)
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got.String(), "\n")); diff != "" {
		t.Error("the still demo data has changed:\n", diff)
	}
}

// A server with the demo data writes rollups and deletes raw points, and its responses stay the same.
func TestMaintenanceDoesNotChangeTheStillData(t *testing.T) {
	for _, later := range []time.Duration{0, 26 * time.Hour} {
		d := digests{}
		s := startSystemAt(t, now().Add(later), grpc.WithUnaryInterceptor(d.intercept))
		s.readEverything(now().Add(later))
		before := d.text(later)
		clear(d)
		testkit.Must(t, s.backend.Maintain(t.Context()))
		s.readEverything(now().Add(later))
		if diff := cmp.Diff(strings.Split(before, "\n"), strings.Split(d.text(later), "\n")); diff != "" {
			t.Error("maintenance changed the responses:\n", diff)
		}
	}
}

// digests holds a digest of the responses of each method, by its path.
type digests map[string]*digest

type digest struct {
	hash      hash.Hash
	responses int
}

// text returns a line for each method.
func (d digests) text(later time.Duration) string {
	var text strings.Builder
	for _, path := range slices.Sorted(maps.Keys(d)) {
		fmt.Fprintf(&text, "%x  +%v %s, %d responses\n", d[path].hash.Sum(nil), later, path, d[path].responses)
	}
	return text.String()
}

// intercept adds each response to the digest of its method.
func (d digests) intercept(
	ctx context.Context, method string, request, response any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption,
) error {
	if err := invoke(ctx, method, request, response, conn, options...); err != nil {
		return err
	}
	text, err := proto.MarshalOptions{Deterministic: true}.Marshal(response.(proto.Message))
	if err != nil {
		return err
	}
	if d[method] == nil {
		d[method] = &digest{hash: sha256.New()}
	}
	d[method].responses++
	d[method].hash.Write(binary.BigEndian.AppendUint64(nil, uint64(len(text))))
	d[method].hash.Write(text)
	return nil
}

// readEverything reads all that the teams can read.
func (s *system) readEverything(now time.Time) {
	s.t.Helper()
	for _, token := range slices.Sorted(maps.Keys(s.tokens)) {
		if token != "revoked" {
			s.teamOf(token)
		}
	}
	for _, token := range []string{"full", "other_team", "no_plan"} {
		team := s.teamOf(token)
		s.readFleet(team)
		s.readMonitors(team, now)
		s.readPages(team)
		for _, size := range []int32{7, 50, 100} {
			s.walkIncidents(team, size)
			s.walkAudit(team, size, "")
		}
		s.walkAudit(team, 10, "incident.")
		s.walkAudit(team, 100, "monitor.")
	}
}

func (s *system) readFleet(team string) {
	s.t.Helper()
	_, err := s.fleet.ListServerGroups(s.t.Context(), &fleetv1.ListServerGroupsRequest{TeamId: team})
	testkit.Must(s.t, err)
	servers, err := s.fleet.ListServers(s.t.Context(), &fleetv1.ListServersRequest{TeamId: team})
	testkit.Must(s.t, err)
	for _, server := range servers.GetServers() {
		_, err := s.fleet.GetServer(s.t.Context(), &fleetv1.GetServerRequest{TeamId: team, ServerId: server.GetId()})
		testkit.Must(s.t, err)
		_, err = s.fleet.ListScheduledCommands(s.t.Context(),
			&fleetv1.ListScheduledCommandsRequest{TeamId: team, ServerId: server.GetId()})
		testkit.Must(s.t, err)
		for r := fleetv1.MetricRange_METRIC_RANGE_LAST_1H; r <= fleetv1.MetricRange_METRIC_RANGE_LAST_30D; r++ {
			_, err := s.fleet.GetServerMetrics(s.t.Context(),
				&fleetv1.GetServerMetricsRequest{TeamId: team, ServerId: server.GetId(), Range: r})
			testkit.Must(s.t, err)
		}
		for page, last := int32(1), false; !last; page++ {
			commands, err := s.fleet.ListServerCommands(s.t.Context(),
				&fleetv1.ListServerCommandsRequest{TeamId: team, ServerId: server.GetId(), Page: page, PageSize: 20})
			testkit.Must(s.t, err)
			last = len(commands.GetCommands()) == 0
		}
	}
}

func (s *system) readMonitors(team string, now time.Time) {
	s.t.Helper()
	monitors, err := s.monitoring.ListMonitors(s.t.Context(), &monitoringv1.ListMonitorsRequest{TeamId: team})
	testkit.Must(s.t, err)
	for _, monitor := range monitors.GetMonitors() {
		for _, since := range []time.Duration{24 * time.Hour, 30 * 24 * time.Hour} {
			_, err := s.monitoring.ListMonitorChecks(s.t.Context(), &monitoringv1.ListMonitorChecksRequest{
				TeamId: team, MonitorId: monitor.GetId(), Since: timestamppb.New(now.Add(-since)),
			})
			testkit.Must(s.t, err)
		}
	}
}

func (s *system) readPages(team string) {
	s.t.Helper()
	pages, err := s.incident.ListStatusPages(s.t.Context(), &incidentv1.ListStatusPagesRequest{TeamId: team})
	testkit.Must(s.t, err)
	for _, page := range pages.GetStatusPages() {
		_, err := s.incident.GetStatusPage(s.t.Context(), &incidentv1.GetStatusPageRequest{TeamId: team, StatusPageId: page.GetId()})
		testkit.Must(s.t, err)
		_, err = s.incident.ListStatusPageIncidents(s.t.Context(),
			&incidentv1.ListStatusPageIncidentsRequest{TeamId: team, StatusPageId: page.GetId()})
		testkit.Must(s.t, err)
	}
}

func (s *system) walkIncidents(team string, size int32) {
	s.t.Helper()
	for r := (&incidentv1.ListIncidentsRequest{TeamId: team, PageSize: size}); ; {
		page, err := s.incident.ListIncidents(s.t.Context(), r)
		testkit.Must(s.t, err)
		for _, incident := range page.GetIncidents() {
			_, err := s.incident.GetIncident(s.t.Context(), &incidentv1.GetIncidentRequest{TeamId: team, IncidentId: incident.GetId()})
			testkit.Must(s.t, err)
		}
		if r.Cursor = page.GetNextCursor(); r.GetCursor() == "" {
			return
		}
	}
}

func (s *system) walkAudit(team string, size int32, prefix string) {
	s.t.Helper()
	for r := (&auditv1.ListAuditEntriesRequest{TeamId: team, PageSize: size, ActionPrefix: prefix}); ; {
		page, err := s.audit.ListAuditEntries(s.t.Context(), r)
		testkit.Must(s.t, err)
		if r.Cursor = page.GetNextCursor(); r.GetCursor() == "" {
			return
		}
	}
}
