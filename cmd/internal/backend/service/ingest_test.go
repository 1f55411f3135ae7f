package service_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"opsgate/cmd/internal/backend/audit"
	"opsgate/cmd/internal/backend/store/query"
	"opsgate/internal/testkit"
	fleetv1 "opsgate/proto/ops/fleet/v1"
	ingestv1 "opsgate/proto/ops/ingest/v1"
)

// ago returns a time before the present.
func (s *system) ago(d time.Duration) *timestamppb.Timestamp {
	return timestamppb.New(s.clock.Now().Add(-d))
}

func (s *system) newSample(server string, age time.Duration) *ingestv1.ServerMetrics {
	return &ingestv1.ServerMetrics{
		ServerId: server, At: s.ago(age), CpuPercent: 12.5, RamUsedMb: 100, RamTotalMb: 200, DiskUsedGb: 3, DiskTotalGb: 4,
	}
}

// reported reports metrics and returns the codes of the refused items, as "index:code".
func (s *system) reported(items ...*ingestv1.ServerMetrics) []string {
	s.t.Helper()
	response, err := s.backend.Ingest().ReportMetrics(s.t.Context(), &ingestv1.ReportMetricsRequest{Items: items})
	testkit.Must(s.t, err)
	return refusals(response.GetErrors())
}

func refusals(refused []*ingestv1.ItemError) (list []string) {
	for _, e := range refused {
		list = append(list, fmt.Sprintf("%d:%v", e.GetIndex(), codes.Code(e.GetCode())))
	}
	return list
}

func (s *system) server(t team) *fleetv1.Server {
	s.t.Helper()
	response, err := s.fleet.GetServer(s.t.Context(), &fleetv1.GetServerRequest{TeamId: t.id, ServerId: t.server})
	testkit.Must(s.t, err)
	return response.GetServer()
}

func TestReportMetrics_StoresSamplesOfAnyTeam(t *testing.T) {
	s := startSystem(t)
	a, b := s.team("harbour"), s.team("lighthouse")
	batch := []*ingestv1.ServerMetrics{s.newSample(a.server, time.Minute), s.newSample(a.server, 2*time.Minute), s.newSample(strings.ToUpper(b.server), 0)}
	for range 2 { // a repeated report changes nothing
		if refused := s.reported(batch...); refused != nil {
			t.Fatalf("refused %v", refused)
		}
		batch[0].CpuPercent = 99
	}
	response, err := s.fleet.GetServerMetrics(t.Context(),
		&fleetv1.GetServerMetricsRequest{TeamId: a.id, ServerId: a.server, Range: fleetv1.MetricRange_METRIC_RANGE_LAST_1H})
	testkit.Must(t, err)
	points := response.GetPoints()
	if len(points) != 2 || points[1].GetCpuPercent() != 12.5 || points[1].GetDiskTotalGb() != 4 {
		t.Errorf("points %v", points)
	}
	if seen := s.server(a).GetLastSeenAt(); !proto.Equal(seen, s.ago(time.Minute)) {
		t.Errorf("last seen at %v", seen)
	}
	s.reported(s.newSample(a.server, time.Hour)) // late: it was seen later
	if seen := s.server(a).GetLastSeenAt(); !proto.Equal(seen, s.ago(time.Minute)) {
		t.Errorf("after a late sample, last seen at %v", seen)
	}
	if seen := s.server(b).GetLastSeenAt(); !proto.Equal(seen, s.ago(0)) {
		t.Errorf("the other team's was last seen at %v", seen)
	}
	s.clock.Move(-day) // what was seen before is from the future now
	s.reported(s.newSample(a.server, time.Second))
	if seen := s.server(a).GetLastSeenAt(); !proto.Equal(seen, s.ago(time.Second)) {
		t.Errorf("after the clock was set back, last seen at %v", seen)
	}
}

