package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"opsgate/authn"
	"opsgate/cmd/internal/backend/service"
	"opsgate/cmd/internal/kit/commandline"
)

type teamGroup struct {
	Create teamCreate `cmd:"" help:"Create a team and print its id."`
	List   teamList   `cmd:"" help:"List the teams."`
}

type teamCreate struct {
	dataDir

	Name string `arg:"" help:"Name of the team."`
	Plan string `enum:"ai,basic" default:"ai" help:"Plan: ai, which has the public API, or basic (${default})."`
}

// Run creates the team.
func (c *teamCreate) Run(ctx context.Context, e Environment) error {
	return c.create(ctx, e, func(b *service.Backend) error {
		team, err := b.CreateTeam(ctx, c.Name, c.Plan)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(e.Out, team.ID)
		return err
	})
}

type teamList struct{ dataDir }

// Run lists the teams.
func (c *teamList) Run(ctx context.Context, e Environment) error {
	return c.use(ctx, e, func(b *service.Backend) error {
		teams, err := b.Teams(ctx)
		if err != nil {
			return err
		}
		return table(e.Out, "ID\tNAME\tPLAN\tCREATED", len(teams), func(i int) string {
			t := teams[i]
			return fmt.Sprintf("%s\t%s\t%s\t%s", t.ID, t.Name, t.Plan, when(t.CreatedAt))
		})
	})
}

type tokenGroup struct {
	Create tokenCreate `cmd:"" help:"Create a token and print it. It is not shown again."`
	Mint   tokenMint   `cmd:"" help:"Print a new token and its SHA-256, for the database of another identity service. Nothing is stored."`
	List   tokenList   `cmd:"" help:"List the tokens, without their text."`
	Revoke tokenRevoke `cmd:"" help:"Revoke a token. Running servers report it to gateways within a second."`
}

type tokenCreate struct {
	dataDir
	tokenFormat

	Team   string        `required:"" placeholder:"ID|NAME" help:"Team that the token acts for."`
	Scopes []authn.Scope `placeholder:"SCOPE,..." help:"Scopes of the token, for example servers:read; none by default."`
	Name   string        `placeholder:"NAME" help:"Name of the token."`
}

// Run creates a token, stores its hash and prints the token.
func (c *tokenCreate) Run(ctx context.Context, e Environment) error {
	scopes := make([]string, len(c.Scopes))
	for i, scope := range c.Scopes {
		if !slices.Contains(authn.AllScopes(), scope) {
			return commandline.UsageError{Err: fmt.Errorf("no such scope: %q (there are %v)", scope, authn.AllScopes())}
		}
		scopes[i] = string(scope)
	}
	text, err := c.format().New(e.Random)
	if err != nil {
		return err
	}
	return c.use(ctx, e, func(b *service.Backend) error {
		team, err := b.FindTeam(ctx, c.Team)
		if err != nil {
			return err
		}
		token, err := b.CreateToken(ctx, service.NewToken{
			TeamID: team.ID, Name: c.Name, SHA256: authn.Hash(text), Scopes: scopes,
		})
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(e.Out, text)
		_, noted := fmt.Fprintf(e.Err, "Token %s of team %s. It is not shown again.\n", token.ID, team.Name)
		return errors.Join(err, noted)
	})
}

type tokenMint struct{ tokenFormat }

// Run prints a new token and its hash to standard output.
func (c *tokenMint) Run(e Environment) error {
	text, err := c.format().New(e.Random)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(e.Out, "token   %s\nsha256  %x\n", text, authn.Hash(text))
	return err
}

type tokenList struct{ dataDir }

// Run lists the tokens.
func (c *tokenList) Run(ctx context.Context, e Environment) error {
	return c.use(ctx, e, func(b *service.Backend) error {
		tokens, err := b.Tokens(ctx)
		if err != nil {
			return err
		}
		return table(e.Out, "ID\tTEAM\tNAME\tSCOPES\tCREATED\tREVOKED", len(tokens), func(i int) string {
			t := tokens[i]
			return fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%s",
				t.ID, t.TeamID, t.Name, list(t.Scopes), when(t.CreatedAt), when(t.RevokedAt))
		})
	})
}

type tokenRevoke struct {
	dataDir

	ID string `arg:"" help:"Id of the token from the list, not the token itself."`
}

// Run revokes the token.
func (c *tokenRevoke) Run(ctx context.Context, e Environment) error {
	return c.use(ctx, e, func(b *service.Backend) error {
		token, err := b.RevokeToken(ctx, c.ID)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(e.Out, "%s\trevoked\t%s\n", token.ID, when(token.RevokedAt))
		return err
	})
}

// table writes rows of tab-separated cells as a table.
func table(w io.Writer, heading string, rows int, row func(i int) string) error {
	columns := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(columns, heading)
	for i := range rows {
		fmt.Fprintln(columns, row(i))
	}
	return columns.Flush()
}

// when formats a time for a table.
func when(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}
