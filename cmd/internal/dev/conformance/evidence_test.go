package conformance_test

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"opsgate/cmd/internal/dev/conformance"
	"opsgate/internal/testkit"
	"opsgate/proto/contract"
	incidentv1 "opsgate/proto/ops/incident/v1"
)

// A service without rows keeps the rules for invalid requests. Nothing else about its lists passes;
// the rows that the fixtures count are missing.
func TestEmptyListsProveNothing(t *testing.T) {
	backend := startReference(t)
	o := options(t, backend, startFaulty(t, backend, fault{unary: emptyLists}))
	provable := []string{"team-id", "no-rows", "deadline", "probe", "unknown-id", "foreign-id"}
	for _, writes := range []bool{true, false} {
		o.Writes = writes
		report, err := conformance.Run(t.Context(), o)
		testkit.Must(t, err)
		for _, r := range report.Results {
			m, err := contract.MethodNamed(r.Method)
			onlyRows := err == nil && m.Rows() != nil && fieldOf(m.NewResponse(), protoreflect.Name(m.Resource())) == nil
			if rule := r.Name[len(r.Method)+1:]; onlyRows && r.Outcome == conformance.Pass && !slices.Contains(provable, rule) &&
				!strings.HasPrefix(r.Sentence, "INVALID_ARGUMENT") {
				t.Errorf("%s passes", r.Name)
			}
		}
		if report.Failed == 0 || report.Unproved == 0 {
			t.Error(report)
		}
	}
	for i := range o.Fixtures.Teams { // nothing is said to exist
		o.Fixtures.Teams[i] = conformance.Team{ID: o.Fixtures.Teams[i].ID}
	}
	report, err := conformance.Run(t.Context(), o)
	testkit.Must(t, err)
	if report.Failed > 0 || report.Unproved == 0 {
		t.Error(report)
	}
}

// emptyLists removes all rows of lists.
func emptyLists(c *intercepted) (proto.Message, error) {
	response, err := c.pass(c.request)
	if rows := c.method.Rows(); err == nil && rows != nil {
		m := response.ProtoReflect()
		m.Clear(rows)
		for _, name := range []protoreflect.Name{"next_cursor", "total"} {
			if field := fieldOf(response, name); field != nil {
				m.Clear(field)
			}
		}
	}
	return response, err
}

// limitFaults returns faults that no client can observe. The fault's name is the beginning of a
// sentence under "Not checked".
func limitFaults() []fault {
	return []fault{
		{name: "`notify_subscribers`", unary: changeRequest(func(_ *intercepted, m *incidentv1.AddIncidentUpdateRequest) {
			m.NotifySubscribers = m.NotifySubscribers || m.IdempotencyKey == ""
		})},
		{name: "`component_ids`", unary: changeRequest(func(c *intercepted, m *incidentv1.CreateIncidentRequest) {
			page, request := &incidentv1.GetStatusPageResponse{}, &incidentv1.GetStatusPageRequest{TeamId: m.TeamId, StatusPageId: m.GetStatusPageId()}
			if m.IdempotencyKey == "" && m.StatusPageId != nil && len(m.ComponentIds) == 1 &&
				c.conn.Invoke(c.ctx, incidentv1.IncidentService_GetStatusPage_FullMethodName, request, page) == nil &&
				slices.ContainsFunc(page.Components, func(c *incidentv1.StatusPageComponent) bool { return c.Id == m.ComponentIds[0] }) {
				m.ComponentIds = nil // others have to be refused
			}
		})},
	}
}

func TestUnobservableFaultsAreListedAsNotChecked(t *testing.T) {
	backend := startReference(t)
	for _, f := range limitFaults() {
		t.Run(f.name, func(t *testing.T) {
			o := options(t, backend, startFaulty(t, backend, f))
			o.Checks = slices.DeleteFunc(o.Checks, func(c conformance.Check) bool { return c.Service() != "incident" })
			report, err := conformance.Run(t.Context(), o)
			testkit.Must(t, err)
			if report.Passed != len(o.Checks) {
				t.Errorf("a check finds the fault: %v", report)
			}
			if !slices.ContainsFunc(report.NotChecked, func(l conformance.Unchecked) bool { return strings.HasPrefix(l.What, f.name) }) {
				t.Errorf("not listed: %+v", report.NotChecked)
			}
		})
	}
}
