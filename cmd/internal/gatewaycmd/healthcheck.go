package gatewaycmd

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"opsgate/cmd/internal/config"
)

type healthcheck struct {
	reaching

	AdminListen string        `placeholder:"ADDR" xor:"admin" help:"Address of the admin listener, over what the file says."`
	Timeout     time.Duration `default:"2s" help:"How long to wait for the answer (${default})."`
}

// Run asks the admin listener of the gateway with the same configuration.
func (c *healthcheck) Run(ctx context.Context, e Environment) error {
	client, err := c.reach(e, config.Setting{Key: "admin.listen", Value: c.AdminListen, From: "--admin-listen"})
	if err != nil {
		return err
	}
	defer client.close()
	client.patience = c.Timeout
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	status, body, err := client.do(ctx, http.MethodGet, "/readyz", nil)
	if err != nil {
		return fmt.Errorf("ask for readiness: %w", err)
	}
	answer := strings.TrimSpace(string(body))
	if status != http.StatusOK {
		return fmt.Errorf("not ready: %s", answer)
	}
	fmt.Fprintln(e.Out, answer)
	return nil
}
