package command

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"opsgate/cmd/internal/gate/config"
)

type healthcheck struct {
	adminFlags

	AdminListen string
	Timeout     time.Duration
}

func healthcheckCommand(e Environment) *cobra.Command {
	h := &healthcheck{}
	c := &cobra.Command{
		Use: "healthcheck", Short: "Report whether a gateway is ready; exit 1 if it is not",
		RunE: func(c *cobra.Command, _ []string) error { return h.run(c.Context(), e) },
	}
	h.addTo(c)
	c.Flags().StringVar(&h.AdminListen, "admin-listen", "", "`ADDR` of the admin listener; overrides the file")
	c.Flags().DurationVar(&h.Timeout, "timeout", 2*time.Second, "`TIME` to wait for the response")
	c.MarkFlagsMutuallyExclusive("admin", "admin-listen")
	return c
}

// run prints the response of /readyz.
func (c *healthcheck) run(ctx context.Context, e Environment) error {
	client, err := c.newClient(e, config.Setting{Key: "admin.listen", Value: c.AdminListen, From: "--admin-listen"})
	if err != nil {
		return err
	}
	defer client.close()
	client.timeout = c.Timeout
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	status, body, err := client.do(ctx, http.MethodGet, "/readyz", nil, nil)
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
