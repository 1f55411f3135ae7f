package demo

import (
	"context"
	"fmt"
	"time"

	"opsgate/cmd/internal/backend/store/query"
)

func (t *teamSeeder) insertPages(ctx context.Context) error {
	for i, p := range t.pages {
		row := query.InsertStatusPageParams{
			ID: t.id("page", p.name), TeamID: teamID(t.team), Name: p.name, UniqueHostname: p.host, Slug: p.slug,
			Visibility: p.visibility, PrimaryColor: p.color, Suspended: p.suspended,
			CreatedAt: t.ago(300*day - time.Duration(i)*31*day),
		}
		if p.description != "" {
			row.Description = &p.description
		}
		if err := t.q.InsertStatusPage(ctx, row); err != nil {
			return fmt.Errorf("insert page %s: %w", p.name, err)
		}
		for j, c := range p.components {
			if err := t.insertComponent(ctx, p, c, int64(j+1)); err != nil {
				return fmt.Errorf("insert component %s of page %s: %w", c.name, p.name, err)
			}
		}
	}
	return nil
}

func (t *teamSeeder) insertComponent(ctx context.Context, p page, c component, position int64) error {
	row := query.InsertComponentParams{
		ID: t.id("component", p.name+"/"+c.name), TeamID: teamID(t.team), StatusPageID: t.id("page", p.name),
		Name: c.name, Position: position, Status: c.status,
	}
	if c.group != "" {
		row.GroupName = &c.group
	}
	if c.monitor != "" {
		monitor := t.id("monitor", c.monitor)
		row.MonitorID, row.Status = &monitor, "operational" // its own status, which is not used while it has a monitor
	}
	return t.q.InsertComponent(ctx, row)
}
