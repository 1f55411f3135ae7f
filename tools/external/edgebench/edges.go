package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/go-redis/redis_rate/v10"
	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/redis/go-redis/v9"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	fleetv1 "opsgate/proto/ops/fleet/v1"
	incidentv1 "opsgate/proto/ops/incident/v1"
	fleetgw "opsgate/tools/external/edgebench/bare/ops/fleet/v1"
	incidentgw "opsgate/tools/external/edgebench/bare/ops/incident/v1"
)

// The parts of a comparison beside the edge.
const (
	partBackend = "backend"
	partBare    = "bare"
	partBuilt   = "built"
	partFloor   = "floor"
)

// serve serves a part on a free port until the context ends, and logs its address.
func serve(ctx context.Context, part, backend, redisAddress string) error {
	lis, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	log := slog.New(slog.NewJSONHandler(os.Stderr, nil))
	log.Info("listening", "address", lis.Addr().String())
	if part == partBackend {
		return serveBackend(ctx, lis)
	}
	conn, err := grpc.NewClient(backend, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy())
	if err != nil {
		return fmt.Errorf("connect to backend %s: %w", backend, err)
	}
	defer func() { _ = conn.Close() }()
	var handler http.Handler
	switch part {
	case partBare:
		handler, err = bare(ctx, conn)
	case partBuilt:
		handler, err = built(ctx, conn, redisAddress, log)
	case partFloor:
		handler = floor(conn)
	default:
		return fmt.Errorf("%w: there is no part %q", errUsage, part)
	}
	if err != nil {
		return err
	}
	srv := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	defer context.AfterFunc(ctx, func() { _ = srv.Close() })()
	if err := srv.Serve(lis); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// bare returns a grpc-gateway as its documentation sets it up, with the default marshaler, and
// without authentication, limits, logs or metrics. Its routes are in bare/routes.yaml; `make
// generate` generates the code below bare/ops from them and from the protos.
func bare(ctx context.Context, backend *grpc.ClientConn) (http.Handler, error) {
	mux := runtime.NewServeMux()
	return mux, errors.Join(
		fleetgw.RegisterFleetServiceHandler(ctx, mux, backend), incidentgw.RegisterIncidentServiceHandler(ctx, mux, backend))
}

// built returns what a user would build of grpc-gateway instead of the edge: with redis_rate for
// both limits, a JSON access log and Prometheus. It has no authentication: the limits are those of
// the token as it is sent.
func built(ctx context.Context, backend *grpc.ClientConn, redisAddress string, log *slog.Logger) (http.Handler, error) {
	gateway, err := bare(ctx, backend)
	limiter := redis_rate.NewLimiter(redis.NewClient(&redis.Options{Addr: redisAddress}))
	limits := map[string]redis_rate.Limit{"second": redis_rate.PerSecond(unlimited), "hour": redis_rate.PerHour(unlimited)}
	registry := prometheus.NewRegistry()
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "requests_total"}, []string{"code", "method"})
	latency := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "request_duration_seconds"}, []string{"method"})
	registry.MustRegister(requests, latency)
	limited := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began, recorder := time.Now(), &recorder{ResponseWriter: w, status: http.StatusOK}
		token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		for name, limit := range limits {
			result, err := limiter.Allow(r.Context(), name+":"+token, limit)
			if err != nil || result.Allowed == 0 {
				http.Error(recorder, "rate limited", http.StatusTooManyRequests)
				return
			}
			w.Header().Set("X-RateLimit-Remaining-"+name, strconv.Itoa(result.Remaining))
		}
		gateway.ServeHTTP(recorder, r)
		log.LogAttrs(r.Context(), slog.LevelInfo, "request", slog.String("method", r.Method), slog.String("path", r.URL.Path),
			slog.Int("status", recorder.status), slog.String("latency", time.Since(began).String()),
			slog.String("remote", r.RemoteAddr))
	})
	return promhttp.InstrumentHandlerDuration(latency, promhttp.InstrumentHandlerCounter(requests, limited)), err
}

type recorder struct {
	http.ResponseWriter

	status int
}

func (r *recorder) WriteHeader(status int) {
	r.status = status
	r.ResponseWriter.WriteHeader(status)
}

// floor returns the cheapest edge with the same libraries: net/http, Gin, and one call of a
// service, with a response that is encoded in advance. It has no authentication, limits, deadlines,
// logs, metrics or breakers: these cause the difference to the edge.
func floor(backend *grpc.ClientConn) http.Handler {
	debug.SetGCPercent(400) // the edge's own default
	gin.SetMode(gin.ReleaseMode)
	fleet, incident := fleetv1.NewFleetServiceClient(backend), incidentv1.NewIncidentServiceClient(backend)
	e := gin.New()
	e.GET("/v1/servers", respond(func(c *gin.Context) (proto.Message, error) {
		return fleet.ListServers(c.Request.Context(), &fleetv1.ListServersRequest{TeamId: team()})
	}))
	e.GET("/v1/servers/:id", respond(func(c *gin.Context) (proto.Message, error) {
		return fleet.GetServer(c.Request.Context(), &fleetv1.GetServerRequest{TeamId: team(), ServerId: c.Param("id")})
	}))
	e.POST("/v1/incidents", respond(func(c *gin.Context) (proto.Message, error) {
		body, err := io.ReadAll(c.Request.Body)
		if err != nil {
			return nil, err
		}
		return incident.CreateIncident(c.Request.Context(), &incidentv1.CreateIncidentRequest{
			TeamId: team(), Title: "Checkout answers slowly", Message: string(body),
			Status: incidentv1.IncidentStatus_INCIDENT_STATUS_INVESTIGATING,
			Impact: incidentv1.IncidentImpact_INCIDENT_IMPACT_MINOR,
		})
	}))
	return e
}

// respond returns a handler that makes the call for every request, and responds with the result of
// the first.
func respond(call func(*gin.Context) (proto.Message, error)) gin.HandlerFunc {
	var first atomic.Pointer[[]byte]
	return func(c *gin.Context) {
		message, err := call(c)
		if err == nil && first.Load() == nil {
			var encoded []byte
			encoded, err = protojson.Marshal(message)
			first.Store(&encoded)
		}
		if err != nil {
			c.String(http.StatusBadGateway, "%v", err)
			return
		}
		c.Data(http.StatusOK, "application/json", *first.Load())
	}
}