// A refused item does not affect the others.
func TestReportMetrics_RefusesInvalidSamples(t *testing.T) {
	s, own := startTeam(t)
	changes := []func(*ingestv1.ServerMetrics){
		func(m *ingestv1.ServerMetrics) { m.ServerId = uuid.NewString() },
		func(m *ingestv1.ServerMetrics) { m.ServerId = "web-01" },
		func(m *ingestv1.ServerMetrics) { m.At = s.ago(-61 * time.Second) },
		func(m *ingestv1.ServerMetrics) { m.At = nil },
		func(m *ingestv1.ServerMetrics) { m.At = &timestamppb.Timestamp{Seconds: 1, Nanos: -1} },
		func(m *ingestv1.ServerMetrics) { m.CpuPercent = 100.1 },
		func(m *ingestv1.ServerMetrics) { m.CpuPercent = math.NaN() },
		func(m *ingestv1.ServerMetrics) { m.RamUsedMb = 201 },
		func(m *ingestv1.ServerMetrics) { m.DiskUsedGb = -1 },
		func(m *ingestv1.ServerMetrics) { m.DiskUsedGb, m.DiskTotalGb = 1, math.Inf(1) },
	}
	var batch []*ingestv1.ServerMetrics
	for i, change := range changes {
		sample := s.newSample(own.server, time.Duration(i)*time.Minute)
		change(sample)
		batch = append(batch, sample)
	}
	batch = append(batch, s.newSample(own.server, time.Second), s.newSample(own.server, -time.Minute))
	want := []string{"0:NotFound", "1:NotFound"}
	for i := 2; i < len(changes); i++ {
		want = append(want, fmt.Sprintf("%d:InvalidArgument", i))
	}
	if refused := s.reported(batch...); !slices.Equal(refused, want) {
		t.Errorf("refused %v, want %v", refused, want)
	}
	if n := s.count("server_metrics"); n != 2 {
		t.Errorf("%d samples were stored", n)
	}
}

func TestBatchesAreBoundedAndAtomic(t *testing.T) {
	s, w := startProbed(t)
	var many []*ingestv1.ServerMetrics
	for i := range 501 {
		many = append(many, s.newSample(w.server, time.Duration(i)*time.Second))
	}
	_, err := s.backend.Ingest().ReportMetrics(t.Context(), &ingestv1.ReportMetricsRequest{Items: many})
	if fields := violated(t, err); fields["items"] == "" {
		t.Errorf("501 samples: %v", fields)
	}
	if refused := s.reported(many[1:]...); refused != nil || s.count("server_metrics") != 500 {
		t.Errorf("500 samples: refused %v, stored %d", refused, s.count("server_metrics"))
	}
	s.exec("CREATE TRIGGER refuse BEFORE INSERT ON incidents BEGIN SELECT RAISE(ABORT, 'refused'); END")
	var checks []*ingestv1.MonitorCheck
	for i := range 3 {
		checks = append(checks, &ingestv1.MonitorCheck{MonitorId: w.monitor, CheckedAt: s.ago(time.Duration(i) * time.Minute), Status: "down"})
	}
	if _, err := s.backend.Ingest().RecordChecks(t.Context(), &ingestv1.RecordChecksRequest{Items: checks}); err == nil {
		t.Error("a write failed, but the batch did not")
	}
	if n := s.count("monitor_checks"); n != 0 {
		t.Errorf("%d checks of a batch that failed were stored", n)
	}
}

// A probe that was offline sends its checks at once, in any order.
func TestRecordChecks_AppliesTheRulesInTheOrderOfTheChecks(t *testing.T) {
	s, w := startProbed(t)
	var checks []*ingestv1.MonitorCheck
	for i, status := range []string{"down", "down", "down", "up"} { // newest first
		checks = append(checks, &ingestv1.MonitorCheck{MonitorId: w.monitor, CheckedAt: s.ago(time.Duration(i) * time.Minute), Status: status})
	}
	checks = append(checks, &ingestv1.MonitorCheck{MonitorId: uuid.NewString(), CheckedAt: s.ago(0), Status: "up"})
	written := s.backend.Written()
	for range 2 {
		response, err := s.backend.Ingest().RecordChecks(t.Context(), &ingestv1.RecordChecksRequest{Items: checks})
		testkit.Must(t, err)
		if refused := refusals(response.GetErrors()); !slices.Equal(refused, []string{"4:NotFound"}) {
			t.Errorf("refused %v", refused)
		}
	}
	select {
	case <-written:
	default:
		t.Error("the dispatcher was not woken")
	}
	if got := s.letter(w); got != "d" || len(s.incidents(w.team)) != 1 || s.count("monitor_checks") != 4 {
		t.Errorf("status %s, %d incidents, %d checks", got, len(s.incidents(w.team)), s.count("monitor_checks"))
	}
}

func (s *system) command(id, server, status string) *ingestv1.ServerCommand {
	c := &ingestv1.ServerCommand{
		Id: id, ServerId: server, Command: "uptime", Source: "manual", Status: status, CreatedAt: s.ago(time.Minute),
		Actor: &ingestv1.Actor{Id: "6F2B8F0E-3F5C-4D1A-9B1E-0A7C5D3E2F10", IpAddress: "192.0.2.7"},
	}
	if status != "queued" {
		c.StartedAt = s.ago(50 * time.Second)
	}
	if status != "queued" && status != "running" {
		c.FinishedAt, c.ExitCode = s.ago(48*time.Second), new(int32(3))
	}
	return c
}

