package command

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"opsgate/cmd/internal/gate/config"
)

type healthcheck struct {
	adminFlags

	AdminListen string        `placeholder:"ADDR" xor:"admin" help:"Address of the admin listener; overrides the file."`
	Timeout     time.Duration `default:"2s" help:"Time to wait for the response (${default})."`
}

// Run prints the response of /readyz.
func (c *healthcheck) Run(ctx context.Context, e Environment) error {
	client, err := c.newClient(e, config.Setting{Key: "admin.listen", Value: c.AdminListen, From: "--admin-listen"})
	if err != nil {
		return err
	}
	defer client.close()
	client.timeout = c.Timeout
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	status, body, err := client.do(ctx, http.MethodGet, "/readyz", nil)
	if err != nil {
		return fmt.Errorf("get the readiness: %w", err)
	}
	text := strings.TrimSpace(string(body))
	if status != http.StatusOK {
		return fmt.Errorf("not ready: %s", text)
	}
	fmt.Fprintln(e.Out, text)
	return nil
}
