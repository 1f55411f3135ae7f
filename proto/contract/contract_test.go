package contract_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/timestamppb"

	"opsgate/proto/contract"
	fleetv1 "opsgate/proto/ops/fleet/v1"
	monitoringv1 "opsgate/proto/ops/monitoring/v1"
)

func TestEveryServiceOfTheProtosIsListed(t *testing.T) {
	var listed []string
	for _, s := range contract.Services() {
		listed = append(listed, s.FullName)
	}
	protoregistry.GlobalFiles.RangeFiles(func(file protoreflect.FileDescriptor) bool {
		for i := range file.Services().Len() {
			name := string(file.Services().Get(i).FullName())
			if strings.HasPrefix(name, "ops.") && !slices.Contains(listed, name) {
				t.Errorf("the service %s is not listed", name)
			}
		}
		return true
	})
}

func TestMethodPropertiesComeFromTheProtos(t *testing.T) {
	methods := map[string]contract.Method{}
	for _, m := range contract.Methods() {
		methods[m.String()] = m
	}
	get, create, resolve := methods["fleet/GetServer"], methods["incident/CreateIncident"], methods["identity/ResolveToken"]
	if get.Path() != "/ops.fleet.v1.FleetService/GetServer" || get.Resource() != "server" || get.Writes() || !get.TeamScoped() ||
		get.Rows() != nil || !get.ReturnsIDs() {
		t.Errorf("GetServer: %+v", get)
	}
	if !create.Writes() || create.Resource() != "" || !create.HasRequestField("idempotency_key") {
		t.Errorf("CreateIncident: %+v", create)
	}
	if resolve.TeamScoped() || resolve.ReturnsIDs() {
		t.Errorf("ResolveToken: %+v", resolve)
	}
	if rows := methods["monitoring/ListMonitorChecks"].Rows(); rows == nil || rows.Name() != "checks" {
		t.Errorf("the rows of ListMonitorChecks: %v", rows)
	}
}

func TestReadRequestFillsTheFieldsOfTheTarget(t *testing.T) {
	since := time.Date(2026, 3, 14, 0, 0, 0, 0, time.UTC)
	target := contract.Target{Team: "a team", Resource: "a resource", Since: since}
	want := map[string]proto.Message{
		"monitoring/ListMonitorChecks": &monitoringv1.ListMonitorChecksRequest{
			TeamId: target.Team, MonitorId: target.Resource, Since: timestamppb.New(since),
		},
		"fleet/GetServerMetrics": &fleetv1.GetServerMetricsRequest{
			TeamId: target.Team, ServerId: target.Resource, Range: fleetv1.MetricRange_METRIC_RANGE_LAST_1H,
		},
		"fleet/ListServerCommands": &fleetv1.ListServerCommandsRequest{
			TeamId: target.Team, ServerId: target.Resource, Page: 1, PageSize: contract.MaxPageSize,
		},
	}
	for _, m := range contract.Methods() {
		if want[m.String()] != nil && !proto.Equal(m.ReadRequest(target), want[m.String()]) {
			t.Errorf("%s: got %v, want %v", m, m.ReadRequest(target), want[m.String()])
		}
	}
}
