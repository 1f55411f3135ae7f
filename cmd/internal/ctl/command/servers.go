package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/google/uuid"

	"opsgate/cmd/internal/ctl/apiclient"
	"opsgate/cmd/internal/kit/commandline"
)

type me struct{}

// Run prints the identity of the token.
func (me) Run(ctx context.Context, p *program) error {
	return printOne(p, []column[apiclient.TokenIdentity]{
		{"TEAM", func(t apiclient.TokenIdentity) any { return t.TeamId }},
		{"TOKEN ID", func(t apiclient.TokenIdentity) any { return t.TokenId }},
		{"SCOPES", func(t apiclient.TokenIdentity) any { return t.Scopes }},
	}, nil, func(c *apiclient.Client) (*http.Response, error) { return c.V1Me(ctx) })
}

type serverGroup struct {
	List              serverList              `cmd:"" help:"List the servers."`
	Get               serverGet               `cmd:"" help:"Show a server."`
	Metrics           serverMetrics           `cmd:"" help:"Show what a server reported of processor, memory and disk."`
	Commands          serverCommands          `cmd:"" help:"List the commands that ran on a server, newest first."`
	ScheduledCommands serverScheduledCommands `cmd:"" help:"List the scheduled commands of a server."`
}

// serverID is the argument of commands about a server.
type serverID struct {
	ID uuid.UUID `arg:"" help:"ID of the server."`
}

func serverColumns() []column[apiclient.Server] {
	return []column[apiclient.Server]{
		{columnID, func(s apiclient.Server) any { return s.Id }},
		{"NAME", func(s apiclient.Server) any { return s.Name }},
		{"HOST", func(s apiclient.Server) any { return s.Host }},
		{"OS", func(s apiclient.Server) any { return s.Os }},
		{"TAGS", func(s apiclient.Server) any { return s.Tags }},
		{"GROUP", func(s apiclient.Server) any { return s.GroupId }},
		{"LAST SEEN", func(s apiclient.Server) any { return s.LastSeenAt }},
	}
}

type serverList struct{}

// Run prints the servers.
func (serverList) Run(ctx context.Context, p *program) error {
	return printList(p, serverColumns(), func(c *apiclient.Client) (*http.Response, error) { return c.V1ListServers(ctx) })
}

type serverGet struct{ serverID }

// Run prints a server.
func (g serverGet) Run(ctx context.Context, p *program) error {
	columns := append(serverColumns(), column[apiclient.Server]{"CREATED", func(s apiclient.Server) any { return s.CreatedAt }})
	return printOne(p, columns, nil, func(c *apiclient.Client) (*http.Response, error) { return c.V1GetServer(ctx, g.ID) })
}

type serverMetrics struct {
	serverID

	Range string `enum:"1h,24h,7d,30d" default:"24h" help:"Length of the series, which ends now (${default}): ${enum}."`
}

// Run prints the points, oldest first; as JSON, the series.
func (m serverMetrics) Run(ctx context.Context, p *program) error {
	columns := []column[apiclient.MetricPoint]{
		{"AT", func(m apiclient.MetricPoint) any { return m.At }},
		{"CPU %", func(m apiclient.MetricPoint) any { return m.CpuPercent }},
		{"RAM USED MB", func(m apiclient.MetricPoint) any { return m.RamUsedMb }},
		{"RAM TOTAL MB", func(m apiclient.MetricPoint) any { return m.RamTotalMb }},
		{"DISK USED GB", func(m apiclient.MetricPoint) any { return m.DiskUsedGb }},
		{"DISK TOTAL GB", func(m apiclient.MetricPoint) any { return m.DiskTotalGb }},
	}
	wanted := apiclient.MetricsRange(m.Range)
	return printOne(p, []column[apiclient.MetricSeries]{
		{"RESOLUTION", func(s apiclient.MetricSeries) any { return s.Resolution }},
		{"RANGE", func(s apiclient.MetricSeries) any { return s.Range }},
	}, func(w io.Writer, s apiclient.MetricSeries) {
		fmt.Fprintln(w)
		writeTable(w, columns, s.Points)
	}, func(c *apiclient.Client) (*http.Response, error) {
		return c.V1GetServerMetrics(ctx, m.ID, &apiclient.V1GetServerMetricsParams{Range: &wanted})
	})
}

