package floor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/gin-gonic/gin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	fleetv1 "opsgate/proto/ops/fleet/v1"
	incidentv1 "opsgate/proto/ops/incident/v1"
)

// gcPercent is the edge's own default.
const gcPercent = 400

// A Target is what is asked for.
type Target struct {
	Backend string // its address
	TeamID  string // whose servers there are
}

// Serve answers the public API's requests on the listener, as far as they are compared, until the context ends.
func Serve(ctx context.Context, lis net.Listener, of Target) error {
	debug.SetGCPercent(gcPercent)
	conn, err := grpc.NewClient(of.Backend, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return fmt.Errorf("connect to backend %s: %w", of.Backend, err)
	}
	defer func() { _ = conn.Close() }()

	srv := &http.Server{Handler: routes(conn, of.TeamID), ReadHeaderTimeout: 10 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = srv.Close() })
	defer stop()
	if err := srv.Serve(lis); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve the floor: %w", err)
	}
	return nil
}

func routes(conn *grpc.ClientConn, team string) http.Handler {
	gin.SetMode(gin.ReleaseMode)
	fleet, incident := fleetv1.NewFleetServiceClient(conn), incidentv1.NewIncidentServiceClient(conn)
	e := gin.New()
	e.GET("/v1/servers", answer(func(c *gin.Context) (proto.Message, error) {
		return fleet.ListServers(c.Request.Context(), &fleetv1.ListServersRequest{TeamId: team})
	}))
	e.GET("/v1/servers/:id", answer(func(c *gin.Context) (proto.Message, error) {
		return fleet.GetServer(c.Request.Context(), &fleetv1.GetServerRequest{TeamId: team, ServerId: c.Param("id")})
	}))
	e.POST("/v1/incidents", answer(func(c *gin.Context) (proto.Message, error) {
		body, err := io.ReadAll(c.Request.Body)
		if err != nil {
			return nil, fmt.Errorf("read the body: %w", err)
		}
		return incident.CreateIncident(c.Request.Context(), &incidentv1.CreateIncidentRequest{
			TeamId: team, Title: "Checkout answers slowly", Message: string(body),
			Status: incidentv1.IncidentStatus_INCIDENT_STATUS_INVESTIGATING, Impact: incidentv1.IncidentImpact_INCIDENT_IMPACT_MINOR,
		})
	}))
	return e
}

// answer answers with what the first call returned.
func answer(call func(*gin.Context) (proto.Message, error)) gin.HandlerFunc {
	var first atomic.Pointer[[]byte]
	return func(c *gin.Context) {
		message, err := call(c)
		if err != nil {
			c.String(http.StatusBadGateway, "%v", err)
			return
		}
		body := first.Load()
		if body == nil {
			encoded, err := protojson.Marshal(message)
			if err != nil {
				c.String(http.StatusInternalServerError, "%v", err)
				return
			}
			body = &encoded
			first.Store(body)
		}
		c.Data(http.StatusOK, "application/json", *body)
	}
}
