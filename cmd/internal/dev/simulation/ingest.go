package simulation

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	ingestv1 "opsgate/proto/ops/ingest/v1"
)

// Dial returns a connection to the ingest service on a loopback address, whose calls have the secret.
func Dial(address, secret string) (*grpc.ClientConn, error) {
	authorize := func(
		ctx context.Context, method string, request, response any, conn *grpc.ClientConn, call grpc.UnaryInvoker, options ...grpc.CallOption,
	) error {
		return call(metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+secret), method, request, response, conn, options...)
	}
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy(),
		grpc.WithUnaryInterceptor(authorize))
	if err != nil {
		return nil, fmt.Errorf("connect to the ingest service: %w", err)
	}
	return conn, nil
}

// record reports a command or a run.
func (s *Simulation) record(ctx context.Context, item *ingestv1.CommandItem) error {
	response, err := s.ingest.RecordCommands(ctx, &ingestv1.RecordCommandsRequest{Items: []*ingestv1.CommandItem{item}})
	return accepted(response.GetErrors(), err)
}

// accepted returns the error of a report or of its first item that was refused.
func accepted(refused []*ingestv1.ItemError, err error) error {
	if err == nil && len(refused) > 0 {
		err = fmt.Errorf("refused: %s", refused[0].GetMessage())
	}
	return err
}
