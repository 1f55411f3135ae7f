package service_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"opsgate/internal/testkit"
	incidentv1 "opsgate/proto/ops/incident/v1"
)

const resolved = incidentv1.IncidentStatus_INCIDENT_STATUS_RESOLVED

// get returns an incident with its timeline.
func (s *system) get(t team, id string) *incidentv1.GetIncidentResponse {
	s.t.Helper()
	response, err := s.incident.GetIncident(s.t.Context(), &incidentv1.GetIncidentRequest{TeamId: t.id, IncidentId: id})
	testkit.Must(s.t, err)
	return response
}

func TestGetReturnsTheCreatedIncident(t *testing.T) {
	s, own := startTeam(t)
	r := newIncident(own, "  Elevated errors \n")
	r.StatusPageId = &own.page
	r.ComponentIds = []string{own.component, strings.ToUpper(own.component)}
	created := s.create(r)
	got := s.get(own, strings.ToUpper(created.GetId()))
	if diff := cmp.Diff(created, got.GetIncident(), protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
	if created.GetTitle() != "Elevated errors" || created.GetStatusPageId() != own.page {
		t.Errorf("created %v", created)
	}
	if updates := got.GetUpdates(); len(updates) != 1 || updates[0].GetMessage() != "We are on it." {
		t.Errorf("updates %v", updates)
	}
	if n := s.count("incident_components"); n != 1 {
		t.Errorf("%d affected components, want 1 without duplicates", n)
	}
	r.StatusPageId = nil
	if loose := s.create(r); loose.StatusPageId != nil {
		t.Errorf("components attached the incident to page %s", loose.GetStatusPageId())
	}
}

// Each request differs from a valid one in the field in its name. The conformance checks have the
// bounds that the contract states.
func TestInvalidFieldsAreNamed(t *testing.T) {
	s, own := startTeam(t)
	type request = incidentv1.CreateIncidentRequest
	for name, c := range map[string]struct {
		spoil func(*request)
		field string
	}{
		"blank title":           {func(r *request) { r.Title = " \t\n" }, "title"},
		"bell in title":         {func(r *request) { r.Title = "ding\a" }, "title"},
		"C1 control in title":   {func(r *request) { r.Title = "a\u0085b" }, "title"},
		"unknown impact":        {func(r *request) { r.Impact = -1 }, "impact"},
		"null in message":       {func(r *request) { r.Message = "a\x00b" }, "message"},
		"malformed page":        {func(r *request) { r.StatusPageId = new("main") }, "status_page_id"},
		"empty page":            {func(r *request) { r.StatusPageId = new("") }, "status_page_id"},
		"malformed component":   {func(r *request) { r.ComponentIds = []string{"web"} }, "component_ids"},
		"no actor":              {func(r *request) { r.Actor = nil }, "actor.token_id"},
		"a name for an address": {func(r *request) { r.Actor.IpAddress = "localhost" }, "actor.ip_address"},
		"long request id":       {func(r *request) { r.Actor.RequestId = strings.Repeat("r", 129) }, "actor.request_id"},
	} {
		r := newIncident(own, "Valid")
		c.spoil(r)
		_, err := s.incident.CreateIncident(t.Context(), r)
		if fields := violated(t, err); fields[c.field] == "" {
			t.Errorf("%s: %v, want %s", name, fields, c.field)
		}
	}
	for _, table := range []string{"incidents", "incident_updates", "notifications", "idempotency_keys"} {
		if n := s.count(table); n != 0 {
			t.Errorf("%d rows in %s", n, table)
		}
	}
}
