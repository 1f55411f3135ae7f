package gateway

import (
	"net/http"

	"opsgate/authn"
	"opsgate/gateway/jsonw"
	auditv1 "opsgate/proto/ops/audit/v1"
)

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
		View:       page(resp.Entries, limit, encodeAuditEntry, resp.NextCursor),
		NextCursor: resp.NextCursor, CursorIgnored: ignored || resp.CursorIgnored,
	}, nil
}

// encodeAuditEntry writes the public fields of an audit entry. The actor is not public.
func encodeAuditEntry(w *jsonw.Writer, e *auditv1.AuditEntry) {
	w.BeginObject()
	writeID(w, "id", e.Id)
	w.String("actionType", e.ActionType)
	w.String("resourceType", e.ResourceType)
	writeID(w, "resourceId", e.ResourceId)
	w.String("ipAddress", e.IpAddress)
	writeTime(w, "createdAt", e.CreatedAt)
	w.EndObject()
}
