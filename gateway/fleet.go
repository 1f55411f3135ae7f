package gateway

import (
	"math"
	"net/http"

	"opsgate/authn"
	"opsgate/gateway/jsonw"
	fleetv1 "opsgate/proto/ops/fleet/v1"
)

func (a *api) fleetRoutes() []Route {
	const get = http.MethodGet
	return []Route{
		{ID: "v1ListServers", Method: get, Path: "/v1/servers",
			Scope: authn.ServersRead, Service: "fleet", Handle: a.listServers},
		{ID: "v1GetServer", Method: get, Path: "/v1/servers/:id",
			Scope: authn.ServersRead, Service: "fleet", Handle: a.getServer},
		{ID: "v1ListServerGroups", Method: get, Path: "/v1/server-groups",
			Scope: authn.ServersRead, Service: "fleet", Handle: a.listServerGroups},
		{ID: "v1GetServerMetrics", Method: get, Path: "/v1/servers/:id/metrics",
			Scope: authn.MetricsRead, Service: "fleet", Fields: []string{"range"}, Handle: a.getServerMetrics},
		{ID: "v1ListServerScheduledCommands", Method: get, Path: "/v1/servers/:id/scheduled-commands",
			Scope: authn.ScheduledCommandsRead, Service: "fleet", Handle: a.listScheduledCommands},
		{ID: "v1ListServerCommands", Method: get, Path: "/v1/servers/:id/commands",
			Scope: authn.CommandsRead, Service: "fleet", Fields: []string{"page", "pageSize"}, Handle: a.listServerCommands},
	}
}

func (a *api) listServers(r *Request) (Reply, error) {
	resp, err := a.fleet.ListServers(r.Context(), &fleetv1.ListServersRequest{TeamId: r.Team()})
	if err != nil {
		return Reply{}, err
	}
	return show(list(resp.Servers, encodeServer))
}

func (a *api) getServer(r *Request) (Reply, error) {
	resp, err := a.fleet.GetServer(r.Context(), &fleetv1.GetServerRequest{TeamId: r.Team(), ServerId: r.pathID})
	if err != nil {
		return Reply{}, err
	}
	return show(one(resp.Server, encodeServer))
}

func (a *api) listServerGroups(r *Request) (Reply, error) {
	resp, err := a.fleet.ListServerGroups(r.Context(), &fleetv1.ListServerGroupsRequest{TeamId: r.Team()})
	if err != nil {
		return Reply{}, err
	}
	return show(list(resp.ServerGroups, encodeServerGroup))
}

func (a *api) getServerMetrics(r *Request) (Reply, error) {
	q := r.Query()
	metricRange := optionalEnum(q, "range", metricRanges, fleetv1.MetricRange_METRIC_RANGE_LAST_24H)
	if err := q.Err(); err != nil {
		return Reply{}, err
	}
	req := &fleetv1.GetServerMetricsRequest{TeamId: r.Team(), ServerId: r.pathID, Range: metricRange}
	resp, err := a.fleet.GetServerMetrics(r.Context(), req)
	if err != nil {
		return Reply{}, err
	}
	return show(metricsView(metricRange, resp))
}

func (a *api) listScheduledCommands(r *Request) (Reply, error) {
	resp, err := a.fleet.ListScheduledCommands(r.Context(),
		&fleetv1.ListScheduledCommandsRequest{TeamId: r.Team(), ServerId: r.pathID})
	if err != nil {
		return Reply{}, err
	}
	return show(list(resp.ScheduledCommands, encodeScheduledCommand))
}

func (a *api) listServerCommands(r *Request) (Reply, error) {
	q := r.Query()
	page := q.Int("page", 1, math.MaxInt32, 1)
	size := q.Int("pageSize", 1, 100, 20)
	if int64(page)*int64(size) > math.MaxInt32 {
		q.Fail("page", "is too large: page × pageSize must stay below 2147483648")
	}
	if err := q.Err(); err != nil {
		return Reply{}, err
	}
	resp, err := a.fleet.ListServerCommands(r.Context(), &fleetv1.ListServerCommandsRequest{
		TeamId: r.Team(), ServerId: r.pathID, Page: page, PageSize: size,
	})
	if err != nil {
		return Reply{}, err
	}
	return show(commandsView(page, size, resp))
}

