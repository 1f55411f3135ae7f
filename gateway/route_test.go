package gateway

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"opsgate/authn"
	"opsgate/gateway/jsonw"
	"opsgate/internal/testkit"
)

// The headers are in each response of the operation, whatever its status.
func TestDeprecatedOperationHasDeprecationAndSunset(t *testing.T) {
	const deprecation, sunset = "@1798761600", "Sat, 01 Jan 2028 00:00:00 GMT"
	h := start(t)
	row := Route{
		ID: "old", Method: "GET", Path: "/v1/old/:id", Scope: authn.ServersRead, Handle: func(*Request) (Reply, error) {
			return show(func(w *jsonw.Writer) { w.BeginObject(); w.EndObject() })
		},
		Deprecated: time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC), Sunset: time.Date(2028, 1, 1, 1, 0, 0, 0, time.FixedZone("", 3600)),
	}
	testkit.Must(t, checkRoutes([]Route{row}))
	h.gateway.engine.GET(row.Path, h.gateway.handlerFor(h.gateway.bind(row, apiStages)))
	old := "/v1/old/" + someID
	tag := h.get(t, old).Header.Get("Etag")
	for name, c := range map[string]struct {
		got     answer
		status  int
		carries bool
	}{
		"success":           {h.get(t, old), 200, true},
		"unchanged":         {h.get(t, old, "If-None-Match: "+tag), 304, true},
		"not found":         {h.get(t, "/v1/old/x"), 404, true},
		"without the scope": {h.do(t, "none", "GET", old, ""), 403, true},
		"without a token":   {h.do(t, "", "GET", old, ""), 401, true},
		"another operation": {h.get(t, "/v1/me"), 200, false},
	} {
		want := [2]string{}
		if c.carries {
			want = [2]string{deprecation, sunset}
		}
		header := c.got.mustBe(t, c.status).Header
		if got := [2]string{header.Get("Deprecation"), header.Get("Sunset")}; got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// A repeated parameter is a problem if the operation reads it, and ignored otherwise.
func TestEachHandlerReadsTheFieldsOfItsRow(t *testing.T) {
	h := start(t)
	h.services.fail("", status.Error(codes.Aborted, "reached the service"))
	all := make(map[string]bool)
	for _, route := range h.gateway.rows {
		for _, field := range route.Fields {
			all[field] = true
		}
	}
	for _, route := range h.gateway.rows {
		if route.Service == "" {
			continue
		}
		for field := range all {
			reads := slices.Contains(route.Fields, field)
			if route.Method == http.MethodPost {
				got := h.do(t, "full", "POST", target(route), fmt.Sprintf(`{%q: 7}`, field)).mustFail(t, 422, "validation_error")
				if unknown := got[field] == "is not a field of this request"; unknown == reads {
					t.Errorf("%s reads %s: %v, want %v: %s", route.ID, field, !unknown, reads, got[field])
				}
				continue
			}
			got := h.get(t, target(route)+"?"+field+"=%ff&"+field+"=")
			switch {
			case !reads || field == "cursor":
				got.mustFail(t, 409, "conflict")
			case got.mustFail(t, 422, "validation_error")[field] == "":
				t.Errorf("%s reads %s: %s", route.ID, field, got.body)
			}
		}
	}
}
