package devcmd

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"opsgate/cmd/internal/certs"
	"opsgate/cmd/internal/config"
)

// askAgain is how often a gateway that is not ready is asked again.
const askAgain = 10 * time.Millisecond

// awaitReady returns true once the gateway serves and reaches all of the backend, or false when ctx ends before that.
func awaitReady(ctx context.Context, adminURL string, secured config.AdminTLS) (bool, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, adminURL+"/readyz", http.NoBody)
	if err != nil {
		return false, fmt.Errorf("ask the gateway whether it is ready: %w", err)
	}
	transport := http.Transport{TLSClientConfig: &tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: true, //nolint:gosec // the certificate itself is known, whatever its name and roots are
		VerifyConnection:   certs.IsOwn(string(secured.CertFile)),
	}}
	defer transport.CloseIdleConnections()
	tick := time.NewTicker(askAgain)
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
