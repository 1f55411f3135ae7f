package conformance

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"

	"opsgate/proto/contract"
)

// A call is a valid call of a team-scoped method. Checks of rules that apply to every method use it.
type call struct{ contract.Method }

// calls returns a call of each team-scoped method of the contract.
func calls() []call {
	var all []call
	for _, m := range contract.Methods() {
		if m.TeamScoped() {
			all = append(all, call{m})
		}
	}
	return all
}

// kind returns the kind of resource that the request names, or "".
func (c call) kind() Kind { return Kind(c.Resource()) }

// request returns a valid request for the team and the resource.
func (c call) request(s *subject, team, id string) (proto.Message, error) {
	if !c.Writes() {
		return c.ReadRequest(contract.Target{Team: team, Resource: id, Since: s.now().Add(-24 * time.Hour)}), nil
	}
	w, err := writeNamed(c.String())
	if err != nil {
		return nil, err
	}
	return w.request(s, team, id), nil
}

// invoke makes the call.
func (c call) invoke(ctx context.Context, s *subject, team, id string) (proto.Message, error) {
	request, err := c.request(s, team, id)
	if err != nil {
		return nil, err
	}
	return s.invoke(ctx, c.String(), request)
}

// ownID returns the id of a resource of the team that the call may name. For a write it creates an incident.
func (c call) ownID(ctx context.Context, s *subject, team Team) (string, error) {
	if !c.Writes() || c.kind() == "" {
		return team.Resources[c.kind()], nil
	}
	created, err := s.create(ctx, s.newIncident(team.ID, "to be updated"))
	return created.GetId(), err
}

// invokeForTeam makes the call for a team and a resource of the team.
func (c call) invokeForTeam(ctx context.Context, s *subject, team Team) (proto.Message, error) {
	id, err := c.ownID(ctx, s, team)
	if err != nil {
		return nil, err
	}
	return c.invoke(ctx, s, team.ID, id)
}

// needs returns the resources that the fixtures have to name for the call.
func (c call) needs() []Kind {
	if c.kind() == "" || c.Writes() {
		return nil
	}
	return []Kind{c.kind()}
}
