package gatewaycmd

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"opsgate/cmd/internal/config"
)

// answerMax bounds what is read of an answer.
const answerMax = 4 << 10

type healthcheck struct {
	configFile

	AdminListen string        `placeholder:"ADDR" help:"Address of the admin listener, over what the file says."`
	Timeout     time.Duration `default:"2s" help:"How long to wait for the answer (${default})."`
}

// Run asks the admin listener of the gateway with the same configuration.
func (c *healthcheck) Run(ctx context.Context, e Environment) error {
	loaded, err := c.load(e, config.Setting{Key: "admin.listen", Value: c.AdminListen, From: "--admin-listen"})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+config.Reachable(loaded.Admin.Listen)+"/readyz", http.NoBody)
	if err != nil {
		return fmt.Errorf("ask for readiness: %w", err)
	}
	var transport http.Transport // no proxy stands between a gateway and its own check
	defer transport.CloseIdleConnections()
	response, err := transport.RoundTrip(request)
	if err != nil {
		return fmt.Errorf("ask for readiness: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, answerMax))
	if err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	answer := strings.TrimSpace(string(body))
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("not ready: %s", answer)
	}
	fmt.Fprintln(e.Out, answer)
	return nil
}
