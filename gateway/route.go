package gateway

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"opsgate/authn"
	"opsgate/gateway/jsonw"
	"opsgate/gateway/openapi"
)

// A Route is one operation of the API. It is all that the checks, logs, metrics and the description's test know of it: there
// is no second list.
type Route struct {
	ID      string        // operation id (specification, part 4)
	Method  string        // GET rows also serve HEAD
	Path    string        // template, as /v1/servers/:id
	Scope   authn.Scope   // scope that the operation needs; AnyToken where a valid token will do
	Service string        // internal service that answers it: fleet, monitoring, incident or audit; "" for none
	Fields  []string      // query parameters of a GET, body fields of a POST
	Timeout time.Duration // 0 for the gateway's default
	Handle  Handler
}

// AnyToken is the scope of an operation that needs none: a decision, where an empty scope would be an omission.
const AnyToken authn.Scope = "*"

// A Handler answers one operation: it decodes, calls, and says what to show. It knows nothing of HTTP responses.
type Handler func(r *Request) (Reply, error)

// A View writes the public form of a resource. What it does not name is not published.
type View func(w *jsonw.Writer)

// A Reply is a success.
type Reply struct {
	View          View
	NextCursor    string // for the Link header of a page that is not the last
	CursorIgnored bool   // the cursor sent was not recognised: this is the first page
	Replayed      bool   // this is the remembered answer to an Idempotency-Key

	allow    string        // the answer to OPTIONS
	page     *openapi.Page // a page of the documentation, in place of a view
	redirect int           // status of a redirect to the documentation, in place of a view
}

func show(v View) (Reply, error) { return Reply{View: v}, nil }

// routes returns the whole table.
func (a *api) routes() []Route {
	return slices.Concat(a.identityRoutes(), a.fleetRoutes(), a.monitoringRoutes(), a.incidentRoutes(), a.statusPageRoutes(), a.auditRoutes())
}

// checkRoutes refuses a table with a gap in it.
func checkRoutes(routes []Route) error {
	var errs []error
	seen := make(map[string]bool)
	for _, r := range routes {
		key := r.Method + " " + r.Path
		switch {
		case r.ID == "" || r.Handle == nil || r.Path == "":
			errs = append(errs, fmt.Errorf("route %q %s: id, path and handler are required", r.ID, key))
		case r.Method != http.MethodGet && r.Method != http.MethodPost:
			errs = append(errs, fmt.Errorf("route %s: method %q is not served", r.ID, r.Method))
		case r.Scope != AnyToken && !slices.Contains(authn.AllScopes(), r.Scope):
			errs = append(errs, fmt.Errorf("route %s: scope %q: every route decides on a scope that exists", r.ID, r.Scope))
		case seen[key] || seen[r.ID]:
			errs = append(errs, fmt.Errorf("route %s: %s is in the table twice", r.ID, key))
		}
		seen[key], seen[r.ID] = true, true
	}
	return errors.Join(errs...)
}
