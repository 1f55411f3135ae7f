package command

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/google/uuid"

	"opsgate/cmd/internal/ctl/apiclient"
)

type monitorGroup struct {
	List   monitorList   `cmd:"" help:"List the monitors."`
	Checks monitorChecks `cmd:"" help:"List the results of a monitor's checks, newest first."`
}

type monitorList struct{}

// Run prints the monitors.
func (monitorList) Run(ctx context.Context, p *program) error {
	return printList(p, []column[apiclient.Monitor]{
		{columnID, func(m apiclient.Monitor) any { return m.Id }},
		{"NAME", func(m apiclient.Monitor) any { return m.Name }},
		{"TYPE", func(m apiclient.Monitor) any { return m.Type }},
		{"STATUS", func(m apiclient.Monitor) any { return m.Status }},
		{"ENABLED", func(m apiclient.Monitor) any { return m.Enabled }},
		{"UPTIME %", func(m apiclient.Monitor) any { return m.UptimePercent }},
		{"LAST CHECK", func(m apiclient.Monitor) any { return m.LastCheckAt }},
		{"TARGET", func(m apiclient.Monitor) any { return m.Target }},
	}, func(c *apiclient.Client) (*http.Response, error) { return c.V1ListMonitors(ctx) })
}

type monitorChecks struct {
	ID    uuid.UUID `arg:"" help:"ID of the monitor."`
	Since *instant  `placeholder:"TIME" help:"The earliest check, as 2026-01-02T03:04:05Z; by default those of the last 24 hours."`
}

// Run prints the checks.
func (m monitorChecks) Run(ctx context.Context, p *program) error {
	return printList(p, []column[apiclient.MonitorCheck]{
		{"CHECKED", func(c apiclient.MonitorCheck) any { return c.CheckedAt }},
		{"STATUS", func(c apiclient.MonitorCheck) any { return c.Status }},
		{"LATENCY MS", func(c apiclient.MonitorCheck) any { return c.LatencyMs }},
	}, func(c *apiclient.Client) (*http.Response, error) {
		return c.V1ListMonitorChecks(ctx, m.ID, &apiclient.V1ListMonitorChecksParams{Since: (*time.Time)(m.Since)})
	})
}

// instant is a time of the command line.
type instant time.Time

// UnmarshalText is called by the parser.
func (i *instant) UnmarshalText(text []byte) error {
	at, err := time.Parse(time.RFC3339, string(text))
	if err != nil {
		return fmt.Errorf("%q is not a time like 2026-01-02T03:04:05Z", text)
	}
	*i = instant(at)
	return nil
}

type statusPageGroup struct {
	List      statusPageList      `cmd:"" help:"List the status pages."`
	Get       statusPageGet       `cmd:"" help:"Show a status page and its components."`
	Incidents statusPageIncidents `cmd:"" help:"List the incidents that a status page shows, newest first."`
}

// statusPageID is the argument of commands about a status page.
type statusPageID struct {
	ID uuid.UUID `arg:"" help:"ID of the status page."`
}

type statusPageList struct{}

// Run prints the status pages.
func (statusPageList) Run(ctx context.Context, p *program) error {
	return printList(p, []column[apiclient.StatusPage]{
		{columnID, func(s apiclient.StatusPage) any { return s.Id }},
		{"NAME", func(s apiclient.StatusPage) any { return s.Name }},
		{"STATUS", func(s apiclient.StatusPage) any { return s.OverallStatus }},
		{"VISIBILITY", func(s apiclient.StatusPage) any { return s.Visibility }},
		{"SUSPENDED", func(s apiclient.StatusPage) any { return s.Suspended }},
		{"HOST NAME", func(s apiclient.StatusPage) any { return s.UniqueHostname }},
	}, func(c *apiclient.Client) (*http.Response, error) { return c.V1ListStatusPages(ctx) })
}

type statusPageGet struct{ statusPageID }

// Run prints the page and its components.
func (s statusPageGet) Run(ctx context.Context, p *program) error {
	components := []column[apiclient.Component]{
		{columnID, func(c apiclient.Component) any { return c.Id }},
		{"COMPONENT", func(c apiclient.Component) any { return c.Name }},
		{"GROUP", func(c apiclient.Component) any { return c.GroupName }},
		{"STATUS", func(c apiclient.Component) any { return c.Status }},
	}
	return printOne(p, []column[apiclient.StatusPageWithComponents]{
		{columnID, func(s apiclient.StatusPageWithComponents) any { return s.Id }},
		{"NAME", func(s apiclient.StatusPageWithComponents) any { return s.Name }},
		{"STATUS", func(s apiclient.StatusPageWithComponents) any { return s.OverallStatus }},
		{"VISIBILITY", func(s apiclient.StatusPageWithComponents) any { return s.Visibility }},
		{"SUSPENDED", func(s apiclient.StatusPageWithComponents) any { return s.Suspended }},
		{"HOST NAME", func(s apiclient.StatusPageWithComponents) any { return s.UniqueHostname }},
		{"SLUG", func(s apiclient.StatusPageWithComponents) any { return s.Slug }},
		{"DESCRIPTION", func(s apiclient.StatusPageWithComponents) any { return s.Description }},
		{"COLOR", func(s apiclient.StatusPageWithComponents) any { return s.PrimaryColor }},
		{"CREATED", func(s apiclient.StatusPageWithComponents) any { return s.CreatedAt }},
	}, func(w io.Writer, s apiclient.StatusPageWithComponents) {
		fmt.Fprintln(w)
		writeTable(w, components, s.Components)
	}, func(c *apiclient.Client) (*http.Response, error) { return c.V1GetStatusPage(ctx, s.ID) })
}

type statusPageIncidents struct{ statusPageID }

// Run prints the incidents that the page shows.
func (s statusPageIncidents) Run(ctx context.Context, p *program) error {
	return printList(p, incidentColumns(),
		func(c *apiclient.Client) (*http.Response, error) { return c.V1ListStatusPageIncidents(ctx, s.ID) })
}

type auditGroup struct {
	List auditList `cmd:"" help:"List the entries of the audit log, newest first."`
}

type auditList struct {
	window

	Action string `placeholder:"PREFIX" help:"Only actions that begin with this text, for example incident."`
}

// Run prints the entries.
func (a auditList) Run(ctx context.Context, p *program) error {
	return printWalk(p, []column[apiclient.AuditEntry]{
		{columnID, func(e apiclient.AuditEntry) any { return e.Id }},
		{"TIME", func(e apiclient.AuditEntry) any { return e.CreatedAt }},
		{"ACTION", func(e apiclient.AuditEntry) any { return e.ActionType }},
		{"RESOURCE", func(e apiclient.AuditEntry) any { return e.ResourceType }},
		{"RESOURCE ID", func(e apiclient.AuditEntry) any { return e.ResourceId }},
		{"ADDRESS", func(e apiclient.AuditEntry) any { return e.IpAddress }},
	}, func(s *session) (json.RawMessage, error) {
		return p.walkCursors(a.window, func(limit int32, cursor *string) (*http.Response, error) {
			parameters := &apiclient.V1ListAuditParams{Limit: &limit, Cursor: cursor}
			if a.Action != "" {
				parameters.Action = &a.Action
			}
			return s.V1ListAudit(ctx, parameters)
		})
	})
}
