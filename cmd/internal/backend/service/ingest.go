package service

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/netutil"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
	"google.golang.org/protobuf/types/known/timestamppb"

	"opsgate/cmd/internal/backend/store/query"
	ingestv1 "opsgate/proto/ops/ingest/v1"
)

// maxBatch is the largest number of items in a report.
const maxBatch = 500

// Bounds of one connection of a reporter: of its calls at a time, because reports are written one
// at a time, and of the metadata of a call, which is read before its secret is known.
const (
	maxIngestStreams  = 20
	maxIngestMetadata = 16 << 10
)

// maxIngestConnections bounds the connections of reporters; further ones wait. One without calls is
// closed after maxIngestIdle, so that clients without a secret do not hold them.
const (
	maxIngestConnections = 1000
	maxIngestIdle        = 5 * time.Minute
)

// IngestOptions are the settings of [Backend.ServeIngest].
type IngestOptions struct {
	// TLS is the configuration of the listener; nil for plaintext. One that requires client
	// certificates authenticates the callers.
	TLS *tls.Config
	// Secrets are those of which a caller must send one; none if TLS authenticates the callers.
	Secrets []string
}

// ServeIngest serves the ingest service and health checks until ctx ends, as Serve does.
func (b *Backend) ServeIngest(ctx context.Context, listener net.Listener, o IngestOptions) error {
	return b.serve(ctx, netutil.LimitListener(listener, maxIngestConnections), serverOptions{
		tls:          o.TLS,
		interceptors: b.unaryInterceptors(),
		options: []grpc.ServerOption{
			grpc.MaxConcurrentStreams(maxIngestStreams),
			grpc.MaxHeaderListSize(maxIngestMetadata),
			grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: maxIngestIdle}),
			grpc.InTapHandle(func(ctx context.Context, call *tap.Info) (context.Context, error) { // before the message is read
				// a watch would hold a connection
				if !o.admits(call.Header) && call.FullMethodName != healthv1.Health_Check_FullMethodName {
					return nil, status.Error(codes.Unauthenticated, "the authorization must be Bearer and a secret of this listener")
				}
				return ctx, nil
			}),
		},
		register: func(server *grpc.Server) { ingestv1.RegisterIngestServiceServer(server, b.Ingest()) },
	})
}

// admits reports whether the caller sent a secret. It compares in constant time.
func (o IngestOptions) admits(header metadata.MD) bool {
	admitted := len(o.Secrets) == 0
	for _, authorization := range header.Get("authorization") {
		scheme, text, _ := strings.Cut(authorization, " ")
		sent := sha256.Sum256([]byte(text))
		for _, secret := range o.Secrets {
			expected := sha256.Sum256([]byte(secret))
			admitted = strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare(sent[:], expected[:]) == 1 || admitted
		}
	}
	return admitted
}

// Ingest returns the ingest service, without the authentication of its listener.
func (b *Backend) Ingest() ingestv1.IngestServiceServer { return &ingestService{Backend: b} }

type ingestService struct {
	ingestv1.UnimplementedIngestServiceServer
	*Backend
}

func (s *ingestService) ReportMetrics(
	ctx context.Context, r *ingestv1.ReportMetricsRequest,
) (*ingestv1.ReportMetricsResponse, error) {
	refused, err := record(ctx, s.Backend, r.GetItems(), (*ingestv1.ServerMetrics).GetAt, (*Recorder).Metrics)
	return &ingestv1.ReportMetricsResponse{Errors: refused}, err
}

func (s *ingestService) RecordChecks(
	ctx context.Context, r *ingestv1.RecordChecksRequest,
) (*ingestv1.RecordChecksResponse, error) {
	refused, err := record(ctx, s.Backend, r.GetItems(), (*ingestv1.MonitorCheck).GetCheckedAt, (*Recorder).Check)
	return &ingestv1.RecordChecksResponse{Errors: refused}, err
}

func (s *ingestService) RecordCommands(
	ctx context.Context, r *ingestv1.RecordCommandsRequest,
) (*ingestv1.RecordCommandsResponse, error) {
	at := func(item *ingestv1.CommandItem) *timestamppb.Timestamp {
		return cmp.Or(item.GetRun().GetRanAt(), item.GetCommand().GetCreatedAt())
	}
	refused, err := record(ctx, s.Backend, r.GetItems(), at, (*Recorder).Command)
	return &ingestv1.RecordCommandsResponse{Errors: refused}, err
}

// record stores the items of a report in one transaction, in the order of their times, and returns
// the errors of those that are refused.
func record[T any](
	ctx context.Context, b *Backend, items []T, at func(T) *timestamppb.Timestamp,
	store func(*Recorder, context.Context, T) error,
) (refused []*ingestv1.ItemError, err error) {
	if len(items) > maxBatch {
		return nil, invalidField("items", fmt.Sprintf("must be at most %d", maxBatch))
	}
	order := make([]int, len(items))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return at(items[i]).AsTime().Compare(at(items[j]).AsTime()) })
	posted := false
	err = b.store.Write(ctx, func(q *query.Queries) error {
		recorder := NewRecorder(q, b.options.Clock)
		for _, i := range order {
			err := store(recorder, ctx, items[i])
			reason, isStatus := status.FromError(err)
			switch {
			case !isStatus:
				return err
			case err != nil:
				refused = append(refused,
					&ingestv1.ItemError{Index: int32(i), Code: int32(reason.Code()), Message: reason.Message()})
			}
		}
		posted = recorder.posted
		return recorder.Finish(ctx)
	})
	if err != nil {
		return nil, err
	}
	if posted {
		b.written.raise()
	}
	slices.SortFunc(refused, func(a, b *ingestv1.ItemError) int { return cmp.Compare(a.GetIndex(), b.GetIndex()) })
	return refused, nil
}
