package delivery

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"opsgate/authn"
	"opsgate/backendclient/testkit"
	"opsgate/cmd/internal/backend/service"
)

// With a full disk behind the backend, writes through the gateway are 503 and reads lose nothing. Writes work again once there is space.
func TestFullDiskBehindTheGateway(t *testing.T) {
	data := testkit.SmallDisk(t)
	backend, err := service.Open(t.Context(), service.Options{DataDir: data})
	testkit.Must(t, err)
	team, err := backend.CreateTeam(t.Context(), "Harbour", service.PlanAI)
	testkit.Must(t, err)
	format := authn.TokenFormat{Prefix: "ops_"}
	token, err := format.New(rand.Reader)
	testkit.Must(t, err)
	_, err = backend.CreateToken(t.Context(), service.NewToken{
		TeamID: team.ID, Name: "test", SHA256: authn.Hash(token), Scopes: []string{"incidents:read", "incidents:write"},
	})
	testkit.Must(t, errors.Join(err, backend.Close()))
	c := startGateway(t, startService(t, data, startReceivers(t, nil)).address, token)
	write := func(title string) int {
		status, _ := c.do(http.MethodPost, "/v1/incidents", fmt.Sprintf(
			`{"title": %q, "status": "investigating", "impact": "minor", "message": %q}`, title, strings.Repeat("text ", 1000)))
		return status
	}
	ballast := filepath.Join(data, "ballast")
	testkit.Fill(t, ballast)
	created := 0
	for write("before") == http.StatusOK { // the log of SQLite may have space for some
		created++
	}
	reads, failed := 0, 0
	for range 30 {
		if status := write("refused"); status != http.StatusServiceUnavailable {
			t.Errorf("a write: %d", status)
		}
		for range 5 {
			reads++
			if status, _ := c.do(http.MethodGet, "/v1/incidents?limit=1", ""); status != http.StatusOK {
				failed++
			}
		}
	}
	if failed > 0 {
		t.Errorf("%d of %d reads failed", failed, reads)
	}
	testkit.Must(t, os.Remove(ballast))
	testkit.Eventually(t, "writes work", func() bool { return write("after") == http.StatusOK })
	if list := get[struct{ Items []struct{ ID string } }](c, "/v1/incidents?limit=100"); len(list.Items) != min(created+1, 100) {
		t.Errorf("%d incidents, %d were acknowledged", len(list.Items), created+1)
	}
}