var metricRanges = []enumValue[fleetv1.MetricRange]{
	{"1h", fleetv1.MetricRange_METRIC_RANGE_LAST_1H},
	{"24h", fleetv1.MetricRange_METRIC_RANGE_LAST_24H},
	{"7d", fleetv1.MetricRange_METRIC_RANGE_LAST_7D},
	{"30d", fleetv1.MetricRange_METRIC_RANGE_LAST_30D},
}

var metricResolutions = []enumValue[fleetv1.MetricResolution]{
	{"raw", fleetv1.MetricResolution_METRIC_RESOLUTION_RAW},
	{"hourly", fleetv1.MetricResolution_METRIC_RESOLUTION_HOURLY},
}

// encodeServer writes the public fields of a server. It must not write credentials.
func encodeServer(w *jsonw.Writer, s *fleetv1.Server) {
	w.BeginObject()
	writeID(w, "id", s.Id)
	w.String("name", s.Name)
	w.String("host", s.Host)
	w.String("os", s.Os)
	w.Strings("tags", s.Tags)
	writeIDOrNull(w, "groupId", s.GroupId)
	writeTimeOrNull(w, "lastSeenAt", s.LastSeenAt)
	writeTime(w, "createdAt", s.CreatedAt)
	w.EndObject()
}

func encodeServerGroup(w *jsonw.Writer, g *fleetv1.ServerGroup) {
	w.BeginObject()
	writeID(w, "id", g.Id)
	w.String("name", g.Name)
	w.String("color", g.Color)
	w.Int("position", int64(g.Position))
	w.EndObject()
}

func metricsView(metricRange fleetv1.MetricRange, resp *fleetv1.GetServerMetricsResponse) View {
	return func(w *jsonw.Writer) {
		w.BeginObject()
		writeEnum(w, "resolution", metricResolutions, resp.Resolution)
		writeEnum(w, "range", metricRanges, metricRange)
		array(w, "points", resp.Points, encodeMetricPoint)
		w.EndObject()
	}
}

func encodeMetricPoint(w *jsonw.Writer, p *fleetv1.MetricPoint) {
	w.BeginObject()
	writeTime(w, "at", p.At)
	w.Float("cpuPercent", p.CpuPercent)
	w.Float("ramUsedMb", p.RamUsedMb)
	w.Float("ramTotalMb", p.RamTotalMb)
	w.Float("diskUsedGb", p.DiskUsedGb)
	w.Float("diskTotalGb", p.DiskTotalGb)
	w.EndObject()
}

func encodeScheduledCommand(w *jsonw.Writer, c *fleetv1.ScheduledCommand) {
	w.BeginObject()
	writeID(w, "id", c.Id)
	w.String("name", c.Name)
	w.String("command", c.Command)
	w.String("cron", c.Cron)
	w.Bool("enabled", c.Enabled)
	writeTimeOrNull(w, "lastRunAt", c.LastRunAt)
	jsonw.IntOrNull(w, "lastExitCode", c.LastExitCode)
	writeCount(w, "consecutiveFailures", int64(c.ConsecutiveFailures))
	w.EndObject()
}

func commandsView(page, size int32, resp *fleetv1.ListServerCommandsResponse) View {
	return func(w *jsonw.Writer) {
		w.BeginObject()
		atMost(w, resp.Commands, size)
		array(w, "items", resp.Commands, encodeServerCommand)
		writeCount(w, "total", int64(resp.Total))
		w.Int("page", int64(page))
		w.Int("pageSize", int64(size))
		w.EndObject()
	}
}

func encodeServerCommand(w *jsonw.Writer, c *fleetv1.ServerCommand) {
	w.BeginObject()
	writeID(w, "id", c.Id)
	w.String("command", c.Command)
	w.String("source", c.Source)
	w.String("status", c.Status)
	jsonw.IntOrNull(w, "exitCode", c.ExitCode)
	if c.DurationMs == nil {
		w.Null("durationMs")
	} else {
		writeCount(w, "durationMs", *c.DurationMs)
	}
	writeTimeOrNull(w, "startedAt", c.StartedAt)
	writeTimeOrNull(w, "finishedAt", c.FinishedAt)
	writeTime(w, "createdAt", c.CreatedAt)
	w.EndObject()
}
