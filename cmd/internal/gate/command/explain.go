package command

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"opsgate/cmd/internal/gate/admin"
	"opsgate/cmd/internal/gate/config"
)

// queryFlags has the flags of commands that send a request to the admin listener of a running
// gateway.
type queryFlags struct {
	adminFlags

	TokenFile string
	Timeout   time.Duration
	JSON      bool
}

func (a *queryFlags) addTo(c *cobra.Command) {
	a.addGateway(c)
	c.Flags().BoolVar(&a.JSON, "json", false, "print the response as JSON")
}

// addGateway adds the flags that select a gateway.
func (a *queryFlags) addGateway(c *cobra.Command) {
	a.adminFlags.addTo(c)
	c.Flags().StringVar(&a.TokenFile, "token-file", "", "`FILE` with the admin token; by default the configured token")
	c.Flags().DurationVar(&a.Timeout, "timeout", 10*time.Second, "`TIME` to wait for the response")
}

// client returns a client of the admin listener, and a context with the timeout of the response.
func (a *queryFlags) client(
	ctx context.Context, e Environment,
) (*adminClient, context.Context, context.CancelFunc, error) {
	var token config.Setting
	if a.TokenFile != "" {
		content, err := os.ReadFile(a.TokenFile)
		if err != nil {
			return nil, nil, nil, fmt.Errorf("read the admin token: %w", err)
		}
		// Editors add a line end.
		token = config.Setting{Key: "admin.token", Value: strings.TrimRight(string(content), "\r\n"), From: "--token-file"}
	}
	client, err := a.newClient(e, token)
	if err != nil {
		return nil, nil, nil, err
	}
	client.token = cmp.Or(token.Value, client.token)
	client.timeout = a.Timeout
	limited, cancel := context.WithTimeout(ctx, a.Timeout)
	return client, limited, func() { cancel(); client.close() }, nil
}

type explain struct {
	queryFlags

	TokenID, Method, Path string
	Team                  string // "" if the gateway has cached the token
}

func explainCommand(e Environment) *cobra.Command {
	x := &explain{}
	c := &cobra.Command{
		Use: "explain TOKEN METHOD PATH", Short: "Show how a running gateway would answer a request, and why",
		Long: `Show how a running gateway would answer a request, and why.

TOKEN is the id of the token, as in the access log, or a part of its name or its team's name that
only one token has which the gateway has cached. It is not the token itself. METHOD is in capitals,
as HTTP has it. PATH has a query if the request has one.`,
		RunE: func(c *cobra.Command, arguments []string) error {
			x.TokenID, x.Method, x.Path = arguments[0], arguments[1], arguments[2]
			return x.run(c.Context(), e)
		},
	}
	x.addTo(c)
	c.Flags().StringVar(&x.Team, "team", "", teamUsage)
	return c
}

// teamUsage describes the flag --team.
const teamUsage = "`ID` of the token's team, if the gateway has not cached the token"

// run prints the gateway's explanation of a request.
func (c *explain) run(ctx context.Context, e Environment) error {
	client, ctx, done, err := c.client(ctx, e)
	if err != nil {
		return err
	}
	defer done()
	tokenID, err := client.tokenID(ctx, c.TokenID)
	if err != nil {
		return err
	}
	query := url.Values{"token_id": {tokenID}, "method": {c.Method}, "path": {c.Path}}
	if c.Team != "" {
		query.Set("team_id", c.Team)
	}
	body, err := client.get(ctx, "/admin/explain?"+query.Encode())
	return show[admin.Explanation](e, c.JSON, body, err)
}
