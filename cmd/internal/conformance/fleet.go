package conformance

import (
	"context"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	fleetv1 "opsgate/proto/ops/fleet/v1"
)

func fleetChecks() []Check {
	return append([]Check{
		{
			Name: "fleet/ListServers/complete", Needs: []Thing{Server}, look: serversAreComplete,
			Sentence: "ListServers returns all servers of the team.",
		},
		{
			Name: "fleet/ListServers/order", Sentence: "Servers come by name and then by id.",
			look: func(ctx context.Context, s *subject) error {
				answer, err := s.fleet.ListServers(ctx, &fleetv1.ListServersRequest{TeamId: s.teams[0].ID})
				if err != nil {
					return err
				}
				return orderedByName(rows(answer.GetServers(), func(m *fleetv1.Server) row { return row{id: m.GetId(), name: m.GetName()} }))
			},
		},
		{
			Name: "fleet/GetServer/the-one-asked-for", Needs: []Thing{Server}, look: serverIsTheOneAskedFor,
			Sentence: "GetServer returns the one server.",
		},
		{
			Name: "fleet/ListServerGroups/order", Sentence: "Groups come by position and then by id.",
			look: func(ctx context.Context, s *subject) error {
				answer, err := s.fleet.ListServerGroups(ctx, &fleetv1.ListServerGroupsRequest{TeamId: s.teams[0].ID})
				if err != nil {
					return err
				}
				return orderedByPosition(rows(answer.GetServerGroups(), func(m *fleetv1.ServerGroup) row {
					return row{id: m.GetId(), position: m.GetPosition()}
				}))
			},
		},
		{
			Name: "fleet/ListScheduledCommands/order", Needs: []Thing{Server},
			Sentence: "Scheduled commands come by name and then by id.",
			look: func(ctx context.Context, s *subject) error {
				own := s.teams[0]
				answer, err := s.fleet.ListScheduledCommands(ctx,
					&fleetv1.ListScheduledCommandsRequest{TeamId: own.ID, ServerId: own.Things[Server]})
				if err != nil {
					return err
				}
				return orderedByName(rows(answer.GetScheduledCommands(), func(m *fleetv1.ScheduledCommand) row {
					return row{id: m.GetId(), name: m.GetName()}
				}))
			},
		},
	}, append(metricChecks(), historyChecks()...)...)
}

func serversAreComplete(ctx context.Context, s *subject) error {
	return bothWays(s, func(own, _ Team) error {
		answer, err := s.fleet.ListServers(ctx, &fleetv1.ListServersRequest{TeamId: own.ID})
		if err != nil {
			return err
		}
		return holds(own, Server, identities(answer))
	})
}

// holds returns a breach if a list of all that a team has lacks what the fixtures name.
func holds(own Team, thing Thing, ids []string) error {
	if id := own.Things[thing]; !slices.Contains(ids, id) {
		return expected("the "+words(thing)+" "+id+" in the list of team "+own.ID, "%d others: %.200q", len(ids), ids)
	}
	return nil
}

func serverIsTheOneAskedFor(ctx context.Context, s *subject) error {
	own := s.teams[0]
	answer, err := s.fleet.GetServer(ctx, &fleetv1.GetServerRequest{TeamId: own.ID, ServerId: own.Things[Server]})
	if err != nil {
		return err
	}
	return isTheOne(own.Things[Server], answer.GetServer().GetId())
}

func isTheOne(asked, got string) error {
	if asked != got {
		return expected(fmt.Sprintf("the id %q", asked), "%q", got)
	}
	return nil
}

// A refusal is a request that must be refused, and what it has that is wrong.
type refusal struct {
	what    string
	request proto.Message
}

// refuses makes a check that a method answers each request with INVALID_ARGUMENT naming the field.
func refuses(method, field string, requests func(s *subject, own Team) []refusal) func(context.Context, *subject) error {
	return func(ctx context.Context, s *subject) error {
		for _, r := range requests(s, s.teams[0]) {
			_, err := s.invoke(ctx, method, r.request)
			if err := names(err, r.what, field); err != nil {
				return err
			}
		}
		return nil
	}
}
