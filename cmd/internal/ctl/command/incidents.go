package command

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/google/uuid"

	"opsgate/cmd/internal/ctl/apiclient"
)

type incidentGroup struct {
	List    incidentList    `cmd:"" help:"List the incidents, newest first."`
	Get     incidentGet     `cmd:"" help:"Show an incident and its timeline."`
	Create  incidentCreate  `cmd:"" help:"Create an incident. --output id prints its ID alone."`
	Update  incidentUpdate  `cmd:"" help:"Post an update to an incident, which is public on its status page."`
	Resolve incidentResolve `cmd:"" help:"Resolve an incident, by an update."`
}

// incidentID is the argument of commands about an incident.
type incidentID struct {
	ID uuid.UUID `arg:"" help:"ID of the incident."`
}

func incidentColumns() []column[apiclient.Incident] {
	return []column[apiclient.Incident]{
		{columnID, func(i apiclient.Incident) any { return i.Id }},
		{"CREATED", func(i apiclient.Incident) any { return i.CreatedAt }},
		{"STATUS", func(i apiclient.Incident) any { return i.Status }},
		{"IMPACT", func(i apiclient.Incident) any { return i.Impact }},
		{"RESOLVED", func(i apiclient.Incident) any { return i.ResolvedAt }},
		{"TITLE", func(i apiclient.Incident) any { return i.Title }},
	}
}

type incidentList struct{ window }

// Run prints the incidents.
func (l incidentList) Run(ctx context.Context, p *program) error {
	return printWalk(p, incidentColumns(), func(s *session) (json.RawMessage, error) {
		return p.walkCursors(l.window, func(limit int32, cursor *string) (*http.Response, error) {
			return s.V1ListIncidents(ctx, &apiclient.V1ListIncidentsParams{Limit: &limit, Cursor: cursor})
		})
	})
}

type incidentGet struct{ incidentID }

// Run prints an incident and its timeline, oldest update first.
func (g incidentGet) Run(ctx context.Context, p *program) error {
	return printOne(p, []column[apiclient.IncidentWithUpdates]{
		{columnID, func(i apiclient.IncidentWithUpdates) any { return i.Id }},
		{"TITLE", func(i apiclient.IncidentWithUpdates) any { return i.Title }},
		{"STATUS", func(i apiclient.IncidentWithUpdates) any { return i.Status }},
		{"IMPACT", func(i apiclient.IncidentWithUpdates) any { return i.Impact }},
		{"MAINTENANCE", func(i apiclient.IncidentWithUpdates) any { return i.IsMaintenance }},
		{"STATUS PAGE", func(i apiclient.IncidentWithUpdates) any { return i.StatusPageId }},
		{"STARTED", func(i apiclient.IncidentWithUpdates) any { return i.StartedAt }},
		{"CREATED", func(i apiclient.IncidentWithUpdates) any { return i.CreatedAt }},
		{"RESOLVED", func(i apiclient.IncidentWithUpdates) any { return i.ResolvedAt }},
	}, func(w io.Writer, i apiclient.IncidentWithUpdates) {
		for _, u := range i.Updates {
			fmt.Fprintf(w, "\n%s  %s\n", cell(u.CreatedAt), cell(u.Status))
			for line := range strings.Lines(u.Message) {
				fmt.Fprintln(w, "  "+harmless(strings.TrimRight(line, "\r\n")))
			}
		}
	}, func(c *apiclient.Client) (*http.Response, error) { return c.V1GetIncident(ctx, g.ID) })
}

// write has the flags of commands that write.
type write struct {
	IdempotencyKey *string `placeholder:"KEY" help:"With the same key the command is executed once in 24 hours (default: a random key)."`
}

// Validate is called by the parser. An empty key, of a variable that is not set, would not make a job safe to repeat.
func (w write) Validate() error {
	if w.IdempotencyKey != nil && *w.IdempotencyKey == "" {
		return errors.New("--idempotency-key is empty")
	}
	return nil
}

type incidentCreate struct {
	write

	Title      string      `required:"" placeholder:"TEXT" help:"Short title."`
	Status     string      `enum:"investigating,identified,monitoring,resolved" default:"investigating" help:"Status (${default}): ${enum}."`
	Impact     string      `required:"" enum:"none,minor,major,critical" placeholder:"IMPACT" help:"Impact: ${enum}."`
	Message    string      `required:"" placeholder:"TEXT" help:"The first update, for the public; - reads standard input."`
	StatusPage *uuid.UUID  `placeholder:"ID" help:"Status page that shows it. The subscribers of the page are notified."`
	Component  []uuid.UUID `placeholder:"ID" help:"A component that is affected. May be repeated."`
}

// Run creates the incident.
func (c incidentCreate) Run(ctx context.Context, p *program) error {
	message, err := p.readText(c.Message)
	if err != nil {
		return err
	}
	body := apiclient.NewIncident{
		Title: c.Title, Status: apiclient.IncidentStatus(c.Status), Impact: apiclient.IncidentImpact(c.Impact), Message: message,
		StatusPageId: c.StatusPage,
	}
	if len(c.Component) > 0 {
		body.ComponentIds = &c.Component
	}
	return printOne(p, []column[apiclient.CreatedIncident]{
		{columnID, func(i apiclient.CreatedIncident) any { return i.Id }},
		{"TITLE", func(i apiclient.CreatedIncident) any { return i.Title }},
		{"STATUS", func(i apiclient.CreatedIncident) any { return i.Status }},
	}, nil, func(client *apiclient.Client) (*http.Response, error) {
		return client.V1CreateIncident(ctx, &apiclient.V1CreateIncidentParams{IdempotencyKey: c.IdempotencyKey}, body)
	})
}

// update has the flags of commands that post an update.
type update struct {
	incidentID
	write

	NoNotify bool `help:"Do not notify the subscribers of the status page."`
}

// post posts an update and prints it.
func (u update) post(ctx context.Context, p *program, status, message string) error {
	message, err := p.readText(message)
	if err != nil {
		return err
	}
	notify := !u.NoNotify
	body := apiclient.NewIncidentUpdate{Status: apiclient.IncidentStatus(status), Message: message, NotifySubscribers: &notify}
	return printOne(p, []column[apiclient.PostedUpdate]{
		{columnID, func(u apiclient.PostedUpdate) any { return u.Id }},
		{"STATUS", func(u apiclient.PostedUpdate) any { return u.Status }},
	}, nil, func(client *apiclient.Client) (*http.Response, error) {
		return client.V1AddIncidentUpdate(ctx, u.ID, &apiclient.V1AddIncidentUpdateParams{IdempotencyKey: u.IdempotencyKey}, body)
	})
}

type incidentUpdate struct {
	update

	Status  string `required:"" enum:"investigating,identified,monitoring,resolved" placeholder:"STATUS" help:"New status: ${enum}."`
	Message string `required:"" placeholder:"TEXT" help:"The update, for the public; - reads standard input."`
}

// Run posts the update.
func (u incidentUpdate) Run(ctx context.Context, p *program) error {
	return u.post(ctx, p, u.Status, u.Message)
}

type incidentResolve struct {
	update

	Message string `placeholder:"TEXT" help:"The update, for the public (a sentence that it is resolved); - reads standard input."`
}

// Run resolves the incident.
func (r incidentResolve) Run(ctx context.Context, p *program) error {
	return r.post(ctx, p, "resolved", cmp.Or(r.Message, "This incident has been resolved."))
}
