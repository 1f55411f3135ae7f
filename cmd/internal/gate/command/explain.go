package command

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"opsgate/cmd/internal/gate/admin"
)

// queryFlags has the flags of commands that send a request to the admin listener of a running gateway.
type queryFlags struct {
	adminFlags

	TokenFile string        `placeholder:"FILE" help:"File with the admin token; by default the configured token."`
	Timeout   time.Duration `default:"10s" help:"Time to wait for the response (${default})."`
	JSON      bool          `name:"json" help:"Print the response as JSON."`
}

// client returns a client of the admin listener, and a context with the timeout of the response.
func (a *queryFlags) client(ctx context.Context, e Environment) (*adminClient, context.Context, context.CancelFunc, error) {
	client, err := a.newClient(e)
	if err != nil {
		return nil, nil, nil, err
	}
	if a.TokenFile != "" {
		token, err := os.ReadFile(a.TokenFile)
		if err != nil {
			return nil, nil, nil, fmt.Errorf("read the admin token: %w", err)
		}
		client.token = strings.TrimRight(string(token), "\r\n") // editors add a line end
	}
	client.timeout = a.Timeout
	limited, cancel := context.WithTimeout(ctx, a.Timeout)
	return client, limited, func() { cancel(); client.close() }, nil
}

type explain struct {
	queryFlags

	TokenID string `arg:"" help:"Id of the token, as in the access log; not the token itself."`
	Method  string `arg:"" help:"Method of the request."`
	Path    string `arg:"" help:"Path of the request, with its query if it has one."`
	Team    string `placeholder:"ID" help:"Id of the token's team, if the gateway has not cached the token."`
}

// Run prints the gateway's explanation of a request.
func (c *explain) Run(ctx context.Context, e Environment) error {
	client, ctx, done, err := c.client(ctx, e)
	if err != nil {
		return err
	}
	defer done()
	query := url.Values{"token_id": {c.TokenID}, "method": {strings.ToUpper(c.Method)}, "path": {c.Path}}
	if c.Team != "" {
		query.Set("team_id", c.Team)
	}
	body, err := client.get(ctx, "/admin/explain?"+query.Encode())
	if err != nil {
		return fmt.Errorf("get the explanation: %w", err)
	}
	if c.JSON {
		_, err := e.Out.Write(body)
		return err
	}
	var x admin.Explanation
	if err := json.Unmarshal(body, &x); err != nil {
		return fmt.Errorf("read the explanation: %w", err)
	}
	return writeExplanation(e.Out, x)
}
