package service

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"

	"opsgate/cmd/internal/backend/store/query"
	fleetv1 "opsgate/proto/ops/fleet/v1"
)

type fleetService struct {
	fleetv1.UnimplementedFleetServiceServer
	*Backend
}

func (s *fleetService) ListServers(
	ctx context.Context, r *fleetv1.ListServersRequest,
) (*fleetv1.ListServersResponse, error) {
	response := &fleetv1.ListServersResponse{}
	return response, s.store.ReadFor(ctx, r.GetTeamId(), func(q *query.Queries) error {
		rows, err := q.ListServers(ctx, r.GetTeamId())
		if err != nil {
			return fmt.Errorf("list the servers: %w", err)
		}
		for _, row := range rows {
			server, err := serverMessage(row)
			if err != nil {
				return err
			}
			response.Servers = append(response.Servers, server)
		}
		return nil
	})
}

func (s *fleetService) GetServer(ctx context.Context, r *fleetv1.GetServerRequest) (*fleetv1.GetServerResponse, error) {
	response := &fleetv1.GetServerResponse{}
	return response, s.withServer(ctx, r, func(_ *query.Queries, row query.Server) (err error) {
		response.Server, err = serverMessage(row)
		return err
	})
}

func (s *fleetService) ListServerGroups(
	ctx context.Context, r *fleetv1.ListServerGroupsRequest,
) (*fleetv1.ListServerGroupsResponse, error) {
	response := &fleetv1.ListServerGroupsResponse{}
	return response, s.store.ReadFor(ctx, r.GetTeamId(), func(q *query.Queries) error {
		return list(&response.ServerGroups, "server groups", func(row query.ServerGroup) *fleetv1.ServerGroup {
			return &fleetv1.ServerGroup{Id: row.ID, Name: row.Name, Color: row.Color, Position: int32(row.Position)}
		})(q.ListServerGroups(ctx, r.GetTeamId()))
	})
}

func (s *fleetService) ListScheduledCommands(
	ctx context.Context, r *fleetv1.ListScheduledCommandsRequest,
) (*fleetv1.ListScheduledCommandsResponse, error) {
	response := &fleetv1.ListScheduledCommandsResponse{}
	return response, s.withServer(ctx, r, func(q *query.Queries, of query.Server) error {
		return list(&response.ScheduledCommands, "scheduled commands", scheduledCommandMessage)(
			q.ListScheduledCommands(ctx, query.ListScheduledCommandsParams{TeamID: of.TeamID, ServerID: of.ID}))
	})
}

func (s *fleetService) ListServerCommands(
	ctx context.Context, r *fleetv1.ListServerCommandsRequest,
) (*fleetv1.ListServerCommandsResponse, error) {
	var problems violations
	problems.pageSize(r.GetPageSize())
	if r.GetPage() < 1 || int64(r.GetPage())*int64(max(1, r.GetPageSize())) > math.MaxInt32 {
		problems.add("page", "must be at least 1, and page × page size below 2147483648")
	}
	if err := problems.err(); err != nil {
		return nil, err
	}
	response := &fleetv1.ListServerCommandsResponse{}
	return response, s.withServer(ctx, r, func(q *query.Queries, of query.Server) error {
		total, err := q.CountServerCommands(ctx, query.CountServerCommandsParams{TeamID: of.TeamID, ServerID: of.ID})
		if err != nil {
			return fmt.Errorf("count the commands: %w", err)
		}
		response.Total = int32(total)
		return list(&response.Commands, "commands",
			serverCommandMessage)(q.ListServerCommands(ctx, query.ListServerCommandsParams{
			TeamID: of.TeamID, ServerID: of.ID,
			PageSize: int64(r.GetPageSize()), Skip: int64(r.GetPage()-1) * int64(r.GetPageSize()),
		}))
	})
}

// withServer calls read in a transaction if the team has the server.
func (s *fleetService) withServer(
	ctx context.Context,
	r interface {
		GetTeamId() string
		GetServerId() string
	},
	read func(*query.Queries, query.Server) error,
) error {
	return s.store.ReadFor(ctx, r.GetTeamId(), func(q *query.Queries) error {
		row, err := q.GetServer(ctx, query.GetServerParams{TeamID: r.GetTeamId(), ID: strings.ToLower(r.GetServerId())})
		if err := orNoSuch(err, "server"); err != nil {
			return err
		}
		return read(q, row)
	})
}

func serverMessage(row query.Server) (*fleetv1.Server, error) {
	server := &fleetv1.Server{
		Id:         row.ID,
		Name:       row.Name,
		Host:       row.Host,
		Os:         row.Os,
		GroupId:    row.GroupID,
		LastSeenAt: optionalTimestamp(row.LastSeenAt),
		CreatedAt:  timestamp(row.CreatedAt),
	}
	if err := json.Unmarshal([]byte(row.Tags), &server.Tags); err != nil {
		return nil, fmt.Errorf("read the tags of server %s: %w", row.ID, err)
	}
	return server, nil
}

func scheduledCommandMessage(row query.ScheduledCommand) *fleetv1.ScheduledCommand {
	return &fleetv1.ScheduledCommand{
		Id:                  row.ID,
		Name:                row.Name,
		Command:             row.Command,
		Cron:                row.Cron,
		Enabled:             row.Enabled,
		LastRunAt:           optionalTimestamp(row.LastRunAt),
		LastExitCode:        optionalInt32(row.LastExitCode),
		ConsecutiveFailures: int32(row.ConsecutiveFailures),
	}
}

func serverCommandMessage(row query.ServerCommand) *fleetv1.ServerCommand {
	return &fleetv1.ServerCommand{
		Id:         row.ID,
		Command:    row.Command,
		Source:     row.Source,
		Status:     row.Status,
		ExitCode:   optionalInt32(row.ExitCode),
		DurationMs: row.DurationMs,
		StartedAt:  optionalTimestamp(row.StartedAt),
		FinishedAt: optionalTimestamp(row.FinishedAt),
		CreatedAt:  timestamp(row.CreatedAt),
	}
}
