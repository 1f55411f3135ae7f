package demo

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"opsgate/cmd/internal/backend/store/query"
)

// insertAudit inserts an audit log of some months.
func (t *teamSeeder) insertAudit(ctx context.Context) error {
	r := t.random("audit")
	age := Between(r, 3*time.Minute, 20*time.Minute)
	for i := range t.actions {
		action := Pick(r, actions())
		resource, _, _ := strings.Cut(action, ".")
		row := query.InsertAuditEntryParams{
			ID: t.id("audit", strconv.Itoa(i)), TeamID: t.ID, ActionType: action, ResourceType: resource,
			ResourceID: t.resource(r, resource), ActorID: Pick(r, people(t.team)), IpAddress: Pick(r, addresses()),
			CreatedAt: t.ago(age),
		}
		if err := t.q.InsertAuditEntry(ctx, row); err != nil {
			return fmt.Errorf("insert audit entry %d: %w", i, err)
		}
		if i%50 != 25 { // sometimes two entries have the same time
			age += Between(r, 5*time.Minute, 12*time.Hour)
		}
	}
	return nil
}

// people returns the ids of the team's people, who are the actors of its audit log.
func people(team string) []string {
	var ids []string
	for _, name := range []string{"ada", "grace", "edsger", "barbara"} {
		ids = append(ids, id(team, "user", name))
	}
	return ids
}

// addresses returns the addresses that people act from.
func addresses() []string {
	return []string{"203.0.113.7", "203.0.113.42", "198.51.100.23", "192.0.2.146", "2001:db8::17"}
}

func actions() []string {
	return []string{
		"api_token.created", "api_token.revoked", "command.executed", "command.executed", "command.executed",
		"component.updated", "incident.created", "incident.created", "incident.update_posted", "incident.update_posted",
		"incident.updated", "member.invited", "member.removed", "monitor.created", "monitor.paused", "monitor.updated",
		"scheduled_command.created", "scheduled_command.updated", "server.created", "server.updated",
		"server_group.created", "status_page.created", "status_page.updated", "team.updated", "vault.unlocked",
	}
}

// resource returns the id of a resource of the kind.
func (t *teamSeeder) resource(r *rand.Rand, kind string) string {
	switch kind {
	case "incident":
		return t.incidentID(r.IntN(t.incidents))
	case "monitor":
		return t.id("monitor", Pick(r, t.Monitors).Name)
	case "server":
		return t.id("server", Pick(r, t.Servers).Name)
	case "server_group":
		return t.id("group", Pick(r, t.Groups).Name)
	case "status_page":
		return t.id("page", Pick(r, t.Pages).Name)
	case "team":
		return t.ID
	default: // a resource that only the audit log refers to
		return t.id(kind, strconv.Itoa(r.IntN(20)))
	}
}
