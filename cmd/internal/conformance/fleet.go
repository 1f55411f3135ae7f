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
			Name: "fleet/ListServers/complete", Needs: []Thing{Server}, run: listsAllServers,
			Sentence: "ListServers returns all servers of the team.",
		},
		{
			Name: "fleet/ListServers/order", Sentence: "Servers are ordered by name and then by id.",
			run: func(ctx context.Context, s *subject) error {
				answer, err := s.fleet.ListServers(ctx, &fleetv1.ListServersRequest{TeamId: s.teams[0].ID})
				if err != nil {
					return err
				}
				return orderedByName(rows(answer.GetServers(), func(m *fleetv1.Server) row { return row{id: m.GetId(), name: m.GetName()} }))
			},
		},
		{
			Name: "fleet/GetServer/the-one-asked-for", Needs: []Thing{Server}, run: returnsGivenServer,
			Sentence: "GetServer returns the server with the given id.",
		},
		{
			Name: "fleet/ListServerGroups/order", Sentence: "Groups are ordered by position and then by id.",
			run: func(ctx context.Context, s *subject) error {
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
			Sentence: "Scheduled commands are ordered by name and then by id.",
			run: func(ctx context.Context, s *subject) error {
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

func listsAllServers(ctx context.Context, s *subject) error {
	return forBothTeams(s, func(own, _ Team) error {
		answer, err := s.fleet.ListServers(ctx, &fleetv1.ListServersRequest{TeamId: own.ID})
		if err != nil {
			return err
		}
		return contains(own, Server, identities(answer))
	})
}

// contains returns a breach if the resource of the fixtures is not among the ids of a complete list.
func contains(own Team, thing Thing, ids []string) error {
	if id := own.Things[thing]; !slices.Contains(ids, id) {
		return expected("the "+words(thing)+" "+id+" in the list of team "+own.ID, "%d others: %.200q", len(ids), ids)
	}
	return nil
}

func returnsGivenServer(ctx context.Context, s *subject) error {
	own := s.teams[0]
	answer, err := s.fleet.GetServer(ctx, &fleetv1.GetServerRequest{TeamId: own.ID, ServerId: own.Things[Server]})
	if err != nil {
		return err
	}
	return sameID(own.Things[Server], answer.GetServer().GetId())
}

func sameID(want, got string) error {
	if want != got {
		return expected(fmt.Sprintf("the id %q", want), "%q", got)
	}
	return nil
}

// A refusal is an invalid request and a description of what is invalid.
type refusal struct {
	what    string
	request proto.Message
}

// refuses returns a check that a method answers each request with INVALID_ARGUMENT naming the field.
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