// commands reports commands one by one, and returns the codes of the refused ones.
func (s *system) commands(list ...*ingestv1.ServerCommand) (refused []string) {
	s.t.Helper()
	for i, c := range list {
		response, err := s.backend.Ingest().RecordCommands(s.t.Context(), &ingestv1.RecordCommandsRequest{
			Items: []*ingestv1.CommandItem{{Item: &ingestv1.CommandItem_Command{Command: c}}},
		})
		testkit.Must(s.t, err)
		for _, e := range response.GetErrors() {
			refused = append(refused, fmt.Sprintf("%d:%v", i, codes.Code(e.GetCode())))
		}
	}
	return refused
}

func TestRecordCommands_StatusesOnlyGoForward(t *testing.T) {
	s, own := startTeam(t)
	statuses := []string{"queued", "running", "failed"}
	for name, order := range map[string][]string{
		"in order": {"queued", "running", "failed"}, "repeated": {"queued", "queued", "running", "running", "failed", "failed"},
		"lost": {"failed"}, "late": {"running", "queued", "failed", "running", "queued"}, "two ends": {"failed", "succeeded"},
	} {
		id := uuid.NewString()
		for _, status := range order {
			if refused := s.commands(s.command(id, own.server, status)); refused != nil {
				t.Fatalf("%s: refused %v", name, refused)
			}
		}
		response, err := s.fleet.ListServerCommands(t.Context(),
			&fleetv1.ListServerCommandsRequest{TeamId: own.id, ServerId: own.server, Page: 1, PageSize: 1})
		testkit.Must(t, err)
		got := response.GetCommands()[0]
		want := &fleetv1.ServerCommand{
			Id: got.GetId(), Command: "uptime", Source: "manual", Status: statuses[2], ExitCode: new(int32(3)), DurationMs: new(int64(2000)),
			CreatedAt: s.ago(time.Minute), StartedAt: s.ago(50 * time.Second), FinishedAt: s.ago(48 * time.Second),
		}
		if !proto.Equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
		s.exec("DELETE FROM server_commands")
	}
	entries := s.log(own)
	if len(entries) != 5 { // once a command
		t.Fatalf("audit log %v", entries)
	}
	if e := entries[0]; e.GetActionType() != "command.executed" || e.GetActorId() != actor().GetTokenId() || e.GetIpAddress() != "192.0.2.7" {
		t.Errorf("entry %v", e)
	}
	anonymous := s.command(uuid.NewString(), own.server, "queued")
	anonymous.Actor = nil
	s.commands(anonymous)
	if e := s.log(own)[5]; e.GetActorId() != audit.ServiceActor || e.GetIpAddress() != audit.ServiceAddress {
		t.Errorf("entry without an actor %v", e)
	}
}

// A command that was cancelled before or while it ran keeps the time of its start.
func TestRecordCommands_EndWithoutAStart(t *testing.T) {
	s, own := startTeam(t)
	for _, before := range []string{"queued", "running"} {
		c := s.command(uuid.NewString(), own.server, "cancelled")
		c.StartedAt, c.ExitCode = nil, nil
		if refused := s.commands(s.command(c.GetId(), own.server, before), c); refused != nil {
			t.Errorf("%s: refused %v", before, refused)
		}
	}
	if n := s.count("server_commands WHERE status = 'cancelled' AND (started_at IS NULL) = (duration_ms IS NULL)"); n != 2 {
		t.Errorf("%d cancelled commands", n)
	}
	if n := s.count("server_commands WHERE duration_ms = 2000"); n != 1 {
		t.Errorf("%d commands with a duration", n)
	}
}

