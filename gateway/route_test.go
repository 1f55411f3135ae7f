package gateway

import (
	"fmt"
	"net/http"
	"slices"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A repeated parameter is a problem if the operation reads it, and ignored otherwise.
func TestEachHandlerReadsTheFieldsOfItsRow(t *testing.T) {
	h := start(t)
	h.services.fail("", status.Error(codes.NotFound, "reached the service"))
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
				got.mustFail(t, 404, "not_found")
			case got.mustFail(t, 422, "validation_error")[field] == "":
				t.Errorf("%s reads %s: %s", route.ID, field, got.body)
			}
		}
	}
}
