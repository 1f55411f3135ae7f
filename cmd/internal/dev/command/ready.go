package command

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"opsgate/cmd/internal/gate/config"
	"opsgate/internal/certs"
)

// pollEvery is the interval of readiness checks.
const pollEvery = 10 * time.Millisecond

// awaitReady returns true when the gateway is ready and reaches all services, or false if ctx ends
// before.
func awaitReady(ctx context.Context, adminURL string, files config.AdminTLS) (bool, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, adminURL+"/readyz", http.NoBody)
	if err != nil {
		return false, fmt.Errorf("get the readiness of the gateway: %w", err)
	}
	transport := http.Transport{TLSClientConfig: &tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: true, //nolint:gosec // VerifyConnection compares the certificate instead
		VerifyConnection:   certs.IsOwn(string(files.CertFile)),
	}}
	defer transport.CloseIdleConnections()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for !isReady(&transport, request) {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return false, nil
		}
	}
	return true, nil
}

func isReady(transport http.RoundTripper, request *http.Request) bool {
	response, err := transport.RoundTrip(request)
	if err != nil {
		return false
	}
	defer func() { _ = response.Body.Close() }()
	var readiness struct {
		Status string `json:"status"`
	}
	err = json.NewDecoder(response.Body).Decode(&readiness)
	return err == nil && readiness.Status == "ready"
}