func TestRecordCommands_RefusesInvalidCommands(t *testing.T) {
	s, own := startTeam(t)
	other := s.team("lighthouse")
	taken := uuid.NewString()
	s.commands(s.command(taken, other.server, "queued"))
	var list []*ingestv1.ServerCommand
	var want []string
	for i, c := range []struct {
		status string
		spoil  func(*ingestv1.ServerCommand)
		want   codes.Code
	}{
		{"queued", func(c *ingestv1.ServerCommand) { c.Id = taken }, codes.AlreadyExists},
		{"queued", func(c *ingestv1.ServerCommand) { c.ServerId = own.monitor }, codes.NotFound},
		{"queued", func(c *ingestv1.ServerCommand) { c.Id = "1" }, codes.InvalidArgument},
		{"queued", func(c *ingestv1.ServerCommand) { c.Status = "paused" }, codes.InvalidArgument},
		{"queued", func(c *ingestv1.ServerCommand) { c.Command = strings.Repeat("é", 8<<10) }, codes.InvalidArgument},
		{"queued", func(c *ingestv1.ServerCommand) { c.CreatedAt = nil }, codes.InvalidArgument},
		{"queued", func(c *ingestv1.ServerCommand) { c.StartedAt = s.ago(0) }, codes.InvalidArgument},
		{"queued", func(c *ingestv1.ServerCommand) { c.Actor.Id = "ana" }, codes.InvalidArgument},
		{"queued", func(c *ingestv1.ServerCommand) { c.Actor.IpAddress = "" }, codes.InvalidArgument},
		{"running", func(c *ingestv1.ServerCommand) { c.StartedAt = nil }, codes.InvalidArgument},
		{"running", func(c *ingestv1.ServerCommand) { c.StartedAt = s.ago(time.Hour) }, codes.InvalidArgument},
		{"running", func(c *ingestv1.ServerCommand) { c.ExitCode = new(int32(0)) }, codes.InvalidArgument},
		{"failed", func(c *ingestv1.ServerCommand) { c.FinishedAt = nil }, codes.InvalidArgument},
		{"failed", func(c *ingestv1.ServerCommand) { c.FinishedAt = s.ago(51 * time.Second) }, codes.InvalidArgument},
		{"failed", func(c *ingestv1.ServerCommand) { c.FinishedAt = s.ago(-time.Hour) }, codes.InvalidArgument},
	} {
		command := s.command(uuid.NewString(), own.server, c.status)
		c.spoil(command)
		list, want = append(list, command), append(want, fmt.Sprintf("%d:%v", i, c.want))
	}
	if refused := s.commands(list...); !slices.Equal(refused, want) {
		t.Errorf("refused %v, want %v", refused, want)
	}
	if n := s.count("server_commands"); n != 1 {
		t.Errorf("%d commands were stored", n)
	}
}

func TestRecordCommands_StoresRunsOfScheduledCommands(t *testing.T) {
	s, own := startTeam(t)
	id := uuid.NewString()
	s.insert(func(ctx context.Context, q *query.Queries) error {
		return q.InsertScheduledCommand(ctx, query.InsertScheduledCommandParams{ID: id, TeamID: own.id, ServerID: own.server, Name: "Backup"})
	})
	run := func(id string, age time.Duration, code int32) *ingestv1.CommandItem {
		return &ingestv1.CommandItem{Item: &ingestv1.CommandItem_Run{Run: &ingestv1.ScheduledRun{
			ScheduledCommandId: id, RanAt: s.ago(age), ExitCode: code,
		}}}
	}
	check := func(items []*ingestv1.CommandItem, wantRefused []string, age time.Duration, code, failures int32) {
		t.Helper()
		for range 2 {
			response, err := s.backend.Ingest().RecordCommands(t.Context(), &ingestv1.RecordCommandsRequest{Items: items})
			testkit.Must(t, err)
			if refused := refusals(response.GetErrors()); !slices.Equal(refused, wantRefused) {
				t.Errorf("refused %v, want %v", refused, wantRefused)
			}
		}
		list, err := s.fleet.ListScheduledCommands(t.Context(), &fleetv1.ListScheduledCommandsRequest{TeamId: own.id, ServerId: own.server})
		testkit.Must(t, err)
		got := list.GetScheduledCommands()[0]
		if !proto.Equal(got.GetLastRunAt(), s.ago(age)) || got.GetLastExitCode() != code || got.GetConsecutiveFailures() != failures {
			t.Errorf("%v", got)
		}
	}
	check([]*ingestv1.CommandItem{run(id, 2*time.Hour, 1), run(id, 3*time.Hour, 0), {}, run(own.server, time.Hour, 0), run(id, time.Hour, 2)},
		[]string{"2:InvalidArgument", "3:NotFound"}, time.Hour, 2, 2)
	check([]*ingestv1.CommandItem{run(id, 90*time.Minute, 0)}, nil, time.Hour, 2, 2) // late
	check([]*ingestv1.CommandItem{run(id, time.Minute, 0)}, nil, time.Minute, 0, 0)
	s.clock.Move(-time.Hour) // the last run is from the future now
	check([]*ingestv1.CommandItem{run(id, time.Minute, 3)}, nil, time.Minute, 3, 1)
}
