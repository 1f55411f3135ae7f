package floor

import (
	"fmt"
	"io"
	"net/http"
	"runtime/debug"
	"sync/atomic"

	"github.com/gin-gonic/gin"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	fleetv1 "opsgate/proto/ops/fleet/v1"
	incidentv1 "opsgate/proto/ops/incident/v1"
)

// gcPercent is GOGC of the edge by default.
const gcPercent = 400

// New returns a handler of the compared operations of the public API, for one team. It sets the garbage collection of the process to that
// of the edge.
func New(backend *grpc.ClientConn, team string) http.Handler {
	debug.SetGCPercent(gcPercent)
	gin.SetMode(gin.ReleaseMode)
	fleet, incident := fleetv1.NewFleetServiceClient(backend), incidentv1.NewIncidentServiceClient(backend)
	e := gin.New()
	e.GET("/v1/servers", respond(func(c *gin.Context) (proto.Message, error) {
		return fleet.ListServers(c.Request.Context(), &fleetv1.ListServersRequest{TeamId: team})
	}))
	e.GET("/v1/servers/:id", respond(func(c *gin.Context) (proto.Message, error) {
		return fleet.GetServer(c.Request.Context(), &fleetv1.GetServerRequest{TeamId: team, ServerId: c.Param("id")})
	}))
	e.POST("/v1/incidents", respond(func(c *gin.Context) (proto.Message, error) {
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

// respond returns a handler that makes the call for every request, and responds with the result of the first.
func respond(call func(*gin.Context) (proto.Message, error)) gin.HandlerFunc {
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
