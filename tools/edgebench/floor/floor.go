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

// gcPercent is the edge's own default.
const gcPercent = 400

// New returns what answers the public API's requests, as far as they are compared, with what the backend has for a team. It has the
// process collect garbage as the edge does.
func New(backend *grpc.ClientConn, team string) http.Handler {
	debug.SetGCPercent(gcPercent)
	gin.SetMode(gin.ReleaseMode)
	fleet, incident := fleetv1.NewFleetServiceClient(backend), incidentv1.NewIncidentServiceClient(backend)
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
