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
			Name: "fleet/ListServers/complete", Needs: []Kind{Server}, run: listsAllServers,
			Sentence: "ListServers returns all servers of the team.",
		},
		{
			Name: "fleet/ListServers/order", Sentence: "Servers are ordered by name and then by id.",
			run: func(ctx context.Context, s *subject) error {
				response, err := s.fleet.ListServers(ctx, &fleetv1.ListServersRequest{TeamId: s.teams[0].ID})
				if err != nil {
					return err
				}
				return orderedByName(rows(response.GetServers(), func(m *fleetv1.Server) row { return row{id: m.GetId(), name: m.GetName()} }))
			},
		},
		{
			Name: "fleet/GetServer/the-one-asked-for", Needs: []Kind{Server}, run: returnsGivenServer,
			Sentence: "GetServer returns the server with the given id.",
		},
		{
			Name: "fleet/ListServerGroups/order", Sentence: "Groups are ordered by position and then by id.",
			run: func(ctx context.Context, s *subject) error {
				response, err := s.fleet.ListServerGroups(ctx, &fleetv1.ListServerGroupsRequest{TeamId: s.teams[0].ID})
				if err != nil {
					return err
				}
				return orderedByPosition(rows(response.GetServerGroups(), func(m *fleetv1.ServerGroup) row {
					return row{id: m.GetId(), position: m.GetPosition()}
				}))
			},
		},
		{
			Name: "fleet/ListScheduledCommands/order", Needs: []Kind{Server},
			Sentence: "Scheduled commands are ordered by name and then by id.",
			run: func(ctx context.Context, s *subject) error {
				own := s.teams[0]
				response, err := s.fleet.ListScheduledCommands(ctx,
					&fleetv1.ListScheduledCommandsRequest{TeamId: own.ID, ServerId: own.Resources[Server]})
				if err != nil {
					return err
				}
				return orderedByName(rows(response.GetScheduledCommands(), func(m *fleetv1.ScheduledCommand) row {
					return row{id: m.GetId(), name: m.GetName()}
				}))
			},
		},
	}, append(metricChecks(), historyChecks()...)...)
}

func listsAllServers(ctx context.Context, s *subject) error {
	return forBothTeams(s, func(own, _ Team) error {
		response, err := s.fleet.ListServers(ctx, &fleetv1.ListServersRequest{TeamId: own.ID})
		if err != nil {
			return err
		}
		return contains(own, Server, messageIDs(response))
	})
}

// contains returns a breach if the resource of the fixtures is not among the ids of a complete list.
func contains(own Team, kind Kind, ids []string) error {
	if id := own.Resources[kind]; !slices.Contains(ids, id) {
		return expected("the "+kindText(kind)+" "+id+" in the list of team "+own.ID, "%d others: %.200q", len(ids), ids)
	}
	return nil
}

func returnsGivenServer(ctx context.Context, s *subject) error {
	own := s.teams[0]
	response, err := s.fleet.GetServer(ctx, &fleetv1.GetServerRequest{TeamId: own.ID, ServerId: own.Resources[Server]})
	if err != nil {
		return err
	}
	return sameID(own.Resources[Server], response.GetServer().GetId())
}

func sameID(want, got string) error {
	if want != got {
		return expected(fmt.Sprintf("the id %q", want), "%q", got)
	}
	return nil
}

// An invalidRequest is an invalid request and a description of what is invalid.
type invalidRequest struct {
	what    string
	request proto.Message
}

// refuses returns a check that a method answers each request with INVALID_ARGUMENT naming the field.
func refuses(method, field string, requests func(s *subject, own Team) []invalidRequest) func(context.Context, *subject) error {
	return func(ctx context.Context, s *subject) error {
		for _, r := range requests(s, s.teams[0]) {
			_, err := s.invoke(ctx, method, r.request)
			if err := expectViolations(err, r.what, field); err != nil {
				return err
			}
		}
		return nil
	}
}
