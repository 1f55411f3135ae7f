package gateway

import (
	"net/http"

	"opsgate/authn"
	"opsgate/gateway/jsonw"
	auditv1 "opsgate/proto/ops/audit/v1"
)

// auditRoutes are the operations on the audit log (specification, part 4).
func (a *api) auditRoutes() []Route {
	return []Route{
		{ID: "v1ListAudit", Method: http.MethodGet, Path: "/v1/audit", Scope: authn.AuditRead,
			Service: "audit", Fields: []string{"action", "limit", "cursor"}, Handle: a.listAudit},
	}
}

func (a *api) listAudit(r *Request) (Reply, error) {
	q := r.Query()
	prefix := q.Text("action")
	limit := q.Int("limit", 1, 100, 50)
	cursor, ignored := q.Cursor()
	if err := q.Err(); err != nil {
		return Reply{}, err
	}
	resp, err := a.audit.ListAuditEntries(r.Context(), &auditv1.ListAuditEntriesRequest{
		TeamId: r.Team(), ActionPrefix: prefix, PageSize: limit, Cursor: cursor,
	})
	if err != nil {
		return Reply{}, err
	}
	return Reply{
		View:       page(resp.Entries, encodeAuditEntry, resp.NextCursor),
		NextCursor: resp.NextCursor, CursorIgnored: ignored || resp.CursorIgnored,
	}, nil
}

// encodeAuditEntry writes the public view of an audit entry. Who did it is known to the service and not part of the API.
func encodeAuditEntry(w *jsonw.Writer, e *auditv1.AuditEntry) {
	w.BeginObject()
	w.String("id", e.Id)
	w.String("actionType", e.ActionType)
	w.String("resourceType", e.ResourceType)
	w.String("resourceId", e.ResourceId)
	w.String("ipAddress", e.IpAddress)
	w.Time("createdAt", e.CreatedAt)
	w.EndObject()
}
