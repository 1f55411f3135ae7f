package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"opsgate/cmd/internal/gate/admin"
	"opsgate/internal/commandline"
	"opsgate/internal/uuid"
)

type limits struct {
	queryFlags

	TokenID string // or a part of a name; "" with Top
	Team    string // "" if the gateway has cached the token
	Reset   bool
	Top     int
}

func limitsCommand(e Environment) *cobra.Command {
	l := &limits{}
	c := &cobra.Command{
		Use: "limits [TOKEN]", Short: "Show what remains of a token's limits in a running gateway, or reset them",
		Long: `Show what remains of a token's limits in a running gateway, or reset them.

TOKEN is the id of the token, as in the access log, or a part of its name or its team's name that
only one token has which the gateway has cached. It is not the token itself.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, arguments []string) error {
			l.TokenID = strings.Join(arguments, "")
			return l.run(c.Context(), e)
		},
	}
	l.addTo(c)
	c.Flags().StringVar(&l.Team, "team", "", teamUsage)
	c.Flags().BoolVar(&l.Reset, "reset", false,
		"reset the token's usage. The gateway logs the operator: $USER, or the client certificate")
	c.Flags().IntVar(&l.Top, "top", 0, "instead of a token's limits, list the `N` tokens with the most requests")
	return c
}

func (c *limits) check() error {
	switch {
	case c.TokenID == "" && c.Top == 0:
		return commandline.UsageError{Err: errors.New("expected a token's id, or --top")}
	case c.TokenID != "" && c.Top != 0, c.Reset && c.TokenID == "":
		return commandline.UsageError{Err: errors.New("--top cannot be combined with a token's id or --reset")}
	}
	// another gateway may have cached another token with the name
	if _, isID := uuid.Canonical(c.TokenID); c.Reset && !isID {
		return commandline.UsageError{Err: errors.New("--reset needs the token's id: its name may not be unique")}
	}
	return nil
}

// run shows what remains of a token's limits, resets its usage, or lists the tokens with the most
// requests.
func (c *limits) run(ctx context.Context, e Environment) error {
	if err := c.check(); err != nil {
		return err
	}
	client, ctx, done, err := c.client(ctx, e)
	if err != nil {
		return err
	}
	defer done()
	if c.TokenID != "" {
		if c.TokenID, err = client.tokenID(ctx, c.TokenID); err != nil {
			return err
		}
	}
	target := limitsTarget(c.TokenID, c.Team)
	switch {
	case c.Top != 0:
		body, err := client.get(ctx, "/admin/limits?n="+strconv.Itoa(c.Top))
		return show[admin.Busy](e, c.JSON, body, err)
	case c.Reset:
		return resetLimits(ctx, client, target, e)
	}
	body, err := client.get(ctx, target)
	return show[admin.TokenLimits](e, c.JSON, body, err)
}

// limitsTarget returns the target of a request about the limits of a token. The team is "" if it is
// not known.
func limitsTarget(token, team string) string {
	target := "/admin/limits/" + url.PathEscape(token)
	if team != "" {
		target += "?" + url.Values{"team_id": {team}}.Encode()
	}
	return target
}

func resetLimits(ctx context.Context, client *adminClient, target string, e Environment) error {
	header := http.Header{}
	for _, variable := range e.Variables {
		if user, ok := strings.CutPrefix(variable, "USER="); ok {
			header.Set("X-Operator", user)
		}
	}
	if _, err := client.check(client.do(ctx, http.MethodDelete, target, header, nil)); err != nil {
		return fmt.Errorf("reset the limits: %w", err)
	}
	fmt.Fprintln(e.Out, "the usage of the token is reset")
	return nil
}

// show prints the body of a response, as it is or as text.
func show[T any](e Environment, asJSON bool, body []byte, err error) error {
	if err != nil {
		return fmt.Errorf("ask the gateway: %w", err)
	}
	if asJSON {
		_, err := e.Out.Write(body)
		return err
	}
	var response T
	if err := json.Unmarshal(body, &response); err != nil {
		return fmt.Errorf("read the response: %w", err)
	}
	return write(e.Out, false, response)
}