type serverCommands struct {
	serverID
	window
}

// Run prints the history.
func (c serverCommands) Run(ctx context.Context, p *program) error {
	return printWalk(p, []column[apiclient.Command]{
		{columnID, func(c apiclient.Command) any { return c.Id }},
		{"CREATED", func(c apiclient.Command) any { return c.CreatedAt }},
		{"STATUS", func(c apiclient.Command) any { return c.Status }},
		{"EXIT", func(c apiclient.Command) any { return c.ExitCode }},
		{"MS", func(c apiclient.Command) any { return c.DurationMs }},
		{"SOURCE", func(c apiclient.Command) any { return c.Source }},
		{"COMMAND", func(c apiclient.Command) any { return c.Command }},
	}, func(s *session) (json.RawMessage, error) {
		return p.walkNumbers(c.window, func(page, size int32) (*http.Response, error) {
			return s.V1ListServerCommands(ctx, c.ID, &apiclient.V1ListServerCommandsParams{Page: &page, PageSize: &size})
		})
	})
}

// printWalk prints a list that walk requests in pages.
func printWalk[T any](p *program, columns []column[T], walk func(*session) (json.RawMessage, error)) error {
	s, err := p.connect(defaultMaxWait)
	if err != nil {
		return err
	}
	items, err := walk(s)
	if err != nil {
		return err
	}
	return printRows(p, columns, items)
}

type serverScheduledCommands struct{ serverID }

// Run prints the scheduled commands.
func (s serverScheduledCommands) Run(ctx context.Context, p *program) error {
	return printList(p, []column[apiclient.ScheduledCommand]{
		{columnID, func(c apiclient.ScheduledCommand) any { return c.Id }},
		{"NAME", func(c apiclient.ScheduledCommand) any { return c.Name }},
		{"ENABLED", func(c apiclient.ScheduledCommand) any { return c.Enabled }},
		{"CRON", func(c apiclient.ScheduledCommand) any { return c.Cron }},
		{"LAST RUN", func(c apiclient.ScheduledCommand) any { return c.LastRunAt }},
		{"EXIT", func(c apiclient.ScheduledCommand) any { return c.LastExitCode }},
		{"FAILURES", func(c apiclient.ScheduledCommand) any { return c.ConsecutiveFailures }},
		{"COMMAND", func(c apiclient.ScheduledCommand) any { return c.Command }},
	}, func(c *apiclient.Client) (*http.Response, error) { return c.V1ListServerScheduledCommands(ctx, s.ID) })
}

type serverGroupGroup struct {
	List serverGroupList `cmd:"" help:"List the groups, in the team's order."`
}

type serverGroupList struct{}

// Run prints the groups.
func (serverGroupList) Run(ctx context.Context, p *program) error {
	return printList(p, []column[apiclient.ServerGroup]{
		{columnID, func(g apiclient.ServerGroup) any { return g.Id }},
		{"NAME", func(g apiclient.ServerGroup) any { return g.Name }},
		{"COLOR", func(g apiclient.ServerGroup) any { return g.Color }},
		{"POSITION", func(g apiclient.ServerGroup) any { return g.Position }},
	}, func(c *apiclient.Client) (*http.Response, error) { return c.V1ListServerGroups(ctx) })
}

// readText returns a text of the command line; - stands for standard input.
func (p *program) readText(text string) (string, error) {
	if text != "-" {
		return text, nil
	}
	const limit = 1 << 20
	input, err := io.ReadAll(io.LimitReader(p.In, limit+1))
	if err != nil {
		return "", fmt.Errorf("read standard input: %w", err)
	}
	if len(input) > limit {
		return "", commandline.UsageError{Err: errors.New("standard input is larger than 1 MiB")}
	}
	return string(input), nil
}
