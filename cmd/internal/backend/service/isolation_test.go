package service_test

import (
	"slices"
	"testing"

	"github.com/google/uuid"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"opsgate/backendclient/testkit"
	"opsgate/proto/contract"
)

// teamScoped returns all methods that act for a team.
func teamScoped() []contract.Method {
	return slices.DeleteFunc(contract.Methods(), func(m contract.Method) bool { return !m.TeamScoped() })
}

// request returns a valid request. Methods that write need a row here.
func request(t *testing.T, m contract.Method, caller, resource string) proto.Message {
	t.Helper()
	if !m.Writes() {
		return m.ReadRequest(contract.Target{Team: caller, Resource: resource, Since: start()})
	}
	switch m.String() {
	case "incident/CreateIncident":
		return newIncident(team{id: caller}, "An incident")
	case "incident/AddIncidentUpdate":
		return newUpdate(team{id: caller}, resource)
	}
	t.Fatalf("no request of %s is known", m)
	return nil
}

// call makes a call and returns the response.
func (s *system) call(t *testing.T, m contract.Method, caller, resource string) (proto.Message, error) {
	t.Helper()
	response := m.NewResponse()
	return response, s.conn.Invoke(t.Context(), m.Path(), request(t, m, caller, resource), response)
}

// fill gives a team one resource of each kind that a request names, and returns their ids by the kind.
func (s *system) fill(name string) (owner team, ids map[string]string) {
	s.t.Helper()
	owner = s.team(name)
	return owner, map[string]string{
		"server": owner.server, "monitor": owner.monitor, "status_page": owner.page,
		"incident": s.create(newIncident(owner, name)).GetId(),
	}
}

// Ids that are malformed, unknown or another team's get the same answer.
func TestResourcesOfAnotherTeamAreNotFound(t *testing.T) {
	s := startSystem(t)
	ours, _ := s.fill("harbour")
	theirs, ids := s.fill("lighthouse")
	for _, m := range teamScoped() {
		t.Run(m.String(), func(t *testing.T) {
			id := ids[m.Resource()]
			if id == "" && m.Resource() != "" {
				t.Fatalf("the teams of the test have no %s: add one to fill", m.Resource())
			}
			_, err := s.call(t, m, theirs.id, id)
			testkit.Must(t, err)
			if id == "" {
				return
			}
			_, foreign := s.call(t, m, ours.id, id)
			mustBe(t, foreign, codes.NotFound)
			for _, unknown := range []string{uuid.NewString(), "", "42", "{" + id + "}", "urn:uuid:" + id, id + "x"} {
				_, err := s.call(t, m, ours.id, unknown)
				mustBe(t, err, codes.NotFound)
				if got, want := status.Convert(err).Message(), status.Convert(foreign).Message(); got != want {
					t.Errorf("id %q: got the message %q, and %q for another team's id", unknown, got, want)
				}
			}
		})
	}
}
