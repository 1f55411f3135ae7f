package gateway

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"opsgate/authn"
	"opsgate/gateway/apidocs"
	"opsgate/gateway/jsonw"
)

// A Route is a row of the route table: one operation of the API. Checks, logs, metrics and the test
// of the OpenAPI document use this table.
type Route struct {
	ID      string        // operation id
	Method  string        // GET rows also serve HEAD
	Path    string        // template, as /v1/servers/:id
	Scope   authn.Scope   // required scope; anyToken if any token is sufficient
	Service string        // internal service that the handler calls: fleet, monitoring, incident or audit; "" for none
	Fields  []string      // query parameters of a GET, body fields of a POST
	Timeout time.Duration // 0 for the gateway's default
	Handle  Handler

	// The operation is deprecated from Deprecated on, and may be removed after Sunset. Responses
	// have headers of the same names. Both are zero for an operation that stays.
	Deprecated, Sunset time.Time
}

// anyToken is the scope of an operation that requires none. An empty Scope is an error, so that
// none is forgotten.
const anyToken authn.Scope = "*"

// A Handler decodes a request and calls its service. It does not access the HTTP response.
type Handler func(r *Request) (Reply, error)

// A View writes the public fields of a resource.
type View func(w *jsonw.Writer)

// A Reply is a successful response.
type Reply struct {
	View          View
	NextCursor    string // for the Link header of a page that is not the last
	CursorIgnored bool   // the service did not recognize the cursor, so this is the first page
	Replayed      bool   // this is the stored response for an Idempotency-Key

	allow    string        // Allow header of a response to OPTIONS
	page     *apidocs.Page // documentation page, instead of a view
	text     string        // public plain text, instead of a view
	redirect int           // status of a redirect to the documentation, instead of a view
}

func show(v View) (Reply, error) { return Reply{View: v}, nil }

func (a *api) routes() []Route {
	return slices.Concat(a.identityRoutes(), a.fleetRoutes(), a.monitoringRoutes(), a.incidentRoutes(),
		a.statusPageRoutes(), a.auditRoutes())
}

func (r *Route) parameters() []string {
	if r.Method != http.MethodGet {
		return nil
	}
	return r.Fields
}

// deprecation returns the values of the headers Deprecation (RFC 9745) and Sunset (RFC 8594), or
// nil if the operation stays.
func (r *Route) deprecation() (deprecated, sunset []string) {
	if r.Deprecated.IsZero() {
		return nil, nil
	}
	return []string{fmt.Sprintf("@%d", r.Deprecated.Unix())}, []string{r.Sunset.UTC().Format(http.TimeFormat)}
}

// checkRoutes returns an error for an incomplete or ambiguous table.
func checkRoutes(routes []Route) error {
	var errs []error
	seen := make(map[string]bool)
	for _, r := range routes {
		key := r.Method + " " + r.Path
		switch {
		case r.ID == "" || r.Handle == nil || r.Path == "":
			errs = append(errs, fmt.Errorf("route %q %s: id, path and handler are required", r.ID, key))
		case r.Method != http.MethodGet && r.Method != http.MethodPost:
			errs = append(errs, fmt.Errorf("route %s: method %q is not supported", r.ID, r.Method))
		case r.Scope != anyToken && !slices.Contains(authn.AllScopes(), r.Scope):
			errs = append(errs, fmt.Errorf("route %s: unknown scope %q", r.ID, r.Scope))
		case r.Deprecated.IsZero() != r.Sunset.IsZero() || r.Sunset.Before(r.Deprecated):
			errs = append(errs, fmt.Errorf("route %s: Deprecated and Sunset must be set together, and Sunset must not be "+
				"earlier", r.ID))
		case seen[key] || seen[r.ID]:
			errs = append(errs, fmt.Errorf("route %s: %s is a duplicate", r.ID, key))
		}
		seen[key], seen[r.ID] = true, true
	}
	return errors.Join(errs...)
}
